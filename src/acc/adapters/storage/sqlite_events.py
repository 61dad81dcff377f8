"""Events that agents published, their subscriptions and dead letters in SQLite."""

import sqlite3

from acc.adapters.storage.event_log import SCAN_LIMIT, Claimed, Interest, published_row
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.ports.outbound.event_ports import EVENT_RETENTION_SECONDS, DeadLetter, EventDelivery
from acc.ports.outbound.system_ports import ClockPort

ADD_PUBLISHED = (
    "INSERT OR IGNORE INTO published_events (source, event_id, type, at, body)"
    " VALUES (?, ?, ?, ?, ?)"
)
_POSITION = "SELECT position FROM event_subscriptions WHERE name = ?"
_SET_POSITION = (
    "INSERT INTO event_subscriptions (name, position) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET position = excluded.position"
)
_DUE = (
    "SELECT c.seq, c.attempts, e.type, e.body FROM event_claims c"
    " LEFT JOIN published_events e ON e.seq = c.seq"
    " WHERE c.subscription = ? AND c.due_at <= ? ORDER BY c.due_at, c.seq LIMIT ?"
)
_NEW = "SELECT seq, type, body FROM published_events WHERE seq > ? ORDER BY seq LIMIT ?"
_COUNT_NEW = "SELECT type, count(*) FROM published_events WHERE seq > ? GROUP BY type"
_COUNT_CLAIMS = "SELECT count(*) FROM event_claims WHERE subscription = ?"
_CLAIM = (
    "INSERT INTO event_claims (subscription, seq, attempts, due_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (subscription, seq) DO UPDATE"
    " SET attempts = excluded.attempts, due_at = excluded.due_at"
)
_COMPLETE = "DELETE FROM event_claims WHERE subscription = ? AND seq = ?"
_PRUNE = (
    "DELETE FROM published_events WHERE at < ? AND seq IN"
    " (SELECT seq FROM published_events ORDER BY seq LIMIT ?)"
)
_ADD_DEAD_LETTER = (
    "INSERT INTO dead_letters (subscription, key, body, reason, at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (subscription, key) DO UPDATE"
    " SET body = excluded.body, reason = excluded.reason, at = excluded.at"
)


class SqliteEventLog:
    """The log of published events in a SQLite file, usually that of the sessions."""

    def __init__(self, database: SqliteDatabase, *, clock: ClockPort) -> None:
        self.database = database
        self._clock = clock

    async def check(self) -> None:
        """Return if events can be stored now."""
        await self.complete("", 0)  # a write without effect

    async def publish(self, event: CloudEvent) -> None:
        """Store an event; one with the same source and id has no effect."""
        row = published_row(event, self._clock.now())
        await self.database.write(lambda c: c.execute(ADD_PUBLISHED, row).close())

    async def claim(self, interest: Interest, *, limit: int) -> Claimed:
        """Lease events that are new or due again."""
        now = self._clock.now()
        # Waiting subscriptions poll, so nothing is locked while there is nothing to do.
        if not await self.database.read(lambda c: _has_events(c, interest.name, now)):
            return Claimed((), True)
        return await self.database.write(lambda c: _claim(c, interest, limit, now))

    async def complete(self, name: str, seq: int) -> None:
        """End a delivery."""
        await self.database.write(lambda c: c.execute(_COMPLETE, (name, seq)).close())

    async def delay(self, name: str, seq: int, *, seconds: float) -> None:
        """Make a delivery due again after so many seconds."""
        values = (self._clock.now() + seconds, name, seq)
        await self.database.write(
            lambda c: c.execute(
                "UPDATE event_claims SET due_at = ? WHERE subscription = ? AND seq = ?", values
            ).close()
        )

    async def backlog(self, interest: Interest) -> int:
        """Return how many events of a subscription are new or leased."""
        return await self.database.read(lambda c: _backlog(c, interest))

    async def add_dead_letter(self, subscription: str, letter: DeadLetter) -> None:
        """Store a dead letter; one with the same key is replaced."""
        await self.database.write(
            lambda c: c.execute(_ADD_DEAD_LETTER, (subscription, *letter)).close()
        )

    async def dead_letters(self, subscription: str, *, limit: int) -> tuple[DeadLetter, ...]:
        """Return dead letters, oldest first."""
        query = (
            "SELECT key, body, reason, at FROM dead_letters WHERE subscription = ?"
            " ORDER BY at, id LIMIT ?"
        )
        return await self.database.read(
            lambda c: tuple(DeadLetter(*row) for row in c.execute(query, (subscription, limit)))
        )

    async def delete_dead_letter(self, subscription: str, key: str) -> bool:
        """Delete a dead letter; return False if there is none."""
        statement = "DELETE FROM dead_letters WHERE subscription = ? AND key = ?"
        return await self.database.write(
            lambda c: c.execute(statement, (subscription, key)).rowcount == 1
        )

    async def aclose(self) -> None:
        """Close the file."""
        await self.database.aclose()


def _has_events(connection: sqlite3.Connection, name: str, now: float) -> bool:
    row = connection.execute(_POSITION, (name,)).fetchone() or (0,)
    has_new = connection.execute(_NEW, (*row, 1)).fetchone() is not None
    return has_new or connection.execute(_DUE, (name, now, 1)).fetchone() is not None


def _backlog(connection: sqlite3.Connection, interest: Interest) -> int:
    position = connection.execute(_POSITION, (interest.name,)).fetchone() or (0,)
    new = connection.execute(_COUNT_NEW, position).fetchall()
    (leased,) = connection.execute(_COUNT_CLAIMS, (interest.name,)).fetchone()
    return int(leased) + sum(int(count) for kind, count in new if interest.includes(kind))


def _claim(connection: sqlite3.Connection, interest: Interest, limit: int, now: float) -> Claimed:
    name, until = interest.name, now + interest.lease
    connection.execute(_PRUNE, (now - EVENT_RETENTION_SECONDS, SCAN_LIMIT))
    deliveries: list[EventDelivery] = []
    for seq, attempts, event_type, body in connection.execute(_DUE, (name, now, limit)).fetchall():
        if body is None or not interest.includes(event_type):
            connection.execute(_COMPLETE, (name, seq))
        else:
            connection.execute(_CLAIM, (name, seq, attempts + 1, until))
            deliveries.append(EventDelivery(str(seq), body, attempts + 1))
    (position,) = connection.execute(_POSITION, (name,)).fetchone() or (0,)
    rows = connection.execute(_NEW, (position, SCAN_LIMIT)).fetchall()
    scanned = 0
    for seq, event_type, body in rows:
        if len(deliveries) >= limit:
            break
        scanned += 1
        position = seq
        if interest.includes(event_type):
            connection.execute(_CLAIM, (name, seq, 1, until))
            deliveries.append(EventDelivery(str(seq), body, 1))
    if scanned:
        connection.execute(_SET_POSITION, (name, position))
    return Claimed(tuple(deliveries), scanned < SCAN_LIMIT)
