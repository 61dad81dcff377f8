"""Copy a store between SQLite and PostgreSQL without loss.

Rows keep their ids. They are passed in the form of the PostgreSQL tables; the SQLite side converts
them. Leases of sessions are not copied; active tasks keep theirs, so that they are failed as
interrupted when their leases expire.
"""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg

from acc.adapters.storage.location import PostgresLocation, StoreLocation
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_task_rows import ADD_COPIED_CONTENT
from acc.adapters.storage.sqlite_schema import connect, is_new_file, storage_failed
from acc.adapters.storage.sqlite_schema import require_tables as require_sqlite_tables
from acc.adapters.storage.task_records import TASK_DECODER
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.value_objects.task import TaskState

if TYPE_CHECKING:
    from asyncpg import Connection

Rows = Sequence[Sequence[Any]]
_BATCH_SIZE = 500
_BUSY_SECONDS = 5.0
_POSITION_BITS = 32
#: The columns of the tables, in the order in which they are copied.
COLUMNS = {
    "acc_sessions": "id app_name user_id session_id seq turns run_id status updated_at lease_until"
    " fence",
    "acc_events": "session seq kind author run_id body",
    "acc_state": "scope key id value",
    "acc_artifacts": "scope name version media_type data",
    "acc_tasks": "id app_name task_id tenant caller context_id state seq updated_at revision"
    " snapshot_seq push_configs holder_host holder_pid holder_started lease_until account"
    " stored_bytes",
    "acc_task_contexts": "app_name context_id tenant caller tasks",
    "acc_task_events": "task seq body",
    "acc_task_messages": "app_name tenant caller digest task",
    "acc_push_configs": "id app_name tenant caller task config_id body due_at",
    "acc_deliveries": "id push_config seq attempts",
    "acc_recall_memories": "id app_name user_id session_id name passages indexed total_length"
    " retired",
    "acc_recall_passages": "memory position passage_id body terms",
    "acc_recall_postings": "memory term chunk data",
    "acc_recall_lengths": "memory chunk data",
    "acc_published_events": "seq source event_id type at body",
    "acc_event_subscriptions": "name",
    "acc_event_claims": "subscription seq attempts due_at",
    "acc_dead_letters": "id subscription key body reason at",
    "acc_counters": "key value expires_at",
}
#: Positions in the log differ between stores, so what a subscription has not read yet is copied as
#: a delivery that is due, and every position becomes the end of the log.
_READ_CLAIMS = (
    "SELECT subscription, seq, attempts, due_at FROM acc_event_claims UNION ALL"
    " SELECT name, e.seq, 0, 0 FROM acc_event_subscriptions s"
    " JOIN acc_published_events e ON (e.xact, e.seq) > (s.xact, s.seq)"
)
_READ = {
    "acc_sessions": "SELECT id, app_name, user_id, session_id, seq, turns, run_id, status,"
    " updated_at, 0.0, 0 FROM sessions ORDER BY id",
    "acc_events": "SELECT session, seq, kind, author, run_id, body FROM events",
    "acc_state": "SELECT scope, key, id, value FROM state ORDER BY id",
    "acc_artifacts": "SELECT scope, name, version, media_type, data FROM artifacts ORDER BY id",
    "acc_tasks": "SELECT t.id, t.app_name, task_id, o.tenant, o.caller, context_id, state, t.seq,"
    " updated_at, t.revision, (SELECT body FROM task_events WHERE task = t.id AND seq = 0),"
    " push_configs, holder_host, holder_pid, holder_started, lease_until, a.tenant, t.stored_bytes"
    " FROM tasks t JOIN task_owners o ON o.id = t.owner JOIN task_owners a ON a.id = t.account"
    " ORDER BY t.id",
    "acc_task_contexts": "SELECT c.app_name, context_id, tenant, caller, tasks"
    " FROM task_contexts c JOIN task_owners o ON o.id = c.owner",
    "acc_task_events": "SELECT task, seq, body FROM task_events",
    "acc_task_messages": "SELECT app_name, tenant, caller, digest, task"
    " FROM task_messages m JOIN task_owners o ON o.id = m.owner",
    "acc_push_configs": "SELECT p.id, p.app_name, tenant, caller, task, config_id, body, due_at"
    " FROM push_configs p JOIN task_owners o ON o.id = p.owner ORDER BY p.id",
    "acc_deliveries": "SELECT id, push_config, seq, attempts FROM deliveries ORDER BY id",
    "acc_recall_memories": "SELECT id, app_name, user_id, session_id, name, passages, indexed,"
    " total_length, coalesce(data, x'') FROM recall_memories"
    " LEFT JOIN recall_retired ON memory = id ORDER BY id",
    "acc_recall_passages": "SELECT memory, p.id & 4294967295, passage_id, body, terms"
    " FROM recall_passages p LEFT JOIN recall_unindexed u ON u.id = p.id ORDER BY p.id",
    "acc_recall_postings": "SELECT memory, term, chunk, data FROM recall_postings",
    "acc_recall_lengths": "SELECT memory, chunk, data FROM recall_lengths",
    "acc_published_events": "SELECT seq, source, event_id, type, at, body FROM published_events",
    "acc_event_subscriptions": "SELECT name FROM event_subscriptions",
    "acc_event_claims": "SELECT subscription, seq, attempts, due_at FROM event_claims UNION ALL"
    " SELECT name, seq, 0, 0.0 FROM event_subscriptions JOIN published_events ON seq > position",
    "acc_dead_letters": "SELECT id, subscription, key, body, reason, at FROM dead_letters",
    "acc_counters": "SELECT key, value, expires_at FROM counters",
}
_ADD = {
    "acc_sessions": "INSERT INTO sessions (id, app_name, user_id, session_id, seq, turns, run_id,"
    " status, updated_at, lease_until) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 + 0 * ?11)",
    "acc_events": "INSERT INTO events (session, seq, kind, author, run_id, body)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "acc_state": "INSERT INTO state (scope, key, id, value) VALUES (?, ?, ?, ?)",
    "acc_artifacts": "INSERT INTO artifacts (scope, name, version, media_type, data)"
    " VALUES (?, ?, ?, ?, ?)",
    "acc_tasks": "INSERT INTO tasks (id, app_name, task_id, owner, context_id, state, seq,"
    " updated_at, revision, push_configs, holder_host, holder_pid, holder_started, lease_until,"
    " account, stored_bytes)"
    " SELECT ?1, ?2, ?3, o.id, ?6, ?7, ?8, ?9, ?10, ?12 + 0 * ?11, ?13, ?14, ?15, ?16, a.id, ?18"
    " FROM task_owners o JOIN task_owners a ON a.app_name = ?2 AND a.tenant = ?17 AND a.caller = ?5"
    " WHERE o.app_name = ?2 AND o.tenant = ?4 AND o.caller = ?5",
    "acc_task_contexts": "INSERT INTO task_contexts (app_name, context_id, owner, tasks)"
    " SELECT ?1, ?2, id, ?5 FROM task_owners"
    " WHERE app_name = ?1 AND tenant = ?3 AND caller = ?4",
    "acc_task_events": "INSERT INTO task_events (task, seq, body) VALUES (?, ?, ?)",
    "acc_task_messages": "INSERT INTO task_messages (owner, digest, task)"
    " SELECT id, ?4, ?5 FROM task_owners WHERE app_name = ?1 AND tenant = ?2 AND caller = ?3",
    "acc_push_configs": "INSERT INTO push_configs (id, app_name, owner, task, config_id, body,"
    " due_at) SELECT ?1, ?2, id, ?5, ?6, ?7, ?8 FROM task_owners"
    " WHERE app_name = ?2 AND tenant = ?3 AND caller = ?4",
    "acc_deliveries": "INSERT INTO deliveries (id, push_config, seq, attempts) VALUES (?, ?, ?, ?)",
    "acc_recall_memories": "INSERT INTO recall_memories (id, app_name, user_id, session_id, name,"
    " passages, indexed, total_length) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    "acc_recall_passages": "INSERT INTO recall_passages (id, memory, passage_id, body)"
    " VALUES (?, ?, ?, ?)",
    "acc_recall_postings": "INSERT INTO recall_postings (memory, term, chunk, data)"
    " VALUES (?, ?, ?, ?)",
    "acc_recall_lengths": "INSERT INTO recall_lengths (memory, chunk, data) VALUES (?, ?, ?)",
    "acc_published_events": "INSERT INTO published_events (seq, source, event_id, type, at, body)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "acc_event_subscriptions": "INSERT INTO event_subscriptions (name) VALUES (?)",
    "acc_event_claims": "INSERT INTO event_claims (subscription, seq, attempts, due_at)"
    " VALUES (?, ?, ?, ?)",
    "acc_dead_letters": "INSERT INTO dead_letters (id, subscription, key, body, reason, at)"
    " VALUES (?, ?, ?, ?, ?, ?)",
    "acc_counters": "INSERT INTO counters (key, value, expires_at) VALUES (?, ?, ?)",
}
_ADD_OWNER = "INSERT OR IGNORE INTO task_owners (app_name, tenant, caller) VALUES (?, ?, ?)"
_COUNT_STATES = "UPDATE task_owners SET revision = (SELECT coalesce(max(revision), 0) FROM tasks"
_COUNT_CONTENT = (
    "UPDATE task_owners SET (stored_tasks, stored_bytes) ="
    " (SELECT count(*), coalesce(sum(stored_bytes), 0) FROM tasks WHERE account = task_owners.id)"
)
_WITH_IDENTITY = (
    "acc_sessions",
    "acc_state",
    "acc_tasks",
    "acc_push_configs",
    "acc_deliveries",
    "acc_recall_memories",
    "acc_dead_letters",
)
_SET_IDENTITY = (
    "SELECT setval(pg_get_serial_sequence('{0}', '{1}'),"
    " (SELECT coalesce(max({1}), 0) + 1 FROM {0}), false)"
)
_SET_REVISION = (
    "SELECT setval('acc_task_revisions',"
    " (SELECT coalesce(max(revision), 0) + 1 FROM acc_tasks), false)"
)


