"""Session and artifact stores in a PostgreSQL database that several processes share."""

import asyncio
from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from acc.adapters.storage.invariants import (
    check_fork,
    fork_events,
    lease_lost,
    opening_events,
    session_busy,
    session_files,
)
from acc.adapters.storage.location import PostgresLocation
from acc.adapters.storage.postgres import Operation, PostgresDatabase, as_database
from acc.adapters.storage.postgres_events import PostgresEventLog
from acc.adapters.storage.postgres_recall import PostgresRecallIndex, delete_recall
from acc.adapters.storage.processes import Process, this_process
from acc.adapters.storage.session_records import (
    SEPARATOR,
    StateChange,
    decode_event,
    decode_value,
    encode_event,
    is_leased_by_other,
    progress_of,
    published_rows,
    scope_name,
    session_of,
    state_changes,
)
from acc.domain.errors import StorageFailed
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey
from acc.ports.outbound.storage_ports import LEASE_SECONDS, AppendEvents, BeginTurn, TurnStart
from acc.ports.outbound.system_ports import ClockPort

if TYPE_CHECKING:
    from asyncpg import Connection

_BY_KEY = "app_name = $1 AND user_id = $2 AND session_id = $3"
_COLUMNS = (
    "s.seq, s.turns, s.run_id, s.status, s.updated_at, s.holder, s.holder_host, s.holder_pid,"
    " s.holder_started, s.lease_until, s.id, s.fence"
)
# One row, also without a session: the state of the user and the app may exist before it.
_READ = (
    f"SELECT {_COLUMNS}, t.keys, t.values FROM"  # noqa: S608 - constants
    " (SELECT array_agg(key ORDER BY scope, id) AS keys,"
    " array_agg(value ORDER BY scope, id) AS values FROM acc_state WHERE scope = ANY($4)) t"
    " LEFT JOIN acc_sessions s ON app_name = $1 AND user_id = $2 AND session_id = $3"
)
_FIND = f"SELECT id, seq, holder, fence FROM acc_sessions WHERE {_BY_KEY}"  # noqa: S608 - constants
_LOCK = f"{_FIND} FOR UPDATE"
_STATE = "SELECT key, value FROM acc_state WHERE scope = ANY($1) ORDER BY scope, id"
# The conditions make sure that the session is as it was read.
_LEASE = (
    "UPDATE acc_sessions SET holder = $6, holder_host = $7, holder_pid = $8, holder_started = $9,"
    " lease_until = $10, seq = $11, turns = $12, run_id = $13, status = $14, updated_at = $15,"
    " fence = fence + 1"
    " WHERE id = $1 AND fence = $2 AND seq = $3 AND holder IS NOT DISTINCT FROM $4"
    " AND lease_until = $5 RETURNING id, fence, $3::bigint AS last"
)
_INSERT = (
    "INSERT INTO acc_sessions (app_name, user_id, session_id, holder, holder_host, holder_pid,"
    " holder_started, lease_until, seq, turns, run_id, status, updated_at, fence)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 1)"
    " ON CONFLICT DO NOTHING RETURNING id, fence, 0::bigint AS last"
)
# The fence: a run whose lease was acquired by another run meanwhile changes nothing.
_ADVANCE = (
    "UPDATE acc_sessions SET seq = seq + $3, turns = turns + $4, run_id = coalesce($5, run_id),"
    " status = coalesce($6, status), updated_at = $7, lease_until = $8, holder = $9"
    " WHERE id = $1 AND fence = $2 AND holder = $10 RETURNING id, fence, seq - $3 AS last"
)
_RENEW = (
    "UPDATE acc_sessions SET lease_until = $3 WHERE id = $1 AND fence = $2 AND holder = $4"
    " RETURNING id"
)
_RELEASE = f"UPDATE acc_sessions SET holder = NULL WHERE {_BY_KEY} AND holder = $4"  # noqa: S608 - constants
_LIST = (
    "SELECT session_id, seq, turns, run_id, status, updated_at FROM acc_sessions"
    " WHERE app_name = $1 AND user_id = $2 ORDER BY updated_at DESC, id DESC"
)
_NEWEST = (
    "SELECT e.seq, e.body FROM acc_sessions s JOIN acc_events e ON e.session = s.id"  # noqa: S608 - constants
    f" WHERE {_BY_KEY} AND e.kind = $4 AND e.author = $5 ORDER BY e.seq DESC LIMIT 1"
)
_EVENTS_AFTER = "SELECT seq, body FROM acc_events WHERE session = $1 AND seq > $2 ORDER BY seq"
_EVENTS_UNTIL = "SELECT seq, body FROM acc_events WHERE session = $1 AND seq <= $2 ORDER BY seq"
_SET = (
    "INSERT INTO acc_state (scope, key, value) SELECT * FROM unnest($1::text[], $2::text[],"
    " $3::bytea[]) ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"
)
_SET_HISTORY = (
    "UPDATE acc_sessions SET seq = $2, turns = $3, run_id = $4, status = $5, updated_at = $6"
    " WHERE id = $1"
)
_ADD_EVENT = (
    "INSERT INTO acc_events (session, seq, kind, author, run_id, body)"
    " VALUES ($1, $2, $3, $4, $5, $6)"
)
_COPY_EVENTS = (
    "INSERT INTO acc_events (session, seq, kind, author, run_id, body)"
    " SELECT $1, seq, kind, author, run_id, body FROM acc_events"
    " WHERE session = $2 AND seq <= $3"
)
_COPY_FILES = (
    "INSERT INTO acc_artifacts (scope, name, version, media_type, data)"
    " SELECT $1, name, version, media_type, data FROM acc_artifacts"
    " JOIN unnest($3::text[], $4::bigint[]) AS f (name, version) USING (name, version)"
    " WHERE scope = $2"
)
_DELETE_FILES = (
    "DELETE FROM acc_artifacts USING unnest($2::text[], $3::bigint[]) AS f (name, version)"
    " WHERE scope = $1 AND acc_artifacts.name = f.name AND acc_artifacts.version = f.version"
)
_MAX_CONFLICTS = 20


