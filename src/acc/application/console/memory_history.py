"""What a memory contained in each turn, and why its lines changed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from acc.domain.value_objects.ccs import item_content
from acc.domain.value_objects.event import Event, EventKind

_MIN_SHARE_OF_TERMS = 0.5
#: Fields that describe the current turn only.
_PER_TURN = frozenset(
    {"episodic_trace", "semantic_gist", "goal_orientation", "predictive_cue", "uncertainty_signal"}
)

Terms = Callable[[str], Collection[str]]


class Change(StrEnum):
    """How a line of the state differs from the turn before."""

    ADDED = "added"
    REMOVED = "removed"
    UNCHANGED = "unchanged"


class StateLine(NamedTuple):
    """A line of the state: its field, text, where it comes from and why it changed."""

    change: Change
    field: str
    text: str
    source: str
    reason: str


class Item(NamedTuple):
    """A passage or sentence that a memory used or did not use."""

    id: str
    text: str
    reason: str


class MemoryTurn(NamedTuple):
    """The state of one memory in one turn."""

    seq: int
    author: str
    turn: int
    tokens: int
    lines: tuple[StateLine, ...]
    readings: tuple[Item, ...]
    recalled: tuple[Item, ...]
    rejected: tuple[Item, ...]
    dropped: tuple[str, ...]
    notes: tuple[str, ...]


class Finding(NamedTuple):
    """What happened to a searched text in one turn; `kind` names it."""

    turn: int
    seq: int
    kind: str
    text: str
    reason: str


def state_items(detail: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return the lines of a recorded state by field and text, with their provenance."""
    snapshot = detail.get("snapshot")
    state = snapshot.get("ccs") if isinstance(snapshot, Mapping) else None
    if not isinstance(state, Mapping):
        lines = str(detail.get("ccs", "")).splitlines()
        pairs = (line.partition(": ")[::2] for line in lines if line)
        return {(field, text): "" for field, value in pairs for text in value.split(" | ")}
    return {
        (str(field), text): source
        for field, value in state.items()
        for text, source in _field_items(str(field), value)
    }


