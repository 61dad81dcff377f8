"""Execute tasks while workers, servers and the database are killed, and check what clients saw.

Every task calls a tool three times that writes to a ledger. A client follows the stream of each
task and continues it on another server if it is cut.
"""

import asyncio
import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
from child_process import end_with_parent
from durable_agents import STEPS, create_ledger
from postgres_server import PostgresServer
from temporal_server import shared_server

HERE = Path(__file__).parent
#: A lease of a session or task expires after this time.
LEASE_SECONDS = 30.0
#: A task must make progress within this time after the last kill.
MAX_TAKEOVER_SECONDS = 10.0
_COMPLETED = "TASK_STATE_COMPLETED"
_ENDED = (_COMPLETED, "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")
_HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}
_POLL_SECONDS = 0.1
#: Processes that may be down when another one is killed.
_MAX_STARTING = 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many tasks, how often processes are killed, and how many at the same time."""

    tasks: int
    seed: int
    workers: int = 3
    servers: int = 2
    concurrency: int = 32
    #: Seconds between two kills, and until a killed database is started again.
    pause: tuple[float, float] = (2.0, 5.0)
    outage: tuple[float, float] = (0.0, 2.0)
    step_seconds: float = 0.05
    together: int = 1
    #: Names to kill at the same time, in this order; empty for random ones.
    victims: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A process that was killed; the id is 0 for the database."""

    name: str
    process_id: int
    at: float

    @property
    def delays_tasks(self) -> bool:
        """Return True unless only streams are cut."""
        return not self.name.startswith("server")


@dataclass(kw_only=True)
class Followed:
    """What the client of a task saw: its updates by number, in the order of arrival."""

    run: str
    task_id: str = ""
    numbers: list[int] = field(default_factory=list)
    updates: dict[int, Any] = field(default_factory=dict)
    state: str = ""
    text: str = ""
    accepted_at: float = 0.0
    ended_at: float = 0.0
    reconnects: int = 0


class Fleet:
    """Workers, servers and a database; whatever ends is started again."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self.ledger = folder / "ledger.db"
        create_ledger(self.ledger)
        self.database = PostgresServer()
        self.database.start()
        common = ["--engine", shared_server().url, "--store", self.database.url()]
        self.ports = {f"server{n}": _free_port() for n in range(plan.servers)}
        self._commands = {f"worker{n}": ["worker", *common] for n in range(plan.workers)} | {
            name: ["serve", *common, "--port", str(port), "--max-streams", "1000"]
            for name, port in self.ports.items()
        }
        self._env = {
            **os.environ,
            "LEDGER": str(self.ledger),
            "STEP_SECONDS": str(plan.step_seconds),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._log_sizes: dict[str, int] = {}
        self.kills: list[Kill] = []
        self._database_starts_at = 0.0
        #: When there was no database or no worker: start and end, 0 if it has not ended.
        self.outages: list[tuple[float, float]] = []
        self._watched_at = 0.0
        self.names = [*self._commands, "database"]
        for name in self._commands:
            self._start(name)

    def kill(self, name: str, outage: float) -> None:
        """Kill a process with SIGKILL."""
        if name == "database":
            self.database.kill_processes()
            self._database_starts_at = time.monotonic() + outage
            self.kills.append(Kill(name=name, process_id=0, at=time.time()))
            return
        process = self._processes[name]
        process.kill()
        process.wait()
        self.kills.append(Kill(name=name, process_id=process.pid, at=time.time()))

    @property
    def ready(self) -> list[str]:
        """Return what runs and can do its work."""
        names = ["database"] if self.database.is_running and self.database.is_ready else []
        for name, process in self._processes.items():
            if process.poll() is None:
                with (self._folder / f"{name}.log").open("rb") as log:
                    log.seek(self._log_sizes[name])
                    if b" booker " in log.read():  # the summary of a worker or server
                        names.append(name)
        return names

    def active_workers(self) -> int:
        """Return how many workers have written to the ledger."""
        with sqlite3.connect(self.ledger, timeout=30) as ledger:
            (count,) = ledger.execute("SELECT count(DISTINCT pid) FROM entries").fetchone()
        return int(count)

    def supervise(self) -> None:
        """Start again what has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                self._start(name)
        if not self.database.is_running and time.monotonic() >= self._database_starts_at:
            self.database.launch()

    def watch(self) -> None:
        """Record when nothing can progress."""
        is_out = bool(self.outages) and not self.outages[-1][1]
        last = max((kill.at for kill in self.kills), default=0.0)
        if not is_out and last <= self._watched_at:
            return  # nothing was killed since everything was ready
        ready = self.ready
        if len(ready) == len(self.names):
            self._watched_at = last
        can_progress = "database" in ready and any(name.startswith("worker") for name in ready)
        if not can_progress and not is_out:
            self.outages.append((last, 0.0))
        elif can_progress and is_out:
            self.outages[-1] = (self.outages[-1][0], time.time())

    def stop(self) -> None:
        """Kill all processes."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.database.stop()

    def log(self) -> str:
        """Return what the processes have logged."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))

    def _start(self, name: str) -> None:
        kind, *options = self._commands[name]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._log_sizes[name] = log.tell()
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "acc", kind, "durable_agents:agent", *options],
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=HERE,
                preexec_fn=end_with_parent(),
            )


