"""What a judge finds out about one answer, and what many answers add up to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

OUTCOME_NAMES = ("relevance", "answer_quality", "instruction_following", "coherence")


class TurnStatus(StrEnum):
    """Whether a turn of an agent counts."""

    SCORED = "scored"
    FAILED = "failed"
    UNSCORED = "unscored"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeScores:
    """Four scores from 0 to 10."""

    relevance: float
    answer_quality: float
    instruction_following: float
    coherence: float

    def __post_init__(self) -> None:
        for name in OUTCOME_NAMES:
            score = getattr(self, name)
            if not (math.isfinite(score) and 0 <= score <= 10):
                raise ValueError(f"{name} must be a number from 0 to 10, not {score!r}")

    @property
    def mean(self) -> float:
        """Return the plain mean of the four."""
        scores = (self.relevance, self.answer_quality, self.instruction_following, self.coherence)
        return sum(scores) / len(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """One atomic claim, whether it is supported, and by what that is known.

    `verdict` is a judge's finer word (contradicted, outdated), empty where it has none.
    """

    claim: str
    supported: bool
    reason: str = ""
    evidence: str = ""
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HallucinationAudit:
    """How many claims of an answer are supported, and the claims where a judge lists them."""

    supported_claims: int
    unsupported_claims: int
    claims: tuple[ClaimVerdict, ...] = ()

    def __post_init__(self) -> None:
        if self.supported_claims < 0 or self.unsupported_claims < 0:
            raise ValueError(f"claims cannot be negative: {self!r}")
        if self.claims:
            supported = sum(claim.supported for claim in self.claims)
            counted = (self.supported_claims, self.unsupported_claims)
            if (supported, len(self.claims) - supported) != counted:
                raise ValueError(f"the listed claims do not add up to {counted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintFinding:
    """One active constraint that an answer broke, and how."""

    constraint: str
    omission: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftAudit:
    """How far an answer left the rules that were in force."""

    active_constraints: int
    violations: int
    omissions: int
    findings: tuple[ConstraintFinding, ...] = ()

    def __post_init__(self) -> None:
        if min(self.active_constraints, self.violations, self.omissions) < 0:
            raise ValueError(f"constraints cannot be negative: {self!r}")
        if self.findings:
            omissions = sum(finding.omission for finding in self.findings)
            counted = (self.violations, self.omissions)
            if (len(self.findings) - omissions, omissions) != counted:
                raise ValueError(f"the listed findings do not add up to {counted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVotes:
    """What a judge said each time it was asked about the same answer.

    A claim or a constraint has one verdict a vote; a vote that failed is left out. `scores` are
    those of one order of the answers, `turned` those of the opposite order, vote by vote.
    """

    claims: tuple[tuple[str, ...], ...] = ()
    constraints: tuple[tuple[str, ...], ...] = ()
    scores: tuple[OutcomeScores, ...] = ()
    turned: tuple[OutcomeScores, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnEvaluationRecord:
    """What one agent did in one turn and what the judge made of it.

    A failed turn has an error and no judgement; an unscored one has an answer, the judge's error
    and no judgement. Neither ever counts as a 0. `flags` say how an answer tried to steer the
    judge, scored or not.
    """

    agent_name: str
    turn_id: int
    status: TurnStatus = TurnStatus.SCORED
    outcome: OutcomeScores | None = None
    hallucination: HallucinationAudit | None = None
    drift: DriftAudit | None = None
    memory_tokens: int | None = None
    error: str = ""
    flags: tuple[str, ...] = ()
    votes: JudgeVotes | None = None

    def __post_init__(self) -> None:
        if self.turn_id < 1:
            raise ValueError(f"turn_id starts at 1, not {self.turn_id}")
        if self.memory_tokens is not None and self.memory_tokens < 0:
            raise ValueError(f"memory_tokens cannot be negative: {self.memory_tokens}")
        judged = (self.outcome, self.hallucination, self.drift)
        if self.status is TurnStatus.SCORED and None in judged:
            raise ValueError("a scored turn needs outcome, hallucination and drift")
        if self.status is not TurnStatus.SCORED and (any(judged) or not self.error):
            raise ValueError(f"a {self.status} turn has an error and no judgement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A mean, its sample standard deviation, and how many values are behind it."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvaluationSummary:
    """One agent over many turns. A measure with nothing behind it is None, never 0."""

    agent_name: str
    scored_turns: int
    failed_turns: int
    unscored_turns: int
    outcome: Mapping[str, Spread | None]
    hallucination: Spread | None
    drift: Spread | None
    memory_tokens: Spread | None
    last_memory_tokens: int | None
