"""Which events a query reads, by the plan of SQLite."""

import sqlite3
from pathlib import Path

from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_sessions import events_query
from acc.domain.value_objects.event import EventKind


async def test_events_of_several_kinds_after_a_number_are_read_by_range(tmp_path: Path) -> None:
    kinds = (EventKind.MESSAGE, EventKind.TOOL_RESULT, EventKind.ENDED)
    query, values = events_query(9_990, 10_000, 500, kinds, "", False)

    def plan(connection: sqlite3.Connection) -> list[str]:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", (1, *values))
        return [row[3] for row in rows]

    database = SqliteDatabase(tmp_path / "sessions.db")
    assert await database.read(plan) == [
        "SEARCH events USING PRIMARY KEY (session=? AND seq>? AND seq<?)"
    ]
    await database.aclose()
