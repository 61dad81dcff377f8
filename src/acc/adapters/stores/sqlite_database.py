"""One SQLite file, one connection, one thread that works off what it is given in order."""

import asyncio
import atexit
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import msgspec

from acc.adapters.stores.sqlite_schema import connect, is_connection_usable_after, storage_failed
from acc.domain.errors import InvalidInput, StorageFailed

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
_Answer = tuple[Any, BaseException | None]


class _Order:
    """A job on its way to the thread, and where its answer goes."""

    __slots__ = ("begin", "future", "job", "loop")

    def __init__(self, job: Job[Any] | None, begin: str) -> None:
        self.job = job  # None: there will be no more
        self.begin = begin
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_Answer] = self.loop.create_future()

    def answer(self, answer: _Answer) -> None:
        """Tell the caller, if there still is one."""
        with suppress(RuntimeError):  # its loop is closed
            self.loop.call_soon_threadsafe(self._settle, answer)

    def _settle(self, answer: _Answer) -> None:
        if not self.future.done():
            self.future.set_result(answer)


class _Worker:
    """The thread's side. It knows nothing of the database object, which may be dropped."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.pid = os.getpid()
        self.orders: SimpleQueue[_Order | None] = SimpleQueue()
        # A thread that cannot hinder the process from ending: it may be waiting for a lock.
        self.thread = threading.Thread(target=self._work, name=f"acc {path.name}", daemon=True)
        self.thread.start()
        atexit.register(self.finish)

    def finish(self) -> None:
        """Give what was submitted the time that a lock may take, then let the process end."""
        if self.pid == os.getpid():
            self.orders.put(None)
            self.thread.join(self.busy_timeout + 1.0)

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        while (order := self.orders.get()) is not None and (job := order.job) is not None:
            result: Any = None
            fault: BaseException | None = None
            try:
                if connection is None:
                    connection = connect(self.path, self.busy_timeout)
                result = self._execute(connection, job, order.begin)
            except sqlite3.Error as error:
                fault = storage_failed(self.path, error)
                fault.__cause__ = error
                if connection is not None and not is_connection_usable_after(error):
                    connection.close()
                    connection = None
            except msgspec.MsgspecError as error:
                fault = StorageFailed(
                    f"{self.path}: it holds something that cannot be read ({error}); "
                    "it was damaged, or written by a newer acc"
                )
            except UnicodeEncodeError as error:
                fault = InvalidInput(f"text that is not Unicode cannot be stored: {error}")
            except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
                fault = error
            order.answer((result, fault))
            del order, job, result, fault
        if connection is not None:
            connection.close()
        atexit.unregister(self.finish)
        if order is not None:
            order.answer((None, None))

    @staticmethod
    def _execute(connection: sqlite3.Connection, job: Job[Any], begin: str) -> Any:
        """Do a job as one transaction: all of it or nothing."""
        try:
            connection.execute(begin)
            result = job(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result


class SqliteDatabase:
    """Runs jobs on one SQLite file, each as one transaction, in the order they are submitted.

    The file is opened when first used. A job that was submitted is done even if nobody waits for it
    any more. Commits survive the death of the process; a power cut may take the last ones.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float = 5.0) -> None:
        # The working directory may change between now and the first use.
        self.path = Path(path).absolute()
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._closed = False

    async def read(self, job: Job[T]) -> T:
        """Return what a job that only reads finds, all at one moment."""
        return await self._submit(job, "BEGIN")

    async def write(self, job: Job[T]) -> T:
        """Return what a job gives back once all that it wrote is stored."""
        return await self._submit(job, "BEGIN IMMEDIATE")

    async def aclose(self) -> None:
        """Do what was submitted, then let go of the file and the thread."""
        with self._lock:
            worker = None if self._closed else self._worker
            self._closed = True
        if worker is None or worker.pid != os.getpid():
            return
        farewell = _Order(None, "")
        worker.orders.put(farewell)
        await farewell.future
        worker.thread.join()  # it has nothing left to do but to end

    async def _submit(self, job: Job[T], begin: str) -> T:
        order = _Order(job, begin)
        with self._lock:
            self._usable_worker().orders.put(order)
        result, fault = await order.future
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # or the error and this frame would keep each other alive
        return result  # type: ignore[no-any-return] # it is what the job returned

    def _usable_worker(self) -> _Worker:
        if self._closed:
            raise StorageFailed(f"{self.path}: the store is closed; make a new one")
        if self._worker is None:
            self._worker = _Worker(self.path, self._busy_timeout)
            weakref.finalize(self, self._worker.orders.put, None).atexit = False
        elif self._worker.pid != os.getpid():
            raise StorageFailed(
                f"{self.path}: the store was in use before this process was forked off; "
                "make a new one here"
            )
        return self._worker


def as_database(given: SqliteDatabase | str | Path) -> SqliteDatabase:
    """Return the database given, or one of its own for a path."""
    return given if isinstance(given, SqliteDatabase) else SqliteDatabase(given)
