"""Several processes on one SQLite task file: killed, or writing concurrently."""

import subprocess
import sys
from asyncio import run
from pathlib import Path

from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.adapters.system.clock import SystemClock
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import TaskQuery, TaskState

ANN = Owner("acme", "ann")
ROUNDS = 50

PRELUDE = """
import asyncio, sys
from acc.adapters.system.clock import SystemClock
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.errors import InvalidTransition
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import *

path, name = sys.argv[1:]
store = SqliteTaskStore(path, clock=SystemClock(), app_name="desk")
owner = Owner("acme", "ann")

def status(state, at=1.0):
    return TaskStatus(state=TaskState(state), at=at)

async def file(task_id, message_id):
    task = Task(id=task_id, context_id="c", status=status("submitted"))
    message = Message(message_id=message_id, role=Role.USER, parts=text_part("やあ"))
    return await store.create(task, owner=owner, message=message)

def wait():
    print("ready", flush=True)
    return sys.stdin.readline()
"""

HOLD = """
async def main():
    for number in range(3):
        await file(f"t{number}", f"m{number}")
    await store.append("t0", [StatusUpdate(status=status("working"))])
    await store.append("t2", [StatusUpdate(status=status("input-required"))])
    wait()
"""

END = """
async def main():
    await store.latest_seqs(["warm"])
    while task_id := wait().strip():
        try:
            await store.append(task_id, [StatusUpdate(status=status(name, 2.0))])
        except InvalidTransition:
            print("lost", flush=True)
        else:
            print("won", flush=True)
    await store.aclose()
"""

FILE = """
async def main():
    for number in range(50):
        await file(f"t{number}", f"m{number}")
    await store.aclose()
"""

CREATE = """
async def main():
    await store.latest_seqs(["warm"])
    number = 0
    while wait().strip():
        filed = await file(f"{name}-{number}", f"m{number}")
        print(filed.task.id, int(filed.is_new), flush=True)
        number += 1
    await store.aclose()
"""

ORPHANS = """
async def main():
    await store.latest_seqs(["warm"])
    wait()
    print(" ".join(await store.claim_orphans()), flush=True)
    wait()  # a process that ended would leave its tasks to the others
    await store.aclose()
"""


def start(code: str, path: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-c", f"{PRELUDE}{code}\nasyncio.run(main())", path, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def write_line(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


def release_all(processes: "list[subprocess.Popen[str]]", order: str = "go") -> list[str]:
    """Release waiting processes at the same time and return the next line of each."""
    for process in processes:
        assert read_line(process) == "ready"
    for process in processes:
        write_line(process, order)
    return [read_line(process) for process in processes]


def end(processes: "list[subprocess.Popen[str]]") -> None:
    for process in processes:
        assert read_line(process) == "ready"
        _, faults = process.communicate("\n", timeout=60)
        assert (process.returncode, faults) == (0, "")


def store_at(path: Path) -> SqliteTaskStore:
    return SqliteTaskStore(path, clock=SystemClock(), app_name="desk")


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_active_tasks_of_killed_process_are_orphans(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    process = start(HOLD, path, "holder")
    assert read_line(process) == "ready"
    store = store_at(path)
    assert run(store.claim_orphans()) == ()
    kill(process)
    assert run(store.claim_orphans()) == ("t0", "t1")
    assert run(store.claim_orphans()) == ()
    task = run(store.read("t0"))
    assert task is not None
    assert (task.state, task.seq) == (TaskState.WORKING, 2)
    run(store.aclose())


def test_each_orphan_is_claimed_by_one_process(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    holder = start(HOLD, path, "holder")
    assert read_line(holder) == "ready"
    kill(holder)
    claimers = [start(ORPHANS, path, str(n)) for n in range(3)]
    claimed = " ".join(release_all(claimers)).split()
    assert sorted(claimed) == ["t0", "t1"]
    end(claimers)


def test_one_final_state_wins_when_two_processes_end_a_task(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    assert start(FILE, path, "filer").communicate(timeout=60) == ("", "")
    names = ["canceled", "completed"]
    processes = [start(END, path, name) for name in names]
    winners: list[str] = []
    for number in range(ROUNDS):
        ends = release_all(processes, f"t{number}")
        assert sorted(ends) == ["lost", "won"]
        winners.append(names[ends.index("won")])
    end(processes)
    store = store_at(path)
    for number, winner in enumerate(winners):
        task = run(store.read(f"t{number}"))
        assert task is not None
        assert (task.state, task.seq) == (TaskState(winner), 2)
    counts = {
        name: run(store.list_tasks(ANN, TaskQuery(state=TaskState(name)))).total for name in names
    }
    assert counts == {name: winners.count(name) for name in names}
    run(store.aclose())


def test_same_message_from_two_processes_creates_one_task(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    processes = [start(CREATE, path, name) for name in ("one", "two")]
    created_ids: list[str] = []
    for _ in range(ROUNDS):
        answers = [answer.split() for answer in release_all(processes)]
        assert sorted(is_new for _, is_new in answers) == ["0", "1"]
        ids = {task_id for task_id, _ in answers}
        assert len(ids) == 1
        created_ids += ids
    end(processes)
    store = store_at(path)
    page = run(store.list_tasks(ANN, TaskQuery(page_size=100)))
    assert sorted(task.id for task in page.tasks) == sorted(created_ids)
    assert page.total == ROUNDS
    run(store.aclose())
