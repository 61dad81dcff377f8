"""One suite for every store of sessions and artifacts."""

import asyncio
from itertools import product

import msgspec
import pytest
from stores_under_test import KEY, LEASE, Stores, event, key, put, state_of, writes

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


# Holding a session


async def test_a_session_is_made_when_it_is_opened_first(stores: Stores) -> None:
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


async def test_a_holder_may_open_its_session_again(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="a")
    assert (await store.open(KEY, holder="a")).seq == 1


async def test_a_session_can_be_let_go_of_with_its_last_event(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="a", release=True)
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(2)], holder="a")
    assert (await store.open(KEY, holder="b")).seq == 1


async def test_a_released_session_can_be_opened_by_another(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.release(KEY, holder="a")
    assert (await store.open(KEY, holder="b")).key == KEY


async def test_releasing_what_one_does_not_hold_is_harmless(store: SessionStorePort) -> None:
    await store.release(KEY, holder="a")
    assert await store.read(KEY) is None
    await store.open(KEY, holder="a")
    await store.release(KEY, holder="b")
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="b")
    await store.release(KEY, holder="a")
    await store.release(KEY, holder="a")


async def test_a_holder_silent_for_longer_than_its_lease_is_put_out(stores: Stores) -> None:
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


async def test_a_silent_holder_whom_nobody_put_out_goes_on(stores: Stores) -> None:
    await stores.sessions.open(KEY, holder="a")
    stores.clock.time += 10 * LEASE
    await stores.sessions.append(KEY, [event(1)], holder="a")
    with pytest.raises(SessionBusy):
        await stores.sessions.open(KEY, holder="b")


@pytest.mark.parametrize("sign_of_life", ["append", "append nothing", "renew", "open"])
async def test_a_sign_of_life_keeps_hold_for_another_lease(
    stores: Stores, sign_of_life: str
) -> None:
    store, clock = stores.sessions, stores.clock
    await store.open(KEY, holder="a")
    clock.time += LEASE - 1
    match sign_of_life:
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
async def test_nobody_appends_or_renews_without_holding(
    store: SessionStorePort, holder: str
) -> None:
    for _ in range(2):
        with pytest.raises(SessionConflict):
            await store.append(KEY, [event(1)], holder=holder)
        with pytest.raises(SessionConflict):
            await store.append(KEY, [], holder=holder)
        with pytest.raises(SessionConflict):
            await store.renew(KEY, holder=holder)
        await put(store, KEY)
    assert await store.events(KEY) == ()


async def test_sessions_are_leased_independently(store: SessionStorePort) -> None:
    for other in (key(), key("s2"), key(user_id="bo"), key(app_name="shop")):
        await store.open(other, holder=f"run of {other}")


# Appending


