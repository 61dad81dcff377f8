"""The Temporal engine with a real service: timers, payloads, versions, failures."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import shifted_worker
from agent_support import Does, says
from temporal_server import shared_server
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from acc import (
    Agent,
    EventKind,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    SessionBusy,
    Unavailable,
    approve,
    open_worker,
    tool,
)
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.adapters.system.clock import SystemClock
from acc.adapters.temporal.engine import TemporalEngine, workflow_id
from acc.adapters.temporal.location import parse_location
from acc.adapters.temporal.worker import run_worker
from acc.adapters.temporal.workflow import RunWorkflow
from acc.application.runtime.segments import RunSegments
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import Message, Role, Task, TaskState, TaskStatus
from acc.ports.outbound.engine_ports import EngineWork, TaskWork
from acc.testing import ScriptedModel, call

MAX_PAYLOAD_BYTES = 64 * 1024


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "acc.db")


@pytest.fixture
def app(request: pytest.FixtureRequest) -> str:
    return f"app-{abs(hash(request.node.nodeid))}"


@asynccontextmanager
async def durable(
    agent: Any, store: str, app: str, *, engine: Any = None, config: RunConfig | None = None
) -> AsyncIterator[Runner]:
    """Return a runner without a worker."""
    engine = engine or shared_server().url
    runner = Runner(agent, store=store, app_name=app, engine=engine, config=config)
    try:
        yield runner
    finally:
        await runner.aclose()


def worker(agent: Any, store: str, app: str, *, grace: float = 0.0) -> Any:
    return open_worker(agent, engine=shared_server().url, store=store, app_name=app, grace=grace)


def asks(name: str = "root") -> Does:
    async def ask(ctx: RunContext) -> str:
        answer = await ctx.request_input("May I?", expires_after=ctx.config.approval_ttl)
        return f"{answer.verdict.value} {answer.value}"

    return Does(name=name, do=ask)


async def until_status(runner: Runner, status: RunStatus) -> None:
    async with asyncio.timeout(20):
        while True:
            events = await runner.events()
            if events and events[-1].status is status:
                return
            await asyncio.sleep(0.02)


async def handle_of(runner: Runner, run_id: str) -> WorkflowHandle[Any, Any]:
    """Return the workflow of a run."""
    engine = runner.engine
    assert isinstance(engine, TemporalEngine)
    work = EngineWork(app_name=runner.app_name, run_id=run_id)
    return (await engine.client()).get_workflow_handle(workflow_id(work))


async def until_workflow_waits(runner: Runner, run_id: str) -> None:
    """Wait until the workflow has processed the end of the segment; the store is ahead of it."""
    handle = await handle_of(runner, run_id)
    async with asyncio.timeout(20):
        while True:
            kinds = [event.event_type for event in (await handle.fetch_history()).events]
            done = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED in kinds
            if done and kinds[-1] == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                return
            await asyncio.sleep(0.02)


async def payloads_of(runner: Runner, run_id: str) -> list[Payload]:
    """Return all payloads in the history of the workflow of a run."""
    history = await (await handle_of(runner, run_id)).fetch_history()
    found: list[Payload] = []

    def collect(message: Any) -> None:
        for field, value in message.ListFields():
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            for item in value if field.is_repeated else (value,):
                if isinstance(item, Payload):
                    found.append(item)
                else:
                    collect(item)

    for event in history.events:
        collect(event)
    return found


async def test_expired_request_continues_without_anybody(store: str, app: str) -> None:
    config = RunConfig(approval_ttl=0.3)
    async with durable(asks(), store, app, config=config) as runner, worker(asks(), store, app):
        waiting = await runner.run("go")
        assert waiting.status is RunStatus.INPUT_REQUIRED
        await until_status(runner, RunStatus.COMPLETED)
        assert (await runner.events())[-1].text.startswith("expired")


@asynccontextmanager
async def shifted(store: str, app: str, seconds: float) -> AsyncIterator[None]:
    """Run a worker in a process whose clock is wrong."""
    program = str(Path(__file__).parent / "shifted_worker.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, program, shared_server().url, store, app, str(seconds)),
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("seconds", [-60.0, 60.0])
async def test_timers_are_right_if_the_clock_of_a_worker_is_wrong(
    seconds: float, store: str, app: str
) -> None:
    async with (
        durable(shifted_worker.agent, store, app) as runner,
        shifted(store, app, seconds),
    ):
        waiting = await runner.run("go")
        asked_at = time.monotonic()
        await until_status(runner, RunStatus.COMPLETED)
        waited = time.monotonic() - asked_at
        history = await (await handle_of(runner, waiting.run_id)).fetch_history()
    kinds = [event.event_type for event in history.events]
    assert 0.5 * shifted_worker.TTL_SECONDS < waited < 4 * shifted_worker.TTL_SECONDS
    assert kinds.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) <= 4


async def test_task_that_is_stored_late_is_executed_if_the_clock_of_the_worker_is_wrong(
    store: str, app: str
) -> None:
    engine = TemporalEngine(parse_location(shared_server().url))
    work = EngineWork(app_name=app, run_id="late", user_id="ann", task=TaskWork(caller="ann"))
    tasks = SqliteTaskStore(Path(store), clock=SystemClock(), app_name=app)
    async with shifted(store, app, 7_200.0):
        await engine.start(work)
        await asyncio.sleep(0.5)  # the worker has looked for it
        status = TaskStatus(state=TaskState.SUBMITTED, at=time.time())
        message = Message(message_id="m", role=Role.USER, parts=text_part("go"))
        task = Task(id="late", context_id="c", status=status)
        await tasks.create(task, owner=Owner("", "ann"), message=message)
        async with asyncio.timeout(10):
            while True:
                stored = await tasks.read("late")
                assert stored is not None
                if stored.state is TaskState.INPUT_REQUIRED:
                    break
                await asyncio.sleep(0.05)
    await tasks.aclose()
    await engine.aclose()


async def test_payloads_are_references_at_turn_1000(store: str, app: str) -> None:
    local = Runner(says("root", "x" * 200), store=store, app_name=app)
    for number in range(999):
        await local.run(f"{number} " + "y" * 200)
    await local.aclose()
    async with durable(says("root", "z" * 100_000), store, app) as runner:
        async with worker(says("root", "z" * 100_000), store, app):
            result = await runner.run("w" * 100_000)
        assert len(result.text) == 100_000
        payloads = await payloads_of(runner, result.run_id)
        assert payloads
        assert sum(len(one.data) for one in payloads) < 2_000
        assert max(len(one.data) for one in payloads) < MAX_PAYLOAD_BYTES


@workflow.defn(name="acc.run")
class NextVersion(RunWorkflow):
    """The workflow with a change that a marker protects."""

    has_changed: asyncio.Event

    @workflow.run
    async def run(self, work: dict[str, Any]) -> None:
        await super().run(work)

    async def _wait(self, seen: int, resume_at: float | None) -> None:
        if workflow.patched("acc-next-version"):
            NextVersion.has_changed.set()
            await workflow.sleep(0.01)
        await super()._wait(seen, resume_at)


@workflow.defn(name="acc.run")
class Incompatible(RunWorkflow):
    """The workflow with a change without a marker."""

    @workflow.run
    async def run(self, work: dict[str, Any]) -> None:
        await workflow.sleep(0.01)
        await super().run(work)


async def test_run_of_an_old_version_finishes_on_a_new_worker(store: str, app: str) -> None:
    async with durable(asks(), store, app) as runner:
        async with worker(asks(), store, app):
            waiting = await runner.run("go")
            await until_workflow_waits(runner, waiting.run_id)
        NextVersion.has_changed = asyncio.Event()
        engine = TemporalEngine(parse_location(shared_server().url))
        local = Runner(asks(), store=store, app_name=app)
        async with run_worker(engine, RunSegments(local), app_name=app, workflow=NextVersion):
            result = await runner.resume(approve(waiting.requests[0].id, value="yes"))
            assert result.text == "approve yes"
            assert not NextVersion.has_changed.is_set()  # the old run has no marker
            again = await runner.run("once more")
            assert again.status is RunStatus.INPUT_REQUIRED
            async with asyncio.timeout(10):
                await NextVersion.has_changed.wait()  # the store is ahead of the workflow
        await local.aclose()


async def test_change_without_a_marker_is_detected_by_replay(store: str, app: str) -> None:
    async with durable(asks(), store, app) as runner, worker(asks(), store, app):
        waiting = await runner.run("go")
        result = await runner.resume(approve(waiting.requests[0].id))
        handle = await handle_of(runner, result.run_id)
        async with asyncio.timeout(10):
            await handle.result()
        history = await handle.fetch_history()
    for kind, is_same in ((RunWorkflow, True), (NextVersion, True), (Incompatible, False)):
        replayer = Replayer(workflows=[kind], workflow_runner=UnsandboxedWorkflowRunner())
        outcome = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        assert (outcome.replay_failure is None) is is_same


class Interrupted(TemporalEngine):
    """The engine, which loses the connection before the first start."""

    failures = 1

    async def start(self, work: EngineWork) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the connection is lost", retry_after=1.0)
        await super().start(work)


async def test_stored_message_is_executed_when_the_engine_is_back(store: str, app: str) -> None:
    engine = Interrupted(parse_location(shared_server().url))
    done = says("root", "done")
    async with durable(done, store, app, engine=engine) as runner, worker(done, store, app):
        with pytest.raises(Unavailable):
            await runner.run("first")
        result = await runner.resume()
        assert (result.status, result.text) == (RunStatus.COMPLETED, "done")


async def test_next_message_revives_the_run_that_nobody_started(store: str, app: str) -> None:
    def echo() -> Does:
        return Does(name="root", do=lambda ctx: ctx.message)

    engine = Interrupted(parse_location(shared_server().url))
    async with durable(echo(), store, app, engine=engine) as runner, worker(echo(), store, app):
        with pytest.raises(Unavailable):
            await runner.run("first")
        assert (await runner.run("second")).text == "second"
        events = await runner.events()
        ended = [event.text for event in events if event.kind is EventKind.ENDED]
        assert ended == ["first", "second"]


async def test_interrupted_run_without_an_engine_does_not_block_the_session(
    store: str, app: str
) -> None:
    code = (
        "import asyncio, os, sys; from acc import FunctionAgent, Runner\n"
        "async def die(ctx): os._exit(9)\n"
        "agent = FunctionAgent(name='root', function=die)\n"
        "Runner(agent, store=sys.argv[1], app_name=sys.argv[2]).run_sync('first')"
    )
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, store, app], check=False
    )
    assert died.returncode == 9
    async with durable(says("root"), store, app) as runner, worker(says("root"), store, app):
        assert (await runner.run("second")).text == "root"


async def test_stopped_worker_hands_its_run_over(store: str, app: str) -> None:
    calls: list[str] = []
    started = asyncio.Event()

    @tool
    async def charge() -> str:
        """Charge once."""
        calls.append("charge")
        started.set()
        await asyncio.sleep(60 if calls.count("charge") == 1 else 0)
        return "charged"

    @tool(idempotent=True)
    async def read() -> str:
        """Read."""
        calls.append("read")
        return "read"

    def agent() -> Agent:
        model = ScriptedModel(call("read"), call("charge"), "unclear", "unclear")
        return Agent(name="root", model=model, tools=[charge, read])

    shared = agent()
    async with durable(shared, store, app) as runner:
        async with asyncio.TaskGroup() as group:
            async with worker(shared, store, app):
                turn = group.create_task(runner.run("go"))
                await started.wait()
            async with worker(shared, store, app):
                result = await turn
        assert (result.status, result.text) == (RunStatus.COMPLETED, "unclear")
        assert calls == ["read", "charge"]  # neither is repeated


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("nats://localhost:4222", "'nats'"),
        ("temporal://", "temporal://HOST:PORT"),
        ("temporal://user:secret@localhost:7233", "ACC_TEMPORAL_API_KEY"),
        ("temporal://localhost:7233/a b", "temporal://HOST:PORT"),
        ("temporal://localhost:port", "temporal://HOST:PORT"),
        ("temporal://localhost?worker_timeout=1", "2 to 60 seconds"),
        ("temporal://localhost?worker_timeout=", "2 to 60 seconds"),
        ("temporal://localhost?worker_timeout=5s", "2 to 60 seconds"),
        ("localhost", "temporal://HOST:PORT"),
    ],
)
def test_invalid_url_is_refused_with_the_expected_form(url: str, named: str, store: str) -> None:
    with pytest.raises(InvalidInput, match=named) as caught:
        Runner(says("root"), store=store, engine=url)
    assert "secret" not in str(caught.value)


def test_engine_needs_a_shared_store() -> None:
    with pytest.raises(InvalidInput, match="postgresql://"):
        Runner(says("root"), engine="temporal://localhost:7233")


async def test_unavailable_engine_is_reported_and_nothing_is_stored(store: str, app: str) -> None:
    async with durable(says("root"), store, app, engine="temporal://127.0.0.1:1") as runner:
        with pytest.raises(Unavailable, match="127.0.0.1:1"):
            await runner.run("hello")
        assert await runner.events() == ()
    with pytest.raises(Unavailable):
        async with open_worker(says("root"), engine="temporal://127.0.0.1:1", store=store):
            pass


async def test_unknown_namespace_is_named(store: str, app: str) -> None:
    url = f"{shared_server().url}/elsewhere"
    async with durable(says("root"), store, app, engine=url) as runner:
        with pytest.raises(InvalidInput, match="elsewhere"):
            await runner.run("hello")


async def test_stub_functions_cannot_be_sent_to_workers(store: str, app: str) -> None:
    async with durable(says("root"), store, app) as runner:
        with pytest.raises(InvalidInput, match="root"):
            await runner.run("hello", config=RunConfig(stubs={"root": lambda ctx: "x"}))


def test_missing_extra_names_the_installation(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['temporalio'] = None\n"
        "from acc import Agent, Runner, InvalidInput\n"
        "try: Runner(Agent(name='a', model='embedded'), store='x.db', engine='temporal://h')\n"
        "except InvalidInput as error: print(error)"
    )
    shown = subprocess.run(  # noqa: S603 - our arguments
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert "pip install 'acc-agents[temporal]'" in shown.stdout


async def test_run_without_a_worker_waits_and_is_not_lost(store: str, app: str) -> None:
    late = says("root", "late")
    async with durable(late, store, app) as runner, asyncio.TaskGroup() as group:
        turn = group.create_task(runner.run("hello"))
        await asyncio.sleep(0.3)
        assert not turn.done()
        other = Runner(late, store=store, app_name=app, engine=shared_server().url)
        other.leases.busy_timeout = 0.1
        with pytest.raises(SessionBusy):
            await other.run("too early")
        await other.aclose()
        async with worker(late, store, app):
            assert (await turn).text == "late"
