"""Tests of the SQLite unit of work: one transaction and conflicts with other processes."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlite_stores import KEY, event

from acc.adapters.storage.sqlite import Operation, SqliteDatabase
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore, SqliteUnitOfWork
from acc.domain.errors import InvalidInput, InvalidTransition
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskQuery,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import AppendEvents, AppendTaskUpdates, BeginTurn
from acc.testing import FrozenClock

ANN = Owner("acme", "ann")
WORKING, COMPLETED, CANCELED = TaskState.WORKING, TaskState.COMPLETED, TaskState.CANCELED


class Stores:
    def __init__(self, path: Path) -> None:
        self.database = SqliteDatabase(path)
        self.sessions = SqliteSessionStore(self.database, clock=FrozenClock())
        self.tasks = SqliteTaskStore(self.database, clock=FrozenClock())
        self.unit = SqliteUnitOfWork(sessions=self.sessions, tasks=self.tasks)

    async def file(self) -> None:
        status = TaskStatus(state=TaskState.SUBMITTED, at=1.0)
        message = Message(message_id="m", role=Role.USER, parts=text_part("hello"))
        await self.tasks.create(
            Task(id="t", context_id="c", status=status), owner=ANN, message=message
        )

    async def trace_transactions(self) -> list[str]:
        """Return a list to which later transaction statements are appended."""
        transactions: list[str] = []

        def note(statement: str) -> None:
            if statement.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
                transactions.append(statement)

        await self.database.read(lambda c: c.set_trace_callback(note))
        transactions.clear()
        return transactions

    async def state(self) -> tuple[TaskState, int]:
        found = await self.tasks.read("t")
        assert found is not None
        return found.state, found.seq


def moved(state: TaskState) -> StatusUpdate:
    return StatusUpdate(status=TaskStatus(state=state, at=2.0))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    made = Stores(tmp_path / "acc.db")
    await made.file()
    yield made
    await made.database.aclose()


async def test_commit_is_one_transaction(stores: Stores) -> None:
    transactions = await stores.trace_transactions()
    begin = BeginTurn(KEY, event(0, kind=EventKind.MESSAGE, author="user"), "h", "root")
    await stores.unit.commit(begin, AppendTaskUpdates("t", [moved(WORKING)]))
    append = AppendEvents(KEY, [event(0)], "h", release=True)
    await stores.unit.commit(append, AppendTaskUpdates("t", [moved(COMPLETED)]))
    assert transactions == ["BEGIN IMMEDIATE", "COMMIT"] * 2
    assert await stores.state() == (COMPLETED, 3)


async def test_error_in_task_update_rolls_back_the_events(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(write: AppendTaskUpdates) -> Operation[None]:
        def operation(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE tasks SET seq = 7")
            raise InvalidInput("halfway")

        return operation

    monkeypatch.setattr(stores.tasks, "append_operation", fail)
    begin = BeginTurn(KEY, event(0, kind=EventKind.MESSAGE, author="user"), "h", "root")
    with pytest.raises(InvalidInput, match="halfway"):
        await stores.unit.commit(begin, AppendTaskUpdates("t", [moved(WORKING)]))
    assert await stores.sessions.read(KEY) is None
    assert await stores.state() == (TaskState.SUBMITTED, 1)


async def test_stores_of_different_files_are_rejected(stores: Stores, tmp_path: Path) -> None:
    other = Stores(tmp_path / "other.db")
    with pytest.raises(ValueError, match="share one SqliteDatabase"):
        SqliteUnitOfWork(sessions=other.sessions, tasks=stores.tasks)
    await other.database.aclose()


async def test_append_uses_task_state_written_by_another_process(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "acc.db")
    await other.tasks.append("t", [moved(WORKING)])
    (update,) = await stores.tasks.append("t", [moved(WORKING)])
    assert update.seq == 3
    await other.tasks.append("t", [moved(CANCELED)])
    with pytest.raises(InvalidTransition):
        await stores.tasks.append("t", [moved(COMPLETED)])
    assert await stores.state() == (CANCELED, 4)
    await other.database.aclose()


async def test_update_is_delivered_to_receiver_added_by_another_process(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "acc.db")
    await other.tasks.save_push_config(PushConfig(id="p", task_id="t", url="https://example.org"))
    await stores.tasks.append("t", [moved(WORKING)])
    (due,) = await other.tasks.claim_deliveries(limit=9, lease=1.0)
    assert due.event.seq == 2
    await other.database.aclose()


async def test_append_uses_session_recreated_by_another_process(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "acc.db")
    await stores.sessions.open(KEY, holder="h")
    await other.sessions.delete(KEY)
    await other.sessions.open(KEY, holder="h")
    await stores.sessions.append(KEY, [event(1)], holder="h")
    assert len(await other.sessions.events(KEY)) == 1
    await other.database.aclose()


async def test_totals_per_state_follow_status_updates(stores: Stores) -> None:
    for state in (WORKING, COMPLETED):
        await stores.tasks.append("t", [moved(state)])
        for wanted in (TaskState.SUBMITTED, WORKING, COMPLETED):
            page = await stores.tasks.list_tasks(ANN, TaskQuery(state=wanted))
            assert page.total == (wanted is state)
