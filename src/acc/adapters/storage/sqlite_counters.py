"""Counters and used ids in SQLite."""

import sqlite3
import time

from acc.adapters.storage.counters import PRUNE_SECONDS
from acc.adapters.storage.sqlite import Operation, SqliteDatabase, T

_ADD = (
    "INSERT INTO counters (key, value, expires_at) VALUES (?1, ?2, ?3)"
    " ON CONFLICT (key) DO UPDATE SET"
    " value = CASE WHEN expires_at > ?4 THEN value ELSE 0 END + excluded.value,"
    " expires_at = CASE WHEN expires_at > ?4 THEN expires_at ELSE excluded.expires_at END"
    " RETURNING value"
)
#: The current window has a key of its own, so that it never contains expired counts.
_ADD_WITHIN = (
    "INSERT INTO counters (key, value, expires_at) SELECT ?1, ?2, ?3 WHERE"
    " coalesce((SELECT value FROM counters WHERE key = ?4), 0) * ?5 < ?6 - ?2 + 1"
    " ON CONFLICT (key) DO UPDATE SET value = value + excluded.value WHERE"
    " coalesce((SELECT c.value FROM counters c WHERE c.key = ?4), 0) * ?5 + value < ?6 - ?2 + 1"
    " RETURNING value"
)
_READ = "SELECT value, expires_at FROM counters WHERE key = ? AND expires_at > ?"
_CLAIM = (
    "INSERT INTO counters (key, value, expires_at) VALUES (?1, 1, ?2)"
    " ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at WHERE expires_at <= ?3"
    " RETURNING value"
)


class SqliteCounters:
    """Counters in a SQLite file, usually that of the sessions; implements CounterTable."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._pruned_at = 0.0

    async def add(self, key: bytes, amount: int, *, now: float, until: float) -> int:
        """Add to a counter and return its value."""
        values = (key, amount, until, now)
        value: int = await self._write(lambda c: _returned(c, _ADD, values)[0])
        return value

    async def add_within(
        self, key: bytes, amount: int, *, earlier: tuple[bytes, float], limit: int, until: float
    ) -> bool:
        """Add to a counter unless its value would exceed a limit."""
        values = (key, amount, until, *earlier, limit)
        return await self._write(lambda c: bool(_returned(c, _ADD_WITHIN, values)))

    async def read(self, key: bytes, *, now: float) -> tuple[int, float]:
        """Return the value of a counter and the time until which it exists."""
        return await self._database.read(
            lambda c: c.execute(_READ, (key, now)).fetchone() or (0, now)
        )

    async def claim(self, key: bytes, *, now: float, until: float) -> bool:
        """Create a row that exists until a time; return False if it exists already."""
        return await self._write(lambda c: bool(_returned(c, _CLAIM, (key, until, now))))

    async def delete(self, key: bytes) -> None:
        """Delete a row."""
        await self._write(lambda c: c.execute("DELETE FROM counters WHERE key = ?", (key,)).close())

    async def aclose(self) -> None:
        """Close the file."""
        await self._database.aclose()

    async def _write(self, operation: Operation[T]) -> T:
        now = time.time()
        if now - self._pruned_at > PRUNE_SECONDS:
            self._pruned_at = now
            statement = "DELETE FROM counters WHERE expires_at <= ?"
            await self._database.write(lambda c: c.execute(statement, (now,)).close())
        return await self._database.write(operation)


def _returned(
    connection: sqlite3.Connection, statement: str, values: tuple[object, ...]
) -> tuple[int, ...]:
    row: tuple[int, ...] | None = connection.execute(statement, values).fetchone()
    return row or ()
