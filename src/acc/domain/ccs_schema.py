"""From an untrusted payload to a Compressed Cognitive State, or an error naming field and fault."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acc.domain.errors import InvalidState
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
