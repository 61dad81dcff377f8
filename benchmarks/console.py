"""Measure the web console: start, memory, and the pages of a session with 10,000 events.

Run it: python benchmarks/console.py. Exits with 1 if a limit is exceeded.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from acc import Agent, Runner
from acc.testing import ScriptedModel

EVENTS = 10_000
TOKEN = "token-of-the-benchmark"  # noqa: S105 - no secret
REPEATS = 5
MAX_START_SECONDS, MAX_MEMORY_BYTES = 1.5, 100e6
MAX_PAGE_SECONDS, MAX_PAGE_BYTES = 0.3, 100_000
PATHS = ("/sessions", "/session", "/session/events", "/session/memory", "/session/timeline")
AGENT = """
from acc import Agent
from acc.testing import ScriptedModel

agent = Agent(name="desk", model=ScriptedModel("answer", repeat=True))
"""


async def fill(store: Path) -> int:
    """Run turns until the session has enough events, and return their number."""
    model = ScriptedModel("the answer to a question of the usual length " * 4, repeat=True)
    runner = Runner(Agent(name="desk", model=model), store=store)
    count = 0
    while count < EVENTS:
        result = await runner.run("a question of the usual length " * 4, session_id="large")
        count += len(result.events)
    await runner.aclose()
    return count


def start(folder: Path) -> tuple[subprocess.Popen[str], str, float]:
    """Start a console; return the process, its URL and the seconds until it was ready."""
    started = time.perf_counter()
    options = ("--store", "acc.db", "--port", "0", "--token", TOKEN)
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-W", "ignore", "-m", "acc", "console", "desk_agent:agent", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1].removesuffix("/login")
    return process, url, time.perf_counter() - started


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fetch(url: str, path: str) -> tuple[float, int]:
    """Return the seconds and bytes of a page."""
    query = urlencode({"app": "app", "user": "local", "id": "large"})
    request = Request(f"{url}{path}?{query}", headers={"authorization": f"Bearer {TOKEN}"})  # noqa: S310
    started = time.perf_counter()
    with urlopen(request) as response:  # noqa: S310 - our own server
        size = len(response.read())
    return time.perf_counter() - started, size


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "desk_agent.py").write_text(AGENT, encoding="utf-8")
        print(f"{asyncio.run(fill(folder / 'acc.db')):,} events")
        starts = []
        for _ in range(REPEATS):
            process, url, seconds = start(folder)
            starts.append((seconds, cpu_seconds(process.pid)))
            if len(starts) < REPEATS:
                process.terminate()
                process.wait(20)
        seconds, cpu = min(starts)
        print(f"start: {seconds:.2f} s, CPU {cpu:.2f} s (best of {REPEATS})")
        is_exceeded = seconds > MAX_START_SECONDS
        for path in PATHS:
            first, size = fetch(url, path)
            later = min(fetch(url, path)[0] for _ in range(REPEATS))
            print(f"{path}: first {first * 1000:.0f} ms, later {later * 1000:.0f} ms, {size:,} B")
            is_exceeded |= first > MAX_PAGE_SECONDS or size > MAX_PAGE_BYTES
        memory = resident_bytes(process.pid)
        print(f"memory: {memory / 1e6:.0f} MB")
        process.terminate()
        process.wait(20)
    return int(is_exceeded or memory > MAX_MEMORY_BYTES)


if __name__ == "__main__":
    sys.exit(main())
