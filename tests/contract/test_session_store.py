"""Contract of SessionStorePort and ArtifactStorePort."""

import asyncio
from itertools import product

import msgspec
import pytest
from session_store_factories import (
    KEY,
    LEASE,
    Stores,
    event,
    key,
    read_state,
    state_event,
    store_events,
)

from acc.domain.errors import InvalidInput, SessionBusy, SessionConflict
from acc.domain.value_objects.approval import InputRequest, RequestKind, approve
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage, text_part
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import StoredArtifact
from acc.ports.outbound.storage_ports import ArtifactStorePort, SessionStorePort


@pytest.fixture
def artifacts(stores: Stores) -> ArtifactStorePort:
    return stores.artifacts


# Leases


async def test_open_creates_an_unknown_session(stores: Stores) -> None:
    session = await stores.sessions.open(KEY, holder="a")
    assert session.key == KEY
    assert (session.state, session.seq, session.turns, session.run_id) == ({}, 0, 0, "")
    assert session.status is RunStatus.COMPLETED
    assert session.updated_at == stores.clock.time


async def test_leased_session_is_busy_for_other_holders(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    with pytest.raises(SessionBusy, match="s1.*leased by another run"):
        await store.open(KEY, holder="b")
    await store.append(KEY, [event(1)], holder="a")


async def test_holder_can_open_its_session_again(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="a")
    assert (await store.open(KEY, holder="a")).seq == 1


async def test_append_with_release_releases_the_session(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="a", release=True)
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(2)], holder="a")
    assert (await store.open(KEY, holder="b")).seq == 1


async def test_released_session_can_be_opened_by_another_holder(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.release(KEY, holder="a")
    assert (await store.open(KEY, holder="b")).key == KEY


async def test_release_without_a_lease_has_no_effect(store: SessionStorePort) -> None:
    await store.release(KEY, holder="a")
    assert await store.read(KEY) is None
    await store.open(KEY, holder="a")
    await store.release(KEY, holder="b")
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="b")
    await store.release(KEY, holder="a")
    await store.release(KEY, holder="a")


async def test_expired_lease_can_be_taken_over(stores: Stores) -> None:
    store, clock = stores.sessions, stores.clock
    await store.open(KEY, holder="a")
    clock.time += LEASE - 0.001
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="b")
    clock.time += 0.001
    await store.open(KEY, holder="b")
    with pytest.raises(SessionConflict, match="not leased by a"):
        await store.append(KEY, [event(1)], holder="a")
    with pytest.raises(SessionConflict, match="not leased by a"):
        await store.renew(KEY, holder="a")
    await store.release(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="b")


async def test_holder_with_expired_lease_can_append_if_not_replaced(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    stores.clock.time += 10 * LEASE
    await stores.sessions.append(KEY, [event(1)], holder="a")
    with pytest.raises(SessionBusy):
        await stores.sessions.open(KEY, holder="b")


@pytest.mark.parametrize("renewal", ["append", "append nothing", "renew", "open"])
async def test_every_write_of_the_holder_renews_the_lease(stores: Stores, renewal: str) -> None:
    store, clock = stores.sessions, stores.clock
    await store.open(KEY, holder="a")
    clock.time += LEASE - 1
    match renewal:
        case "append":
            await store.append(KEY, [event(1)], holder="a")
        case "append nothing":
            await store.append(KEY, [], holder="a")
        case "renew":
            await store.renew(KEY, holder="a")
        case _:
            await store.open(KEY, holder="a")
    clock.time += LEASE - 1
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="b")


@pytest.mark.parametrize("holder", ["b", ""])
async def test_append_and_renew_fail_without_a_lease(store: SessionStorePort, holder: str) -> None:
    for _ in range(2):
        with pytest.raises(SessionConflict):
            await store.append(KEY, [event(1)], holder=holder)
        with pytest.raises(SessionConflict):
            await store.append(KEY, [], holder=holder)
        with pytest.raises(SessionConflict):
            await store.renew(KEY, holder=holder)
        await store_events(store, KEY)
    assert await store.events(KEY) == ()


async def test_sessions_are_leased_independently(store: SessionStorePort) -> None:
    for other in (key(), key("s2"), key(user_id="bo"), key(app_name="shop")):
        await store.open(other, holder=f"run of {other}")


