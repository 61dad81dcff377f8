"""One PostgreSQL database: connections, transactions, retries and errors."""

import asyncio
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import msgspec

from acc.adapters.storage.location import PostgresLocation, parse_location
from acc.adapters.storage.postgres_schema import (
    MIGRATIONS,
    SchemaState,
    check_schema,
    migrate,
    read_schema,
)
from acc.adapters.system.loop_cleanup import close_with_loop
from acc.domain.errors import InvalidInput, StorageFailed

if TYPE_CHECKING:
    from asyncpg import Connection

T = TypeVar("T")
#: What is done with a connection. It may run again if it had no effect, so it must change nothing
#: but the database.
Operation = Callable[["Connection[Any]"], Awaitable[T]]
DEFAULT_CONNECTIONS = 10
_CONNECT_SECONDS = 5.0
_STATEMENT_SECONDS = 30.0
#: A connection has ended if the machine of the server confirms nothing for so long.
_SILENCE_SECONDS = 10
#: A process that was connected before waits so long for a server that restarts or fails over.
_OUTAGE_SECONDS = 15.0
_MAX_ATTEMPTS = 6
#: Smaller differences between the clocks are not corrected.
_MIN_SKEW_SECONDS = 0.5
_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
LOST_CONNECTION = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # The server has announced its end, and the connection is not closed yet.
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    OSError,
)
_UNAVAILABLE = (
    *LOST_CONNECTION,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)
_HINTS: tuple[tuple[type[Exception], str], ...] = (
    (
        asyncpg.InvalidPasswordError,
        "the password is wrong or missing; check user and password of the URL",
    ),
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "the server rejects this user or host; check the user of the URL and pg_hba.conf",
    ),
    (
        asyncpg.InvalidCatalogNameError,
        "the database does not exist; create it, for example with createdb",
    ),
    (
        asyncpg.InvalidSchemaNameError,
        "the schema of the search path does not exist; create it, or change search_path",
    ),
    (
        asyncpg.ReadOnlySQLTransactionError,
        "the database is read-only; connect to the primary server, or unset "
        "default_transaction_read_only",
    ),
    (
        asyncpg.InsufficientPrivilegeError,
        "the user has not enough privileges; grant it the tables acc_*, and CREATE on the schema "
        "for `acc store migrate`",
    ),
    (
        asyncpg.UndefinedTableError,
        "tables of acc are missing; run: acc store migrate",
    ),
    (
        asyncpg.TooManyConnectionsError,
        "the server has no free connection; raise its max_connections, or use fewer processes",
    ),
    (asyncpg.DiskFullError, "the disk of the server is full; free some space and try again"),
    (asyncpg.CannotConnectNowError, "the server is starting or stopping; try again"),
    (
        asyncpg.TargetServerAttributeNotMatched,
        "no host has the role that target_session_attrs of the URL requires; check the hosts, and "
        "that one of them is the primary server",
    ),
)


class _CommitInterrupted(Exception):
    """The connection was lost while a transaction was committed."""


