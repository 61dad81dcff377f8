"""The Compressed Cognitive State, the only persistent state of an ACC memory."""

import re
from dataclasses import dataclass
from enum import StrEnum

from acc.domain.call_options import explains_call
from acc.domain.value_objects.base import Value

_TYPED = re.compile(r"^[a-z][a-z0-9_]*\(.+\)\Z")


class UncertaintyLevel(StrEnum):
    """Uncertainty of the state as a whole."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertaintySignal:
    """The level of uncertainty and the unconfirmed statements."""

    level: UncertaintyLevel = UncertaintyLevel.LOW
    unconfirmed: tuple[str, ...] = ()


class StandingConstraint(Value, frozen=True, kw_only=True):
    """A rule that applies until its author changes or revokes it."""

    text: str
    set_by: str = "user"


class ArtifactReference(Value, frozen=True, kw_only=True):
    """Reference to stored evidence, without its text."""

    artifact_id: str
    provenance: str


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedCognitiveState:
    """State of nine fields, replaced as a whole once a turn.

    `focal_entities` and `relational_map` contain typed items such as `service(nginx)` and
    `after(502_spikes, enable_http2)`. Every text is a single line.
    """

    episodic_trace: tuple[str, ...] = ()
    semantic_gist: str = ""
    focal_entities: tuple[str, ...] = ()
    relational_map: tuple[str, ...] = ()
    goal_orientation: str = ""
    constraints: tuple[StandingConstraint, ...] = ()
    predictive_cue: str = ""
    uncertainty_signal: UncertaintySignal = UncertaintySignal()
    retrieved_artifacts: tuple[ArtifactReference, ...] = ()

    def __post_init__(self) -> None:
        for name in ("focal_entities", "relational_map"):
            items = getattr(self, name)
            if not all(map(_TYPED.match, items)):
                item = next(item for item in items if not _TYPED.match(item))
                raise ValueError(f"{name}: {item!r} must have the form kind(content)")


def item_content(item: str) -> str:
    """Return the content of a typed item: `nginx` of `service(nginx)`."""
    return item[item.index("(") + 1 : -1] if _TYPED.match(item) else item
