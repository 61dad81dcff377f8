"""Messages are validated and create tasks."""

import asyncio
import gc
from dataclasses import dataclass
from typing import Any

import pytest
from server_harness import (
    ANN,
    BOB,
    CommandAgent,
    S,
    ServerHarness,
    answer_text,
    cancel,
    get,
    list_tasks,
    read_stream,
    send,
    send_request,
    start,
    summarize,
    wait_for_state,
    wait_until,
)

from acc import Agent, BaseAgent, RunContext
from acc.application.a2a.executor import TaskRun, trace_id_of
from acc.application.a2a.intake import validate_message, wants_json_answer
from acc.application.a2a.media_modes import accepts, media_type, output_modes
from acc.application.a2a.requests import ServerLimits
from acc.domain.errors import ContentTypeNotSupported, InvalidInput, LimitExceeded, Unavailable
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.task import Message, Role, Task
from acc.testing import ScriptedModel


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"role": Role.AGENT}, "role"),
        ({"id": " "}, "messageId: must not be empty"),
        ({"id": "x" * 257}, "messageId: must be at most 256"),
        ({"id": "a\nb"}, "messageId"),
        ({"context": "x" * 257}, "contextId"),
        ({"task": "\x00"}, "taskId"),
        ({"text": []}, "at least one part"),
        ({"text": [Part(text="a")] * 4}, "at most 3 parts"),
        ({"text": "x" * 11}, "at most 10 characters"),
    ],
)
async def test_submit_fails_when_message_is_invalid_or_too_large(
    harness: ServerHarness, agent_under_test: CommandAgent, fields: dict[str, Any], fault: str
) -> None:
    async with harness.open(agent_under_test, parts=3, text=10) as serve:
        text = fields.pop("text", "hello")
        with pytest.raises(InvalidInput, match=fault):
            await send(serve, text, **fields)
        assert agent_under_test.log == []


@pytest.mark.parametrize(
    "part",
    [
        Part(raw=b"x"),
        Part(url="https://example.com/a"),
        Part(raw=b"x", media_type="IMAGE/PNG; q=1"),
        Part(text="x", media_type="application/xml"),
    ],
)
async def test_submit_fails_when_media_type_is_not_accepted(
    harness: ServerHarness, agent_under_test: CommandAgent, part: Part
) -> None:
    async with harness.open(agent_under_test) as serve:
        with pytest.raises(
            ContentTypeNotSupported, match="it accepts text/plain, application/json"
        ):
            await send(serve, [Part(text="a"), part])
        assert agent_under_test.log == []


@pytest.mark.parametrize(
    "parts",
    [
        [Part(text="x", media_type="text/markdown; charset=utf-8")],
        [Part(data={"a": 1}), Part(text="b")],
        [Part(is_null=True)],
    ],
)
async def test_submit_accepts_media_types_of_the_agent(
    harness: ServerHarness, agent_under_test: CommandAgent, parts: list[Part]
) -> None:
    async with harness.open(agent_under_test) as serve:
        assert (await send(serve, parts)).state is S.COMPLETED


@dataclass(kw_only=True, eq=False)
class Any_(BaseAgent):
    input_modes = ("image/*",)

    async def run(self, ctx: RunContext) -> str:
        return media_type(ctx.run.request.message[0])


async def test_submit_accepts_media_type_patterns(harness: ServerHarness) -> None:
    async with harness.open(Any_(name="any")) as serve:
        task = await send(serve, [Part(raw=b"x", media_type="image/png")])
        assert answer_text(task) == "image/png"
        with pytest.raises(ContentTypeNotSupported):
            await send(serve, "text")


@pytest.mark.parametrize(
    ("accepted", "modes", "as_data"),
    [
        ((), ("text/plain",), False),
        ((), ("application/json", "text/plain"), True),
        (("text/plain",), ("application/json", "text/plain"), False),
        (("application/json",), ("text/plain", "application/json"), True),
        (("text",), ("application/json", "text/plain"), False),
        (("*",), ("text/plain",), False),
        (("*/*; q=0.5",), ("application/json",), True),
        (("image/png", "TEXT/*"), ("text/plain",), False),
        (("application/json",), ("application/*",), False),
    ],
)
def test_output_mode_is_the_first_that_client_and_agent_share(
    accepted: tuple[str, ...], modes: tuple[str, ...], as_data: bool
) -> None:
    assert wants_json_answer(accepted, modes) is as_data


