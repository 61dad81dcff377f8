"""Tests of segments: what a worker does with a stored run, without an engine."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from agent_support import Does, says

from acc import (
    Agent,
    BaseAgent,
    EventKind,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    Unavailable,
    approve,
    tool,
)
from acc.application.runtime.run import EventRecorder
from acc.application.runtime.segments import ENDED, RunSegments
from acc.domain.errors import SessionConflict
from acc.domain.value_objects.event import Event
from acc.ports.outbound.engine_ports import EngineWork
from acc.ports.outbound.storage_ports import BeginTurn, TurnStart
from acc.testing import ScriptedModel, call


@dataclass
class Attempt:
    """An attempt of a worker that may be stopping."""

    is_handed_over: bool = False

    async def age(self) -> float:
        return 0.0


class Disconnected:
    """An engine that responds to nobody after it was connected."""

    async def connect(self) -> None:
        return

    async def start(self, work: EngineWork) -> None:
        raise Unavailable("no response", retry_after=1.0)

    async def notify(self, work: EngineWork, *, start: bool = True) -> bool:
        raise Unavailable("no response", retry_after=1.0)

    async def cancel(self, work: EngineWork) -> None:
        return

    async def aclose(self) -> None:
        return


async def begin(
    agent: BaseAgent, store: str, message: str = "go", *, config: RunConfig | None = None
) -> EngineWork:
    """Store a message that no worker has seen yet."""
    client = Runner(agent, store=store, engine=Disconnected())
    with pytest.raises(Unavailable):
        await client.run(message, config=config)
    (stored,) = await client.events()
    await client.aclose()
    return EngineWork(app_name="app", run_id=stored.run_id, user_id="local", session_id="default")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "acc.db")


async def execute(agent: BaseAgent, store: str, work: EngineWork) -> tuple[bool, Runner]:
    runner = Runner(agent, store=store)
    outcome = await RunSegments(runner).execute(work, Attempt())
    return outcome.has_ended, runner


async def test_segment_executes_stored_message_with_its_config(store: str) -> None:
    agent = Does(name="root", do=lambda ctx: f"{ctx.message} {ctx.config.max_hops}")
    work = await begin(agent, store, config=RunConfig(max_hops=3))
    has_ended, runner = await execute(agent, store, work)
    assert has_ended
    assert (await runner.events())[-1].text == "go 3"
    before = len(await runner.events())
    assert await RunSegments(runner).execute(work, Attempt()) == ENDED  # nothing is repeated
    assert len(await runner.events()) == before
    await runner.aclose()


async def test_segment_of_a_replaced_or_unknown_run_ends_at_once(store: str) -> None:
    runner = Runner(says("root"), store=store)
    work = EngineWork(app_name="app", run_id="other", user_id="local", session_id="default")
    assert await RunSegments(runner).execute(work, Attempt()) == ENDED
    await runner.run("hello")
    assert await RunSegments(runner).execute(work, Attempt()) == ENDED
    await runner.aclose()


async def test_paused_attempt_cannot_write_after_it_was_replaced(store: str) -> None:
    calls: list[str] = []
    started, released = asyncio.Event(), asyncio.Event()

    @tool
    async def charge() -> str:
        """Charge."""
        calls.append("charge")
        started.set()
        await released.wait()
        return "charged"

    def agent(*answers: object) -> Agent:
        model = ScriptedModel(*answers)  # type: ignore[arg-type] # texts and calls
        return Agent(name="root", model=model, tools=[charge])

    work = await begin(agent(), store)
    paused = Runner(agent(call("charge"), "paused"), store=store)
    other = Runner(agent("the outcome is unknown"), store=store)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(_conflict(paused, work))
        await started.wait()
        assert await RunSegments(other).execute(work, Attempt()) == ENDED
        released.set()
        assert await first
    assert calls == ["charge"]
    ended = [event for event in await other.events() if event.kind is EventKind.ENDED]
    assert [(one.status, one.text) for one in ended] == [
        (RunStatus.COMPLETED, "the outcome is unknown")
    ]
    await paused.aclose()
    await other.aclose()


async def _conflict(runner: Runner, work: EngineWork) -> bool:
    """Return True if an attempt fails because it has lost its lease."""
    with pytest.raises(SessionConflict):
        await RunSegments(runner).execute(work, Attempt())
    return True


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_cancelled_segment_records_its_end_unless_it_is_handed_over(
    store: str, is_handed_over: bool
) -> None:
    started = asyncio.Event()

    async def wait(ctx: RunContext) -> None:
        started.set()
        await asyncio.sleep(60)

    agent = Does(name="root", do=wait)
    work = await begin(agent, store)
    runner = Runner(agent, store=store)
    async with asyncio.TaskGroup() as group:
        attempt = Attempt(is_handed_over=is_handed_over)
        task = group.create_task(_execute(runner, work, attempt))
        await started.wait()
        task.cancel()
    session = await runner.services.sessions.read(runner.session_key("local", "default"))
    assert session is not None
    expected = RunStatus.WORKING if is_handed_over else RunStatus.CANCELED
    assert session.status is expected
    await RunSegments(runner).cancel(work)
    assert (await runner.events())[-1].status is RunStatus.CANCELED
    await runner.aclose()


class Unanswered(EventRecorder):
    """A recorder whose store does not answer after its first write."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.services.sessions)
        self.stored = asyncio.Event()

    async def begin(self, turn: BeginTurn) -> TurnStart:
        start = await super().begin(turn)
        await self._wait()
        return start

    async def record(self, *events: Event, release: bool = False) -> tuple[Event, ...]:
        stored = await super().record(*events, release=release)
        await self._wait()
        return stored

    async def _wait(self) -> None:
        if not self.stored.is_set():
            self.stored.set()
            await asyncio.sleep(60)


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_segment_cancelled_during_its_first_write_is_ended_unless_it_is_handed_over(
    store: str, is_handed_over: bool
) -> None:
    async def ask(ctx: RunContext) -> str:
        return str((await ctx.request_input("Which?")).value)

    agent = Does(name="root", do=ask)
    runner = Runner(agent, store=store)
    segments = RunSegments(runner)
    attempt = Attempt(is_handed_over=is_handed_over)
    recorder = Unanswered(runner)

    async def start() -> None:
        await runner.run("go", recorder=recorder, segment=segments.segment("run-1", attempt))

    async with asyncio.TaskGroup() as group:
        task = group.create_task(start())
        await recorder.stored.wait()
        task.cancel()
    key = runner.session_key("local", "default")
    session = await runner.services.sessions.read(key)
    assert session is not None
    assert session.status is (RunStatus.WORKING if is_handed_over else RunStatus.CANCELED)
    await runner.aclose()


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_segment_cancelled_while_it_stores_answers_is_ended_unless_it_is_handed_over(
    store: str, is_handed_over: bool
) -> None:
    async def ask(ctx: RunContext) -> str:
        return str((await ctx.request_input("Which?")).value)

    runner = Runner(Does(name="root", do=ask), store=store)
    paused = await runner.run("go")
    (request,) = paused.requests
    recorder = Unanswered(runner)
    segment = RunSegments(runner).segment(paused.run_id, Attempt(is_handed_over=is_handed_over))

    async def answer() -> None:
        await runner.resume(approve(request.id, value="blue"), recorder=recorder, segment=segment)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(answer())
        await recorder.stored.wait()
        task.cancel()
    events = await runner.events()
    assert (events[-1].status is RunStatus.CANCELED) is not is_handed_over
    await runner.aclose()


