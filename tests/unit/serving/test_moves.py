"""Where tasks go: cancelled at every moment, raced, stopped, orphaned, and taken over."""

import asyncio
import random

import pytest
from serving_world import (
    ANN,
    Doer,
    S,
    World,
    answer_of,
    cancel,
    check_nothing_left,
    get,
    note_of,
    read,
    said,
    send,
    settled,
    start,
    subscribe,
    told,
    until,
)

from acc import RemoteAgent
from acc.application.a2a.requests import TaskRequest
from acc.domain.errors import InvalidTransition, TaskNotCancelable, TaskNotFound
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    TERMINAL,
    TRANSITIONS,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from acc.testing import ScriptedRemote


async def test_a_task_can_be_canceled_while_it_is_submitted(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        first = await start(serve, "wait", context="c1")
        await until(lambda: doer.log == ["wait"])
        second = await start(serve, "hello", context="c1")
        assert (await cancel(serve, second)).state is S.CANCELED
        doer.gate.set()
        await settled(serve, first, S.COMPLETED)
        await asyncio.sleep(0.02)
        assert doer.log == ["wait", "woke"]


async def test_a_task_that_a_remote_task_waits_for_takes_it_along(worlds: World) -> None:
    asking = Task(id="r1", context_id="rc", status=TaskStatus(state=S.INPUT_REQUIRED))
    remote = ScriptedRemote(asking)

    def shop() -> RemoteAgent:
        return RemoteAgent(name="shop", url="https://shop.example")

    async with worlds.open(shop()) as serve:
        serve.runner.services.remote = lambda _: remote
        task = await send(serve, "pay")
        assert task.state is S.INPUT_REQUIRED
    async with worlds.open(shop()) as serve:  # which was not there when it asked
        serve.runner.services.remote = lambda _: remote
        assert (await cancel(serve, task)).state is S.CANCELED
    assert remote.canceled == ["r1"]


async def test_a_task_can_be_canceled_before_its_first_step(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        task = await start(serve, "hello")
        await serve._cancel(ANN, task.id)  # as the verb does, without waiting for anyone
        assert (await get(serve, task)).state is S.CANCELED
        await asyncio.sleep(0.01)
        assert doer.log == []
        assert not serve._executor.running


async def test_a_task_can_be_canceled_while_it_works(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve, asyncio.TaskGroup() as group:
        blocking = group.create_task(send(serve, "wait", id="m1"))
        await until(lambda: doer.log == ["wait"])
        task = await start(serve, "wait", id="m1")
        stream = await subscribe(serve, task)
        reader = group.create_task(read(stream))
        await asyncio.sleep(0.02)
        canceled = await cancel(serve, task)
        assert canceled.state is S.CANCELED
        assert (await blocking) == canceled
        assert told(await reader)[-1] == "canceled"
        assert "woke" not in doer.log
        await until(lambda: not serve._executor.running)


async def test_a_task_can_be_canceled_while_it_waits(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "ask", context="c1")
        assert (await cancel(serve, task)).state is S.CANCELED
        assert (await send(serve, "hello", context="c1")).state is S.COMPLETED


async def test_a_task_is_canceled_only_once(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await start(serve, "wait")
        outcomes: list[str] = []

        async def try_to() -> None:
            try:
                outcomes.append((await cancel(serve, task)).state.value)
            except TaskNotCancelable:
                outcomes.append("refused")

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(try_to())
        assert sorted(outcomes) == ["canceled", *["refused"] * 4]
        with pytest.raises(TaskNotCancelable, match="already canceled"):
            await cancel(serve, task)


async def test_a_canceled_task_stays_so_though_its_agent_goes_on(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await start(serve, "stubborn")
        await until(lambda: doer.log == ["stubborn"])
        canceled = await cancel(serve, task)
        await until(lambda: doer.log[-1] == "done")
        await until(lambda: not serve._executor.running)
        assert await get(serve, task) == canceled
        assert canceled.state is S.CANCELED
        assert canceled.artifacts == ()


async def test_cancel_and_completion_race_and_one_wins(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        ends = set()
        for turn in range(40):
            task = await start(serve, "count 3")
            for _ in range(turn % 10):
                await asyncio.sleep(0.0005 if worlds.kind == "sqlite" else 0)
            try:
                found = await cancel(serve, task)
                assert found.state is S.CANCELED
            except TaskNotCancelable:
                found = await settled(serve, task, S.COMPLETED)
            await until(lambda: not serve._executor.running)
            assert await get(serve, task) == found
            ends.add(found.state)
        assert S.CANCELED in ends


async def test_no_mix_of_moves_from_many_at_once_breaks_the_table(worlds: World) -> None:
    store, chance = worlds.tasks, random.Random(7)  # noqa: S311 - no secret
    status = TaskStatus(state=S.SUBMITTED, at=1.0)
    for turn in range(6):
        task = Task(id=f"t{turn}", context_id=f"c{turn}", status=status)
        message = Message(message_id=f"m{turn}", role=Role.USER, parts=())
        await store.create(task, owner=Owner("", "ann"), message=message)

        async def move(task_id: str, state: TaskState) -> None:
            try:
                await store.append(task_id, [StatusUpdate(status=TaskStatus(state=state, at=2.0))])
            except InvalidTransition as error:
                assert state not in TRANSITIONS[TaskState(error.state)]

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(move(task.id, chance.choice([*TaskState])))
        states = [
            event.update.status.state
            for event in await store.events(task.id)
            if isinstance(event.update, StatusUpdate)
        ]
        for before, after in zip(states, states[1:], strict=False):
            assert after in TRANSITIONS[before]
        assert not any(state in TERMINAL for state in states[:-1])


async def test_a_cancel_counts_though_its_sender_leaves(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        for steps in range(8):
            task = await send(serve, "ask", context=f"c{steps}")
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(cancel(serve, task))
                for _ in range(steps + 1):
                    await asyncio.sleep(0.0004)
                sender.cancel()
            await settled(serve, task, S.CANCELED)
            assert (await send(serve, "hello", context=f"c{steps}")).state is S.COMPLETED


async def test_stopping_lets_tasks_finish_for_a_while(world: World, doer: Doer) -> None:
    async with world.open(doer, grace=5.0) as serve:
        task = await start(serve, "wait")
        await until(lambda: doer.log == ["wait"])
        async with asyncio.TaskGroup() as group:
            group.create_task(serve.stop())
            await asyncio.sleep(0.01)
            doer.gate.set()
        assert (await get(serve, task)).state is S.COMPLETED


async def test_stopping_fails_what_does_not_finish(worlds: World, doer: Doer) -> None:
    serve = worlds.server(doer, grace=0.02)
    async with serve.open(), asyncio.TaskGroup() as group:
        task = await start(serve, "wait")
        blocking = group.create_task(send(serve, "wait", id="m2"))
        stream = await serve.stream(ANN, said("wait"))
        reader = group.create_task(read(stream))
        await until(lambda: doer.log == ["wait"] * 3)
        await serve.stop()
    check_nothing_left(serve)
    assert (await blocking).state is S.FAILED
    assert "working" in told(await reader)[1:] or told(await reader)
    found = await worlds.tasks.read(task.id)
    assert found is not None
    assert found.state is S.FAILED
    assert "stopped" in note_of(found)
    assert found.metadata["code"] == "interrupted"


async def test_a_message_that_comes_while_the_server_stops_is_failed(
    worlds: World, doer: Doer
) -> None:
    serve = worlds.server(doer)
    async with serve.open():
        waiting = await send(serve, "ask")
        create, proceed = worlds.tasks.create, worlds.tasks.continue_task

        async def late(*arguments: object, **fields: object) -> object:
            filed = await create(*arguments, **fields)  # type: ignore[arg-type]
            serve._executor._group = None
            return filed

        async def late_too(*arguments: object, **fields: object) -> object:
            filed = await proceed(*arguments, **fields)  # type: ignore[arg-type]
            serve._executor._group = None
            return filed

        group = serve._executor._group
        worlds.tasks.create = late  # type: ignore[method-assign,assignment]
        assert (await send(serve, "hello")).state is S.FAILED
        serve._executor._group = group
        worlds.tasks.continue_task = late_too  # type: ignore[method-assign,assignment]
        assert (await send(serve, "tea", task=waiting)).state is S.FAILED
        worlds.tasks.create = create  # type: ignore[method-assign]
        worlds.tasks.continue_task = proceed  # type: ignore[method-assign]
        serve._executor._group = group
        # The run that it would have answered is given up, so that the context is of use again.
        again = await send(serve, "hello", context=waiting.context_id)
        assert again.state is S.COMPLETED


async def test_a_task_runs_beside_another_of_its_context_that_waits(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        waiting = await send(serve, "ask", context="c1")
        login = await send(serve, "login", context="c2")
        for context in ("c1", "c2"):
            assert (await send(serve, "hello", context=context)).state is S.COMPLETED
        beside = await send(serve, "ask Coffee?", context="c1")
        assert beside.state is S.INPUT_REQUIRED
        assert answer_of(await send(serve, "milk", task=beside)).startswith("answer: 'milk'")
        assert answer_of(await send(serve, "tea", task=waiting)).startswith("answer: 'tea'")
        assert (await send(serve, "done", task=login)).state is S.COMPLETED


async def test_a_task_whose_process_died_is_failed(worlds: World, doer: Doer) -> None:
    status = TaskStatus(state=S.SUBMITTED, at=1.0)
    for name, state in (("t1", S.SUBMITTED), ("t2", S.WORKING)):
        message = Message(message_id=f"m-{name}", role=Role.USER, parts=())
        task = Task(id=name, context_id=f"c-{name}", status=status)
        await worlds.tasks.create(task, owner=Owner("", "ann"), message=message)
        if state is S.WORKING:
            await worlds.tasks.append(name, [StatusUpdate(status=TaskStatus(state=state, at=2.0))])
    worlds.clock.time += 31.0
    async with worlds.open(doer) as serve:
        for name in ("t1", "t2"):
            found = await settled(serve, task := await get(serve, name), S.FAILED)
            assert task.id == name
            assert "interrupted" in note_of(found)


async def test_tasks_that_are_long_over_are_forgotten(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "hello")
    worlds.clock.time += 100.0
    async with worlds.open(doer, keep=50.0) as serve:
        await until(lambda: _is_gone(worlds, task))
        with pytest.raises(TaskNotFound):
            await get(serve, task)


async def _is_gone(world: World, task: Task) -> bool:
    return await world.tasks.read(task.id) is None


async def test_what_another_process_cancels_stops_here(shared: World, doer: Doer) -> None:
    other = Doer(name="doer")
    async with (
        shared.open(doer) as here,
        shared.open(other) as there,
        asyncio.TaskGroup() as group,
    ):
        stream = await here.stream(ANN, said("wait", id="m1"))
        reader = group.create_task(read(stream))
        await until(lambda: doer.log == ["wait"])
        blocked = group.create_task(send(there, "wait", id="m1"))
        task = await get(there, stream.task_id)
        await asyncio.sleep(0.05)
        canceled = await there.cancel(ANN, TaskRequest(id=task.id))
        await until(lambda: not here._executor.running)
        assert told(await reader)[-1] == "canceled"
        assert (await blocked).state is S.CANCELED
        assert await get(here, task) == canceled
        assert "woke" not in doer.log
        assert other.log == []


async def test_one_process_asks_and_another_is_answered(shared: World, doer: Doer) -> None:
    other = Doer(name="doer")
    async with shared.open(doer) as here, shared.open(other) as there:
        task = await send(here, "ask")
        done = await send(there, "tea", task=task)
        assert answer_of(done).startswith("answer: 'tea' by ann")
        assert await get(here, task) == done