def _field_items(field: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if value:
            yield value, ""
    elif field == "uncertainty_signal":
        for text in value.get("unconfirmed", ()):
            yield f"{value.get('level', '')}: {text}", ""
    else:
        for item in value:
            if isinstance(item, str):
                yield item, ""
            elif "artifact_id" in item:
                yield str(item["artifact_id"]), str(item.get("provenance", ""))
            else:
                yield str(item.get("text", "")), str(item.get("set_by", ""))


def describe_turns(
    memories: Sequence[Event], messages: Sequence[Event], *, limit: int
) -> list[MemoryTurn]:
    """Return the newest turns of the memories of a session, newest first.

    Both kinds of events are newest first. A further memory than `limit` is what the oldest turn is
    compared with.
    """
    numbers = {m.run_id: int(m.detail["turn"]) for m in messages if "turn" in m.detail}
    turns: list[MemoryTurn] = []
    last: dict[str, tuple[Event, MemoryTurn]] = {}
    for event in reversed(memories):
        sources = [message for message in messages if message.seq < event.seq]
        turn = _describe_turn(event, last.get(event.author), sources, numbers.get(event.run_id, 0))
        last[event.author] = (event, turn)
        turns.append(turn)
    return turns[::-1][:limit]


def _describe_turn(
    event: Event,
    previous: tuple[Event, MemoryTurn] | None,
    messages: Sequence[Event],
    turn: int,
) -> MemoryTurn:
    """Return the state that an event recorded, compared with the state before.

    `messages` are those up to the event, newest first; they are the sources of lines. An unchanged
    line keeps its source and its reason.
    """
    detail = event.detail
    now = state_items(detail)
    before = {} if previous is None else state_items(previous[0].detail)
    readings = [*detail.get("read", ())]
    known: dict[tuple[str, str], StateLine] = {}
    if previous is not None:
        readings += previous[0].detail.get("read", ())
        known = {(line.field, line.text): line for line in previous[1].lines}

    def source(line: tuple[str, str], provenance: str) -> str:
        return provenance if line[0] == "retrieved_artifacts" else _source(line[1], messages)

    lines = [
        known[line]._replace(change=Change.UNCHANGED)
        if line in before
        else StateLine(
            Change.ADDED, *line, source(line, provenance), _why_added(line, readings, before)
        )
        for line, provenance in now.items()
    ]
    lines += [
        StateLine(Change.REMOVED, *line, source(line, provenance), _why_removed(line, detail, now))
        for line, provenance in before.items()
        if line not in now
    ]
    return MemoryTurn(
        seq=event.seq,
        author=event.author,
        turn=turn,
        tokens=int(detail.get("tokens", 0)),
        lines=tuple(lines),
        readings=tuple(
            Item("", str(r["text"]), f"{r['act']} ({r['confidence']:.2f})")
            for r in detail.get("read", ())
        ),
        recalled=tuple(
            Item(str(item["id"]), str(item["text"]), "") for item in detail.get("qualified", ())
        ),
        rejected=tuple(
            Item(str(item["id"]), str(item["text"]), f"{item['reason']}: {item['explanation']}")
            for item in detail.get("rejected", ())
        ),
        dropped=tuple(map(str, detail.get("dropped", ()))),
        notes=tuple(map(str, detail.get("notes", ()))),
    )


def _source(text: str, messages: Sequence[Event]) -> str:
    """Return the newest message that contains the content of a line, of the user if possible."""
    content = item_content(text)
    found = [message for message in messages if content and content in message.text]
    if not found:
        return ""
    first = next((message for message in found if message.author == "user"), found[0])
    turn = first.detail.get("turn")
    return f"{first.author} #{first.seq}" if turn is None else f"user, turn {turn}"


def _why_added(
    line: tuple[str, str],
    readings: Sequence[Mapping[str, Any]],
    before: Collection[tuple[str, str]],
) -> str:
    """Return the reason for a new line; `readings` are those of this turn and the one before."""
    field, content = line[0], item_content(line[1])
    if field == "retrieved_artifacts":
        return "recalled: it matches the message"
    for old_field, old_text in before:
        if old_field != field and item_content(old_text) == content:
            return f"moved from {old_field}"
    if field in _PER_TURN:
        return "describes this turn"
    for reading in readings:
        if content and content in reading["text"]:
            return f"read as {reading['act']} ({reading['confidence']:.2f})"
    return ""


def _why_removed(
    line: tuple[str, str], detail: Mapping[str, Any], now: Collection[tuple[str, str]]
) -> str:
    field, content = line[0], item_content(line[1])
    for new_field, new_text in now:
        if new_field != "episodic_trace" and item_content(new_text) == content:
            return f"moved to {new_field}"
    for new_field, new_text in now:
        if (
            new_field == "episodic_trace"
            and content
            and content in new_text
            and field not in _PER_TURN
        ):
            return new_text
    if any(content and content in str(text) for text in detail.get("dropped", ())):
        return "dropped: the budget is full"
    if field == "retrieved_artifacts":
        return "not recalled for this message"
    return "described the turn before" if field in _PER_TURN else "superseded"


def explain(
    query: str,
    turns: Sequence[MemoryTurn],
    messages: Sequence[Event],
    *,
    terms: Terms,
) -> tuple[Finding, ...]:
    """Return what happened to a text: said, read, added, removed, recalled, rejected, dropped.

    A text matches if it has at least half of the terms of the query.
    """
    wanted = frozenset(terms(query))

    def matches(text: str) -> bool:
        found = wanted.intersection(terms(text))
        return bool(wanted) and len(found) >= _MIN_SHARE_OF_TERMS * len(wanted)

    findings = [
        Finding(int(m.detail.get("turn", 0)), m.seq, "message", m.text, m.author)
        for m in messages
        if m.kind is EventKind.MESSAGE and m.author == "user" and matches(m.text)
    ]
    for turn in turns:
        items = [
            *(("read", i.text, i.reason) for i in turn.readings),
            *(
                (i.change.value, i.text, f"{i.field}. {i.reason}")
                for i in turn.lines
                if i.change is not Change.REMOVED or i.field not in _PER_TURN
            ),
            *(("recalled", i.text, i.id) for i in turn.recalled),
            *(("rejected", i.text, f"{i.id}. {i.reason}") for i in turn.rejected),
            *(("dropped", text, "the budget is full") for text in turn.dropped),
        ]
        findings += [
            Finding(turn.turn, turn.seq, kind, text, reason)
            for kind, text, reason in items
            if matches(text)
        ]
    findings.sort(key=lambda finding: finding.seq)
    return tuple(findings)
