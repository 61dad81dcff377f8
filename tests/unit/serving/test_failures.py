"""When the store fails, and when nothing should be left of it."""

import asyncio
from typing import Any

import pytest
from serving_world import (
    ANN,
    Doer,
    S,
    World,
    cancel,
    get,
    listed,
    note_of,
    said,
    send,
    settled,
    start,
    until,
)

from acc.application.a2a.projection import ProjectionOptions
from acc.domain.errors import StorageFailed, TaskNotFound
from acc.domain.value_objects.task import StatusUpdate, Task, TaskStatus
from acc.ports.outbound.storage_ports import TaskStorePort

_AT = TaskStatus(state=S.SUBMITTED)


class Fragile:
    """A store that fails when told to: `fails` maps a method to how often from now on."""

    def __init__(self, store: TaskStorePort) -> None:
        self._store = store
        self.fails: dict[str, int] = {}
        self.fault: Exception = StorageFailed("the disk is full")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not self.fails.get(name):
            return found

        async def failing(*_: Any, **__: Any) -> Any:
            self.fails[name] -= 1
            raise self.fault

        return failing


@pytest.fixture
def fragile(world: World) -> Any:
    return Fragile(world.tasks)


async def test_a_run_whose_events_cannot_be_stored_fails_its_task(
    world: World, doer: Doer, fragile: Any
) -> None:
    async with world.open(doer, store=fragile) as serve:
        task = await start(serve, "wait")
        await settled(serve, task, S.WORKING)
        fragile.fails["append"] = 1
        doer.gate.set()
        done = await settled(serve, task, S.FAILED)
        assert done.metadata["code"] == "storage_failed"
        assert "disk" not in note_of(done)
        assert (await send(serve, "hello", context=task.context_id)).state is S.COMPLETED


async def test_a_task_that_cannot_be_ended_is_an_orphan_later(
    world: World, doer: Doer, fragile: Any
) -> None:
    async with world.open(doer, store=fragile) as serve:
        fragile.fails["append"] = 1
        task = await send(serve, "count 3")
        assert task.state is S.FAILED
        fragile.fails["append"] = 5
        task = await send(serve, "hello")
        fragile.fails["append"] = 0
        assert task.state is S.SUBMITTED
        assert (await send(serve, "hello")).state is S.COMPLETED
    world.clock.time += 31
    async with world.open(doer) as serve:
        await settled(serve, task, S.FAILED)


async def test_a_fault_of_the_store_stops_no_other_task(
    world: World, doer: Doer, fragile: Any
) -> None:
    async with world.open(doer, store=fragile) as serve:
        other = await start(serve, "wait")
        await until(lambda: doer.log == ["wait"])
        fragile.fault = RuntimeError("a bug")
        fragile.fails["append"] = 1
        assert (await send(serve, "hello")).state is S.FAILED
        doer.gate.set()
        await settled(serve, other, S.COMPLETED)


async def test_a_stop_that_cannot_be_stored_ends_all_the_same(
    world: World, doer: Doer, fragile: Any
) -> None:
    async with world.open(doer, store=fragile) as serve:
        task = await start(serve, "wait")
        await until(lambda: doer.log == ["wait"])
        fragile.fails["append"] = 5
    found = await world.tasks.read(task.id)
    assert found is not None
    assert found.state is S.WORKING


async def test_housekeeping_goes_on_after_a_fault(world: World, doer: Doer, fragile: Any) -> None:
    fragile.fails["claim_orphans"] = 1
    async with world.open(doer, store=fragile) as serve:
        await until(lambda: not fragile.fails["claim_orphans"])
        assert (await send(serve, "hello")).state is S.COMPLETED


async def test_orphans_that_others_ended_are_let_be(world: World, doer: Doer, fragile: Any) -> None:
    async with world.open(doer, store=fragile) as serve:
        task = await start(serve, "wait")
        await until(lambda: doer.log == ["wait"])
        world.clock.time += 31
        assert await serve._maintenance.fail_orphans() == 0  # it is ours
        await cancel(serve, task)

        async def orphans() -> tuple[str, ...]:
            return (task.id, "gone")

        fragile.claim_orphans = orphans
        await until(lambda: not serve._executor.running)
        assert await serve._maintenance.fail_orphans() == 2
        assert (await get(serve, task)).state is S.CANCELED


async def test_a_task_that_was_dropped_under_its_run_is_let_go(
    world: World, doer: Doer, fragile: Any
) -> None:
    async with world.open(doer, store=fragile) as serve:
        stream = await serve.stream(ANN, said("wait"))
        await until(lambda: doer.log == ["wait"])
        fragile.fault = TaskNotFound("gone")
        fragile.fails["append"] = 1
        doer.gate.set()
        await until(lambda: not serve._executor.running)
        stream.close()


