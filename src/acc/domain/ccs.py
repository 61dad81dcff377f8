"""Schema, text form and token budget of the Compressed Cognitive State."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from acc.domain.errors import InvalidInput, InvalidState
from acc.domain.language import one_line
from acc.domain.value_objects.ccs import (
    ArtifactReference,
    CompressedCognitiveState,
    StandingConstraint,
    UncertaintyLevel,
    UncertaintySignal,
)

MIN_BUDGET_TOKENS = 32
CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLimit:
    """Maximum number of items of a field, and of characters of one item."""

    items: int
    characters: int


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
#: Fields that hold a single text.
_TEXT_FIELDS = frozenset({"semantic_gist", "goal_orientation", "predictive_cue"})
_UNCERTAINTY = "uncertainty_signal"


class FittedState(NamedTuple):
    """A state within its budget, the dropped items, and its size in tokens."""

    state: CompressedCognitiveState
    dropped: tuple[str, ...]
    tokens: int


# --- schema ---------------------------------------------------------------------------------------

_ITEM_FORM = "kind(content), such as fact(The lead is Bo.)"
_DESCRIPTIONS = {
    "episodic_trace": "what this turn changed",
    "semantic_gist": "what the turn is about, in one line",
    "focal_entities": "who and what matters now, as kind(name), such as service(nginx)",
    "relational_map": f"what is known and needed, the least needed first, each as {_ITEM_FORM}",
    "goal_orientation": "the lasting objective of the user",
    "constraints": "every rule in force, word for word, and who set it",
    "predictive_cue": "what the turn calls for next",
    "uncertainty_signal": "how sure this is, and what is not confirmed",
    "retrieved_artifacts": "the evidence that was used",
}
_TYPED_ITEM_PATTERN = r"^[a-z][a-z0-9_]*\(.+\)$"


def json_schema() -> dict[str, object]:
    """Return the JSON schema of the payload that `parse_state` accepts."""
    texts = {name: {"type": "string", "maxLength": LIMITS[name].characters} for name in LIMITS}
    typed = {
        name: {**texts[name], "pattern": _TYPED_ITEM_PATTERN}
        for name in ("focal_entities", "relational_map")
    }
    fields: dict[str, dict[str, object]] = {
        "semantic_gist": texts["semantic_gist"],
        "goal_orientation": texts["goal_orientation"],
        "predictive_cue": texts["predictive_cue"],
        "episodic_trace": _array_schema("episodic_trace", texts["episodic_trace"]),
        "focal_entities": _array_schema("focal_entities", typed["focal_entities"]),
        "relational_map": _array_schema("relational_map", typed["relational_map"]),
        "constraints": _array_schema(
            "constraints", _object_schema(dict.fromkeys(("text", "set_by"), texts["constraints"]))
        ),
        "uncertainty_signal": _object_schema(
            {
                "level": {"type": "string", "enum": [level.value for level in UncertaintyLevel]},
                "unconfirmed": _array_schema("uncertainty_signal", texts["uncertainty_signal"]),
            }
        ),
        "retrieved_artifacts": _array_schema(
            "retrieved_artifacts",
            _object_schema(
                dict.fromkeys(("artifact_id", "provenance"), texts["retrieved_artifacts"])
            ),
        ),
    }
    return _object_schema(
        {name: {**fields[name], "description": _DESCRIPTIONS[name]} for name in LIMITS}
    )


def parse_state(payload: object) -> CompressedCognitiveState:
    """Return the state of an untrusted payload, or raise InvalidState."""
    state = _convert_state(payload)
    # The fast check accepts nearly every state; parsing names the field and the fault.
    if state is not None and to_payload(state) == payload and _is_within_limits(state):
        return state
    fields = _mapping(payload, "state")
    if missing := [name for name in LIMITS if name not in fields]:
        raise InvalidState(missing[0], "is missing")
    if unknown := sorted(str(name) for name in fields if name not in LIMITS):
        raise InvalidState(unknown[0], f"is unknown; the fields are {', '.join(LIMITS)}")
    try:
        return CompressedCognitiveState(
            episodic_trace=_parse_texts(fields, "episodic_trace"),
            semantic_gist=_parse_text_field(fields, "semantic_gist"),
            focal_entities=_parse_texts(fields, "focal_entities"),
            relational_map=_parse_texts(fields, "relational_map"),
            goal_orientation=_parse_text_field(fields, "goal_orientation"),
            constraints=tuple(
                _parse_constraint(item, f"constraints[{index}]")
                for index, item in enumerate(_parse_list(fields["constraints"], "constraints"))
            ),
            predictive_cue=_parse_text_field(fields, "predictive_cue"),
            uncertainty_signal=_parse_uncertainty(fields[_UNCERTAINTY]),
            retrieved_artifacts=tuple(
                _parse_reference(item, f"retrieved_artifacts[{index}]")
                for index, item in enumerate(
                    _parse_list(fields["retrieved_artifacts"], "retrieved_artifacts")
                )
            ),
        )
    except ValueError as error:
        name, _, fault = str(error).partition(": ")
        raise InvalidState(name, fault) from error


def _convert_state(payload: Any) -> CompressedCognitiveState | None:
    """Return the state of a payload without checks, None if that is not possible."""
    try:
        if not all(isinstance(payload[name], str) for name in _TEXT_FIELDS):
            return None
        signal = payload[_UNCERTAINTY]
        return CompressedCognitiveState(
            episodic_trace=tuple(payload["episodic_trace"]),
            semantic_gist=payload["semantic_gist"],
            focal_entities=tuple(payload["focal_entities"]),
            relational_map=tuple(payload["relational_map"]),
            goal_orientation=payload["goal_orientation"],
            constraints=tuple([StandingConstraint(**item) for item in payload["constraints"]]),
            predictive_cue=payload["predictive_cue"],
            uncertainty_signal=UncertaintySignal(
                level=UncertaintyLevel(signal["level"]), unconfirmed=tuple(signal["unconfirmed"])
            ),
            retrieved_artifacts=tuple(
                [ArtifactReference(**item) for item in payload["retrieved_artifacts"]]
            ),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


_EMPTY = CompressedCognitiveState()


def validate_state(
    state: CompressedCognitiveState, *, previous: CompressedCognitiveState = _EMPTY
) -> None:
    """Raise InvalidState if a state that was built in code violates the schema.

    Items that are in the same field of `previous`, a valid state, are not checked again.
    """
    if not _is_within_limits(state, previous):
        parse_state(to_payload(state))


def to_payload(state: CompressedCognitiveState) -> dict[str, object]:
    """Return the JSON data that `parse_state` accepts."""
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


def _array_schema(name: str, items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "array", "items": dict(items), "maxItems": LIMITS[name].items}


def _object_schema(properties: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _is_within_limits(
    state: CompressedCognitiveState, previous: CompressedCognitiveState = _EMPTY
) -> bool:
    for name, limit in LIMITS.items():
        value, known = getattr(state, name), getattr(previous, name)
        if value == known:
            continue
        items = _items(state, name)
        if len(items) > limit.items:
            return False
        if known:
            earlier = frozenset(_items(previous, name))
            items = [item for item in items if item not in earlier]
        if not all(_is_line(text, limit.characters) for item in items for text in _texts(item)):
            return False
    return True


def _texts(item: Any) -> tuple[Any, ...]:
    if isinstance(item, StandingConstraint):
        return item.text, item.set_by
    if isinstance(item, ArtifactReference):
        return item.artifact_id, item.provenance
    return (item,)


def _is_line(text: object, max_length: int) -> bool:
    return isinstance(text, str) and 0 < len(text) <= max_length and text == one_line(text)


def _mapping(value: object, name: str) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise InvalidState(name, f"must be an object, not {type(value).__name__}")
    return value


def _parse_object(value: object, name: str, keys: tuple[str, ...]) -> Mapping[object, object]:
    fields = _mapping(value, name)
    for key in keys:
        if key not in fields:
            raise InvalidState(f"{name}.{key}", "is missing")
    if unknown := [str(key) for key in fields if key not in keys]:
        raise InvalidState(f"{name}.{unknown[0]}", "is unknown")
    return fields


def _parse_list(value: object, name: str) -> list[object]:
    max_items = LIMITS[name.partition(".")[0]].items
    if not isinstance(value, list | tuple):
        raise InvalidState(name, f"must be a list, not {type(value).__name__}")
    if len(value) > max_items:
        raise InvalidState(name, f"has {len(value)} items, the limit is {max_items}")
    return list(value)


def _parse_texts(fields: Mapping[object, object], name: str) -> tuple[str, ...]:
    items = _parse_list(fields[name], name)
    return tuple(_parse_line(item, f"{name}[{index}]") for index, item in enumerate(items))


def _parse_text_field(fields: Mapping[object, object], name: str) -> str:
    return _parse_line(fields[name], name, may_be_empty=True)


def _parse_line(value: object, name: str, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str):
        raise InvalidState(name, f"must be text, not {type(value).__name__}")
    max_length = LIMITS[name.partition("[")[0].partition(".")[0]].characters
    if len(value) > max_length:
        raise InvalidState(name, f"has {len(value)} characters, the limit is {max_length}")
    if not value and not may_be_empty:
        raise InvalidState(name, "is empty")
    if value != one_line(value):
        raise InvalidState(
            name, "must be one normalised line without control characters or double spaces"
        )
    return value


def _parse_constraint(value: object, name: str) -> StandingConstraint:
    fields = _parse_object(value, name, ("text", "set_by"))
    return StandingConstraint(
        text=_parse_line(fields["text"], f"{name}.text"),
        set_by=_parse_line(fields["set_by"], f"{name}.set_by"),
    )


def _parse_reference(value: object, name: str) -> ArtifactReference:
    fields = _parse_object(value, name, ("artifact_id", "provenance"))
    return ArtifactReference(
        artifact_id=_parse_line(fields["artifact_id"], f"{name}.artifact_id"),
        provenance=_parse_line(fields["provenance"], f"{name}.provenance"),
    )


def _parse_uncertainty(value: object) -> UncertaintySignal:
    fields = _parse_object(value, _UNCERTAINTY, ("level", "unconfirmed"))
    levels = [level.value for level in UncertaintyLevel]
    if fields["level"] not in levels:
        raise InvalidState(f"{_UNCERTAINTY}.level", f"must be one of {', '.join(levels)}")
    name = f"{_UNCERTAINTY}.unconfirmed"
    return UncertaintySignal(
        level=UncertaintyLevel(str(fields["level"])),
        unconfirmed=tuple(
            _parse_line(item, f"{name}[{index}]")
            for index, item in enumerate(_parse_list(fields["unconfirmed"], name))
        ),
    )


# --- text form: one line per field, items separated by " | " --------------------------------------

_SUFFIX = re.compile(r"^(.*) <(.*)>$")
_ESCAPES = {"\\": "\\\\", "|": "\\p", "<": "\\l", ">": "\\g"}
_ESCAPE_TABLE = str.maketrans(_ESCAPES)
_UNESCAPES = {code: text for text, code in _ESCAPES.items()}
_ESCAPE_CODE = re.compile(r"\\[\\plg]")


def render_state(state: CompressedCognitiveState) -> str:
    """Return the text form of a state."""
    return _join_fields({name: _render_items(state, name) for name in LIMITS})


#: Fields in the order of a prompt: what changes rarely comes first, so that providers can cache it.
_STABLE_FIRST = tuple(dict.fromkeys(["constraints", "goal_orientation", *LIMITS]))


def render_prompt(state: CompressedCognitiveState) -> str:
    """Return the text form of a state for a model, rules and goal first."""
    return _join_fields({name: _render_items(state, name) for name in _STABLE_FIRST})


def parse_text(text: str) -> CompressedCognitiveState:
    """Return the state of a text form, or raise InvalidState."""
    fields: dict[str, object] = {name: "" if name in _TEXT_FIELDS else [] for name in LIMITS}
    fields[_UNCERTAINTY] = {"level": "low", "unconfirmed": []}
    parsed: set[str] = set()
    for line in text.split("\n"):
        if not line:
            continue
        name, colon, rest = line.partition(": ")
        if not colon or name not in LIMITS:
            raise InvalidState("text", f"a line must start with a field and a colon: {line[:60]!r}")
        if name in parsed:
            raise InvalidState(name, "occurs more than once")
        parsed.add(name)
        fields[name] = _parse_field(name, rest)
    return parse_state(fields)


def _join_fields(items: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(f"{name}: {' | '.join(texts)}" for name, texts in items.items() if texts)


def _render_items(state: CompressedCognitiveState, name: str) -> list[str]:
    value = getattr(state, name)
    if name in _TEXT_FIELDS:
        return [_escape(value)] if value else []
    if name == "constraints":
        return [_render_constraint(constraint) for constraint in state.constraints]
    if name == "retrieved_artifacts":
        return [
            f"{_escape(r.artifact_id)} <{_escape(r.provenance)}>" for r in state.retrieved_artifacts
        ]
    if name == _UNCERTAINTY:
        signal = state.uncertainty_signal
        if signal == UncertaintySignal():
            return []
        return [signal.level.value, *(_escape(item) for item in signal.unconfirmed)]
    return [_escape(item) for item in value]


def _render_constraint(constraint: StandingConstraint) -> str:
    text = _escape(constraint.text)
    return text if constraint.set_by == "user" else f"{text} <by {_escape(constraint.set_by)}>"


def _parse_field(name: str, rest: str) -> object:
    if name in _TEXT_FIELDS:
        return _unescape(rest)
    items = rest.split(" | ")
    if name == "constraints":
        return [_parse_pair(item, "text", "set_by", "user") for item in items]
    if name == "retrieved_artifacts":
        return [_parse_pair(item, "artifact_id", "provenance", "") for item in items]
    if name == _UNCERTAINTY:
        return {"level": items[0], "unconfirmed": [_unescape(item) for item in items[1:]]}
    return [_unescape(item) for item in items]


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
    # Few texts need escaping, and the search is much faster than `translate`.
    if "|" in text or "<" in text or ">" in text or "\\" in text:
        return text.translate(_ESCAPE_TABLE)
    return text


def _unescape(text: str) -> str:
    return _ESCAPE_CODE.sub(lambda match: _UNESCAPES[match[0]], text)


# --- token budget ---------------------------------------------------------------------------------

#: Fields in the order in which they are reduced, and how many of the newest items each stage keeps.
_REDUCTION_STAGES = (
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


def fit_to_budget(state: CompressedCognitiveState, budget: int, count: CountTokens) -> FittedState:
    """Return the state reduced to at most `budget` tokens."""
    if not isinstance(budget, int) or budget < MIN_BUDGET_TOKENS:
        raise InvalidInput(
            f"budget must be an integer of at least {MIN_BUDGET_TOKENS} tokens, got {budget!r}"
        )
    reduction = _Reduction(state)
    tokens = count(reduction.text())
    # A lower bound of the size. The state is counted again only when the bound reaches the budget.
    lower_bound = tokens
    while tokens > budget:
        lower_bound -= reduction.drop_next(count)
        if lower_bound <= budget:
            tokens = lower_bound = count(reduction.text())
    return FittedState(reduction.state(), tuple(reduction.dropped), tokens)


class _Reduction:
    """Drops items of a state, the oldest of a field first.

    Every item is rendered once; a state is built and validated only at the end.
    """

    def __init__(self, state: CompressedCognitiveState) -> None:
        self.dropped: list[str] = []
        self._original = state
        self._items = {name: _items(state, name) for name in LIMITS}
        self._texts = {name: _render_items(state, name) for name in LIMITS}
        self._level = state.uncertainty_signal.level
        self._changed: set[str] = set()
        self._stage = 0
        for name, limit in LIMITS.items():
            while len(self._items[name]) > limit.items:
                self._drop_oldest(name)

    def text(self) -> str:
        """Return the text form of the remaining items."""
        return _join_fields(self._texts)

    def state(self) -> CompressedCognitiveState:
        """Return the state of the remaining items."""
        if not self._changed:
            return self._original
        return replace(self._original, **{name: self._remaining(name) for name in self._changed})

    def drop_next(self, count: CountTokens) -> int:
        """Drop the least important item; return an upper bound of the tokens it frees."""
        while self._stage < len(_REDUCTION_STAGES):
            name, minimum = _REDUCTION_STAGES[self._stage]
            if len(self._items[name]) > minimum:
                freed = _max_freed(name, self._texts[name], count)
                self._drop_oldest(name)
                return freed
            self._stage += 1
        freed = _max_freed(_UNCERTAINTY, self._texts[_UNCERTAINTY], count)
        self.dropped.append(f"{_UNCERTAINTY}: level")
        self._level = UncertaintySignal().level
        self._changed.add(_UNCERTAINTY)
        self._texts[_UNCERTAINTY] = []
        return freed

    def _drop_oldest(self, name: str) -> None:
        items, texts = self._items[name], self._texts[name]
        self.dropped.append(_describe(name, items.pop(0)))
        del texts[_oldest_index(name, texts)]
        self._changed.add(name)
        if name == _UNCERTAINTY and not items and self._level == UncertaintySignal().level:
            texts.clear()

    def _remaining(self, name: str) -> Any:
        if name == _UNCERTAINTY:
            return UncertaintySignal(level=self._level, unconfirmed=tuple(self._items[name]))
        return "" if name in _TEXT_FIELDS else tuple(self._items[name])


def _items(state: CompressedCognitiveState, name: str) -> list[Any]:
    value = getattr(state, name)
    if name in _TEXT_FIELDS:
        return [value] if value else []
    return list(value.unconfirmed if name == _UNCERTAINTY else value)


def _oldest_index(name: str, texts: Sequence[str]) -> int:
    # The first text of the uncertainty signal is its level.
    return 1 if name == _UNCERTAINTY and len(texts) > 1 else 0


def _max_freed(name: str, texts: Sequence[str], count: CountTokens) -> int:
    """Return an upper bound of the tokens of the oldest item and its separators."""
    field_name = count(name) + 6 if len(texts) <= 2 else 0
    # An item follows a space in its line, and the space is part of its first token.
    return count(f" {texts[_oldest_index(name, texts)]}") + 4 + field_name


def _describe(name: str, item: object) -> str:
    text = (
        item if isinstance(item, str) else getattr(item, "text", getattr(item, "artifact_id", ""))
    )
    return f"{name}: {text}"
