"""Expiry of tasks and of the sessions that belong to them."""

import asyncio
from collections.abc import Collection

import pytest
from server_harness import APP, CommandAgent, S, ServerHarness, cancel, get, send, start, wait_until

from acc import Agent, Runner
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.agents import make_services
from acc.domain.errors import StorageFailed, TaskNotFound
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import SessionKey
from acc.domain.value_objects.task import Task
from acc.testing import ScriptedModel


def session_key(session_id: str, user_id: str = "ann") -> SessionKey:
    return SessionKey(app_name=APP, user_id=user_id, session_id=session_id)


async def session_ids(harness: ServerHarness, user_id: str = "ann") -> set[str]:
    return {one.key.session_id for one in await harness.sessions.sessions(APP, user_id)}


async def advance_and_expire(
    serve: ServeA2AUseCase, harness: ServerHarness, seconds: float = 10.0
) -> None:
    """Advance the clock and delete the tasks that ended before."""
    harness.clock.time += seconds
    await serve._maintenance.delete_expired(before=harness.clock.time - seconds / 2)


async def is_deleted(serve: ServeA2AUseCase, task: Task) -> bool:
    try:
        await get(serve, task)
    except TaskNotFound:
        return True
    return False


async def test_session_is_deleted_with_the_last_task_of_its_context(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        old = await send(serve, "count 2", context="talk")
        await any_harness.artifacts.save(session_key("talk"), "a.txt", b"a", "text/plain")
        any_harness.clock.time += 10.0
        recent = await send(serve, "hello", context="talk")
        await serve._maintenance.delete_expired(before=any_harness.clock.time - 5.0)
        assert await is_deleted(serve, old)
        assert (await get(serve, recent)).state is S.COMPLETED
        assert await session_ids(any_harness) == {"talk"}
        await advance_and_expire(serve, any_harness)
        assert await is_deleted(serve, recent)
        assert await session_ids(any_harness) == set()
        assert await any_harness.sessions.events(session_key("talk")) == ()
        assert await any_harness.artifacts.names(session_key("talk")) == ()


async def test_server_deletes_expired_tasks_and_sessions_periodically(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello")
    any_harness.clock.time += 100.0
    async with any_harness.open(agent_under_test, keep=50.0) as serve:

        async def task_is_deleted() -> bool:
            return await is_deleted(serve, task)

        await wait_until(task_is_deleted)
        assert await session_ids(any_harness) == set()


async def test_expiry_continues_after_a_store_error(
    harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.application.a2a.maintenance.EXPIRY_SECONDS", 0.01)
    async with harness.open(agent_under_test) as serve:
        task = await send(serve, "hello")
    harness.clock.time += 100.0
    delete, faults = harness.sessions.delete_unused, [StorageFailed("the disk is full")]

    async def fails_once(keys: Collection[SessionKey], *, since: float) -> frozenset[SessionKey]:
        if faults:
            raise faults.pop()
        return await delete(keys, since=since)

    monkeypatch.setattr(harness.sessions, "delete_unused", fails_once)
    async with harness.open(agent_under_test, keep=50.0) as serve:

        async def task_is_deleted() -> bool:
            return await is_deleted(serve, task)

        await wait_until(task_is_deleted)
        assert not faults
        assert await session_ids(harness) == set()


async def test_parallel_session_is_deleted_with_its_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        waiting = await send(serve, "ask", context="talk")
        beside = await send(serve, "ask", context="talk")
        assert await session_ids(any_harness) == {"talk", f"talk~{beside.id}"}
        await advance_and_expire(serve, any_harness)
        assert await session_ids(any_harness) == {"talk", f"talk~{beside.id}"}
        await cancel(serve, beside)
        await advance_and_expire(serve, any_harness)
        assert await is_deleted(serve, beside)
        assert await session_ids(any_harness) == {"talk"}
        done = await send(serve, "blue", task=waiting)
        assert done.state is S.COMPLETED
        await advance_and_expire(serve, any_harness)
        assert await session_ids(any_harness) == set()


async def test_cached_memory_is_removed_with_its_session(
    harness: ServerHarness,
) -> None:
    model = ScriptedModel("teal", "red")
    agent = Agent(name="helper", model=model, memory="transcript")
    async with harness.open(agent) as serve:
        await send(serve, "hello", context="talk")
        memory_cache = serve.runner.services.memory_cache
        assert [where for where, _ in memory_cache._cache] == [session_key("talk")]
        await advance_and_expire(serve, harness)
        assert not memory_cache._cache
        await send(serve, "hello again", context="talk")
        assert "teal" not in repr(model.requests[-1])


async def test_session_is_not_deleted_when_a_message_arrives_during_expiry(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message arrives and its run ends between listing and deleting the expired tasks."""
    async with any_harness.open(agent_under_test) as serve:
        old = await send(serve, "hello", context="talk")
        delete = any_harness.sessions.delete_unused
        new_tasks: list[Task] = []

        async def delete_after_new_message(
            keys: Collection[SessionKey], *, since: float
        ) -> frozenset[SessionKey]:
            if not new_tasks:
                new_tasks.append(await send(serve, "hello again", context="talk"))
            return await delete(keys, since=since)

        monkeypatch.setattr(any_harness.sessions, "delete_unused", delete_after_new_message)
        await advance_and_expire(serve, any_harness)
        session = await any_harness.sessions.read(session_key("talk"))
        assert session is not None
        assert session.turns == 2
        assert (await get(serve, new_tasks[0])).state is S.COMPLETED
        # The task is no longer the last of its context, so it can be deleted.
        await serve._maintenance.delete_expired(before=any_harness.clock.time - 5.0)
        assert await is_deleted(serve, old)
        assert await session_ids(any_harness) == {"talk"}


async def test_session_used_by_a_run_is_not_deleted(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        await send(serve, "hello", context="talk")
        delete = any_harness.sessions.delete_unused
        new_tasks: list[Task] = []

        async def delete_after_new_message(
            keys: Collection[SessionKey], *, since: float
        ) -> frozenset[SessionKey]:
            if not new_tasks:
                new_tasks.append(await start(serve, "wait", context="talk"))
                await wait_until(lambda: agent_under_test.log[-1] == "wait")
            return await delete(keys, since=since)

        monkeypatch.setattr(any_harness.sessions, "delete_unused", delete_after_new_message)
        await advance_and_expire(serve, any_harness)
        agent_under_test.gate.set()

        async def is_done() -> bool:
            return (await get(serve, new_tasks[0])).state is S.COMPLETED

        await wait_until(is_done)
        session = await any_harness.sessions.read(session_key("talk"))
        assert session is not None
        assert (session.turns, session.status) == (2, RunStatus.COMPLETED)


async def test_task_is_deleted_after_its_session_is_released(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context="talk")
        other = await send(serve, "hello")
        await any_harness.sessions.open(session_key("talk"), holder="someone")
        await advance_and_expire(serve, any_harness)
        assert not await is_deleted(serve, task)
        assert await is_deleted(serve, other)
        await any_harness.sessions.release(session_key("talk"), holder="someone")
        await advance_and_expire(serve, any_harness)
        assert await is_deleted(serve, task)
        assert await session_ids(any_harness) == set()


async def test_session_created_outside_the_server_is_not_deleted(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    services = make_services(
        store=(any_harness.sessions, any_harness.artifacts), clock=any_harness.clock
    )
    own = Runner(CommandAgent(name="doer"), app_name=APP, services=services)
    await own.run(user_id="ann", session_id="mine", message="hello")
    await own.run(user_id="ann", session_id="shared", message="hello")
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context="shared")
        await advance_and_expire(serve, any_harness)
        assert await is_deleted(serve, task)
        assert await session_ids(any_harness) == {"mine", "shared"}
        assert len(await own.events(user_id="ann", session_id="shared")) == 6


async def test_session_of_a_tenant_is_deleted_with_its_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    carol = Principal(caller="carol", tenant="acme/x")
    async with any_harness.open(agent_under_test) as serve:
        await send(serve, "hello", carol, context="talk")
        await advance_and_expire(serve, any_harness)
        assert await session_ids(any_harness, "acme%2Fx/carol") == set()


async def test_task_without_session_is_deleted(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context=" ")
        assert task.state is S.FAILED
        await advance_and_expire(serve, any_harness)
        assert await is_deleted(serve, task)


async def test_interrupted_expiry_is_completed_by_the_next_one(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: Collection[str]) -> int:
        raise StorageFailed("the process is gone")

    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context="talk")
        with monkeypatch.context() as patch, pytest.raises(StorageFailed):
            patch.setattr(any_harness.tasks, "delete_expired", fail)
            await advance_and_expire(serve, any_harness)
        assert not await is_deleted(serve, task)
        await advance_and_expire(serve, any_harness)
        assert await is_deleted(serve, task)
        assert await session_ids(any_harness) == set()


async def test_expiry_in_batches_lets_other_tasks_run(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.application.a2a.maintenance.BATCH_SIZE", 3)
    async with any_harness.open(agent_under_test) as serve:
        for number in range(10):
            await send(serve, "hello", context=f"c{number // 2}")
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with asyncio.TaskGroup() as group:
            counting = group.create_task(count())
            await advance_and_expire(serve, any_harness)
            counting.cancel()
        assert turns >= 3
        assert await any_harness.tasks.expired(before=1e12, limit=9) == ()
        assert await session_ids(any_harness) == set()