class Client:
    """Sends tasks to any server and follows them through all servers."""

    def __init__(self, http: httpx2.AsyncClient, ports: list[int], chance: random.Random) -> None:
        self._http = http
        self._ports = ports
        self._chance = chance

    async def follow(self, run: str) -> Followed:
        """Send a message and read the updates of its task until it has ended."""
        seen = Followed(run=run)
        while seen.state not in _ENDED:
            try:
                await self._read(seen)
            except (httpx2.HTTPError, ValueError):
                seen.reconnects += 1
            await asyncio.sleep(_POLL_SECONDS)
        return seen

    async def replay(self, task_id: str) -> dict[int, Any]:
        """Return all updates that are stored for a task."""
        seen = Followed(run="", task_id=task_id, reconnects=1)
        while seen.state not in _ENDED:
            try:
                await self._read(seen)
            except (httpx2.HTTPError, ValueError):
                await asyncio.sleep(_POLL_SECONDS)
        return seen.updates

    async def _read(self, seen: Followed) -> None:
        base = f"http://127.0.0.1:{self._chance.choice(self._ports)}"
        headers = dict(_HEADERS)
        if seen.reconnects or seen.numbers:
            headers["Last-Event-ID"] = str(seen.numbers[-1] if seen.numbers else 0)
        if seen.task_id and (not seen.run or self._chance.random() < 0.5):
            request = self._http.build_request(
                "GET", f"{base}/tasks/{seen.task_id}:subscribe", headers=headers
            )
        else:
            parts = [{"text": f"book {seen.run}"}]
            message = {"messageId": f"m-{seen.run}", "role": "ROLE_USER", "parts": parts}
            content = json.dumps({"message": message})
            request = self._http.build_request(
                "POST", f"{base}/message:stream", headers=headers, content=content
            )
        response = await self._http.send(request, stream=True)
        try:
            if response.status_code != 200:
                raise ValueError(f"status {response.status_code}")
            number = -1
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("data: "):
                    _add(seen, number, json.loads(line[6:]))
        finally:
            await response.aclose()


def _add(seen: Followed, number: int, update: dict[str, Any]) -> None:
    seen.numbers.append(number)
    seen.updates[number] = update
    (payload,) = update.values()
    seen.task_id = payload.get("taskId") or payload["id"]
    status = payload.get("status", {})
    seen.state = status.get("state", seen.state)
    if status and not seen.accepted_at:
        seen.accepted_at = datetime.fromisoformat(status["timestamp"]).timestamp()
    if seen.state in _ENDED:
        seen.ended_at = datetime.fromisoformat(status["timestamp"]).timestamp()
    parts = payload.get("artifact", {}).get("parts", ())
    seen.text += "".join(part.get("text", "") for part in parts)


@dataclass(frozen=True, kw_only=True)
class Takeover:
    """A run of a killed worker: seconds from the first and the last kill until it continued."""

    kills: int
    since_first: float
    since_last: float


