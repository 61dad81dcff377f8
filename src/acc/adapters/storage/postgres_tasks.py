"""Task store and unit of work in a PostgreSQL database that several processes share."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from acc.adapters.storage import postgres_deliveries as deliveries
from acc.adapters.storage import postgres_task_rows as rows
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
from acc.adapters.storage.location import PostgresLocation
from acc.adapters.storage.postgres import Operation, PostgresDatabase, as_database
from acc.adapters.storage.postgres_notifications import TaskNotifications
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.storage.processes import Process, this_process
from acc.adapters.storage.task_records import (
    TASK_DECODER,
    encode_config,
    encode_updates,
    expired_tasks,
)
from acc.domain.errors import AccError, InvalidTransition, StorageFailed, TaskNotFound
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

if TYPE_CHECKING:
    from asyncpg import Connection

_LATEST_SEQS = "SELECT task_id, seq FROM acc_tasks WHERE app_name = $1 AND task_id = ANY($2)"
_RENEW = (
    "UPDATE acc_tasks SET lease_until = $4 WHERE holder_host = $1 AND holder_pid = $2"
    " AND holder_started = $3 AND app_name = $5 AND task_id = ANY($6)"
)
_LEASE = (
    "UPDATE acc_tasks SET holder_host = $2, holder_pid = $3, holder_started = $4, lease_until = $5"
    " WHERE id = $1"
)
_ACTIVE = (
    "SELECT id, lease_until, holder_host, holder_pid, holder_started FROM acc_tasks"
    " WHERE app_name = $1 AND state IN ('submitted', 'working') ORDER BY id"
)
# A task that another process claimed or renewed meanwhile is not claimed.
_CLAIM = (
    "UPDATE acc_tasks t SET holder_host = $1, holder_pid = $2, holder_started = $3,"
    " lease_until = $4 FROM unnest($5::bigint[], $6::double precision[]) o (id, lease_until)"
    " WHERE t.id = o.id AND t.lease_until = o.lease_until"
    " AND t.state IN ('submitted', 'working') RETURNING t.id, t.task_id"
)
_MAX_CONFLICTS = 20
#: Transactions of one owner that may run at the same time in all processes.
_MAX_CONCURRENT = 64


class PostgresTaskStore:
    """Stores the tasks of one application; no row is written by all of its tasks.

    It takes a URL, or a database that it shares with other stores. Closing the store closes it.
    """

    def __init__(
        self,
        database: PostgresDatabase | PostgresLocation | str,
        *,
        clock: ClockPort,
        app_name: str = "",
        lease: float = LEASE_SECONDS,
    ) -> None:
        self.database = as_database(database)
        self.app_name = app_name
        self._clock = clock
        self.lease = lease
        self._notifications = TaskNotifications(self.database)
        #: Positions of active tasks that were created here: a hint, checked by the fence.
        self._positions: dict[str, rows.TaskPosition] = {}

    async def wait_for_changes(self) -> Collection[str] | None:
        """Wait for updates by other processes; return their tasks, None to check all."""
        return await self._notifications.wait()

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
        await self.database.compare_clocks()
        digest = message_digest(message, "", key)
        in_context = digest_in_context(digest, message.context_id)
        created = replace(task, history=(*task.history, message), seq=1)
        new_task = rows.NewTask(
            created,
            owner,
            digest,
            snapshot=encode_readable(created, f"task {task.id!r}", TASK_DECODER),
            event=encode(StatusUpdate(status=task.status), f"task {task.id!r}"),
            lease=self._new_lease(),
            config=(None, None) if push is None else encode_config(replace(push, task_id=task.id)),
            account=owner if content is None else content.account,
            size=message_size(message),
        )
        limit, max_or_all = (0, math.inf) if max_active is None else (max_active, max_active)

        async def create(connection: "Connection[Any]") -> SubmitResult | None:
            is_locked = connection.is_in_transaction()
            if is_locked:
                await rows.lock_owners(connection, self.app_name, owner, new_task.account)
            found = await rows.read_preconditions(
                connection, self.app_name, owner, (digest, in_context), limit, new_task.account
            )
            entry = new_task
            for row_id in (found.known, found.known_in_context):
                known = None if row_id is None else (await rows.read_rows(connection, [row_id]))
                if known and row_id is not None:
                    if row_id == found.known_in_context or not names_other_context(
                        known[row_id], message
                    ):
                        return SubmitResult(known[row_id], False)
                    entry = new_task._replace(digest=in_context)
            check_active(found.active, max_active)
            stored = found.stored_tasks + 1, found.stored_bytes + new_task.size
            check_content(*stored, content)
            # Far from the limits, transactions of one owner need not wait for each other.
            is_near = _is_near(*stored, new_task.size, content) or (
                found.active + max(found.active, _MAX_CONCURRENT) >= max_or_all
            )
            if not is_locked and is_near:
                return None
            self._positions[task.id] = await rows.add_task(connection, self.app_name, entry)
            return SubmitResult(created, True)

        for _ in range(_MAX_CONFLICTS):
            try:
                result = await self.database.write(create)
                if result is None:
                    result = await self.database.transact(create)
            except rows.RepeatedMessage:
                continue
            assert result is not None  # noqa: S101 - None asks for the transaction
            return result
        raise self._too_many_changes(task.id)

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
        await self.database.compare_clocks()
        digest = message_digest(message, task_id, key)
        encoded = encode_updates(task_id, (MessageAdded(message=message), *updates))
        seq, size = -1 if expected is None else expected.seq, message_size(message)
        now, lease = self._clock.now(), self._new_lease()

        async def store(connection: "Connection[Any]") -> SubmitResult:
            found = await rows.read_preconditions(
                connection, self.app_name, owner, (digest, digest), 0, owner
            )
            if found.known is not None:
                tasks = await rows.read_rows(connection, [found.known])
                return SubmitResult(tasks[found.known], False)
            row = await rows.find(connection, self.app_name, task_id, lock=True)
            if row is None or not row.belongs_to(owner):
                raise TaskNotFound(task_id)
            if row.seq != seq:
                raise rows.refuse_change(task_id, row)
            if row.account is not None:
                account = Owner(row.account, row.caller)
                await self._check_bytes(connection, account, size, content)
                await rows.add_content(connection, row.id, size)
            await rows.append_updates(connection, task_id, row, encoded, now)
            await rows.add_message(connection, self.app_name, owner, digest, row.id)
            await connection.execute(_LEASE, row.id, *lease)
            return SubmitResult((await rows.read_rows(connection, [row.id]))[row.id], True)

        for _ in range(_MAX_CONFLICTS):
            try:
                result = await self.database.transact(store)
            except rows.RepeatedMessage:
                continue
            self._notifications.announce(task_id)
            return result
        raise self._too_many_changes(task_id)

    async def _check_bytes(
        self,
        connection: "Connection[Any]",
        account: Owner,
        size: int,
        content: ContentLimit | None,
    ) -> None:
        """Raise LimitExceeded if an account must not store more bytes."""
        if content is None:
            return
        stored = size + await rows.read_stored_bytes(connection, self.app_name, account)
        if _is_near(0, stored, size, content):
            await rows.lock_owners(connection, self.app_name, account)
            stored = size + await rows.read_stored_bytes(connection, self.app_name, account)
        check_content(0, stored, content)

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers."""
        operation = self.append_operation(AppendTaskUpdates(task_id, updates))
        events = await self.database.write(operation)
        self._notifications.announce(task_id)
        return events

    def append_operation(self, write: AppendTaskUpdates) -> Operation[tuple[TaskEvent, ...]]:
        """Return the operation of `append`, which may be part of a transaction."""
        task_id = write.task_id
        encoded = encode_updates(task_id, write.updates)
        now = self._clock.now()

        async def append(connection: "Connection[Any]") -> tuple[TaskEvent, ...]:
            position = self._positions.pop(task_id, None)
            for _ in range(_MAX_CONFLICTS):
                if position is None:
                    row = await self._existing(connection, task_id)
                    result = await rows.append_updates(connection, task_id, row, encoded, now)
                    if result is not None:
                        return result.events
                    continue
                try:
                    result = await rows.append_at(connection, task_id, position, encoded, now)
                except InvalidTransition:  # another process may have changed the state
                    result = None
                if result is not None:
                    if result.state in ACTIVE and result.events:
                        seq = result.events[-1].seq
                        moved = position._replace(state=result.state, seq=seq)
                        self._positions[task_id] = moved
                    return result.events
                position = None
            raise self._too_many_changes(task_id)

        return append

    def announce(self, task_id: str) -> None:
        """Announce to other processes that a task has new events."""
        self._notifications.announce(task_id)

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the given owner has no such task."""
        return await self.database.read(lambda c: rows.read_named(c, self.app_name, task_id, owner))

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        count = None if limit is None else max(limit, 0)
        return await self.database.read(
            lambda c: rows.read_events(c, self.app_name, task_id, after, count)
        )

    async def latest_seqs(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task that exists, in one query."""
        names = list(task_ids)
        return dict(await self.database.read(lambda c: c.fetch(_LATEST_SEQS, self.app_name, names)))

    async def list_tasks(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, most recently updated first.

        The total is counted in an index; a counter in a row would make writers wait.
        """
        end = parse_page_token(query.page_token) if query.page_token else None
        return await self.database.read_snapshot(
            lambda c: rows.list_tasks(c, self.app_name, owner, query, end)
        )

    async def renew(self, task_ids: Collection[str]) -> None:
        """Extend the leases of tasks; those that another process took over are skipped."""
        if names := list(task_ids):
            lease = self._new_lease()
            await self.database.write(lambda c: c.execute(_RENEW, *lease, self.app_name, names))

    async def claim_orphans(self) -> tuple[str, ...]:
        """Lease and return active tasks whose process is dead or whose lease has expired."""
        await self.database.compare_clocks()
        now, this = self._lease_clock(), self._process
        dead: dict[tuple[Any, ...], bool] = {}
        orphans: list[tuple[int, float]] = []
        active = await self.database.read(lambda c: c.fetch(_ACTIVE, self.app_name))
        for row_id, lease_until, *holder in active:
            process = tuple(holder)
            if process not in dead:
                dead[process] = Process(*process).is_dead(this)
            if dead[process] or lease_until <= now:
                orphans.append((row_id, lease_until))
        if not orphans:
            return ()
        columns = [list(column) for column in zip(*orphans, strict=True)]
        lease = self._new_lease()
        claimed = await self.database.write(lambda c: c.fetch(_CLAIM, *lease, *columns))
        return tuple(name for _, name in sorted(claimed))

    async def expired(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, in a stable order, without the first `skip`."""
        found = await self.database.read(
            lambda c: rows.find_expired(c, self.app_name, before, limit, skip)
        )
        return expired_tasks(
            [
                (task_id, context_id, Owner(tenant, caller), count)
                for task_id, context_id, tenant, caller, count in found
            ]
        )

    async def delete_expired(self, task_ids: Collection[str]) -> int:
        """Delete those of the tasks that are terminal, with their data; return how many."""
        names = list(dict.fromkeys(task_ids))
        return await self.database.transact(lambda c: rows.delete_terminal(c, self.app_name, names))

    async def save_push_config(self, config: PushConfig, *, max_configs: int | None = None) -> None:
        """Store a push configuration; one with the same task and id is replaced."""
        encoded = encode_config(config)

        async def save(connection: "Connection[Any]") -> None:
            row = await rows.find(connection, self.app_name, config.task_id, lock=True)
            if row is None:
                raise TaskNotFound(config.task_id)
            if not await deliveries.has_config(connection, row.id, config.id):
                check_push_configs(row.push_configs, max_configs)
            await deliveries.save_config(connection, row.id, *encoded)

        await self.database.transact(save)

    async def list_push_configs(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the push configurations of a task, oldest first."""
        return await self.database.read(
            lambda c: deliveries.read_configs(c, self.app_name, task_id)
        )

    async def delete_push_config(self, task_id: str, config_id: str) -> None:
        """Delete a configuration and its pending deliveries; does nothing if it is gone."""

        async def delete(connection: "Connection[Any]") -> None:
            row = await rows.find(connection, self.app_name, task_id, lock=True)
            if row is not None:
                await deliveries.delete_config(connection, row.id, config_id)

        await self.database.transact(delete)

    async def claim_deliveries(
        self,
        *,
        limit: int,
        lease: float,
        max_per_owner: int | None = None,
        in_flight: Mapping[Owner, int] = NONE_IN_FLIGHT,
    ) -> tuple[Delivery, ...]:
        """Lease due deliveries, the oldest of each configuration."""
        await self.database.compare_clocks()
        now, count = self._lease_clock(), max(limit, 0)
        if max_per_owner is None:
            max_per_owner, in_flight = count, NONE_IN_FLIGHT
        claim = deliveries.Claim(self.app_name, now, count, max_per_owner, dict(in_flight))
        if not await self.database.read(lambda c: deliveries.find_due(c, claim)):
            return ()
        return await self.database.transact(lambda c: deliveries.claim_due(c, claim, now + lease))

    async def complete_delivery(self, delivery_id: int) -> None:
        """Delete a delivery that succeeded or is given up."""
        now = self._lease_clock()
        await self.database.transact(lambda c: deliveries.complete(c, delivery_id, now))

    async def reschedule(self, delivery_id: int, *, seconds: float) -> None:
        """Retry a delivery later and count the attempt."""
        until = self._lease_clock() + seconds
        await self.database.write(lambda c: deliveries.reschedule(c, delivery_id, until))

    async def count_deliveries(self) -> int:
        """Return how many deliveries of the app are pending."""
        return await self.database.read(lambda c: deliveries.count(c, self.app_name))

    async def aclose(self) -> None:
        """Close the connections once everything submitted is done."""
        await self._notifications.aclose()
        await self.database.aclose()

    async def _existing(self, connection: "Connection[Any]", task_id: str) -> rows.TaskRow:
        row = await rows.find(connection, self.app_name, task_id)
        if row is None:
            raise TaskNotFound(task_id)
        return row

    def _too_many_changes(self, task_id: str) -> StorageFailed:
        return StorageFailed(
            f"{self.database.location}: task {task_id!r} is changed too often by other "
            "processes; try again"
        )

    def _lease_clock(self) -> float:
        """Return the time by the clock of the server, which all processes share."""
        return self._clock.now() + self.database.clock_skew

    def _new_lease(self) -> tuple[str, int, str, float]:
        process = self._process
        return (process.host, process.pid, process.started, self._lease_clock() + self.lease)

    @cached_property
    def _process(self) -> Process:
        return this_process()


def _is_near(tasks: int, size: int, added: int, limit: ContentLimit | None) -> bool:
    """Return True if concurrent transactions, each adding so many bytes, could exceed a limit."""
    return limit is not None and (
        tasks + max(tasks, _MAX_CONCURRENT) >= limit.tasks
        or size + max(size, _MAX_CONCURRENT * added) >= limit.bytes
    )


class PostgresUnitOfWork:
    """Commits writes to sessions and tasks of one database in one transaction."""

    def __init__(self, *, sessions: PostgresSessionStore, tasks: PostgresTaskStore) -> None:
        if sessions.database is not tasks.database:
            raise ValueError("sessions and tasks must share one PostgresDatabase")
        self._sessions = sessions
        self._tasks = tasks

    async def commit(self, *writes: Write) -> CommitResult:
        """Store all writes; a refused task update does not undo the events before it."""
        operations = [(write, self._operation(write)) for write in writes]

        async def store(connection: "Connection[Any]") -> CommitResult:
            session: Session | None = None
            events: tuple[Event, ...] = ()
            updates: tuple[TaskEvent, ...] = ()
            refusal: AccError | None = None
            for write, operation in operations:
                if isinstance(write, AppendTaskUpdates):
                    try:  # a refused update has written nothing
                        updates += await operation(connection)
                    except AccError as error:
                        refusal = error
                elif isinstance(write, BeginTurn):
                    session, events = await operation(connection)
                    if not events:
                        break
                else:
                    events += await operation(connection)
            return CommitResult(session, events, updates, refusal)

        database = self._tasks.database
        run = database.transact if len(operations) > 1 else database.write
        result = await run(store)
        if result.updates:
            for write in writes:
                if isinstance(write, AppendTaskUpdates):
                    self._tasks.announce(write.task_id)
        return result

    def _operation(self, write: Write) -> Operation[Any]:
        if isinstance(write, AppendTaskUpdates):
            return self._tasks.append_operation(write)
        if isinstance(write, BeginTurn):
            return self._sessions.begin_operation(write)
        return self._sessions.append_operation(write)
