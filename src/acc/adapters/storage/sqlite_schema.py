"""The tables of our SQLite file, and how a connection to it is made."""

import sqlite3
import time
from pathlib import Path

from acc.domain.errors import StorageFailed

VERSION = 3
_APPLICATION = 0x61636373  # "accs"; tells our files from other people's databases
_OF_SESSIONS = (
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
    # The ids keep the order in which keys were first written.
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
)
_OF_TASKS = (
    # How many of an owner's tasks are listed, by state; `moves` numbers what happens to them.
    """
    CREATE TABLE task_owners (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        tenant TEXT NOT NULL,
        caller TEXT NOT NULL,
        moves INTEGER NOT NULL DEFAULT 0,
        n_submitted INTEGER NOT NULL DEFAULT 0,
        n_working INTEGER NOT NULL DEFAULT 0,
        n_input_required INTEGER NOT NULL DEFAULT 0,
        n_auth_required INTEGER NOT NULL DEFAULT 0,
        n_completed INTEGER NOT NULL DEFAULT 0,
        n_failed INTEGER NOT NULL DEFAULT 0,
        n_canceled INTEGER NOT NULL DEFAULT 0,
        n_rejected INTEGER NOT NULL DEFAULT 0,
        n_unknown INTEGER NOT NULL DEFAULT 0,
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
    # Every index that is spared is a page less to be written whenever a task moves.
    """
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        task_id TEXT NOT NULL,
        owner INTEGER NOT NULL,
        context_id TEXT NOT NULL,
        state TEXT NOT NULL,
        seq INTEGER NOT NULL,
        moved_at REAL NOT NULL,
        move INTEGER NOT NULL,
        pushes INTEGER NOT NULL,
        holder_host TEXT NOT NULL,
        holder_pid INTEGER NOT NULL,
        holder_started TEXT NOT NULL,
        lease_until REAL NOT NULL,
        UNIQUE (app_name, task_id)
    )
    """,
    # A task that was answered directly is 'replied', and listed nowhere.
    "CREATE INDEX tasks_by_state ON tasks (owner, state, moved_at, move)",
    "CREATE INDEX tasks_by_context ON tasks (owner, context_id, moved_at, move)"
    " WHERE state <> 'replied'",
    "CREATE INDEX tasks_active ON tasks (app_name) WHERE state IN ('submitted', 'working')",
    # Number 0 is the task as it was after some event, so that only what came later is to be read.
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
    # `due_at` is when the first of what waits may be sent; NULL if nothing waits.
    """
    CREATE TABLE task_pushes (
        id INTEGER PRIMARY KEY,
        app_name TEXT NOT NULL,
        task INTEGER NOT NULL,
        config_id TEXT NOT NULL,
        body BLOB NOT NULL,
        due_at REAL,
        UNIQUE (task, config_id)
    )
    """,
    "CREATE INDEX task_pushes_due ON task_pushes (app_name, due_at) WHERE due_at IS NOT NULL",
    # A number is never given twice: whoever comes late must not settle another's delivery.
    """
    CREATE TABLE task_deliveries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        push INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        attempts INTEGER NOT NULL
    )
    """,
    "CREATE INDEX task_deliveries_by_push ON task_deliveries (push, id)",
)
_OF_DELIVERIES = (
    # Whose a configuration is, so that one owner can be passed over without looking at what waits.
    "ALTER TABLE task_pushes ADD COLUMN owner INTEGER NOT NULL DEFAULT 0",
    "UPDATE task_pushes"
    " SET owner = coalesce((SELECT tasks.owner FROM tasks WHERE tasks.id = task_pushes.task), 0)",
    "CREATE INDEX task_pushes_by_owner ON task_pushes (app_name, owner, due_at)"
    " WHERE due_at IS NOT NULL",
)
#: What each version added to the one before.
_ADDED = (_OF_SESSIONS, _OF_TASKS, _OF_DELIVERIES)
_HINTS = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_BUSY: "another process keeps it locked; try again once that is done",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked; try again once that is done",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it is a file and its rights",
    sqlite3.SQLITE_PERM: "it cannot be opened; check its rights",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; choose another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away, or put back a copy",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write it; check the disk",
    sqlite3.SQLITE_TOOBIG: "what is to be stored is larger than SQLite can take",
}
_WORTH_KEEPING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's error number without its details."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def is_connection_usable_after(error: sqlite3.Error) -> bool:
    """Tell whether the connection is as good as before, once it is rolled back."""
    return primary_code(error) in _WORTH_KEEPING


def storage_failed(path: Path, error: sqlite3.Error) -> StorageFailed:
    """Return our error for SQLite's: the file, the fault, and what to do."""
    hint = _HINTS.get(primary_code(error))
    return StorageFailed(f"{path}: {hint} ({error})" if hint else f"{path}: {error}")


def connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Return a connection whose tables are there; StorageFailed if the file cannot be used."""
    if not path.parent.is_dir():
        raise StorageFailed(f"{path}: there is no folder {path.parent}; make it first")
    give_up_at = time.monotonic() + busy_timeout
    while True:
        try:
            return _connect_once(path, busy_timeout)
        except sqlite3.Error as error:
            # Two processes that turn to WAL at once do not wait for each other; one of them fails.
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise storage_failed(path, error) from error
            time.sleep(0.01)


def _connect_once(path: Path, busy_timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
    version = 0
    try:
        connection.execute("BEGIN")  # what we look at is to be of one moment
        version = _version(path, connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if version < VERSION:
            _add_tables(path, connection, version)
    except BaseException:
        connection.close()
        raise
    return connection


def _add_tables(path: Path, connection: sqlite3.Connection, version: int) -> None:
    try:
        _make_tables(path, connection)
    except sqlite3.Error as error:
        # An older file that must not be written can still be read, as far as it goes.
        if not version or primary_code(error) != sqlite3.SQLITE_READONLY:
            raise
        connection.execute("ROLLBACK")


def _make_tables(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    version = _version(path, connection)  # somebody else may have made them while we waited
    for tables in _ADDED[version:]:
        for table in tables:
            connection.execute(table)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """Return which tables there are, and refuse what is not ours or not yet known."""
    version: int
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION:
        if version > VERSION:
            raise StorageFailed(
                f"{path}: it was written by a newer acc (schema {version}, this one knows "
                f"{VERSION}); update acc, or choose another path"
            )
        return version
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StorageFailed(f"{path}: it is another program's database; choose another path")
    return 0
