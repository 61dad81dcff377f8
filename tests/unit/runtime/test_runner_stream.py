"""Streams that nobody reads, that are left early, or whose reader is cancelled twice."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from runner_harness import USER, Storage, check_record, no_tasks_remain, scripted_agent

from acc import BaseAgent, Event, ModelRequest, ModelResponse, RunContext, RunStatus
from acc.testing import ScriptedModel


class Talks:
    """Says very much."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ModelResponse(text="word " * 1_000)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        for _ in range(1_000):
            yield "word "
        yield await self.complete(prompt)


def stream(storage: Storage, agent: BaseAgent) -> Any:
    return storage.harness(agent).runner.stream(user_id=USER, session_id="s1", message="hi")


async def goes_on(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel("hello")))
    assert (await harness.say("still there?")).text == "hello"
    check_record(await harness.events())


async def quiet() -> None:
    """Let the loop go round until all that can happen has happened."""
    for _ in range(20):
        await asyncio.sleep(0.001)


@pytest.fixture
def complaints() -> Any:
    """What the loop complains of that nobody else would hear."""
    return []


async def test_a_failure_that_nobody_waited_for_is_on_record_and_no_complaint(
    storage: Storage, complaints: list[Any]
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, c: complaints.append(c["message"]))
    events = stream(storage, scripted_agent(ScriptedModel(ValueError("down"))))
    assert (await anext(events)).text == "hi"
    await quiet()
    await events.aclose()
    del events
    gc.collect()
    await quiet()
    assert complaints == []
    assert no_tasks_remain()
    await goes_on(storage)


async def test_a_reader_that_is_slow_holds_the_run_back_and_misses_nothing(
    storage: Storage,
) -> None:
    seen: list[Event] = []
    async for event in stream(storage, scripted_agent(Talks())):  # type: ignore[arg-type]
        seen.append(event)
        if len(seen) == 5:
            await quiet()
    assert sum(event.partial for event in seen) == 1_000
    assert seen[-1].status is RunStatus.COMPLETED


async def test_a_stream_that_is_left_with_much_unread_is_cancelled(storage: Storage) -> None:
    events = stream(storage, scripted_agent(Talks()))  # type: ignore[arg-type]
    await anext(events)
    await quiet()
    await events.aclose()
    assert no_tasks_remain()
    await goes_on(storage)


async def test_a_stream_that_was_dropped_is_closed_by_the_loop(storage: Storage) -> None:
    async for _ in stream(storage, scripted_agent(Talks())):  # type: ignore[arg-type]
        break
    gc.collect()
    await quiet()
    assert no_tasks_remain()
    await goes_on(storage)


async def test_a_run_ends_when_all_tasks_are_cancelled_though_nobody_reads(
    storage: Storage,
) -> None:
    """So a program ends that forgot a stream somewhere: the loop cancels whatever runs."""
    events = stream(storage, scripted_agent(Talks()))  # type: ignore[arg-type]
    await anext(events)
    await quiet()
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=10)
    assert done == {task}
    await goes_on(storage)
    await events.aclose()


class Lingers(BaseAgent):
    """Takes a while to leave when it is cancelled."""

    async def run(self, ctx: RunContext) -> str:
        await ctx.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
        return "never"


async def test_a_reader_that_is_cancelled_twice_leaves_no_run_behind(storage: Storage) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for event in stream(storage, Lingers(name="lingers")):
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
    await goes_on(storage)
