"""Task store in one SQLite file that several processes may share."""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from acc.adapters.storage import sqlite_deliveries as deliveries
from acc.adapters.storage import sqlite_task_rows as rows
from acc.adapters.storage.invariants import (
    check_active,
    check_content,
    check_push_configs,
    digest_in_context,
    encode,
    encode_readable,
    message_digest,
    message_size,
    names_other_context,
    parse_page_token,
)
from acc.adapters.storage.processes import Process, this_process
from acc.adapters.storage.sqlite import (
    Operation,
    SqliteDatabase,
    as_database,
    attempt,
)
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.task_records import (
    TASK_DECODER,
    encode_config,
    encode_updates,
    expired_tasks,
)
from acc.domain.errors import AccError, InvalidTransition, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.session import Session
from acc.domain.value_objects.task import (
    ACTIVE,
    Message,
    MessageAdded,
    PushConfig,
    StatusUpdate,
    Task,
    TaskEvent,
    TaskPage,
    TaskQuery,
    Update,
)
from acc.ports.outbound.storage_ports import (
    LEASE_SECONDS,
    NONE_IN_FLIGHT,
    AppendTaskUpdates,
    BeginTurn,
    CommitResult,
    ContentLimit,
    Delivery,
    ExpiredTask,
    SubmitResult,
    Write,
)
from acc.ports.outbound.system_ports import ClockPort

T = TypeVar("T")
_LATEST_SEQS = "SELECT task_id, seq FROM tasks WHERE app_name = ? AND task_id IN ({})"
_RENEW = (
    "UPDATE tasks SET lease_until = ? WHERE holder_host = ? AND holder_pid = ?"
    " AND holder_started = ? AND app_name = ? AND task_id IN ({})"
)
_LEASE = (
    "UPDATE tasks SET holder_host = ?, holder_pid = ?, holder_started = ?, lease_until = ?"
    " WHERE id = ?"
)
_ACTIVE = (
    "SELECT id, task_id, lease_until, holder_host, holder_pid, holder_started"  # noqa: S608 - constants
    f" FROM tasks INDEXED BY tasks_active WHERE app_name = ? AND {rows.IS_ACTIVE} ORDER BY id"
)
_OWNERS_PER_READ = 500
_POLL_SECONDS = 0.2


