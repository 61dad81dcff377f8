"""What a live evaluation needs from outside: agents, a judge, and someone who asks."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeTurnResult,
    TurnResult,
)


class AgentRunnerPort(Protocol):
    """One agent under evaluation."""

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
        ...

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn. `canonical_memory` is a copy that is the agent's to keep."""
        ...


@runtime_checkable
class ReplayableAgentPort(Protocol):
    """An agent that can take up an episode that was cut off."""

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Live through a recorded turn again, without answering anew."""
        ...


class JudgeEvaluatorPort(Protocol):
    """Scores all answers of a turn together and keeps the canonical memory."""

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return one verdict for each response, and the memory updated from the query alone."""
        ...


class QuerySourcePort(Protocol):
    """Asks the next question, so that a judge can drive an episode."""

    async def next_query(
        self, turn_id: int, canonical_memory: Mapping[str, object]
    ) -> EvaluationTurnQuery | None:
        """Return the query of `turn_id`, or None when the episode is over."""
        ...


class EpisodeJournalPort(Protocol):
    """Keeps the turns of one episode as they happen."""

    def earlier(self) -> tuple[TurnResult, ...]:
        """Return the turns that are on record already."""
        ...

    async def append(self, result: TurnResult) -> None:
        """Put a turn on record before the next one starts."""
        ...
