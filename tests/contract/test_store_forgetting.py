"""One suite for every store: sessions that nobody uses are deleted, and no others."""

import pytest
from stores_under_test import KEY, LEASE, Stores, event, key, put, writes

from acc.domain.errors import SessionConflict


async def test_sessions_that_nobody_has_used_since_are_deleted_with_all_that_is_theirs(
    stores: Stores,
) -> None:
    store, files = stores.sessions, stores.artifacts
    await put(store, KEY, writes(1, {"x": 1, "user:y": 2}))
    await files.save(KEY, "own.txt", b"own", "text/plain")
    await files.save(KEY, "user:shared.txt", b"shared", "text/plain")
    stores.clock.time += 10
    await put(store, key("s2"), event(1))
    asked = [KEY, key("s2"), key("nowhere")]
    assert await store.delete_unused(asked, since=stores.clock.time) == {key("s2")}
    assert await store.read(KEY) is None
    assert await store.events(KEY) == ()
    assert await files.names(KEY) == ("user:shared.txt",)
    reborn = await store.open(KEY, holder="a")
    assert (reborn.seq, dict(reborn.state)) == (0, {"user:y": 2})
    assert await store.delete_unused([], since=stores.clock.time) == frozenset()


async def test_only_the_sessions_that_are_asked_for_are_deleted(stores: Stores) -> None:
    store = stores.sessions
    others = [key("s2"), key(user_id="bob"), key(app_name="shop")]
    for where in (KEY, *others):
        await put(store, where, event(1))
    await store.delete_unused([KEY], since=stores.clock.time + 1)
    assert await store.read(KEY) is None
    for where in others:
        assert await store.read(where) is not None


async def test_a_session_that_is_held_stays_and_goes_on(stores: Stores) -> None:
    store = stores.sessions
    await store.open(KEY, holder="a")
    stores.clock.time += LEASE - 1
    assert await store.delete_unused([KEY], since=stores.clock.time) == {KEY}
    await store.append(KEY, [event(1)], holder="a", release=True)
    assert await store.delete_unused([KEY], since=stores.clock.time) == {KEY}
    assert await store.delete_unused([KEY], since=stores.clock.time + 1) == frozenset()
    assert await store.read(KEY) is None


async def test_a_holder_that_has_been_silent_for_too_long_keeps_no_session(stores: Stores) -> None:
    store = stores.sessions
    await store.open(KEY, holder="a")
    stores.clock.time += LEASE
    assert await store.delete_unused([KEY], since=stores.clock.time) == frozenset()
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(1)], holder="a")
