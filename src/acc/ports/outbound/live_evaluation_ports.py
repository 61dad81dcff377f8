"""Interfaces that a live evaluation needs: agents, a judge, queries, a journal, executors."""

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from acc.domain.cost import ModelCall
from acc.domain.value_objects.evaluation_run import EpisodeEnd, EpisodeJob, TurnCompleted
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeTurnResult,
    TurnResult,
)

EpisodeEvent = ModelCall | TurnCompleted | EpisodeEnd


class AgentRunnerPort(Protocol):
    """One agent under evaluation."""

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        ...

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Answer one turn; the agent owns its copy of `canonical_memory`."""
        ...


@runtime_checkable
class ReplayableAgentPort(Protocol):
    """An agent that can continue an interrupted episode."""

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Restore the state after a recorded turn without answering again."""
        ...


@runtime_checkable
class ClosableAgentPort(Protocol):
    """An agent that owns a process."""

    async def start(self) -> None:
        """Start the process before the first turn, outside the timeout of a turn."""
        ...

    async def aclose(self) -> None:
        """Release what the agent owns, at the end of the episode."""
        ...


class JudgeEvaluatorPort(Protocol):
    """Scores all answers of a turn together and updates the canonical memory."""

    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        """Return one verdict for each response and the memory updated from the query alone."""
        ...


class QuerySourcePort(Protocol):
    """Writes the queries of an episode that has no fixed script."""

    async def next_query(
        self, turn_id: int, canonical_memory: Mapping[str, object]
    ) -> EvaluationTurnQuery | None:
        """Return the query of `turn_id`, or None if the episode is over."""
        ...


class EpisodeJournalPort(Protocol):
    """Stores the turns of one episode."""

    def read(self) -> tuple[TurnResult, ...]:
        """Return the recorded turns."""
        ...

    def append(self, result: TurnResult) -> None:
        """Store a turn before the next one starts."""
        ...


class CallRecorderPort(Protocol):
    """Receives every model call as soon as it has ended."""

    def record(self, call: ModelCall) -> None:
        """Record one call."""
        ...


class EpisodeControlPort(Protocol):
    """Tells a running episode whether it may continue."""

    @property
    def stop_requested(self) -> bool:
        """Return True if no further turn may start."""
        ...

    @property
    def disconnected(self) -> bool:
        """Return True if the parent process is gone, so that nothing may be recorded."""
        ...


class EpisodeExecutorPort(Protocol):
    """Runs episodes, in this process or in worker processes."""

    def run(self, jobs: Sequence[EpisodeJob]) -> Generator[EpisodeEvent, None, None]:
        """Run the episodes and yield their events as they happen."""
        ...

    def stop(self) -> None:
        """Start no further episode and end running episodes after their turn."""
        ...