# Appending


FULL_EVENT = Event(
    kind=EventKind.MESSAGE,
    run_id="r1",
    author="helper",
    seq=1,
    step="0.1",
    branch="left",
    parts=(
        Part(text="日本語 \x00 \U0001f600", media_type="text/plain", metadata={"a": [1, None]}),
        Part(raw=bytes(range(256)), filename="b.bin"),
        Part(data={"big": 2**80, "small": -1e-300, "deep": [[{}]]}),
        Part(data=False),
        Part(url="https://example.org/x"),
        Part(call=ToolCall(id="c1", name="look", arguments={"q": "x"}, fault="cut off")),
        Part(result=ToolResult(call_id="c1", name="look", content={"n": [1]}, is_error=True)),
    ),
    actions=EventActions(
        state_delta={"k": "v"},
        state_removed=("gone",),
        branch_delta={"b": 1},
        branch_removed=("c",),
        transfer_to_agent="other",
        escalate=True,
    ),
    usage=Usage(llm_calls=1, input_tokens=2, output_tokens=3, memory_tokens=4),
    request=InputRequest(
        id="q1",
        kind=RequestKind.CONFIRMATION,
        agent="helper",
        message="sure?",
        tool="delete",
        arguments={"n": 1},
        schema={"type": "object"},
        expires_at=12.5,
    ),
    answer=approve("q1", arguments={"n": 2}, value=["x"], by="ann"),
    status=RunStatus.WORKING,
    detail={"why": {"because": [True]}},
    at=1234.5678,
    request_id="req",
    trace_id="trace",
    caller="someone",
)


async def test_events_round_trip(store: SessionStorePort) -> None:
    await store_events(store, KEY, FULL_EVENT, event(2))
    assert await store.events(KEY) == (FULL_EVENT, event(2))


@pytest.mark.parametrize("part", [Part(text="\ud800"), Part(data={"a": "\ud800"})])
async def test_append_fails_for_unpaired_surrogates_and_stores_nothing(
    store: SessionStorePort, part: Part
) -> None:
    await store.open(KEY, holder="a")
    with pytest.raises(InvalidInput, match="event of 'helper' cannot be stored"):
        await store.append(KEY, [event(1), event(2, EventKind.MESSAGE, parts=(part,))], holder="a")
    assert await store.events(KEY) == ()


