"""Tasks to put into SQLite files, and a file as the first version of its tables made it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import SubmitResult, TaskStorePort
from acc.testing import FrozenClock

ANN = Owner("acme", "ann")

FIRST_VERSION = """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY, app_name TEXT NOT NULL, user_id TEXT NOT NULL,
        session_id TEXT NOT NULL, seq INTEGER NOT NULL, turns INTEGER NOT NULL,
        run_id TEXT NOT NULL, status TEXT NOT NULL, updated_at REAL NOT NULL,
        holder TEXT, holder_host TEXT, holder_pid INTEGER, holder_started TEXT,
        lease_until REAL NOT NULL, UNIQUE (app_name, user_id, session_id)
    );
    CREATE TABLE events (
        session INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
        author TEXT NOT NULL, run_id TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (session, seq)
    ) WITHOUT ROWID;
    CREATE INDEX events_by_kind ON events (session, kind, author, seq);
    CREATE INDEX events_by_run ON events (session, run_id, seq);
    CREATE TABLE state (
        id INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        UNIQUE (scope, key)
    );
    CREATE TABLE artifacts (
        id INTEGER PRIMARY KEY, scope TEXT NOT NULL, name TEXT NOT NULL,
        version INTEGER NOT NULL, media_type TEXT NOT NULL, data BLOB NOT NULL,
        UNIQUE (scope, name, version)
    );
    INSERT INTO sessions VALUES
        (1, 'desk', 'ann', 's1', 1, 0, '', 'completed', 1000000.0, NULL, NULL, NULL, NULL, 0);
    INSERT INTO events VALUES
        (1, 1, 'state', 'a', 'r0', '{"kind":"state","run_id":"r0","author":"a","seq":1}');
    INSERT INTO state VALUES (1, 'desk' || char(31) || 'ann' || char(31) || 's1', 'x', '"古い"');
    PRAGMA application_id = 0x61636373;
    PRAGMA user_version = 1;
"""


def make_first_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(FIRST_VERSION)


def tasks_at(path: Path, app_name: str = "desk") -> SqliteTaskStore:
    database = SqliteDatabase(path, busy_timeout=0.1)
    return SqliteTaskStore(database, clock=FrozenClock(), app_name=app_name)


async def file(
    store: TaskStorePort, number: int, *, owner: Owner = ANN, context_id: str = ""
) -> SubmitResult:
    status = TaskStatus(state=TaskState.SUBMITTED, at=float(number))
    name = f"t{number}"
    task = Task(id=name, context_id=context_id or f"c{number}", status=status)
    message = Message(message_id=f"m{number}", role=Role.USER, parts=text_part("こんにちは"))
    return await store.create(task, owner=owner, message=message)


def moved(state: TaskState, at: float) -> StatusUpdate:
    return StatusUpdate(status=TaskStatus(state=state, at=at))


def piece(text: str) -> ArtifactUpdate:
    return ArtifactUpdate(
        artifact=TaskArtifact(artifact_id="a", parts=text_part(text)), append=True
    )


async def finish(store: TaskStorePort, number: int) -> None:
    await store.append(f"t{number}", [moved(TaskState.WORKING, number)])
    await store.append(f"t{number}", [piece("x"), moved(TaskState.COMPLETED, number)])