async def test_submit_fails_when_no_output_mode_is_shared(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        with pytest.raises(ContentTypeNotSupported, match="accepts only image/png"):
            await send(serve, "hello", accepted_output_modes=("image/png",))
        for modes in (("text/plain",) * 101, ("t" * 257,)):
            with pytest.raises(InvalidInput, match="acceptedOutputModes"):
                await send(serve, "hello", accepted_output_modes=modes)
        assert agent_under_test.log == []


def test_output_modes_start_with_json_when_output_is_structured() -> None:
    agent = Agent(name="a", model=ScriptedModel("x"), output_schema=dict[str, int])
    assert output_modes(agent) == ("application/json", "text/plain")
    assert accepts("text/html", ("text/plain",))
    assert not accepts("text/html", ("application/json",))


@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan"), None])
def test_limit_fails_when_not_positive(value: Any) -> None:
    with pytest.raises(InvalidInput, match="limit parts must be"):
        ServerLimits(parts=value)


@pytest.mark.parametrize(
    ("metadata", "trace"),
    [
        ({}, "otherwise"),
        ({"traceId": "t1"}, "t1"),
        ({"trace_id": "t2"}, "t2"),
        ({"traceId": 5}, "otherwise"),
        ({"traceId": ""}, "otherwise"),
        ({"traceId": "x" * 129}, "otherwise"),
    ],
)
def test_trace_id_is_read_from_message_metadata(metadata: dict[str, Any], trace: str) -> None:
    message = Message(message_id="m", role=Role.USER, parts=(), metadata=metadata)
    assert trace_id_of(message, "otherwise") == trace


async def test_send_returns_completed_task_when_it_waits(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello こんにちは")
        assert task.state is S.COMPLETED
        assert answer_text(task) == "echo: hello こんにちは"
        assert [text_of(message.parts) for message in task.history] == ["hello こんにちは"]
        assert all(m.task_id == task.id and m.context_id for m in task.history)
        assert await get(serve, task) == task


async def test_send_returns_submitted_task_when_it_does_not_wait(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await start(serve, "wait")
        assert task.state is S.SUBMITTED
        await wait_for_state(serve, task, S.WORKING)
        agent_under_test.gate.set()
        assert answer_text(await wait_for_state(serve, task, S.COMPLETED)) == "waited"


@pytest.mark.parametrize(("wanted", "shown"), [(None, 5), (2, 2), (0, 0), (99, 5), (-3, 0)])
async def test_history_has_the_requested_length(
    harness: ServerHarness, agent_under_test: CommandAgent, wanted: int | None, shown: int
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "progress a b c d e f", history_length=wanted)
        full = await get(serve, task)
        assert len(full.history) == 7
        assert len(task.history) == min(7, {None: 7, 99: 7}.get(wanted, shown))
        assert task.history == full.history[len(full.history) - len(task.history) :]


async def test_history_is_limited(harness: ServerHarness, agent_under_test: CommandAgent) -> None:
    async with harness.open(agent_under_test, history=3) as serve:
        task = await send(serve, "progress a b c d e f", history_length=50)
        assert len(task.history) == 3
        assert len((await get(serve, task)).history) == 3


async def test_repeated_message_returns_the_same_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        first = await send(serve, "hello", id="m1")
        again = await send(serve, "hello", id="m1")
        assert again == first
        assert agent_under_test.log == ["hello"]
        different = await send(serve, "other", id="m1")
        foreign = await send(serve, "hello", BOB, id="m1")
        assert len({first.id, different.id, foreign.id}) == 3
        assert agent_under_test.log == ["hello", "other", "hello"]


async def test_concurrent_copies_of_a_message_create_one_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        found: list[str] = []

        async def sent() -> None:
            found.append((await send(serve, "wait", id="m1")).id)

        async def streamed() -> None:
            stream = await serve.stream(ANN, send_request("wait", id="m1"))
            found.append(stream.task_id)
            items = await read_stream(stream)
            assert summarize(items)[-1] == "completed"

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(sent())
                group.create_task(streamed())
            await wait_until(lambda: agent_under_test.log == ["wait"])
            await asyncio.sleep(0.02)
            agent_under_test.gate.set()
        assert len(found) == 8
        assert len(set(found)) == 1
        assert agent_under_test.log == ["wait", "woke"]


async def test_task_continues_when_sender_disconnects(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(send(serve, "wait", id="m1"))
            await wait_until(lambda: agent_under_test.log == ["wait"])
            sender.cancel()
        agent_under_test.gate.set()
        (task,) = await list_tasks(serve)
        await wait_for_state(serve, task, S.COMPLETED)


async def test_stored_message_runs_wherever_the_sender_is_cancelled(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        filed = 0
        for steps in range(30):
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(send(serve, "hello", id=f"m{steps}"))
                for _ in range(steps):
                    await asyncio.sleep(0.0005)
                sender.cancel()
            tasks = await list_tasks(serve)
            assert len(tasks) <= filed + 1
            filed = len(tasks)
            for task in tasks:
                await wait_for_state(serve, task, S.COMPLETED)
        assert filed


async def test_stored_answer_counts_wherever_the_sender_is_cancelled(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        counted = 0
        for steps in range(12):
            task = await send(serve, "ask")
            assert task.state is S.INPUT_REQUIRED
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(send(serve, "tea", task=task))
                for _ in range(steps):
                    await asyncio.sleep(0.0005)
                sender.cancel()
            await asyncio.sleep(0.01)
            found = await get(serve, task)
            if found.state is S.INPUT_REQUIRED:  # it never came
                await cancel(serve, task)
            else:
                await wait_for_state(serve, task, S.COMPLETED)
                counted += 1
        assert counted


async def test_running_tasks_of_a_caller_are_limited(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, tasks=2) as serve:
        outcomes: list[Task | None] = []

        async def try_to(name: str) -> None:
            try:
                outcomes.append(await start(serve, "wait", id=name))
            except LimitExceeded:
                outcomes.append(None)

        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(try_to(f"m{number}"))
        assert sum(found is not None for found in outcomes) == 2
        await start(serve, "wait", BOB)
        again = [found for found in outcomes if found is not None]
        for found in again:
            message_id = found.history[0].message_id
            assert (await start(serve, "wait", id=message_id)).id == found.id
        agent_under_test.gate.set()
        for found in again:
            await wait_for_state(serve, found, S.COMPLETED)
        await send(serve, "hello")


async def test_messages_of_one_context_are_serialised(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        first = await start(serve, "wait", context="c1")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        second = await start(serve, "hello", context="c1")
        await asyncio.sleep(0.02)
        assert agent_under_test.log == ["wait"]
        assert (await get(serve, second)).state is S.SUBMITTED
        agent_under_test.gate.set()
        assert (await wait_for_state(serve, second, S.COMPLETED)).context_id == first.context_id
        assert agent_under_test.log == ["wait", "woke", "hello"]


async def test_send_fails_when_server_is_not_open(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    serve = harness.server(agent_under_test)
    with pytest.raises(Unavailable, match="run its lifespan"):
        await send(serve, "hello")
    async with serve.open():
        await serve.stop()
        with pytest.raises(Unavailable, match="stopping"):
            await send(serve, "hello")


async def test_finished_run_is_freed_without_garbage_collection(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        gc.collect()
        gc.disable()
        try:
            before = [one for one in gc.get_objects() if isinstance(one, TaskRun)]
            await send(serve, "hello")
            assert [one for one in gc.get_objects() if isinstance(one, TaskRun)] == before
        finally:
            gc.enable()


def test_message_of_an_agent_is_rejected_with_the_role_of_both_versions() -> None:
    message = Message(message_id="m", role=Role.AGENT, parts=text_part("hello"))
    with pytest.raises(InvalidInput, match="ROLE_USER; in version 0.3: user"):
        validate_message(message, ServerLimits(), ("text/plain",))
