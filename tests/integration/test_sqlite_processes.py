"""Several processes on one SQLite file: killed, or contending for a session."""

import subprocess
import sys
import time
from asyncio import run
from pathlib import Path

import pytest

from acc.adapters.storage.sqlite_recall import SqliteRecallIndex
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.system.clock import SystemClock
from acc.adapters.system.stemmer import SnowballStemmer
from acc.domain.errors import SessionBusy
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.session import SessionKey

KEY = SessionKey(app_name="desk", user_id="ann", session_id="s1")

PRELUDE = """
import asyncio, sys, time
from acc.adapters.system.clock import SystemClock
from acc.adapters.storage.sqlite_recall import SqliteRecallIndex
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.system.stemmer import SnowballStemmer
from acc.domain.errors import SessionBusy
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.memory import Passage
from acc.domain.value_objects.session import SessionKey

path, name = sys.argv[1:]
key = SessionKey(app_name="desk", user_id="ann", session_id="s1")
store = SqliteSessionStore(path, clock=SystemClock())

def event(seq, run_id="r"):
    actions = EventActions(state_delta={"count": seq, "app:last": name})
    return Event(kind=EventKind.STATE, run_id=run_id, author=name, seq=seq, actions=actions)
"""

APPEND_FOR_EVER = """
async def main():
    session = await store.open(key, holder=name)
    for seq in range(session.seq + 1, 10**9):
        await store.append(key, [event(seq)], holder=name)
        print(seq, flush=True)
"""

HOLD = """
async def main():
    await store.open(key, holder=name)
    print("open", flush=True)
    sys.stdin.read()
"""

CONTEND = """
async def main():
    turns = 0
    while turns < 15:
        run_id = f"{name}-{turns}"
        try:
            session = await store.open(key, holder=run_id)
        except SessionBusy:
            await asyncio.sleep(0.001)
            continue
        for seq in range(session.seq + 1, session.seq + 5):
            await store.append(key, [event(seq, run_id)], holder=run_id)
        await store.release(key, holder=run_id)
        turns += 1
        await asyncio.sleep(0.001)
    await store.aclose()
"""

OPEN_ONLY = """
async def main():
    while time.time() < float(name):
        pass
    await store.read(key)
    await store.aclose()
"""

ADD_PASSAGES = """
async def main():
    index = SqliteRecallIndex(path, key=key, name="m", terms=TermExtractor(SnowballStemmer()))
    for number in range(60):
        text = f"{name} reports number {number}"
        await index.add([Passage(id=f"{name}.{number}", turn_id=number, text=text)])
    await index.database.aclose()
"""


def start(code: str, path: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-c", f"{PRELUDE}{code}\nasyncio.run(main())", path, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def store_at(path: Path) -> SqliteSessionStore:
    return SqliteSessionStore(path, clock=SystemClock())


def test_acknowledged_events_survive_kill(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    acknowledged = 0
    for attempt in range(3):
        process = start(APPEND_FOR_EVER, path, f"run-{attempt}")
        assert process.stdout is not None
        for _ in range(40 + 7 * attempt):
            acknowledged = int(process.stdout.readline())
        process.kill()
        # Not with communicate(), which does not return the lines that are already buffered.
        assert process.stderr is not None
        with process:
            rest, faults = process.stdout.read(), process.stderr.read()
        whole_lines = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged = max([acknowledged, *map(int, whole_lines)])
        assert faults == ""
        store = store_at(path)
        stored = run(store.events(KEY))
        session = run(store.read(KEY))
        run(store.aclose())
        assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
        # One more event may be stored whose acknowledgement was not received.
        assert len(stored) - 1 <= acknowledged <= len(stored)
        assert session is not None
        assert (session.seq, session.state["count"]) == (len(stored), len(stored))


def test_lease_of_killed_process_is_released_at_once(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    process = start(HOLD, path, "holder")
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    store = store_at(path)
    with pytest.raises(SessionBusy):
        run(store.open(KEY, holder="me"))
    process.kill()
    process.communicate()
    before = time.monotonic()
    assert run(store.open(KEY, holder="me")).seq == 0
    assert time.monotonic() - before < 5
    run(store.aclose())


def test_contending_processes_do_not_interleave(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    processes = [start(CONTEND, path, name) for name in ("one", "two", "three")]
    for process in processes:
        _, faults = process.communicate(timeout=120)
        assert (process.returncode, faults) == (0, "")
    store = store_at(path)
    stored = run(store.events(KEY))
    session = run(store.read(KEY))
    run(store.aclose())
    runs = [event.run_id for event in stored]
    assert len(runs) == 3 * 15 * 4
    assert len(set(runs)) == 3 * 15
    assert all(len(set(runs[first : first + 4])) == 1 for first in range(0, len(runs), 4))
    assert session is not None
    assert session.state == {"count": len(runs), "app:last": stored[-1].author}


def test_concurrent_creation_of_same_file_succeeds(
    tmp_path: Path,
) -> None:
    for attempt in range(4):
        path = tmp_path / f"{attempt}.db"
        together = str(time.time() + 0.7)
        processes = [start(OPEN_ONLY, path, together) for _ in range(4)]
        for process in processes:
            _, faults = process.communicate(timeout=60)
            assert (process.returncode, faults) == (0, "")


def test_processes_extend_one_recall_index(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    processes = [start(ADD_PASSAGES, path, name) for name in ("mara", "jonas")]
    for process in processes:
        _, faults = process.communicate(timeout=120)
        assert (process.returncode, faults) == (0, "")
    index = SqliteRecallIndex(path, key=KEY, name="m", terms=TermExtractor(SnowballStemmer()))
    for name in ("mara", "jonas"):
        for number in (0, 31, 59):
            (match,) = run(index.search(f"What is number {number} of {name}?", limit=1))
            assert match.passage.id == f"{name}.{number}"
    run(index.database.aclose())
