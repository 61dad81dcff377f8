"""One SQLite file, one connection, one thread that works off what it is given in order."""

import asyncio
import atexit
import os
import socket
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import msgspec

from acc.adapters.storage.sqlite_schema import connect, is_connection_usable_after, storage_failed
from acc.domain.errors import AccError, InvalidInput, StorageFailed

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
_Answer = tuple[Any, BaseException | None]
#: So that nobody waits long for what was done first.
_MOST_TOGETHER = 64


class _Order:
    """A job on its way to the thread, and where its answer goes."""

    __slots__ = ("answer", "future", "job", "loop", "writes")

    def __init__(self, job: Job[Any] | None, *, writes: bool) -> None:
        self.job = job  # None: there will be no more
        self.writes = writes
        self.answer: _Answer = (None, None)
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_Answer] = self.loop.create_future()


def _tell(orders: Sequence[_Order]) -> None:
    """Give the callers their answers, if there still are callers."""
    # The orders of one loop are answered by waking it once, which costs more than a small job.
    by_loop: dict[asyncio.AbstractEventLoop, list[_Order]] = {}
    for order in orders:
        by_loop.setdefault(order.loop, []).append(order)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_settle, some)


def _settle(orders: Sequence[_Order]) -> None:
    for order in orders:
        if not order.future.done():
            order.future.set_result(order.answer)


class _Worker:
    """The thread's side. It knows nothing of the database object, which may be dropped."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.pid = os.getpid()
        self.orders: SimpleQueue[list[_Order] | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Order]] = {}
        self._left: deque[_Order] = deque()
        self.connection: sqlite3.Connection | None = None
        self.farewell: _Order | None = None
        # A thread that cannot hinder the process from ending: it may be waiting for a lock.
        self.thread = threading.Thread(target=self._work, name=f"acc {path.name}", daemon=True)
        self.thread.start()
        atexit.register(self.finish)

    def submit(self, order: _Order) -> None:
        """Hand an order to the thread, with all that come in this round of the loop."""
        # Waking the thread for the first of them would have it work against the loop for Python's
        # lock, and commit that one alone.
        gathered = self._gathered.get(order.loop)
        if gathered is None:
            self._gathered[order.loop] = [order]
            order.loop.call_soon(self._hand_over, order.loop)
        else:
            gathered.append(order)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        orders = self._gathered.pop(loop, None)
        if orders is not None:
            self.orders.put(orders)

    def let_go(self) -> None:
        """Have the thread end once all that was submitted is done."""
        for loop in list(self._gathered):
            self._hand_over(loop)
        self.orders.put(None)

    def finish(self) -> None:
        """Give what was submitted the time that a lock may take, then let the process end."""
        if self.pid == os.getpid():
            self.let_go()
            self.thread.join(self.busy_timeout + 1.0)

    def _work(self) -> None:
        is_open = True
        while is_open:
            orders, is_open = self._waiting()
            if orders:
                self._do(orders)
                _tell(orders)
            del orders
        if self.connection is not None:
            self.connection.close()
        atexit.unregister(self.finish)
        if self.farewell is not None:
            _tell([self.farewell])

    def _waiting(self) -> tuple[list[_Order], bool]:
        """Return what there is to do, having waited for it, and whether more may come."""
        left = self._left
        is_open = True
        while is_open and len(left) < _MOST_TOGETHER and not (left and self.orders.empty()):
            more = self.orders.get()
            left.extend(more or ())
            is_open = more is not None
        orders: list[_Order] = []
        while left and len(orders) < _MOST_TOGETHER:
            order = left.popleft()
            if order.job is None:
                self.farewell = order
                return orders, False
            orders.append(order)
        if not is_open and left:
            self.orders.put(None)  # to be found again once the rest is done
        return orders, is_open or bool(left)

    def _do(self, orders: Sequence[_Order]) -> None:
        """Do jobs as one transaction, each of them all or nothing; where that fails, one by one."""
        try:
            if self.connection is None:
                self.connection = connect(self.path, self.busy_timeout)
            self._execute(self.connection, orders)
        except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
            self._recover(error)
            if len(orders) == 1:
                orders[0].answer = (None, self._fault(error))
                return
            for order in orders:
                self._do([order])

    @staticmethod
    def _execute(connection: sqlite3.Connection, orders: Sequence[_Order]) -> None:
        """Do jobs as one transaction; an error in the middle of one of them undoes all."""
        try:
            writes = any(order.writes for order in orders)
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            for order in orders:
                _do_one(connection, order)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _recover(self, error: BaseException) -> None:
        """Let go of a connection that is no good any more."""
        if self.connection is None or not isinstance(error, sqlite3.Error):
            return
        if not is_connection_usable_after(error):
            self.connection.close()
            self.connection = None

    def _fault(self, error: BaseException) -> BaseException:
        """Return an error as the caller is to get it."""
        if isinstance(error, sqlite3.Error):
            fault = storage_failed(self.path, error)
            fault.__cause__ = error
            return fault
        if isinstance(error, msgspec.MsgspecError):
            return StorageFailed(
                f"{self.path}: it holds something that cannot be read ({error}); "
                "it was damaged, or written by a newer acc"
            )
        if isinstance(error, UnicodeEncodeError):
            return InvalidInput(f"text that is not Unicode cannot be stored: {error}")
        return error


def _do_one(connection: sqlite3.Connection, order: _Order) -> None:
    assert order.job is not None  # noqa: S101 - that would have been the farewell
    order.answer = _attempted(connection, order.job)


def _attempted(connection: sqlite3.Connection, job: Job[Any]) -> _Answer:
    before = connection.total_changes
    try:
        return job(connection), None
    except AccError as error:
        if connection.total_changes != before:
            raise
        # Refused before it had changed anything: the others need not be done again.
        return None, error


class SqliteAlong(Generic[T]):
    """A job that is done as part of another one, all or nothing by itself, or else on its own."""

    __slots__ = ("_answer", "_job", "database")

    def __init__(self, database: "SqliteDatabase", job: Job[T]) -> None:
        self.database = database
        self._job = job
        self._answer: _Answer = (None, None)

    def do(self, connection: sqlite3.Connection) -> None:
        """Do the job within the other one's transaction; if it is refused, the other one stays."""
        self._answer = _attempted(connection, self._job)

    async def store(self) -> None:
        """Do the job on its own."""
        try:
            self._answer = (await self.database.write(self._job), None)
        except AccError as error:
            self._answer = (None, error)

    def result(self) -> T:
        """Return what came of it, once it is done, or raise why it was refused."""
        result, refusal = self._answer
        if refusal is not None:
            raise refusal
        return result  # type: ignore[no-any-return] # it is what the job returned


