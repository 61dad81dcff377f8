"""Runs of an engine that wait for remote tasks: the segment ends, and the engine waits."""

import asyncio
from pathlib import Path

import pytest
from agent_support import Does
from remote_harness import EchoAgent, RemoteHarness, shop, task

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    EventKind,
    ParallelAgent,
    RemoteFailed,
    RunContext,
    RunStatus,
    SequentialAgent,
    ToolContext,
    approve,
    tool,
)
from acc.application.runtime.interrupts import RunPaused
from acc.application.runtime.segments import ENDED, RunSegments
from acc.domain.value_objects.session import Session
from acc.domain.value_objects.task import Task, TaskState
from acc.ports.outbound.engine_ports import EngineWork, SegmentOutcome
from acc.testing import FrozenClock, ScriptedModel, ScriptedRemote, call


class Attempt:
    """An attempt that is never stopped."""

    is_handed_over = False

    async def age(self) -> float:
        return 0.0


class SlowRemote(ScriptedRemote):
    """A server whose task is active until `is_done`."""

    def __init__(self, answer: str = "two boxes") -> None:
        super().__init__(task(TaskState.WORKING), answer)
        self.is_done = False
        self.polls = 0

    async def get(self, task_id: str) -> Task:
        self.polls += 1
        return task(TaskState.COMPLETED if self.is_done else TaskState.WORKING)


class Segments:
    """Executes the segments of one run, each as another worker would."""

    def __init__(
        self,
        agent: BaseAgent,
        remote: ScriptedRemote,
        folder: Path,
        *,
        clock: FrozenClock | None = None,
    ) -> None:
        self._agent, self._remote, self._store = agent, remote, folder / "acc.db"
        self._clock = clock

    def _harness(self) -> RemoteHarness:
        return RemoteHarness(self._agent, self._remote, self._store, clock=self._clock)

    async def begin(self, text: str = "order") -> SegmentOutcome:
        """Store the message and execute the first segment."""
        harness = self._harness()
        segment = RunSegments(harness.runner).segment("run-1", Attempt())
        with pytest.raises(RunPaused) as paused:
            await harness.runner.run(text, segment=segment)
        await harness.runner.aclose()
        return SegmentOutcome(has_ended=False, resume_at=paused.value.resume_at)

    async def execute(self) -> SegmentOutcome:
        """Execute the next segment."""
        harness = self._harness()
        outcome = await RunSegments(harness.runner).execute(self.work, Attempt())
        await harness.runner.aclose()
        return outcome

    async def cancel(self) -> None:
        """Cancel the run while nothing executes it."""
        harness = self._harness()
        await RunSegments(harness.runner).cancel(self.work)
        await harness.runner.aclose()

    @property
    def work(self) -> EngineWork:
        return EngineWork(app_name="app", run_id="run-1", user_id="local", session_id="default")

    async def session(self) -> tuple[Session, str]:
        """Return the session and its last text."""
        harness = self._harness()
        runner = harness.runner
        session = await runner.services.sessions.read(runner.session_key("local", "default"))
        events = await runner.events()
        await runner.aclose()
        assert session is not None
        return session, events[-1].text


def sub_agent() -> BaseAgent:
    return SequentialAgent(name="root", sub_agents=[shop(), EchoAgent(name="after")])


def agent_tool() -> BaseAgent:
    # Replayed responses are not requested again, so each segment continues the script.
    model = ScriptedModel(call("shop", request="two boxes, please"), "It was ordered.")
    return Agent(name="root", model=model, tools=[AgentTool(agent=shop())])


def branches() -> BaseAgent:
    return ParallelAgent(name="root", sub_agents=[shop(), EchoAgent(name="other")])


@pytest.mark.parametrize("make", [shop, sub_agent, agent_tool, branches])
async def test_segment_ends_while_the_remote_task_is_active(make: object, tmp_path: Path) -> None:
    remote = SlowRemote()
    run = Segments(make(), remote, tmp_path)  # type: ignore[operator] # a function
    first = await run.begin()
    second = await run.execute()
    for outcome in (first, second):
        assert not outcome.has_ended
        assert outcome.resume_at is not None
    session, _ = await run.session()
    assert session.status is RunStatus.WORKING  # there is no input request
    remote.is_done = True
    assert await run.execute() == ENDED
    session, text = await run.session()
    assert session.status is RunStatus.COMPLETED
    assert text
    assert [one.task_id for one in remote.sent] == ["", "task-1"]  # sent once, then followed
    assert await run.execute() == ENDED
    assert len(remote.sent) == 2


