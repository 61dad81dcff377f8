"""Contract of engines for A2A tasks: a task behaves the same wherever it is executed."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import count

import pytest
from agent_support import Does
from engine_support import EngineUnderTest

from acc import Agent, RequestKind, RunContext, tool
from acc.application.a2a.requests import GetRequest, SendRequest, TaskRequest
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.errors import TaskNotCancelable
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
)
from acc.testing import ScriptedModel, call

ANN = Principal(caller="ann", permissions=frozenset({"agent.invoke", "agent.read", "x"}))
_numbers = count(1)


def request(
    text: str | Part, *, task: str = "", context: str = "", wait: bool = True
) -> SendRequest:
    parts = text_part(text) if isinstance(text, str) else (text,)
    message = Message(
        message_id=f"m{next(_numbers)}",
        role=Role.USER,
        parts=parts,
        task_id=task,
        context_id=context,
    )
    return SendRequest(message=message, wait=wait)


async def send(serve: ServeA2AUseCase, sent: SendRequest) -> Task:
    async with asyncio.timeout(20):
        result = await serve.send(ANN, sent)
    assert isinstance(result, Task)
    return result


async def get(serve: ServeA2AUseCase, task: Task) -> Task:
    return await serve.get(ANN, GetRequest(id=task.id))


async def until(serve: ServeA2AUseCase, task: Task, check: Callable[[Task], bool]) -> Task:
    async with asyncio.timeout(20):
        while True:
            found = await get(serve, task)
            if check(found):
                return found
            await asyncio.sleep(0.01)


def answer(task: Task) -> str:
    return "".join(text_of(one.parts) for one in task.artifacts if one.artifact_id == "answer")


async def commands(ctx: RunContext) -> str:
    verb, _, rest = ctx.message.partition(" ")
    if verb == "ask":
        asked = await ctx.request_input(rest, kind=RequestKind.CONFIRMATION)
        return f"{asked.verdict.value} by {asked.by}"
    if verb == "fail":
        raise RuntimeError(rest)
    if verb == "wait":
        await ctx.progress("working on it")
        await asyncio.sleep(60)
    return f"{ctx.call.caller}: {ctx.message} {sorted(ctx.call.permissions or ())}"


def doer() -> Does:
    return Does(name="doer", description="Does.", do=commands)


async def test_task_completes_with_the_answer(engine: EngineUnderTest) -> None:
    async with engine.server(doer()) as serve:
        task = await send(serve, request("やあ"))
        assert task.state is TaskState.COMPLETED
        assert answer(task) == "a2a://ann: やあ ['agent.invoke', 'agent.read', 'x']"


async def test_tasks_of_one_context_are_turns_of_one_session(engine: EngineUnderTest) -> None:
    def number(ctx: RunContext) -> str:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        return str(ctx.state["n"])

    async with engine.server(Does(name="doer", do=number)) as serve:
        first = await send(serve, request("a"))
        second = await send(serve, request("b", context=first.context_id))
        assert (answer(first), answer(second)) == ("1", "2")


async def test_question_is_answered_with_a_message(engine: EngineUnderTest) -> None:
    async with engine.server(doer()) as serve:
        asked = await send(serve, request("ask May I?"))
        assert asked.state is TaskState.INPUT_REQUIRED
        done = await send(serve, request("yes", task=asked.id))
        assert (done.state, answer(done)) == (TaskState.COMPLETED, "approve by ann")


async def test_failure_hides_internal_texts(engine: EngineUnderTest) -> None:
    async with engine.server(doer()) as serve:
        task = await send(serve, request("fail the password is 1234"))
        assert task.state is TaskState.FAILED
        assert task.status.message is not None
        assert "1234" not in text_of(task.status.message.parts)


async def test_running_task_is_canceled(engine: EngineUnderTest) -> None:
    async with engine.server(doer()) as serve:
        task = await send(serve, request("wait", wait=False))
        await until(serve, task, lambda found: found.status.message is not None)
        canceled = await serve.cancel(ANN, TaskRequest(id=task.id))
        assert canceled.state is TaskState.CANCELED
        with pytest.raises(TaskNotCancelable):
            await serve.cancel(ANN, TaskRequest(id=task.id))
        # The session is free for the next task of the context.
        after = await send(serve, request("next", context=task.context_id))
        assert after.state is TaskState.COMPLETED


async def test_waiting_task_is_canceled(engine: EngineUnderTest) -> None:
    async with engine.server(doer()) as serve:
        asked = await send(serve, request("ask May I?"))
        canceled = await serve.cancel(ANN, TaskRequest(id=asked.id))
        assert canceled.state is TaskState.CANCELED
        after = await send(serve, request("next", context=asked.context_id))
        assert after.state is TaskState.COMPLETED


async def test_second_task_of_a_context_gets_a_session_while_the_first_waits(
    engine: EngineUnderTest,
) -> None:
    async with engine.server(doer()) as serve:
        asked = await send(serve, request("ask May I?"))
        other = await send(serve, request("hello", context=asked.context_id))
        assert other.state is TaskState.COMPLETED
        done = await send(serve, request("no", task=asked.id))
        assert answer(done) == "deny by ann"


async def test_stream_shows_deltas_and_the_end(engine: EngineUnderTest) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "sunny"

    model = ScriptedModel(call("look"), "It is sunny today.")
    async with engine.server(Agent(name="a", model=model, tools=[look])) as serve:
        stream = await serve.stream(ANN, request("weather?"))
        items = []
        async with asyncio.timeout(20), aclosing(stream.items()) as found:
            async for item in found:
                items.append(item.item)
        stream.close()
        chunks = [one for one in items if isinstance(one, ArtifactUpdate)]
        assert "".join(text_of(one.artifact.parts) for one in chunks) == "It is sunny today."
        last = items[-1]
        assert isinstance(last, StatusUpdate)
        assert last.status.state is TaskState.COMPLETED


async def test_repeated_message_is_one_task(engine: EngineUnderTest) -> None:
    async with engine.server(doer()) as serve:
        sent = request("once")
        first, second = await send(serve, sent), await send(serve, sent)
        assert first.id == second.id
