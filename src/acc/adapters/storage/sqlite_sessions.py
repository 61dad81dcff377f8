"""Session and artifact stores in one SQLite file that several processes may share."""

import sqlite3
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from acc.adapters.storage.invariants import (
    check_fork,
    fork_events,
    lease_lost,
    opening_events,
    session_busy,
    session_files,
)
from acc.adapters.storage.processes import Process, this_process
from acc.adapters.storage.session_records import (
    SEPARATOR,
    StateChange,
    artifact_scope,
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
from acc.adapters.storage.sqlite import (
    Operation,
    SqliteDatabase,
    as_database,
    insert,
)
from acc.adapters.storage.sqlite_events import ADD_PUBLISHED, SqliteEventLog
from acc.adapters.storage.sqlite_recall import SqliteRecallIndex, delete_recall
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey, StoredArtifact
from acc.ports.outbound.storage_ports import LEASE_SECONDS, AppendEvents, BeginTurn, TurnStart
from acc.ports.outbound.system_ports import ClockPort

_BY_KEY = "app_name = ? AND user_id = ? AND session_id = ?"
_FIND = f"SELECT id, seq, holder FROM sessions WHERE {_BY_KEY}"  # noqa: S608 - constants
_READ = (
    "SELECT seq, turns, run_id, status, updated_at, holder, holder_host, holder_pid,"  # noqa: S608 - constants
    f" holder_started, lease_until, id FROM sessions WHERE {_BY_KEY}"
)
_INSERT = (
    "INSERT INTO sessions (holder, holder_host, holder_pid, holder_started, lease_until,"
    " seq, turns, run_id, status, updated_at, app_name, user_id, session_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_LEASE = (
    "UPDATE sessions SET holder = ?, holder_host = ?, holder_pid = ?, holder_started = ?,"
    " lease_until = ?, seq = ?, turns = ?, run_id = ?, status = ?, updated_at = ? WHERE id = ?"
)
_RENEW = f"UPDATE sessions SET lease_until = ? WHERE {_BY_KEY} AND holder = ?"  # noqa: S608 - constants
_RELEASE = f"UPDATE sessions SET holder = NULL WHERE {_BY_KEY} AND holder = ?"  # noqa: S608 - constants
_LIST = (
    "SELECT session_id, seq, turns, run_id, status, updated_at FROM sessions"
    " WHERE app_name = ? AND user_id = ? ORDER BY updated_at DESC, id DESC"
)
# The condition is the fence: a run without the lease changes nothing.
_ADVANCE = (
    "UPDATE sessions SET seq = ?, turns = turns + ?, run_id = coalesce(?, run_id),"  # noqa: S608 - constants
    " status = coalesce(?, status), updated_at = ?, lease_until = ?, holder = ?"
    f" WHERE id = ? AND seq = ? AND {_BY_KEY} AND holder = ?"
)
_ADD_EVENT = (
    "INSERT INTO events (session, seq, kind, author, run_id, body) VALUES (?, ?, ?, ?, ?, ?)"
)
_EVENTS_AFTER = "SELECT seq, body FROM events WHERE session = ? AND seq > ? ORDER BY seq"
_EVENTS_UNTIL = "SELECT seq, body FROM events WHERE session = ? AND seq <= ? ORDER BY seq"
_NEWEST = (
    "SELECT seq, body FROM events INDEXED BY events_by_kind"
    " WHERE session = ? AND kind = ? AND author = ? ORDER BY seq DESC LIMIT 1"
)
_SCOPE_STATE = "SELECT scope, id, key, value FROM state WHERE scope = ?"
_STATE = f"{_SCOPE_STATE} UNION ALL {_SCOPE_STATE} UNION ALL {_SCOPE_STATE}"
_SET = (
    "INSERT INTO state (scope, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"
)
_UNSET = "DELETE FROM state WHERE scope = ? AND key = ?"


class SqliteSessionStore:
    """Stores sessions in a file; the cost of a call does not grow with the session's history.

    It takes a path, or a database that it shares with other stores. Closing the store also closes
    the database, even if it is shared.
    """

    def __init__(
        self,
        database: SqliteDatabase | str | Path,
        *,
        clock: ClockPort,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self.database = as_database(database)
        self._clock = clock
        self.lease = lease
        #: Row id and last event of the sessions leased here: a hint, checked by the fence.
        self._positions: dict[tuple[SessionKey, str], tuple[int, int]] = {}

    async def open(self, key: SessionKey, *, holder: str, replaces: str = "") -> Session:
        """Acquire the lease of a session and return it, created if it does not exist."""
        now = self._clock.now()
        return await self.database.write(
            lambda connection: self._acquire(connection, key, holder, now, None, replaces).session
        )

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
        """Return the operation of `begin_turn`, to be run in a transaction of the database."""
        now = self._clock.now()
        return lambda connection: self._acquire(connection, turn.key, turn.holder, now, turn)

    async def append(
        self, key: SessionKey, events: Sequence[Event], *, holder: str, release: bool = False
    ) -> tuple[Event, ...]:
        """Store events, all or none, apply their state deltas, and return them with numbers."""
        write = AppendEvents(key, events, holder, release)
        return await self.database.write(self.append_operation(write))

    def append_operation(self, write: AppendEvents) -> Operation[tuple[Event, ...]]:
        """Return the operation of `append`, to be run in a transaction of the database."""
        key, _, holder, release = write
        # Encoded now, so that later changes to mutable content are not stored.
        events = tuple(write.events)
        encoded = _EncodedEvents(key, events)
        now = self._clock.now()
        columns = (*encoded.progress, now, now + self.lease, None if release else holder)

        def advance(connection: sqlite3.Connection, row_id: int, seq: int) -> bool:
            values = (seq + len(events), *columns, row_id, seq, *key, holder)
            return connection.execute(_ADVANCE, values).rowcount == 1

        def store(connection: sqlite3.Connection) -> tuple[Event, ...]:
            row_id, seq = self._positions.get((key, holder), (0, 0))
            if not row_id or not advance(connection, row_id, seq):
                row_id, seq, leased_by = connection.execute(_FIND, key).fetchone() or (0, 0, None)
                if leased_by != holder or not advance(connection, row_id, seq):
                    raise lease_lost(key, holder)
            encoded.insert(connection, row_id, seq)
            if release:
                self._positions.pop((key, holder), None)
            else:
                self._positions[key, holder] = (row_id, seq + len(events))
            return tuple([replace(event, seq=seq + n) for n, event in enumerate(events, start=1)])

        return store

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Extend the lease."""
        until = self._clock.now() + self.lease

        def renew(connection: sqlite3.Connection) -> None:
            if connection.execute(_RENEW, (until, *key, holder)).rowcount != 1:
                raise lease_lost(key, holder)

        await self.database.write(renew)

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """End the lease; does nothing if it is not held."""
        self._positions.pop((key, holder), None)
        await self.database.write(lambda c: c.execute(_RELEASE, (*key, holder)).close())

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, leased or not."""

        def read(connection: sqlite3.Connection) -> Session | None:
            row = connection.execute(_READ, key).fetchone()
            return None if row is None else session_of(key, row, _state(connection, key))

        return await self.database.read(read)

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
        query, values = events_query(after, before, limit, kinds, run_id, newest_first)

        def read(connection: sqlite3.Connection) -> tuple[Event, ...]:
            row = connection.execute(_FIND, key).fetchone()
            rows = connection.execute(query, (row[0], *values)) if row else ()
            return tuple(decode_event(seq, body) for seq, body in rows)

        return await self.database.read(read)

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of a kind and author."""

        def read(connection: sqlite3.Connection) -> Event | None:
            session = connection.execute(_FIND, key).fetchone()
            if session is None:
                return None
            row = connection.execute(_NEWEST, (session[0], kind.value, author)).fetchone()
            return None if row is None else decode_event(*row)

        return await self.database.read(read)

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions without state, most recently used first."""

        def read(connection: sqlite3.Connection) -> tuple[Session, ...]:
            return tuple(
                session_of(SessionKey(app_name=app_name, user_id=user_id, session_id=name), row, {})
                for name, *row in connection.execute(_LIST, (app_name, user_id))
            )

        return await self.database.read(read)

    async def shared_state(self, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of an app and a user, which all sessions of the user have."""
        # No session has this id, because ids are printable.
        scopes = (app_name, f"{app_name}{SEPARATOR}{user_id}", SEPARATOR)
        return await self.database.read(lambda c: _read_state(c, scopes))

    async def rewind(self, key: SessionKey, marker: Event, *, after: int, holder: str) -> Session:
        """Delete the events with a number above `after`; files and state follow."""
        now, encoded = self._clock.now(), _EncodedEvents(key, (marker,))

        def rewind(connection: sqlite3.Connection) -> Session:
            row_id, seq, leased_by = connection.execute(_FIND, key).fetchone() or (0, 0, None)
            if leased_by != holder:
                raise lease_lost(key, holder)
            dropped = _read_events(connection, _EVENTS_AFTER, row_id, after)
            connection.execute("DELETE FROM events WHERE session = ? AND seq > ?", (row_id, after))
            scope = scope_name(key, Scope.SESSION)
            connection.executemany(
                "DELETE FROM artifacts WHERE scope = ? AND name = ? AND version = ?",
                [(scope, *file) for file in session_files(dropped)],
            )
            connection.execute("DELETE FROM state WHERE scope = ?", (scope,))
            delete_recall(connection, key)  # memories add the remaining turns again
            events = _read_events(connection, _EVENTS_UNTIL, row_id, after)
            _set_history(connection, key, row_id, events, seq=seq + 1, now=now)
            encoded.insert(connection, row_id, seq)
            self._positions[key, holder] = (row_id, seq + 1)
            row = connection.execute(_READ, key).fetchone()
            return session_of(key, row, _state(connection, key))

        return await self.database.write(rewind)

    async def fork(self, key: SessionKey, target: SessionKey, *, after: int, agent: str) -> Session:
        """Copy the events up to `after` to a new session; a run that has not ended is canceled."""
        now = self._clock.now()

        def fork(connection: sqlite3.Connection) -> Session:
            source = connection.execute(_FIND, key).fetchone()
            has_target = connection.execute(_FIND, target).fetchone() is not None
            check_fork(key, target, has_source=source is not None, has_target=has_target)
            events = _read_events(connection, _EVENTS_UNTIL, source[0], after)
            empty = (None, None, None, None, 0.0, 0, 0, "", RunStatus.COMPLETED.value, now)
            row_id = insert(connection, _INSERT, (*empty, *target))
            connection.execute(
                "INSERT INTO events (session, seq, kind, author, run_id, body)"
                " SELECT ?, seq, kind, author, run_id, body FROM events"
                " WHERE session = ? AND seq <= ?",
                (row_id, source[0], after),
            )
            scopes = (scope_name(target, Scope.SESSION), scope_name(key, Scope.SESSION))
            connection.executemany(
                "INSERT INTO artifacts (scope, name, version, media_type, data)"
                " SELECT ?, name, version, media_type, data FROM artifacts"
                " WHERE scope = ? AND name = ? AND version = ?",
                [(*scopes, *file) for file in session_files(events)],
            )
            for ended in fork_events(events, at=now, agent=agent):
                connection.execute(_ADD_EVENT, (row_id, ended.seq, *encode_event(ended)))
                events += (ended,)
            seq = events[-1].seq if events else 0
            _set_history(connection, target, row_id, events, seq=seq, now=now)
            row = connection.execute(_READ, target).fetchone()
            return session_of(target, row, _state(connection, target))

        return await self.database.write(fork)

    async def delete(self, key: SessionKey) -> None:
        """Delete a session, its events and artifacts; user and app state stay."""
        await self.database.write(lambda c: _delete(c, key))

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Delete the sessions that are not leased and were not used since `since`.

        Return the others.
        """
        now, process, candidates = self._clock.now(), self._process, tuple(keys)

        def delete(connection: sqlite3.Connection) -> frozenset[SessionKey]:
            in_use: set[SessionKey] = set()
            for key in candidates:
                row = connection.execute(_READ, key).fetchone()
                if row is None:
                    continue
                if row[4] >= since or is_leased_by_other(row, "", process, now):
                    in_use.add(key)
                else:
                    _delete(connection, key)
            return frozenset(in_use)

        return await self.database.write(delete)

    def recall_index(self, key: SessionKey, name: str, terms: TermExtractor) -> SqliteRecallIndex:
        """Return the recall index of a memory of a session, which is deleted with the session."""
        return SqliteRecallIndex(self.database, key=key, name=name, terms=terms)

    def event_log(self) -> SqliteEventLog:
        """Return the log of the events that agents published."""
        return SqliteEventLog(self.database, clock=self._clock)

    async def aclose(self) -> None:
        """Close the file and end its thread once everything submitted is done."""
        await self.database.aclose()

    def _acquire(
        self,
        connection: sqlite3.Connection,
        key: SessionKey,
        holder: str,
        now: float,
        turn: BeginTurn | None,
        replaces: str = "",
    ) -> TurnStart:
        """Acquire the lease of a session, and store the events that start a turn, if any."""
        process = self._process
        row = connection.execute(_READ, key).fetchone()
        if row is not None and is_leased_by_other(row, holder, process, now, replaces=replaces):
            raise session_busy(key, row[5])
        current = row or (0, 0, "", RunStatus.COMPLETED.value, now)
        session = session_of(key, current, _state(connection, key))
        events = () if turn is None else opening_events(session, turn)
        encoded = _EncodedEvents(key, events)
        lease = (holder, process.host, process.pid, process.started, now + self.lease)
        lease = (*lease, *encoded.progress.apply_to(current, len(events), now))
        if row is None:
            row_id = insert(connection, _INSERT, (*lease, *key))
        else:
            row_id = row[-1]
            connection.execute(_LEASE, (*lease, row_id))
        encoded.insert(connection, row_id, session.seq)
        self._positions[key, holder] = (row_id, session.seq + len(events))
        return TurnStart(session, events)

    @cached_property
    def _process(self) -> Process:
        return this_process()


class SqliteArtifactStore:
    """Stores versioned files in a database, usually that of the sessions."""

    def __init__(self, database: SqliteDatabase | str | Path) -> None:
        self.database = as_database(database)

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a new version and return its number, from 1."""
        scope = scope_name(key, artifact_scope(name))

        def save(connection: sqlite3.Connection) -> int:
            version: int
            (version,) = connection.execute(
                "SELECT coalesce(max(version), 0) + 1 FROM artifacts WHERE scope = ? AND name = ?",
                (scope, name),
            ).fetchone()
            connection.execute(
                "INSERT INTO artifacts (scope, name, version, media_type, data)"
                " VALUES (?, ?, ?, ?, ?)",
                (scope, name, version, media_type, data),
            )
            return version

        return await self.database.write(save)

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest by default."""
        values = (scope_name(key, artifact_scope(name)), name, version)

        def load(connection: sqlite3.Connection) -> StoredArtifact | None:
            row = connection.execute(
                "SELECT version, media_type, data FROM artifacts WHERE scope = ? AND name = ?"
                " AND version = coalesce(?, version) ORDER BY version DESC LIMIT 1",
                values,
            ).fetchone()
            if row is None:
                return None
            return StoredArtifact(name=name, version=row[0], media_type=row[1], data=row[2])

        return await self.database.read(load)

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        scopes = (scope_name(key, Scope.USER), scope_name(key, Scope.SESSION))
        query = "SELECT DISTINCT name FROM artifacts WHERE scope IN (?, ?) ORDER BY name"
        return await self.database.read(lambda c: tuple(n for (n,) in c.execute(query, scopes)))

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of a name."""
        values = (scope_name(key, artifact_scope(name)), name)
        query = "SELECT version FROM artifacts WHERE scope = ? AND name = ? ORDER BY version"
        return await self.database.read(lambda c: tuple(n for (n,) in c.execute(query, values)))

    async def contents(self, prefix: bytes) -> frozenset[bytes]:
        """Return the contents that begin with some bytes."""
        query = "SELECT DISTINCT data FROM artifacts WHERE substr(data, 1, ?) = ?"
        values = (len(prefix), prefix)
        return await self.database.read(
            lambda c: frozenset(data for (data,) in c.execute(query, values))
        )


def events_query(
    after: int,
    before: int | None,
    limit: int | None,
    kinds: Collection[EventKind] | None,
    run_id: str,
    newest_first: bool,
) -> tuple[str, list[Any]]:
    """Return the query for a session's events, and its values after the id of the session."""
    # The index is chosen here because SQLite has no statistics about these tables.
    index, where, values = "", "session = ?", list[Any]()
    if kinds is not None:
        # The index has no order by number across kinds, so all events of the kinds would be read.
        in_order = newest_first or (after > 0 and len(kinds) > 1)
        index = " NOT INDEXED" if in_order else " INDEXED BY events_by_kind"
        where += f" AND kind IN ({', '.join('?' * len(kinds))})"
        values += [kind.value for kind in kinds]
    if run_id:
        index = " INDEXED BY events_by_run"
        where += " AND run_id = ?"
        values.append(run_id)
    where += " AND seq > ?"
    values.append(after)
    if before is not None:
        where += " AND seq < ?"
        values.append(before)
    values.append(-1 if limit is None else max(limit, 0))
    order = "seq DESC" if newest_first else "seq"
    query = f"SELECT seq, body FROM events{index} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608 - placeholders only
    return query, values


class _EncodedEvents:
    """Events as rows, with the statements of their state deltas."""

    __slots__ = ("progress", "published", "rows", "statements")

    def __init__(self, key: SessionKey, events: Sequence[Event]) -> None:
        self.rows = [encode_event(event) for event in events]
        self.statements = [
            _statement(change) for event in events for change in state_changes(key, event)
        ]
        self.progress = progress_of(events)
        self.published = published_rows(events)

    def insert(self, connection: sqlite3.Connection, session: int, seq: int) -> None:
        """Insert the rows after event `seq` of a session, state deltas and published events."""
        rows = [(session, seq + n, *row) for n, row in enumerate(self.rows, start=1)]
        connection.executemany(_ADD_EVENT, rows)
        for statement, values in self.statements:
            connection.execute(statement, values)
        if self.published:
            connection.executemany(ADD_PUBLISHED, self.published)


def _statement(change: StateChange) -> tuple[str, tuple[Any, ...]]:
    return (_UNSET, change[:2]) if change.value is None else (_SET, change)


def _delete(connection: sqlite3.Connection, key: SessionKey) -> None:
    scope = (scope_name(key, Scope.SESSION),)
    connection.execute("DELETE FROM state WHERE scope = ?", scope)
    connection.execute("DELETE FROM artifacts WHERE scope = ?", scope)
    delete_recall(connection, key)
    row = connection.execute(_FIND, key).fetchone()
    if row is not None:
        connection.execute("DELETE FROM events WHERE session = ?", row[:1])
        connection.execute("DELETE FROM sessions WHERE id = ?", row[:1])


def _set_history(
    connection: sqlite3.Connection,
    key: SessionKey,
    row_id: int,
    events: Sequence[Event],
    *,
    seq: int,
    now: float,
) -> None:
    """Set state, turns, run and status of a session to those of its events."""
    for event in events:
        for change in state_changes(key, event, only=Scope.SESSION):
            connection.execute(*_statement(change))
    turns, run_id, status = progress_of(events)
    connection.execute(
        "UPDATE sessions SET seq = ?, turns = ?, run_id = ?, status = ?, updated_at = ?"
        " WHERE id = ?",
        (seq, turns, run_id or "", status or RunStatus.COMPLETED.value, now, row_id),
    )


def _read_events(
    connection: sqlite3.Connection, query: str, session: int, seq: int
) -> tuple[Event, ...]:
    rows = connection.execute(query, (session, seq))
    return tuple(decode_event(number, body) for number, body in rows)


def _state(connection: sqlite3.Connection, key: SessionKey) -> dict[str, Any]:
    app, user, session = key
    user = f"{app}{SEPARATOR}{user}"
    return _read_state(connection, (app, user, f"{user}{SEPARATOR}{session}"))


def _read_state(connection: sqlite3.Connection, scopes: tuple[str, str, str]) -> dict[str, Any]:
    rows = sorted(connection.execute(_STATE, scopes).fetchall())
    return {name: decode_value(value) for _, _, name, value in rows}
