"""Task execution: cancellation, races, shutdown, orphans and several processes."""

import asyncio
import random

import pytest
from server_harness import (
    ANN,
    CommandAgent,
    S,
    ServerHarness,
    answer_text,
    cancel,
    check_no_tasks_left,
    get,
    read_stream,
    send,
    send_request,
    start,
    status_text,
    subscribe,
    summarize,
    wait_for_state,
    wait_until,
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


async def test_submitted_task_can_be_canceled(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        first = await start(serve, "wait", context="c1")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        second = await start(serve, "hello", context="c1")
        assert (await cancel(serve, second)).state is S.CANCELED
        agent_under_test.gate.set()
        await wait_for_state(serve, first, S.COMPLETED)
        await asyncio.sleep(0.02)
        assert agent_under_test.log == ["wait", "woke"]


async def test_cancel_also_cancels_the_waiting_remote_task(
    any_harness: ServerHarness,
) -> None:
    asking = Task(id="r1", context_id="rc", status=TaskStatus(state=S.INPUT_REQUIRED))
    remote = ScriptedRemote(asking)

    def shop() -> RemoteAgent:
        return RemoteAgent(name="shop", url="https://shop.example")

    async with any_harness.open(shop()) as serve:
        serve.runner.services.remote = lambda _: remote
        task = await send(serve, "pay")
        assert task.state is S.INPUT_REQUIRED
    async with any_harness.open(shop()) as serve:  # a new process
        serve.runner.services.remote = lambda _: remote
        assert (await cancel(serve, task)).state is S.CANCELED
    assert remote.canceled == ["r1"]


async def test_task_can_be_canceled_before_its_run_starts(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        task = await start(serve, "hello")
        await serve._cancel(ANN, task.id)  # the operation without waiting
        assert (await get(serve, task)).state is S.CANCELED
        await asyncio.sleep(0.01)
        assert agent_under_test.log == []
        assert not serve._executor.running


async def test_working_task_can_be_canceled(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve, asyncio.TaskGroup() as group:
        blocking = group.create_task(send(serve, "wait", id="m1"))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        task = await start(serve, "wait", id="m1")
        stream = await subscribe(serve, task)
        reader = group.create_task(read_stream(stream))
        await asyncio.sleep(0.02)
        canceled = await cancel(serve, task)
        assert canceled.state is S.CANCELED
        assert (await blocking) == canceled
        assert summarize(await reader)[-1] == "canceled"
        assert "woke" not in agent_under_test.log
        await wait_until(lambda: not serve._executor.running)


async def test_task_that_requires_input_can_be_canceled(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "ask", context="c1")
        assert (await cancel(serve, task)).state is S.CANCELED
        assert (await send(serve, "hello", context="c1")).state is S.COMPLETED


async def test_only_one_of_concurrent_cancels_succeeds(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await start(serve, "wait")
        outcomes: list[str] = []

        async def try_cancel() -> None:
            try:
                outcomes.append((await cancel(serve, task)).state.value)
            except TaskNotCancelable:
                outcomes.append("refused")

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(try_cancel())
        assert sorted(outcomes) == ["canceled", *["refused"] * 4]
        with pytest.raises(TaskNotCancelable, match="already canceled"):
            await cancel(serve, task)


async def test_canceled_task_does_not_change_when_its_agent_continues(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await start(serve, "stubborn")
        await wait_until(lambda: agent_under_test.log == ["stubborn"])
        canceled = await cancel(serve, task)
        await wait_until(lambda: agent_under_test.log[-1] == "done")
        await wait_until(lambda: not serve._executor.running)
        assert await get(serve, task) == canceled
        assert canceled.state is S.CANCELED
        assert canceled.artifacts == ()


async def test_task_has_one_end_state_when_cancel_and_completion_race(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        end_states = set()
        for turn in range(40):
            task = await start(serve, "count 3")
            for _ in range(turn % 10):
                await asyncio.sleep(0.0005 if any_harness.kind == "sqlite" else 0)
            try:
                result = await cancel(serve, task)
                assert result.state is S.CANCELED
            except TaskNotCancelable:
                result = await wait_for_state(serve, task, S.COMPLETED)
            await wait_until(lambda: not serve._executor.running)
            assert await get(serve, task) == result
            end_states.add(result.state)
        assert S.CANCELED in end_states


async def test_concurrent_updates_follow_the_transition_table(
    any_harness: ServerHarness,
) -> None:
    store, generator = any_harness.tasks, random.Random(7)  # noqa: S311 - no secret
    status = TaskStatus(state=S.SUBMITTED, at=1.0)
    for turn in range(6):
        task = Task(id=f"t{turn}", context_id=f"c{turn}", status=status)
        message = Message(message_id=f"m{turn}", role=Role.USER, parts=())
        await store.create(task, owner=Owner("", "ann"), message=message)

        async def change_state(task_id: str, state: TaskState) -> None:
            try:
                await store.append(task_id, [StatusUpdate(status=TaskStatus(state=state, at=2.0))])
            except InvalidTransition as error:
                assert state not in TRANSITIONS[TaskState(error.state)]

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(change_state(task.id, generator.choice([*TaskState])))
        states = [
            event.update.status.state
            for event in await store.events(task.id)
            if isinstance(event.update, StatusUpdate)
        ]
        for before, after in zip(states, states[1:], strict=False):
            assert after in TRANSITIONS[before]
        assert not any(state in TERMINAL for state in states[:-1])


async def test_cancel_takes_effect_when_its_sender_disconnects(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        for steps in range(8):
            task = await send(serve, "ask", context=f"c{steps}")
            async with asyncio.TaskGroup() as group:
                sender = group.create_task(cancel(serve, task))
                for _ in range(steps + 1):
                    await asyncio.sleep(0.0004)
                sender.cancel()
            await wait_for_state(serve, task, S.CANCELED)
            assert (await send(serve, "hello", context=f"c{steps}")).state is S.COMPLETED


async def test_stop_waits_for_tasks_within_the_grace_period(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test, grace=5.0) as serve:
        task = await start(serve, "wait")
        await wait_until(lambda: agent_under_test.log == ["wait"])
        async with asyncio.TaskGroup() as group:
            group.create_task(serve.stop())
            await asyncio.sleep(0.01)
            agent_under_test.gate.set()
        assert (await get(serve, task)).state is S.COMPLETED


async def test_stop_fails_tasks_that_exceed_the_grace_period(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    serve = any_harness.server(agent_under_test, grace=0.02)
    async with serve.open(), asyncio.TaskGroup() as group:
        task = await start(serve, "wait")
        blocking = group.create_task(send(serve, "wait", id="m2"))
        stream = await serve.stream(ANN, send_request("wait"))
        reader = group.create_task(read_stream(stream))
        await wait_until(lambda: agent_under_test.log == ["wait"] * 3)
        await serve.stop()
    check_no_tasks_left(serve)
    assert (await blocking).state is S.FAILED
    assert "working" in summarize(await reader)[1:] or summarize(await reader)
    result = await any_harness.tasks.read(task.id)
    assert result is not None
    assert result.state is S.FAILED
    assert "stopped" in status_text(result)
    assert result.metadata["code"] == "interrupted"


async def test_task_fails_when_its_message_arrives_during_shutdown(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    serve = any_harness.server(agent_under_test)
    async with serve.open():
        waiting = await send(serve, "ask")
        create, continue_task = any_harness.tasks.create, any_harness.tasks.continue_task

        async def create_then_stop(*arguments: object, **fields: object) -> object:
            submitted = await create(*arguments, **fields)  # type: ignore[arg-type]
            serve._executor._group = None
            return submitted

        async def continue_then_stop(*arguments: object, **fields: object) -> object:
            submitted = await continue_task(*arguments, **fields)  # type: ignore[arg-type]
            serve._executor._group = None
            return submitted

        group = serve._executor._group
        any_harness.tasks.create = create_then_stop  # type: ignore[method-assign,assignment]
        assert (await send(serve, "hello")).state is S.FAILED
        serve._executor._group = group
        any_harness.tasks.continue_task = continue_then_stop  # type: ignore[method-assign,assignment]
        assert (await send(serve, "tea", task=waiting)).state is S.FAILED
        any_harness.tasks.create = create  # type: ignore[method-assign]
        any_harness.tasks.continue_task = continue_task  # type: ignore[method-assign]
        serve._executor._group = group
        # The run that waited for the answer is abandoned, so the context can be used again.
        again = await send(serve, "hello", context=waiting.context_id)
        assert again.state is S.COMPLETED


async def test_task_runs_while_another_task_of_its_context_requires_input(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        waiting = await send(serve, "ask", context="c1")
        login = await send(serve, "login", context="c2")
        for context in ("c1", "c2"):
            assert (await send(serve, "hello", context=context)).state is S.COMPLETED
        parallel = await send(serve, "ask Coffee?", context="c1")
        assert parallel.state is S.INPUT_REQUIRED
        assert answer_text(await send(serve, "milk", task=parallel)).startswith("answer: 'milk'")
        assert answer_text(await send(serve, "tea", task=waiting)).startswith("answer: 'tea'")
        assert (await send(serve, "done", task=login)).state is S.COMPLETED


async def test_task_of_a_dead_process_fails(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    status = TaskStatus(state=S.SUBMITTED, at=1.0)
    for name, state in (("t1", S.SUBMITTED), ("t2", S.WORKING)):
        message = Message(message_id=f"m-{name}", role=Role.USER, parts=())
        task = Task(id=name, context_id=f"c-{name}", status=status)
        await any_harness.tasks.create(task, owner=Owner("", "ann"), message=message)
        if state is S.WORKING:
            await any_harness.tasks.append(
                name, [StatusUpdate(status=TaskStatus(state=state, at=2.0))]
            )
    any_harness.clock.time += 31.0
    async with any_harness.open(agent_under_test) as serve:
        for name in ("t1", "t2"):
            result = await wait_for_state(serve, task := await get(serve, name), S.FAILED)
            assert task.id == name
            assert "interrupted" in status_text(result)


async def test_expired_task_is_deleted(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "hello")
    any_harness.clock.time += 100.0
    async with any_harness.open(agent_under_test, keep=50.0) as serve:
        await wait_until(lambda: _is_deleted(any_harness, task))
        with pytest.raises(TaskNotFound):
            await get(serve, task)


async def _is_deleted(harness: ServerHarness, task: Task) -> bool:
    return await harness.tasks.read(task.id) is None


async def test_cancel_in_another_process_stops_the_run(
    sqlite_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    other = CommandAgent(name="doer")
    async with (
        sqlite_harness.open(agent_under_test) as here,
        sqlite_harness.open(other) as there,
        asyncio.TaskGroup() as group,
    ):
        stream = await here.stream(ANN, send_request("wait", id="m1"))
        reader = group.create_task(read_stream(stream))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        blocked = group.create_task(send(there, "wait", id="m1"))
        task = await get(there, stream.task_id)
        await asyncio.sleep(0.05)
        canceled = await there.cancel(ANN, TaskRequest(id=task.id))
        await wait_until(lambda: not here._executor.running)
        assert summarize(await reader)[-1] == "canceled"
        assert (await blocked).state is S.CANCELED
        assert await get(here, task) == canceled
        assert "woke" not in agent_under_test.log
        assert other.log == []


async def test_input_can_be_answered_in_another_process(
    sqlite_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    other = CommandAgent(name="doer")
    async with sqlite_harness.open(agent_under_test) as here, sqlite_harness.open(other) as there:
        task = await send(here, "ask")
        done = await send(there, "tea", task=task)
        assert answer_text(done).startswith("answer: 'tea' by ann")
        assert await get(here, task) == done
