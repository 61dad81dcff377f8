"""What is left of a conversation once its tasks are forgotten: nothing."""

import asyncio
from collections.abc import Collection

import pytest
from serving_world import APP, Doer, S, World, cancel, get, send, start, until

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


async def sessions_of(world: World, user_id: str = "ann") -> set[str]:
    return {one.key.session_id for one in await world.sessions.sessions(APP, user_id)}


async def pass_time(serve: ServeA2AUseCase, world: World, seconds: float = 10.0) -> None:
    """Let time pass, and forget what was over before that."""
    world.clock.time += seconds
    await serve._maintenance.delete_expired(before=world.clock.time - seconds / 2)


async def is_forgotten(serve: ServeA2AUseCase, task: Task) -> bool:
    try:
        await get(serve, task)
    except TaskNotFound:
        return True
    return False


async def test_a_conversation_is_forgotten_with_the_last_of_its_tasks(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        old = await send(serve, "count 2", context="talk")
        await worlds.artifacts.save(key("talk"), "a.txt", b"a", "text/plain")
        worlds.clock.time += 10.0
        young = await send(serve, "hello", context="talk")
        await serve._maintenance.delete_expired(before=worlds.clock.time - 5.0)
        assert await is_forgotten(serve, old)
        assert (await get(serve, young)).state is S.COMPLETED
        assert await sessions_of(worlds) == {"talk"}
        await pass_time(serve, worlds)
        assert await is_forgotten(serve, young)
        assert await sessions_of(worlds) == set()
        assert await worlds.sessions.events(key("talk")) == ()
        assert await worlds.artifacts.names(key("talk")) == ()


async def test_the_server_forgets_conversations_by_itself(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "hello")
    worlds.clock.time += 100.0
    async with worlds.open(doer, keep=50.0) as serve:

        async def gone() -> bool:
            return await is_forgotten(serve, task)

        await until(gone)
        assert await sessions_of(worlds) == set()


async def test_forgetting_goes_on_after_a_fault(
    world: World, doer: Doer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.application.a2a.maintenance.SWEEP_SECONDS", 0.01)
    async with world.open(doer) as serve:
        task = await send(serve, "hello")
    world.clock.time += 100.0
    delete, faults = world.sessions.delete_unused, [StorageFailed("the disk is full")]

    async def fails_once(keys: Collection[SessionKey], *, since: float) -> frozenset[SessionKey]:
        if faults:
            raise faults.pop()
        return await delete(keys, since=since)

    monkeypatch.setattr(world.sessions, "delete_unused", fails_once)
    async with world.open(doer, keep=50.0) as serve:

        async def gone() -> bool:
            return await is_forgotten(serve, task)

        await until(gone)
        assert not faults
        assert await sessions_of(world) == set()


async def test_the_session_beside_is_forgotten_with_its_task(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        waiting = await send(serve, "ask", context="talk")
        beside = await send(serve, "ask", context="talk")
        assert await sessions_of(worlds) == {"talk", f"talk~{beside.id}"}
        await pass_time(serve, worlds)
        assert await sessions_of(worlds) == {"talk", f"talk~{beside.id}"}
        await cancel(serve, beside)
        await pass_time(serve, worlds)
        assert await is_forgotten(serve, beside)
        assert await sessions_of(worlds) == {"talk"}
        done = await send(serve, "blue", task=waiting)
        assert done.state is S.COMPLETED
        await pass_time(serve, worlds)
        assert await sessions_of(worlds) == set()


async def test_the_memories_of_a_forgotten_conversation_are_given_up(world: World) -> None:
    model = ScriptedModel("teal", "red")
    agent = Agent(name="helper", model=model, memory="transcript")
    async with world.open(agent) as serve:
        await send(serve, "hello", context="talk")
        shelf = serve.runner.services.memory_cache
        assert [where for where, _ in shelf._cache] == [key("talk")]
        await pass_time(serve, world)
        assert not shelf._cache
        await send(serve, "hello again", context="talk")
        assert "teal" not in repr(model.requests[-1])


async def test_a_conversation_that_is_taken_up_while_it_is_forgotten_stays(
    worlds: World, doer: Doer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message comes after the tasks were looked up, and its run has ended before they go."""
    async with worlds.open(doer) as serve:
        old = await send(serve, "hello", context="talk")
        delete = worlds.sessions.delete_unused
        came: list[Task] = []

        async def late(keys: Collection[SessionKey], *, since: float) -> frozenset[SessionKey]:
            if not came:
                came.append(await send(serve, "hello again", context="talk"))
            return await delete(keys, since=since)

        monkeypatch.setattr(worlds.sessions, "delete_unused", late)
        await pass_time(serve, worlds)
        session = await worlds.sessions.read(key("talk"))
        assert session is not None
        assert session.turns == 2
        assert (await get(serve, came[0])).state is S.COMPLETED
        # It is no more the last of its context, so nothing hinders that it goes.
        await serve._maintenance.delete_expired(before=worlds.clock.time - 5.0)
        assert await is_forgotten(serve, old)
        assert await sessions_of(worlds) == {"talk"}


async def test_a_run_keeps_the_session_that_it_is_using(
    worlds: World, doer: Doer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worlds.open(doer) as serve:
        await send(serve, "hello", context="talk")
        delete = worlds.sessions.delete_unused
        came: list[Task] = []

        async def late(keys: Collection[SessionKey], *, since: float) -> frozenset[SessionKey]:
            if not came:
                came.append(await start(serve, "wait", context="talk"))
                await until(lambda: doer.log[-1] == "wait")
            return await delete(keys, since=since)

        monkeypatch.setattr(worlds.sessions, "delete_unused", late)
        await pass_time(serve, worlds)
        doer.gate.set()

        async def is_done() -> bool:
            return (await get(serve, came[0])).state is S.COMPLETED

        await until(is_done)
        session = await worlds.sessions.read(key("talk"))
        assert session is not None
        assert (session.turns, session.status) == (2, RunStatus.COMPLETED)


async def test_a_task_whose_run_still_cleans_up_is_forgotten_once_that_is_over(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "hello", context="talk")
        other = await send(serve, "hello")
        await worlds.sessions.open(key("talk"), holder="someone")
        await pass_time(serve, worlds)
        assert not await is_forgotten(serve, task)
        assert await is_forgotten(serve, other)
        await worlds.sessions.release(key("talk"), holder="someone")
        await pass_time(serve, worlds)
        assert await is_forgotten(serve, task)
        assert await sessions_of(worlds) == set()


async def test_a_session_that_did_not_begin_here_is_never_touched(
    worlds: World, doer: Doer
) -> None:
    services = make_services(store=(worlds.sessions, worlds.artifacts), clock=worlds.clock)
    own = Runner(Doer(name="doer"), app_name=APP, services=services)
    await own.run(user_id="ann", session_id="mine", message="hello")
    await own.run(user_id="ann", session_id="shared", message="hello")
    async with worlds.open(doer) as serve:
        task = await send(serve, "hello", context="shared")
        await pass_time(serve, worlds)
        assert await is_forgotten(serve, task)
        assert await sessions_of(worlds) == {"mine", "shared"}
        assert len(await own.events(user_id="ann", session_id="shared")) == 6


async def test_a_session_is_that_of_the_owner_alone(worlds: World, doer: Doer) -> None:
    carol = Principal(caller="carol", tenant="acme/x")
    async with worlds.open(doer) as serve:
        await send(serve, "hello", carol, context="talk")
        await pass_time(serve, worlds)
        assert await sessions_of(worlds, "acme%2Fx/carol") == set()


async def test_a_task_that_never_had_a_session_is_forgotten(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "hello", context=" ")
        assert task.state is S.FAILED
        await pass_time(serve, worlds)
        assert await is_forgotten(serve, task)


async def test_a_process_that_dies_in_the_middle_leaves_nothing_over(
    worlds: World, doer: Doer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(_: Collection[str]) -> int:
        raise StorageFailed("the process is gone")

    async with worlds.open(doer) as serve:
        task = await send(serve, "hello", context="talk")
        with monkeypatch.context() as patch, pytest.raises(StorageFailed):
            patch.setattr(worlds.tasks, "delete_expired", dies)
            await pass_time(serve, worlds)
        assert not await is_forgotten(serve, task)
        await pass_time(serve, worlds)
        assert await is_forgotten(serve, task)
        assert await sessions_of(worlds) == set()


async def test_many_tasks_are_forgotten_while_others_are_served(
    worlds: World, doer: Doer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.application.a2a.maintenance.BATCH_SIZE", 3)
    async with worlds.open(doer) as serve:
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
            await pass_time(serve, worlds)
            counting.cancel()
        assert turns >= 3
        assert await worlds.tasks.expired(before=1e12, limit=9) == ()
        assert await sessions_of(worlds) == set()
