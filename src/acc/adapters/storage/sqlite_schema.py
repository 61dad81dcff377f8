"""The tables of the SQLite file, and the connection to it."""

import sqlite3
import time
from pathlib import Path

from acc.domain.errors import StorageFailed

#: Version of the tables. Files of other versions are rejected: there is no released version before.
SCHEMA_VERSION = 8
_APPLICATION_ID = 0x61636373  # "accs", to recognise our files
_TABLES = (
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        turns INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        status TEXT NOT NULL,
        updated_at REAL NOT NULL,
        holder TEXT,
        holder_host TEXT,
        holder_pid INTEGER,
        holder_started TEXT,
        lease_until REAL NOT NULL,
        UNIQUE (app_name, user_id, session_id)
    )
    """,
    """
    CREATE TABLE events (
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        author TEXT NOT NULL,
        run_id TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX events_by_kind ON events (session, kind, author, seq)",
    "CREATE INDEX events_by_run ON events (session, run_id, seq)",
    # The ids preserve the order in which keys were first written.
    """
    CREATE TABLE state (
        id INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (scope, key)
    )
    """,
    """
    CREATE TABLE artifacts (
        id INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        media_type TEXT NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (scope, name, version)
    )
    """,
    # The number of an owner's listed tasks by state; `revision` numbers their status changes.
    # `stored_tasks` and `stored_bytes` count the tasks whose account is this owner.
    """
    CREATE TABLE task_owners (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        tenant TEXT NOT NULL,
        caller TEXT NOT NULL,
        revision INTEGER NOT NULL DEFAULT 0,
        n_submitted INTEGER NOT NULL DEFAULT 0,
        n_working INTEGER NOT NULL DEFAULT 0,
        n_input_required INTEGER NOT NULL DEFAULT 0,
        n_auth_required INTEGER NOT NULL DEFAULT 0,
        n_completed INTEGER NOT NULL DEFAULT 0,
        n_failed INTEGER NOT NULL DEFAULT 0,
        n_canceled INTEGER NOT NULL DEFAULT 0,
        n_rejected INTEGER NOT NULL DEFAULT 0,
        n_unknown INTEGER NOT NULL DEFAULT 0,
        stored_tasks INTEGER NOT NULL DEFAULT 0,
        stored_bytes INTEGER NOT NULL DEFAULT 0,
        UNIQUE (app_name, tenant, caller)
    )
    """,
    """
    CREATE TABLE task_contexts (
        app_name TEXT NOT NULL,
        context_id TEXT NOT NULL,
        owner INTEGER NOT NULL,
        tasks INTEGER NOT NULL,
        PRIMARY KEY (app_name, context_id)
    ) WITHOUT ROWID
    """,
    # Each further index costs a page write whenever a task changes its state.
    """
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        task_id TEXT NOT NULL,
        owner INTEGER NOT NULL,
        account INTEGER NOT NULL,
        stored_bytes INTEGER NOT NULL,
        context_id TEXT NOT NULL,
        state TEXT NOT NULL,
        seq INTEGER NOT NULL,
        updated_at REAL NOT NULL,
        revision INTEGER NOT NULL,
        push_configs INTEGER NOT NULL,
        holder_host TEXT NOT NULL,
        holder_pid INTEGER NOT NULL,
        holder_started TEXT NOT NULL,
        lease_until REAL NOT NULL,
        UNIQUE (app_name, task_id)
    )
    """,
    # A task with a direct reply has the state 'replied' and is not listed.
    "CREATE INDEX tasks_by_state ON tasks (owner, state, updated_at, revision)",
    "CREATE INDEX tasks_by_context ON tasks (owner, context_id, updated_at, revision)"
    " WHERE state <> 'replied'",
    "CREATE INDEX tasks_active ON tasks (app_name) WHERE state IN ('submitted', 'working')",
    # Event 0 is a snapshot of the task, so that only later events are read.
    """
    CREATE TABLE task_events (
        task INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (task, seq)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE task_messages (
        owner INTEGER NOT NULL,
        digest BLOB NOT NULL,
        task INTEGER NOT NULL,
        PRIMARY KEY (owner, digest)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX messages_by_task ON task_messages (task)",
    # `due_at` is the time of the first pending delivery, NULL if there is none. `owner` lets a
    # query skip an owner without reading what is pending.
    """
    CREATE TABLE push_configs (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        owner INTEGER NOT NULL,
        task INTEGER NOT NULL,
        config_id TEXT NOT NULL,
        body BLOB NOT NULL,
        due_at REAL,
        UNIQUE (task, config_id)
    )
    """,
    "CREATE INDEX push_configs_due ON push_configs (app_name, due_at) WHERE due_at IS NOT NULL",
    "CREATE INDEX push_configs_by_owner ON push_configs (app_name, owner, due_at)"
    " WHERE due_at IS NOT NULL",
    # AUTOINCREMENT: ids are never reused, so that a late call cannot complete another delivery.
    """
    CREATE TABLE deliveries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        push_config INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        attempts INTEGER NOT NULL
    )
    """,
    "CREATE INDEX deliveries_by_push_config ON deliveries (push_config, id)",
    # The passages of a memory are numbered from 0. Those from `indexed` on are not in the postings.
    """
    CREATE TABLE recall_memories (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        name TEXT NOT NULL,
        passages INTEGER NOT NULL,
        indexed INTEGER NOT NULL,
        total_length INTEGER NOT NULL,
        UNIQUE (app_name, user_id, session_id, name)
    )
    """,
    # The id consists of the memory and the number of the passage.
    """
    CREATE TABLE recall_passages (
        id INTEGER PRIMARY KEY,
        memory INTEGER NOT NULL,
        passage_id TEXT NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (memory, passage_id)
    )
    """,
    "CREATE TABLE recall_unindexed (id INTEGER PRIMARY KEY, terms TEXT NOT NULL)",
    # The numbers of passages that contain a term, in four bytes each, little-endian.
    """
    CREATE TABLE recall_postings (
        memory INTEGER NOT NULL,
        term TEXT NOT NULL,
        chunk INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (memory, term, chunk)
    ) WITHOUT ROWID
    """,
    # The number of terms of each passage, in one byte each.
    """
    CREATE TABLE recall_lengths (
        memory INTEGER NOT NULL,
        chunk INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (memory, chunk)
    ) WITHOUT ROWID
    """,
    # Pairs of numbers: a retired passage and what replaces it.
    "CREATE TABLE recall_retired (memory INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    # What agents published. AUTOINCREMENT: subscriptions have passed the numbers of deleted rows.
    """
    CREATE TABLE published_events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        source TEXT NOT NULL,
        event_id TEXT NOT NULL,
        type TEXT NOT NULL,
        at REAL NOT NULL,
        body BLOB NOT NULL,
        UNIQUE (source, event_id)
    )
    """,
    # Events up to `position` were delivered; those without an acknowledgement are claims.
    "CREATE TABLE event_subscriptions"
    " (name TEXT PRIMARY KEY, position INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
    """
    CREATE TABLE event_claims (
        subscription TEXT NOT NULL,
        seq INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due_at REAL NOT NULL,
        PRIMARY KEY (subscription, seq)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE dead_letters (
        id INTEGER PRIMARY KEY,
        subscription TEXT NOT NULL,
        key TEXT NOT NULL,
        body BLOB NOT NULL,
        reason TEXT NOT NULL,
        at REAL NOT NULL,
        UNIQUE (subscription, key)
    )
    """,
    # Counters of rate limits, and ids that must not be used again. The keys are digests.
    "CREATE TABLE counters (key BLOB PRIMARY KEY, value INTEGER NOT NULL, expires_at REAL NOT NULL)"
    " WITHOUT ROWID",
    "CREATE INDEX counters_by_expiry ON counters (expires_at)",
)
_RETRY_SECONDS = 0.01
_HINTS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_BUSY: "another process has locked it; try again when that is done",
    sqlite3.SQLITE_LOCKED: "another process has locked it; try again when that is done",
    sqlite3.SQLITE_READONLY: "it is not writable; check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file and its permissions",
    sqlite3.SQLITE_PERM: "it cannot be opened; check its permissions",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; choose another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away, or restore a copy",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write it; check the disk",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite supports",
}
_CONNECTION_SURVIVES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Return a connection with all tables; StorageFailed if the file cannot be used."""
    _require_folder(path)
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            return _connect_once(path, busy_timeout)
        except sqlite3.Error as error:
            # Two processes that switch to WAL at the same time do not wait; one of them fails.
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise storage_failed(path, error) from error
            time.sleep(_RETRY_SECONDS)


def is_new_file(path: Path) -> bool:
    """Return True if a connection would create the tables; StorageFailed if there is no folder."""
    _require_folder(path)
    return not path.exists() or not path.stat().st_size


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise StorageFailed(f"{path}: the folder {path.parent} does not exist; create it first")


def require_tables(path: Path) -> int:
    """Return the schema version of a file; StorageFailed if it does not exist or has no tables."""
    if not path.is_file():
        raise StorageFailed(f"{path}: the file does not exist; check the path")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            has_tables = _has_tables(path, connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise storage_failed(path, error) from error
    if not has_tables:
        raise StorageFailed(f"{path}: the file has no tables of acc; check the path")
    return SCHEMA_VERSION


def storage_failed(path: Path, error: sqlite3.Error) -> StorageFailed:
    """Return the error for an SQLite error: the file, the reason, and what to do."""
    code = primary_code(error)
    hint, is_locked = _HINTS.get(code), code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    text = f"{path}: {hint} ({error})" if hint else f"{path}: {error}"
    return StorageFailed(text, is_temporary=is_locked)


def is_connection_usable_after(error: sqlite3.Error) -> bool:
    """Return True if the connection can be used again after a rollback."""
    return primary_code(error) in _CONNECTION_SURVIVES


def primary_code(error: sqlite3.Error) -> int:
    """Return the primary result code of an SQLite error."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _connect_once(path: Path, busy_timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
    try:
        connection.execute("BEGIN")  # both pragmas are read in one snapshot
        has_tables = _has_tables(path, connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not has_tables:
            _create_tables(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(path, connection):  # another process may have created them meanwhile
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _has_tables(path: Path, connection: sqlite3.Connection) -> bool:
    """Return False for an empty file; StorageFailed for another program's or version's file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION_ID:
        if version != SCHEMA_VERSION:
            raise StorageFailed(
                f"{path}: the file has schema version {version}, this acc uses {SCHEMA_VERSION}; "
                "use the acc that wrote it, or choose another path"
            )
        return True
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StorageFailed(
            f"{path}: the file is a database of another program; choose another path"
        )
    return False
