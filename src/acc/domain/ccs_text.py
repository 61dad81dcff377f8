r"""The compact text form of a state: a line a field, empty fields left out.

    goal_orientation: Restore checkout before 18:00
    constraints: Keep every answer under 60 words | Never restart db-1 <by Mara>
    uncertainty_signal: medium | the root cause

Items are separated by ` | `. Within a text `\p`, `\l`, `\g` and `\\` stand for `|`, `<`, `>`
and `\`.
"""

import re
from collections.abc import Mapping, Sequence

from acc.domain.ccs_schema import LIMITS, parse_state
from acc.domain.errors import InvalidState
from acc.domain.value_objects.ccs import (
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintySignal,
)

_SUFFIX = re.compile(r"^(.*) <(.*)>$")
_CODES = {"\\": "\\\\", "|": "\\p", "<": "\\l", ">": "\\g"}
_ESCAPES = str.maketrans(_CODES)
_CODE = re.compile(r"\\[\\plg]")
_TEXTS = {code: text for text, code in _CODES.items()}
#: The fields that hold one text each.
TEXT_FIELDS = frozenset({"semantic_gist", "goal_orientation", "predictive_cue"})


def render_state(state: CompressedCognitiveState) -> str:
    """Return the text form."""
    return join_fields({name: render_items(state, name) for name in LIMITS})


def join_fields(items: Mapping[str, Sequence[str]]) -> str:
    """Return the text form of a state whose items are rendered already, by field."""
    return "\n".join(f"{name}: {' | '.join(texts)}" for name, texts in items.items() if texts)


def render_items(state: CompressedCognitiveState, name: str) -> list[str]:
    """Return one field's items in text form."""
    value = getattr(state, name)
    if name in TEXT_FIELDS:
        return [_escape(value)] if value else []
    if name == "constraints":
        return [_render_constraint(constraint) for constraint in state.constraints]
    if name == "retrieved_artifacts":
        return [
            f"{_escape(r.artifact_id)} <{_escape(r.provenance)}>" for r in state.retrieved_artifacts
        ]
    if name == "uncertainty_signal":
        if state.uncertainty_signal == UncertaintySignal():
            return []
        signal = state.uncertainty_signal
        return [signal.level.value, *(_escape(item) for item in signal.unconfirmed)]
    return [_escape(item) for item in value]


def parse_text(text: str) -> CompressedCognitiveState:
    """Return the state in a text form, or raise InvalidState."""
    fields: dict[str, object] = {name: "" if name in TEXT_FIELDS else [] for name in LIMITS}
    fields["uncertainty_signal"] = {"level": "low", "unconfirmed": []}
    seen: set[str] = set()
    for line in text.split("\n"):
        if not line:
            continue
        name, colon, rest = line.partition(": ")
        if not colon or name not in LIMITS:
            raise InvalidState("text", f"a line must start with a field and a colon: {line[:60]!r}")
        if name in seen:
            raise InvalidState(name, "stands twice")
        seen.add(name)
        fields[name] = _parse_field(name, rest)
    return parse_state(fields)


def _parse_field(name: str, rest: str) -> object:
    if name in TEXT_FIELDS:
        return _unescape(rest)
    items = rest.split(" | ")
    if name == "constraints":
        return [_parse_pair(item, "text", "set_by", "user") for item in items]
    if name == "retrieved_artifacts":
        return [_parse_pair(item, "artifact_id", "provenance", "") for item in items]
    if name == "uncertainty_signal":
        return {"level": items[0], "unconfirmed": [_unescape(item) for item in items[1:]]}
    return [_unescape(item) for item in items]


def _render_constraint(constraint: StandingConstraint) -> str:
    text = _escape(constraint.text)
    return text if constraint.set_by == "user" else f"{text} <by {_escape(constraint.set_by)}>"


def _parse_pair(item: str, first: str, second: str, default: str) -> dict[str, str]:
    match = _SUFFIX.match(item)
    if match is None:
        return {first: _unescape(item), second: default}
    value = _unescape(match[2])
    return {
        first: _unescape(match[1]),
        second: value.removeprefix("by ") if second == "set_by" else value,
    }


def _escape(text: str) -> str:
    # Nearly no text needs it, and looking is many times as fast as translating.
    if "|" in text or "<" in text or ">" in text or "\\" in text:
        return text.translate(_ESCAPES)
    return text


def _unescape(text: str) -> str:
    return _CODE.sub(lambda match: _TEXTS[match[0]], text)