class PostgresDatabase:
    """Runs operations on one PostgreSQL database, through a few connections per event loop.

    The tables are created on first use if there are none. A write runs to its end even if its
    caller is cancelled. Conflicts between transactions are retried. A lost connection is retried
    where the operation had no effect; otherwise the error says that the outcome is unknown.
    """

    def __init__(
        self, location: PostgresLocation | str, *, max_connections: int = DEFAULT_CONNECTIONS
    ) -> None:
        parsed = parse_location(location) if isinstance(location, str) else location
        if not isinstance(parsed, PostgresLocation):
            raise InvalidInput("the URL of a database is postgresql://USER:PASSWORD@HOST/DATABASE")
        self.location = parsed
        self._max_connections = max_connections
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._writes: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._pid = os.getpid()
        self._is_ready = False
        self._skew = _Skew()

    @property
    def clock_skew(self) -> float:
        """Return the seconds by which the clock of the server is ahead of this machine's now."""
        skew = self._skew.now()
        return skew if abs(skew) >= _MIN_SKEW_SECONDS else 0.0

    async def compare_clocks(self) -> None:
        """Measure the skew unless it is known, before a lease is computed outside an operation."""
        if not self._is_ready:
            await self.read(lambda connection: connection.fetchval("SELECT 1"))

    async def read(self, operation: Operation[T]) -> T:
        """Return the result of an operation with one statement that only reads."""
        return await self._run(operation, is_repeatable=True)

    async def read_snapshot(self, operation: Operation[T]) -> T:
        """Return the result of an operation with several reads, all in one snapshot."""

        async def read(connection: "Connection[Any]") -> T:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await operation(connection)

        return await self._run(read, is_repeatable=True)

    async def write(self, operation: Operation[T]) -> T:
        """Return the result of an operation whose last statement is the only one that writes."""
        return await self._finish(self._run(operation, is_repeatable=False))

    async def transact(self, operation: Operation[T]) -> T:
        """Return the result of an operation once its writes are committed, all or none."""

        async def run(connection: "Connection[Any]") -> T:
            transaction = connection.transaction()
            await transaction.start()
            try:
                result = await operation(connection)
            except TimeoutError:
                connection.terminate()  # a rollback would have to wait too
                raise
            except BaseException:
                if not connection.is_closed():
                    await transaction.rollback()
                raise
            try:
                await transaction.commit()
            except LOST_CONNECTION as error:
                raise _CommitInterrupted from error
            return result

        return await self._finish(self._run(run, is_repeatable=True))

    @asynccontextmanager
    async def exclusive(self, *, isolation: str) -> "AsyncIterator[Connection[Any]]":
        """Return a connection with checked tables, in one transaction, and close it at the end."""
        connection = await self._connect_prepared()
        try:
            async with connection.transaction(isolation=isolation):
                yield connection
        except (asyncpg.PostgresError, *LOST_CONNECTION) as error:
            raise self.convert(error) from error
        finally:
            await connection.close()

    async def connect(self) -> "Connection[Any]":
        """Return a new connection that is not used for operations."""
        return await self._connect()

    async def aclose(self) -> None:
        """Finish what was submitted in this event loop, then close all connections."""
        self._closed = True
        if self._writes:
            await asyncio.wait(set(self._writes))
        loop = asyncio.get_running_loop()
        for owner, pool in list(self._pools.items()):
            if owner is loop:
                await pool.aclose()
            else:
                pool.terminate()
        self._pools.clear()

    async def schema(self) -> SchemaState:
        """Return the version of the tables, without creating any."""
        connection = await self._connect()
        try:
            return await read_schema(connection)
        finally:
            await connection.close()

    async def migrate(self, *, dry_run: bool = False) -> tuple[int, ...]:
        """Apply the missing migrations, or only list them; return their versions."""
        connection = await self._connect()
        try:
            missing = await migrate(connection, migrations=MIGRATIONS, dry_run=dry_run)
        except Exception as error:
            raise self.convert(error) from error
        finally:
            await connection.close()
        return tuple(migration.version for migration in missing)

    def convert(self, error: BaseException) -> BaseException:
        """Return the error that the caller gets: the database, the reason and what to do."""
        label = self.location
        for kind, hint in _HINTS:
            if isinstance(error, kind):
                is_temporary = isinstance(error, _UNAVAILABLE)
                return StorageFailed(f"{label}: {hint}", is_temporary=is_temporary)
        if isinstance(
            error,
            asyncpg.CharacterNotInRepertoireError
            | asyncpg.UntranslatableCharacterError
            | UnicodeEncodeError,
        ):
            return InvalidInput(
                "text with NUL characters or unpaired surrogates cannot be stored as a name"
            )
        if isinstance(error, asyncpg.DataError):
            # The message of the library would repeat the value.
            return InvalidInput("a name or number cannot be stored: it is too large or not text")
        if isinstance(error, ValueError):
            # The library names parameters and files, not the password.
            is_explained = isinstance(error, asyncpg.ClientConfigurationError)
            reason = f": {error.args[0]}" if is_explained else ""
            return InvalidInput(f"{label}: the URL of the database is not valid{reason}")
        if isinstance(error, _UNAVAILABLE):
            return StorageFailed(
                f"{label}: the server cannot be reached ({_reason(error)}); check host and port of "
                "the URL, and that the server runs",
                is_temporary=True,
            )
        if isinstance(error, asyncpg.PostgresError):
            return StorageFailed(f"{label}: {type(error).__name__} ({error.sqlstate}): {error}")
        if isinstance(error, msgspec.MsgspecError):
            return StorageFailed(
                f"{label}: a record cannot be read ({error}); it was written by a newer acc"
            )
        return error

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        # Not in a task group: the write must outlive a caller that is cancelled.
        task = asyncio.get_running_loop().create_task(work)
        self._writes.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.wait([task])
            raise

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # it is retrieved, also if nobody waits for the task any more

    async def _run(self, operation: Operation[T], *, is_repeatable: bool) -> T:
        for attempt in count(1):
            pool = self._pool()
            connection = await pool.acquire()
            try:
                return await operation(connection)
            except (*_CONFLICTS, *LOST_CONNECTION) as error:
                if _is_statement_timeout(error):
                    connection.terminate()
                    # They may lead to the same server, which may not respond at all.
                    pool.drop_idle()
                    raise self._statement_timeout(is_repeatable) from error
                if isinstance(error, LOST_CONNECTION):
                    connection.terminate()
                    if not is_repeatable and not _was_not_sent(error):
                        raise self._outcome_unknown() from error
                if attempt == _MAX_ATTEMPTS:
                    raise self.convert(error) from error
            except _CommitInterrupted as error:
                raise self._outcome_unknown() from error
            except (asyncpg.PostgresError, UnicodeEncodeError, msgspec.MsgspecError) as error:
                raise self.convert(error) from error
            finally:
                pool.release(connection)
            await asyncio.sleep(_backoff(attempt))
        raise AssertionError("unreachable")

    def _outcome_unknown(self) -> StorageFailed:
        return StorageFailed(
            f"{self.location}: the connection was lost during a write, which may be stored or not; "
            "read the session or task before you repeat it"
        )

    def _statement_timeout(self, is_without_effect: bool) -> StorageFailed:
        effect = "without effect" if is_without_effect else "its writes may be stored or not"
        return StorageFailed(
            f"{self.location}: a statement took longer than {_STATEMENT_SECONDS:g} seconds, "
            f"{effect}; check the load and the locks of the server",
            is_temporary=True,
        )

    def _pool(self) -> "_Pool":
        if self._closed:
            raise StorageFailed(f"{self.location}: the store is closed; create a new one")
        if self._pid != os.getpid():
            raise StorageFailed(
                f"{self.location}: the store was created before this process was forked; "
                "create a new one in the child process"
            )
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for other in [other for other in self._pools if other.is_closed()]:
                self._pools.pop(other).terminate()
            pool = self._pools[loop] = _Pool(self._open, self._max_connections)
        return pool

    async def _open(self) -> "Connection[Any]":
        """Return a new connection, and wait for a server that was reachable before."""
        deadline = time.monotonic() + _OUTAGE_SECONDS
        attempt = 1
        while True:
            try:
                return await self._connect_prepared()
            except StorageFailed as error:
                is_outage = isinstance(error.__cause__, _UNAVAILABLE)
                if not (is_outage and self._is_ready) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_backoff(attempt))
            attempt = min(attempt + 1, _MAX_ATTEMPTS)

    async def _connect_prepared(self) -> "Connection[Any]":
        connection = await self._connect()
        if not self._is_ready:
            await self._prepare(connection)
        return connection

    async def _connect(self) -> "Connection[Any]":
        """Return a new connection to the first host that accepts one."""
        *others, last = self.location.urls_by_host()
        for url in others:
            try:
                return await _connect_to(url)
            except _UNAVAILABLE:
                continue
            except Exception as error:
                raise self.convert(error) from error
        try:
            return await _connect_to(last)
        except Exception as error:
            raise self.convert(error) from error

    async def _prepare(self, connection: "Connection[Any]") -> None:
        """Check the tables, create them in an empty schema, and compare the clocks."""
        try:
            state = await read_schema(connection)
            if state.version == 0:
                await migrate(connection)
                state = await read_schema(connection)
            check_schema(str(self.location), state)
            skew = await _measure_skew(connection)
        except StorageFailed:
            await connection.close()
            raise
        except Exception as error:
            await connection.close()
            raise self.convert(error) from error
        except asyncio.CancelledError:
            connection.terminate()
            raise
        self._skew = skew
        self._is_ready = True


