"""Contract of SessionStorePort.delete_unused."""

import pytest
from session_store_factories import KEY, LEASE, Stores, event, key, state_event, store_events

from acc.domain.errors import SessionConflict


async def test_unused_sessions_are_deleted_with_state_events_and_artifacts(
    stores: Stores,
) -> None:
    store, artifacts = stores.sessions, stores.artifacts
    await store_events(store, KEY, state_event(1, {"x": 1, "user:y": 2}))
    await artifacts.save(KEY, "own.txt", b"own", "text/plain")
    await artifacts.save(KEY, "user:shared.txt", b"shared", "text/plain")
    stores.clock.time += 10
    await store_events(store, key("s2"), event(1))
    keys = [KEY, key("s2"), key("nowhere")]
    assert await store.delete_unused(keys, since=stores.clock.time) == {key("s2")}
    assert await store.read(KEY) is None
    assert await store.events(KEY) == ()
    assert await artifacts.names(KEY) == ("user:shared.txt",)
    recreated = await store.open(KEY, holder="a")
    assert (recreated.seq, dict(recreated.state)) == (0, {"user:y": 2})
    assert await store.delete_unused([], since=stores.clock.time) == frozenset()


async def test_only_the_given_sessions_are_deleted(stores: Stores) -> None:
    store = stores.sessions
    others = [key("s2"), key(user_id="bob"), key(app_name="shop")]
    for session_key in (KEY, *others):
        await store_events(store, session_key, event(1))
    await store.delete_unused([KEY], since=stores.clock.time + 1)
    assert await store.read(KEY) is None
    for session_key in others:
        assert await store.read(session_key) is not None


async def test_leased_session_is_not_deleted(stores: Stores) -> None:
    store = stores.sessions
    await store.open(KEY, holder="a")
    stores.clock.time += LEASE - 1
    assert await store.delete_unused([KEY], since=stores.clock.time) == {KEY}
    await store.append(KEY, [event(1)], holder="a", release=True)
    assert await store.delete_unused([KEY], since=stores.clock.time) == {KEY}
    assert await store.delete_unused([KEY], since=stores.clock.time + 1) == frozenset()
    assert await store.read(KEY) is None


async def test_session_with_expired_lease_is_deleted(stores: Stores) -> None:
    store = stores.sessions
    await store.open(KEY, holder="a")
    stores.clock.time += LEASE
    assert await store.delete_unused([KEY], since=stores.clock.time) == frozenset()
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(1)], holder="a")
