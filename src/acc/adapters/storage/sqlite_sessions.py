"""Sessions and artifacts in one SQLite file, which several processes may use at once."""

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.storage.invariants import (
    busy,
    continues,
    encoded,
    not_held,
    out_of_order,
    readable,
    starts_run,
)
from acc.adapters.storage.sqlite import Process, SqliteDatabase, added, as_database, this_process
from acc.domain.errors import SessionConflict
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey, StoredArtifact, scope_of
from acc.ports.outbound.storage_ports import AlongPort
from acc.ports.outbound.system_ports import ClockPort

_BETWEEN = "\x1f"  # stands in no id, because ids are printable
_PARTS = {Scope.APP: 1, Scope.USER: 2, Scope.SESSION: 3}
_EVENTS = msgspec.json.Decoder(Event)
_VALUES = msgspec.json.Decoder()
_THIS_SESSION = "app_name = ? AND user_id = ? AND session_id = ?"
_FIND = f"SELECT id, seq, holder FROM sessions WHERE {_THIS_SESSION}"  # noqa: S608 - constants
_READ = (
    "SELECT seq, turns, run_id, status, updated_at, holder, holder_host, holder_pid,"  # noqa: S608 - constants
    f" holder_started, lease_until, id FROM sessions WHERE {_THIS_SESSION}"
)
_MAKE = (
    "INSERT INTO sessions (holder, holder_host, holder_pid, holder_started, lease_until,"
    " seq, turns, run_id, status, updated_at, app_name, user_id, session_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HOLD = (
    "UPDATE sessions SET holder = ?, holder_host = ?, holder_pid = ?, holder_started = ?,"
    " lease_until = ?, seq = ?, turns = ?, run_id = ?, status = ?, updated_at = ? WHERE id = ?"
)
_RENEW = f"UPDATE sessions SET lease_until = ? WHERE {_THIS_SESSION} AND holder = ?"  # noqa: S608 - constants
_RELEASE = f"UPDATE sessions SET holder = NULL WHERE {_THIS_SESSION} AND holder = ?"  # noqa: S608 - constants
_LIST = (
    "SELECT session_id, seq, turns, run_id, status, updated_at FROM sessions"
    " WHERE app_name = ? AND user_id = ? ORDER BY updated_at DESC, id DESC"
)
# The fence: whoever was put out, or counts from another number, changes nothing.
_ADVANCE = (
    "UPDATE sessions SET seq = ?, turns = turns + ?, run_id = coalesce(?, run_id),"  # noqa: S608 - constants
    " status = coalesce(?, status), updated_at = ?, lease_until = ?, holder = ?"
    f" WHERE id = ? AND {_THIS_SESSION} AND seq = ? AND holder = ?"
)
_ADD = "INSERT INTO events (session, seq, kind, author, run_id, body) VALUES (?, ?, ?, ?, ?, ?)"
_NEWEST = (
    "SELECT body FROM events INDEXED BY events_by_kind"
    " WHERE session = ? AND kind = ? AND author = ? ORDER BY seq DESC LIMIT 1"
)
_OF_SCOPE = "SELECT scope, id, key, value FROM state WHERE scope = ?"
_STATE = f"{_OF_SCOPE} UNION ALL {_OF_SCOPE} UNION ALL {_OF_SCOPE}"
_SET = (
    "INSERT INTO state (scope, key, value) VALUES (?, ?, ?)"
    " ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"
)
_UNSET = "DELETE FROM state WHERE scope = ? AND key = ?"
_Row = tuple[Any, ...]