class SqliteTaskStore:
    """Stores the tasks of one application; the cost of a call does not grow with their number.

    It takes a path, or a database that it shares with other stores. Closing the store closes it.
    """

    def __init__(
        self,
        database: SqliteDatabase | str | Path,
        *,
        clock: ClockPort,
        app_name: str = "",
        lease: float = LEASE_SECONDS,
    ) -> None:
        self.database = as_database(database)
        self.app_name = app_name
        self._clock = clock
        self.lease = lease
        #: Positions of active tasks that were created here: a hint, checked by the fence.
        self._positions: dict[str, rows.TaskPosition] = {}

    async def wait_for_changes(self) -> Collection[str] | None:
        """Wait a moment; return None, because any process may have changed any task."""
        await asyncio.sleep(_POLL_SECONDS)
        return None

    async def create(
        self,
        task: Task,
        *,
        owner: Owner,
        message: Message,
        push: PushConfig | None = None,
        key: str = "",
        max_active: int | None = None,
        content: ContentLimit | None = None,
    ) -> SubmitResult:
        """Store a new task, leased by this process; its first event is its status.

        A repeated message changes nothing; the task that it led to is returned.
        """
        # Encoded now, so that later changes to mutable content are not stored.
        digest = message_digest(message, "", key)
        created = replace(task, history=(*task.history, message), seq=1)
        new_task = rows.NewTask(
            created,
            owner,
            digest,
            snapshot=encode_readable(created, f"task {task.id!r}", TASK_DECODER),
            event=encode(StatusUpdate(status=task.status), f"task {task.id!r}"),
            lease=self._new_lease(),
            account=owner if content is None else content.account,
            size=message_size(message),
        )
        config = None if push is None else encode_config(replace(push, task_id=task.id))

        def create(connection: sqlite3.Connection) -> SubmitResult:
            row = rows.find_owner(connection, self.app_name, owner)
            known, entry = rows.task_of_message(connection, row, digest), new_task
            if known is not None and names_other_context(known, message):
                entry = new_task._replace(digest=digest_in_context(digest, message.context_id))
                known = rows.task_of_message(connection, row, entry.digest)
            if known is not None:
                return SubmitResult(known, False)
            check_active(0 if row is None else row.active, max_active)
            account = row
            if entry.account != owner:
                account = rows.find_owner(connection, self.app_name, entry.account)
            stored = (0, 0) if account is None else account.stored
            check_content(stored[0] + 1, stored[1] + entry.size, content)
            position = rows.add_task(connection, self.app_name, row, account, entry)
            if config is not None:
                deliveries.save_config(connection, position.id, *config)
            self._positions[task.id] = position
            return SubmitResult(created, True)

        return await self.database.write(create)

    async def continue_task(
        self,
        task_id: str,
        *,
        owner: Owner,
        message: Message,
        updates: Sequence[Update],
        expected: Task | None,
        key: str = "",
        content: ContentLimit | None = None,
    ) -> SubmitResult:
        """Add a message and updates to a task, which this process leases from now on.

        InvalidTransition if it is not as `expected`. A repeated message changes nothing.
        """
        digest = message_digest(message, task_id, key)
        encoded = encode_updates(task_id, (MessageAdded(message=message), *updates))
        seq, size = -1 if expected is None else expected.seq, message_size(message)
        now, lease = self._clock.now(), self._new_lease()

        def store(connection: sqlite3.Connection) -> SubmitResult:
            owner_row = rows.find_owner(connection, self.app_name, owner)
            known = rows.task_of_message(connection, owner_row, digest)
            if known is not None:
                return SubmitResult(known, False)
            row = rows.find(connection, self.app_name, task_id)
            if row is None or not row.belongs_to(owner):
                raise TaskNotFound(task_id)
            if row.seq != seq:
                raise InvalidTransition(task_id, row.task_state.value, "a message")
            check_content(0, rows.add_content(connection, row.id, size), content)
            rows.append_updates(connection, task_id, row, encoded, now)
            rows.add_message(connection, row.owner, row.id, digest)
            connection.execute(_LEASE, (*lease, row.id))
            return SubmitResult(rows.read_task(connection, row.id), True)

        return await self.database.write(store)

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers."""
        return await self.database.write(self.append_operation(AppendTaskUpdates(task_id, updates)))

    def append_operation(self, write: AppendTaskUpdates) -> Operation[tuple[TaskEvent, ...]]:
        """Return the operation of `append`, to be run in a transaction of the database."""
        task_id = write.task_id
        encoded = encode_updates(task_id, write.updates)
        now = self._clock.now()

        def append(connection: sqlite3.Connection) -> tuple[TaskEvent, ...]:
            position = self._positions.pop(task_id, None)
            if position is not None:
                advance = rows.append_at(connection, task_id, position, encoded)
                if advance is not None:
                    if advance.state in ACTIVE:
                        seq = advance.events[-1].seq
                        moved = position._replace(state=advance.state, seq=seq)
                        self._positions[task_id] = moved
                    return advance.events
            row = self._existing(connection, task_id)
            return rows.append_updates(connection, task_id, row, encoded, now)

        return append

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the given owner has no such task."""

        def read(connection: sqlite3.Connection) -> Task | None:
            row = rows.find(connection, self.app_name, task_id)
            if row is None or (owner is not None and not row.belongs_to(owner)):
                return None
            return rows.read_task(connection, row.id)

        return await self.database.read(read)

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        count = -1 if limit is None else max(limit, 0)
        return await self._read_of_task(
            task_id, lambda c, row_id: rows.read_events(c, row_id, after, count), ()
        )

    async def latest_seqs(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task that exists, in one query."""
        names = list(task_ids)

        def read(connection: sqlite3.Connection) -> dict[str, int]:
            seqs: dict[str, int] = {}
            for marks, batch in rows.in_batches(names):
                values = (self.app_name, *batch)
                seqs.update(connection.execute(_LATEST_SEQS.format(marks), values))
            return seqs

        return await self.database.read(read)

    async def list_tasks(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, most recently updated first, in constant time."""
        end = parse_page_token(query.page_token) if query.page_token else None
        return await self.database.read(
            lambda c: rows.list_tasks(c, self.app_name, owner, query, end)
        )

    async def renew(self, task_ids: Collection[str]) -> None:
        """Extend the leases of tasks; those that another process took over are skipped."""
        names = list(task_ids)
        *process, until = self._new_lease()

        def renew(connection: sqlite3.Connection) -> None:
            for marks, batch in rows.in_batches(names):
                connection.execute(_RENEW.format(marks), (until, *process, self.app_name, *batch))

        await self.database.write(renew)

    async def claim_orphans(self) -> tuple[str, ...]:
        """Lease and return active tasks whose process is dead or whose lease has expired."""
        if not await self.database.read(self._find_orphans):
            return ()
        lease = self._new_lease()

        def claim(connection: sqlite3.Connection) -> tuple[str, ...]:
            orphans = self._find_orphans(connection)
            connection.executemany(_LEASE, [(*lease, row_id) for row_id, _ in orphans])
            return tuple(name for _, name in orphans)

        return await self.database.write(claim)

    async def expired(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, in a stable order, without the first `skip`."""
        found: list[rows.TerminalTask] = []
        last_owner = 0
        while len(found) < skip + limit:
            # One read for a few owners, so that other jobs of the thread do not wait long.
            owners, some = await self.database.read(
                self._terminal_operation(last_owner, before, skip + limit - len(found))
            )
            if not owners:
                break
            found += some
            last_owner = owners[-1].id
        return expired_tasks(found[skip:])

    async def delete_expired(self, task_ids: Collection[str]) -> int:
        """Delete those of the tasks that are terminal, with their data; return how many."""
        names = list(dict.fromkeys(task_ids))
        return await self.database.write(lambda c: rows.delete_terminal(c, self.app_name, names))

    async def save_push_config(self, config: PushConfig, *, max_configs: int | None = None) -> None:
        """Store a push configuration; one with the same task and id is replaced."""
        encoded = encode_config(config)

        def save(connection: sqlite3.Connection) -> None:
            row = self._existing(connection, config.task_id)
            if not deliveries.has_config(connection, row.id, config.id):
                check_push_configs(row.push_configs, max_configs)
            deliveries.save_config(connection, row.id, *encoded)

        await self.database.write(save)

    async def list_push_configs(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the push configurations of a task, oldest first."""
        return await self._read_of_task(task_id, deliveries.read_configs, ())

    async def delete_push_config(self, task_id: str, config_id: str) -> None:
        """Delete a configuration and its pending deliveries; does nothing if it is gone."""

        def delete(connection: sqlite3.Connection) -> None:
            row = rows.find(connection, self.app_name, task_id)
            if row is not None:
                deliveries.delete_config(connection, row.id, config_id)

        await self.database.write(delete)

    async def claim_deliveries(
        self,
        *,
        limit: int,
        lease: float,
        max_per_owner: int | None = None,
        in_flight: Mapping[Owner, int] = NONE_IN_FLIGHT,
    ) -> tuple[Delivery, ...]:
        """Lease due deliveries, the oldest of each configuration."""
        now, count = self._clock.now(), max(limit, 0)
        if max_per_owner is None:
            max_per_owner, in_flight = count, NONE_IN_FLIGHT
        claim = deliveries.Claim(self.app_name, now, count, max_per_owner, dict(in_flight))
        # Frequent polling must not lock the file for other processes, so it reads first.
        if not await self.database.read(lambda c: deliveries.find_due(c, claim)):
            return ()
        return await self.database.write(lambda c: deliveries.claim_due(c, claim, now + lease))

    async def complete_delivery(self, delivery_id: int) -> None:
        """Delete a delivery that succeeded or is given up."""
        now = self._clock.now()
        await self.database.write(lambda c: deliveries.complete(c, delivery_id, now))

    async def reschedule(self, delivery_id: int, *, seconds: float) -> None:
        """Retry a delivery later and count the attempt."""
        until = self._clock.now() + seconds
        await self.database.write(lambda c: deliveries.reschedule(c, delivery_id, until))

    async def count_deliveries(self) -> int:
        """Return how many deliveries of the app are pending."""
        return await self.database.read(lambda c: deliveries.count(c, self.app_name))

    async def aclose(self) -> None:
        """Close the file and end its thread once everything submitted is done."""
        await self.database.aclose()

    def _terminal_operation(
        self, after: int, before: float, limit: int
    ) -> Operation[tuple[list[rows.NumberedOwner], list[rows.TerminalTask]]]:
        def read(
            connection: sqlite3.Connection,
        ) -> tuple[list[rows.NumberedOwner], list[rows.TerminalTask]]:
            owners = rows.next_owners(connection, self.app_name, after, _OWNERS_PER_READ)
            return owners, rows.terminal_before(connection, self.app_name, owners, before, limit)

        return read

    async def _read_of_task(
        self, task_id: str, read_row: Callable[[sqlite3.Connection, int], T], default: T
    ) -> T:
        def read(connection: sqlite3.Connection) -> T:
            row = rows.find(connection, self.app_name, task_id)
            return default if row is None else read_row(connection, row.id)

        return await self.database.read(read)

    def _existing(self, connection: sqlite3.Connection, task_id: str) -> rows.TaskRow:
        row = rows.find(connection, self.app_name, task_id)
        if row is None:
            raise TaskNotFound(task_id)
        return row

    def _find_orphans(self, connection: sqlite3.Connection) -> list[tuple[int, str]]:
        now, this = self._clock.now(), self._process
        dead: dict[tuple[Any, ...], bool] = {}
        orphans: list[tuple[int, str]] = []
        for row_id, name, lease_until, *holder in connection.execute(_ACTIVE, (self.app_name,)):
            process = tuple(holder)
            if process not in dead:
                dead[process] = Process(*process).is_dead(this)
            if dead[process] or lease_until <= now:
                orphans.append((row_id, name))
        return orphans

    def _new_lease(self) -> tuple[str, int, str, float]:
        process = self._process
        return (process.host, process.pid, process.started, self._clock.now() + self.lease)

    @cached_property
    def _process(self) -> Process:
        return this_process()


class SqliteUnitOfWork:
    """Commits writes to sessions and tasks of one database in one transaction."""

    def __init__(self, *, sessions: SqliteSessionStore, tasks: SqliteTaskStore) -> None:
        if sessions.database is not tasks.database:
            raise ValueError("sessions and tasks must share one SqliteDatabase")
        self._sessions = sessions
        self._tasks = tasks

    async def commit(self, *writes: Write) -> CommitResult:
        """Store all writes; a refused task update does not undo the events before it."""
        operations = [(write, self._operation(write)) for write in writes]

        def store(connection: sqlite3.Connection) -> CommitResult:
            session: Session | None = None
            events: tuple[Event, ...] = ()
            updates: tuple[TaskEvent, ...] = ()
            refusal: AccError | None = None
            for write, operation in operations:
                if isinstance(write, AppendTaskUpdates):
                    stored, error = attempt(connection, operation)
                    updates, refusal = updates + (stored or ()), error or refusal
                elif isinstance(write, BeginTurn):
                    session, events = operation(connection)
                    if not events:
                        break
                else:
                    events += operation(connection)
            return CommitResult(session, events, updates, refusal)

        return await self._tasks.database.write(store)

    def _operation(self, write: Write) -> Operation[Any]:
        if isinstance(write, AppendTaskUpdates):
            return self._tasks.append_operation(write)
        if isinstance(write, BeginTurn):
            return self._sessions.begin_operation(write)
        return self._sessions.append_operation(write)
