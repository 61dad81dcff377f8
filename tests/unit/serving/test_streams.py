"""Streams: the task first, then each event once and in order, for as many as listen."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import permutations

import pytest
from serving_world import (
    ANN,
    BOB,
    Doer,
    S,
    World,
    cancel,
    check_nobody_follows,
    read,
    said,
    send,
    settled,
    start,
    subscribe,
    told,
    until,
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


async def test_a_stream_shows_the_task_then_each_event_once(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        items = await read(await serve.stream(ANN, said("count 5")))
        assert told(items) == [
            "task submitted",
            "working",
            *[f"numbers {n}" for n in range(5)],
            "answer counted to 5",
            "completed",
        ]
        assert numbered(items) == list(range(1, 10))


async def test_a_stream_of_more_than_is_kept_loses_nothing(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        stream = await serve.stream(ANN, said("count 300"))
        async with aclosing(stream.items()) as items:
            first = await anext(items)
            await settled(serve, Task(id=stream.task_id, context_id="", status=_AT), S.COMPLETED)
            rest = [item async for item in items]
        stream.close()
        assert numbered([first, *rest]) == list(range(1, 305))


async def test_several_follow_one_task_each_at_their_own_pace(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await start(serve, "wait first")
        await settled(serve, task, S.WORKING)
        streams = [await subscribe(serve, task) for _ in range(3)]
        idle = await subscribe(serve, task)
        doer.gate.set()
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(read(stream)) for stream in streams]
        idle.close()
        idle.close()
        for reader in readers:
            items = await reader
            assert told(items)[0] == "task working"
            assert told(items)[-2:] == ["answer waited", "completed"]
            numbers = numbered(items)
            assert numbers == list(range(numbers[0], 6))


@pytest.mark.parametrize("after", range(10))
async def test_who_comes_back_gets_exactly_the_rest(worlds: World, doer: Doer, after: int) -> None:
    async with worlds.open(doer) as serve:
        request = said("count 5", id="m1")
        whole = await read(await serve.stream(ANN, request))
        task = Task(id=(await send(serve, "count 5", id="m1")).id, context_id="", status=_AT)
        if after < 9:
            rest = await read(await subscribe(serve, task, after))
            expected = [item for item in whole if item.seq > after]
            assert [item.seq for item in rest] == [item.seq for item in expected] or after == 0
            assert rest[-len(expected) or None :][-8:] == expected[-8:]
            again = await read(await serve.stream(ANN, request, after=after))
            assert again == rest
        else:
            with pytest.raises(UnsupportedOperation, match="nothing to subscribe to"):
                await subscribe(serve, task, after)
            (shown,) = await read(await serve.stream(ANN, request, after=after))
            assert isinstance(shown.item, Task)
        assert doer.log == ["count 5"]


async def test_who_comes_back_in_the_middle_sees_no_task_again(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        request = said("wait first", id="m1")
        early = await read(await serve.stream(ANN, request), most=3)
        assert told(early) == ["task submitted", "working", "working first"]
        later = await serve.stream(ANN, request, after=3)
        again = await serve.subscribe(ANN, TaskRequest(id=later.task_id), after=3)
        doer.gate.set()
        assert told(await read(later)) == ["answer waited", "completed"]
        assert told(await read(again)) == ["answer waited", "completed"]


async def test_who_tells_of_an_event_to_come_is_shown_the_task_and_loses_nothing(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        request = said("wait first", id="m1")
        early = await read(await serve.stream(ANN, request), most=3)
        again = await serve.stream(ANN, request, after=4)
        beyond = await serve.subscribe(ANN, TaskRequest(id=again.task_id), after=999)
        doer.gate.set()
        for stream in (again, beyond):
            items = await read(stream)
            assert told(items) == ["task working", "answer waited", "completed"]
            assert items[0].seq == early[-1].seq == 3


async def test_who_missed_a_question_and_its_answer_is_told_both(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        items = await read(await serve.stream(ANN, said("ask", id="m1")))
        assert told(items)[-1] == "input-required What shall it be?"
        task = await send(serve, "tea", task=(items[0].item.id))  # type: ignore[union-attr]
        missed = await read(await subscribe(serve, task, 1))
        assert told(missed) == [
            "working",
            "input-required What shall it be?",
            "working",
            "answer answer: 'tea' by ann (approve)",
            "completed",
        ]


async def test_a_stream_of_an_answer_goes_on_to_the_end(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        task = await send(serve, "ask")
        waiting = await subscribe(serve, task)
        items = await read(await serve.stream(ANN, said("tea", task=task)))
        assert told(items)[0] == "task working"
        assert told(items)[-1] == "completed"
        assert told(await read(waiting))[0] == "task input-required"


async def test_a_task_that_waits_already_ends_its_stream_at_once(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        await send(serve, "ask", id="m1")
        assert told(await read(await serve.stream(ANN, said("ask", id="m1")))) == [
            "task input-required"
        ]


async def test_a_reader_that_leaves_stops_nothing(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve:
        stream = await serve.stream(ANN, said("wait"))
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(read(stream))
            await until(lambda: doer.log == ["wait"])
            reader.cancel()
        check_nobody_follows(serve)
        doer.gate.set()
        await settled(serve, Task(id=stream.task_id, context_id="", status=_AT), S.COMPLETED)


async def test_a_stream_whose_client_has_left_ends_where_it_is(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve, asyncio.TaskGroup() as group:
        stream = await serve.stream(ANN, said("wait"))
        reader = group.create_task(read(stream))
        await until(lambda: doer.log == ["wait"])
        stream.stop()
        assert told(await reader)[0] == "task submitted"
        doer.gate.set()


async def test_an_idle_stream_shows_that_it_is_alive(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, heartbeat=0.3) as serve:
        stream = await serve.stream(ANN, said("wait"))
        items = await read(stream, most=4)
        assert told(items) == ["task submitted", "working", "alive", "alive"]
        assert items[-1].seq == 2
        doer.gate.set()


async def test_streams_tell_how_a_task_ends_within_the_grace_of_a_server_that_stops(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer, grace=5.0) as serve, asyncio.TaskGroup() as group:
        stream = await serve.stream(ANN, said("wait"))
        reader = group.create_task(read(stream))
        await until(lambda: doer.log == ["wait"])
        group.create_task(serve.stop())
        late = await subscribe(serve, Task(id=stream.task_id, context_id="", status=_AT))
        await asyncio.sleep(0.05)
        assert not reader.done()
        doer.gate.set()
        assert told(await reader) == ["task submitted", "working", "answer waited", "completed"]
        assert told(await read(late)) == ["task working", "answer waited", "completed"]


async def test_streams_tell_of_a_task_that_a_server_stops(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer) as serve, asyncio.TaskGroup() as group:
        reader = group.create_task(read(await serve.stream(ANN, said("wait"))))
        await until(lambda: doer.log == ["wait"])
        group.create_task(serve.stop())
        begun, working, stopped = told(await reader)
        assert (begun, working) == ("task submitted", "working")
        assert stopped.startswith("failed the server was stopped before")


async def test_streams_end_when_the_server_stops_whatever_they_follow(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer, grace=5.0) as serve, asyncio.TaskGroup() as group:
        waiting = await send(serve, "ask")
        reader = group.create_task(read(await subscribe(serve, waiting)))
        await asyncio.sleep(0.05)
        async with asyncio.timeout(2):
            await serve.stop()
            assert told(await reader) == ["task input-required"]


async def test_a_slow_reader_is_told_all_that_happened_before_the_end(
    worlds: World, doer: Doer
) -> None:
    async with worlds.open(doer) as serve:
        stream = await serve.stream(ANN, said("count 300"))
        await settled(serve, Task(id=stream.task_id, context_id="", status=_AT), S.COMPLETED)
        await serve.stop()
        assert told(await read(stream))[-2:] == ["answer counted to 300", "completed"]


async def test_one_caller_has_only_so_many_streams(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, streams=2) as serve:
        opened = []

        async def try_to() -> None:
            try:
                opened.append(await serve.stream(ANN, said("wait")))
            except LimitExceeded as error:
                assert "2 open streams" in str(error)

        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(try_to())
        assert len(opened) == 2
        with pytest.raises(LimitExceeded):
            await subscribe(serve, Task(id=opened[0].task_id, context_id="", status=_AT))
        (await serve.stream(BOB, said("wait"))).close()
        opened.pop().close()
        opened.append(await serve.stream(ANN, said("wait")))
        for stream in opened:
            stream.close()
        doer.gate.set()


async def test_a_refused_message_takes_no_place(worlds: World, doer: Doer) -> None:
    async with worlds.open(doer, streams=1, tasks=1) as serve:
        task = await start(serve, "wait")
        for _ in range(3):
            with pytest.raises(LimitExceeded, match="tasks per caller"):
                await serve.stream(ANN, said("hello"))
        await cancel(serve, task)
        await read(await serve.stream(ANN, said("hello")))


async def test_a_stream_cut_off_while_it_is_refused_is_closed(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        group, append = serve._execution._group, world.tasks.append

        async def stuck(*_: object) -> None:
            await asyncio.sleep(60)

        serve._execution._group = None
        world.tasks.append = stuck  # type: ignore[method-assign,assignment]
        type(serve._execution).is_open, is_open = True, type(serve._execution).is_open  # type: ignore[method-assign,assignment]
        try:
            async with asyncio.TaskGroup() as tasks:
                sender = tasks.create_task(serve.stream(ANN, said("hello")))
                await asyncio.sleep(0.01)
                sender.cancel()
        finally:
            type(serve._execution).is_open = is_open  # type: ignore[method-assign]
            world.tasks.append = append  # type: ignore[method-assign]
            serve._execution._group = group


_AT = TaskStatus(state=S.SUBMITTED)


def _event(seq: int) -> TaskEvent:
    return TaskEvent(seq, ArtifactUpdate(artifact=TaskArtifact(artifact_id=str(seq), parts=())))


async def test_what_others_stored_is_read_from_the_store() -> None:
    hub = TaskBroker()
    hub.notice("t", 5)
    hub.wake("t")
    hub.tell("t", [_event(5)])
    hub.follow("t")
    assert hub.newer("t", 4) is None
    hub.tell("t", [_event(5)])
    assert hub.newer("t", 4) == [_event(5)]
    assert hub.newer("t", 3) is None
    news = hub.news("t")
    hub.notice("t", 5)
    assert hub.news("t") == news  # we knew, so nobody has to look
    hub.notice("t", 6)
    assert hub.news("t") > news
    assert hub.newer("t", 5) is None
    hub.tell("t", [_event(7)])
    assert hub.newer("t", 5) is None
    hub.tell("t", [_event(6)])  # told late, and others behind it must not be passed over
    assert hub.newer("t", 5) is None
    hub.leave("t")


@pytest.mark.parametrize("order", list(permutations([8, 9, 10, 11])))
@pytest.mark.parametrize("noticed", [0, 8, 10, 11])
async def test_in_whatever_order_events_are_told_none_is_passed_over(
    order: tuple[int, ...], noticed: int
) -> None:
    hub = TaskBroker()
    hub.follow("t")
    told: list[int] = []
    for seq in order:
        told.append(seq)
        hub.tell("t", [_event(seq)])
        hub.notice("t", min(noticed, max(told)))
        for after in range(7, max(told)):
            newer = hub.newer("t", after)
            wanted = [_event(number) for number in range(after + 1, max(told) + 1)]
            assert newer is None or newer == wanted
    hub.leave("t")


async def test_an_event_that_is_told_late_hides_none_behind_it() -> None:
    hub = TaskBroker()
    hub.follow("t")
    for seq in (8, 10, 9):
        hub.tell("t", [_event(seq)])
    assert hub.newer("t", 9) == [_event(10)]
    assert hub.newer("t", 8) is None
    hub.leave("t")


async def test_waiting_for_news_ends_with_news_or_time() -> None:
    hub = TaskBroker()
    hub.follow("t")
    news = hub.news("t")
    hub.wake("t")
    assert await hub.wait("t", since=news, seconds=1)
    assert not await hub.wait("t", since=hub.news("t"), seconds=0.01)
    async with asyncio.TaskGroup() as group:
        waits = [group.create_task(hub.wait("t", since=hub.news("t"), seconds=1)) for _ in range(2)]
        await asyncio.sleep(0)
        waits[0].cancel()
        hub.tell("t", [TaskEvent(1, StatusUpdate(status=_AT))])
    assert waits[1].result()
    hub.leave("t")
