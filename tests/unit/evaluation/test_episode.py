"""Recorded episodes: complete, stopped, continued, failed, aborted."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from pool_support import RecordedCalls, SimpleModelFactory

from acc.application.evaluation.episode import Episode, EpisodeRunner, InProcessExecutor
from acc.application.evaluation.model_pool import ModelPool
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import (
    EpisodeEnd,
    EpisodeJob,
    ScenarioChoice,
    TurnCompleted,
)
from acc.domain.value_objects.live_evaluation import TurnResult
from acc.ports.outbound.live_evaluation_ports import CallRecorderPort
from acc.ports.outbound.model_ports import ModelRequest
from acc.testing import ScriptedAgent, ScriptedJudge, ScriptedModel, queries


def job(seed: int = 7) -> EpisodeJob:
    scenario = ScenarioChoice(reference="r", id="s", domain="d", language="en", digest="0")
    return EpisodeJob(scenario=scenario, seed=seed)


JOB = job()


class ListJournal:
    def __init__(self) -> None:
        self.turns: list[TurnResult] = []

    def read(self) -> tuple[TurnResult, ...]:
        return tuple(self.turns)

    def append(self, result: TurnResult) -> None:
        self.turns.append(result)


class Control:
    def __init__(self, *, stop_after: int = 99, disconnect_after: int = 99) -> None:
        self.journal = ListJournal()
        self._stop_after = stop_after
        self._disconnect_after = disconnect_after

    @property
    def stop_requested(self) -> bool:
        return len(self.journal.turns) >= self._stop_after

    @property
    def disconnected(self) -> bool:
        return len(self.journal.turns) >= self._disconnect_after


class Episodes:
    """Creates episodes of three turns; from `fails_from` on the agent's model has a wrong key."""

    def __init__(
        self, journal: ListJournal, *, names: list[str] | None = None, fails_from: int = 99
    ) -> None:
        self.judge = ScriptedJudge(names=names)
        self.closed = 0
        self._journal = journal
        self._fails_from = fails_from

    @asynccontextmanager
    async def open(self, job: EpisodeJob, calls: CallRecorderPort) -> AsyncIterator[Episode]:
        pool = ModelPool(job.name, models=SimpleModelFactory(), calls=calls)
        agent = PooledAgent(pool, fails_from=self._fails_from)
        try:
            yield Episode(
                agents=[agent],
                judge=self.judge,
                queries=queries("one", "two", "three"),
                journal=self._journal,
                models=pool,
            )
        finally:
            self.closed += 1


class PooledAgent(ScriptedAgent):
    def __init__(self, pool: ModelPool, *, fails_from: int) -> None:
        super().__init__("a", ["1", "2", "3"])
        self._good = pool.meter(ScriptedModel("x", repeat=True), agent="a")
        self._bad = pool.meter(WrongKeyModel(), agent="a")
        self._fails_from = fails_from

    async def run_turn(self, query, canonical_memory):  # type: ignore[no-untyped-def]
        model = self._bad if query.turn_id >= self._fails_from else self._good
        await model.complete(ModelRequest.of(query.query))
        return await super().run_turn(query, canonical_memory)


class WrongKeyModel(ScriptedModel):
    async def complete(self, prompt: ModelRequest):  # type: ignore[no-untyped-def]
        raise InvalidInput("no key")


async def run(episodes: Episodes, control: Control) -> tuple[list[int], EpisodeEnd]:
    runner = EpisodeRunner(factory=episodes, calls=RecordedCalls())
    turns: list[int] = []
    async with aclosing(runner.run(JOB, control)) as events:
        async for event in events:
            if isinstance(event, EpisodeEnd):
                return turns, event
            turns.append(event.turn.query.turn_id)
    raise AssertionError("the episode has no end")


async def test_every_turn_is_recorded_before_it_is_yielded() -> None:
    control = Control()
    episodes = Episodes(control.journal)
    runner = EpisodeRunner(factory=episodes, calls=RecordedCalls())
    events = [event async for event in runner.run(JOB, control)]
    assert [type(event) for event in events] == [TurnCompleted] * 3 + [EpisodeEnd]
    assert events[-1] == EpisodeEnd(job=JOB, turns=3)
    assert [turn.query.turn_id for turn in control.journal.turns] == [1, 2, 3]
    assert episodes.closed == 1


async def test_stopped_episode_continues_after_its_last_recorded_turn() -> None:
    control = Control(stop_after=2)
    turns, end = await run(Episodes(control.journal), control)
    assert (turns, end.turns, end.stopped) == ([1, 2], 2, True)
    resumed = Control()
    resumed.journal = control.journal
    turns, end = await run(Episodes(control.journal), resumed)
    assert (turns, end.turns, end.stopped) == ([3], 3, False)
    assert await run(Episodes(control.journal), resumed) == ([], EpisodeEnd(job=JOB, turns=3))


async def test_stop_request_after_the_last_turn_does_not_make_an_episode_stopped() -> None:
    control = Control(stop_after=3)
    _, end = await run(Episodes(control.journal), control)
    assert (end.turns, end.stopped) == (3, False)


async def test_error_of_the_judge_ends_the_episode_with_its_code() -> None:
    control = Control()
    _, end = await run(Episodes(control.journal, names=["ghost"]), control)
    assert end.error.startswith("judge_contract_broken: ")
    assert (end.turns, end.aborted) == (0, False)
    assert JOB.name == "s.000007"


async def test_configuration_error_aborts_the_episode_without_recording_the_turn() -> None:
    control = Control()
    turns, end = await run(Episodes(control.journal, fails_from=2), control)
    assert turns == [1]
    assert (end.turns, end.error, end.aborted, end.stopped) == (1, "no key", True, False)


async def test_configuration_error_is_reported_instead_of_the_error_that_it_caused() -> None:
    control = Control()
    _, end = await run(Episodes(control.journal, names=["ghost"], fails_from=1), control)
    assert (end.turns, end.error, end.aborted) == (0, "no key", True)


async def test_turn_is_not_recorded_when_the_parent_process_is_gone() -> None:
    control = Control(disconnect_after=1)
    turns, end = await run(Episodes(control.journal), control)
    assert turns == [1]
    assert (end.turns, end.aborted) == (1, True)


def test_in_process_executor_starts_no_further_episode_after_stop() -> None:
    journal = ListJournal()
    executor = InProcessExecutor(EpisodeRunner(factory=Episodes(journal), calls=RecordedCalls()))
    events = []
    for event in executor.run([job(1), job(2)]):
        events.append(event)
        executor.stop()
    assert [type(event) for event in events] == [TurnCompleted, EpisodeEnd]
    assert events[-1] == EpisodeEnd(job=job(1), turns=1, stopped=True)


def test_closing_the_events_of_an_episode_closes_the_episode() -> None:
    journal = ListJournal()
    episodes = Episodes(journal)
    events = EpisodeRunner(factory=episodes, calls=RecordedCalls()).events(JOB, Control())
    next(events)
    events.close()
    assert episodes.closed == 1
    assert len(journal.turns) == 1