async def _connect_to(url: str) -> "Connection[Any]":
    # The time limit of the library is for all hosts of a URL together.
    connection = await asyncpg.connect(
        url,
        timeout=_CONNECT_SECONDS,
        command_timeout=_STATEMENT_SECONDS,
        server_settings={"application_name": "acc"},
    )
    _watch_machine(connection)
    return connection


def _watch_machine(connection: "Connection[Any]") -> None:
    """Let the connection end if the machine of the server disappears without a word."""
    transport = getattr(connection, "_transport", None)
    own = transport.get_extra_info("socket") if transport is not None else None
    if own is None or own.family == getattr(socket, "AF_UNIX", None):
        return
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _SILENCE_SECONDS // 2),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", _SILENCE_SECONDS // 2),
        ("TCP_USER_TIMEOUT", _SILENCE_SECONDS * 1000),
    ):
        option = getattr(socket, name, None)  # not every system has all
        if option is not None:
            own.setsockopt(socket.IPPROTO_TCP, option, value)


class _Skew:
    """A measured difference between the clocks, which follows when this machine's is set."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._offset = time.time() - _steady_time()

    def now(self) -> float:
        """Return the present difference."""
        return self._seconds - (time.time() - _steady_time() - self._offset)


async def _measure_skew(connection: "Connection[Any]") -> _Skew:
    before = time.time()
    server = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())")
    return _Skew(float(server) - (before + time.time()) / 2)


def _steady_time() -> float:
    """Return a monotonic time, which includes the suspension of the machine on Linux."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


