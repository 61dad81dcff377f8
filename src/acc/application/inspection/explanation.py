"""Explain what became of a statement: said, read, kept, replaced, rejected or dropped.

Everything comes from the stored events of a session: its messages, and what its memories recorded
in each turn.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from acc.domain.language import STOPWORDS, normalize_text
from acc.domain.segmentation import split_message
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.event import Event, EventKind

_LETTER = r"[^\W_\u3041-\u30ff\u3400-\u9fff々〆ヶー]"
_WORD = re.compile(rf"{_LETTER}(?:{_LETTER}|[_.-])*")
_UNSPACED = re.compile(r"[\u30a1-\u30ff\u3400-\u9fff々〆ヶー]+")
#: Words of a question about the memory that say nothing about its topic.
_QUESTION_WORDS = frozenset(
    {"rule", "rules", "fact", "facts", "about", "statement", "constraint", "regarding", "said"}
)
_MIN_SHARE = 0.6
_IDENTIFIER_WEIGHT = 3.0


class Step(StrEnum):
    """What happened to a statement in a turn."""

    SAID = "said"
    READ = "read"
    IGNORED = "ignored"
    KEPT = "kept"
    REPLACED = "replaced"
    REJECTED = "rejected"
    DROPPED = "dropped"
    RECALLED = "recalled"
    ABSENT = "absent"


class HistoryEntry(Value, frozen=True, kw_only=True):
    """One step in the history of a statement; `agent` is the owner of the memory."""

    turn: int
    step: Step
    reason: str
    agent: str = ""
    seq: int = 0
    at: float = 0.0


class StatementHistory(Value, frozen=True, kw_only=True):
    """A sentence of the user and what became of it.

    `in_view` has, by turn, whether the memory showed the sentence to the model. It is empty if no
    memory recorded its decisions.
    """

    text: str
    turn: int
    entries: tuple[HistoryEntry, ...]
    in_view: Mapping[int, bool]


def explain_statements(events: Sequence[Event], query: str) -> tuple[StatementHistory, ...]:
    """Return the histories of the sentences of the user that a query is about, oldest first."""
    turns = _turns(events)
    wanted = _terms(query, skip=_QUESTION_WORDS) or _terms(query)
    scored: list[tuple[float, int, Event, str]] = []
    for event in events:
        if event.kind is EventKind.MESSAGE and event.author == "user":
            turn = turns[event.run_id]
            for sentence in split_message(event.text):
                score = _score(wanted, _terms(sentence.text))
                if score:
                    scored.append((score, turn, event, sentence.text))
    best = max((score for score, *_ in scored), default=0.0)
    memories = [event for event in events if event.kind is EventKind.MEMORY]
    return tuple(
        _history(text, turn, message, memories, turns)
        for score, turn, message, text in scored
        if score >= best * _MIN_SHARE
    )


def _turns(events: Sequence[Event]) -> dict[str, int]:
    """Return the number of the turn of each run."""
    turns: dict[str, int] = {}
    for event in events:
        if event.run_id not in turns:
            turns[event.run_id] = int(event.detail.get("turn", len(turns) + 1))
    return turns


def _terms(text: str, skip: frozenset[str] = frozenset()) -> dict[str, float]:
    """Return the terms of a text with their weights; identifiers such as db-1 count more."""
    normal = normalize_text(text).lower()
    terms: dict[str, float] = {}
    for match in _WORD.finditer(normal):
        word = match[0].rstrip(".-")
        if word in STOPWORDS or word in skip:
            continue
        is_identifier = any(c.isdigit() for c in word) or "-" in word
        terms[word] = _IDENTIFIER_WEIGHT if is_identifier else 1.0
    for match in _UNSPACED.finditer(normal):
        run = match[0]
        for n in range(max(1, len(run) - 1)):
            terms[run[n : n + 2]] = 1.0
    return terms


def _score(wanted: Mapping[str, float], found: Mapping[str, float]) -> float:
    return sum(weight for term, weight in wanted.items() if term in found)


def _history(
    text: str,
    turn: int,
    message: Event,
    memories: Sequence[Event],
    turns: Mapping[str, int],
) -> StatementHistory:
    entries = [
        HistoryEntry(
            turn=turn,
            step=Step.SAID,
            reason=f"in event {message.seq}",
            seq=message.seq,
            at=message.at,
        )
    ]
    in_view: dict[int, bool] = {}
    last: dict[str, tuple[Step, str]] = {}
    for event in memories:
        now = turns[event.run_id]
        if now < turn or (now == turn and event.seq < message.seq):
            continue
        for step, reason in _steps(text, turn, now, event):
            if step is Step.ABSENT and last.get(event.author, (step,))[0] is Step.REPLACED:
                continue
            # What stays the same is not repeated.
            if step is Step.READ or last.get(event.author) != (step, reason):
                entries.append(
                    HistoryEntry(
                        turn=now,
                        step=step,
                        reason=reason,
                        agent=event.author,
                        seq=event.seq,
                        at=event.at,
                    )
                )
            if step is not Step.READ:
                last[event.author] = (step, reason)
        is_shown = bool(_places(text, event.detail)) or _is_recalled(text, event.detail)
        in_view[now] = in_view.get(now, False) or is_shown or now == turn
    return StatementHistory(text=text, turn=turn, entries=tuple(entries), in_view=in_view)


def _steps(text: str, turn: int, now: int, event: Event) -> Iterator[tuple[Step, str]]:
    """Yield what a memory did with a sentence in one turn."""
    detail = event.detail
    if now == turn:
        reading = next((r for r in _items(detail, "read") if r["text"] == text), None)
        if reading is None:
            yield Step.IGNORED, "read as neither a rule nor a fact"
            return
        yield Step.READ, f"as {reading['act']} with confidence {reading['confidence']}"
    places = _places(text, detail)
    replaced = any(
        str(note).endswith(f"replaced: {text}") or f"replaced: {text}" in str(note)
        for note in _state(detail).get("episodic_trace", ())
    )
    if replaced:
        by = "; ".join(
            f"{r['text']!r} (read as {r['act']}, confidence {r['confidence']})"
            for r in _items(detail, "read")
            if r["act"] in ("change", "lift", "correct")
        )
        yield Step.REPLACED, f"by {by}" if by else "by a later statement"
    elif places:
        yield Step.KEPT, f"in {', '.join(places)}"
    elif any(text in str(item) for item in _list(detail, "dropped")):
        yield Step.DROPPED, "the state has no room for it within its token budget"
    elif (rejection := _rejection(text, detail)) is not None:
        yield Step.REJECTED, rejection
    elif _is_recalled(text, detail):
        yield Step.RECALLED, "its message is shown as evidence"
    else:
        yield Step.ABSENT, "neither in the state nor recalled for the message of this turn"


def _rejection(text: str, detail: Mapping[str, Any]) -> str | None:
    for rejected in _items(detail, "rejected"):
        if text in normalize_text(str(rejected["text"])):
            return f"{rejected['reason']}: {rejected['explanation']}"
    return None


def _is_recalled(text: str, detail: Mapping[str, Any]) -> bool:
    shown = _items(detail, "qualified")
    if any(text in normalize_text(str(passage["text"])) for passage in shown):
        return True
    # The last exchange is part of the prompt, so it is not recalled in addition.
    return any(
        text in normalize_text(str(passage["text"])) and passage["reason"] == "duplicate"
        for passage in _items(detail, "rejected")
    )


def _places(text: str, detail: Mapping[str, Any]) -> list[str]:
    """Return the fields of the state that contain a sentence."""
    places: list[str] = []
    for name, value in _state(detail).items():
        if name != "episodic_trace" and text in _flat(value):
            places.append(name)
    return places


def _flat(value: object) -> str:
    if isinstance(value, Mapping):
        return "\n".join(map(_flat, value.values()))
    if isinstance(value, list | tuple):
        return "\n".join(map(_flat, value))
    return str(value)


def _state(detail: Mapping[str, Any]) -> Mapping[str, Any]:
    snapshot = detail.get("snapshot")
    state = snapshot.get("ccs") if isinstance(snapshot, Mapping) else None
    return state if isinstance(state, Mapping) else {}


def _list(detail: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = detail.get(name)
    return value if isinstance(value, list | tuple) else ()


def _items(detail: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [item for item in _list(detail, name) if isinstance(item, Mapping)]
