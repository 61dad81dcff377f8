"""Simulate deployments of acc with PostgreSQL, and compare the simulation with measurements.

    python benchmarks/capacity.py            # measure here, calibrate, compare, extrapolate
    python benchmarks/capacity.py --table    # only the extrapolation, with the published costs

Model: a task is a sequence of steps. Each step uses CPU of its process, which is one thread, and
then CPU of the database. Runnable threads share the available cores equally, at most one core
each. The CPU time of a step is not constant: it grows with a power of the runnable threads per
core, which take the caches from each other. Waiting for models uses no CPU of acc, so it is not
part of the model: it needs more clients for the same number of tasks per second.

Costs, cores and runnable threads are measured while the throughput is: all processes begin and end
together, after every client has executed some tasks. One and two processes calibrate the costs.
What three and four processes do is predicted, from the cores that other programs left to them.

The extrapolation is for separate cores, where the growth was not measured. It has two columns, with
the lowest and the highest costs of all measurements.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from postgres import machine_seconds, new_runner, server_seconds, turn_costs
from postgres_server import new_store_url

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

STEPS = 4
ROUNDS = 3
SECONDS = 4.0
#: Tasks of each client before a measurement begins.
WARM_UP = 20
#: Processes, and clients of each, of the measured deployments.
CALIBRATED = ((1, 4), (1, 16), (2, 4), (2, 16))
PREDICTED = ((3, 4), (3, 16), (4, 4), (4, 16))
_SAMPLE_SECONDS = 0.03
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Costs:
    """CPU seconds of one task with a tool call, with one runnable thread per core.

    `growth` is the exponent of the runnable threads per core.
    """

    process: float
    database: float
    growth: float = 0.0

    def factor(self, threads: float) -> float:
        """Return the factor of the costs for a number of runnable threads per core."""
        return float(max(threads, 1.0) ** self.growth)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Machines: processes of acc and the database, on shared or on separate cores."""

    processes: int
    cores: float
    #: 0 if the database shares the cores of the processes.
    database_cores: float = 0.0
    clients: int = 8
    #: Cores that other programs use, and all runnable threads of the machine, if measured.
    taken: float = 0.0
    runnable: float | None = None


@dataclass(frozen=True, kw_only=True)
class Point:
    """A measured deployment: tasks per second, CPU seconds of a task, cores, runnable threads."""

    processes: int
    clients: int
    rate: float
    process: float
    database: float
    used: float
    idle: float
    runnable: float


#: The lowest and the highest costs that this benchmark has measured, see the guide on scaling.
PUBLISHED = (
    Costs(process=0.00140, database=0.00117),
    Costs(process=0.00262, database=0.00182),
)


class _Client:
    """One task after another: CPU of the process, CPU of the database, next step."""

    def __init__(self, costs: Costs, process: int) -> None:
        self.process = process
        self._costs = costs
        self._step = 0
        self.left = costs.process / STEPS
        self.in_database = False

    def end_stage(self) -> bool:
        """Start the next stage; return True if a task ended."""
        self.in_database = not self.in_database
        costs = self._costs
        self.left = (costs.database if self.in_database else costs.process) / STEPS
        self._step += 0 if self.in_database else 1
        return not self.in_database and self._step % STEPS == 0


def simulate(costs: Costs, deployment: Deployment, *, seconds: float = 2.0) -> float:
    """Return tasks per second of a deployment, from one end of a stage to the next."""
    queues = [
        deque(_Client(costs, number) for _ in range(deployment.clients))
        for number in range(deployment.processes)
    ]
    active: list[_Client] = []
    done, now = 0, 0.0
    while now < seconds:
        # A process executes one client at a time, the first of its queue.
        running = [queue[0] for queue in queues if queue]
        share, database_share = _speeds(costs, deployment, len(running), len(active))
        rates = [(client, share) for client in running]
        rates += [(client, database_share) for client in active]
        elapsed = min(client.left / rate for client, rate in rates)
        now += elapsed
        for client, rate in rates:
            client.left -= elapsed * rate
            if client.left > _ROUNDING:
                continue
            was_active = client.in_database
            done += client.end_stage()
            if was_active:
                active.remove(client)
                queues[client.process].append(client)
            else:
                queues[client.process].popleft()
                active.append(client)
    return done / now


def _speeds(costs: Costs, deployment: Deployment, running: int, active: int) -> tuple[float, float]:
    """Return the speeds of a process and of a connection, 1 for a core of its own."""
    cores, in_database = deployment.cores, deployment.database_cores
    if in_database:
        share = min(1.0, cores / max(running, 1)) / costs.factor(running / cores)
        speed = min(1.0, in_database / max(active, 1)) / costs.factor(active / in_database)
        return share, speed
    own = running + active
    runnable = own if deployment.runnable is None else deployment.runnable
    share = min(1.0, (cores - deployment.taken) / max(own, 1)) / costs.factor(runnable / cores)
    return share, share