def _summary(takeovers: list[Takeover]) -> str:
    last = max((one.since_last for one in takeovers), default=0.0)
    first = max((one.since_first for one in takeovers), default=0.0)
    return (
        f"{len(takeovers)}, at most {last:.1f} s after the last kill, {first:.1f} s after the first"
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome: what happened, and every violation of what is promised."""

    seconds: float
    kills: Counter[str]
    states: Counter[str]
    reconnects: int
    entries: int
    unknown: int
    not_made: int
    takeovers: list[Takeover]
    delays: list[float]
    longest_silence: float
    violations: list[str]

    def __str__(self) -> str:
        killed = ", ".join(f"{count} {name}" for name, count in sorted(self.kills.items()))
        rows = {
            "elapsed": f"{self.seconds:.0f} s",
            "killed with SIGKILL": f"{killed} ({self.kills.total()} in total)",
            "tasks": ", ".join(f"{count} {state}" for state, count in self.states.items()),
            "streams continued on a server": str(self.reconnects),
            "entries in the ledger": str(self.entries),
            "calls with unknown outcome": f"{self.unknown}, of which not made: {self.not_made}",
            "runs taken over by a worker": _summary(
                [one for one in self.takeovers if one.kills < 2]
            ),
            "with several kills meanwhile": _summary(
                [one for one in self.takeovers if one.kills > 1]
            ),
            "all tasks without progress": f"{len(self.delays)} at a kill, at most "
            f"{max(self.delays, default=0.0):.1f} s after it",
            "longest time without progress": f"{self.longest_silence:.1f} s",
            "violations": str(len(self.violations)),
        }
        lines = [f"{name:30} {value}" for name, value in rows.items()]
        return "\n".join([*lines, *self.violations[:20]])


async def run_chaos(folder: Path, plan: Plan) -> Report:
    """Execute the tasks of a plan while processes are killed."""
    fleet = Fleet(folder, plan)
    try:
        while len(fleet.ready) < len(fleet.names):
            fleet.supervise()
            await asyncio.sleep(_POLL_SECONDS)
        began = time.monotonic()
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        timeout = httpx2.Timeout(30.0, connect=5.0)
        async with httpx2.AsyncClient(limits=limits, timeout=timeout) as http:
            client = Client(http, list(fleet.ports.values()), random.Random(plan.seed))  # noqa: S311
            followed = await _follow_all(client, fleet, plan)
            seconds = time.monotonic() - began
            stored = {seen.run: await client.replay(seen.task_id) for seen in followed}
        return _report(fleet, plan, followed, stored, seconds)
    finally:
        fleet.stop()


async def _follow_all(client: Client, fleet: Fleet, plan: Plan) -> list[Followed]:
    followed: list[Followed] = []
    waiting = [f"r{number}" for number in range(plan.tasks)][::-1]

    async def follow() -> None:
        while waiting:
            followed.append(await client.follow(waiting.pop()))

    async def disturb() -> None:
        chance = random.Random(plan.seed)  # noqa: S311 - no secret
        victims = list(plan.victims)
        while fleet.active_workers() < plan.workers:  # noqa: ASYNC110 - other processes write
            await asyncio.sleep(_POLL_SECONDS)
        next_at = time.monotonic() + (0.0 if victims else chance.uniform(*plan.pause))
        while True:
            if time.monotonic() >= next_at and (victims or not plan.victims):
                chosen = victims[0] if victims else chance.sample(fleet.names, plan.together)
                ready = fleet.ready
                # A process that is killed while it starts would never do anything.
                if set(chosen) <= set(ready) and len(fleet.names) - len(ready) <= _MAX_STARTING:
                    victims = victims[1:]
                    for name in chosen:
                        fleet.kill(name, chance.uniform(*plan.outage))
                    next_at = time.monotonic() + chance.uniform(*plan.pause)
            fleet.supervise()
            fleet.watch()
            await asyncio.sleep(_POLL_SECONDS)

    async with asyncio.TaskGroup() as group:
        disturbing = group.create_task(disturb())
        clients = [group.create_task(follow()) for _ in range(plan.concurrency)]
        await asyncio.wait(clients)
        disturbing.cancel()
    # The database may be down at the end.
    fleet.supervise()
    if not fleet.database.is_running:
        fleet.database.launch()
    return followed


def _report(
    fleet: Fleet,
    plan: Plan,
    followed: list[Followed],
    stored: dict[str, dict[int, Any]],
    seconds: float,
) -> Report:
    with sqlite3.connect(fleet.ledger) as ledger:
        entries = ledger.execute("SELECT run, step, pid, at FROM entries ORDER BY at").fetchall()
        repeated = ledger.execute("SELECT run, step FROM repeated").fetchall()
    made: dict[str, list[tuple[int, int, float]]] = {seen.run: [] for seen in followed}
    for run, step, process_id, at in entries:
        made[run].append((step, process_id, at))
    violations = [f"entry of {run} made twice: step {step}" for run, step in repeated]
    unknown = not_made = 0
    silence = 0.0
    takeovers: list[Takeover] = []
    delays: list[float] = []
    for seen in followed:
        uncertain = {int(step) for step in seen.text.partition("certain: ")[2].split()}
        missing = set(range(1, STEPS + 1)) - {step for step, _, _ in made[seen.run]}
        unknown += len(uncertain)
        not_made += len(missing)
        makers = [0, *(process_id for _, process_id, _ in made[seen.run])]
        times = [seen.accepted_at, *(at for _, _, at in made[seen.run]), seen.ended_at]
        for maker, start, end in zip(makers, times, times[1:], strict=False):
            silence = max(silence, _available(fleet.outages, start, end))
            kills = [one for one in fleet.kills if start < one.at < end and one.delays_tasks]
            if not kills:
                continue
            delays.append(_available(fleet.outages, kills[-1].at, end))
            if delays[-1] > MAX_TAKEOVER_SECONDS:
                violations.append(
                    f"{seen.run} made no progress for {delays[-1]:.1f} s after the last kill: "
                    + ", ".join(f"{one.name} {end - one.at:.1f} s before" for one in kills)
                    + f"; it was silent for {end - start:.1f} s, entries: {len(made[seen.run])}"
                )
            own = [one for one in kills if one.process_id == maker != 0]
            if own:
                since_first = _available(fleet.outages, own[0].at, end)
                after = [one for one in kills if one.at >= own[0].at]
                takeovers.append(
                    Takeover(kills=len(after), since_first=since_first, since_last=delays[-1])
                )
        violations += _violations(seen, stored[seen.run], missing - uncertain)
    if len({seen.task_id for seen in followed}) != plan.tasks:
        violations.append("two messages have the same task")
    if silence > LEASE_SECONDS:
        violations.append(f"a task made no progress for {silence:.1f} s")
    return Report(
        seconds=seconds,
        kills=Counter(kill.name.rstrip("0123456789") for kill in fleet.kills),
        states=Counter(seen.state.removeprefix("TASK_STATE_").lower() for seen in followed),
        reconnects=sum(seen.reconnects for seen in followed),
        entries=len(entries),
        unknown=unknown,
        not_made=not_made,
        takeovers=takeovers,
        delays=delays,
        longest_silence=silence,
        violations=violations,
    )


def _violations(seen: Followed, stored: dict[int, Any], lost: set[int]) -> list[str]:
    """Return what is wrong with one task."""
    found = []
    if seen.state != _COMPLETED:
        found.append(f"{seen.run} is {seen.state}")
    if not seen.text.startswith(f"booked {seen.run}"):
        found.append(f"{seen.run} answers {seen.text!r}")
    if lost:
        found.append(f"{seen.run}: steps {sorted(lost)} are reported and were not made")
    first = seen.numbers[0]
    if seen.numbers != list(range(first, max(stored) + 1)):
        found.append(f"{seen.run}: stream {seen.numbers}, stored up to {max(stored)}")
    if sorted(stored) != list(range(1, max(stored) + 1)):
        found.append(f"{seen.run}: stored {sorted(stored)}")
    # The first item of a stream may be the task itself.
    if any(seen.updates[n] != stored.get(n) for n in seen.numbers[1:]):
        found.append(f"{seen.run}: updates in the stream differ from the stored ones")
    return found


def _available(outages: list[tuple[float, float]], start: float, end: float) -> float:
    """Return the seconds of a period in which there were a database and a worker."""
    out = sum(max(0.0, min(end, until or end) - max(start, since)) for since, until in outages)
    return end - start - out


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
