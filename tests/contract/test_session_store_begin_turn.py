"""Contract of SessionStorePort.begin_turn, for every session store."""

import pytest
from session_store_factories import KEY, LEASE, Stores, event, state_event, store_events

from acc.domain.errors import SessionBusy, SessionConflict
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.ports.outbound.storage_ports import SessionStorePort


def message(run_id: str = "r2") -> Event:
    return event(
        0, EventKind.MESSAGE, author="user", run_id=run_id, parts=text_part("hi"), trace_id="t"
    )


async def begin(store: SessionStorePort, holder: str = "a", run_id: str = "r2") -> list[Event]:
    start = await store.begin_turn(KEY, message(run_id), holder=holder, agent="root")
    return list(start.events)


async def test_begin_turn_stores_message_and_acquires_lease(stores: Stores) -> None:
    store = stores.sessions
    await store_events(store, KEY, state_event(1, {"x": 1}))
    stores.clock.time += 1
    session, events = await store.begin_turn(KEY, message(), holder="a", agent="root")
    assert (session.seq, session.turns, session.state) == (1, 0, {"x": 1})
    assert session.status is RunStatus.COMPLETED
    (stored,) = events
    assert (stored.seq, stored.detail, stored.text) == (2, {"turn": 1}, "hi")
    assert (await store.events(KEY))[1:] == events
    after = await store.read(KEY)
    assert after is not None
    assert (after.seq, after.turns, after.run_id) == (2, 1, "r2")
    assert (after.status, after.updated_at) == (RunStatus.WORKING, stores.clock.time)
    with pytest.raises(SessionBusy):
        await begin(store, "b")
    await store.append(KEY, [event(0)], holder="a")


async def test_begin_turn_creates_session(store: SessionStorePort) -> None:
    session, events = await store.begin_turn(KEY, message(), holder="a", agent="root")
    assert (session.seq, [one.seq for one in events]) == (0, [1])


async def test_begin_turn_stores_nothing_when_session_waits_for_input(
    store: SessionStorePort,
) -> None:
    await begin(store, run_id="r1")
    paused = event(0, EventKind.ENDED, status=RunStatus.INPUT_REQUIRED)
    await store.append(KEY, [paused], holder="a", release=True)
    session, events = await store.begin_turn(KEY, message(), holder="b", agent="root")
    assert (session.status, events) == (RunStatus.INPUT_REQUIRED, ())
    assert len(await store.events(KEY)) == 2
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="c")


async def test_begin_turn_closes_interrupted_run(stores: Stores) -> None:
    store = stores.sessions
    await begin(store, "dead", "r1")
    stores.clock.time += LEASE
    ended, stored = await begin(store)
    assert (ended.kind, ended.run_id, ended.author) == (EventKind.ENDED, "r1", "root")
    assert (ended.status, ended.detail) == (RunStatus.FAILED, {"code": "interrupted"})
    assert (ended.seq, ended.trace_id) == (2, "t")
    assert (stored.seq, stored.run_id, stored.detail) == (3, "r2", {"turn": 2})
    session = await store.read(KEY)
    assert session is not None
    assert (session.run_id, session.status) == ("r2", RunStatus.WORKING)


async def test_begin_turn_that_waits_for_runs_does_not_close_interrupted_run(
    stores: Stores,
) -> None:
    store = stores.sessions
    await begin(store, "dead", "r1")
    stores.clock.time += LEASE
    with pytest.raises(SessionBusy):
        await store.begin_turn(KEY, message(), holder="a", agent="root", waits_for_runs=True)
    session = await store.read(KEY)
    assert session is not None
    assert (session.run_id, session.status) == ("r1", RunStatus.WORKING)
    await store.open(KEY, holder="r1/2")  # nobody has the lease


async def test_begin_turn_that_waits_for_runs_starts_turn_after_ended_run(
    store: SessionStorePort,
) -> None:
    await begin(store, run_id="r1")
    ended = event(0, EventKind.ENDED, status=RunStatus.COMPLETED)
    await store.append(KEY, [ended], holder="a", release=True)
    start = await store.begin_turn(KEY, message(), holder="b", agent="root", waits_for_runs=True)
    assert [one.run_id for one in start.events] == ["r2"]


async def test_open_replaces_holder_of_same_run(store: SessionStorePort) -> None:
    await begin(store, "r1/1", "r1")
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="r2/1", replaces="r2/")
    await store.open(KEY, holder="r1/2", replaces="r1/")
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(0)], holder="r1/1")
    with pytest.raises(SessionConflict):
        await store.renew(KEY, holder="r1/1")
    await store.append(KEY, [event(0)], holder="r1/2")


async def test_append_numbers_events_of_session(store: SessionStorePort) -> None:
    await begin(store)
    stored = await store.append(KEY, [event(0), event(7)], holder="a")
    stored += await store.append(KEY, [event(0)], holder="a")
    assert [one.seq for one in stored] == [2, 3, 4]
    assert [one.seq for one in await store.events(KEY)] == [1, 2, 3, 4]