async def test_appended_events_are_readable_immediately(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    for seq in range(1, 6):
        await store.append(KEY, [event(seq)], holder="a")
        assert (await store.events(KEY))[-1] == event(seq)


async def test_events_are_stored_when_the_caller_is_cancelled(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(store.append(KEY, [state_event(1, {"x": 1})], holder="a"))
        await asyncio.sleep(0)
        task.cancel()
    assert await store.events(KEY) == (state_event(1, {"x": 1}),)
    assert await read_state(store, KEY) == {"x": 1}


async def test_concurrent_appends_are_stored_in_call_order(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    async with asyncio.TaskGroup() as group:
        for seq in range(1, 51):
            group.create_task(store.append(KEY, [event(seq)], holder="a"))
    assert [e.seq for e in await store.events(KEY)] == list(range(1, 51))


async def test_user_message_starts_a_run_and_counts_a_turn(stores: Stores) -> None:
    store = stores.sessions
    await store.open(KEY, holder="a")
    stores.clock.time += 5
    question = event(1, EventKind.MESSAGE, author="user", run_id="r7", parts=text_part("hi"))
    await store.append(KEY, [question], holder="a")
    answer = event(2, EventKind.MESSAGE, run_id="other", parts=text_part("hello"))
    await store.append(KEY, [answer, event(3, author="user", run_id="other")], holder="a")
    session = await store.read(KEY)
    assert session is not None
    assert (session.turns, session.run_id, session.seq) == (1, "r7", 3)
    assert session.status is RunStatus.WORKING
    assert session.updated_at == stores.clock.time


async def test_every_user_message_in_one_append_counts_a_turn(store: SessionStorePort) -> None:
    turns = [
        event(seq, EventKind.MESSAGE, author="user", run_id=f"r{seq}", parts=text_part("x"))
        for seq in (1, 2, 3)
    ]
    await store_events(store, KEY, *turns)
    session = await store.read(KEY)
    assert session is not None
    assert (session.turns, session.run_id) == (3, "r3")


@pytest.mark.parametrize("status", [s for s in RunStatus if s is not RunStatus.WORKING])
async def test_ended_event_sets_the_status(store: SessionStorePort, status: RunStatus) -> None:
    question = event(1, EventKind.MESSAGE, author="user", parts=text_part("hi"))
    await store_events(store, KEY, question, event(2, EventKind.ENDED, status=status))
    session = await store.open(KEY, holder="a")
    assert session.status is status
    again = event(3, EventKind.MESSAGE, author="user", parts=text_part("hi"))
    await store.append(KEY, [again, event(4, status=RunStatus.REJECTED)], holder="a")
    session = await store.open(KEY, holder="a")
    assert session.status is RunStatus.WORKING


# State


async def test_prefix_of_a_key_selects_its_scope(store: SessionStorePort) -> None:
    await store_events(
        store,
        KEY,
        state_event(1, {"mine": 1, "user:all": 2, "app:everyone": 3, "temp:now": 4, "odd:one": 5}),
    )
    for other in (key("s2"), key(user_id="bo"), key(app_name="shop"), key(user_id="desk")):
        await store_events(store, other)
    assert await read_state(store, KEY) == {
        "mine": 1,
        "user:all": 2,
        "app:everyone": 3,
        "odd:one": 5,
    }
    assert await read_state(store, key("s2")) == {"user:all": 2, "app:everyone": 3}
    assert await read_state(store, key(user_id="bo")) == {"app:everyone": 3}
    assert await read_state(store, key(app_name="shop")) == {}


async def test_open_session_shows_user_state_written_by_other_sessions(
    store: SessionStorePort,
) -> None:
    await store.open(KEY, holder="a")
    await store_events(store, key("s2"), state_event(1, {"user:x": 1, "x": 2}))
    assert await read_state(store, KEY) == {"user:x": 1}
    assert (await store.open(KEY, holder="a")).state == {"user:x": 1}


async def test_users_with_the_same_session_id_are_isolated(store: SessionStorePort) -> None:
    await store_events(store, key(user_id="ann"), state_event(1, {"x": "ann", "user:x": "ann"}))
    await store_events(
        store, key(user_id="bo"), state_event(1, {"x": "bo", "user:x": "bo"}), event(2)
    )
    assert await read_state(store, key(user_id="ann")) == {"x": "ann", "user:x": "ann"}
    assert await read_state(store, key(user_id="bo")) == {"x": "bo", "user:x": "bo"}
    assert [e.seq for e in await store.events(key(user_id="ann"))] == [1]
    await store.delete(key(user_id="bo"))
    assert await read_state(store, key(user_id="ann")) == {"x": "ann", "user:x": "ann"}


async def test_removed_keys_are_not_in_the_state(store: SessionStorePort) -> None:
    await store_events(store, KEY, state_event(1, {"a": 1, "b": 2, "user:c": 3, "app:d": 4}))
    await store.open(KEY, holder="x")
    removal = state_event(2, {"b": 5}, "a", "user:c", "app:d", "never-there", "temp:t")
    await store.append(KEY, [removal], holder="x")
    assert await read_state(store, KEY) == {"b": 5}
    await store.append(KEY, [state_event(3, {"a": 6}), state_event(4, {}, "b")], holder="x")
    assert await read_state(store, KEY) == {"a": 6}


async def test_branch_state_is_not_in_the_session_state(store: SessionStorePort) -> None:
    branch_actions = EventActions(branch_delta={"x": 2, "y": 1}, branch_removed=("z",))
    await store_events(
        store, KEY, state_event(1, {"x": 1, "z": 1}), event(2, actions=branch_actions)
    )
    assert await read_state(store, KEY) == {"x": 1, "z": 1}


async def test_state_keys_are_in_scope_and_write_order(store: SessionStorePort) -> None:
    await store_events(
        store,
        KEY,
        state_event(1, {"b": 1, "a": 2, "user:z": 3, "app:y": 4, "c": 5}),
        state_event(2, {"b": 6}, "a"),
        state_event(3, {"a": 7}),
    )
    assert list(await read_state(store, KEY)) == ["app:y", "user:z", "b", "c", "a"]


async def test_changes_to_a_returned_state_are_not_stored(
    store: SessionStorePort,
) -> None:
    await store_events(store, KEY, state_event(1, {"x": 1, "user:x": 2, "app:x": 3}))
    for session in (await store.open(KEY, holder="a"), await store.read(KEY)):
        assert session is not None
        assert isinstance(session.state, dict)
        session.state.clear()
    assert await read_state(store, KEY) == {"x": 1, "user:x": 2, "app:x": 3}


# Reading


async def test_read_requires_no_lease(store: SessionStorePort) -> None:
    assert await store.read(KEY) is None
    opened = await store.open(KEY, holder="a")
    assert await store.read(KEY) == opened
    await store.append(KEY, [event(1)], holder="a")
    await store.release(KEY, holder="a")
    assert (await store.read(KEY)) == msgspec.structs.replace(opened, seq=1)
    await store.open(KEY, holder="b")


async def test_unknown_session_has_no_events(store: SessionStorePort) -> None:
    assert await store.events(KEY) == ()
    assert await store.events(KEY, run_id="r1", kinds={EventKind.MESSAGE}) == ()
    assert await store.newest(KEY, kind=EventKind.MESSAGE, author="x") is None


KINDS = (EventKind.MESSAGE, EventKind.STATE, EventKind.ENDED)
EVENTS = tuple(
    event(n, KINDS[n % 3], run_id=f"r{n // 7}", author=f"a{n % 2}", parts=text_part(f"e{n}"))
    for n in range(1, 31)
)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("before", [None, -1, 1, 12, 31, 99])
async def test_events_are_ordered_and_filtered(
    filled_store: SessionStorePort, before: int | None, newest_first: bool
) -> None:
    for after, limit, kinds, run_id in product(
        (-1, 0, 1, 13, 30, 31),
        (None, 0, 1, 5, 100),
        (None, (), KINDS[:1], frozenset(KINDS[1:]), [EventKind.FAULT]),
        ("", "r0", "r2", "r4", "nobody"),
    ):
        expected = [
            e
            for e in (EVENTS[::-1] if newest_first else EVENTS)
            if e.seq > after
            and (before is None or e.seq < before)
            and (kinds is None or e.kind in kinds)
            and (not run_id or e.run_id == run_id)
        ]
        result = await filled_store.events(
            KEY,
            after=after,
            before=before,
            limit=limit,
            kinds=kinds,
            run_id=run_id,
            newest_first=newest_first,
        )
        assert result == tuple(expected[:limit])


@pytest.fixture
async def filled_store(store: SessionStorePort) -> SessionStorePort:
    await store_events(store, KEY, *EVENTS)
    await store_events(store, key("s2"), *EVENTS[:3])
    return store


async def test_newest_returns_the_last_event_of_a_kind_and_author(
    filled_store: SessionStorePort,
) -> None:
    for kind in (*KINDS, EventKind.FAULT):
        for author in ("a0", "a1", "nobody"):
            matching = [e for e in EVENTS if e.kind is kind and e.author == author]
            expected = matching[-1] if matching else None
            assert await filled_store.newest(KEY, kind=kind, author=author) == expected


async def test_sessions_of_a_user_are_sorted_by_last_use_and_have_no_state(stores: Stores) -> None:
    store = stores.sessions
    for name in ("one", "two", "three"):
        await store_events(store, key(name), state_event(1, {"x": name, "user:y": name}))
        stores.clock.time += 1
    await store_events(
        store, key("one"), event(2, EventKind.MESSAGE, author="user", parts=text_part("x"))
    )
    await store_events(store, key("four", user_id="bo"))
    await store_events(store, key("five", app_name="shop"))
    result = await store.sessions("desk", "ann")
    assert [s.key.session_id for s in result] == ["one", "three", "two"]
    assert [dict(s.state) for s in result] == [{}, {}, {}]
    assert [(s.seq, s.turns, s.status) for s in result[:2]] == [
        (2, 1, RunStatus.WORKING),
        (1, 0, RunStatus.COMPLETED),
    ]
    assert await store.sessions("desk", "nobody") == ()


async def test_sessions_with_equal_time_are_sorted_newest_first(
    store: SessionStorePort,
) -> None:
    for name in ("one", "two", "three"):
        await store_events(store, key(name))
    result = await store.sessions("desk", "ann")
    assert [s.key.session_id for s in result] == ["three", "two", "one"]


# Deleting


async def test_delete_removes_the_session_but_not_user_and_app_state(
    stores: Stores,
) -> None:
    store, artifact_store = stores.sessions, stores.artifacts
    await store_events(store, KEY, state_event(1, {"x": 1, "user:y": 2, "app:z": 3}))
    await store_events(store, key("s2"), state_event(1, {"x": 4}))
    for session_key in (KEY, key("s2")):
        await artifact_store.save(session_key, "own.txt", b"own", "text/plain")
        await artifact_store.save(session_key, "user:shared.txt", b"shared", "text/plain")
    await store.delete(KEY)
    assert await store.read(KEY) is None
    assert await store.events(KEY) == ()
    assert await store.newest(KEY, kind=EventKind.STATE, author="helper") is None
    assert [s.key.session_id for s in await store.sessions("desk", "ann")] == ["s2"]
    assert await artifact_store.names(KEY) == ("user:shared.txt",)
    assert await artifact_store.load(KEY, "own.txt") is None
    assert await artifact_store.names(key("s2")) == ("own.txt", "user:shared.txt")
    assert await read_state(store, key("s2")) == {"x": 4, "user:y": 2, "app:z": 3}
    recreated = await store.open(KEY, holder="a")
    assert (recreated.seq, dict(recreated.state)) == (0, {"user:y": 2, "app:z": 3})


async def test_delete_ends_the_lease(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.delete(KEY)
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(1)], holder="a")
    await store.delete(KEY)
    assert await store.read(KEY) is None


async def test_aclose_can_be_called_twice(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.aclose()
    await store.aclose()


# Artifacts


async def test_artifact_versions_start_at_1(artifacts: ArtifactStorePort) -> None:
    assert await artifacts.save(KEY, "a.txt", b"one", "text/plain") == 1
    assert await artifacts.save(KEY, "a.txt", b"two", "text/markdown") == 2
    assert await artifacts.save(KEY, "b.bin", bytes(range(256)), "") == 1
    assert await artifacts.versions(KEY, "a.txt") == (1, 2)
    assert await artifacts.versions(KEY, "c.txt") == ()
    newest = StoredArtifact(name="a.txt", version=2, media_type="text/markdown", data=b"two")
    assert await artifacts.load(KEY, "a.txt") == newest
    first = await artifacts.load(KEY, "a.txt", 1)
    assert first is not None
    assert (first.version, first.text, first.media_type) == (1, "one", "text/plain")
    binary = await artifacts.load(KEY, "b.bin")
    assert binary is not None
    assert binary.data == bytes(range(256))


@pytest.mark.parametrize("version", [-1, 0, 3])
async def test_load_returns_none_for_an_unknown_version(
    artifacts: ArtifactStorePort, version: int
) -> None:
    assert await artifacts.load(KEY, "a.txt") is None
    await artifacts.save(KEY, "a.txt", b"", "text/plain")
    await artifacts.save(KEY, "a.txt", b"", "text/plain")
    assert await artifacts.load(KEY, "a.txt", version) is None


async def test_artifact_names_are_sorted_and_shared_only_within_a_user(
    artifacts: ArtifactStorePort,
) -> None:
    assert await artifacts.names(KEY) == ()
    for name in ("zeta", "user:b", "alpha", "Ümlaut", "user:b"):
        await artifacts.save(KEY, name, b"x", "text/plain")
    await artifacts.save(key("s2"), "user:a", b"y", "text/plain")
    assert await artifacts.names(KEY) == ("alpha", "user:a", "user:b", "zeta", "Ümlaut")
    assert await artifacts.names(key("s2")) == ("user:a", "user:b")
    assert await artifacts.versions(key("s2"), "user:b") == (1, 2)
    assert await artifacts.names(key(user_id="bo")) == ()
    assert await artifacts.names(key(app_name="shop")) == ()
    assert await artifacts.load(key("s2"), "zeta") is None
    assert await artifacts.load(key(user_id="bo"), "user:b") is None