class _Store(Protocol):
    """One side of a copy."""

    def read(self, table: str) -> AsyncIterator[Rows]: ...

    async def add(self, table: str, rows: Rows) -> None: ...

    async def count(self, table: str) -> int: ...

    async def finish(self) -> None: ...


async def copy_store(
    source: StoreLocation, target: StoreLocation, *, dry_run: bool = False
) -> dict[str, int]:
    """Copy all rows to an empty store, all or none; return their number by table.

    With `dry_run` source and target are checked, and nothing is written.
    """
    if source is None or target is None:
        raise InvalidInput("a store in memory cannot be copied; name a file or a database")
    if source == target:
        raise InvalidInput("source and target of the copy are the same store")
    counts: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        reader = await stack.enter_async_context(_open(source, is_target=False))
        if dry_run:
            await _check_target(target)
            return {table: await reader.count(table) for table in COLUMNS}
        writer = await stack.enter_async_context(_open(target, is_target=True))
        await _require_empty(target, writer)
        for table in COLUMNS:
            counts[table] = 0
            async for rows in reader.read(table):
                await writer.add(table, rows)
                counts[table] += len(rows)
        await writer.finish()
    return counts


async def _check_target(target: Path | PostgresLocation) -> None:
    """Raise StorageFailed if rows cannot be copied to a store; create nothing."""
    if isinstance(target, PostgresLocation):
        is_new = not (await PostgresDatabase(target).schema()).version
    else:
        is_new = is_new_file(target)
    if not is_new:
        async with _open(target, is_target=False) as store:
            await _require_empty(target, store)


