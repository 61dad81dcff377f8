"""Notes of an ACC memory: which of them a view shows, and as what."""

from collections.abc import Iterable, Mapping, Sequence

from acc.domain.ccs import LIMITS
from acc.domain.language import one_line
from acc.domain.value_objects.ccs import StandingConstraint
from acc.domain.value_objects.memory import Note
from acc.domain.value_objects.reading import Act

#: Size of the name of the field for notes.
_HEADING_TOKENS = 6
_KINDS = {Act.STATE: "fact", Act.CORRECT: "fact", Act.SET: "wish", Act.ONCE: "task"}


def rank_notes(
    notes: Sequence[Note],
    texts: Mapping[str, str],
    rules: Iterable[StandingConstraint],
    turn_id: int,
) -> list[tuple[int, Note]]:
    """Return the notes that a turn may show with their places, the most important first.

    Newer ones are first if they are equal. A note that is a rule or belongs to the turn is omitted.
    """
    shown = {rule.text for rule in rules}
    order = [
        (note.score, note.turn_id, -place, note)
        for place, note in enumerate(notes)
        if note.turn_id != turn_id and (text := texts.get(note.id)) and text not in shown
    ]
    order.sort(reverse=True)
    return [(-place, note) for _, _, place, note in order]


def choose_notes(
    ranked: Sequence[tuple[int, Note]], tokens: int, limit: int
) -> tuple[list[Note], int]:
    """Return the best notes that fit into a limit in the order of the conversation, and the size.

    `tokens` is the size of the state without notes.
    """
    chosen: list[tuple[int, Note]] = []
    total = tokens + _HEADING_TOKENS
    for item in ranked:
        size = total + item[1].tokens
        if size <= limit:
            chosen.append(item)
            total = size
            if len(chosen) == LIMITS["relational_map"].items:
                break
    chosen.sort()
    return [note for _, note in chosen], total if chosen else tokens


def fact_item(note: Note, texts: Mapping[str, str]) -> str:
    """Return a note as an item of the state."""
    text = texts[note.id]
    if note.replaced in texts:
        text = f"{text} (instead of: {texts[note.replaced]})"
    return f"{_KINDS.get(note.act, 'said')}({clip_item(text, 'relational_map', 8)})"


def clip_item(text: str, field: str, reserved: int = 0) -> str:
    """Return a text as an item of a field, with room for so many more characters."""
    line = one_line(text)
    limit = LIMITS[field].characters - reserved
    return line if len(line) <= limit else line[: limit - 3].rstrip() + "..."
