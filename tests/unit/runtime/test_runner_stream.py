"""Tests of streams that are unread, closed early or cancelled repeatedly."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from runner_harness import USER, Storage, check_record, no_tasks_remain, scripted_agent

from acc import BaseAgent, Event, ModelRequest, ModelResponse, RunContext, RunStatus
from acc.testing import ScriptedModel


class LongAnswerModel:
    """Model that streams a long answer."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ModelResponse(text="word " * 1_000)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        for _ in range(1_000):
            yield "word "
        yield await self.complete(prompt)


def stream(storage: Storage, agent: BaseAgent) -> Any:
    return storage.harness(agent).runner.stream(user_id=USER, session_id="s1", message="hi")


async def assert_session_continues(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel("hello")))
    assert (await harness.say("still there?")).text == "hello"
    check_record(await harness.events())


async def run_pending_callbacks() -> None:
    """Run the loop until all pending callbacks are done."""
    for _ in range(20):
        await asyncio.sleep(0.001)


@pytest.fixture
def loop_errors() -> Any:
    """Return the list of errors reported to the exception handler of the loop."""
    return []


async def test_failure_of_unread_stream_is_not_reported_to_the_loop(
    storage: Storage, loop_errors: list[Any]
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, c: loop_errors.append(c["message"]))
    events = stream(storage, scripted_agent(ScriptedModel(ValueError("down"))))
    assert (await anext(events)).text == "hi"
    await run_pending_callbacks()
    await events.aclose()
    del events
    gc.collect()
    await run_pending_callbacks()
    assert loop_errors == []
    assert no_tasks_remain()
    await assert_session_continues(storage)


async def test_slow_reader_receives_every_event(
    storage: Storage,
) -> None:
    seen: list[Event] = []
    async for event in stream(storage, scripted_agent(LongAnswerModel())):  # type: ignore[arg-type]
        seen.append(event)
        if len(seen) == 5:
            await run_pending_callbacks()
    assert sum(event.partial for event in seen) == 1_000
    assert seen[-1].status is RunStatus.COMPLETED


async def test_closing_stream_with_unread_events_cancels_the_run(storage: Storage) -> None:
    events = stream(storage, scripted_agent(LongAnswerModel()))  # type: ignore[arg-type]
    await anext(events)
    await run_pending_callbacks()
    await events.aclose()
    assert no_tasks_remain()
    await assert_session_continues(storage)


async def test_unreferenced_stream_is_closed_by_the_loop(storage: Storage) -> None:
    async for _ in stream(storage, scripted_agent(LongAnswerModel())):  # type: ignore[arg-type]
        break
    gc.collect()
    await run_pending_callbacks()
    assert no_tasks_remain()
    await assert_session_continues(storage)


async def test_run_of_unread_stream_can_be_cancelled(
    storage: Storage,
) -> None:
    """Cover `asyncio.run`, which cancels all remaining tasks at exit."""
    events = stream(storage, scripted_agent(LongAnswerModel()))  # type: ignore[arg-type]
    await anext(events)
    await run_pending_callbacks()
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=10)
    assert done == {task}
    await assert_session_continues(storage)
    await events.aclose()


class SlowToCancel(BaseAgent):
    """Agent that awaits several times after it is cancelled."""

    async def run(self, ctx: RunContext) -> str:
        await ctx.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
        return "never"


async def test_repeated_cancellation_of_reader_ends_the_run(storage: Storage) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for event in stream(storage, SlowToCancel(name="lingers")):
            if event.text == "begun":
                begun.set()

    async with asyncio.TaskGroup() as group:
        reader = group.create_task(read())
        await begun.wait()
        for _ in range(6):
            reader.cancel()
            await asyncio.sleep(0)
    assert reader.cancelled()
    assert no_tasks_remain()
    await assert_session_continues(storage)
