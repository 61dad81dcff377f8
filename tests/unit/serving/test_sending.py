"""Sending: blocking or not, twice, many at once, and leaving in the middle."""

import asyncio
import gc

import pytest
from serving_world import (
    ANN,
    BOB,
    Doer,
    S,
    World,
    answer_of,
    cancel,
    get,
    listed,
    read,
    said,
    send,
    settled,
    start,
    told,
    until,
)

from acc.application.a2a.executor import TaskRun
from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.content import text_of
from acc.domain.value_objects.task import Task


async def test_a_blocking_send_returns_the_task_with_its_answer(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "hello こんにちは")
        assert task.state is S.COMPLETED
        assert answer_of(task) == "echo: hello こんにちは"
        assert [text_of(message.parts) for message in task.history] == ["hello こんにちは"]
        assert all(m.task_id == task.id and m.context_id for m in task.history)
        assert await get(serve, task) == task


async def test_a_send_that_does_not_wait_returns_the_task_as_filed(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        task = await start(serve, "wait")
        assert task.state is S.SUBMITTED
        await settled(serve, task, S.WORKING)
        doer.gate.set()
        assert answer_of(await settled(serve, task, S.COMPLETED)) == "waited"


@pytest.mark.parametrize(("wanted", "shown"), [(None, 5), (2, 2), (0, 0), (99, 5), (-3, 0)])
async def test_history_is_shown_as_long_as_asked_for(
    world: World, doer: Doer, wanted: int | None, shown: int
) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "progress a b c d e f", history_length=wanted)
        full = await get(serve, task)
        assert len(full.history) == 7
        assert len(task.history) == min(7, {None: 7, 99: 7}.get(wanted, shown))
        assert task.history == full.history[len(full.history) - len(task.history) :]


async def test_history_is_never_longer_than_the_limit(world: World, doer: Doer) -> None:
    async with world.open(doer, history=3) as serve:
        task = await send(serve, "progress a b c d e f", history_length=50)
        assert len(task.history) == 3
        assert len((await get(serve, task)).history) == 3


async def test_the_same_message_twice_is_one_task_and_one_run(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        first = await send(serve, "hello", id="m1")
        again = await send(serve, "hello", id="m1")
        assert again == first
        assert doer.log == ["hello"]
        different = await send(serve, "other", id="m1")
        foreign = await send(serve, "hello", BOB, id="m1")
        assert len({first.id, different.id, foreign.id}) == 3
        assert doer.log == ["hello", "other", "hello"]


async def test_the_same_message_at_the_same_moment_is_one_task(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        found: list[str] = []

        async def sent() -> None:
            found.append((await send(serve, "wait", id="m1")).id)

        async def streamed() -> None:
            stream = await serve.stream(ANN, said("wait", id="m1"))
            found.append(stream.task_id)
            items = await read(stream)
            assert told(items)[-1] == "completed"

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(sent())
                group.create_task(streamed())
            await until(lambda: doer.log == ["wait"])
            await asyncio.sleep(0.02)
            doer.gate.set()
        assert len(found) == 8
        assert len(set(found)) == 1
        assert doer.log == ["wait", "woke"]


async def test_a_task_goes_on_when_its_sender_leaves(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(send(serve, "wait", id="m1"))
            await until(lambda: doer.log == ["wait"])
            sender.cancel()
        doer.gate.set()
        (task,) = await listed(serve)
        await settled(serve, task, S.COMPLETED)


async def test_a_message_is_worked_on_wherever_its_sender_is_cut_off(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        filed = 0
        for steps in range(30):
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(send(serve, "hello", id=f"m{steps}"))
                for _ in range(steps):
                    await asyncio.sleep(0.0005)
                sender.cancel()
            tasks = await listed(serve)
            assert len(tasks) <= filed + 1
            filed = len(tasks)
            for task in tasks:
                await settled(serve, task, S.COMPLETED)
        assert filed


async def test_an_answer_counts_wherever_its_sender_is_cut_off(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
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
                await settled(serve, task, S.COMPLETED)
                counted += 1
        assert counted


async def test_one_caller_has_only_so_many_tasks_at_work(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, tasks=2) as serve:
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
        doer.gate.set()
        for found in again:
            await settled(serve, found, S.COMPLETED)
        await send(serve, "hello")


async def test_messages_of_one_context_are_worked_on_one_after_another(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        first = await start(serve, "wait", context="c1")
        await until(lambda: doer.log == ["wait"])
        second = await start(serve, "hello", context="c1")
        await asyncio.sleep(0.02)
        assert doer.log == ["wait"]
        assert (await get(serve, second)).state is S.SUBMITTED
        doer.gate.set()
        assert (await settled(serve, second, S.COMPLETED)).context_id == first.context_id
        assert doer.log == ["wait", "woke", "hello"]


async def test_who_is_not_serving_takes_nothing(world: World, doer: Doer) -> None:
    serve = world.server(doer)
    with pytest.raises(LimitExceeded, match="run its lifespan"):
        await send(serve, "hello")
    async with serve.open():
        await serve.stop()
        with pytest.raises(LimitExceeded, match="stopping"):
            await send(serve, "hello")


async def test_work_that_is_over_is_gone_without_a_look_for_cycles(
    world: World, doer: Doer
) -> None:
    async with world.open(doer) as serve:
        gc.collect()
        gc.disable()
        try:
            before = [one for one in gc.get_objects() if isinstance(one, TaskRun)]
            await send(serve, "hello")
            assert [one for one in gc.get_objects() if isinstance(one, TaskRun)] == before
        finally:
            gc.enable()
