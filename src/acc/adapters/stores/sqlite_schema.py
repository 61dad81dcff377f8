"""The tables of our SQLite file, and how a connection to it is made."""

import sqlite3
import time
from pathlib import Path

from acc.domain.errors import StorageFailed

VERSION = 1
_APPLICATION = 0x61636373  # "accs"; tells our files from other people's databases

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
    try:
        connection.execute("BEGIN")  # what we look at is to be of one moment
        is_new = _is_new(path, connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if is_new:
            _make_tables(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if _is_new(path, connection):  # nobody else made them while we waited
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _is_new(path: Path, connection: sqlite3.Connection) -> bool:
    """Tell whether the file is still empty, and refuse what is not ours or not yet known."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION:
        if version > VERSION:
            raise StorageFailed(
                f"{path}: it was written by a newer acc (schema {version}, this one knows "
                f"{VERSION}); update acc, or choose another path"
            )
        return False
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise StorageFailed(f"{path}: it is another program's database; choose another path")
    return True