class _Lease:
    """The lease of a run: the row of the session and the fencing token of the acquisition."""

    __slots__ = ("fence", "lock", "row_id")

    def __init__(self, row_id: int, fence: int) -> None:
        self.row_id = row_id
        self.fence = fence
        #: Events of concurrent calls are numbered in the order of the calls.
        self.lock = asyncio.Lock()


class PostgresSessionStore:
    """Stores sessions in a database; the cost of a call does not grow with the session's history.

    Every acquisition of a lease increments the fence of the session, and every write checks it. A
    process that was paused while another one took its session over cannot write any more.

    It takes a URL, or a database that it shares with other stores. Closing the store also closes
    the database, even if it is shared.
    """

    def __init__(
        self,
        database: PostgresDatabase | PostgresLocation | str,
        *,
        clock: ClockPort,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self.database = as_database(database)
        self._clock = clock
        self.lease = lease
        self._leases: dict[tuple[SessionKey, str], _Lease] = {}

    async def open(self, key: SessionKey, *, holder: str, replaces: str = "") -> Session:
        """Acquire the lease of a session and return it, created if it does not exist."""
        now = self._clock.now()
        start = await self.database.write(
            lambda c: self._acquire(c, key, holder, now, None, replaces)
        )
        return start.session

    async def begin_turn(
        self,
        key: SessionKey,
        message: Event,
        *,
        holder: str,
        agent: str,
        waits_for_runs: bool = False,
    ) -> TurnStart:
        """Open a session and store the message that starts a run, in one transaction."""
        turn = BeginTurn(key, message, holder, agent, waits_for_runs)
        return await self.database.write(self.begin_operation(turn))

    def begin_operation(self, turn: BeginTurn) -> Operation[TurnStart]:
        """Return the operation of `begin_turn`, which may be part of a transaction."""
        now = self._clock.now()
        return lambda connection: self._acquire(connection, turn.key, turn.holder, now, turn)

    async def append(
        self, key: SessionKey, events: Sequence[Event], *, holder: str, release: bool = False
    ) -> tuple[Event, ...]:
        """Store events, all or none, apply their state deltas, and return them with numbers."""
        write = AppendEvents(key, events, holder, release)
        return await self.database.write(self.append_operation(write))

    def append_operation(self, write: AppendEvents) -> Operation[tuple[Event, ...]]:
        """Return the operation of `append`, which may be part of a transaction."""
        key, _, holder, release = write
        # Encoded now, so that later changes to mutable content are not stored.
        events = tuple(write.events)
        encoded = _EncodedEvents(key, events)
        now = self._clock.now()
        until = now + self.database.clock_skew + self.lease
        lease = self._leases.get((key, holder))

        async def store(connection: "Connection[Any]") -> tuple[Event, ...]:
            if lease is None:
                raise lease_lost(key, holder)
            values = (len(events), *encoded.progress, now, until, None if release else holder)
            async with lease.lock:
                row = await encoded.execute(
                    connection, _ADVANCE, (lease.row_id, lease.fence, *values, holder)
                )
            if row is None:
                self._leases.pop((key, holder), None)
                raise lease_lost(key, holder)
            if release:
                self._leases.pop((key, holder), None)
            seq = row[2]
            return tuple([replace(event, seq=seq + n) for n, event in enumerate(events, start=1)])

        return store

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Extend the lease."""
        lease = self._leases.get((key, holder))
        until = self._lease_clock() + self.lease
        if lease is None or not await self.database.write(
            lambda c: c.fetchrow(_RENEW, lease.row_id, lease.fence, until, holder)
        ):
            raise lease_lost(key, holder)

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """End the lease; does nothing if it is not held."""
        self._leases.pop((key, holder), None)
        await self.database.write(lambda c: c.fetchrow(_RELEASE, *key, holder))

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, leased or not."""
        row = await self.database.read(lambda c: _read(c, key))
        return None if row["id"] is None else session_of(key, row, _state_of(row))

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
        newest_first: bool = False,
    ) -> tuple[Event, ...]:
        """Return stored events in order that match all filters."""
        where, values = f"{_BY_KEY} AND e.seq > $4", [*key, after]
        for condition, value in (
            ("e.kind = ANY(${})", None if kinds is None else [kind.value for kind in kinds]),
            ("e.run_id = ${}", run_id or None),
            ("e.seq < ${}", before),
        ):
            if value is not None:
                values.append(value)
                where += f" AND {condition.format(len(values))}"
        values.append(None if limit is None else max(limit, 0))
        order = "DESC" if newest_first else "ASC"
        query = (
            "SELECT e.seq, e.body FROM acc_sessions s JOIN acc_events e ON e.session = s.id"  # noqa: S608 - placeholders only
            f" WHERE {where} ORDER BY e.seq {order} LIMIT ${len(values)}"
        )
        rows = await self.database.read(lambda c: c.fetch(query, *values))
        return tuple([decode_event(seq, body) for seq, body in rows])

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of a kind and author."""
        row = await self.database.read(lambda c: c.fetchrow(_NEWEST, *key, kind.value, author))
        return None if row is None else decode_event(*row)

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions without state, most recently used first."""
        rows = await self.database.read(lambda c: c.fetch(_LIST, app_name, user_id))
        return tuple(
            session_of(SessionKey(app_name=app_name, user_id=user_id, session_id=name), row, {})
            for name, *row in rows
        )

    async def shared_state(self, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of an app and a user, which all sessions of the user have."""
        scopes = [app_name, f"{app_name}{SEPARATOR}{user_id}"]
        rows = await self.database.read(lambda c: c.fetch(_STATE, scopes))
        return {name: decode_value(value) for name, value in rows}

    async def rewind(self, key: SessionKey, marker: Event, *, after: int, holder: str) -> Session:
        """Delete the events with a number above `after`; files and state follow."""
        now, encoded = self._clock.now(), _EncodedEvents(key, (marker,))
        lease = self._leases.get((key, holder))

        async def rewind(connection: "Connection[Any]") -> Session:
            row = await connection.fetchrow(_LOCK, *key)
            if row is None or lease is None or (row[2], row[3]) != (holder, lease.fence):
                raise lease_lost(key, holder)
            row_id, seq = row[:2]
            dropped = await _read_events(connection, _EVENTS_AFTER, row_id, after)
            await connection.execute(
                "DELETE FROM acc_events WHERE session = $1 AND seq > $2", row_id, after
            )
            scope = scope_name(key, Scope.SESSION)
            await connection.execute(_DELETE_FILES, scope, *_columns(session_files(dropped), 2))
            await connection.execute("DELETE FROM acc_state WHERE scope = $1", scope)
            await delete_recall(connection, key)  # memories add the remaining turns again
            events = await _read_events(connection, _EVENTS_UNTIL, row_id, after)
            await _set_history(connection, key, row_id, events, seq=seq, now=now)
            values = (1, *encoded.progress, now, self._lease_clock() + self.lease, holder, holder)
            await encoded.execute(connection, _ADVANCE, (row_id, row[3], *values))
            row = await _read(connection, key)
            return session_of(key, row, _state_of(row))

        return await self.database.transact(rewind)

    async def fork(self, key: SessionKey, target: SessionKey, *, after: int, agent: str) -> Session:
        """Copy the events up to `after` to a new session; a run that has not ended is canceled."""
        now = self._clock.now()

        async def fork(connection: "Connection[Any]") -> Session:
            source = await connection.fetchrow(_LOCK, *key)
            empty = (None, None, None, None, 0.0, 0, 0, "", RunStatus.COMPLETED.value, now)
            created: Any = None
            if source is not None and key[:2] == target[:2]:
                created = await connection.fetchrow(_INSERT, *target, *empty)
            check_fork(key, target, has_source=source is not None, has_target=created is None)
            events = await _read_events(connection, _EVENTS_UNTIL, source[0], after)
            await connection.execute(_COPY_EVENTS, created[0], source[0], after)
            scopes = (scope_name(target, Scope.SESSION), scope_name(key, Scope.SESSION))
            await connection.execute(_COPY_FILES, *scopes, *_columns(session_files(events), 2))
            for ended in fork_events(events, at=now, agent=agent):
                await connection.execute(_ADD_EVENT, created[0], ended.seq, *encode_event(ended))
                events += (ended,)
            seq = events[-1].seq if events else 0
            await _set_history(connection, target, created[0], events, seq=seq, now=now)
            row = await _read(connection, target)
            return session_of(target, row, _state_of(row))

        return await self.database.transact(fork)

    async def delete(self, key: SessionKey) -> None:
        """Delete a session, its events and artifacts; user and app state stay."""
        await self.database.transact(lambda c: _delete(c, key))

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Delete the sessions that are not leased and were not used since `since`.

        Return the others.
        """
        candidates = sorted(keys)  # all processes lock in the same order, which prevents deadlocks
        read = f"SELECT {_COLUMNS} FROM acc_sessions s WHERE {_BY_KEY} FOR UPDATE"  # noqa: S608 - constants

        async def delete(connection: "Connection[Any]") -> frozenset[SessionKey]:
            in_use: set[SessionKey] = set()
            for key in candidates:
                row = await connection.fetchrow(read, *key)
                if row is None:
                    continue
                now = self._lease_clock()
                if row[4] >= since or is_leased_by_other(row, "", self._process, now):
                    in_use.add(key)
                else:
                    await _delete(connection, key)
            return frozenset(in_use)

        return await self.database.transact(delete)

    def recall_index(self, key: SessionKey, name: str, terms: TermExtractor) -> PostgresRecallIndex:
        """Return the recall index of a memory of a session, which is deleted with the session."""
        return PostgresRecallIndex(self.database, key=key, name=name, terms=terms)

    def event_log(self) -> PostgresEventLog:
        """Return the log of the events that agents published."""
        return PostgresEventLog(self.database, clock=self._clock)

    async def aclose(self) -> None:
        """Close the connections once everything submitted is done."""
        await self.database.aclose()

    async def _acquire(
        self,
        connection: "Connection[Any]",
        key: SessionKey,
        holder: str,
        now: float,
        turn: BeginTurn | None,
        replaces: str = "",
    ) -> TurnStart:
        """Acquire the lease of a session, and store the events that start a turn, if any."""
        process = self._process
        for _ in range(_MAX_CONFLICTS):
            row = await _read(connection, key)
            lease_now = self._lease_clock()
            is_new = row["id"] is None
            if not is_new and is_leased_by_other(
                row, holder, process, lease_now, replaces=replaces
            ):
                raise session_busy(key, row[5])
            current = (0, 0, "", RunStatus.COMPLETED.value, now) if is_new else row[:5]
            session = session_of(key, current, _state_of(row))
            events = () if turn is None else opening_events(session, turn)
            encoded = _EncodedEvents(key, events)
            values = (
                *(holder, process.host, process.pid, process.started, lease_now + self.lease),
                *encoded.progress.apply_to(current, len(events), now),
            )
            if is_new:
                lease = await encoded.execute(connection, _INSERT, (*key, *values))
            else:
                expected = (row["id"], row["fence"], row["seq"], row["holder"], row["lease_until"])
                lease = await encoded.execute(connection, _LEASE, (*expected, *values))
            if lease is not None:
                self._leases[key, holder] = _Lease(lease[0], lease[1])
                return TurnStart(session, events)
        raise StorageFailed(
            f"{self.database.location}: session {key.session_id!r} is changed too often by other "
            "processes; try again"
        )

    def _lease_clock(self) -> float:
        """Return the time by the clock of the server, which all processes share."""
        return self._clock.now() + self.database.clock_skew

    @cached_property
    def _process(self) -> Process:
        return this_process()


class _Changes(NamedTuple):
    """The last change of every key of the state.

    `renewed` are the values of keys that were removed before, which become the last ones.
    """

    values: list[StateChange]
    renewed: list[StateChange]
    removed: list[StateChange]


class _EncodedEvents:
    """Events as rows, with the changes of their state deltas."""

    __slots__ = ("changes", "progress", "published", "rows")

    def __init__(self, key: SessionKey, events: Sequence[Event]) -> None:
        self.rows = [encode_event(event) for event in events]
        self.progress = progress_of(events)
        self.changes = _last_changes(
            [change for event in events for change in state_changes(key, event)]
        )
        self.published = published_rows(events)

    async def execute(
        self, connection: "Connection[Any]", head: str, arguments: tuple[Any, ...]
    ) -> Any:
        """Write the row of the session and, if that succeeds, events, state and publications.

        Everything is one statement, so that it is one transaction and one round trip. Return the
        row of the session's id, its fence and its last event before, None if nothing was written.
        """
        values, renewed, removed = self.changes
        written = (self.rows, values, renewed, removed, self.published)
        statement = _statement(head, len(arguments), *map(bool, written))
        if self.rows:
            arguments += _columns(self.rows, 4)
        if values:
            arguments += _columns(values, 3)
        if renewed:
            arguments += _columns(renewed, 2)
        if removed:
            arguments += _columns(removed, 2)
        if self.published:
            arguments += _columns(self.published, 5)
        return await connection.fetchrow(statement, *arguments)


@lru_cache(maxsize=64)
def _statement(
    head: str,
    n: int,
    has_events: bool,
    has_values: bool,
    has_renewed: bool,
    has_removed: bool,
    has_published: bool,
) -> str:
    """Return a statement that writes events and state if `head` returns a row."""
    text = f"WITH s AS ({head})"
    if has_events:
        text += (
            ", e AS (INSERT INTO acc_events (session, seq, kind, author, run_id, body)"  # noqa: S608 - constants
            " SELECT s.id, s.last + r.n, r.kind, r.author, r.run_id, r.body FROM s,"
            f" unnest(${n + 1}::text[], ${n + 2}::text[], ${n + 3}::text[], ${n + 4}::bytea[])"
            " WITH ORDINALITY AS r (kind, author, run_id, body, n))"
        )
        n += 4
    if has_values:
        text += (
            ", v AS (INSERT INTO acc_state AS o (scope, key, value)"  # noqa: S608 - constants
            f" SELECT r.* FROM s, unnest(${n + 1}::text[], ${n + 2}::text[], ${n + 3}::bytea[]) r"
            " ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"
        )
        n += 3
        if has_renewed:
            text += (
                ", id = CASE WHEN (o.scope, o.key) IN"  # noqa: S608 - constants
                f" (SELECT * FROM unnest(${n + 1}::text[], ${n + 2}::text[]))"
                " THEN excluded.id ELSE o.id END"
            )
            n += 2
        text += ")"
    if has_removed:
        text += (
            f", d AS (DELETE FROM acc_state USING s, unnest(${n + 1}::text[], ${n + 2}::text[])"  # noqa: S608 - constants
            " AS r (scope, key) WHERE acc_state.scope = r.scope AND acc_state.key = r.key)"
        )
        n += 2
    if has_published:
        text += (
            ", p AS (INSERT INTO acc_published_events (source, event_id, type, at, body)"  # noqa: S608 - constants
            f" SELECT r.* FROM s, unnest(${n + 1}::text[], ${n + 2}::text[], ${n + 3}::text[],"
            f" ${n + 4}::float8[], ${n + 5}::bytea[]) r ON CONFLICT DO NOTHING)"
        )
    return f"{text} SELECT id, fence, last FROM s"  # noqa: S608 - constants


def _last_changes(changes: Sequence[StateChange]) -> _Changes:
    last: dict[tuple[str, str], StateChange] = {}
    renewed: set[tuple[str, str]] = set()
    for change in changes:
        place = (change.scope, change.key)
        if place in last and last[place].value is None:
            del last[place]
            renewed.add(place)
        last[place] = change
    values = [change for change in last.values() if change.value is not None]
    return _Changes(
        values,
        [change for change in values if change[:2] in renewed],
        [change for change in last.values() if change.value is None],
    )


def _columns(rows: Sequence[Sequence[Any]], n: int) -> tuple[list[Any], ...]:
    """Return the first columns of rows as arrays."""
    return tuple([row[column] for row in rows] for column in range(n))


async def _read(connection: "Connection[Any]", key: SessionKey) -> Any:
    app, user, session = key
    user = f"{app}{SEPARATOR}{user}"
    return await connection.fetchrow(_READ, *key, [app, user, f"{user}{SEPARATOR}{session}"])


def _state_of(row: Any) -> dict[str, Any]:
    if row["keys"] is None:
        return {}
    values = map(decode_value, row["values"])
    return dict(zip(row["keys"], values, strict=True))


async def _read_events(
    connection: "Connection[Any]", query: str, session: int, seq: int
) -> tuple[Event, ...]:
    rows = await connection.fetch(query, session, seq)
    return tuple([decode_event(number, body) for number, body in rows])


async def _set_history(
    connection: "Connection[Any]",
    key: SessionKey,
    row_id: int,
    events: Sequence[Event],
    *,
    seq: int,
    now: float,
) -> None:
    """Set state, turns, run and status of a session to those of its events."""
    changes = [one for event in events for one in state_changes(key, event, only=Scope.SESSION)]
    await connection.execute(_SET, *_columns(_last_changes(changes).values, 3))
    turns, run_id, status = progress_of(events)
    status = status or RunStatus.COMPLETED.value
    await connection.execute(_SET_HISTORY, row_id, seq, turns, run_id or "", status, now)


async def _delete(connection: "Connection[Any]", key: SessionKey) -> None:
    row = await connection.fetchrow(
        f"DELETE FROM acc_sessions WHERE {_BY_KEY} RETURNING id",  # noqa: S608 - constants
        *key,
    )
    if row is not None:
        await connection.execute("DELETE FROM acc_events WHERE session = $1", row[0])
    scope = scope_name(key, Scope.SESSION)
    await connection.execute("DELETE FROM acc_state WHERE scope = $1", scope)
    await connection.execute("DELETE FROM acc_artifacts WHERE scope = $1", scope)
    await delete_recall(connection, key)
