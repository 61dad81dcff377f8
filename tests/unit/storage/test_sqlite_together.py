"""Jobs that wait for the thread of a SQLite file together are committed together."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from acc.adapters.storage.sqlite import SqliteDatabase
from acc.domain.errors import InvalidInput, StorageFailed

Job = Callable[[sqlite3.Connection], Any]


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    made = SqliteDatabase(tmp_path / "acc.db")
    await made.write(lambda c: c.execute("CREATE TABLE notes (note TEXT UNIQUE)").close())
    yield made
    await made.aclose()


def keep(note: str) -> Job:
    return lambda c: c.execute("INSERT INTO notes VALUES (?)", (note,)).close()


def refuse(note: str = "") -> Job:
    def job(connection: sqlite3.Connection) -> None:
        if note:
            keep(note)(connection)
        raise InvalidInput("no")

    return job


def notes(connection: sqlite3.Connection) -> list[str]:
    return [note for (note,) in connection.execute("SELECT note FROM notes ORDER BY rowid")]


async def together(database: SqliteDatabase, *jobs: Job) -> tuple[list[Any], list[str]]:
    """Return what came of jobs that were done at one go, and the transactions it took."""
    statements: list[str] = []
    is_locked, wait = threading.Event(), threading.Event()
    answers: list[Any] = [None] * len(jobs)

    async def do(place: int, job: Job) -> None:
        try:
            answers[place] = await database.write(job)
        except (InvalidInput, StorageFailed) as error:
            answers[place] = error

    def hold(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(statements.append)
        is_locked.set()
        wait.wait(5)

    async with asyncio.TaskGroup() as group:
        group.create_task(database.read(hold))
        await asyncio.to_thread(is_locked.wait, 5)
        for place, job in enumerate(jobs):
            group.create_task(do(place, job))
        await asyncio.sleep(0.05)
        wait.set()
    begun = [text for text in statements if text.startswith("BEGIN")]
    await database.read(lambda c: c.set_trace_callback(None))
    return answers, begun


async def test_jobs_that_wait_together_are_one_transaction(database: SqliteDatabase) -> None:
    answers, begun = await together(database, keep("a"), keep("b"), notes)
    assert answers == [None, None, ["a", "b"]]
    assert begun == ["BEGIN IMMEDIATE"]


async def test_a_job_that_is_refused_at_once_does_not_disturb_the_others(
    database: SqliteDatabase,
) -> None:
    answers, begun = await together(database, keep("a"), refuse(), keep("b"))
    assert isinstance(answers[1], InvalidInput)
    assert await database.read(notes) == ["a", "b"]
    assert begun == ["BEGIN IMMEDIATE"]


async def test_a_job_that_fails_halfway_is_undone_and_the_others_are_done(
    database: SqliteDatabase,
) -> None:
    answers, _ = await together(database, keep("a"), refuse("half"), keep("a"), keep("b"))
    assert isinstance(answers[1], InvalidInput)
    assert isinstance(answers[2], StorageFailed)
    assert await database.read(notes) == ["a", "b"]
