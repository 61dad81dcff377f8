"""Contract of engines for remote tasks: long ones, canceled ones, and no activity while waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from engine_support import EngineUnderTest

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    Event,
    EventKind,
    RemoteAgent,
    RunContext,
    Runner,
    RunStatus,
)
from acc.a2a import create_app
from acc.adapters.a2a.server.uvicorn import bind, serving
from acc.adapters.temporal.engine import TemporalEngine, workflow_id
from acc.application.a2a.requests import GetRequest, SendRequest, TaskRequest
from acc.application.agents import remote as remote_module
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import Message, Role, Task, TaskState
from acc.ports.outbound.engine_ports import EngineWork
from acc.testing import ScriptedModel, call


@dataclass(kw_only=True, eq=False)
class SlowAgent(BaseAgent):
    """Works until it is released."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    canceled: asyncio.Event = field(default_factory=asyncio.Event)
    runs: int = 0

    async def run(self, ctx: RunContext) -> str:
        self.runs += 1
        await ctx.progress("on it")
        self.started.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            raise
        return f"done: {ctx.message}"


@dataclass
class Served:
    """A slow agent and its address."""

    agent: SlowAgent
    url: str

    def remote(self) -> RemoteAgent:
        return RemoteAgent(name="slow", description="Slow.", url=self.url, allow=["127.0.0.1"])


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(remote_module, "FOLLOW_SECONDS", 0.05)
    monkeypatch.setattr(remote_module, "POLL_SECONDS", (0.05, 0.05))
    async with serve() as found:
        yield found


@asynccontextmanager
async def serve() -> AsyncIterator[Served]:
    agent = SlowAgent(name="slow", description="Slow.")
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with serving(create_app(agent, public_url=url), listener):
        yield Served(agent, url)


def as_tool(remote: RemoteAgent) -> Agent:
    model = ScriptedModel(call("slow", request="boxes"), "It was ordered.")
    return Agent(name="root", model=model, tools=[AgentTool(agent=remote)])


async def until_workflow_waits(runner: Runner) -> None:
    """Wait until a workflow has a timer and no activity."""
    engine = runner.engine
    assert isinstance(engine, TemporalEngine)
    async with asyncio.timeout(20):
        # The first event is stored before the workflow exists, the remote task by its activity.
        while not any("remote" in event.detail for event in await runner.events()):  # noqa: ASYNC110 - another process writes
            await asyncio.sleep(0.02)
        work = EngineWork(app_name=runner.app_name, run_id=(await runner.events())[0].run_id)
        handle = (await engine.client()).get_workflow_handle(workflow_id(work))
        while (await handle.describe()).raw_description.pending_activities:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)


class Observer:
    """Notices that the client has received an update of the remote task."""

    wants_deltas = False

    def __init__(self) -> None:
        self.known = asyncio.Event()

    async def on_event(self, event: Event) -> None:
        if event.kind is EventKind.PROGRESS:
            self.known.set()


@pytest.mark.parametrize("is_tool", [False, True])
async def test_long_remote_task_is_sent_once_and_answered(
    engine: EngineUnderTest, served: Served, is_tool: bool
) -> None:
    remote = served.remote()
    async with engine.runner(as_tool(remote) if is_tool else remote) as runner:
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(runner.run("boxes"))
            await served.agent.started.wait()
            if engine.is_durable:
                await until_workflow_waits(runner)
            served.agent.released.set()
            async with asyncio.timeout(20):
                result = await turn
        expected = "It was ordered." if is_tool else "done: boxes"
        assert (result.status, result.text) == (RunStatus.COMPLETED, expected)
        assert served.agent.runs == 1


async def test_cancellation_reaches_the_remote_task(
    engine: EngineUnderTest, served: Served
) -> None:
    observer = Observer()
    async with engine.runner(served.remote()) as runner:
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(runner.run("boxes", observer=observer))
            async with asyncio.timeout(20):
                await (until_workflow_waits(runner) if engine.is_durable else observer.known.wait())
            turn.cancel()
        async with asyncio.timeout(20):
            await served.agent.canceled.wait()
        assert (await runner.events())[-1].status is RunStatus.CANCELED


async def test_wait_needs_no_worker(tmp_path: Path, served: Served) -> None:
    engine, remote = EngineUnderTest("temporal", tmp_path), served.remote()
    async with engine.runner(remote, has_worker=False) as runner, asyncio.TaskGroup() as group:
        async with engine.worker(remote, runner.app_name):
            turn = group.create_task(runner.run("boxes"))
            await served.agent.started.wait()
            await until_workflow_waits(runner)
        served.agent.released.set()
        async with engine.worker(remote, runner.app_name), asyncio.timeout(20):
            assert (await turn).text == "done: boxes"
        assert served.agent.runs == 1


@pytest.mark.parametrize("is_canceled", [False, True])
async def test_task_works_while_it_waits_for_a_remote_task(
    engine: EngineUnderTest, served: Served, is_canceled: bool
) -> None:
    ann = Principal(caller="ann")
    message = Message(message_id="m", role=Role.USER, parts=text_part("boxes"))
    async with engine.server(served.remote()) as serve:
        task = await serve.send(ann, SendRequest(message=message, wait=False))
        assert isinstance(task, Task)
        async with asyncio.timeout(20):
            await served.agent.started.wait()
            # Several segments of the engine, which the client does not see.
            await asyncio.sleep(0.5)
            assert (await serve.get(ann, GetRequest(id=task.id))).state is TaskState.WORKING
            if is_canceled:
                await serve.cancel(ann, TaskRequest(id=task.id))
                await served.agent.canceled.wait()
            else:
                served.agent.released.set()
                while not (  # noqa: ASYNC110 - a worker writes
                    await serve.get(ann, GetRequest(id=task.id))
                ).is_terminal:
                    await asyncio.sleep(0.02)
        done = await serve.get(ann, GetRequest(id=task.id))
        assert done.state is (TaskState.CANCELED if is_canceled else TaskState.COMPLETED)
        assert served.agent.runs == 1
