"""When the store fails, and when nothing should be left of it."""

import asyncio
from typing import Any

import pytest
from server_harness import (
    ANN,
    CommandAgent,
    S,
    ServerHarness,
    cancel,
    get,
    list_tasks,
    send,
    send_request,
    start,
    status_text,
    wait_for_state,
    wait_until,
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
def fragile(harness: ServerHarness) -> Any:
    return Fragile(harness.tasks)


async def test_a_run_whose_events_cannot_be_stored_fails_its_task(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        task = await start(serve, "wait")
        await wait_for_state(serve, task, S.WORKING)
        fragile.fails["append"] = 1
        agent_under_test.gate.set()
        done = await wait_for_state(serve, task, S.FAILED)
        assert done.metadata["code"] == "storage_failed"
        assert "disk" not in status_text(done)
        assert (await send(serve, "hello", context=task.context_id)).state is S.COMPLETED


async def test_a_task_that_cannot_be_ended_is_an_orphan_later(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        fragile.fails["append"] = 1
        task = await send(serve, "count 3")
        assert task.state is S.FAILED
        fragile.fails["append"] = 5
        task = await send(serve, "hello")
        fragile.fails["append"] = 0
        assert task.state is S.SUBMITTED
        assert (await send(serve, "hello")).state is S.COMPLETED
    harness.clock.time += 31
    async with harness.open(agent_under_test) as serve:
        await wait_for_state(serve, task, S.FAILED)


async def test_a_fault_of_the_store_stops_no_other_task(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        other = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        fragile.fault = RuntimeError("a bug")
        fragile.fails["append"] = 1
        assert (await send(serve, "hello")).state is S.FAILED
        agent_under_test.gate.set()
        await wait_for_state(serve, other, S.COMPLETED)


async def test_a_stop_that_cannot_be_stored_ends_all_the_same(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        task = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        fragile.fails["append"] = 5
    found = await harness.tasks.read(task.id)
    assert found is not None
    assert found.state is S.WORKING


async def test_housekeeping_goes_on_after_a_fault(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    fragile.fails["claim_orphans"] = 1
    async with harness.open(agent_under_test, store=fragile) as serve:
        await wait_until(lambda: not fragile.fails["claim_orphans"])
        assert (await send(serve, "hello")).state is S.COMPLETED


async def test_orphans_that_others_ended_are_let_be(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        task = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        harness.clock.time += 31
        assert await serve._maintenance.fail_orphans() == 0  # it is ours
        await cancel(serve, task)

        async def orphans() -> tuple[str, ...]:
            return (task.id, "gone")

        fragile.claim_orphans = orphans
        await wait_until(lambda: not serve._executor.running)
        assert await serve._maintenance.fail_orphans() == 2
        assert (await get(serve, task)).state is S.CANCELED


async def test_a_task_that_was_dropped_under_its_run_is_let_go(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        stream = await serve.stream(ANN, send_request("wait"))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        fragile.fault = TaskNotFound("gone")
        fragile.fails["append"] = 1
        agent_under_test.gate.set()
        await wait_until(lambda: not serve._executor.running)
        stream.close()


async def test_a_waiting_run_that_cannot_be_given_up_is_canceled_all_the_same(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")

        async def busy(**_: Any) -> None:
            raise StorageFailed("the disk is full")

        serve.runner.abandon = busy  # type: ignore[method-assign]
        assert (await cancel(serve, task)).state is S.CANCELED


async def test_an_abandoned_run_is_no_reason_not_to_cancel(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")
        await serve.runner.abandon(user_id="ann", session_id=task.context_id)
        assert (await cancel(serve, task)).state is S.CANCELED


async def test_work_that_others_took_over_is_stopped_once(
    sqlite_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with sqlite_harness.open(agent_under_test) as serve:
        task = await start(serve, "stubborn")
        await wait_until(lambda: agent_under_test.log == ["stubborn"])
        failed = StatusUpdate(status=TaskStatus(state=S.FAILED, at=2.0))
        await sqlite_harness.tasks.append(task.id, [failed])
        work = serve._executor.find(task.id)
        assert work is not None
        await wait_until(lambda: work.superseded)
        work.stop()  # as often as others are seen to have moved it on
        await wait_until(lambda: agent_under_test.log[-1] == "done")
        assert agent_under_test.log.count("swallowed") == 1
        await wait_until(lambda: not serve._executor.running)
        assert (await get(serve, task)).state is S.FAILED


async def test_what_others_add_to_a_task_at_work_is_no_reason_to_stop(
    sqlite_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with sqlite_harness.open(agent_under_test) as serve:
        task = await start(serve, "wait")
        await wait_for_state(serve, task, S.WORKING)
        working = StatusUpdate(status=TaskStatus(state=S.WORKING, at=2.0))
        await sqlite_harness.tasks.append(task.id, [working])
        await asyncio.sleep(0.45)
        assert list(serve._executor.running) == [task.id]
        agent_under_test.gate.set()
        await wait_for_state(serve, task, S.COMPLETED)


async def test_a_sender_that_left_is_worked_for_where_the_store_allows(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    async with harness.open(agent_under_test, store=fragile) as serve:
        message = send_request("hello").message

        def adopt(task_id: str) -> None:
            serve._executor.start_detached(task_id, ANN, message, options=ProjectionOptions())

        adopt("unknown")
        fragile.fails["read"] = 1
        adopt("unreadable")
        done = await send(serve, "hello")
        adopt(done.id)
        await asyncio.sleep(0.02)
        assert agent_under_test.log == ["hello"]
        created = Task(id="t1", context_id="c1", status=_AT)
        await harness.tasks.create(created, owner=ANN.owner, message=send_request("hello").message)
        adopt("t1")
        await wait_for_state(serve, created, S.COMPLETED)
        assert agent_under_test.log == ["hello", "hello"]
        late = Task(id="t3", context_id="c3", status=_AT)
        await harness.tasks.create(late, owner=ANN.owner, message=send_request("hello").message)
        adopt("t3")
        group, serve._executor._group = serve._executor._group, None
        await wait_for_state(serve, late, S.FAILED)
        adopt("t1")
        assert (await cancel(serve, await _filed(harness))).state is S.CANCELED
        serve._executor._group = group


async def _filed(harness: ServerHarness) -> Task:
    task = Task(id="t2", context_id="c2", status=_AT)
    await harness.tasks.create(task, owner=ANN.owner, message=send_request("hello").message)
    return task


async def test_a_task_that_was_filed_for_someone_who_left_is_worked_on(
    harness: ServerHarness, agent_under_test: CommandAgent, fragile: Any
) -> None:
    create, filed = harness.tasks.create, asyncio.Event()

    async def slow(*arguments: Any, **fields: Any) -> Any:
        await create(*arguments, **fields)
        filed.set()
        await asyncio.sleep(60)

    fragile.create = slow
    async with harness.open(agent_under_test, store=fragile) as serve:
        for verb in (serve.send, serve.stream):
            filed.clear()
            async with asyncio.TaskGroup() as group:
                sender: asyncio.Task[Any] = group.create_task(verb(ANN, send_request("hello")))
                await filed.wait()
                sender.cancel()
            (task, *_) = await list_tasks(serve)
            await wait_for_state(serve, task, S.COMPLETED)
        assert agent_under_test.log == ["hello", "hello"]


async def test_an_agent_whose_task_was_canceled_behind_its_back_is_stopped_when_it_speaks(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await start(serve, "slowly")
        await wait_until(lambda: agent_under_test.log == ["slowly"])
        gone = StatusUpdate(status=TaskStatus(state=S.CANCELED, at=1.0))
        await harness.tasks.append(task.id, [gone])
        agent_under_test.gate.set()
        await wait_until(lambda: not serve._executor.running)
        assert (await get(serve, task)).state is S.CANCELED
    assert "spoke" in agent_under_test.log
    assert "went on" not in agent_under_test.log
