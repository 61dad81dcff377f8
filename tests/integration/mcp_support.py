"""Helpers for MCP tests, and a check that no process or thread remains."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acc import Agent, EventKind, Runner, RunResult, ToolResult

HERE = Path(__file__).parent
SHOP = [sys.executable, str(HERE / "mcp_shop_server.py")]
FAULTY = [sys.executable, "-S", str(HERE / "mcp_faulty_server.py")]


def children() -> set[int]:
    """Return the child processes of this process."""
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        pids |= set(map(int, (task / "children").read_text().split()))
    return pids


@pytest.fixture(autouse=True)
async def no_leaked_processes() -> AsyncIterator[None]:
    before, threads = children(), set(threading.enumerate())
    yield
    for _ in range(100):
        new = {t for t in set(threading.enumerate()) - threads if not t.name.startswith("acc")}
        if not (children() - before or new):
            break
        await asyncio.sleep(0.02)
    assert children() - before == set()
    assert new == set()


@asynccontextmanager
async def runner_of(agent: Agent, **options: Any) -> AsyncIterator[Runner]:
    runner = Runner(agent, **options)
    try:
        yield runner
    finally:
        await runner.aclose()


async def run_once(runner: Runner, message: str = "go", session_id: str = "s") -> RunResult:
    return await runner.run(user_id="u", session_id=session_id, message=message)


def tool_results(result: RunResult) -> list[ToolResult]:
    return [e.result for e in result.events if e.kind is EventKind.TOOL_RESULT and e.result]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def wait_for_line(path: Path, line: str) -> None:
    """Wait until a server has logged a line."""
    for _ in range(500):
        if line in lines(path):
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"the server never wrote {line!r}: {lines(path)}")
