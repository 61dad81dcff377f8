"""Contract of UnitOfWork, for every implementation."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from postgres_server import new_store_url
from session_store_factories import KEY, event

from acc.adapters.storage.in_memory import InMemorySessionStore
from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore, SequentialUnitOfWork
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.storage.postgres_tasks import PostgresTaskStore, PostgresUnitOfWork
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore, SqliteUnitOfWork
from acc.domain.errors import InvalidTransition, SessionBusy, SessionConflict, TaskNotFound
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.task import (
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import (
    AppendEvents,
    AppendTaskUpdates,
    BeginTurn,
    SessionStorePort,
    TaskStorePort,
    UnitOfWork,
)
from acc.testing import FrozenClock

OWNER = Owner("acme", "ann")
MESSAGE = event(0, EventKind.MESSAGE, author="user", parts=text_part("hi"))


@dataclass
class Storage:
    sessions: SessionStorePort
    tasks: TaskStorePort
    unit: UnitOfWork

    async def task_state(self) -> tuple[TaskState, int]:
        task = await self.tasks.read("t")
        assert task is not None
        return task.state, task.seq


def in_memory(_: Path) -> Storage:
    sessions = InMemorySessionStore(clock=FrozenClock())
    tasks = InMemoryTaskStore(clock=FrozenClock())
    return Storage(sessions, tasks, SequentialUnitOfWork(sessions=sessions, tasks=tasks))


def one_file(folder: Path) -> Storage:
    database = SqliteDatabase(folder / "acc.db")
    sessions = SqliteSessionStore(database, clock=FrozenClock())
    tasks = SqliteTaskStore(database, clock=FrozenClock())
    return Storage(sessions, tasks, SqliteUnitOfWork(sessions=sessions, tasks=tasks))


def two_files(folder: Path) -> Storage:
    sessions = SqliteSessionStore(folder / "sessions.db", clock=FrozenClock())
    tasks = SqliteTaskStore(folder / "tasks.db", clock=FrozenClock())
    return Storage(sessions, tasks, SequentialUnitOfWork(sessions=sessions, tasks=tasks))


def one_database(_: Path) -> Storage:
    database = PostgresDatabase(new_store_url())
    sessions = PostgresSessionStore(database, clock=FrozenClock())
    tasks = PostgresTaskStore(database, clock=FrozenClock())
    return Storage(sessions, tasks, PostgresUnitOfWork(sessions=sessions, tasks=tasks))


MAKERS: dict[str, Callable[[Path], Storage]] = {
    "one_database": one_database,
    "in_memory": in_memory,
    "one_file": one_file,
    "two_files": two_files,
}


@pytest.fixture(params=sorted(MAKERS))
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    created = MAKERS[request.param](tmp_path)
    status = TaskStatus(state=TaskState.SUBMITTED, at=1.0)
    await created.tasks.create(
        Task(id="t", context_id="c", status=status),
        owner=OWNER,
        message=Message(message_id="m", role=Role.USER, parts=text_part("hello")),
    )
    yield created
    await created.tasks.aclose()
    await created.sessions.aclose()


def updates(state: TaskState, task_id: str = "t") -> AppendTaskUpdates:
    status = TaskStatus(state=state, at=2.0)
    return AppendTaskUpdates(task_id, [StatusUpdate(status=status)])


def begin(holder: str = "h") -> BeginTurn:
    return BeginTurn(KEY, MESSAGE, holder, "root")


def append(*events: Event, holder: str = "h", release: bool = False) -> AppendEvents:
    return AppendEvents(KEY, events, holder, release)


async def test_commit_stores_events_and_updates(storage: Storage) -> None:
    started = await storage.unit.commit(begin(), updates(TaskState.WORKING))
    assert started.session is not None
    assert ([e.seq for e in started.events], [u.seq for u in started.updates]) == ([1], [2])
    assert started.refusal is None
    write = append(event(0), event(0), release=True)
    ended = await storage.unit.commit(write, updates(TaskState.COMPLETED))
    assert ([e.seq for e in ended.events], [u.seq for u in ended.updates]) == ([2, 3], [3])
    assert await storage.task_state() == (TaskState.COMPLETED, 3)
    assert len(await storage.sessions.events(KEY)) == 3
    await storage.sessions.open(KEY, holder="next")


async def test_commit_stores_updates_alone(storage: Storage) -> None:
    result = await storage.unit.commit(updates(TaskState.WORKING))
    assert (result.session, result.events) == (None, ())
    assert [u.seq for u in result.updates] == [2]


async def test_commit_without_writes_stores_nothing(storage: Storage) -> None:
    assert await storage.unit.commit() == (None, (), (), None)


@pytest.mark.parametrize(
    ("task_id", "error"), [("t", InvalidTransition), ("unknown", TaskNotFound)]
)
async def test_refused_update_does_not_undo_events(
    storage: Storage, task_id: str, error: type[Exception]
) -> None:
    await storage.unit.commit(updates(TaskState.CANCELED))
    result = await storage.unit.commit(begin(), updates(TaskState.WORKING, task_id))
    assert isinstance(result.refusal, error)
    assert ([e.seq for e in result.events], result.updates) == ([1], ())
    assert len(await storage.sessions.events(KEY)) == 1
    assert await storage.task_state() == (TaskState.CANCELED, 2)


async def test_refused_events_undo_updates(storage: Storage) -> None:
    await storage.unit.commit(begin())
    with pytest.raises(SessionConflict):
        await storage.unit.commit(append(event(0), holder="other"), updates(TaskState.WORKING))
    with pytest.raises(SessionBusy):
        await storage.unit.commit(begin("other"), updates(TaskState.WORKING))
    assert await storage.task_state() == (TaskState.SUBMITTED, 1)


async def test_updates_are_not_stored_when_session_waits_for_input(storage: Storage) -> None:
    paused = event(0, EventKind.ENDED, status=RunStatus.INPUT_REQUIRED)
    await storage.unit.commit(begin())
    await storage.unit.commit(append(paused, release=True))
    result = await storage.unit.commit(begin("next"), updates(TaskState.WORKING))
    assert (result.events, result.updates, result.refusal) == ((), (), None)
    assert await storage.task_state() == (TaskState.SUBMITTED, 1)
