"""`acc worker` in a separate process, and the ledger that its tools write."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from durable_agents import create_ledger
from temporal_server import shared_server

HERE = Path(__file__).parent
#: A task of a killed process must make progress within this time.
MAX_TAKEOVER_SECONDS = 10.0


class Ledger:
    """The entries that tools have made, with the process that made them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        create_ledger(path)

    def entries(self) -> list[tuple[str, int, int]]:
        with sqlite3.connect(self.path, timeout=30) as database:
            return database.execute("SELECT run, step, pid FROM entries ORDER BY rowid").fetchall()

    def repeated(self) -> int:
        with sqlite3.connect(self.path, timeout=30) as database:
            (count,) = database.execute("SELECT count(*) FROM repeated").fetchone()
            return int(count)

    async def until(self, count: int) -> list[tuple[str, int, int]]:
        async with asyncio.timeout(60):
            while True:
                entries = self.entries()
                if len(entries) >= count:
                    return entries
                await asyncio.sleep(0.02)


@contextmanager
def run_worker_process(
    folder: Path, ledger: Ledger, *, store: str, **extra: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run `acc worker` until the end of the block."""
    with (folder / "workers.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "acc", "worker", "durable_agents:agent"]
            + ["--engine", shared_server().url, "--store", store, "--grace", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=HERE,
            text=True,
            env={**os.environ, "LEDGER": str(ledger.path), **extra},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()


def wait_until_ready(process: "subprocess.Popen[str]") -> None:
    """Wait until a worker accepts work."""
    assert process.stdout is not None
    assert "working for booker" in process.stdout.readline()
