"""The task executor when the store fails or another process changes a task."""

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

SUBMITTED = TaskStatus(state=S.SUBMITTED)


class FailingTaskStore:
    """A task store with injected errors: `fails` maps a method to the number of failures."""

    def __init__(self, store: TaskStorePort) -> None:
        self._store = store
        self.fails: dict[str, int] = {}
        self.fault: Exception = StorageFailed("the disk is full")

    def __getattr__(self, name: str) -> Any:
        result = getattr(self._store, name)
        if not self.fails.get(name):
            return result

        async def fail(*_: Any, **__: Any) -> Any:
            self.fails[name] -= 1
            raise self.fault

        return fail


@pytest.fixture
def failing_store(harness: ServerHarness) -> Any:
    return FailingTaskStore(harness.tasks)


async def test_task_fails_when_events_cannot_be_stored(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        task = await start(serve, "wait")
        await wait_for_state(serve, task, S.WORKING)
        failing_store.fails["append"] = 1
        agent_under_test.gate.set()
        done = await wait_for_state(serve, task, S.FAILED)
        assert done.metadata["code"] == "storage_failed"
        assert "disk" not in status_text(done)
        assert (await send(serve, "hello", context=task.context_id)).state is S.COMPLETED


async def test_task_whose_end_cannot_be_stored_fails_as_an_orphan(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        failing_store.fails["append"] = 1
        task = await send(serve, "count 3")
        assert task.state is S.FAILED
        failing_store.fails["append"] = 5
        task = await send(serve, "hello")
        failing_store.fails["append"] = 0
        assert task.state is S.SUBMITTED
        assert (await send(serve, "hello")).state is S.COMPLETED
    harness.clock.time += 31
    async with harness.open(agent_under_test) as serve:
        await wait_for_state(serve, task, S.FAILED)


async def test_store_error_does_not_affect_other_tasks(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        other = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        failing_store.fault = RuntimeError("a bug")
        failing_store.fails["append"] = 1
        assert (await send(serve, "hello")).state is S.FAILED
        agent_under_test.gate.set()
        await wait_for_state(serve, other, S.COMPLETED)


async def test_server_stops_when_the_final_status_cannot_be_stored(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        task = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        failing_store.fails["append"] = 5
    result = await harness.tasks.read(task.id)
    assert result is not None
    assert result.state is S.WORKING


async def test_maintenance_continues_after_a_store_error(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    failing_store.fails["claim_orphans"] = 1
    async with harness.open(agent_under_test, store=failing_store) as serve:
        await wait_until(lambda: not failing_store.fails["claim_orphans"])
        assert (await send(serve, "hello")).state is S.COMPLETED


async def test_orphan_that_already_ended_is_not_changed(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        task = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        harness.clock.time += 31
        assert await serve._maintenance.fail_orphans() == 0  # this server executes it
        await cancel(serve, task)

        async def orphans() -> tuple[str, ...]:
            return (task.id, "gone")

        failing_store.claim_orphans = orphans
        await wait_until(lambda: not serve._executor.running)
        assert await serve._maintenance.fail_orphans() == 2
        assert (await get(serve, task)).state is S.CANCELED


async def test_claimed_orphan_is_failed_later_if_the_store_fails_once(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    abandoned = Task(id="t1", context_id="c1", status=SUBMITTED)
    message = send_request("hello").message
    await harness.tasks.create(abandoned, owner=ANN.owner, message=message)
    async with harness.open(agent_under_test, store=failing_store) as serve:
        harness.clock.time += 31
        failing_store.fails["append"] = 1
        with pytest.raises(StorageFailed):
            await serve._maintenance.fail_orphans()
        # The lease of this server would hide the task for another 30 seconds.
        assert await harness.tasks.claim_orphans() == ()
        assert await serve._maintenance.fail_orphans() == 1
        assert (await get(serve, abandoned)).state is S.FAILED
        assert await serve._maintenance.fail_orphans() == 0


async def test_run_ends_when_its_task_was_deleted(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        stream = await serve.stream(ANN, send_request("wait"))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        failing_store.fault = TaskNotFound("gone")
        failing_store.fails["append"] = 1
        agent_under_test.gate.set()
        await wait_until(lambda: not serve._executor.running)
        stream.close()


async def test_task_is_canceled_when_its_run_cannot_be_abandoned(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")

        async def fail_to_abandon(**_: Any) -> None:
            raise StorageFailed("the disk is full")

        serve.runner.abandon = fail_to_abandon  # type: ignore[method-assign]
        assert (await cancel(serve, task)).state is S.CANCELED


async def test_task_of_an_abandoned_run_can_be_canceled(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")
        await serve.runner.abandon(user_id="ann", session_id=task.context_id)
        assert (await cancel(serve, task)).state is S.CANCELED


async def test_execution_superseded_by_another_process_is_stopped_once(
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
        work.stop()  # a second stop has no effect
        await wait_until(lambda: agent_under_test.log[-1] == "done")
        assert agent_under_test.log.count("swallowed") == 1
        await wait_until(lambda: not serve._executor.running)
        assert (await get(serve, task)).state is S.FAILED


async def test_update_of_another_process_does_not_stop_a_working_task(
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


async def test_detached_task_is_executed_only_if_it_is_submitted_and_readable(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    async with harness.open(agent_under_test, store=failing_store) as serve:
        message = send_request("hello").message

        def adopt(task_id: str) -> None:
            serve._executor.start_detached(task_id, ANN, message, options=ProjectionOptions())

        adopt("unknown")
        failing_store.fails["read"] = 1
        adopt("unreadable")
        done = await send(serve, "hello")
        adopt(done.id)
        await asyncio.sleep(0.02)
        assert agent_under_test.log == ["hello"]
        created = Task(id="t1", context_id="c1", status=SUBMITTED)
        await harness.tasks.create(created, owner=ANN.owner, message=send_request("hello").message)
        adopt("t1")
        await wait_for_state(serve, created, S.COMPLETED)
        assert agent_under_test.log == ["hello", "hello"]
        late = Task(id="t3", context_id="c3", status=SUBMITTED)
        await harness.tasks.create(late, owner=ANN.owner, message=send_request("hello").message)
        adopt("t3")
        group, serve._executor._group = serve._executor._group, None
        await wait_for_state(serve, late, S.FAILED)
        adopt("t1")
        assert (await cancel(serve, await submit_task(harness))).state is S.CANCELED
        serve._executor._group = group


async def submit_task(harness: ServerHarness) -> Task:
    task = Task(id="t2", context_id="c2", status=SUBMITTED)
    await harness.tasks.create(task, owner=ANN.owner, message=send_request("hello").message)
    return task


async def test_task_is_executed_when_the_sender_disconnects_after_creation(
    harness: ServerHarness, agent_under_test: CommandAgent, failing_store: Any
) -> None:
    create, created_event = harness.tasks.create, asyncio.Event()

    async def create_slowly(*arguments: Any, **fields: Any) -> Any:
        await create(*arguments, **fields)
        created_event.set()
        await asyncio.sleep(60)

    failing_store.create = create_slowly
    async with harness.open(agent_under_test, store=failing_store) as serve:
        for operation in (serve.send, serve.stream):
            created_event.clear()
            async with asyncio.TaskGroup() as group:
                sender: asyncio.Task[Any] = group.create_task(operation(ANN, send_request("hello")))
                await created_event.wait()
                sender.cancel()
            (task, *_) = await list_tasks(serve)
            await wait_for_state(serve, task, S.COMPLETED)
        assert agent_under_test.log == ["hello", "hello"]


async def test_agent_is_stopped_at_its_next_event_when_its_task_was_canceled_in_the_store(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await start(serve, "slowly")
        await wait_until(lambda: agent_under_test.log == ["slowly"])
        canceled = StatusUpdate(status=TaskStatus(state=S.CANCELED, at=1.0))
        await harness.tasks.append(task.id, [canceled])
        agent_under_test.gate.set()
        await wait_until(lambda: not serve._executor.running)
        assert (await get(serve, task)).state is S.CANCELED
    assert "spoke" in agent_under_test.log
    assert "went on" not in agent_under_test.log
