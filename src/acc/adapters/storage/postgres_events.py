"""Events that agents published, their subscriptions and dead letters in PostgreSQL."""

from typing import TYPE_CHECKING, Any

from acc.adapters.storage.event_log import SCAN_LIMIT, Claimed, Interest, published_row
from acc.adapters.storage.postgres import PostgresDatabase
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.ports.outbound.event_ports import EVENT_RETENTION_SECONDS, DeadLetter, EventDelivery
from acc.ports.outbound.system_ports import ClockPort

if TYPE_CHECKING:
    from asyncpg import Connection

#: Old events are deleted this often.
_PRUNE_SECONDS = 600.0
_ADD_PUBLISHED = (
    "INSERT INTO acc_published_events (source, event_id, type, at, body)"
    " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"
)
#: A transaction that has not ended may still add events before those of later transactions.
_VISIBLE = "xact < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_AFTER_POSITION = (
    "(xact, seq) > (coalesce((SELECT xact FROM acc_event_subscriptions WHERE name = $1), 0),"
    " coalesce((SELECT seq FROM acc_event_subscriptions WHERE name = $1), 0))"
)
_COUNT_NEW = (
    "SELECT type, count(*) FROM acc_published_events"  # noqa: S608 - constants
    f" WHERE {_AFTER_POSITION} GROUP BY type"
)
_COUNT_CLAIMS = "SELECT count(*) FROM acc_event_claims WHERE subscription = $1"
_HAS_EVENTS = (
    "SELECT EXISTS (SELECT 1 FROM acc_published_events"  # noqa: S608 - constants
    f" WHERE {_AFTER_POSITION} AND {_VISIBLE}) OR EXISTS"
    " (SELECT 1 FROM acc_event_claims WHERE subscription = $1 AND due_at <= $2)"
)
_CREATE = (
    "INSERT INTO acc_event_subscriptions (name, xact, seq) VALUES ($1, 0, 0) ON CONFLICT DO NOTHING"
)
_LOCK = "SELECT xact, seq FROM acc_event_subscriptions WHERE name = $1 FOR UPDATE"
_SET_POSITION = "UPDATE acc_event_subscriptions SET xact = $2, seq = $3 WHERE name = $1"
_DUE = (
    "SELECT c.seq, c.attempts, e.type, e.body FROM acc_event_claims c"
    " LEFT JOIN acc_published_events e ON e.seq = c.seq"
    " WHERE c.subscription = $1 AND c.due_at <= $2 ORDER BY c.due_at, c.seq LIMIT $3"
)
_NEW = (
    "SELECT xact, seq, type, body FROM acc_published_events"  # noqa: S608 - constants
    f" WHERE (xact, seq) > ($1, $2) AND {_VISIBLE} ORDER BY xact, seq LIMIT $3"
)
_CLAIM = (
    "INSERT INTO acc_event_claims (subscription, seq, attempts, due_at)"
    " SELECT $1, *, $4 FROM unnest($2::bigint[], $3::bigint[])"
    " ON CONFLICT (subscription, seq) DO UPDATE"
    " SET attempts = excluded.attempts, due_at = excluded.due_at"
)
_PRUNE = (
    "DELETE FROM acc_published_events WHERE seq IN (SELECT seq FROM acc_published_events"
    " WHERE at < $1 ORDER BY xact, seq LIMIT $2 FOR UPDATE SKIP LOCKED)"
)
_ADD_DEAD_LETTER = (
    "INSERT INTO acc_dead_letters (subscription, key, body, reason, at)"
    " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (subscription, key) DO UPDATE"
    " SET body = excluded.body, reason = excluded.reason, at = excluded.at"
)


