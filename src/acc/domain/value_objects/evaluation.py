"""Scores and audits of one answer, and summaries of many answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from acc.domain.call_options import explains_call

OUTCOME_NAMES = ("relevance", "answer_quality", "instruction_following", "coherence")


class TurnStatus(StrEnum):
    """Whether a turn of an agent has a score, and why not."""

    SCORED = "scored"
    FAILED = "failed"
    UNSCORED = "unscored"


@explains_call()
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
                raise ValueError(f"{name} must be a number from 0 to 10, got {score!r}")

    @property
    def mean(self) -> float:
        """Return the mean of the four scores."""
        scores = (self.relevance, self.answer_quality, self.instruction_following, self.coherence)
        return sum(scores) / len(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVerdict:
    """One atomic claim, whether it is supported, and the evidence.

    `verdict` is a more precise verdict of the judge, such as contradicted, outdated or unclear, or
    empty. `score` is the support from 0 to 1 if the judge measures it.
    """

    claim: str
    supported: bool
    reason: str = ""
    evidence: str = ""
    verdict: str = ""
    score: float | None = None


#: The verdict on a claim whose score is too close to the threshold.
UNCLEAR = "unclear"
#: Reasons of claims that differ from no sentence, so that the score alone decides.
STATED = "stated"
NOT_CLOSE = "nothing said so far is close to it"
NOT_IN_FULL = "not stated in full"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimThreshold:
    """The score from which a claim counts as supported, measured with labelled examples.

    Between `low` and `high` the verdict is unclear: it depends on which examples were labelled.
    """

    language: str
    value: float
    low: float
    high: float
    examples: int

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.value <= self.high <= 1:
            raise ValueError(f"low, value and high must be ordered within 0 and 1: {self!r}")


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class HallucinationAudit:
    """Numbers of supported and unsupported claims, and the claims if the judge lists them.

    `stated_expectations` of `expected` statements that a correct answer contains are in the answer.
    """

    supported_claims: int
    unsupported_claims: int
    claims: tuple[ClaimVerdict, ...] = ()
    expected: int = 0
    stated_expectations: int = 0

    def __post_init__(self) -> None:
        if self.supported_claims < 0 or self.unsupported_claims < 0:
            raise ValueError(f"claims must not be negative: {self!r}")
        if self.claims:
            supported = sum(claim.supported for claim in self.claims)
            counted = (self.supported_claims, self.unsupported_claims)
            if (supported, len(self.claims) - supported) != counted:
                raise ValueError(f"the listed claims must add up to {counted}")


class FindingKind(StrEnum):
    """What an answer did wrong."""

    BROKEN_RULE = "broken_rule"
    LEAKED_SECRET = "leaked_secret"  # noqa: S105 - the name of a class of findings
    LIFTED_RULE = "lifted_rule"
    PLANTED_PHRASE = "planted_phrase"
    INJECTED_TEXT_OBEYED = "injected_text_obeyed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintFinding:
    """One constraint that an answer violated or omitted, or something that it carries over.

    `turn` is the turn in which the constraint or the text was introduced; 0 if it is not known.
    """

    constraint: str
    omission: bool
    reason: str
    kind: FindingKind = FindingKind.BROKEN_RULE
    turn: int = 0


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class DriftAudit:
    """Numbers of active, violated and omitted constraints.

    `carried` lists what an answer carries over from earlier turns without an active constraint: it
    is reported and is not part of the rate.
    """

    active_constraints: int
    violations: int
    omissions: int
    findings: tuple[ConstraintFinding, ...] = ()
    carried: tuple[ConstraintFinding, ...] = ()

    def __post_init__(self) -> None:
        if min(self.active_constraints, self.violations, self.omissions) < 0:
            raise ValueError(f"constraints must not be negative: {self!r}")
        if self.findings:
            omissions = sum(finding.omission for finding in self.findings)
            counted = (self.violations, self.omissions)
            if (len(self.findings) - omissions, omissions) != counted:
                raise ValueError(f"the listed findings must add up to {counted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVotes:
    """The votes of a judge on one answer.

    A claim or a constraint has one verdict per successful vote. `scores` has one entry per vote;
    `reversed_scores` those with the answers in reversed order.
    """

    claims: tuple[tuple[str, ...], ...] = ()
    constraints: tuple[tuple[str, ...], ...] = ()
    scores: tuple[OutcomeScores, ...] = ()
    reversed_scores: tuple[OutcomeScores, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnEvaluationRecord:
    """The result of one agent in one turn.

    A failed turn has the error of the agent, an unscored turn that of the judge. Neither has
    scores, and neither counts as 0. `flags` describe attempts to influence the judge.
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
            raise ValueError(f"turn_id must be at least 1, got {self.turn_id}")
        if self.memory_tokens is not None and self.memory_tokens < 0:
            raise ValueError(f"memory_tokens must not be negative, got {self.memory_tokens}")
        scores = (self.outcome, self.hallucination, self.drift)
        if self.status is TurnStatus.SCORED and None in scores:
            raise ValueError("a scored turn requires outcome, hallucination and drift")
        if self.status is not TurnStatus.SCORED and (any(scores) or not self.error):
            raise ValueError(f"a {self.status} turn requires an error and must not have scores")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean, sample standard deviation and number of values."""

    mean: float
    deviation: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvaluationSummary:
    """Summary of one agent. A metric without values is None, not 0."""

    agent_name: str
    scored_turns: int
    failed_turns: int
    unscored_turns: int
    outcome: Mapping[str, Spread | None]
    hallucination: Spread | None
    drift: Spread | None
    memory_tokens: Spread | None
    last_memory_tokens: int | None
