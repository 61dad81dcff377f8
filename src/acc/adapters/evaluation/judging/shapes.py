"""What a judge's model has to answer: JSON schemas, and the values they are decoded into."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

#: Raised whenever a schema or the meaning of a field changes; part of a run's identity.
SCHEMA_VERSION = 1
MOST_CLAIMS = 120
MOST_ENTRIES = 120
LONGEST_TEXT = 2_000


class Verdict(StrEnum):
    """What the canonical memory and the query say of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    OUTDATED = "outdated"
    UNSUPPORTED = "unsupported"


class Kept(StrEnum):
    """What became of a constraint in an answer."""

    KEPT = "kept"
    VIOLATED = "violated"
    OMITTED = "omitted"


class Stated(msgspec.Struct, frozen=True):
    """Something that a query establishes, with the words that do."""

    text: str
    quote: str


class Demanded(msgspec.Struct, frozen=True):
    """A rule that a query sets; `once` if for this answer only."""

    text: str
    quote: str
    once: bool = False


class MemoryUpdate(msgspec.Struct, frozen=True):
    """What a query changes in the canonical memory."""

    facts: tuple[Stated, ...] = ()
    superseded: tuple[str, ...] = ()
    constraints: tuple[Demanded, ...] = ()
    lifted: tuple[str, ...] = ()


class ClaimFinding(msgspec.Struct, frozen=True):
    """One claim of an answer with its verdict; `said` are the answer's own words."""

    claim: str
    said: str
    verdict: Verdict
    quote: str = ""
    reason: str = ""


class ClaimVote(msgspec.Struct, frozen=True):
    """A verdict on a claim that is given by its number."""

    number: int
    verdict: Verdict
    quote: str = ""
    reason: str = ""


class RuleFinding(msgspec.Struct, frozen=True):
    """What became of one constraint."""

    id: str
    verdict: Kept
    reason: str = ""


class Audit(msgspec.Struct, frozen=True):
    """The audit of one answer."""

    claims: tuple[ClaimFinding, ...]
    constraints: tuple[RuleFinding, ...]


class AuditVote(msgspec.Struct, frozen=True):
    """Another audit of the same claims."""

    claims: tuple[ClaimVote, ...]
    constraints: tuple[RuleFinding, ...]


class AnswerScores(msgspec.Struct, frozen=True):
    """The four scores of one answer."""

    answer: str
    relevance: float
    answer_quality: float
    instruction_following: float
    coherence: float


class ScoreSheet(msgspec.Struct, frozen=True):
    """The scores of all answers of a turn."""

    scores: tuple[AnswerScores, ...]


class NextQuery(msgspec.Struct, frozen=True):
    """What a judge that drives asks next."""

    query: str


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(of)}


def _choice(kind: type[StrEnum]) -> dict[str, Any]:
    return {"type": "string", "enum": [member.value for member in kind]}


_TEXT: dict[str, Any] = {"type": "string"}
_SCORE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 10}
_RULES = _list(_object(id=_TEXT, verdict=_choice(Kept), reason=_TEXT))

SCHEMAS: dict[type, dict[str, Any]] = {
    MemoryUpdate: _object(
        facts=_list(_object(text=_TEXT, quote=_TEXT)),
        superseded=_list(_TEXT),
        constraints=_list(_object(text=_TEXT, quote=_TEXT, once={"type": "boolean"})),
        lifted=_list(_TEXT),
    ),
    Audit: _object(
        claims=_list(
            _object(claim=_TEXT, said=_TEXT, verdict=_choice(Verdict), quote=_TEXT, reason=_TEXT)
        ),
        constraints=_RULES,
    ),
    AuditVote: _object(
        claims=_list(
            _object(number={"type": "integer"}, verdict=_choice(Verdict), quote=_TEXT, reason=_TEXT)
        ),
        constraints=_RULES,
    ),
    ScoreSheet: _object(
        scores=_list(
            _object(
                answer=_TEXT,
                relevance=_SCORE,
                answer_quality=_SCORE,
                instruction_following=_SCORE,
                coherence=_SCORE,
            )
        )
    ),
    NextQuery: _object(query=_TEXT),
}
