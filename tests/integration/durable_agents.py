"""An agent whose tool writes to a ledger, for tests that kill workers."""

import os
import sqlite3
import time
from pathlib import Path

from acc import Agent, ModelRequest, ToolCall, tool
from acc.testing import ScriptedModel, call

#: Entries of the ledger that one run makes.
STEPS = 3
_BOOKED = "booked"


def create_ledger(path: Path) -> None:
    """Create a ledger in which an entry has a unique key; `repeated` has the second attempts."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE entries (run, step, pid, at, PRIMARY KEY (run, step))")
        database.execute("CREATE TABLE repeated (run, step, pid, at)")


def next_step(prompt: ModelRequest) -> ToolCall | str:
    """Call the tool for each step, whatever it returned, then say which steps are certain."""
    results = [part.result for message in prompt.following for part in message.parts if part.result]
    run = prompt.query.rpartition(" ")[2]
    if len(results) < STEPS:
        return call("book", run=run, step=len(results) + 1)
    uncertain = [str(n) for n, result in enumerate(results, 1) if result.content != _BOOKED]
    return f"booked {run}" + (f", not certain: {' '.join(uncertain)}" if uncertain else "")


@tool
def book(run: str, step: int) -> str:
    """Write an entry; the same entry twice is an error."""
    entry = (run, step, os.getpid(), time.time())
    with sqlite3.connect(os.environ["LEDGER"], timeout=30) as ledger:
        try:
            ledger.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", entry)
        except sqlite3.IntegrityError:
            ledger.execute("INSERT INTO repeated VALUES (?, ?, ?, ?)", entry)
    time.sleep(float(os.environ.get("STEP_SECONDS", "0.3")))
    return _BOOKED


agent = Agent(name="booker", model=ScriptedModel(next_step, repeat=True), tools=[book])
