"""What the first turn in a stored session reads."""

import sqlite3
from pathlib import Path

import pytest

from acc import Agent, Runner
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.testing import ScriptedModel


def make_runner(store: Path, memory: str) -> Runner[None, str]:
    model = ScriptedModel("Noted.", repeat=True)
    return Runner(Agent(name="a", model=model, memory=memory), store=store)  # type: ignore[arg-type]


async def fill(store: Path, memory: str, turns: int) -> None:
    runner = make_runner(store, memory)
    for turn in range(turns):
        await runner.run(user_id="u", session_id="s", message=f"Unit-{turn} is in room {turn}.")
    await runner.aclose()


async def steps_of_first_turn(store: Path, memory: str) -> int:
    """Return the steps of SQLite in queries of events, in the first turn of a new runner.

    A query takes some steps for every row that it visits.
    """
    runner = make_runner(store, memory)
    sessions = runner.services.sessions
    assert isinstance(sessions, SqliteSessionStore)
    statement = ""
    steps = 0

    def begin(text: str) -> None:
        nonlocal statement
        statement = text

    def step() -> None:
        nonlocal steps
        steps += statement.startswith("SELECT") and " FROM events" in statement

    def observe(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(begin)
        connection.set_progress_handler(step, 1)

    await sessions.database.read(observe)
    await runner.run(user_id="u", session_id="s", message="Which room is unit-7 in?")
    await runner.aclose()
    return steps


@pytest.mark.parametrize("memory", ["acc", "retrieval"])
async def test_first_turn_visits_as_many_events_of_long_as_of_short_sessions(
    memory: str, tmp_path: Path
) -> None:
    short, long = tmp_path / "short.db", tmp_path / "long.db"
    await fill(short, memory, 4)
    await fill(long, memory, 150)
    few = await steps_of_first_turn(short, memory)
    assert 0 < await steps_of_first_turn(long, memory) <= few
