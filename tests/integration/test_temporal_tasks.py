"""Servers whose engine fails: nothing accepted is lost, nothing is accepted in vain."""

import asyncio
from pathlib import Path

import pytest
from agent_support import Does
from engine_support import EngineUnderTest
from temporal_server import shared_server

from acc import RunContext, Unavailable
from acc.adapters.temporal.engine import TemporalEngine, workflow_id
from acc.adapters.temporal.location import parse_location
from acc.application.a2a.requests import GetRequest, ListRequest, SendRequest
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import Message, Role, Task, TaskQuery, TaskState
from acc.ports.outbound.engine_ports import EngineWork

ANN = Principal(caller="ann")


class Failing(TemporalEngine):
    """The engine, whose connection can be interrupted."""

    is_connected = True

    async def start(self, work: EngineWork) -> None:
        self._check()
        await super().start(work)

    async def notify(self, work: EngineWork, *, start: bool = True) -> bool:
        self._check()
        return await super().notify(work, start=start)

    async def cancel(self, work: EngineWork) -> None:
        self._check()
        await super().cancel(work)

    def _check(self) -> None:
        if not self.is_connected:
            raise Unavailable("the connection is lost", retry_after=1.0)


async def ask(ctx: RunContext) -> str:
    return str((await ctx.request_input("Which one?")).value)


@pytest.fixture
def client() -> Failing:
    return Failing(parse_location(shared_server().url))


@pytest.fixture
def engine(tmp_path: Path, client: Failing) -> EngineUnderTest:
    return EngineUnderTest("temporal", tmp_path, client=client)


async def send(serve: ServeA2AUseCase, number: int, text: str, task: str = "") -> Task:
    message = Message(message_id=f"m{number}", role=Role.USER, parts=text_part(text), task_id=task)
    result = await serve.send(ANN, SendRequest(message=message, wait=not task))
    assert isinstance(result, Task)
    return result


async def test_message_is_refused_while_the_engine_is_unavailable(
    engine: EngineUnderTest, client: Failing
) -> None:
    async with engine.server(Does(name="root", do=ask), has_worker=False) as serve:
        client.is_connected = False
        with pytest.raises(Unavailable):
            await send(serve, 1, "hello")
        assert (await serve.list_tasks(ANN, ListRequest(query=TaskQuery()))).tasks == ()


async def test_answer_is_used_when_the_engine_is_available_again(
    engine: EngineUnderTest, client: Failing
) -> None:
    async with engine.server(Does(name="root", do=ask)) as serve:
        task = await send(serve, 1, "go")
        assert task.state is TaskState.INPUT_REQUIRED
        client.is_connected = False
        assert (await send(serve, 2, "the blue one", task.id)).state is TaskState.WORKING
        dispatcher = serve._executor.dispatcher
        assert dispatcher is not None
        with pytest.raises(Unavailable):  # the task is not failed, it is tried again
            await dispatcher.recover(task.id)
        client.is_connected = True
        assert await dispatcher.recover(task.id)
        async with asyncio.timeout(20):
            while True:
                task = await serve.get(ANN, GetRequest(id=task.id))
                if task.is_terminal:
                    break
                await asyncio.sleep(0.02)
        assert task.state is TaskState.COMPLETED
        assert not await dispatcher.recover("unknown")


async def test_terminated_workflow_fails_its_task_and_frees_the_context(
    engine: EngineUnderTest, client: Failing
) -> None:
    started = asyncio.Event()

    async def work(ctx: RunContext) -> str:
        if ctx.message == "hang":
            started.set()
            await asyncio.sleep(60)
        return "done"

    async with engine.server(Does(name="root", do=work)) as serve:
        message = Message(message_id="m1", role=Role.USER, parts=text_part("hang"))
        hanging = await serve.send(ANN, SendRequest(message=message, wait=False))
        assert isinstance(hanging, Task)
        await started.wait()
        known = EngineWork(app_name=serve.runner.app_name, run_id=hanging.id)
        temporal = await client.client()
        await temporal.get_workflow_handle(workflow_id(known)).terminate()
        dispatcher = serve._executor.dispatcher
        assert dispatcher is not None
        assert not await dispatcher.recover(hanging.id)
        await serve._executor.interrupt(hanging.id, "interrupted")
        following = Message(
            message_id="m2",
            role=Role.USER,
            parts=text_part("next"),
            context_id=hanging.context_id,
        )
        async with asyncio.timeout(20):
            done = await serve.send(ANN, SendRequest(message=following))
        assert isinstance(done, Task)
        assert done.state is TaskState.COMPLETED
