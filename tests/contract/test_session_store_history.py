"""Contract of rewind, fork and shared_state, for every session store."""

from typing import Any

import pytest
from session_store_factories import KEY, Stores, event, key, read_state, state_event

from acc.domain.errors import InvalidInput, SessionConflict
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.run import RunStatus

TARGET = key("copy")


def marker(after: int) -> Event:
    return event(0, EventKind.REWOUND, detail={"turn": 1, "after": after}, run_id="rewind")


def turn(number: int, delta: dict[str, Any], *removed: str) -> list[Event]:
    """Return the events of a turn: message, file, answer and state, end."""
    run_id = f"r{number}"
    file = {"name": "notes", "version": number}
    actions = EventActions(state_delta=delta, state_removed=removed)
    return [
        event(0, EventKind.MESSAGE, author="user", run_id=run_id, detail={"turn": number}),
        event(0, EventKind.ARTIFACT, run_id=run_id, detail=file),
        event(0, EventKind.MESSAGE, run_id=run_id, actions=actions),
        event(0, EventKind.ENDED, run_id=run_id, status=RunStatus.COMPLETED),
    ]


async def store_turns(stores: Stores) -> None:
    """Store three turns of four events, each with a version of a file."""
    store = stores.sessions
    await store.open(KEY, holder="a")
    deltas: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"a": 1, "b": 1, "user:u": 1, "app:p": 1}, ()),
        ({"a": 2, "c": 2, "user:u": 2}, ("b",)),
        ({"a": 3}, ("c",)),
    ]
    for number, (delta, removed) in enumerate(deltas, start=1):
        await stores.artifacts.save(KEY, "notes", f"v{number}".encode(), "text/plain")
        await store.append(KEY, turn(number, delta, *removed), holder="a")


async def test_rewind_restores_state_turns_and_status_of_the_remaining_events(
    stores: Stores,
) -> None:
    await store_turns(stores)
    session = await stores.sessions.rewind(KEY, marker(4), after=4, holder="a")
    assert (session.turns, session.run_id, session.status) == (1, "r1", RunStatus.COMPLETED)
    assert session.seq == 13  # numbers are not used again
    assert session.state == {"app:p": 1, "user:u": 2, "a": 1, "b": 1}
    assert await stores.sessions.read(KEY) == session
    events = await stores.sessions.events(KEY)
    assert [e.seq for e in events] == [1, 2, 3, 4, 13]
    assert events[-1].kind is EventKind.REWOUND
    assert [e.seq for e in await stores.sessions.events(KEY, after=4)] == [13]
    assert [e.seq for e in await stores.sessions.events(KEY, after=7)] == [13]
    assert [e.seq for e in await stores.sessions.events(KEY, after=3, limit=1)] == [4]
    assert await stores.sessions.events(KEY, run_id="r2") == ()
    newest = await stores.sessions.newest(KEY, kind=EventKind.ENDED, author="helper")
    assert newest is not None
    assert newest.seq == 4


async def test_rewind_to_the_start_leaves_what_was_written_before_the_first_turn(
    stores: Stores,
) -> None:
    await stores.sessions.open(KEY, holder="a")
    await stores.sessions.append(KEY, [state_event(0, {"first": 1})], holder="a")
    await stores.sessions.append(KEY, turn(1, {"first": 2, "x": 1}), holder="a")
    session = await stores.sessions.rewind(KEY, marker(1), after=1, holder="a")
    assert (session.turns, session.run_id, session.state) == (0, "", {"first": 1})


async def test_session_continues_after_a_rewind(stores: Stores) -> None:
    await store_turns(stores)
    await stores.sessions.rewind(KEY, marker(4), after=4, holder="a")
    stored = await stores.sessions.append(KEY, turn(2, {"a": 9}), holder="a", release=True)
    assert [e.seq for e in stored] == [14, 15, 16, 17]
    message = event(0, EventKind.MESSAGE, author="user", run_id="r9")
    start = await stores.sessions.begin_turn(KEY, message, holder="b", agent="helper")
    assert [(e.seq, e.detail["turn"]) for e in start.events] == [(18, 3)]
    assert start.session.state["a"] == 9
    by_run = await stores.sessions.events(KEY, run_id="r2")
    assert [e.seq for e in by_run] == [14, 15, 16, 17]


async def test_rewind_deletes_files_of_deleted_events(stores: Stores) -> None:
    await store_turns(stores)
    await stores.sessions.rewind(KEY, marker(4), after=4, holder="a")
    assert await stores.artifacts.versions(KEY, "notes") == (1,)
    newest = await stores.artifacts.load(KEY, "notes")
    assert newest is not None
    assert newest.data == b"v1"
    assert await stores.artifacts.save(KEY, "notes", b"new", "text/plain") == 2
    await stores.sessions.rewind(KEY, marker(0), after=0, holder="a")
    # The last version has no event, so no turn that could be deleted contains it.
    assert await stores.artifacts.versions(KEY, "notes") == (2,)
    version = await stores.artifacts.load(KEY, "notes", 2)
    assert version is not None
    assert version.data == b"new"


