"""Tasks in one SQLite file, which several processes may use at once."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from acc.adapters.storage import sqlite_deliveries as deliveries
from acc.adapters.storage import sqlite_task_rows as rows
from acc.adapters.storage.invariants import (
    check_active,
    check_pushes,
    digest_of,
    digest_within,
    encoded,
    is_of_another_context,
    place_of,
    readable,
)
from acc.adapters.storage.sqlite import (
    Job,
    Process,
    SqliteAlong,
    SqliteDatabase,
    as_database,
    this_process,
)
from acc.adapters.storage.sqlite_task_rows import list_tasks
from acc.domain.errors import InvalidTransition, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner
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
from acc.ports.outbound.storage_ports import NOTHING, Delivery, ExpiredTask, SubmitResult
from acc.ports.outbound.system_ports import ClockPort

T = TypeVar("T")
_HEADS = "SELECT task_id, seq FROM tasks WHERE app_name = ? AND task_id IN ({})"
_RENEW = (
    "UPDATE tasks SET lease_until = ? WHERE holder_host = ? AND holder_pid = ?"
    " AND holder_started = ? AND app_name = ? AND task_id IN ({})"
)
_HOLD = (
    "UPDATE tasks SET holder_host = ?, holder_pid = ?, holder_started = ?, lease_until = ?"
    " WHERE id = ?"
)
_HELD = (
    "SELECT id, task_id, lease_until, holder_host, holder_pid, holder_started"  # noqa: S608 - constants
    f" FROM tasks INDEXED BY tasks_active WHERE app_name = ? AND {rows.ACTIVE_ONES} ORDER BY id"
)
_AT_ONCE = 500


class SqliteTaskStore:
    """Keeps the tasks of one application in a file; a call's cost does not grow with their number.

    It takes a path, or the database that it shares with other stores. Closing it closes that.
    """

    def __init__(
        self,
        database: SqliteDatabase | str | Path,
        *,
        clock: ClockPort,
        app_name: str = "",
        lease: float = 30.0,
    ) -> None:
        self.database = as_database(database)
        self.app_name = app_name
        self._clock = clock
        self._lease = lease
        #: Where the tasks are that were filed here and are at work. Checked before it is believed.
        self._places: dict[str, rows.Place] = {}

    @property
    def is_shared(self) -> bool:
        """Tell whether other processes may move the tasks: any that opens the file."""
        return True

    async def create(
        self,
        task: Task,
        *,
        owner: Owner,
        message: Message,
        push: PushConfig | None = None,
        key: str = "",
        most_active: int | None = None,
    ) -> SubmitResult:
        """File a task that a message starts, held by this process; its first event is its status.

        A message that came before changes nothing; the task that it led to is returned.
        """
        # All is encoded before anything else can run: what is stored is what the caller had.
        digest = digest_of(message, "", key)
        filed = replace(task, history=(*task.history, message), seq=1)
        filing = rows.Filing(
            filed,
            owner,
            message,
            digest,
            snapshot=readable(filed, f"task {task.id!r}", rows.TASKS),
            event=encoded(StatusUpdate(status=task.status), f"task {task.id!r}"),
            holder=self._holder(),
        )
        config = None if push is None else _encoded_config(replace(push, task_id=task.id))

        def create(connection: sqlite3.Connection) -> SubmitResult:
            found = rows.find_owner(connection, self.app_name, owner)
            known, chosen = rows.task_of_message(connection, found, digest), filing
            if known is not None and is_of_another_context(known, message):
                chosen = filing._replace(digest=digest_within(digest, message.context_id))
                known = rows.task_of_message(connection, found, chosen.digest)
            if known is not None:
                return SubmitResult(known, False)
            check_active(0 if found is None else found.active, most_active)
            place = rows.add_task(connection, self.app_name, found, chosen)
            if config is not None:
                deliveries.save_push(connection, place.id, *config)
            self._places[task.id] = place
            return SubmitResult(filed, True)

        return await self.database.write(create)

    async def proceed(
        self,
        task_id: str,
        *,
        owner: Owner,
        message: Message,
        updates: Sequence[Update],
        seen: Task | None,
        key: str = "",
    ) -> SubmitResult:
        """Let a message move a task on, held by this process from now on.

        MoveForbidden if it is not as it was `seen`. A message that came before changes nothing.
        """
        digest = digest_of(message, task_id, key)
        bodies = _encoded_updates(task_id, (MessageAdded(message=message), *updates))
        seq = -1 if seen is None else seen.seq
        now, holder = self._clock.now(), self._holder()

        def proceed(connection: sqlite3.Connection) -> SubmitResult:
            found = rows.find_owner(connection, self.app_name, owner)
            known = rows.task_of_message(connection, found, digest)
            if known is not None:
                return SubmitResult(known, False)
            row = rows.find(connection, self.app_name, task_id)
            if row is None or not row.is_of(owner):
                raise TaskNotFound(task_id)
            if row.seq != seq:
                raise InvalidTransition(task_id, row.task_state.value, "a message")
            rows.advance(connection, task_id, row, bodies, now)
            rows.add_message(connection, row.owner, row.id, digest)
            connection.execute(_HOLD, (*holder, row.id))
            return SubmitResult(rows.read_task(connection, row.id), True)

        return await self.database.write(proceed)

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers."""
        return await self.database.write(self._appending(task_id, updates))

    def along(self, task_id: str, updates: Sequence[Update]) -> SqliteAlong[tuple[TaskEvent, ...]]:
        """Return updates to append along with the events of a session, all or none."""
        return SqliteAlong(self.database, self._appending(task_id, updates))

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the owner given has no such task."""

        def read(connection: sqlite3.Connection) -> Task | None:
            row = rows.find(connection, self.app_name, task_id)
            if row is None or (owner is not None and not row.is_of(owner)):
                return None
            return rows.read_task(connection, row.id)

        return await self.database.read(read)

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        most = -1 if limit is None else max(limit, 0)
        return await self._of_task(
            task_id, lambda c, number: rows.read_events(c, number, after, most), ()
        )

    async def heads(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task there is."""
        names = list(task_ids)

        def read(connection: sqlite3.Connection) -> dict[str, int]:
            found: dict[str, int] = {}
            for marks, some in rows.in_slices(names):
                found.update(connection.execute(_HEADS.format(marks), (self.app_name, *some)))
            return found

        return await self.database.read(read)

    async def listed(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, the last moved first; what it costs does not grow."""
        end = place_of(query.page_token) if query.page_token else None
        return await self.database.read(lambda c: list_tasks(c, self.app_name, owner, query, end))

    async def renew(self, task_ids: Collection[str]) -> None:
        """Keep hold of tasks for another lease; those that another process took over stay its."""
        names = list(task_ids)
        *mine, until = self._holder()

        def renew(connection: sqlite3.Connection) -> None:
            for marks, some in rows.in_slices(names):
                connection.execute(_RENEW.format(marks), (until, *mine, self.app_name, *some))

        await self.database.write(renew)

    async def orphans(self) -> tuple[str, ...]:
        """Return active tasks whose process is dead, or has been silent for longer than its lease.

        They are held by this process from now on, so that only one process gets each.
        """
        if not await self.database.read(self._orphans):
            return ()
        holder = self._holder()

        def take(connection: sqlite3.Connection) -> tuple[str, ...]:
            found = self._orphans(connection)
            connection.executemany(_HOLD, [(*holder, number) for number, _ in found])
            return tuple(name for _, name in found)

        return await self.database.write(take)

    async def ended(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, without some."""
        found: list[rows.Over] = []
        owners = await self._some_owners(0)
        while owners and len(found) < skip + limit:
            # Piece by piece, so that nobody has to wait long.
            found += await self._over(owners, before, skip + limit - len(found))
            owners = await self._some_owners(owners[-1].id)
        batch = found[skip:]
        contexts = Counter(one.context_id for one in batch)
        return tuple(
            ExpiredTask(name, context_id, owner, contexts[context_id] == count)
            for name, context_id, owner, count in batch
        )

    async def forget(self, task_ids: Collection[str]) -> int:
        """Drop those of some tasks that are over, with all that is theirs; return how many."""
        names = list(dict.fromkeys(task_ids))
        return await self.database.write(lambda c: rows.forget(c, self.app_name, names))

    async def save_push(self, config: PushConfig, *, most: int | None = None) -> None:
        """Keep a configuration; one with the same task and id is replaced."""
        body = _encoded_config(config)

        def save(connection: sqlite3.Connection) -> None:
            row = self._found(connection, config.task_id)
            if not deliveries.has_push(connection, row.id, config.id):
                check_pushes(row.pushes, most)
            deliveries.save_push(connection, row.id, *body)

        await self.database.write(save)

    async def pushes(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the configurations of a task, the oldest first."""
        return await self._of_task(task_id, deliveries.read_pushes, ())

    async def delete_push(self, task_id: str, config_id: str) -> None:
        """Drop a configuration and what is still to be delivered to it; harmless if it is gone."""

        def delete(connection: sqlite3.Connection) -> None:
            row = rows.find(connection, self.app_name, task_id)
            if row is not None:
                deliveries.delete_push(connection, row.id, config_id)

        await self.database.write(delete)

    async def due(
        self,
        *,
        limit: int,
        lease: float,
        of_one: int | None = None,
        under_way: Mapping[Owner, int] = NOTHING,
    ) -> tuple[Delivery, ...]:
        """Take deliveries whose time has come, at most one for each configuration, the oldest."""
        now, most = self._clock.now(), max(limit, 0)
        if of_one is None:
            of_one, under_way = most, NOTHING
        asked = deliveries.Asked(self.app_name, now, most, of_one, dict(under_way))
        # Whoever looks often must not keep the file locked for others.
        if not await self.database.read(lambda c: deliveries.find_due(c, asked)):
            return ()
        return await self.database.write(lambda c: deliveries.take_due(c, asked, now + lease))

    async def delivered(self, delivery_id: int) -> None:
        """Settle a delivery: it arrived, or is given up."""
        now = self._clock.now()
        await self.database.write(lambda c: deliveries.settle(c, delivery_id, now))

    async def postpone(self, delivery_id: int, *, seconds: float) -> None:
        """Try a delivery again later, counting the attempt."""
        until = self._clock.now() + seconds
        await self.database.write(lambda c: deliveries.postpone(c, delivery_id, until))

    async def aclose(self) -> None:
        """Let go of the file and its thread, once all that was submitted is done."""
        await self.database.aclose()

    def _appending(self, task_id: str, updates: Sequence[Update]) -> Job[tuple[TaskEvent, ...]]:
        bodies = _encoded_updates(task_id, updates)
        now = self._clock.now()

        def append(connection: sqlite3.Connection) -> tuple[TaskEvent, ...]:
            place = self._places.pop(task_id, None)
            made = None if place is None else rows.step(connection, task_id, place, bodies)
            if place is None or made is None:
                return rows.advance(
                    connection, task_id, self._found(connection, task_id), bodies, now
                )
            if made.state in ACTIVE:
                seq = made.events[-1].seq
                self._places[task_id] = place._replace(state=made.state, seq=seq)
            return made.events

        return append

    async def _some_owners(self, after: int) -> list[rows.NumberedOwner]:
        return await self.database.read(
            lambda c: rows.some_owners(c, self.app_name, after, _AT_ONCE)
        )

    async def _over(
        self, owners: Sequence[rows.NumberedOwner], before: float, limit: int
    ) -> list[rows.Over]:
        return await self.database.read(
            lambda c: rows.over_before(c, self.app_name, owners, before, limit)
        )

    async def _of_task(
        self, task_id: str, job: Callable[[sqlite3.Connection, int], T], otherwise: T
    ) -> T:
        def read(connection: sqlite3.Connection) -> T:
            row = rows.find(connection, self.app_name, task_id)
            return otherwise if row is None else job(connection, row.id)

        return await self.database.read(read)

    def _found(self, connection: sqlite3.Connection, task_id: str) -> rows.Row:
        row = rows.find(connection, self.app_name, task_id)
        if row is None:
            raise TaskNotFound(task_id)
        return row

    def _orphans(self, connection: sqlite3.Connection) -> list[tuple[int, str]]:
        now, me = self._clock.now(), self._process
        gone: dict[tuple[Any, ...], bool] = {}
        found: list[tuple[int, str]] = []
        for number, name, lease_until, *holder in connection.execute(_HELD, (self.app_name,)):
            process = tuple(holder)
            if process not in gone:
                gone[process] = Process(*process).is_gone(me)
            if gone[process] or lease_until <= now:
                found.append((number, name))
        return found

    def _holder(self) -> tuple[str, int, str, float]:
        me = self._process
        return (me.host, me.pid, me.started, self._clock.now() + self._lease)

    @cached_property
    def _process(self) -> Process:
        return this_process()


def _encoded_updates(task_id: str, updates: Sequence[Update]) -> list[tuple[Update, bytes]]:
    what = f"an update of task {task_id!r}"
    return [(update, readable(update, what, rows.UPDATES)) for update in updates]


def _encoded_config(config: PushConfig) -> tuple[str, bytes]:
    return config.id, encoded(config, f"push configuration {config.id!r}")
