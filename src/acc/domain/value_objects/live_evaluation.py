"""Queries, responses, verdicts and results of a live episode."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acc.domain.call_options import explains_call
from acc.domain.value_objects.evaluation import (
    AgentEvaluationSummary,
    AgentTurnEvaluationRecord,
    DriftAudit,
    HallucinationAudit,
    JudgeVotes,
    OutcomeScores,
)

#: Beginning of the error of a turn that timed out.
TIMEOUT_ERROR = "no answer within"
#: Begins the error of an agent that ended its process.
PROCESS_ERROR = "the process of the agent ended with status"


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTurnQuery:
    """The query of one turn, the same for every agent."""

    turn_id: int
    query: str

    def __post_init__(self) -> None:
        if self.turn_id < 1:
            raise ValueError(f"turn_id must be at least 1, got {self.turn_id}")
        if not self.query.strip():
            raise ValueError(f"the query of turn {self.turn_id} must not be empty")


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnResponse:
    """An agent's answer and the tokens of its memory at the start of the turn.

    `memory_tokens` is None if the agent does not report it. `trace` is for people; judges do not
    see it. `prompt` is what the model got besides the query, if it is known. A response with an
    `error` has no answer.
    """

    agent_name: str
    response_text: str
    memory_tokens: int | None = None
    trace: Mapping[str, object] = field(default_factory=dict)
    error: str = ""
    prompt: Mapping[str, object] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.response_text, str):
            name = type(self.response_text).__name__
            raise TypeError(f"response_text must be a str, got {name}")
        tokens = self.memory_tokens
        if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool)):
            raise TypeError(f"memory_tokens must be an integer or None, got {tokens!r}")
        if self.memory_tokens is not None and self.memory_tokens < 0:
            raise ValueError(f"memory_tokens must not be negative, got {self.memory_tokens}")


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgentEvaluation:
    """The judge's verdict on one answer, with its votes if there were several."""

    agent_name: str
    outcome: OutcomeScores
    hallucination: HallucinationAudit
    drift: DriftAudit
    votes: JudgeVotes | None = None


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTurnResult:
    """The judge's verdicts on all answers of one turn, and its memory after the turn.

    `unscored` has a reason for each agent without a verdict. `flags` describe, by agent, attempts
    to influence the judge.
    """

    canonical_memory: Mapping[str, object]
    evaluations: tuple[JudgeAgentEvaluation, ...]
    unscored: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """One turn: query, responses, records, and the canonical memory after the turn.

    `seconds` is the time that each agent took; recorded turns do not contain it.
    """

    query: EvaluationTurnQuery
    responses: tuple[AgentTurnResponse, ...]
    records: tuple[AgentTurnEvaluationRecord, ...]
    canonical_memory: Mapping[str, object]
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvaluationEpisodeResult:
    """Records and summaries of an episode by agent, and the final canonical memory."""

    turns: int
    records: Mapping[str, tuple[AgentTurnEvaluationRecord, ...]]
    summaries: Mapping[str, AgentEvaluationSummary]
    canonical_memory: Mapping[str, object]