async def test_a_waiting_run_that_cannot_be_given_up_is_canceled_all_the_same(
    world: World, doer: Doer
) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "ask")

        async def busy(**_: Any) -> None:
            raise StorageFailed("the disk is full")

        serve.runner.abandon = busy  # type: ignore[method-assign]
        assert (await cancel(serve, task)).state is S.CANCELED


async def test_an_abandoned_run_is_no_reason_not_to_cancel(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        task = await send(serve, "ask")
        await serve.runner.abandon(user_id="ann", session_id=task.context_id)
        assert (await cancel(serve, task)).state is S.CANCELED


async def test_work_that_others_took_over_is_stopped_once(shared: World, doer: Doer) -> None:
    async with shared.open(doer) as serve:
        task = await start(serve, "stubborn")
        await until(lambda: doer.log == ["stubborn"])
        failed = StatusUpdate(status=TaskStatus(state=S.FAILED, at=2.0))
        await shared.tasks.append(task.id, [failed])
        work = serve._executor.find(task.id)
        assert work is not None
        await until(lambda: work.superseded)
        work.stop()  # as often as others are seen to have moved it on
        await until(lambda: doer.log[-1] == "done")
        assert doer.log.count("swallowed") == 1
        await until(lambda: not serve._executor.running)
        assert (await get(serve, task)).state is S.FAILED


async def test_what_others_add_to_a_task_at_work_is_no_reason_to_stop(
    shared: World, doer: Doer
) -> None:
    async with shared.open(doer) as serve:
        task = await start(serve, "wait")
        await settled(serve, task, S.WORKING)
        working = StatusUpdate(status=TaskStatus(state=S.WORKING, at=2.0))
        await shared.tasks.append(task.id, [working])
        await asyncio.sleep(0.45)
        assert list(serve._executor.running) == [task.id]
        doer.gate.set()
        await settled(serve, task, S.COMPLETED)


async def test_a_sender_that_left_is_worked_for_where_the_store_allows(
    world: World, doer: Doer, fragile: Any
) -> None:
    async with world.open(doer, store=fragile) as serve:
        message = said("hello").message

        def adopt(task_id: str) -> None:
            serve._executor.start_detached(task_id, ANN, message, options=ProjectionOptions())

        adopt("unknown")
        fragile.fails["read"] = 1
        adopt("unreadable")
        done = await send(serve, "hello")
        adopt(done.id)
        await asyncio.sleep(0.02)
        assert doer.log == ["hello"]
        created = Task(id="t1", context_id="c1", status=_AT)
        await world.tasks.create(created, owner=ANN.owner, message=said("hello").message)
        adopt("t1")
        await settled(serve, created, S.COMPLETED)
        assert doer.log == ["hello", "hello"]
        late = Task(id="t3", context_id="c3", status=_AT)
        await world.tasks.create(late, owner=ANN.owner, message=said("hello").message)
        adopt("t3")
        group, serve._executor._group = serve._executor._group, None
        await settled(serve, late, S.FAILED)
        adopt("t1")
        assert (await cancel(serve, await _filed(world))).state is S.CANCELED
        serve._executor._group = group


async def _filed(world: World) -> Task:
    task = Task(id="t2", context_id="c2", status=_AT)
    await world.tasks.create(task, owner=ANN.owner, message=said("hello").message)
    return task


async def test_a_task_that_was_filed_for_someone_who_left_is_worked_on(
    world: World, doer: Doer, fragile: Any
) -> None:
    create, filed = world.tasks.create, asyncio.Event()

    async def slow(*arguments: Any, **fields: Any) -> Any:
        await create(*arguments, **fields)
        filed.set()
        await asyncio.sleep(60)

    fragile.create = slow
    async with world.open(doer, store=fragile) as serve:
        for verb in (serve.send, serve.stream):
            filed.clear()
            async with asyncio.TaskGroup() as group:
                sender: asyncio.Task[Any] = group.create_task(verb(ANN, said("hello")))
                await filed.wait()
                sender.cancel()
            (task, *_) = await listed(serve)
            await settled(serve, task, S.COMPLETED)
        assert doer.log == ["hello", "hello"]


async def test_an_agent_whose_task_was_canceled_behind_its_back_is_stopped_when_it_speaks(
    world: World, doer: Doer
) -> None:
    async with world.open(doer) as serve:
        task = await start(serve, "slowly")
        await until(lambda: doer.log == ["slowly"])
        gone = StatusUpdate(status=TaskStatus(state=S.CANCELED, at=1.0))
        await world.tasks.append(task.id, [gone])
        doer.gate.set()
        await until(lambda: not serve._executor.running)
        assert (await get(serve, task)).state is S.CANCELED
    assert "spoke" in doer.log
    assert "went on" not in doer.log
