"""What a run puts on record and what its task tells of it are one transaction of one file."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlite_stores import KEY, event

from acc.adapters.storage.sqlite import SqliteAlong, SqliteDatabase
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.errors import InvalidInput, InvalidTransition, SessionConflict
from acc.domain.value_objects.content import text_part
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
from acc.testing import FrozenClock

ANN = Owner("acme", "ann")
WORKING, COMPLETED, CANCELED = TaskState.WORKING, TaskState.COMPLETED, TaskState.CANCELED


class Stores:
    def __init__(self, path: Path) -> None:
        self.database = SqliteDatabase(path)
        self.sessions = SqliteSessionStore(self.database, clock=FrozenClock())
        self.tasks = SqliteTaskStore(self.database, clock=FrozenClock())

    async def file(self) -> None:
        status = TaskStatus(state=TaskState.SUBMITTED, at=1.0)
        message = Message(message_id="m", role=Role.USER, parts=text_part("hello"))
        await self.tasks.create(
            Task(id="t", context_id="c", status=status), owner=ANN, message=message
        )

    async def traced(self) -> list[str]:
        """Return the list that the transactions from now on are noted in."""
        noted: list[str] = []

        def note(statement: str) -> None:
            if statement.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
                noted.append(statement)

        await self.database.read(lambda c: c.set_trace_callback(note))
        noted.clear()
        return noted

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


async def test_events_and_what_goes_along_are_one_transaction(stores: Stores) -> None:
    sessions, tasks = stores.sessions, stores.tasks
    noted = await stores.traced()
    begins = tasks.along("t", [moved(WORKING)])
    await sessions.begin(KEY, lambda _: [event(1)], holder="h", along=begins)
    ends = tasks.along("t", [moved(COMPLETED)])
    await sessions.append(KEY, [event(2)], holder="h", release=True, along=ends)
    assert noted == ["BEGIN IMMEDIATE", "COMMIT"] * 2
    assert [told.seq for told in (*begins.result(), *ends.result())] == [2, 3]
    assert await stores.state() == (COMPLETED, 3)
    assert len(await sessions.events(KEY)) == 2


async def test_events_stay_where_what_goes_along_is_refused(stores: Stores) -> None:
    await stores.tasks.append("t", [moved(CANCELED)])
    along = stores.tasks.along("t", [moved(WORKING)])
    await stores.sessions.begin(KEY, lambda _: [event(1)], holder="h", along=along)
    with pytest.raises(InvalidTransition):
        along.result()
    assert len(await stores.sessions.events(KEY)) == 1
    assert await stores.state() == (CANCELED, 2)


async def test_nothing_goes_along_with_events_that_are_refused(stores: Stores) -> None:
    along = stores.tasks.along("t", [moved(WORKING)])
    await stores.sessions.open(KEY, holder="h")
    with pytest.raises(SessionConflict):
        await stores.sessions.append(KEY, [event(5)], holder="h", along=along)
    assert await stores.state() == (TaskState.SUBMITTED, 1)


async def test_what_fails_halfway_takes_the_events_with_it(stores: Stores) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE tasks SET seq = 7")
        raise InvalidInput("halfway")

    along = SqliteAlong(stores.database, fail)
    with pytest.raises(InvalidInput, match="halfway"):
        await stores.sessions.begin(KEY, lambda _: [event(1)], holder="h", along=along)
    assert await stores.sessions.read(KEY) is None
    assert await stores.state() == (TaskState.SUBMITTED, 1)


async def test_a_store_in_another_file_is_written_on_its_own(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "other.db")
    along = stores.tasks.along("t", [moved(WORKING)])
    await other.sessions.begin(KEY, lambda _: [event(1)], holder="h", along=along)
    again = stores.tasks.along("t", [moved(COMPLETED)])
    await other.sessions.append(KEY, [event(2)], holder="h", along=again)
    assert [told.seq for told in (*along.result(), *again.result())] == [2, 3]
    await other.database.aclose()


async def test_a_task_that_others_moved_meanwhile_is_looked_up_again(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "acc.db")
    await other.tasks.append("t", [moved(WORKING)])
    (told,) = await stores.tasks.append("t", [moved(WORKING)])
    assert told.seq == 3
    await other.tasks.append("t", [moved(CANCELED)])
    with pytest.raises(InvalidTransition):
        await stores.tasks.append("t", [moved(COMPLETED)])
    assert await stores.state() == (CANCELED, 4)
    await other.database.aclose()


async def test_moves_are_told_to_whoever_asked_for_it_meanwhile(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "acc.db")
    await other.tasks.save_push(PushConfig(id="p", task_id="t", url="https://example.org"))
    await stores.tasks.append("t", [moved(WORKING)])
    (due,) = await other.tasks.due(limit=9, lease=1.0)
    assert due.event.seq == 2
    await other.database.aclose()


async def test_a_session_that_others_made_anew_is_looked_up_again(
    stores: Stores, tmp_path: Path
) -> None:
    other = Stores(tmp_path / "acc.db")
    await stores.sessions.open(KEY, holder="h")
    await other.sessions.delete(KEY)
    await other.sessions.open(KEY, holder="h")
    await stores.sessions.append(KEY, [event(1)], holder="h")
    assert len(await other.sessions.events(KEY)) == 1
    await other.database.aclose()


async def test_the_tasks_of_an_owner_are_counted_as_they_move(stores: Stores) -> None:
    for state in (WORKING, COMPLETED):
        await stores.tasks.append("t", [moved(state)])
        for wanted in (TaskState.SUBMITTED, WORKING, COMPLETED):
            page = await stores.tasks.listed(ANN, TaskQuery(state=wanted))
            assert page.total == (wanted is state)
