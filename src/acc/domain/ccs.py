"""From an untrusted payload to a Compressed Cognitive State, or an error naming field and fault."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acc.domain.errors import InvalidInput, InvalidState
from acc.domain.language import one_line
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLimit:
    """How many items a field may hold and how long each may be, in characters."""

    items: int
    characters: int


#: Stands for a text that may be empty, and is.
_ANY = "-"
LIMITS: Mapping[str, FieldLimit] = {
    "episodic_trace": FieldLimit(items=6, characters=240),
    "semantic_gist": FieldLimit(items=1, characters=240),
    "focal_entities": FieldLimit(items=12, characters=120),
    "relational_map": FieldLimit(items=24, characters=320),
    "goal_orientation": FieldLimit(items=1, characters=320),
    "constraints": FieldLimit(items=24, characters=400),
    "predictive_cue": FieldLimit(items=1, characters=240),
    "uncertainty_signal": FieldLimit(items=6, characters=240),
    "retrieved_artifacts": FieldLimit(items=8, characters=80),
}
_ITEM = "kind(content), such as fact(The lead is Bo.)"
_MEANINGS = {
    "episodic_trace": "what this turn changed",
    "semantic_gist": "what the turn is about, in one line",
    "focal_entities": "who and what matters now, as kind(name), such as service(nginx)",
    "relational_map": f"what is known and needed, the least needed first, each as {_ITEM}",
    "goal_orientation": "the lasting objective of the user",
    "constraints": "every rule in force, word for word, and who set it",
    "predictive_cue": "what the turn calls for next",
    "uncertainty_signal": "how sure this is, and what is not confirmed",
    "retrieved_artifacts": "the evidence that was used",
}
_TYPED_ITEM = r"^[a-z][a-z0-9_]*\(.+\)$"


def json_schema() -> dict[str, object]:
    """Return the JSON schema of what `parse_state` takes, with the limits of every field."""
    texts = {name: {"type": "string", "maxLength": LIMITS[name].characters} for name in LIMITS}
    typed = {
        name: {**texts[name], "pattern": _TYPED_ITEM}
        for name in ("focal_entities", "relational_map")
    }
    kinds: dict[str, dict[str, object]] = {
        "semantic_gist": texts["semantic_gist"],
        "goal_orientation": texts["goal_orientation"],
        "predictive_cue": texts["predictive_cue"],
        "episodic_trace": _array("episodic_trace", texts["episodic_trace"]),
        "focal_entities": _array("focal_entities", typed["focal_entities"]),
        "relational_map": _array("relational_map", typed["relational_map"]),
        "constraints": _array(
            "constraints", _object(dict.fromkeys(("text", "set_by"), texts["constraints"]))
        ),
        "uncertainty_signal": _object(
            {
                "level": {"type": "string", "enum": [level.value for level in UncertaintyLevel]},
                "unconfirmed": _array("uncertainty_signal", texts["uncertainty_signal"]),
            }
        ),
        "retrieved_artifacts": _array(
            "retrieved_artifacts",
            _object(dict.fromkeys(("artifact_id", "provenance"), texts["retrieved_artifacts"])),
        ),
    }
    return _object({name: {**kinds[name], "description": _MEANINGS[name]} for name in LIMITS})


def _array(name: str, items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": dict(items), "maxItems": LIMITS[name].items}


def _object(properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def parse_state(payload: object) -> CompressedCognitiveState:
    """Return the state that `payload` describes; all nine fields must be there."""
    fields = _mapping(payload, "state")
    if missing := [name for name in LIMITS if name not in fields]:
        raise InvalidState(missing[0], "is missing")
    if unknown := sorted(str(name) for name in fields if name not in LIMITS):
        raise InvalidState(unknown[0], f"is unknown; the fields are {', '.join(LIMITS)}")
    try:
        return CompressedCognitiveState(
            episodic_trace=_texts(fields, "episodic_trace"),
            semantic_gist=_text(fields["semantic_gist"], "semantic_gist", blank=True),
            focal_entities=_texts(fields, "focal_entities"),
            relational_map=_texts(fields, "relational_map"),
            goal_orientation=_text(fields["goal_orientation"], "goal_orientation", blank=True),
            constraints=tuple(
                _constraint(item, f"constraints[{place}]")
                for place, item in enumerate(_list(fields, "constraints"))
            ),
            predictive_cue=_text(fields["predictive_cue"], "predictive_cue", blank=True),
            uncertainty_signal=_uncertainty(fields["uncertainty_signal"]),
            retrieved_artifacts=tuple(
                _reference(item, f"retrieved_artifacts[{place}]")
                for place, item in enumerate(_list(fields, "retrieved_artifacts"))
            ),
        )
    except ValueError as error:
        name, _, fault = str(error).partition(": ")
        raise InvalidState(name, fault) from error


def check_limits(state: CompressedCognitiveState) -> None:
    """Raise InvalidState where a state that was built in code breaks the schema."""
    # A look is enough for nearly every state; taking one apart names the field and the fault.
    if not _is_within_limits(state):
        parse_state(as_payload(state))


def _is_within_limits(state: CompressedCognitiveState) -> bool:
    constraints, references = state.constraints, state.retrieved_artifacts
    signal = state.uncertainty_signal
    texts = {
        "episodic_trace": state.episodic_trace,
        "semantic_gist": (state.semantic_gist or _ANY,),
        "focal_entities": state.focal_entities,
        "relational_map": state.relational_map,
        "goal_orientation": (state.goal_orientation or _ANY,),
        "constraints": [c.text for c in constraints],
        "predictive_cue": (state.predictive_cue or _ANY,),
        "uncertainty_signal": signal.unconfirmed,
        "retrieved_artifacts": [r.artifact_id for r in references],
    }
    return (
        all(_are_within(items, LIMITS[name]) for name, items in texts.items())
        and _are_within([c.set_by for c in constraints], LIMITS["constraints"])
        and _are_within([r.provenance for r in references], LIMITS["retrieved_artifacts"])
    )


def _are_within(texts: Sequence[str], limit: FieldLimit) -> bool:
    most = limit.characters
    return len(texts) <= limit.items and all(
        isinstance(text, str) and 0 < len(text) <= most and text == one_line(text) for text in texts
    )


def as_payload(state: CompressedCognitiveState) -> dict[str, object]:
    """Return the plain form that `parse_state` reads."""
    return {
        "episodic_trace": list(state.episodic_trace),
        "semantic_gist": state.semantic_gist,
        "focal_entities": list(state.focal_entities),
        "relational_map": list(state.relational_map),
        "goal_orientation": state.goal_orientation,
        "constraints": [{"text": c.text, "set_by": c.set_by} for c in state.constraints],
        "predictive_cue": state.predictive_cue,
        "uncertainty_signal": {
            "level": state.uncertainty_signal.level.value,
            "unconfirmed": list(state.uncertainty_signal.unconfirmed),
        },
        "retrieved_artifacts": [
            {"artifact_id": r.artifact_id, "provenance": r.provenance}
            for r in state.retrieved_artifacts
        ],
    }


def _mapping(value: object, name: str) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise InvalidState(name, f"must be an object, not {type(value).__name__}")
    return value


def _exact(value: object, name: str, keys: tuple[str, ...]) -> Mapping[object, object]:
    fields = _mapping(value, name)
    for key in keys:
        if key not in fields:
            raise InvalidState(f"{name}.{key}", "is missing")
    if unknown := [str(key) for key in fields if key not in keys]:
        raise InvalidState(f"{name}.{unknown[0]}", "is unknown")
    return fields


def _list(fields: Mapping[object, object], name: str) -> list[object]:
    return _bounded(fields[name], name, LIMITS[name].items)


def _bounded(value: object, name: str, most: int) -> list[object]:
    if not isinstance(value, list | tuple):
        raise InvalidState(name, f"must be a list, not {type(value).__name__}")
    if len(value) > most:
        raise InvalidState(name, f"has {len(value)} items, the limit is {most}")
    return list(value)


def _texts(fields: Mapping[object, object], name: str) -> tuple[str, ...]:
    return tuple(_text(item, f"{name}[{place}]") for place, item in enumerate(_list(fields, name)))


def _text(value: object, name: str, *, blank: bool = False) -> str:
    if not isinstance(value, str):
        raise InvalidState(name, f"must be text, not {type(value).__name__}")
    most = LIMITS[name.partition("[")[0].partition(".")[0]].characters
    if len(value) > most:
        raise InvalidState(name, f"has {len(value)} characters, the limit is {most}")
    if not value and not blank:
        raise InvalidState(name, "is empty")
    if value != one_line(value):
        raise InvalidState(name, "must be one clean line: no control characters, no double spaces")
    return value


def _constraint(value: object, name: str) -> StandingConstraint:
    fields = _exact(value, name, ("text", "set_by"))
    return StandingConstraint(
        text=_text(fields["text"], f"{name}.text"), set_by=_text(fields["set_by"], f"{name}.set_by")
    )


def _reference(value: object, name: str) -> ArtifactReference:
    fields = _exact(value, name, ("artifact_id", "provenance"))
    return ArtifactReference(
        artifact_id=_text(fields["artifact_id"], f"{name}.artifact_id"),
        provenance=_text(fields["provenance"], f"{name}.provenance"),
    )


def _uncertainty(value: object) -> UncertaintySignal:
    name = "uncertainty_signal"
    fields = _exact(value, name, ("level", "unconfirmed"))
    levels = [level.value for level in UncertaintyLevel]
    if fields["level"] not in levels:
        raise InvalidState(f"{name}.level", f"must be one of {', '.join(levels)}")
    items = _bounded(fields["unconfirmed"], f"{name}.unconfirmed", LIMITS[name].items)
    return UncertaintySignal(
        level=UncertaintyLevel(str(fields["level"])),
        unconfirmed=tuple(
            _text(item, f"{name}.unconfirmed[{place}]") for place, item in enumerate(items)
        ),
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


SMALLEST_BUDGET = 32
_DOUBTS = "uncertainty_signal"
CountTokens = Callable[[str], int]
#: Which field gives way next, and how many of its newest items it keeps at first.
_GIVES_WAY = (
    ("focal_entities", 4),
    ("relational_map", 6),
    ("predictive_cue", 0),
    ("episodic_trace", 0),
    ("retrieved_artifacts", 0),
    ("focal_entities", 0),
    ("relational_map", 0),
    ("uncertainty_signal", 0),
    ("semantic_gist", 0),
    ("goal_orientation", 0),
    ("constraints", 0),
)


def fit(
    state: CompressedCognitiveState, budget: int, count: CountTokens
) -> tuple[CompressedCognitiveState, tuple[str, ...], int]:
    """Return the state within `budget` tokens, what was dropped for it, and its tokens."""
    if budget < SMALLEST_BUDGET:
        raise InvalidInput(
            f"a token budget of {budget} is too small: the least is {SMALLEST_BUDGET}"
        )
    shrinking = _Shrinking(state)
    tokens = count(shrinking.text())
    # No more than this is freed by dropping the items so far; the whole is counted again only
    # when that might do, so that nothing is dropped in vain.
    least = tokens
    while tokens > budget:
        least -= shrinking.give_way(count)
        if least <= budget:
            tokens = least = count(shrinking.text())
    return shrinking.state(), tuple(shrinking.dropped), tokens


class _Shrinking:
    """A state within its items' limits, from which more is taken, the oldest of a field first.

    Every item is rendered once, and a state is built, and so checked, only at the end.
    """

    def __init__(self, state: CompressedCognitiveState) -> None:
        self.dropped: list[str] = []
        self._whole = state
        self._items = {name: _items(state, name) for name in LIMITS}
        self._texts = {name: render_items(state, name) for name in LIMITS}
        self._doubts = state.uncertainty_signal
        self._changed: set[str] = set()
        self._stage = 0
        for name, limit in LIMITS.items():
            while len(self._items[name]) > limit.items:
                self._drop_oldest(name)

    def text(self) -> str:
        """Return the text form of what is left."""
        return join_fields(self._texts)

    def state(self) -> CompressedCognitiveState:
        """Return what is left."""
        if not self._changed:
            return self._whole
        return replace(self._whole, **{name: self._left(name) for name in self._changed})

    def give_way(self, count: CountTokens) -> int:
        """Drop the item that is missed least, and return no less than the tokens it frees."""
        while self._stage < len(_GIVES_WAY):
            name, kept = _GIVES_WAY[self._stage]
            if len(self._items[name]) > kept:
                freed = _most_freed(name, self._texts[name], count)
                self._drop_oldest(name)
                return freed
            self._stage += 1
        freed = _most_freed(_DOUBTS, self._texts[_DOUBTS], count)
        self.dropped.append(f"{_DOUBTS}: level")
        self._doubts = UncertaintySignal()
        self._changed.add(_DOUBTS)
        self._texts[_DOUBTS] = []
        return freed

    def _drop_oldest(self, name: str) -> None:
        items, texts = self._items[name], self._texts[name]
        self.dropped.append(_describe(name, items.pop(0)))
        del texts[_oldest(name, texts)]
        self._changed.add(name)
        if name == _DOUBTS:
            self._doubts = replace(self._doubts, unconfirmed=tuple(items))
            if self._doubts == UncertaintySignal():
                texts.clear()

    def _left(self, name: str) -> Any:
        if name == _DOUBTS:
            return self._doubts
        return "" if name in TEXT_FIELDS else tuple(self._items[name])


def _items(state: CompressedCognitiveState, name: str) -> list[Any]:
    value = getattr(state, name)
    if name in TEXT_FIELDS:
        return [value] if value else []
    return list(value.unconfirmed if name == _DOUBTS else value)


def _oldest(name: str, texts: Sequence[str]) -> int:
    # The first text of an uncertainty is its level; the oldest doubt comes after it.
    return 1 if name == _DOUBTS and len(texts) > 1 else 0


def _most_freed(name: str, texts: Sequence[str], count: CountTokens) -> int:
    """Return at least what dropping a field's oldest item frees, separators and all."""
    whole_line = count(name) + 6 if len(texts) <= 2 else 0
    # Within its line an item follows a space, and so it is counted as part of the whole.
    return count(f" {texts[_oldest(name, texts)]}") + 4 + whole_line


def _describe(name: str, item: object) -> str:
    text = (
        item if isinstance(item, str) else getattr(item, "text", getattr(item, "artifact_id", ""))
    )
    return f"{name}: {text}"