def as_database(database: PostgresDatabase | PostgresLocation | str) -> PostgresDatabase:
    """Return the database, or a new one for a URL."""
    return database if isinstance(database, PostgresDatabase) else PostgresDatabase(database)


class _Pool:
    """Connections of one event loop, the last used first.

    The pool of asyncpg costs 40 us for each operation, more than half of a statement.
    """

    def __init__(self, connect: Callable[[], Awaitable["Connection[Any]"]], size: int) -> None:
        self._connect = connect
        self._idle: list[Connection[Any]] = []
        self._in_use: set[Connection[Any]] = set()
        self._slots = asyncio.Semaphore(size)
        self._closing = close_with_loop(self.aclose)

    async def acquire(self) -> "Connection[Any]":
        """Return a connection; wait until one is free."""
        await self._slots.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    break
            else:
                connection = await self._connect()
        except BaseException:
            self._slots.release()
            raise
        self._in_use.add(connection)
        return connection

    def release(self, connection: "Connection[Any]") -> None:
        """Return a connection to the pool, or drop one in an unknown state."""
        self._in_use.discard(connection)
        if connection.is_closed():
            pass
        elif connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append(connection)
        self._slots.release()

    def drop_idle(self) -> None:
        """Drop the connections that are not in use."""
        for connection in self._idle:
            connection.terminate()
        self._idle.clear()

    async def aclose(self) -> None:
        """Close idle connections, and drop those in use."""
        for connection in self._idle:
            await connection.close()
        self._idle.clear()
        for connection in self._in_use:
            connection.terminate()

    def terminate(self) -> None:
        """Drop the connections of another event loop."""
        self._idle.clear()
        self._in_use.clear()


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "a socket or certificate file of the URL does not exist"
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _is_statement_timeout(error: BaseException) -> bool:
    """Return True if the library waited too long; an error of the system has a number."""
    return isinstance(error, TimeoutError) and error.errno is None


def _was_not_sent(error: BaseException) -> bool:
    """Return True if the library refused a statement because of the state of its connection."""
    return isinstance(error, asyncpg.InternalClientError) and "cannot switch to state" in str(error)


def _backoff(attempt: int) -> float:
    return 0.02 * (1 << attempt) * (0.5 + random.random())  # noqa: S311 - no secret