async def _require_empty(target: Path | PostgresLocation, store: _Store) -> None:
    for table in COLUMNS:
        if await store.count(table):
            raise StorageFailed(f"{target}: the store is not empty; copy to an empty one")


@asynccontextmanager
async def _open(location: Path | PostgresLocation, *, is_target: bool) -> AsyncIterator[_Store]:
    if isinstance(location, PostgresLocation):
        database = PostgresDatabase(location)
        if not is_target and not (await database.schema()).version:
            raise StorageFailed(
                f"{location}: the schema has no tables of acc; check the database and the "
                "search_path of the URL"
            )
        async with database.exclusive(isolation="repeatable_read") as connection:
            yield _PostgresStore(connection)
        return
    if not is_target:
        require_sqlite_tables(location)
    connection = connect(location, _BUSY_SECONDS)
    try:
        connection.execute("BEGIN IMMEDIATE" if is_target else "BEGIN")
        yield _SqliteStore(connection)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise storage_failed(location, error) from error
    finally:
        connection.close()  # this rolls an open transaction back


class _PostgresStore:
    """A PostgreSQL database, in a transaction."""

    def __init__(self, connection: "Connection[Any]") -> None:
        self._connection = connection

    async def read(self, table: str) -> AsyncIterator[Rows]:
        columns = COLUMNS[table].split()
        order = "id" if "id" in columns else ", ".join(columns[:2])
        query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"  # noqa: S608 - constants
        cursor = await self._connection.cursor(
            _READ_CLAIMS if table == "acc_event_claims" else query
        )
        while rows := await cursor.fetch(_BATCH_SIZE):
            yield [tuple(row) for row in rows]

    async def add(self, table: str, rows: Rows) -> None:
        columns = COLUMNS[table].split()
        try:
            await self._connection.copy_records_to_table(table, records=rows, columns=columns)
        except asyncpg.CharacterNotInRepertoireError as error:
            raise InvalidInput(_describe_nul(table, columns, rows)) from error

    async def count(self, table: str) -> int:
        count: int = await self._connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - constants
        return count

    async def finish(self) -> None:
        for table in _WITH_IDENTITY:
            await self._connection.execute(_SET_IDENTITY.format(table, "id"))
        await self._connection.execute(_SET_IDENTITY.format("acc_published_events", "seq"))
        await self._connection.execute(
            "UPDATE acc_event_subscriptions SET (xact, seq) ="
            " (SELECT coalesce(max(xact), 0), coalesce(max(seq), 0) FROM acc_published_events)"
        )
        await self._connection.execute(_SET_REVISION)
        await self._connection.execute(ADD_COPIED_CONTENT)