class SqliteDatabase:
    """Runs jobs on one SQLite file, each all or nothing, in the order they are submitted.

    Jobs that wait for the thread together are committed together, and answered after that. Where
    one fails halfway, all are undone and done again one by one, so a job must change nothing but
    the database. The file is opened when first used. A job that was submitted is done even if
    nobody waits for it any more. Commits survive the death of the process; a power cut may take the
    last ones.
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
        return await self._submit(job, writes=False)

    async def write(self, job: Job[T]) -> T:
        """Return what a job gives back once all that it wrote is stored."""
        return await self._submit(job, writes=True)

    def along(self, given: object) -> SqliteAlong[Any] | None:
        """Return what is to be done along with a job, if it is for this file."""
        is_ours = isinstance(given, SqliteAlong) and given.database is self
        return given if is_ours else None  # type: ignore[return-value] # it is one of ours

    async def aclose(self) -> None:
        """Do what was submitted, then let go of the file and the thread."""
        with self._lock:
            worker = None if self._closed else self._worker
            self._closed = True
        if worker is None or worker.pid != os.getpid():
            return
        farewell = _Order(None, writes=False)
        worker.submit(farewell)
        await farewell.future
        worker.thread.join()  # it has nothing left to do but to end

    async def _submit(self, job: Job[T], *, writes: bool) -> T:
        order = _Order(job, writes=writes)
        with self._lock:
            self._usable_worker().submit(order)
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
            weakref.finalize(self, self._worker.let_go).atexit = False
        elif self._worker.pid != os.getpid():
            raise StorageFailed(
                f"{self.path}: the store was in use before this process was forked off; "
                "make a new one here"
            )
        return self._worker


def added(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> int:
    """Return the number of the row that an INSERT adds."""
    number = connection.execute(statement, values).lastrowid
    assert number is not None  # noqa: S101 - it is that of an INSERT
    return number


def as_database(given: SqliteDatabase | str | Path) -> SqliteDatabase:
    """Return the database given, or one of its own for a path."""
    return given if isinstance(given, SqliteDatabase) else SqliteDatabase(given)


@dataclass(frozen=True, slots=True)
class Process:
    """A process as others can recognise it, also when its number is given to another later.

    `host` names the machine and, where there are such things, the space that numbers are counted
    in: the same number in two containers is two processes. `started` is empty if it is not known.
    """

    host: str
    pid: int
    started: str

    def is_gone(self, seen_from: "Process") -> bool:
        """Tell whether the process is known to have ended; one elsewhere is never known to."""
        if self.host != seen_from.host:
            return False
        if self.pid == seen_from.pid:
            return self.started != seen_from.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            return False
        condition, started = _look_at(self.pid)
        # A zombie runs no more; it only waits for its parent to ask how it ended.
        return condition == "Z" or bool(started and self.started and started != self.started)


def this_process() -> Process:
    """Return the process that asks."""
    try:
        numbered_in = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        numbered_in = ""
    pid = os.getpid()
    return Process(f"{socket.gethostname()} {numbered_in}".strip(), pid, _look_at(pid)[1])


def _look_at(pid: int) -> tuple[str, str]:
    """Return a process's condition and when it began; empty where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    # The name in parentheses may hold anything; the fields behind it are letters and numbers.
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
