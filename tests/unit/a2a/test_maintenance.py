"""What is left of a conversation once its tasks are forgotten: nothing."""

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


def key(session_id: str, user_id: str = "ann") -> SessionKey:
    return SessionKey(app_name=APP, user_id=user_id, session_id=session_id)


async def sessions_of(harness: ServerHarness, user_id: str = "ann") -> set[str]:
    return {one.key.session_id for one in await harness.sessions.sessions(APP, user_id)}


async def pass_time(serve: ServeA2AUseCase, harness: ServerHarness, seconds: float = 10.0) -> None:
    """Let time pass, and forget what was over before that."""
    harness.clock.time += seconds
    await serve._maintenance.delete_expired(before=harness.clock.time - seconds / 2)


async def is_forgotten(serve: ServeA2AUseCase, task: Task) -> bool:
    try:
        await get(serve, task)
    except TaskNotFound:
        return True
    return False


async def test_a_conversation_is_forgotten_with_the_last_of_its_tasks(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        old = await send(serve, "count 2", context="talk")
        await any_harness.artifacts.save(key("talk"), "a.txt", b"a", "text/plain")
        any_harness.clock.time += 10.0
        young = await send(serve, "hello", context="talk")
        await serve._maintenance.delete_expired(before=any_harness.clock.time - 5.0)
        assert await is_forgotten(serve, old)
        assert (await get(serve, young)).state is S.COMPLETED
        assert await sessions_of(any_harness) == {"talk"}
        await pass_time(serve, any_harness)
        assert await is_forgotten(serve, young)
        assert await sessions_of(any_harness) == set()
        assert await any_harness.sessions.events(key("talk")) == ()
        assert await any_harness.artifacts.names(key("talk")) == ()


async def test_the_server_forgets_conversations_by_itself(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello")
    any_harness.clock.time += 100.0
    async with any_harness.open(agent_under_test, keep=50.0) as serve:

        async def gone() -> bool:
            return await is_forgotten(serve, task)

        await wait_until(gone)
        assert await sessions_of(any_harness) == set()


async def test_forgetting_goes_on_after_a_fault(
    harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.application.a2a.maintenance.SWEEP_SECONDS", 0.01)
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

        async def gone() -> bool:
            return await is_forgotten(serve, task)

        await wait_until(gone)
        assert not faults
        assert await sessions_of(harness) == set()


async def test_the_session_beside_is_forgotten_with_its_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        waiting = await send(serve, "ask", context="talk")
        beside = await send(serve, "ask", context="talk")
        assert await sessions_of(any_harness) == {"talk", f"talk~{beside.id}"}
        await pass_time(serve, any_harness)
        assert await sessions_of(any_harness) == {"talk", f"talk~{beside.id}"}
        await cancel(serve, beside)
        await pass_time(serve, any_harness)
        assert await is_forgotten(serve, beside)
        assert await sessions_of(any_harness) == {"talk"}
        done = await send(serve, "blue", task=waiting)
        assert done.state is S.COMPLETED
        await pass_time(serve, any_harness)
        assert await sessions_of(any_harness) == set()


async def test_the_memories_of_a_forgotten_conversation_are_given_up(
    harness: ServerHarness,
) -> None:
    model = ScriptedModel("teal", "red")
    agent = Agent(name="helper", model=model, memory="transcript")
    async with harness.open(agent) as serve:
        await send(serve, "hello", context="talk")
        shelf = serve.runner.services.memory_cache
        assert [where for where, _ in shelf._cache] == [key("talk")]
        await pass_time(serve, harness)
        assert not shelf._cache
        await send(serve, "hello again", context="talk")
        assert "teal" not in repr(model.requests[-1])


async def test_a_conversation_that_is_taken_up_while_it_is_forgotten_stays(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message comes after the tasks were looked up, and its run has ended before they go."""
    async with any_harness.open(agent_under_test) as serve:
        old = await send(serve, "hello", context="talk")
        delete = any_harness.sessions.delete_unused
        came: list[Task] = []

        async def late(keys: Collection[SessionKey], *, since: float) -> frozenset[SessionKey]:
            if not came:
                came.append(await send(serve, "hello again", context="talk"))
            return await delete(keys, since=since)

        monkeypatch.setattr(any_harness.sessions, "delete_unused", late)
        await pass_time(serve, any_harness)
        session = await any_harness.sessions.read(key("talk"))
        assert session is not None
        assert session.turns == 2
        assert (await get(serve, came[0])).state is S.COMPLETED
        # It is no more the last of its context, so nothing hinders that it goes.
        await serve._maintenance.delete_expired(before=any_harness.clock.time - 5.0)
        assert await is_forgotten(serve, old)
        assert await sessions_of(any_harness) == {"talk"}


async def test_a_run_keeps_the_session_that_it_is_using(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        await send(serve, "hello", context="talk")
        delete = any_harness.sessions.delete_unused
        came: list[Task] = []

        async def late(keys: Collection[SessionKey], *, since: float) -> frozenset[SessionKey]:
            if not came:
                came.append(await start(serve, "wait", context="talk"))
                await wait_until(lambda: agent_under_test.log[-1] == "wait")
            return await delete(keys, since=since)

        monkeypatch.setattr(any_harness.sessions, "delete_unused", late)
        await pass_time(serve, any_harness)
        agent_under_test.gate.set()

        async def is_done() -> bool:
            return (await get(serve, came[0])).state is S.COMPLETED

        await wait_until(is_done)
        session = await any_harness.sessions.read(key("talk"))
        assert session is not None
        assert (session.turns, session.status) == (2, RunStatus.COMPLETED)


async def test_a_task_whose_run_still_cleans_up_is_forgotten_once_that_is_over(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context="talk")
        other = await send(serve, "hello")
        await any_harness.sessions.open(key("talk"), holder="someone")
        await pass_time(serve, any_harness)
        assert not await is_forgotten(serve, task)
        assert await is_forgotten(serve, other)
        await any_harness.sessions.release(key("talk"), holder="someone")
        await pass_time(serve, any_harness)
        assert await is_forgotten(serve, task)
        assert await sessions_of(any_harness) == set()


async def test_a_session_that_did_not_begin_here_is_never_touched(
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
        await pass_time(serve, any_harness)
        assert await is_forgotten(serve, task)
        assert await sessions_of(any_harness) == {"mine", "shared"}
        assert len(await own.events(user_id="ann", session_id="shared")) == 6


async def test_a_session_is_that_of_the_owner_alone(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    carol = Principal(caller="carol", tenant="acme/x")
    async with any_harness.open(agent_under_test) as serve:
        await send(serve, "hello", carol, context="talk")
        await pass_time(serve, any_harness)
        assert await sessions_of(any_harness, "acme%2Fx/carol") == set()


async def test_a_task_that_never_had_a_session_is_forgotten(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context=" ")
        assert task.state is S.FAILED
        await pass_time(serve, any_harness)
        assert await is_forgotten(serve, task)


async def test_a_process_that_dies_in_the_middle_leaves_nothing_over(
    any_harness: ServerHarness, agent_under_test: CommandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(_: Collection[str]) -> int:
        raise StorageFailed("the process is gone")

    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello", context="talk")
        with monkeypatch.context() as patch, pytest.raises(StorageFailed):
            patch.setattr(any_harness.tasks, "delete_expired", dies)
            await pass_time(serve, any_harness)
        assert not await is_forgotten(serve, task)
        await pass_time(serve, any_harness)
        assert await is_forgotten(serve, task)
        assert await sessions_of(any_harness) == set()


async def test_many_tasks_are_forgotten_while_others_are_served(
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
            await pass_time(serve, any_harness)
            counting.cancel()
        assert turns >= 3
        assert await any_harness.tasks.expired(before=1e12, limit=9) == ()
        assert await sessions_of(any_harness) == set()
