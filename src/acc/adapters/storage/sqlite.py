"""One SQLite file, one connection, one thread that runs jobs in order."""

import asyncio
import atexit
import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from acc.adapters.storage.sqlite_schema import connect, is_connection_usable_after, storage_failed
from acc.domain.errors import AccError, InvalidInput, StorageFailed

T = TypeVar("T")
#: What a job does with the connection, in the thread of the database.
Operation = Callable[[sqlite3.Connection], T]
#: A result, or the error that took its place.
Outcome = tuple[Any, BaseException | None]
#: Jobs in one transaction. More would delay the answer of the first.
MAX_JOBS_PER_TRANSACTION = 64


class SqliteDatabase:
    """Runs operations on one SQLite file, each all or nothing, in the order of their submission.

    Operations that wait for the thread together are committed together. If one fails after it has
    written, all are rolled back and run again one by one, so an operation must change nothing but
    the database. The file is opened on first use. A submitted operation runs even if its caller is
    cancelled. Commits survive the death of the process; a power failure may lose the last ones.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0) -> None:
        # The working directory may change before the first use.
        self.path = Path(path).absolute()
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._closed = False

    async def read(self, operation: Operation[T]) -> T:
        """Return the result of an operation that only reads, in one snapshot."""
        return await self._submit(operation, writes=False)

    async def write(self, operation: Operation[T]) -> T:
        """Return the result of an operation once its writes are committed."""
        return await self._submit(operation, writes=True)

    async def aclose(self) -> None:
        """Finish what was submitted, then close the file and end the thread."""
        with self._lock:
            worker = None if self._closed else self._worker
            self._closed = True
        if worker is None or worker.pid != os.getpid():
            return
        shutdown = _Job(None, writes=False)
        worker.submit(shutdown)
        await shutdown.future
        worker.thread.join()  # it has nothing left to do but to end

    async def _submit(self, operation: Operation[T], *, writes: bool) -> T:
        job = _Job(operation, writes=writes)
        with self._lock:
            self._usable_worker().submit(job)
        result, error = await job.future
        if error is not None:
            try:
                raise error
            finally:
                del error  # break the reference cycle between the error and this frame
        return result  # type: ignore[no-any-return] # the operation's type

    def _usable_worker(self) -> "_Worker":
        if self._closed:
            raise StorageFailed(f"{self.path}: the store is closed; create a new one")
        if self._worker is None:
            self._worker = _Worker(self.path, self._busy_timeout)
            weakref.finalize(self, self._worker.close).atexit = False
        elif self._worker.pid != os.getpid():
            raise StorageFailed(
                f"{self.path}: the store was used before this process was forked; "
                "create a new one in the child process"
            )
        return self._worker


def attempt(
    connection: sqlite3.Connection, operation: Operation[T]
) -> tuple[T | None, AccError | None]:
    """Run an operation; return an AccError that it raised before it wrote anything.

    An error after a write is raised, because only a rollback can undo the write.
    """
    before = connection.total_changes
    try:
        return operation(connection), None
    except AccError as error:
        if connection.total_changes != before:
            raise
        return None, error


def insert(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> int:
    """Run an INSERT and return the id of its row."""
    row_id = connection.execute(statement, values).lastrowid
    assert row_id is not None  # noqa: S101 - true for every INSERT
    return row_id


def as_database(database: SqliteDatabase | str | Path) -> SqliteDatabase:
    """Return the database, or a new one for a path."""
    return database if isinstance(database, SqliteDatabase) else SqliteDatabase(database)


class _Job:
    """An operation on its way to the thread, and the future of its caller."""

    __slots__ = ("future", "loop", "operation", "outcome", "writes")

    def __init__(self, operation: Operation[Any] | None, *, writes: bool) -> None:
        self.operation = operation  # None shuts the thread down
        self.writes = writes
        self.outcome: Outcome = (None, None)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Outcome] = self.loop.create_future()


class _Worker:
    """The thread. It has no reference to the SqliteDatabase, which may be garbage collected."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.pid = os.getpid()
        self.queue: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._batches: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._pending: deque[_Job] = deque()
        self.connection: sqlite3.Connection | None = None
        self.shutdown: _Job | None = None
        # A daemon thread may wait for a lock without keeping the process alive.
        self.thread = threading.Thread(target=self._work, name=f"acc {path.name}", daemon=True)
        self.thread.start()
        atexit.register(self.finish)

    def submit(self, job: _Job) -> None:
        """Hand a job to the thread, together with all others of this iteration of the loop."""
        # Waking the thread for the first job would make it compete with the loop for the GIL and
        # commit that job alone.
        batch = self._batches.get(job.loop)
        if batch is None:
            self._batches[job.loop] = [job]
            job.loop.call_soon(self._flush, job.loop)
        else:
            batch.append(job)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        batch = self._batches.pop(loop, None)
        if batch is not None:
            self.queue.put(batch)

    def close(self) -> None:
        """End the thread once everything that was submitted is done."""
        for loop in list(self._batches):
            self._flush(loop)
        self.queue.put(None)

    def finish(self) -> None:
        """Wait at process exit for submitted jobs, as long as a lock may take."""
        if self.pid == os.getpid():
            self.close()
            self.thread.join(self.busy_timeout + 1.0)

    def _work(self) -> None:
        is_open = True
        while is_open:
            jobs, is_open = self._next_jobs()
            if jobs:
                self._run(jobs)
                _deliver(jobs)
            del jobs
        if self.connection is not None:
            self.connection.close()
        atexit.unregister(self.finish)
        if self.shutdown is not None:
            _deliver([self.shutdown])

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """Wait for jobs; return them, and False if no more can come."""
        pending = self._pending
        is_open = True
        while (
            is_open
            and len(pending) < MAX_JOBS_PER_TRANSACTION
            and not (pending and self.queue.empty())
        ):
            batch = self.queue.get()
            pending.extend(batch or ())
            is_open = batch is not None
        jobs: list[_Job] = []
        while pending and len(jobs) < MAX_JOBS_PER_TRANSACTION:
            job = pending.popleft()
            if job.operation is None:
                self.shutdown = job
                return jobs, False
            jobs.append(job)
        if not is_open and pending:
            self.queue.put(None)  # read again once the rest is done
        return jobs, is_open or bool(pending)

    def _run(self, jobs: Sequence[_Job]) -> None:
        """Run jobs in one transaction; if that fails, run them one by one."""
        try:
            if self.connection is None:
                self.connection = connect(self.path, self.busy_timeout)
            _run_transaction(self.connection, jobs)
        except BaseException as error:  # noqa: BLE001 - it is passed to the caller
            is_broken = isinstance(error, sqlite3.Error) and not is_connection_usable_after(error)
            if is_broken and self.connection is not None:
                self.connection.close()
                self.connection = None
            if len(jobs) == 1:
                jobs[0].outcome = (None, self._convert(error))
                return
            for job in jobs:
                self._run([job])

    def _convert(self, error: BaseException) -> BaseException:
        """Return the error that the caller gets for an error in the thread."""
        if isinstance(error, sqlite3.Error):
            failed = storage_failed(self.path, error)
            failed.__cause__ = error
            return failed
        if isinstance(error, msgspec.MsgspecError):
            return StorageFailed(
                f"{self.path}: a record cannot be read ({error}); "
                "the file is damaged, or was written by a newer acc"
            )
        if isinstance(error, UnicodeEncodeError):
            return InvalidInput(f"text with unpaired surrogates cannot be stored: {error}")
        return error


def _run_transaction(connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
    try:
        writes = any(job.writes for job in jobs)
        connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        for job in jobs:
            assert job.operation is not None  # noqa: S101 - _next_jobs stops at the shutdown
            job.outcome = attempt(connection, job.operation)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _deliver(jobs: Sequence[_Job]) -> None:
    """Pass the outcomes to the callers that still wait."""
    # One wake-up per event loop: waking a loop costs more than a small job.
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, batch in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_resolve, batch)


def _resolve(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_result(job.outcome)
