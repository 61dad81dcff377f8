"""Recorded episodes, which can be interrupted at any point and continued."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Protocol

from acc.application.evaluation.model_pool import ModelPool
from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.domain.errors import AccError
from acc.domain.value_objects.evaluation import TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeEnd, EpisodeJob, TurnCompleted
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery, TurnResult
from acc.ports.outbound.live_evaluation_ports import (
    AgentRunnerPort,
    CallRecorderPort,
    EpisodeControlPort,
    EpisodeEvent,
    EpisodeJournalPort,
    JudgeEvaluatorPort,
    QuerySourcePort,
)
from acc.ports.outbound.tracing_ports import TracerPort

#: Delays between attempts while a provider cannot be reached.
FIRST_DELAY_SECONDS = 1.0
MAX_DELAY_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The objects of one episode; none is shared with another episode."""

    agents: Sequence[AgentRunnerPort]
    judge: JudgeEvaluatorPort
    queries: Sequence[EvaluationTurnQuery] | QuerySourcePort
    journal: EpisodeJournalPort
    models: ModelPool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outage:
    """A provider could not be reached in the turn after so many recorded ones."""

    reason: str
    turns: int


def _is_complete(turn: TurnResult) -> bool:
    return all(record.status is TurnStatus.SCORED for record in turn.records)


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
        outage_wait: float = 0.0,
        tracer: TracerPort | None = None,
    ) -> None:
        self._factory = factory
        self._calls = calls
        self._outage_wait = outage_wait
        self._agent_timeout = agent_timeout
        self._judge_attempts = judge_attempts
        self._tracer = tracer

    async def run(
        self, job: EpisodeJob, control: EpisodeControlPort
    ) -> AsyncGenerator[TurnCompleted | EpisodeEnd, None]:
        """Yield each recorded turn, and then how the episode ended.

        A turn is not recorded if a model has a configuration error, if a provider cannot be
        reached, or if the parent process is gone: it says nothing about the agents. After an outage
        the episode continues from its recorded turns; after `outage_wait` seconds without a turn it
        ends.
        """
        waited, delay = 0.0, FIRST_DELAY_SECONDS
        while True:
            outage: _Outage | None = None
            async with aclosing(self._attempt(job, control)) as events:
                async for event in events:
                    if isinstance(event, _Outage):
                        outage = event
                        continue
                    if isinstance(event, TurnCompleted):
                        waited, delay = 0.0, FIRST_DELAY_SECONDS
                    yield event
            if outage is None:
                return
            if waited >= self._outage_wait or control.stop_requested or control.disconnected:
                yield EpisodeEnd(job=job, turns=outage.turns, error=outage.reason, aborted=True)
                return
            await asyncio.sleep(min(delay, self._outage_wait - waited))
            waited, delay = waited + delay, min(2 * delay, MAX_DELAY_SECONDS)

    async def _attempt(
        self, job: EpisodeJob, control: EpisodeControlPort
    ) -> "AsyncGenerator[TurnCompleted | EpisodeEnd | _Outage, None]":
        """Yield the turns until the episode ends or a provider cannot be reached."""
        async with self._factory.open(job, self._calls) as episode:
            live = LiveMultiAgentEvaluationUseCase(
                agents=episode.agents,
                judge=episode.judge,
                agent_timeout=self._agent_timeout,
                judge_attempts=self._judge_attempts,
                tracer=self._tracer,
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
                        if episode.models.outage and not _is_complete(turn):
                            yield _Outage(reason=episode.models.outage, turns=count)
                            return
                        episode.models.clear_outage()
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