async def test_intervals_grow_within_bounds(tmp_path: Path) -> None:
    clock = FrozenClock()
    run = Segments(shop(timeout=3600.0), SlowRemote(), tmp_path, clock=clock)
    start = clock.now()
    intervals = [await run.begin()]
    for waited in (10.0, 100.0, 3000.0, 3590.0):
        clock.time = start + waited
        intervals.append(await run.execute())
    expected = [1.0, 10.0 + 2.0, 100.0 + 20.0, 3000.0 + 30.0, 3590.0 + 10.0]
    assert [outcome.resume_at for outcome in intervals] == [start + one for one in expected]


async def test_cancellation_reaches_the_remote_task(tmp_path: Path) -> None:
    remote = SlowRemote()
    run = Segments(sub_agent(), remote, tmp_path)
    await run.begin()
    await run.cancel()
    assert remote.canceled == ["task-1"]
    session, _ = await run.session()
    assert session.status is RunStatus.CANCELED
    assert await run.execute() == ENDED


async def test_task_is_canceled_after_the_timeout_of_the_agent(tmp_path: Path) -> None:
    remote = SlowRemote()
    run = Segments(shop(timeout=0.05), remote, tmp_path)
    outcome = await run.begin()
    assert outcome.resume_at is not None
    await asyncio.sleep(0.06)
    assert await run.execute() == ENDED
    assert remote.canceled == ["task-1"]
    session, text = await run.session()
    assert session.status is RunStatus.FAILED
    assert "timed_out: task task-1 did not finish within 0.05 seconds" in text


async def test_person_is_asked_while_another_branch_waits(tmp_path: Path) -> None:
    async def ask(ctx: RunContext) -> str:
        return str((await ctx.request_input("Which?")).value)

    agent = ParallelAgent(name="root", sub_agents=[shop(), Does(name="asker", do=ask)])
    remote = SlowRemote()
    harness = RemoteHarness(agent, remote, tmp_path / "acc.db")
    segment = RunSegments(harness.runner).segment("run-1", Attempt())
    paused = await harness.runner.run("order", segment=segment)
    assert paused.status is RunStatus.INPUT_REQUIRED
    (request,) = paused.requests
    remote.is_done = True
    done = await harness.runner.resume(approve(request.id, value="blue"))
    assert done.status is RunStatus.COMPLETED
    assert len(remote.sent) == 2
    await harness.runner.aclose()


async def test_runner_without_engine_follows_the_task_that_a_segment_left(tmp_path: Path) -> None:
    remote = SlowRemote()
    await Segments(shop(), remote, tmp_path).begin()
    harness = RemoteHarness(shop(), remote, tmp_path / "acc.db")
    result = await harness.runner.resume()
    assert (result.status, result.text) == (RunStatus.COMPLETED, "two boxes")
    assert remote.polls == 1  # by the segment
    await harness.runner.aclose()


async def test_call_that_cannot_be_replayed_keeps_its_segment(tmp_path: Path) -> None:
    remote = SlowRemote()
    agent = shop()

    @tool
    async def order(ctx: ToolContext) -> str:
        """Order."""
        return (await ctx.run_context.run_agent(agent)).text

    model = ScriptedModel(call("order"), "Done.")
    root = Agent(name="root", model=model, tools=[order])
    harness = RemoteHarness(root, remote, tmp_path / "acc.db")
    segment = RunSegments(harness.runner).segment("run-1", Attempt())
    result = await harness.runner.run("go", segment=segment)
    assert result.text == "Done."
    results = [event for event in result.events if event.kind is EventKind.TOOL_RESULT]
    assert [event.parts[0].result.content for event in results if event.parts[0].result] == [
        "two boxes"
    ]
    await harness.runner.aclose()


async def test_failed_poll_fails_the_run(tmp_path: Path) -> None:
    class Broken(SlowRemote):
        async def get(self, task_id: str) -> Task:
            if self.polls:
                raise RemoteFailed("gone", remote_code="task_not_found")
            return await super().get(task_id)

    run = Segments(shop(), Broken(), tmp_path)
    await run.begin()
    assert await run.execute() == ENDED
    session, text = await run.session()
    assert session.status is RunStatus.FAILED
    assert "gone" in text
