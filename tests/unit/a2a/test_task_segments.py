"""Tests of segments of tasks: what a worker does with a submitted task, without an engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from server_harness import ANN, APP, CommandAgent, ServerHarness, answer_text, send_request

from acc import Runner
from acc.application.a2a.executor import TaskExecutor
from acc.application.a2a.requests import ServerLimits
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.a2a.task_segments import TASK_WAIT_SECONDS, TaskSegments
from acc.application.runtime.segments import ENDED
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.agents import make_services
from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.task import Task, TaskState, TaskStatus
from acc.ports.outbound.engine_ports import EngineWork


class Attempt:
    """An attempt that is never stopped; its work has an age by the clock of the engine."""

    is_handed_over = False

    def __init__(self, age: float = 0.0) -> None:
        self._age = age

    async def age(self) -> float:
        return self._age


class RecordingEngine:
    """An engine that only records work; the test executes it."""

    def __init__(self) -> None:
        self.started: list[EngineWork] = []
        self.canceled: list[str] = []

    async def connect(self) -> None:
        return

    async def start(self, work: EngineWork) -> None:
        self.started.append(work)

    async def notify(self, work: EngineWork, *, start: bool = True) -> bool:
        return True

    async def cancel(self, work: EngineWork) -> None:
        self.canceled.append(work.run_id)

    async def aclose(self) -> None:
        return


@pytest.fixture
def engine() -> RecordingEngine:
    return RecordingEngine()


@asynccontextmanager
async def open_server(
    harness: ServerHarness, engine: RecordingEngine, *, tasks: int = 64
) -> AsyncIterator[ServeA2AUseCase]:
    services = make_services(store=(harness.sessions, harness.artifacts), clock=harness.clock)
    runner = Runner(CommandAgent(name="doer"), app_name=APP, services=services, engine=engine)
    serve = ServeA2AUseCase(
        runner,
        tasks=harness.tasks,
        storage=harness.unit_of_work(harness.tasks),
        limits=ServerLimits(tasks=tasks, grace=0.05),
    )
    async with serve.open():
        yield serve


async def submit(serve: ServeA2AUseCase, text: str, message_id: str = "") -> Task:
    result = await serve.send(ANN, send_request(text, id=message_id, wait=False))
    assert isinstance(result, Task)
    return result


def worker(harness: ServerHarness) -> TaskSegments:
    services = make_services(store=(harness.sessions, harness.artifacts), clock=harness.clock)
    runner = Runner(CommandAgent(name="doer"), app_name=APP, services=services)
    executor = TaskExecutor(
        runner=runner,
        tasks=harness.tasks,
        storage=harness.unit_of_work(harness.tasks),
        broker=TaskBroker(),
    )
    return TaskSegments(runner, tasks=harness.tasks, executor=executor)


async def test_task_that_is_stored_late_is_executed(
    sqlite_harness: ServerHarness, engine: RecordingEngine
) -> None:
    harness, segments = sqlite_harness, worker(sqlite_harness)
    async with open_server(harness, engine) as serve:
        await submit(serve, "first")
        (work,) = engine.started
        late = replace_id(work, "late")
        harness.clock.time += 7_200.0  # the clock of this machine is wrong
        outcome = await segments.execute(late, Attempt(60.0))
        assert not outcome.has_ended
        assert outcome.resume_at == harness.clock.now() + 2.0
        status = TaskStatus(state=TaskState.SUBMITTED, at=harness.clock.now())
        task = Task(id="late", context_id="c", status=status)
        message = send_request("hello").message
        await harness.tasks.create(task, owner=ANN.owner, message=message)
        assert await segments.execute(late, Attempt()) == ENDED
        stored = await harness.tasks.read("late")
        assert stored is not None
        assert (stored.state, answer_text(stored)) == (TaskState.COMPLETED, "echo: hello")


async def test_task_that_is_never_stored_is_given_up(
    sqlite_harness: ServerHarness, engine: RecordingEngine
) -> None:
    harness, segments = sqlite_harness, worker(sqlite_harness)
    async with open_server(harness, engine) as serve:
        await submit(serve, "hello")
        lost = replace_id(engine.started[0], "lost")
        assert not (await segments.execute(lost, Attempt(TASK_WAIT_SECONDS))).has_ended
        assert await segments.execute(lost, Attempt(TASK_WAIT_SECONDS + 1.0)) == ENDED


def replace_id(work: EngineWork, task_id: str) -> EngineWork:
    return EngineWork(app_name=work.app_name, run_id=task_id, user_id=work.user_id, task=work.task)


async def test_run_of_a_repeated_message_is_canceled(
    sqlite_harness: ServerHarness, engine: RecordingEngine
) -> None:
    async with open_server(sqlite_harness, engine) as serve:
        first = await submit(serve, "hello", "m-same")
        assert (await submit(serve, "hello", "m-same")).id == first.id
        repeated = [work.run_id for work in engine.started if work.run_id != first.id]
        assert len(repeated) == 1
        assert engine.canceled == repeated


async def test_run_of_a_refused_message_is_canceled(
    sqlite_harness: ServerHarness, engine: RecordingEngine
) -> None:
    async with open_server(sqlite_harness, engine, tasks=1) as serve:
        first = await submit(serve, "hello")
        with pytest.raises(LimitExceeded):
            await submit(serve, "another")
        assert engine.canceled == [engine.started[1].run_id]
        assert engine.started[0].run_id == first.id