async def _work(
    url: str,
    name: str,
    queue: "multiprocessing.Queue[tuple[int, float]]",
    clients: int,
    start: Barrier,
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

    # Connections, prepared statements and caches of the server.
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
    await asyncio.to_thread(start.wait)
    await tasks.aclose()


def work(
    url: str,
    name: str,
    queue: "multiprocessing.Queue[tuple[int, float]]",
    clients: int,
    start: Barrier,
) -> None:
    """Execute tasks for some seconds; begin and end with the other processes."""
    asyncio.run(_work(url, name, queue, clients, start))


def measure(processes: int, clients: int) -> Point:
    """Execute tasks in several processes here, and return what they achieved and used."""
    url, context = new_store_url(), multiprocessing.get_context("spawn")
    asyncio.run(turn_costs(url))  # the tables exist
    queue: multiprocessing.Queue[tuple[int, float]] = context.Queue()
    barrier = context.Barrier(processes + 1)
    workers = [
        context.Process(target=work, args=(url, f"p{n}", queue, clients, barrier))
        for n in range(processes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    began, server, before = time.monotonic(), server_seconds(), machine_seconds()
    runnable = []
    while time.monotonic() < began + SECONDS:
        runnable.append(_runnable())
        time.sleep(_SAMPLE_SECONDS)
    counts = [queue.get() for _ in workers]
    server, after = server_seconds() - server, machine_seconds()
    barrier.wait()
    for worker in workers:
        worker.join()
    done = sum(count for count, _ in counts)
    used = sum(seconds for _, seconds in counts)
    total, idle = after[0] - before[0], after[1] - before[1]
    cores = os.cpu_count() or 1
    return Point(
        processes=processes,
        clients=clients,
        rate=done / SECONDS,
        process=used / done,
        database=server / done,
        used=cores * (used + server) / total,
        idle=idle / total,
        runnable=fmean(runnable),
    )


def _runnable() -> int:
    """Return how many threads run or wait for a core, without this one."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1


def calibrate(points: Sequence[Point], cores: int) -> Costs:
    """Return the costs with the least squares of relative errors."""
    best, least = Costs(process=0.0, database=0.0), math.inf
    for step in range(41):
        growth = step / 40
        factors = [(one.runnable / cores) ** growth for one in points]
        pairs = list(zip(points, factors, strict=True))
        process = _geometric_mean([one.process / factor for one, factor in pairs])
        database = _geometric_mean([one.database / factor for one, factor in pairs])
        error = sum(
            math.log(one.process / process / factor) ** 2
            + math.log(one.database / database / factor) ** 2
            for one, factor in pairs
        )
        if error < least:
            best, least = Costs(process=process, database=database, growth=growth), error
    return best


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(math.log(value) for value in values))


def predict(costs: Costs, point: Point, cores: int) -> float:
    """Return the simulated tasks per second with the cores that others left in a measurement."""
    taken = cores * (1 - point.idle) - point.used
    deployment = Deployment(
        processes=point.processes,
        cores=cores,
        clients=point.clients,
        taken=max(taken, 0.0),
        runnable=point.runnable,
    )
    return simulate(costs, deployment)


def measure_all() -> list[Point]:
    """Measure all deployments in turns, because the load by other programs changes."""
    return [measure(*one) for _ in range(ROUNDS) for one in (*CALIBRATED, *PREDICTED)]


def compare(points: Sequence[Point], cores: int) -> tuple[Costs, Costs]:
    """Calibrate with some points and predict the others; return the extreme costs."""
    known = [one for one in points if (one.processes, one.clients) in CALIBRATED]
    costs = calibrate(known, cores)
    print(
        f"costs of a task: {1000 * costs.process:.2f} ms of acc, {1000 * costs.database:.2f} ms of "
        f"the database, times (threads per core)^{costs.growth:.2f}"
    )
    print(
        "processes  clients  threads  cores  ms/task  tasks/s  simulated  error  median of errors"
    )
    for kind in (*CALIBRATED, *PREDICTED):
        rows = [one for one in points if (one.processes, one.clients) == kind]
        simulated = [predict(costs, one, cores) for one in rows]
        errors = [by / one.rate - 1 for by, one in zip(simulated, rows, strict=True)]
        print(
            f"{kind[0]:9} {kind[1]:8} {fmean(one.runnable for one in rows):8.1f} "
            f"{fmean(one.used for one in rows):6.2f} "
            f"{1000 * fmean(one.process + one.database for one in rows):8.2f} "
            f"{fmean(one.rate for one in rows):8.0f} {fmean(simulated):10.0f} "
            f"{100 * (fmean(simulated) / fmean(one.rate for one in rows) - 1):+5.0f}% "
            f"{100 * median(errors):+5.0f}% {'calibrated' if kind in CALIBRATED else 'predicted'}"
        )
    ordered = sorted(points, key=lambda one: one.process + one.database)
    low, high = (
        Costs(process=one.process, database=one.database) for one in ordered[:: len(ordered) - 1]
    )
    return low, high


def extrapolate(low: Costs, high: Costs) -> None:
    print("processes  db cores  tasks/s, low costs  high costs  connections")
    for processes, database_cores in ((1, 2), (3, 2), (10, 4), (30, 8), (100, 16), (100, 32)):
        deployment = Deployment(processes=processes, cores=processes, database_cores=database_cores)
        rates = [simulate(costs, deployment, seconds=0.3) for costs in (low, high)]
        print(
            f"{processes:9} {database_cores:9} {rates[0]:19.0f} {rates[1]:11.0f} "
            f"{11 * processes:12}"
        )
    for name in ("process", "database"):
        hours = [getattr(costs, name) * 1_000_000 / 3_600 for costs in (low, high)]
        print(f"core hours of the {name} for a million tasks: {hours[0]:.2f} to {hours[1]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="do not measure")
    parser.add_argument("--points", type=Path, help="file with the points; written if missing")
    options = parser.parse_args()
    if options.table:
        extrapolate(*PUBLISHED)
        return
    if options.points is not None and options.points.exists():
        points = [Point(**one) for one in json.loads(options.points.read_text())]
    else:
        points = measure_all()
    if options.points is not None:
        options.points.write_text(json.dumps([asdict(point) for point in points], indent=1))
    extrapolate(*compare(points, os.cpu_count() or 1))


if __name__ == "__main__":
    main()