class SqliteSessionStore:
    """Keeps sessions in a file; what a call costs does not grow with a session's history.

    It takes a path, or the database that it shares with other stores. Closing it closes that.
    """

    def __init__(
        self, database: SqliteDatabase | str | Path, *, clock: ClockPort, lease: float = 30.0
    ) -> None:
        self.database = as_database(database)
        self._clock = clock
        self._lease = lease
        #: Where the sessions are that are held here. It is checked before it is believed.
        self._numbers: dict[tuple[SessionKey, str], int] = {}

    async def open(self, key: SessionKey, *, holder: str) -> Session:
        """Take hold of a session and return it, made anew if need be; SessionBusy if it is held."""
        session, _ = await self.begin(key, lambda _: (), holder=holder)
        return session

    async def begin(
        self,
        key: SessionKey,
        first: Callable[[Session], Sequence[Event]],
        *,
        holder: str,
        along: AlongPort | None = None,
    ) -> tuple[Session, tuple[Event, ...]]:
        """Open a session and store the events that a run of it begins with, in one go."""
        now = self._clock.now()
        me = self._process
        joined = self.database.along(along)

        def take(connection: sqlite3.Connection) -> tuple[Session, tuple[Event, ...]]:
            row = connection.execute(_READ, _names(key)).fetchone()
            if row is not None and _is_held_by_another(row, holder, me, now):
                raise busy(key, row[5])
            found = row or (0, 0, "", RunStatus.COMPLETED.value, now)
            session = _session(key, found, _state(connection, key))
            events = tuple(first(session))
            stored = _Stored(key, events)
            if not continues(session.seq, events):
                raise out_of_order(key, session.seq, events)
            held = (holder, me.host, me.pid, me.started, now + self._lease)
            held = (*held, *stored.after(found, now))
            if row is None:
                number = added(connection, _MAKE, (*held, *_names(key)))
            else:
                number = row[-1]
                connection.execute(_HOLD, (*held, number))
            self._numbers[key, holder] = number
            stored.add(connection, number)
            if joined is not None and events:
                joined.do(connection)
            return session, events

        session, events = await self.database.write(take)
        if along is not None and joined is None and events:
            await along.store()
        return session, events

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        holder: str,
        release: bool = False,
        along: AlongPort | None = None,
    ) -> None:
        """Store events, all or none, and apply their state deltas; returning acknowledges them."""
        # Copied and encoded before anything else can run: what is stored is what the caller had.
        events = tuple(events)
        stored = _Stored(key, events)
        is_gapless = not events or continues(events[0].seq - 1, events)
        now = self._clock.now()
        joined = self.database.along(along)

        def store(connection: sqlite3.Connection) -> None:
            before = events[0].seq - 1 if events else _seq(connection, key)
            kept = None if release else holder
            moved = (before + len(events), *stored.progress, now, now + self._lease, kept)
            fence = (*_names(key), before, holder)
            for number in self._places(connection, key, holder) if is_gapless else ():
                if connection.execute(_ADVANCE, (*moved, number, *fence)).rowcount == 1:
                    break
            else:
                raise _refusal(connection, key, events, holder)
            stored.add(connection, number)
            if joined is not None:
                joined.do(connection)

        await self.database.write(store)
        if release:
            self._numbers.pop((key, holder), None)
        if along is not None and joined is None:
            await along.store()

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Keep hold for another lease."""
        until = self._clock.now() + self._lease

        def renew(connection: sqlite3.Connection) -> None:
            if connection.execute(_RENEW, (until, *_names(key), holder)).rowcount != 1:
                raise not_held(key, holder)

        await self.database.write(renew)

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """Let go of the session; harmless if it is not held."""
        self._numbers.pop((key, holder), None)
        await self.database.write(lambda c: c.execute(_RELEASE, (*_names(key), holder)).close())

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, held by someone or not."""

        def read(connection: sqlite3.Connection) -> Session | None:
            row = connection.execute(_READ, _names(key)).fetchone()
            return None if row is None else _session(key, row, _state(connection, key))

        return await self.database.read(read)

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
    ) -> tuple[Event, ...]:
        """Return stored events in order, those that pass all the filters given."""
        query, values = events_query(after, limit, kinds, run_id)

        def read(connection: sqlite3.Connection) -> tuple[Event, ...]:
            found = connection.execute(_FIND, _names(key)).fetchone()
            rows = connection.execute(query, (found[0], *values)) if found else ()
            return tuple(_EVENTS.decode(body) for (body,) in rows)

        return await self.database.read(read)

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of one kind and author."""

        def read(connection: sqlite3.Connection) -> Event | None:
            found = connection.execute(_FIND, _names(key)).fetchone()
            if found is None:
                return None
            row = connection.execute(_NEWEST, (found[0], kind.value, author)).fetchone()
            return None if row is None else _EVENTS.decode(row[0])

        return await self.database.read(read)

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions, the last used first, without their state."""

        def read(connection: sqlite3.Connection) -> tuple[Session, ...]:
            return tuple(
                _session(SessionKey(app_name=app_name, user_id=user_id, session_id=name), row, {})
                for name, *row in connection.execute(_LIST, (app_name, user_id))
            )

        return await self.database.read(read)

    async def delete(self, key: SessionKey) -> None:
        """Forget a session, its events and artifacts; state of user and app stays."""
        await self.database.write(lambda c: _delete(c, key))

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Forget sessions that nobody holds or has used since a time; return those that stay."""
        now, me, asked = self._clock.now(), self._process, tuple(keys)

        def delete(connection: sqlite3.Connection) -> frozenset[SessionKey]:
            used: set[SessionKey] = set()
            for key in asked:
                row = connection.execute(_READ, _names(key)).fetchone()
                if row is None:
                    continue
                if row[4] >= since or _is_held_by_another(row, "", me, now):
                    used.add(key)
                else:
                    _delete(connection, key)
            return frozenset(used)

        return await self.database.write(delete)

    async def aclose(self) -> None:
        """Let go of the file and its thread, once all that was submitted is done."""
        await self.database.aclose()

    def _places(
        self, connection: sqlite3.Connection, key: SessionKey, holder: str
    ) -> Iterator[int]:
        """Yield where a session may be, from memory first."""
        if (number := self._numbers.get((key, holder))) is not None:
            yield number
        if (found := connection.execute(_FIND, _names(key)).fetchone()) is not None:
            yield found[0]

    @cached_property
    def _process(self) -> Process:
        return this_process()


class SqliteArtifactStore:
    """Keeps versioned files in a database, usually that of the sessions."""

    def __init__(self, database: SqliteDatabase | str | Path) -> None:
        self.database = as_database(database)

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a further version and return its number, from 1 on."""
        scope = _scope(key, _artifact_scope(name))

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
        """Return a version, the newest if none is named."""
        wanted = (_scope(key, _artifact_scope(name)), name, version)

        def load(connection: sqlite3.Connection) -> StoredArtifact | None:
            row = connection.execute(
                "SELECT version, media_type, data FROM artifacts WHERE scope = ? AND name = ?"
                " AND version = coalesce(?, version) ORDER BY version DESC LIMIT 1",
                wanted,
            ).fetchone()
            if row is None:
                return None
            return StoredArtifact(name=name, version=row[0], media_type=row[1], data=row[2])

        return await self.database.read(load)

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        scopes = (_scope(key, Scope.USER), _scope(key, Scope.SESSION))
        query = "SELECT DISTINCT name FROM artifacts WHERE scope IN (?, ?) ORDER BY name"
        return await self.database.read(lambda c: tuple(n for (n,) in c.execute(query, scopes)))

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of one name."""
        where = (_scope(key, _artifact_scope(name)), name)
        query = "SELECT version FROM artifacts WHERE scope = ? AND name = ? ORDER BY version"
        return await self.database.read(lambda c: tuple(n for (n,) in c.execute(query, where)))


def events_query(
    after: int, limit: int | None, kinds: Collection[EventKind] | None, run_id: str
) -> tuple[str, list[Any]]:
    """Return the query for a session's events, and its values after the session's number."""
    # Which index serves best is known here and not to SQLite, which keeps no statistics of a run.
    index, where, values = "", "session = ?", list[Any]()
    if kinds is not None:
        index = " INDEXED BY events_by_kind"
        where += f" AND kind IN ({', '.join('?' * len(kinds))})"
        values += [kind.value for kind in kinds]
    if run_id:
        index = " INDEXED BY events_by_run"
        where += " AND run_id = ?"
        values.append(run_id)
    values += [after, -1 if limit is None else max(limit, 0)]
    query = f"SELECT body FROM events{index} WHERE {where} AND seq > ? ORDER BY seq LIMIT ?"  # noqa: S608 - placeholders only
    return query, values


def _seq(connection: sqlite3.Connection, key: SessionKey) -> int:
    found = connection.execute(_FIND, _names(key)).fetchone()
    return 0 if found is None else found[1]


def _refusal(
    connection: sqlite3.Connection, key: SessionKey, events: Sequence[Event], holder: str
) -> SessionConflict:
    """Return why events cannot be stored."""
    _, seq, held_by = connection.execute(_FIND, _names(key)).fetchone() or (0, 0, None)
    return not_held(key, holder) if held_by != holder else out_of_order(key, seq, events)


def _names(key: SessionKey) -> tuple[str, str, str]:
    return (key.app_name, key.user_id, key.session_id)


def _scope(key: SessionKey, scope: Scope) -> str:
    """Return what a scope is called in the tables: sorted, the app comes first."""
    return _BETWEEN.join(_names(key)[: _PARTS[scope]])


def _artifact_scope(name: str) -> Scope:
    return Scope.USER if name.startswith(Scope.USER) else Scope.SESSION


def _delete(connection: sqlite3.Connection, key: SessionKey) -> None:
    scope = (_scope(key, Scope.SESSION),)
    connection.execute("DELETE FROM state WHERE scope = ?", scope)
    connection.execute("DELETE FROM artifacts WHERE scope = ?", scope)
    found = connection.execute(_FIND, _names(key)).fetchone()
    if found is not None:
        connection.execute("DELETE FROM events WHERE session = ?", found[:1])
        connection.execute("DELETE FROM sessions WHERE id = ?", found[:1])


def _is_held_by_another(row: _Row, holder: str, me: Process, now: float) -> bool:
    held_by, host, pid, started, lease_until = row[5:10]
    if held_by is None or lease_until <= now:
        return False
    process = Process(host, pid, started)
    return not (held_by == holder and process == me) and not process.is_gone(me)


def _session(key: SessionKey, row: Sequence[Any], state: dict[str, Any]) -> Session:
    seq, turns, run_id, status, updated_at = row[:5]
    return Session(
        key=key,
        state=state,
        seq=seq,
        turns=turns,
        run_id=run_id,
        status=RunStatus(status),
        updated_at=updated_at,
    )


def _state(connection: sqlite3.Connection, key: SessionKey) -> dict[str, Any]:
    app, user, session = _names(key)
    user = f"{app}{_BETWEEN}{user}"
    scopes = (app, user, f"{user}{_BETWEEN}{session}")
    rows = sorted(connection.execute(_STATE, scopes).fetchall())
    return {name: _VALUES.decode(value) for _, _, name, value in rows}


class _Stored:
    """Events as they are written down."""

    __slots__ = ("changes", "progress", "rows")

    def __init__(self, key: SessionKey, events: Sequence[Event]) -> None:
        self.rows = [_encoded(event) for event in events]
        self.changes = [change for event in events for change in _changes(key, event)]
        self.progress = _progress(events)

    def after(self, row: _Row, now: float) -> _Row:
        """Return where the events leave a session: its number, turns, run, status and time."""
        seq, turns, run_id, status, updated_at = row[:5]
        more, *last = self.progress
        return (
            seq + len(self.rows),
            turns + more,
            last[0] or run_id,
            last[1] or status,
            now if self.rows else updated_at,
        )

    def add(self, connection: sqlite3.Connection, session: int) -> None:
        """Add them to a session."""
        connection.executemany(_ADD, [(session, *row) for row in self.rows])
        for statement, values in self.changes:
            connection.execute(statement, values)


def _encoded(event: Event) -> tuple[int, str, str, str, bytes]:
    body = readable(event, f"event {event.seq} of {event.author!r}", _EVENTS)
    return (event.seq, event.kind.value, event.author, event.run_id, body)


def _progress(events: Sequence[Event]) -> tuple[int, str | None, str | None]:
    """Return how many turns events begin, and the run and status they lead to, if to another."""
    turns, run_id, status = 0, None, None
    for event in events:
        if starts_run(event):
            turns += 1
            run_id = event.run_id
            status = RunStatus.WORKING.value
        elif event.kind is EventKind.ENDED and event.status is not None:
            status = event.status.value
    return turns, run_id, status


def _changes(key: SessionKey, event: Event) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the statements that an event's state delta comes to."""
    for name, value in event.actions.state_delta.items():
        if (scope := scope_of(name)) is not Scope.TEMP:
            yield _SET, (_scope(key, scope), name, encoded(value, f"state {name!r}"))
    for name in event.actions.state_removed:
        if (scope := scope_of(name)) is not Scope.TEMP:
            yield _UNSET, (_scope(key, scope), name)