def _describe_nul(table: str, columns: Sequence[str], rows: Rows) -> str:
    """Return an error that names the row that PostgreSQL cannot store."""
    column, row = next(
        (column, row)
        for row in rows
        for column, value in zip(columns, row, strict=True)
        if isinstance(value, str) and "\0" in value
    )
    keys = ", ".join(f"{name} {value!r}" for name, value in zip(columns[:3], row, strict=False))
    return (
        f"{table.removeprefix('acc_')}: {column} of a row contains the character NUL, which "
        f"PostgreSQL cannot store in names ({keys}); rename or delete it in the source"
    )


class _SqliteStore:
    """A SQLite file, in a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def read(self, table: str) -> AsyncIterator[Rows]:
        cursor = self._connection.execute(_READ[table])
        while rows := list(islice(cursor, _BATCH_SIZE)):
            if table == "acc_tasks":
                rows = [
                    (*row[:10], TASK_DECODER.decode(row[10]).seq, *row[11:])  # the snapshot's seq
                    for row in rows
                ]
            yield rows

    async def add(self, table: str, rows: Rows) -> None:
        insert = self._connection.executemany
        if table == "acc_tasks":
            # A task that an earlier version stored has no account; its owner is counted instead.
            rows = [(*row[:16], row[3] if row[16] is None else row[16], row[17]) for row in rows]
            insert(_ADD_OWNER, [(row[1], row[3], row[4]) for row in rows])
            insert(_ADD_OWNER, [(row[1], row[16], row[4]) for row in rows])
        elif table == "acc_recall_memories":
            retired = [(row[0], row[-1]) for row in rows if row[-1]]
            insert("INSERT INTO recall_retired (memory, data) VALUES (?, ?)", retired)
            rows = [row[:-1] for row in rows]
        elif table == "acc_recall_passages":
            ids = [row[0] << _POSITION_BITS | row[1] for row in rows]
            pairs = list(zip(ids, rows, strict=True))
            terms = [(row_id, row[4]) for row_id, row in pairs if row[4] is not None]
            insert("INSERT INTO recall_unindexed (id, terms) VALUES (?, ?)", terms)
            rows = [(row_id, row[0], row[2], row[3]) for row_id, row in pairs]
        insert(_ADD[table], rows)

    async def count(self, table: str) -> int:
        count: int
        (count,) = self._connection.execute(
            f"SELECT count(*) FROM {table.removeprefix('acc_')}"  # noqa: S608 - constants
        ).fetchone()
        return count

    async def finish(self) -> None:
        columns = ", ".join(
            f"n_{state.value.replace('-', '_')} = (SELECT count(*) FROM tasks"  # noqa: S608 - constants
            f" WHERE owner = task_owners.id AND state = '{state.value}')"
            for state in TaskState
        )
        self._connection.execute(f"{_COUNT_STATES} WHERE owner = task_owners.id), {columns}")
        self._connection.execute(_COUNT_CONTENT)
        self._connection.execute(
            "UPDATE event_subscriptions SET position ="
            " (SELECT coalesce(max(seq), 0) FROM published_events)"
        )