EVERYTHING = Event(
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


async def test_an_event_comes_back_as_it_was(store: SessionStorePort) -> None:
    await put(store, KEY, EVERYTHING, event(2))
    assert await store.events(KEY) == (EVERYTHING, event(2))


@pytest.mark.parametrize("part", [Part(text="\ud800"), Part(data={"a": "\ud800"})])
async def test_half_a_character_is_refused_and_nothing_is_stored(
    store: SessionStorePort, part: Part
) -> None:
    await store.open(KEY, holder="a")
    with pytest.raises(InvalidInput, match="event of 'helper' cannot be stored"):
        await store.append(KEY, [event(1), event(2, EventKind.MESSAGE, parts=(part,))], holder="a")
    assert await store.events(KEY) == ()


async def test_returning_from_append_acknowledges_the_events(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    for seq in range(1, 6):
        await store.append(KEY, [event(seq)], holder="a")
        assert (await store.events(KEY))[-1] == event(seq)


async def test_events_are_stored_even_if_the_caller_is_cancelled(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(store.append(KEY, [writes(1, {"x": 1})], holder="a"))
        await asyncio.sleep(0)
        task.cancel()
    assert await store.events(KEY) == (writes(1, {"x": 1}),)
    assert await state_of(store, KEY) == {"x": 1}


async def test_appends_are_stored_in_the_order_of_the_calls(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    async with asyncio.TaskGroup() as group:
        for seq in range(1, 51):
            group.create_task(store.append(KEY, [event(seq)], holder="a"))
    assert [e.seq for e in await store.events(KEY)] == list(range(1, 51))


async def test_a_users_message_starts_a_run_and_counts_a_turn(stores: Stores) -> None:
    store = stores.sessions
    await store.open(KEY, holder="a")
    stores.clock.time += 5
    asked = event(1, EventKind.MESSAGE, author="user", run_id="r7", parts=text_part("hi"))
    await store.append(KEY, [asked], holder="a")
    answered = event(2, EventKind.MESSAGE, run_id="other", parts=text_part("hello"))
    await store.append(KEY, [answered, event(3, author="user", run_id="other")], holder="a")
    session = await store.read(KEY)
    assert session is not None
    assert (session.turns, session.run_id, session.seq) == (1, "r7", 3)
    assert session.status is RunStatus.WORKING
    assert session.updated_at == stores.clock.time


async def test_several_turns_in_one_append_count_each(store: SessionStorePort) -> None:
    turns = [
        event(seq, EventKind.MESSAGE, author="user", run_id=f"r{seq}", parts=text_part("x"))
        for seq in (1, 2, 3)
    ]
    await put(store, KEY, *turns)
    session = await store.read(KEY)
    assert session is not None
    assert (session.turns, session.run_id) == (3, "r3")


@pytest.mark.parametrize("status", [s for s in RunStatus if s is not RunStatus.WORKING])
async def test_ended_sets_the_status(store: SessionStorePort, status: RunStatus) -> None:
    asked = event(1, EventKind.MESSAGE, author="user", parts=text_part("hi"))
    await put(store, KEY, asked, event(2, EventKind.ENDED, status=status))
    session = await store.open(KEY, holder="a")
    assert session.status is status
    again = event(3, EventKind.MESSAGE, author="user", parts=text_part("hi"))
    await store.append(KEY, [again, event(4, status=RunStatus.REJECTED)], holder="a")
    session = await store.open(KEY, holder="a")
    assert session.status is RunStatus.WORKING


# State


async def test_a_key_goes_to_the_scope_that_its_prefix_names(store: SessionStorePort) -> None:
    await put(
        store,
        KEY,
        writes(1, {"mine": 1, "user:all": 2, "app:everyone": 3, "temp:now": 4, "odd:one": 5}),
    )
    for other in (key("s2"), key(user_id="bo"), key(app_name="shop"), key(user_id="desk")):
        await put(store, other)
    assert await state_of(store, KEY) == {
        "mine": 1,
        "user:all": 2,
        "app:everyone": 3,
        "odd:one": 5,
    }
    assert await state_of(store, key("s2")) == {"user:all": 2, "app:everyone": 3}
    assert await state_of(store, key(user_id="bo")) == {"app:everyone": 3}
    assert await state_of(store, key(app_name="shop")) == {}


async def test_a_session_that_is_open_shows_what_others_wrote_meanwhile(
    store: SessionStorePort,
) -> None:
    await store.open(KEY, holder="a")
    await put(store, key("s2"), writes(1, {"user:x": 1, "x": 2}))
    assert await state_of(store, KEY) == {"user:x": 1}
    assert (await store.open(KEY, holder="a")).state == {"user:x": 1}


async def test_users_with_the_same_session_id_never_meet(store: SessionStorePort) -> None:
    await put(store, key(user_id="ann"), writes(1, {"x": "ann", "user:x": "ann"}))
    await put(store, key(user_id="bo"), writes(1, {"x": "bo", "user:x": "bo"}), event(2))
    assert await state_of(store, key(user_id="ann")) == {"x": "ann", "user:x": "ann"}
    assert await state_of(store, key(user_id="bo")) == {"x": "bo", "user:x": "bo"}
    assert [e.seq for e in await store.events(key(user_id="ann"))] == [1]
    await store.delete(key(user_id="bo"))
    assert await state_of(store, key(user_id="ann")) == {"x": "ann", "user:x": "ann"}


async def test_removed_keys_are_gone(store: SessionStorePort) -> None:
    await put(store, KEY, writes(1, {"a": 1, "b": 2, "user:c": 3, "app:d": 4}))
    await store.open(KEY, holder="x")
    gone = writes(2, {"b": 5}, "a", "user:c", "app:d", "never-there", "temp:t")
    await store.append(KEY, [gone], holder="x")
    assert await state_of(store, KEY) == {"b": 5}
    await store.append(KEY, [writes(3, {"a": 6}), writes(4, {}, "b")], holder="x")
    assert await state_of(store, KEY) == {"a": 6}


async def test_what_was_written_inside_a_branch_does_not_count(store: SessionStorePort) -> None:
    inside = EventActions(branch_delta={"x": 2, "y": 1}, branch_removed=("z",))
    await put(store, KEY, writes(1, {"x": 1, "z": 1}), event(2, actions=inside))
    assert await state_of(store, KEY) == {"x": 1, "z": 1}


async def test_keys_keep_the_order_they_were_written_in(store: SessionStorePort) -> None:
    await put(
        store,
        KEY,
        writes(1, {"b": 1, "a": 2, "user:z": 3, "app:y": 4, "c": 5}),
        writes(2, {"b": 6}, "a"),
        writes(3, {"a": 7}),
    )
    assert list(await state_of(store, KEY)) == ["app:y", "user:z", "b", "c", "a"]


async def test_changing_the_state_that_was_handed_out_changes_nothing(
    store: SessionStorePort,
) -> None:
    await put(store, KEY, writes(1, {"x": 1, "user:x": 2, "app:x": 3}))
    for session in (await store.open(KEY, holder="a"), await store.read(KEY)):
        assert session is not None
        assert isinstance(session.state, dict)
        session.state.clear()
    assert await state_of(store, KEY) == {"x": 1, "user:x": 2, "app:x": 3}


# Reading


async def test_reading_needs_no_lease(store: SessionStorePort) -> None:
    assert await store.read(KEY) is None
    opened = await store.open(KEY, holder="a")
    assert await store.read(KEY) == opened
    await store.append(KEY, [event(1)], holder="a")
    await store.release(KEY, holder="a")
    assert (await store.read(KEY)) == msgspec.structs.replace(opened, seq=1)
    await store.open(KEY, holder="b")


async def test_events_of_a_session_that_is_not_there_are_none(store: SessionStorePort) -> None:
    assert await store.events(KEY) == ()
    assert await store.events(KEY, run_id="r1", kinds={EventKind.MESSAGE}) == ()
    assert await store.newest(KEY, kind=EventKind.MESSAGE, author="x") is None


KINDS = (EventKind.MESSAGE, EventKind.STATE, EventKind.ENDED)
HISTORY = tuple(
    event(n, KINDS[n % 3], run_id=f"r{n // 7}", author=f"a{n % 2}", parts=text_part(f"e{n}"))
    for n in range(1, 31)
)


async def test_events_come_in_order_and_pass_all_filters(filled: SessionStorePort) -> None:
    for after, limit, kinds, run_id in product(
        (-1, 0, 1, 13, 30, 31),
        (None, 0, 1, 5, 100),
        (None, (), KINDS[:1], frozenset(KINDS[1:]), [EventKind.FAULT]),
        ("", "r0", "r2", "r4", "nobody"),
    ):
        expected = [
            e
            for e in HISTORY
            if e.seq > after
            and (kinds is None or e.kind in kinds)
            and (not run_id or e.run_id == run_id)
        ]
        found = await filled.events(KEY, after=after, limit=limit, kinds=kinds, run_id=run_id)
        assert found == tuple(expected[:limit])


@pytest.fixture
async def filled(store: SessionStorePort) -> SessionStorePort:
    await put(store, KEY, *HISTORY)
    await put(store, key("s2"), *HISTORY[:3])
    return store


async def test_newest_is_the_last_event_of_one_kind_and_author(filled: SessionStorePort) -> None:
    for kind in (*KINDS, EventKind.FAULT):
        for author in ("a0", "a1", "nobody"):
            matching = [e for e in HISTORY if e.kind is kind and e.author == author]
            expected = matching[-1] if matching else None
            assert await filled.newest(KEY, kind=kind, author=author) == expected


async def test_a_users_sessions_come_last_used_first_without_state(stores: Stores) -> None:
    store = stores.sessions
    for name in ("one", "two", "three"):
        await put(store, key(name), writes(1, {"x": name, "user:y": name}))
        stores.clock.time += 1
    await put(store, key("one"), event(2, EventKind.MESSAGE, author="user", parts=text_part("x")))
    await put(store, key("four", user_id="bo"))
    await put(store, key("five", app_name="shop"))
    found = await store.sessions("desk", "ann")
    assert [s.key.session_id for s in found] == ["one", "three", "two"]
    assert [dict(s.state) for s in found] == [{}, {}, {}]
    assert [(s.seq, s.turns, s.status) for s in found[:2]] == [
        (2, 1, RunStatus.WORKING),
        (1, 0, RunStatus.COMPLETED),
    ]
    assert await store.sessions("desk", "nobody") == ()


async def test_of_sessions_used_at_the_same_moment_the_younger_comes_first(
    store: SessionStorePort,
) -> None:
    for name in ("one", "two", "three"):
        await put(store, key(name))
    found = await store.sessions("desk", "ann")
    assert [s.key.session_id for s in found] == ["three", "two", "one"]


# Deleting


async def test_a_deleted_session_is_forgotten_but_state_of_user_and_app_stays(
    stores: Stores,
) -> None:
    store, files = stores.sessions, stores.artifacts
    await put(store, KEY, writes(1, {"x": 1, "user:y": 2, "app:z": 3}))
    await put(store, key("s2"), writes(1, {"x": 4}))
    for where in (KEY, key("s2")):
        await files.save(where, "own.txt", b"own", "text/plain")
        await files.save(where, "user:shared.txt", b"shared", "text/plain")
    await store.delete(KEY)
    assert await store.read(KEY) is None
    assert await store.events(KEY) == ()
    assert await store.newest(KEY, kind=EventKind.STATE, author="helper") is None
    assert [s.key.session_id for s in await store.sessions("desk", "ann")] == ["s2"]
    assert await files.names(KEY) == ("user:shared.txt",)
    assert await files.load(KEY, "own.txt") is None
    assert await files.names(key("s2")) == ("own.txt", "user:shared.txt")
    assert await state_of(store, key("s2")) == {"x": 4, "user:y": 2, "app:z": 3}
    reborn = await store.open(KEY, holder="a")
    assert (reborn.seq, dict(reborn.state)) == (0, {"user:y": 2, "app:z": 3})


async def test_deleting_takes_the_session_from_its_holder(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.delete(KEY)
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(1)], holder="a")
    await store.delete(KEY)
    assert await store.read(KEY) is None


async def test_closing_twice_is_harmless(store: SessionStorePort) -> None:
    await store.open(KEY, holder="a")
    await store.aclose()
    await store.aclose()


# Artifacts


async def test_versions_of_an_artifact_count_from_one(artifacts: ArtifactStorePort) -> None:
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
async def test_a_version_that_is_not_there_is_none(
    artifacts: ArtifactStorePort, version: int
) -> None:
    assert await artifacts.load(KEY, "a.txt") is None
    await artifacts.save(KEY, "a.txt", b"", "text/plain")
    await artifacts.save(KEY, "a.txt", b"", "text/plain")
    assert await artifacts.load(KEY, "a.txt", version) is None


async def test_names_are_sorted_and_shared_only_with_the_users_own_sessions(
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
