"""One suite for every store of sessions: how a run begins, and what goes along with its events."""

import pytest
from stores_under_test import KEY, Stores, event, put, writes

from acc.domain.errors import SessionBusy, SessionConflict
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.run import RunStatus
from acc.ports.outbound.storage_ports import SessionStorePort


class Note:
    """Something that goes along with events, and notes how many were stored when it was."""

    def __init__(self, store: SessionStorePort) -> None:
        self._store = store
        self.stored: list[int] = []

    async def store(self) -> None:
        self.stored.append(len(await self._store.events(KEY)))


async def test_a_session_is_opened_with_the_events_that_a_run_begins_with(stores: Stores) -> None:
    store, note = stores.sessions, Note(stores.sessions)
    await put(store, KEY, writes(1, {"x": 1}))
    stores.clock.time += 1
    said = event(2, EventKind.MESSAGE, author="user", run_id="r2")
    before, events = await store.begin(KEY, lambda _: [said], holder="a", along=note)
    assert (before.seq, before.turns, before.state, before.status) == (
        1,
        0,
        {"x": 1},
        RunStatus.COMPLETED,
    )
    assert events == (said,)
    after = await store.read(KEY)
    assert after is not None
    assert (after.seq, after.turns, after.run_id, after.status, after.updated_at) == (
        2,
        1,
        "r2",
        RunStatus.WORKING,
        stores.clock.time,
    )
    assert (await store.events(KEY))[1:] == (said,)
    assert note.stored == [2]
    with pytest.raises(SessionBusy):
        await store.begin(KEY, lambda _: [event(3)], holder="b", along=note)
    await store.append(KEY, [event(3)], holder="a")
    assert note.stored == [2]


async def test_a_session_may_be_begun_with_nothing(store: SessionStorePort) -> None:
    note = Note(store)
    session, events = await store.begin(KEY, lambda _: (), holder="a", along=note)
    assert (session.seq, events, note.stored) == (0, (), [])
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="b")


async def test_a_run_that_begins_with_a_gap_begins_nothing(store: SessionStorePort) -> None:
    note = Note(store)
    with pytest.raises(SessionConflict, match="ends with event 0"):
        await store.begin(KEY, lambda _: [event(2)], holder="a", along=note)
    assert (await store.events(KEY), note.stored) == ((), [])


async def test_what_goes_along_is_stored_after_events_and_not_without_them(
    store: SessionStorePort,
) -> None:
    note = Note(store)
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1), event(2)], holder="a", along=note)
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(4)], holder="a", along=note)
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(3)], holder="b", along=note)
    assert note.stored == [2]
