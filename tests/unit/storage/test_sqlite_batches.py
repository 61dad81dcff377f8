"""Tests of batched commits: queued jobs of one database share a transaction."""

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


def insert(note: str) -> Job:
    return lambda c: c.execute("INSERT INTO notes VALUES (?)", (note,)).close()


def reject(note: str = "") -> Job:
    def job(connection: sqlite3.Connection) -> None:
        if note:
            insert(note)(connection)
        raise InvalidInput("no")

    return job


def notes(connection: sqlite3.Connection) -> list[str]:
    return [note for (note,) in connection.execute("SELECT note FROM notes ORDER BY rowid")]


async def run_batch(database: SqliteDatabase, *jobs: Job) -> tuple[list[Any], list[str]]:
    """Run jobs as one batch and return their results and the BEGIN statements."""
    statements: list[str] = []
    is_locked, wait = threading.Event(), threading.Event()
    answers: list[Any] = [None] * len(jobs)

    async def do(index: int, job: Job) -> None:
        try:
            answers[index] = await database.write(job)
        except (InvalidInput, StorageFailed) as error:
            answers[index] = error

    def block(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(statements.append)
        is_locked.set()
        wait.wait(5)

    async with asyncio.TaskGroup() as group:
        group.create_task(database.read(block))
        await asyncio.to_thread(is_locked.wait, 5)
        for index, job in enumerate(jobs):
            group.create_task(do(index, job))
        await asyncio.sleep(0.05)
        wait.set()
    begun = [text for text in statements if text.startswith("BEGIN")]
    await database.read(lambda c: c.set_trace_callback(None))
    return answers, begun


async def test_queued_jobs_share_one_transaction(database: SqliteDatabase) -> None:
    answers, begun = await run_batch(database, insert("a"), insert("b"), notes)
    assert answers == [None, None, ["a", "b"]]
    assert begun == ["BEGIN IMMEDIATE"]


async def test_rejected_job_does_not_affect_other_jobs(
    database: SqliteDatabase,
) -> None:
    answers, begun = await run_batch(database, insert("a"), reject(), insert("b"))
    assert isinstance(answers[1], InvalidInput)
    assert await database.read(notes) == ["a", "b"]
    assert begun == ["BEGIN IMMEDIATE"]


async def test_failed_job_is_rolled_back_and_other_jobs_commit(
    database: SqliteDatabase,
) -> None:
    answers, _ = await run_batch(database, insert("a"), reject("half"), insert("a"), insert("b"))
    assert isinstance(answers[1], InvalidInput)
    assert isinstance(answers[2], StorageFailed)
    assert await database.read(notes) == ["a", "b"]
