"""Recorded episodes, which can be interrupted at any point and continued."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Protocol

from acc.application.evaluation.model_pool import ModelPool
from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.domain.errors import AccError
from acc.domain.value_objects.evaluation_run import EpisodeEnd, EpisodeJob, TurnCompleted
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery
from acc.ports.outbound.live_evaluation_ports import (
    AgentRunnerPort,
    CallRecorderPort,
    EpisodeControlPort,
    EpisodeEvent,
    EpisodeJournalPort,
    JudgeEvaluatorPort,
    QuerySourcePort,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The objects of one episode; none is shared with another episode."""

    agents: Sequence[AgentRunnerPort]
    judge: JudgeEvaluatorPort
    queries: Sequence[EvaluationTurnQuery] | QuerySourcePort
    journal: EpisodeJournalPort
    models: ModelPool


class EpisodeFactory(Protocol):
    """Creates the objects of an episode."""

    def open(
        self, job: EpisodeJob, calls: CallRecorderPort
    ) -> AbstractAsyncContextManager[Episode]:
        """Return an episode whose files and connections are closed at the end of the context."""
        ...


class EpisodeRunner:
    """Runs episodes and records their turns; recorded turns are replayed, not repeated."""

    def __init__(
        self,
        *,
        factory: EpisodeFactory,
        calls: CallRecorderPort,
        agent_timeout: float | None = None,
        judge_attempts: int = 3,
    ) -> None:
        self._factory = factory
        self._calls = calls
        self._agent_timeout = agent_timeout
        self._judge_attempts = judge_attempts

    async def run(
        self, job: EpisodeJob, control: EpisodeControlPort
    ) -> AsyncGenerator[TurnCompleted | EpisodeEnd, None]:
        """Yield each recorded turn, and then how the episode ended.

        A turn is not recorded if a model has a configuration error, or if the parent process is
        gone: it says nothing about the agents.
        """
        async with self._factory.open(job, self._calls) as episode:
            live = LiveMultiAgentEvaluationUseCase(
                agents=episode.agents,
                judge=episode.judge,
                agent_timeout=self._agent_timeout,
                judge_attempts=self._judge_attempts,
            )
            earlier = episode.journal.read()
            count = len(earlier)
            length = len(episode.queries) if isinstance(episode.queries, Sequence) else None
            if count == length:
                yield EpisodeEnd(job=job, turns=count)
                return
            error = ""
            try:
                async with aclosing(live.turns(episode.queries, earlier=earlier)) as turns:
                    async for turn in turns:
                        if episode.models.configuration_error or control.disconnected:
                            break
                        episode.journal.append(turn)
                        count += 1
                        yield TurnCompleted(episode=job.name, turn=turn)
                        if control.stop_requested and count != length:
                            yield EpisodeEnd(job=job, turns=count, stopped=True)
                            return
            except AccError as failure:
                error = f"{failure.code}: {failure}"
            reason = episode.models.configuration_error
            if not reason and control.disconnected:
                reason = "the parent process is gone"
            yield EpisodeEnd(job=job, turns=count, error=reason or error, aborted=bool(reason))

    def events(
        self, job: EpisodeJob, control: EpisodeControlPort
    ) -> Generator[TurnCompleted | EpisodeEnd, None, None]:
        """Yield the events of an episode from an event loop of its own."""
        with asyncio.Runner() as loop:
            events = self.run(job, control)

            async def advance() -> TurnCompleted | EpisodeEnd | None:
                return await anext(events, None)

            try:
                while (event := loop.run(advance())) is not None:
                    yield event
            finally:
                loop.run(events.aclose())


class InProcessExecutor:
    """Runs episodes one after the other in this process."""

    def __init__(self, runner: EpisodeRunner) -> None:
        self._runner = runner
        self.stop_requested = False
        #: Only worker processes can lose their parent.
        self.disconnected = False

    def run(self, jobs: Sequence[EpisodeJob]) -> Generator[EpisodeEvent, None, None]:
        """Run the episodes and yield their events."""
        for job in jobs:
            yield from self._runner.events(job, self)
            if self.stop_requested:
                return

    def stop(self) -> None:
        """Start no further turn."""
        self.stop_requested = True
