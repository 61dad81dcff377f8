"""Tests of the SQLite session store: query cost, threads, forks, closing and leases."""

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

from acc.adapters.storage.processes import Process, this_process
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


def store_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("acc acc.db")]


# Query cost


async def test_database_uses_wal_and_normal_synchronous_mode(
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


async def test_cost_of_open_and_append_is_independent_of_history(
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
    "newest events": lambda store: store.events(KEY, newest_first=True, limit=5),
    "newest events of kinds": lambda store: store.events(
        KEY, before=400, kinds=[EventKind.STATE, EventKind.FAULT], newest_first=True, limit=5
    ),
    "events of a run": lambda store: store.events(KEY, run_id="r3"),
    "newest": lambda store: store.newest(KEY, kind=EventKind.MEMORY, author="a"),
    "newest of many": lambda store: store.newest(KEY, kind=EventKind.STATE, author="a"),
    "sessions": lambda store: store.sessions("desk", "ann"),
    "versions": lambda store: SqliteArtifactStore(store.database).versions(KEY, "a"),
    "names": lambda store: SqliteArtifactStore(store.database).names(KEY),
    "load": lambda store: SqliteArtifactStore(store.database).load(KEY, "a"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_session_queries_use_an_index(store: SqliteSessionStore, name: str) -> None:
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


async def test_delete_removes_session_with_four_statements(store: SqliteSessionStore) -> None:
    await fill(store, 1, 20)
    statements, _ = await traced(store, lambda: store.delete(KEY))
    assert len([text for text in statements if text.startswith("DELETE")]) == 4


# Worker thread


async def test_cancelled_job_is_still_executed(store: SqliteSessionStore, path: Path) -> None:
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


async def test_calls_are_submitted_before_first_await(store: SqliteSessionStore) -> None:
    await store.open(KEY, holder="h")
    calls = [store.append(KEY, [event(seq)], holder="h") for seq in range(1, 4)]
    waiting = [call.send(None) for call in calls]
    assert len(await store.events(KEY)) == 3
    for call, future in zip(calls, waiting, strict=True):
        assert future.done()
        with pytest.raises(StopIteration):
            call.send(None)


def test_thread_ignores_results_for_closed_loop(
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


def test_file_is_not_created_before_first_use(path: Path) -> None:
    asyncio.run(store_at(path).aclose())
    assert not path.exists()


async def test_close_executes_submitted_jobs_and_stops_the_thread(path: Path) -> None:
    store = store_at(path)
    await store.open(KEY, holder="h")
    async with asyncio.TaskGroup() as group:
        for seq in range(1, 4):
            group.create_task(store.append(KEY, [event(seq)], holder="h"))
        await asyncio.sleep(0)
        await store.aclose()
    assert store_threads() == []
    assert [file.name for file in path.parent.iterdir()] == ["acc.db"]
    with pytest.raises(StorageFailed, match=r"acc\.db: the store is closed"):
        await store.read(KEY)
    again = store_at(path)
    assert len(await again.events(KEY)) == 3
    await again.aclose()


async def test_thread_stops_when_store_is_garbage_collected(path: Path) -> None:
    store = store_at(path)
    await store.open(KEY, holder="h")
    threads = store_threads()
    assert len(threads) == 1
    del store
    gc.collect()
    threads[0].join(10)
    assert store_threads() == []


def test_process_exits_cleanly_without_closing_the_store(path: Path) -> None:
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


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # raised by Python 3.12 and newer
def test_store_opened_before_fork_raises_in_the_child(path: Path) -> None:
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


async def test_store_can_be_shared_by_two_event_loops(path: Path) -> None:
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


# Leases


async def set_lease_holder(store: SqliteSessionStore, process: Process) -> None:
    """Set the lease holder of the session to another process."""
    await store.open(KEY, holder="other")
    row = (process.host, process.pid, process.started)
    change = "UPDATE sessions SET holder_host = ?, holder_pid = ?, holder_started = ?"
    await store.database.write(lambda c: c.execute(change, row).close())


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


async def test_lease_of_dead_process_is_taken_over(store: SqliteSessionStore) -> None:
    me = this_process()
    await set_lease_holder(store, Process(me.host, dead_pid(), "1"))
    assert (await store.open(KEY, holder="h")).seq == 0
    with pytest.raises(SessionConflict):
        await store.append(KEY, [event(1)], holder="other")


@pytest.mark.skipif(not this_process().started, reason="process start times are not available")
async def test_lease_of_reused_process_id_is_taken_over(
    store: SqliteSessionStore,
) -> None:
    me = this_process()
    for pid in (me.pid, os.getppid()):
        await set_lease_holder(store, Process(me.host, pid, "long ago"))
        await store.open(KEY, holder="h")
        await store.release(KEY, holder="h")


async def test_lease_of_other_host_is_respected_until_expiry(path: Path) -> None:
    clock = FrozenClock()
    store = SqliteSessionStore(path, clock=clock, lease=5.0)
    await set_lease_holder(store, Process("another machine", dead_pid(), ""))
    with pytest.raises(SessionBusy):
        await store.open(KEY, holder="h")
    clock.time += 5.0
    await store.open(KEY, holder="h")
    await store.aclose()


def test_same_holder_name_in_other_process_is_busy(path: Path) -> None:
    store, me = store_at(path), this_process()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        asyncio.run(set_lease_holder(store, Process(me.host, process.pid, "")))
        with pytest.raises(SessionBusy):
            asyncio.run(store.open(KEY, holder="other"))
        process.communicate(b"\n")
    asyncio.run(store.open(KEY, holder="other"))
    asyncio.run(store.aclose())


@pytest.mark.skipif(not this_process().started, reason="process states are not available")
def test_zombie_process_is_dead() -> None:
    me = this_process()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not Process(me.host, process.pid, "").is_dead(me)
        process.kill()
        deadline = time.monotonic() + 10
        while not Process(me.host, process.pid, "").is_dead(me):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_process_with_unusable_id_is_not_dead() -> None:
    me = this_process()
    assert not Process(me.host, 2**80, "").is_dead(me)
