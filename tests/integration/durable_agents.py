"""An agent whose tool writes to a ledger, for tests that kill workers."""

import os
import sqlite3
import time

from acc import Agent, ModelRequest, ToolCall, tool
from acc.testing import ScriptedModel, call

#: Entries of the ledger that one run makes.
STEPS = 3


def next_step(prompt: ModelRequest) -> ToolCall | str:
    """Call the tool for each step, whatever it returned, then say that all are done."""
    results = [part for message in prompt.following for part in message.parts if part.result]
    run = prompt.query.rpartition(" ")[2]
    if len(results) == STEPS:
        return f"booked {run}"
    return call("book", run=run, step=len(results) + 1)


@tool
def book(run: str, step: int) -> str:
    """Write an entry; the same entry twice is an error."""
    with sqlite3.connect(os.environ["LEDGER"], timeout=30) as ledger:
        ledger.execute(
            "INSERT INTO entries (run, step, pid) VALUES (?, ?, ?)", (run, step, os.getpid())
        )
    time.sleep(float(os.environ.get("STEP_SECONDS", "0.3")))
    return "booked"


agent = Agent(name="booker", model=ScriptedModel(next_step, repeat=True), tools=[book])