async def test_rewind_needs_the_lease(stores: Stores) -> None:
    await store_turns(stores)
    with pytest.raises(SessionConflict):
        await stores.sessions.rewind(KEY, marker(4), after=4, holder="b")
    assert len(await stores.sessions.events(KEY)) == 12


async def test_fork_copies_events_state_and_files_up_to_a_number(stores: Stores) -> None:
    await store_turns(stores)
    session = await stores.sessions.fork(KEY, TARGET, after=8, agent="root")
    assert (session.key, session.turns, session.seq) == (TARGET, 2, 8)
    assert session.state == {"app:p": 1, "user:u": 2, "a": 2, "c": 2}
    assert await stores.sessions.read(TARGET) == session
    source = await stores.sessions.events(KEY, limit=8)
    assert await stores.sessions.events(TARGET) == source
    assert await stores.artifacts.versions(TARGET, "notes") == (1, 2)
    assert await read_state(stores.sessions, KEY) == {"app:p": 1, "user:u": 2, "a": 3}


async def test_fork_and_source_are_independent(stores: Stores) -> None:
    await store_turns(stores)
    await stores.sessions.fork(KEY, TARGET, after=12, agent="root")
    await stores.sessions.open(TARGET, holder="b")
    await stores.sessions.append(TARGET, turn(4, {"a": "copy"}), holder="b")
    await stores.artifacts.save(TARGET, "notes", b"copy", "text/plain")
    assert (await read_state(stores.sessions, KEY))["a"] == 3
    assert await stores.artifacts.versions(KEY, "notes") == (1, 2, 3)
    await stores.sessions.delete(KEY)
    assert (await read_state(stores.sessions, TARGET))["a"] == "copy"
    assert await stores.artifacts.versions(TARGET, "notes") == (1, 2, 3, 4)


@pytest.mark.parametrize("status", [None, RunStatus.INPUT_REQUIRED])
async def test_fork_cancels_a_run_that_has_not_ended(
    stores: Stores, status: RunStatus | None
) -> None:
    await store_turns(stores)
    events = [event(0, EventKind.MESSAGE, author="user", run_id="r4", detail={"turn": 4})]
    if status is not None:
        events.append(event(0, EventKind.ENDED, run_id="r4", status=status))
    source = await stores.sessions.append(KEY, events, holder="a")
    session = await stores.sessions.fork(KEY, TARGET, after=source[-1].seq, agent="root")
    assert (session.run_id, session.status) == ("r4", RunStatus.CANCELED)
    assert await stores.sessions.read(TARGET) == session
    *copied, ended = await stores.sessions.events(TARGET)
    assert copied[-1] == source[-1]
    assert (ended.seq, ended.run_id, ended.author) == (session.seq, "r4", "root")
    assert (ended.status, ended.detail) == (RunStatus.CANCELED, {"code": "forked"})
    unchanged = await stores.sessions.read(KEY)
    assert unchanged is not None
    assert unchanged.status is (status or RunStatus.WORKING)


async def test_fork_of_a_rewound_session_has_the_same_numbers(stores: Stores) -> None:
    await store_turns(stores)
    await stores.sessions.rewind(KEY, marker(4), after=4, holder="a")
    session = await stores.sessions.fork(KEY, TARGET, after=13, agent="root")
    assert [e.seq for e in await stores.sessions.events(TARGET)] == [1, 2, 3, 4, 13]
    assert (session.seq, session.turns) == (13, 1)


async def test_fork_of_an_unknown_session_or_to_an_existing_one_is_rejected(
    stores: Stores,
) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        await stores.sessions.fork(KEY, TARGET, after=1, agent="root")
    await store_turns(stores)
    with pytest.raises(InvalidInput, match="already exists"):
        await stores.sessions.fork(KEY, KEY, after=1, agent="root")
    with pytest.raises(InvalidInput, match="same user"):
        await stores.sessions.fork(KEY, key("copy", user_id="bo"), after=1, agent="root")
    assert await stores.sessions.read(TARGET) is None


async def test_shared_state_is_that_of_the_app_and_the_user(stores: Stores) -> None:
    assert await stores.sessions.shared_state("desk", "ann") == {}
    await store_turns(stores)
    assert await stores.sessions.shared_state("desk", "ann") == {"app:p": 1, "user:u": 2}
    assert await stores.sessions.shared_state("desk", "bo") == {"app:p": 1}
    assert await stores.sessions.shared_state("shop", "ann") == {}