async def _execute(runner: Runner, work: EngineWork, attempt: Attempt) -> None:
    await RunSegments(runner).execute(work, attempt)


async def test_segment_waits_until_there_is_an_answer(store: str) -> None:
    async def ask(ctx: RunContext) -> str:
        return str((await ctx.request_input("Which?", expires_after=60.0)).value)

    agent = Does(name="root", do=ask)
    work = await begin(agent, store)
    runner = Runner(agent, store=store)
    segments = RunSegments(runner)
    waiting = await segments.execute(work, Attempt())
    assert not waiting.has_ended
    assert waiting.resume_at is not None
    count = len(await runner.events())
    assert await segments.execute(work, Attempt()) == waiting  # nothing new, nothing recorded
    assert len(await runner.events()) == count
    client = Runner(agent, store=store, engine=Disconnected())
    (request,) = await client.pending()
    with pytest.raises(Unavailable):
        await client.resume(approve(request.id, value="blue"))
    assert await segments.execute(work, Attempt()) == ENDED
    assert (await runner.events())[-1].text == "blue"
    await client.aclose()
    await runner.aclose()


async def test_new_message_waits_while_a_worker_has_not_read_the_answer(store: str) -> None:
    async def ask(ctx: RunContext) -> str:
        if ctx.message != "go":
            return "second"
        return str((await ctx.request_input("Which?")).value)

    agent = Does(name="root", do=ask)
    work = await begin(agent, store)
    runner = Runner(agent, store=store)
    await RunSegments(runner).execute(work, Attempt())

    class Connected(Disconnected):
        """Executes nothing until the test does."""

        def __init__(self) -> None:
            self.work: asyncio.Queue[EngineWork] = asyncio.Queue()

        async def start(self, work: EngineWork) -> None:
            self.work.put_nowait(work)

        async def notify(self, work: EngineWork, *, start: bool = True) -> bool:
            return True

    engine = Connected()
    client = Runner(agent, store=store, engine=engine)
    (request,) = await client.pending()
    async with asyncio.TaskGroup() as group:
        answered = group.create_task(client.resume(approve(request.id, value="blue")))
        await asyncio.sleep(0.1)
        following = group.create_task(client.run("next"))
        await asyncio.sleep(0.1)
        assert not following.done()
        assert await RunSegments(runner).execute(work, Attempt()) == ENDED
        assert (await answered).text == "blue"
        async with asyncio.timeout(10):
            following_work = await engine.work.get()
        await RunSegments(runner).execute(following_work, Attempt())
        assert (await following).text == "second"
    await client.aclose()
    await runner.aclose()
