"""Kill workers and servers of the Temporal engine at random while they execute tasks.

Every task writes to a ledger. At the end, no task may be lost and no entry may be there twice.

Command: python benchmarks/engine_chaos.py [TASKS] [STORE]
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "integration")]

from durable_agents import STEPS  # noqa: E402 - found through the path above
from temporal_server import shared_server  # noqa: E402 - found through the path above

WORKERS, SERVERS = 3, 2
KILL_SECONDS = 3.0
STUCK_SECONDS = 90.0
_ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED")


class Fleet:
    """Processes that are started again after they were killed."""

    def __init__(self, folder: Path, store: str, ledger: Path) -> None:
        self._folder = folder
        self._common = ["--engine", shared_server().url, "--store", store]
        self._env = {**os.environ, "LEDGER": str(ledger), "STEP_SECONDS": "0.05"}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = {f"server{n}": 18_700 + os.getpid() % 1000 + n for n in range(SERVERS)}
        self.names = [f"worker{n}" for n in range(WORKERS)] + list(self.ports)
        self.kills = 0
        for name in self.names:
            self._start(name)

    def _start(self, name: str) -> None:
        kind = ["serve", "--port", str(self.ports[name])] if name in self.ports else ["worker"]
        command = [sys.executable, "-m", "acc", kind[0], "durable_agents:agent"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command
                [*command, *kind[1:], *self._common],
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=ROOT / "tests" / "integration",
            )

    def kill_one(self) -> None:
        """Kill a process with SIGKILL and start it again."""
        name = random.choice(self.names)  # noqa: S311 - no secret
        self._processes[name].kill()
        self._processes[name].wait()
        self._start(name)
        self.kills += 1

    def stop(self) -> None:
        """Kill all processes."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def rpc(self, method: str, params: dict[str, Any]) -> Any:
        """Return a result from any server; try again as long as servers are being started."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        deadline = time.monotonic() + 60
        while True:
            port = random.choice(list(self.ports.values()))  # noqa: S311 - no secret
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}",
                json.dumps(body).encode(),
                {"Content-Type": "application/json", "A2A-Version": "1.0"},
            )
            try:
                with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
                    reply = json.load(response)
                if "result" in reply:
                    return reply["result"]
            except (OSError, urllib.error.URLError, ValueError) as error:
                reply = error
            if time.monotonic() > deadline:
                raise SystemExit(f"no server responds: {reply}")
            time.sleep(0.05)


def main(count: int, store: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.db"
        with sqlite3.connect(ledger) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE entries (run, step, pid)")
        fleet = Fleet(Path(folder), store or f"{folder}/acc.db", ledger)
        try:
            return check(fleet, ledger, count)
        finally:
            fleet.stop()


def check(fleet: Fleet, ledger: Path, count: int) -> int:
    began = killed_at = time.monotonic()
    tasks: dict[str, str] = {}
    for number in range(count):
        message = {
            "messageId": f"m{number}",
            "role": "ROLE_USER",
            "parts": [{"text": f"book r{number}"}],
        }
        configuration = {"returnImmediately": True}
        sent = fleet.rpc("SendMessage", {"message": message, "configuration": configuration})
        tasks[sent["task"]["id"]] = ""
        if time.monotonic() - killed_at > KILL_SECONDS:
            killed_at = time.monotonic()
            fleet.kill_one()
    print(f"{count} tasks accepted in {time.monotonic() - began:.1f} s, {fleet.kills} kills")
    progressed_at = time.monotonic()
    while open_tasks := [task for task, state in tasks.items() if state not in _ENDED]:
        for task in open_tasks:
            state = fleet.rpc("GetTask", {"id": task})["status"]["state"]
            if state in _ENDED:
                progressed_at = time.monotonic()
            tasks[task] = state
        if time.monotonic() - killed_at > KILL_SECONDS and len(open_tasks) > count // 10:
            killed_at = time.monotonic()
            fleet.kill_one()
        if time.monotonic() - progressed_at > STUCK_SECONDS:
            print(f"stuck: {Counter(tasks[task] for task in open_tasks)}")
            break
        time.sleep(0.2)
    with sqlite3.connect(ledger) as database:
        entries = Counter(database.execute("SELECT run, step FROM entries").fetchall())
    twice = [entry for entry, times in entries.items() if times > 1]
    missing = count * STEPS - len(entries)
    print(f"all ended after {time.monotonic() - began:.1f} s with {fleet.kills} kills")
    print(f"states: {dict(Counter(tasks.values()))}")
    print(f"entries: {len(entries)}, twice: {len(twice)}, not made (outcome unknown): {missing}")
    return int(bool(twice) or any(state != _ENDED[0] for state in tasks.values()))


if __name__ == "__main__":
    arguments = [*sys.argv[1:], "", ""]
    sys.exit(main(int(arguments[0] or 200), arguments[1]))
