"""What is SQLite's own: what calls cost, threads, forks, closing, and who holds a session."""

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlite_stores import KEY, event, fill, store_at

from acc.adapters.storage.sqlite import Process, this_process
from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore
from acc.domain.errors import SessionBusy, SessionConflict, StorageFailed
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.session import SessionKey
from acc.testing import FrozenClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acc.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteSessionStore]:
    made = store_at(path)
    yield made
    await made.aclose()


def our_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("acc acc.db")]


# What it costs


async def test_the_file_is_in_wal_mode_and_commits_do_not_wait_for_the_disk(
    store: SqliteSessionStore,
) -> None:
    def pragmas(connection: sqlite3.Connection) -> list[Any]:
        names = ("journal_mode", "synchronous", "busy_timeout")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store.database.read(pragmas) == ["wal", 1, 100]


async def traced(store: SqliteSessionStore, call: Callable[[], Any]) -> tuple[list[str], int]:
    """Return the statements of a call and the steps SQLite needed for them."""
    statements: list[str] = []
    steps: list[None] = []

    def listen(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(statements.append)
        connection.set_progress_handler(lambda: steps.append(None), 1)

    def stop(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(None)
        connection.set_progress_handler(None, 1)

    await store.database.read(listen)
    await call()
    await store.database.read(stop)
    own = [text for text in statements if text not in {"BEGIN", "BEGIN IMMEDIATE", "COMMIT"}]
    return own, len(steps)


async def test_open_and_append_cost_the_same_whatever_the_history(
    store: SqliteSessionStore,
) -> None:
    await fill(store, 1, 9)
    append_early = await traced(store, lambda: store.append(KEY, [event(10)], holder="h"))
    open_early = await traced(store, lambda: store.open(KEY, holder="h"))
    await fill(store, 11, 9_999)
    append_late = await traced(store, lambda: store.append(KEY, [event(10_000)], holder="h"))
    open_late = await traced(store, lambda: store.open(KEY, holder="h"))
    assert len(append_early[0]) == len(append_late[0]) == 4
    assert len(open_early[0]) == len(open_late[0]) == 3
    assert abs(append_late[1] - append_early[1]) < 30
    assert abs(open_late[1] - open_early[1]) < 30
    assert not [text for text in open_late[0] if "events" in text]


CALLS: dict[str, Callable[[SqliteSessionStore], Any]] = {
    "open": lambda store: store.open(KEY, holder="h"),
    "append": lambda store: store.append(KEY, [event(501)], holder="h"),
    "renew": lambda store: store.renew(KEY, holder="h"),
    "release": lambda store: store.release(KEY, holder="h"),
    "read": lambda store: store.read(KEY),
    "events": lambda store: store.events(KEY, after=490),
    "events of a kind": lambda store: store.events(KEY, kinds=[EventKind.INPUT, EventKind.FAULT]),
    "events of a run": lambda store: store.events(KEY, run_id="r3"),
    "newest": lambda store: store.newest(KEY, kind=EventKind.MEMORY, author="a"),
    "newest of many": lambda store: store.newest(KEY, kind=EventKind.STATE, author="a"),
    "sessions": lambda store: store.sessions("desk", "ann"),
    "versions": lambda store: SqliteArtifactStore(store.database).versions(KEY, "a"),
    "names": lambda store: SqliteArtifactStore(store.database).names(KEY),
    "load": lambda store: SqliteArtifactStore(store.database).load(KEY, "a"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_finds_its_rows_by_an_index(store: SqliteSessionStore, name: str) -> None:
    await fill(store, 1, 500)
    statements, steps = await traced(store, lambda: CALLS[name](store))
    assert steps < 500

    def plans(connection: sqlite3.Connection) -> list[str]:
        return [
            row[3]
            for text in statements
            for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")
        ]

    assert [plan for plan in await store.database.read(plans) if plan.startswith("SCAN")] == []


async def test_deleting_a_session_finds_its_rows_by_an_index(store: SqliteSessionStore) -> None:
    await fill(store, 1, 20)
    statements, _ = await traced(store, lambda: store.delete(KEY))
    assert len([text for text in statements if text.startswith("DELETE")]) == 4


# The thread


async def test_a_job_is_done_even_if_nobody_waits_for_it(
    store: SqliteSessionStore, path: Path
) -> None:
    await store.open(KEY, holder="h")
    gate = threading.Event()
    async with asyncio.TaskGroup() as group:
        blocker = group.create_task(store.database.read(lambda _: gate.wait(10)))
        tasks = [
            group.create_task(store.append(KEY, [event(seq)], holder="h")) for seq in range(1, 6)
        ]
        await asyncio.sleep(0)
        for task in (blocker, *tasks):
            task.cancel()
        gate.set()
    assert [stored.seq for stored in await store.events(KEY)] == [1, 2, 3, 4, 5]


async def test_calls_are_submitted_before_they_first_wait(store: SqliteSessionStore) -> None:
    await store.open(KEY, holder="h")
    calls = [store.append(KEY, [event(seq)], holder="h") for seq in range(1, 4)]
    waiting = [call.send(None) for call in calls]
    assert len(await store.events(KEY)) == 3
    for call, future in zip(calls, waiting, strict=True):
        assert future.done()
        with pytest.raises(StopIteration):
            call.send(None)


def test_a_loop_that_was_closed_meanwhile_is_no_fault_of_the_thread(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_at(path)
    gate = threading.Event()

    async def leave() -> None:
        await store.open(KEY, holder="h")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await store.database.read(lambda _: gate.wait(10))

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(store.read(KEY)) is not None
    asyncio.run(store.aclose())
    assert capsys.readouterr().err == ""


def test_the_file_is_not_touched_before_it_is_used(path: Path) -> None:
    asyncio.run(store_at(path).aclose())
    assert not path.exists()


async def test_closing_does_what_was_submitted_and_ends_the_thread(path: Path) -> None:
    store = store_at(path)
    await store.open(KEY, holder="h")
    async with asyncio.TaskGroup() as group:
        for seq in range(1, 4):
            group.create_task(store.append(KEY, [event(seq)], holder="h"))
        await asyncio.sleep(0)
        await store.aclose()
    assert our_threads() == []
    assert [file.name for file in path.parent.iterdir()] == ["acc.db"]
    with pytest.raises(StorageFailed, match=r"acc\.db: the store is closed"):
        await store.read(KEY)
    again = store_at(path)
    assert len(await again.events(KEY)) == 3
    await again.aclose()


async def test_a_store_that_is_dropped_ends_its_thread(path: Path) -> None:
    store = store_at(path)
    await store.open(KEY, holder="h")
    threads = our_threads()
    assert len(threads) == 1
    del store
    gc.collect()
    threads[0].join(10)
    assert our_threads() == []


def test_a_store_that_is_not_closed_stores_everything_and_lets_the_process_end(path: Path) -> None:
    code = f"""
import asyncio
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import SessionKey
from acc.testing import FrozenClock
key = SessionKey(app_name="desk", user_id="ann", session_id="s1")
store = SqliteSessionStore({str(path)!r}, clock=FrozenClock())
async def main():
    await store.open(key, holder="h")
    for seq in range(1, 101):
        event = Event(kind=EventKind.STATE, run_id="r", author="a", seq=seq)
        store.append(key, [event], holder="h").send(None)
asyncio.run(main())
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-W", "ignore::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM events").fetchone() == (100,)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # said by Python 3.12 and newer
def test_a_store_used_before_a_fork_says_so_after_it(path: Path) -> None:
    store = store_at(path)
    asyncio.run(store.open(KEY, holder="h"))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(StorageFailed, match="before this process was forked"):
                asyncio.run(store.read(KEY))
            asyncio.run(store.aclose())
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(store.read(KEY)) is not None
    asyncio.run(store.aclose())


async def test_two_loops_in_two_threads_may_share_a_store(path: Path) -> None:
    store = store_at(path, busy_timeout=5)

    def use(name: str) -> None:
        async def turns() -> None:
            key = SessionKey(app_name="desk", user_id=name, session_id="s1")
            await store.open(key, holder=name)
            for seq in range(1, 21):
                await store.append(key, [event(seq)], holder=name)

        asyncio.run(turns())

    threads = [threading.Thread(target=use, args=(name,)) for name in ("ann", "bo")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for name in ("ann", "bo"):
        key = SessionKey(app_name="desk", user_id=name, session_id="s1")
        assert len(await store.events(key)) == 20
    await store.aclose()


# Who holds a session


async def hold_as(store: SqliteSessionStore, process: Process) -> None:
    """Let the session be held by another process."""
    await store.open(KEY, holder="other")
    row = (process.host, process.pid, process.started)
    change = "UPDATE sessions SET holder_host = ?, holder_pid = ?, holder_started = ?"
    await store.database.write(lambda c: c.execute(change, row).close())


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


async def test_a_holder_that_is_dead_is_put_out_at_once(store: SqliteSessionStore) -> None:
    me = this_process()
    await hold_as(store, Process(me.host, dead_pid(), "1"))
    assert (await store.open(KEY, holder="h")).seq == 0
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(1)], holder="other")


@pytest.mark.skipif(not this_process().started, reason="the system does not tell when it began")
async def test_a_number_that_was_given_to_another_process_does_not_count(
    store: SqliteSessionStore,
) -> None:
    me = this_process()
    for pid in (me.pid, os.getppid()):
        await hold_as(store, Process(me.host, pid, "long ago"))
        await store.open(KEY, holder="h")
        await store.release(KEY, holder="h")


async def test_a_holder_elsewhere_is_trusted_until_its_lease_is_over(path: Path) -> None:
    clock = FrozenClock()
    store = SqliteSessionStore(path, clock=clock, lease=5.0)
    await hold_as(store, Process("another machine", dead_pid(), ""))
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="h")
    clock.time += 5.0
    await store.open(KEY, holder="h")
    await store.aclose()


def test_another_living_process_with_the_same_holder_is_another(path: Path) -> None:
    store, me = store_at(path), this_process()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        asyncio.run(hold_as(store, Process(me.host, process.pid, "")))
        with pytest.raises(SessionBusy):
            asyncio.run(store.open(KEY, holder="other"))
        process.communicate(b"\n")
    asyncio.run(store.open(KEY, holder="other"))
    asyncio.run(store.aclose())


@pytest.mark.skipif(not this_process().started, reason="the system does not tell of zombies")
def test_a_process_that_was_killed_is_gone_before_its_parent_asks() -> None:
    me = this_process()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not Process(me.host, process.pid, "").is_dead(me)
        process.kill()
        give_up_at = time.monotonic() + 10
        while not Process(me.host, process.pid, "").is_dead(me):
            assert time.monotonic() < give_up_at
            time.sleep(0.01)


def test_a_process_that_cannot_be_asked_is_taken_to_live() -> None:
    me = this_process()
    assert not Process(me.host, 2**80, "").is_dead(me)
