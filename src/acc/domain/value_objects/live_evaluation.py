"""What passes between judge, agents and use case in a live episode."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTurnQuery:
    """The query of one turn, the same for every agent."""

    turn_id: int
    query: str

    def __post_init__(self) -> None:
        if self.turn_id < 1:
            raise ValueError(f"turn_id starts at 1, not {self.turn_id}")
        if not self.query.strip():
            raise ValueError(f"the query of turn {self.turn_id} is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurnResponse:
    """An agent's answer, and the tokens of memory it carried into the turn.

    `memory_tokens` is None where an agent does not report it. `trace` is whatever the agent wants
    to show of how it got there; judges do not see it. `error` marks a turn without an answer.
    """

    agent_name: str
    response_text: str
    memory_tokens: int | None = None
    trace: Mapping[str, object] = field(default_factory=dict)
    error: str = ""

    def __post_init__(self) -> None:
        if self.memory_tokens is not None and self.memory_tokens < 0:
            raise ValueError(f"memory_tokens cannot be negative: {self.memory_tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgentEvaluation:
    """The judge's verdict on one agent's answer, and its single votes where it took several."""

    agent_name: str
    outcome: OutcomeScores
    hallucination: HallucinationAudit
    drift: DriftAudit
    votes: JudgeVotes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTurnResult:
    """The judge's verdict on all answers of one turn, and its memory after it.

    `unscored` names the agents whose answers it could not score, each with the reason; `flags` the
    ways in which an agent's answer tried to steer it.
    """

    canonical_memory: Mapping[str, object]
    evaluations: tuple[JudgeAgentEvaluation, ...]
    unscored: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """One turn, whole: what was asked, answered and found, and the canonical memory after it."""

    query: EvaluationTurnQuery
    responses: tuple[AgentTurnResponse, ...]
    records: tuple[AgentTurnEvaluationRecord, ...]
    canonical_memory: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEvaluationEpisodeResult:
    """Every record of an episode by agent, the summaries, and the judge's last memory."""

    turns: int
    records: Mapping[str, tuple[AgentTurnEvaluationRecord, ...]]
    summaries: Mapping[str, AgentEvaluationSummary]
    canonical_memory: Mapping[str, object]