class PostgresEventLog:
    """The log of published events in a database, usually that of the sessions."""

    def __init__(self, database: PostgresDatabase, *, clock: ClockPort) -> None:
        self.database = database
        self._clock = clock
        self._pruned_at = 0.0

    async def check(self) -> None:
        """Return if events can be stored now."""
        await self.complete("", 0)  # a write without effect

    async def publish(self, event: CloudEvent) -> None:
        """Store an event; one with the same source and id has no effect."""
        row = published_row(event, self._clock.now())
        await self.database.write(lambda c: c.execute(_ADD_PUBLISHED, *row))

    async def claim(self, interest: Interest, *, limit: int) -> Claimed:
        """Lease events that are new or due again."""
        await self.database.compare_clocks()
        now = self._now()
        if not await self.database.read(lambda c: c.fetchval(_HAS_EVENTS, interest.name, now)):
            return Claimed((), True)
        if now - self._pruned_at > _PRUNE_SECONDS:
            self._pruned_at = now
            await self.database.write(
                lambda c: c.execute(_PRUNE, now - EVENT_RETENTION_SECONDS, SCAN_LIMIT)
            )
        return await self.database.transact(lambda c: _claim(c, interest, limit, now))

    async def complete(self, name: str, seq: int) -> None:
        """End a delivery."""
        await self.database.write(
            lambda c: c.execute(
                "DELETE FROM acc_event_claims WHERE subscription = $1 AND seq = $2", name, seq
            )
        )

    async def delay(self, name: str, seq: int, *, seconds: float) -> None:
        """Make a delivery due again after so many seconds."""
        until = self._now() + seconds
        await self.database.write(
            lambda c: c.execute(
                "UPDATE acc_event_claims SET due_at = $3 WHERE subscription = $1 AND seq = $2",
                name,
                seq,
                until,
            )
        )

    async def backlog(self, interest: Interest) -> int:
        """Return how many events of a subscription are new or leased."""
        new = await self.database.read(lambda c: c.fetch(_COUNT_NEW, interest.name))
        leased = await self.database.read(lambda c: c.fetchval(_COUNT_CLAIMS, interest.name))
        return int(leased) + sum(int(count) for kind, count in new if interest.includes(kind))

    async def add_dead_letter(self, subscription: str, letter: DeadLetter) -> None:
        """Store a dead letter; one with the same key is replaced."""
        await self.database.write(lambda c: c.execute(_ADD_DEAD_LETTER, subscription, *letter))

    async def dead_letters(self, subscription: str, *, limit: int) -> tuple[DeadLetter, ...]:
        """Return dead letters, oldest first."""
        query = (
            "SELECT key, body, reason, at FROM acc_dead_letters WHERE subscription = $1"
            " ORDER BY at, id LIMIT $2"
        )
        rows = await self.database.read(lambda c: c.fetch(query, subscription, limit))
        return tuple(DeadLetter(*row) for row in rows)

    async def delete_dead_letter(self, subscription: str, key: str) -> bool:
        """Delete a dead letter; return False if there is none."""
        statement = "DELETE FROM acc_dead_letters WHERE subscription = $1 AND key = $2 RETURNING id"
        row = await self.database.write(lambda c: c.fetchrow(statement, subscription, key))
        return row is not None

    async def aclose(self) -> None:
        """Close the connections."""
        await self.database.aclose()

    def _now(self) -> float:
        """Return the time by the clock of the server, which all processes share."""
        return self._clock.now() + self.database.clock_skew


async def _claim(
    connection: "Connection[Any]", interest: Interest, limit: int, now: float
) -> Claimed:
    name, until = interest.name, now + interest.lease
    await connection.execute(_CREATE, name)
    xact, position = await connection.fetchrow(_LOCK, name)
    claimed: dict[int, EventDelivery] = {}
    dropped: list[int] = []
    for seq, attempts, event_type, body in await connection.fetch(_DUE, name, now, limit):
        if body is None or not interest.includes(event_type):
            dropped.append(seq)
        else:
            claimed[seq] = EventDelivery(str(seq), body, attempts + 1)
    scanned = 0
    for row in await connection.fetch(_NEW, xact, position, SCAN_LIMIT):
        if len(claimed) >= limit:
            break
        scanned += 1
        xact, position, event_type, body = row
        if interest.includes(event_type):
            claimed[position] = EventDelivery(str(position), body, 1)
    if dropped:
        await connection.execute(
            "DELETE FROM acc_event_claims WHERE subscription = $1 AND seq = ANY($2)", name, dropped
        )
    if scanned:
        await connection.execute(_SET_POSITION, name, xact, position)
    if claimed:
        attempts_of = [one.attempts for one in claimed.values()]
        await connection.execute(_CLAIM, name, list(claimed), attempts_of, until)
    return Claimed(tuple(claimed.values()), scanned < SCAN_LIMIT)
