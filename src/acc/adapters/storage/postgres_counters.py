"""Counters and used ids in PostgreSQL."""

import time
from typing import Any

from acc.adapters.storage.counters import PRUNE_SECONDS
from acc.adapters.storage.location import PostgresLocation
from acc.adapters.storage.postgres import PostgresDatabase

#: Counting is short; more connections would be taken from the store.
_CONNECTIONS = 4
_ADD = (
    "INSERT INTO acc_counters AS c (key, value, expires_at) VALUES ($1, $2, $3)"
    " ON CONFLICT (key) DO UPDATE SET"
    " value = CASE WHEN c.expires_at > $4 THEN c.value ELSE 0 END + excluded.value,"
    " expires_at = CASE WHEN c.expires_at > $4 THEN c.expires_at ELSE excluded.expires_at END"
    " RETURNING value"
)
#: The current window has a key of its own, so that it never contains expired counts.
_ADD_WITHIN = (
    "WITH earlier AS (SELECT coalesce((SELECT value FROM acc_counters WHERE key = $4), 0)"
    " * $5::double precision AS value)"
    " INSERT INTO acc_counters AS c (key, value, expires_at) SELECT $1, $2::bigint, $3"
    " FROM earlier WHERE value < $6::bigint - $2::bigint + 1"
    " ON CONFLICT (key) DO UPDATE SET value = c.value + excluded.value"
    " WHERE (SELECT value FROM earlier) + c.value < $6::bigint - $2::bigint + 1"
    " RETURNING value"
)
_READ = "SELECT value, expires_at FROM acc_counters WHERE key = $1 AND expires_at > $2"
_CLAIM = (
    "INSERT INTO acc_counters AS c (key, value, expires_at) VALUES ($1, 1, $2)"
    " ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at WHERE c.expires_at <= $3"
    " RETURNING value"
)


class PostgresCounters:
    """Counters in a PostgreSQL database; implements CounterTable.

    A statement whose connection is lost may be counted twice: a count that is too high is better
    than requests that fail.
    """

    def __init__(self, location: PostgresLocation) -> None:
        self._database = PostgresDatabase(location, max_connections=_CONNECTIONS)
        self._pruned_at = 0.0

    async def add(self, key: bytes, amount: int, *, now: float, until: float) -> int:
        """Add to a counter and return its value."""
        return int((await self._write(_ADD, key, amount, until, now))[0])

    async def add_within(
        self, key: bytes, amount: int, *, earlier: tuple[bytes, float], limit: int, until: float
    ) -> bool:
        """Add to a counter unless its value would exceed a limit."""
        return bool(await self._write(_ADD_WITHIN, key, amount, until, *earlier, limit))

    async def read(self, key: bytes, *, now: float) -> tuple[int, float]:
        """Return the value of a counter and the time until which it exists."""
        row = await self._database.read(lambda c: c.fetchrow(_READ, key, now))
        return (0, now) if row is None else (row[0], row[1])

    async def claim(self, key: bytes, *, now: float, until: float) -> bool:
        """Create a row that exists until a time; return False if it exists already."""
        return bool(await self._write(_CLAIM, key, until, now))

    async def delete(self, key: bytes) -> None:
        """Delete a row."""
        await self._write("DELETE FROM acc_counters WHERE key = $1", key)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._database.aclose()

    async def _write(self, statement: str, *values: object) -> tuple[Any, ...]:
        # As a read, so that the time limit of the caller also ends a wait for the server.
        now = time.time()
        if now - self._pruned_at > PRUNE_SECONDS:
            self._pruned_at = now
            prune = "DELETE FROM acc_counters WHERE expires_at <= $1"
            await self._database.read(lambda c: c.execute(prune, now))
        row = await self._database.read(lambda c: c.fetchrow(statement, *values))
        return () if row is None else tuple(row)
