"""Streams yield the task, then each event once and in order."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import permutations

import pytest
from server_harness import (
    ANN,
    BOB,
    CommandAgent,
    S,
    ServerHarness,
    cancel,
    check_no_subscribers,
    read_stream,
    send,
    send_request,
    start,
    subscribe,
    summarize,
    wait_for_state,
    wait_until,
)

from acc.application.a2a.requests import TaskRequest
from acc.application.a2a.subscriptions import StreamItem, TaskBroker
from acc.domain.errors import LimitExceeded, UnsupportedOperation
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskEvent,
    TaskStatus,
)


def numbered(items: Sequence[StreamItem]) -> list[int]:
    return [seq for seq, item in items if item is not None]


async def test_stream_yields_task_then_each_event_once(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        items = await read_stream(await serve.stream(ANN, send_request("count 5")))
        assert summarize(items) == [
            "task submitted",
            "working",
            *[f"numbers {n}" for n in range(5)],
            "answer counted to 5",
            "completed",
        ]
        assert numbered(items) == list(range(1, 10))


async def test_stream_loses_nothing_beyond_the_cache(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        stream = await serve.stream(ANN, send_request("count 300"))
        async with aclosing(stream.items()) as items:
            first = await anext(items)
            await wait_for_state(
                serve, Task(id=stream.task_id, context_id="", status=_AT), S.COMPLETED
            )
            rest = [item async for item in items]
        stream.close()
        assert numbered([first, *rest]) == list(range(1, 305))


async def test_subscribers_read_at_their_own_pace(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await start(serve, "wait first")
        await wait_for_state(serve, task, S.WORKING)
        streams = [await subscribe(serve, task) for _ in range(3)]
        idle = await subscribe(serve, task)
        agent_under_test.gate.set()
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(read_stream(stream)) for stream in streams]
        idle.close()
        idle.close()
        for reader in readers:
            items = await reader
            assert summarize(items)[0] == "task working"
            assert summarize(items)[-2:] == ["answer waited", "completed"]
            numbers = numbered(items)
            assert numbers == list(range(numbers[0], 6))


@pytest.mark.parametrize("after", range(10))
async def test_resumed_stream_yields_exactly_the_rest(
    any_harness: ServerHarness, agent_under_test: CommandAgent, after: int
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        request = send_request("count 5", id="m1")
        whole = await read_stream(await serve.stream(ANN, request))
        task = Task(id=(await send(serve, "count 5", id="m1")).id, context_id="", status=_AT)
        if after < 9:
            rest = await read_stream(await subscribe(serve, task, after))
            expected = [item for item in whole if item.seq > after]
            assert [item.seq for item in rest] == [item.seq for item in expected] or after == 0
            assert rest[-len(expected) or None :][-8:] == expected[-8:]
            again = await read_stream(await serve.stream(ANN, request, after=after))
            assert again == rest
        else:
            with pytest.raises(UnsupportedOperation, match="no more events"):
                await subscribe(serve, task, after)
            (shown,) = await read_stream(await serve.stream(ANN, request, after=after))
            assert isinstance(shown.item, Task)
        assert agent_under_test.log == ["count 5"]


async def test_resumed_stream_does_not_repeat_the_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        request = send_request("wait first", id="m1")
        early = await read_stream(await serve.stream(ANN, request), most=3)
        assert summarize(early) == ["task submitted", "working", "working first"]
        later = await serve.stream(ANN, request, after=3)
        again = await serve.subscribe(ANN, TaskRequest(id=later.task_id), after=3)
        agent_under_test.gate.set()
        assert summarize(await read_stream(later)) == ["answer waited", "completed"]
        assert summarize(await read_stream(again)) == ["answer waited", "completed"]


async def test_stream_yields_task_when_last_event_is_in_the_future(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        request = send_request("wait first", id="m1")
        early = await read_stream(await serve.stream(ANN, request), most=3)
        again = await serve.stream(ANN, request, after=4)
        beyond = await serve.subscribe(ANN, TaskRequest(id=again.task_id), after=999)
        agent_under_test.gate.set()
        for stream in (again, beyond):
            items = await read_stream(stream)
            assert summarize(items) == ["task working", "answer waited", "completed"]
            assert items[0].seq == early[-1].seq == 3


async def test_resumed_stream_yields_past_request_and_answer(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        items = await read_stream(await serve.stream(ANN, send_request("ask", id="m1")))
        assert summarize(items)[-1] == "input-required What shall it be?"
        task = await send(serve, "tea", task=(items[0].item.id))  # type: ignore[union-attr]
        missed = await read_stream(await subscribe(serve, task, 1))
        assert summarize(missed) == [
            "working",
            "input-required What shall it be?",
            "working",
            "answer answer: 'tea' by ann (approve)",
            "completed",
        ]


async def test_stream_of_an_answer_continues_to_the_end(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        task = await send(serve, "ask")
        waiting = await subscribe(serve, task)
        items = await read_stream(await serve.stream(ANN, send_request("tea", task=task)))
        assert summarize(items)[0] == "task working"
        assert summarize(items)[-1] == "completed"
        assert summarize(await read_stream(waiting))[0] == "task input-required"


async def test_stream_ends_when_task_already_waits(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        await send(serve, "ask", id="m1")
        assert summarize(
            await read_stream(await serve.stream(ANN, send_request("ask", id="m1")))
        ) == ["task input-required"]


async def test_task_continues_when_subscriber_leaves(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        stream = await serve.stream(ANN, send_request("wait"))
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(read_stream(stream))
            await wait_until(lambda: agent_under_test.log == ["wait"])
            reader.cancel()
        check_no_subscribers(serve)
        agent_under_test.gate.set()
        await wait_for_state(serve, Task(id=stream.task_id, context_id="", status=_AT), S.COMPLETED)


async def test_stopped_stream_ends_at_its_position(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve, asyncio.TaskGroup() as group:
        stream = await serve.stream(ANN, send_request("wait"))
        reader = group.create_task(read_stream(stream))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        stream.stop()
        assert summarize(await reader)[0] == "task submitted"
        agent_under_test.gate.set()


async def test_idle_stream_yields_heartbeats(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, heartbeat=0.3) as serve:
        stream = await serve.stream(ANN, send_request("wait"))
        items = await read_stream(stream, most=4)
        assert summarize(items) == ["task submitted", "working", "alive", "alive"]
        assert items[-1].seq == 2
        agent_under_test.gate.set()


async def test_stream_yields_end_of_task_within_grace(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, grace=5.0) as serve, asyncio.TaskGroup() as group:
        stream = await serve.stream(ANN, send_request("wait"))
        reader = group.create_task(read_stream(stream))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        group.create_task(serve.stop())
        late = await subscribe(serve, Task(id=stream.task_id, context_id="", status=_AT))
        await asyncio.sleep(0.05)
        assert not reader.done()
        agent_under_test.gate.set()
        assert summarize(await reader) == [
            "task submitted",
            "working",
            "answer waited",
            "completed",
        ]
        assert summarize(await read_stream(late)) == ["task working", "answer waited", "completed"]


async def test_stream_yields_failure_of_a_stopped_task(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve, asyncio.TaskGroup() as group:
        reader = group.create_task(read_stream(await serve.stream(ANN, send_request("wait"))))
        await wait_until(lambda: agent_under_test.log == ["wait"])
        group.create_task(serve.stop())
        begun, working, stopped = summarize(await reader)
        assert (begun, working) == ("task submitted", "working")
        assert stopped.startswith("failed the server was stopped before")


async def test_streams_end_when_server_stops(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, grace=5.0) as serve, asyncio.TaskGroup() as group:
        waiting = await send(serve, "ask")
        reader = group.create_task(read_stream(await subscribe(serve, waiting)))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(2):
            await serve.stop()
            assert summarize(await reader) == ["task input-required"]


async def test_slow_subscriber_receives_all_events_before_the_end(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test) as serve:
        stream = await serve.stream(ANN, send_request("count 300"))
        await wait_for_state(serve, Task(id=stream.task_id, context_id="", status=_AT), S.COMPLETED)
        await serve.stop()
        assert summarize(await read_stream(stream))[-2:] == ["answer counted to 300", "completed"]


async def test_streams_of_a_caller_are_limited(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, streams=2) as serve:
        opened = []

        async def try_to() -> None:
            try:
                opened.append(await serve.stream(ANN, send_request("wait")))
            except LimitExceeded as error:
                assert "2 open streams" in str(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(try_to())
        assert len(opened) == 2
        with pytest.raises(LimitExceeded):
            await subscribe(serve, Task(id=opened[0].task_id, context_id="", status=_AT))
        (await serve.stream(BOB, send_request("wait"))).close()
        opened.pop().close()
        opened.append(await serve.stream(ANN, send_request("wait")))
        for stream in opened:
            stream.close()
        agent_under_test.gate.set()


async def test_rejected_message_releases_its_slot(
    any_harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with any_harness.open(agent_under_test, streams=1, tasks=1) as serve:
        task = await start(serve, "wait")
        for _ in range(3):
            with pytest.raises(LimitExceeded, match="tasks"):
                await serve.stream(ANN, send_request("hello"))
        await cancel(serve, task)
        await read_stream(await serve.stream(ANN, send_request("hello")))


async def test_slot_is_released_when_sender_is_cancelled(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        group, append = serve._executor._group, harness.tasks.append

        async def stuck(*_: object) -> None:
            await asyncio.sleep(60)

        serve._executor._group = None
        harness.tasks.append = stuck  # type: ignore[method-assign,assignment]
        type(serve._executor).is_open, is_open = True, type(serve._executor).is_open  # type: ignore[method-assign,assignment]
        try:
            async with asyncio.TaskGroup() as tasks:
                sender = tasks.create_task(serve.stream(ANN, send_request("hello")))
                await asyncio.sleep(0.01)
                sender.cancel()
        finally:
            type(serve._executor).is_open = is_open  # type: ignore[method-assign]
            harness.tasks.append = append  # type: ignore[method-assign]
            serve._executor._group = group


_AT = TaskStatus(state=S.SUBMITTED)


def _event(seq: int) -> TaskEvent:
    return TaskEvent(seq, ArtifactUpdate(artifact=TaskArtifact(artifact_id=str(seq), parts=())))


async def test_broker_requires_the_store_after_a_gap() -> None:
    broker = TaskBroker()
    broker.advance("t", 5)
    broker.wake("t")
    broker.publish("t", [_event(5)])
    broker.subscribe("t")
    assert broker.events_after("t", 4) is None
    broker.publish("t", [_event(5)])
    assert broker.events_after("t", 4) == [_event(5)]
    assert broker.events_after("t", 3) is None
    news = broker.revision("t")
    broker.advance("t", 5)
    assert broker.revision("t") == news  # we knew, so nobody has to look
    broker.advance("t", 6)
    assert broker.revision("t") > news
    assert broker.events_after("t", 5) is None
    broker.publish("t", [_event(7)])
    assert broker.events_after("t", 5) is None
    broker.publish("t", [_event(6)])  # published late; later events must not be skipped
    assert broker.events_after("t", 5) is None
    broker.unsubscribe("t")


@pytest.mark.parametrize("order", list(permutations([8, 9, 10, 11])))
@pytest.mark.parametrize("noticed", [0, 8, 10, 11])
async def test_broker_skips_no_event_in_any_order_of_publication(
    order: tuple[int, ...], noticed: int
) -> None:
    broker = TaskBroker()
    broker.subscribe("t")
    received: list[int] = []
    for seq in order:
        received.append(seq)
        broker.publish("t", [_event(seq)])
        broker.advance("t", min(noticed, max(received)))
        for after in range(7, max(received)):
            newer = broker.events_after("t", after)
            wanted = [_event(number) for number in range(after + 1, max(received) + 1)]
            assert newer is None or newer == wanted
    broker.unsubscribe("t")


async def test_late_event_hides_no_earlier_event() -> None:
    broker = TaskBroker()
    broker.subscribe("t")
    for seq in (8, 10, 9):
        broker.publish("t", [_event(seq)])
    assert broker.events_after("t", 9) == [_event(10)]
    assert broker.events_after("t", 8) is None
    broker.unsubscribe("t")


async def test_wait_ends_with_publication_or_timeout() -> None:
    broker = TaskBroker()
    broker.subscribe("t")
    news = broker.revision("t")
    broker.wake("t")
    assert await broker.wait("t", revision=news, seconds=1)
    assert not await broker.wait("t", revision=broker.revision("t"), seconds=0.01)
    async with asyncio.TaskGroup() as group:
        waits = [
            group.create_task(broker.wait("t", revision=broker.revision("t"), seconds=1))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        waits[0].cancel()
        broker.publish("t", [TaskEvent(1, StatusUpdate(status=_AT))])
    assert waits[1].result()
    broker.unsubscribe("t")
