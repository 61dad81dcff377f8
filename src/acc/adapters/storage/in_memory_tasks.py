"""Task store in memory, for tests and data that may be lost; its unit of work with any sessions."""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from acc.adapters.storage.in_memory_deliveries import DeliveryQueue
from acc.adapters.storage.invariants import (
    advance,
    check_active,
    check_content,
    check_push_configs,
    digest_in_context,
    is_notified,
    message_digest,
    message_size,
    names_other_context,
    page_token,
    parse_page_token,
)
from acc.domain.errors import (
    AccError,
    ContextNotFound,
    InvalidInput,
    InvalidTransition,
    TaskNotFound,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.session import Session
from acc.domain.value_objects.task import (
    ACTIVE,
    TERMINAL,
    Message,
    MessageAdded,
    PushConfig,
    StatusUpdate,
    Task,
    TaskEvent,
    TaskPage,
    TaskQuery,
    TaskState,
    Update,
    apply_events,
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
    SessionStorePort,
    SubmitResult,
    TaskStorePort,
    Write,
)
from acc.ports.outbound.system_ports import ClockPort

_IDLE_SECONDS = 1.0


class InMemoryTaskStore:
    """Stores tasks until the process ends. No method awaits anything, so every call is atomic."""

    def __init__(
        self, *, clock: ClockPort, app_name: str = "", lease: float = LEASE_SECONDS
    ) -> None:
        self.app_name = app_name
        self._clock = clock
        self.lease = lease
        self._revision = 0
        self._records: dict[str, _TaskRecord] = {}
        self._active: dict[str, _TaskRecord] = {}
        self._messages: dict[tuple[Owner, bytes], _TaskRecord] = {}
        self._contexts: dict[str, tuple[Owner, int]] = {}
        self._indexes: dict[Owner, _OwnerIndex] = {}
        #: Number of tasks of an account, and the bytes of messages in them.
        self._content: dict[Owner, tuple[int, int]] = {}
        #: Terminal tasks of all owners.
        self._terminal: list[_Entry] = []
        self._deliveries = DeliveryQueue()

    async def wait_for_changes(self) -> Collection[str] | None:
        """Wait a moment; no other process can change a task."""
        await asyncio.sleep(_IDLE_SECONDS)
        return ()

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
        digest = message_digest(message, "", key)
        known = self._task_of_message(owner, digest)
        if known is not None and names_other_context(known, message):
            digest = digest_in_context(digest, message.context_id)
            known = self._task_of_message(owner, digest)
        if known is not None:
            return SubmitResult(known, False)
        index = self._indexes.get(owner)
        check_active(0 if index is None else index.count_active(), max_active)
        context_owner, tasks = self._contexts.get(task.context_id, (owner, 0))
        if context_owner != owner:
            raise ContextNotFound(task.context_id)
        if task.id in self._records:
            raise InvalidInput(f"task {task.id!r} exists already")
        account, size = owner if content is None else content.account, message_size(message)
        self._count_content(account, 1, size, content)
        created = replace(task, history=(*task.history, message), seq=1)
        until = self._clock.now() + self.lease
        record = _TaskRecord(created, owner, digest, until, account=account, size=size)
        self._contexts[task.context_id] = (owner, tasks + 1)
        self._records[task.id] = record
        self._messages[owner, digest] = record
        self._active[task.id] = record
        if index is None:
            index = self._indexes[owner] = _OwnerIndex()
        index.move(record, self._entry(record, task.status.at), record.state)
        if push is not None:
            self._deliveries.save(replace(push, task_id=task.id), owner)
        return SubmitResult(created, True)

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
        if (known := self._task_of_message(owner, digest)) is not None:
            return SubmitResult(known, False)
        record = self._records.get(task_id)
        if record is None or record.owner != owner:
            raise TaskNotFound(task_id)
        if expected is None or expected.seq != len(record.events):
            raise InvalidTransition(task_id, record.state.value, "a message")
        size = message_size(message)
        check_content(0, self._content[record.account][1] + size, content)
        self._append(record, (MessageAdded(message=message), *updates))
        self._count_content(record.account, 0, size)
        record.size += size
        self._messages[owner, digest] = record
        record.digests.append(digest)
        record.lease_until = self._clock.now() + self.lease
        return SubmitResult(record.current(), True)

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers."""
        return self._append(self._existing(task_id), updates)

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the given owner has no such task."""
        record = self._records.get(task_id)
        if record is None or (owner is not None and record.owner != owner):
            return None
        return record.current()

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        record = self._records.get(task_id)
        if record is None:
            return ()
        first = max(after, 0)
        return tuple(record.events[first : None if limit is None else first + max(limit, 0)])

    async def latest_seqs(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task that exists."""
        records = self._records
        return {name: len(records[name].events) for name in task_ids if name in records}

    async def list_tasks(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, most recently updated first, in constant time."""
        end = parse_page_token(query.page_token) if query.page_token else None
        index = self._indexes.get(owner)
        entries = [] if index is None else index.select(query)
        first = 0 if query.since is None else bisect_left(entries, (query.since,))
        last = len(entries) if end is None else max(bisect_left(entries, end), first)
        start = max(last - max(query.page_size, 1), first)
        return TaskPage(
            tasks=tuple(record.current() for _, _, record in reversed(entries[start:last])),
            next_page_token=page_token(*entries[start][:2]) if start > first else "",
            total=len(entries) - first,
        )

    async def renew(self, task_ids: Collection[str]) -> None:
        """Extend the leases of tasks."""
        until = self._clock.now() + self.lease
        for name in task_ids:
            if (record := self._records.get(name)) is not None:
                record.lease_until = until

    async def claim_orphans(self) -> tuple[str, ...]:
        """Lease and return active tasks whose lease has expired."""
        now = self._clock.now()
        orphans = tuple(name for name, task in self._active.items() if task.lease_until <= now)
        await self.renew(orphans)
        return orphans

    async def expired(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, in a stable order, without the first `skip`."""
        end = min(bisect_left(self._terminal, (before,)), skip + limit)
        records = [record for _, _, record in self._terminal[skip:end]]
        contexts = Counter(record.task.context_id for record in records)
        return tuple(
            ExpiredTask(
                record.task.id,
                record.task.context_id,
                record.owner,
                self._contexts[record.task.context_id][1] == contexts[record.task.context_id],
            )
            for record in records
        )

    async def delete_expired(self, task_ids: Collection[str]) -> int:
        """Delete those of the tasks that are terminal, with their data; return how many."""
        known = (self._records.get(name) for name in dict.fromkeys(task_ids))
        expired = [record for record in known if record and record.state in TERMINAL]
        if not expired:
            return 0
        _remove_all(self._terminal, [record.entry for record in expired])
        listed: dict[Owner, list[_Entry]] = {}
        for record in expired:
            if record.is_listed:
                listed.setdefault(record.owner, []).append(record.entry)
            self._delete(record)
        for owner, entries in listed.items():
            self._indexes[owner].remove_all(entries)
        for owner in {record.owner for record in expired}:
            if self._indexes[owner].is_empty:
                del self._indexes[owner]
        return len(expired)

    async def save_push_config(self, config: PushConfig, *, max_configs: int | None = None) -> None:
        """Store a push configuration; one with the same task and id is replaced."""
        owner = self._existing(config.task_id).owner
        known = {saved.id for saved in self._deliveries.configs(config.task_id)}
        if config.id not in known:
            check_push_configs(len(known), max_configs)
        self._deliveries.save(config, owner)

    async def list_push_configs(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the push configurations of a task, oldest first."""
        return self._deliveries.configs(task_id)

    async def delete_push_config(self, task_id: str, config_id: str) -> None:
        """Delete a configuration and its pending deliveries; does nothing if it is gone."""
        self._deliveries.delete(task_id, config_id)

    async def claim_deliveries(
        self,
        *,
        limit: int,
        lease: float,
        max_per_owner: int | None = None,
        in_flight: Mapping[Owner, int] = NONE_IN_FLIGHT,
    ) -> tuple[Delivery, ...]:
        """Lease due deliveries, the oldest of each configuration."""
        return self._deliveries.claim(
            self._clock.now(),
            limit=limit,
            lease=lease,
            max_per_owner=limit if max_per_owner is None else max_per_owner,
            in_flight=NONE_IN_FLIGHT if max_per_owner is None else in_flight,
        )

    async def complete_delivery(self, delivery_id: int) -> None:
        """Delete a delivery that succeeded or is given up."""
        self._deliveries.complete(delivery_id, self._clock.now())

    async def reschedule(self, delivery_id: int, *, seconds: float) -> None:
        """Retry a delivery later and count the attempt."""
        self._deliveries.reschedule(delivery_id, self._clock.now() + seconds)

    async def count_deliveries(self) -> int:
        """Return how many deliveries are pending."""
        return self._deliveries.count()

    async def aclose(self) -> None:
        """Do nothing: there are no files or threads."""

    def _count_content(
        self, account: Owner, tasks: int, size: int, limit: ContentLimit | None = None
    ) -> None:
        """Change what is stored for an account; LimitExceeded if that exceeds a limit."""
        stored_tasks, stored_bytes = self._content.get(account, (0, 0))
        counts = stored_tasks + tasks, stored_bytes + size
        check_content(*counts, limit)
        if counts[0]:
            self._content[account] = counts
        else:
            del self._content[account]

    def _existing(self, task_id: str) -> "_TaskRecord":
        record = self._records.get(task_id)
        if record is None:
            raise TaskNotFound(task_id)
        return record

    def _task_of_message(self, owner: Owner, digest: bytes) -> Task | None:
        """Return the task that a message led to before."""
        record = self._messages.get((owner, digest))
        return None if record is None else record.current()

    def _append(self, record: "_TaskRecord", updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        task_id = record.task.id
        events, state, updated_at, is_reply = advance(
            task_id, record.state, len(record.events), updates
        )
        record.events += events
        if updated_at is not None or is_reply:
            self._move(record, state, updated_at, is_reply=is_reply)
        if self._deliveries.has_configs(task_id):
            notified = [event for event in events if is_notified(event.update)]
            self._deliveries.add(task_id, notified, self._clock.now())
        return events

    def _move(
        self, record: "_TaskRecord", state: TaskState, updated_at: float | None, *, is_reply: bool
    ) -> None:
        index, left = self._indexes[record.owner], record.state
        entry = self._entry(record, record.entry[0] if updated_at is None else updated_at)
        if is_reply:
            index.hide(record)
            record.entry = entry
        record.state = state
        if not is_reply:
            index.move(record, entry, left)
        if state in ACTIVE:
            self._active[record.task.id] = record
        else:
            self._active.pop(record.task.id, None)
        if state in TERMINAL:
            _insert(self._terminal, entry)

    def _entry(self, record: "_TaskRecord", updated_at: float) -> "_Entry":
        self._revision += 1
        return (updated_at, self._revision, record)

    def _delete(self, record: "_TaskRecord") -> None:
        task = record.task
        del self._records[task.id]
        self._count_content(record.account, -1, -record.size)
        for digest in record.digests:
            del self._messages[record.owner, digest]
        owner, tasks = self._contexts.pop(task.context_id)
        if tasks > 1:
            self._contexts[task.context_id] = (owner, tasks - 1)
        self._deliveries.delete_all(task.id)


class _TaskRecord:
    """A stored task: its events, the task after some of them, and its lease."""

    __slots__ = (
        "account",
        "digests",
        "entry",
        "events",
        "is_listed",
        "lease_until",
        "owner",
        "size",
        "state",
        "task",
    )

    def __init__(
        self,
        task: Task,
        owner: Owner,
        digest: bytes,
        lease_until: float,
        *,
        account: Owner,
        size: int,
    ) -> None:
        self.task = task
        self.owner = owner
        self.account = account
        self.size = size
        self.state = task.status.state
        self.events = [TaskEvent(1, StatusUpdate(status=task.status))]
        self.digests = [digest]
        self.lease_until = lease_until
        self.entry: _Entry = (task.status.at, 0, self)
        #: Whether it is in the lists of its index.
        self.is_listed = False

    def current(self) -> Task:
        """Return the task after all its events."""
        events = self.events
        if self.task.seq != len(events):
            self.task = apply_events(self.task, events[self.task.seq :])
        return self.task


#: Time and revision of the last status, and the task; sorted, the most recent comes last.
_Entry: TypeAlias = tuple[float, int, _TaskRecord]


class _OwnerIndex:
    """The tasks of one owner in the order of their updates: all, by state and by context.

    An active task changes soon, so it enters the lists only when it rests, or when they are read.
    """

    __slots__ = ("active", "all", "by_context", "by_state")

    def __init__(self) -> None:
        self.all: list[_Entry] = []
        self.by_state: dict[TaskState, list[_Entry]] = {}
        self.by_context: dict[str, list[_Entry]] = {}
        #: Active tasks that are not in the lists.
        self.active: dict[str, _TaskRecord] = {}

    @property
    def is_empty(self) -> bool:
        """Return True if the owner has no task."""
        return not self.all and not self.active

    def move(self, record: _TaskRecord, entry: _Entry, left: TaskState) -> None:
        """Update the entry of a task that has left a state."""
        if record.is_listed:
            self._remove(record.entry, left)
        record.entry = entry
        if record.state in ACTIVE:
            record.is_listed = False
            self.active[record.task.id] = record
        else:
            self.active.pop(record.task.id, None)
            self._add(entry)

    def hide(self, record: _TaskRecord) -> None:
        """Remove a task that got a direct reply."""
        self.active.pop(record.task.id, None)
        if record.is_listed:
            self._remove(record.entry, record.state)
            record.is_listed = False

    def select(self, query: TaskQuery) -> list[_Entry]:
        """Return the entries of a context and state."""
        for record in self.active.values():
            self._add(record.entry)
        self.active.clear()
        if not query.context_id:
            return self.all if query.state is None else self.by_state.get(query.state, [])
        entries = self.by_context.get(query.context_id, [])
        if query.state is None:
            return entries
        return [entry for entry in entries if entry[2].state is query.state]

    def count_active(self) -> int:
        """Return how many tasks are active."""
        count = len(self.active)
        for state in ACTIVE:
            count += len(self.by_state.get(state, ()))
        return count

    def remove_all(self, entries: Sequence[_Entry]) -> None:
        """Remove entries that are in the lists."""
        by_state: dict[TaskState, list[_Entry]] = {}
        by_context: dict[str, list[_Entry]] = {}
        for entry in entries:
            by_state.setdefault(entry[2].state, []).append(entry)
            by_context.setdefault(entry[2].task.context_id, []).append(entry)
        _remove_all(self.all, entries)
        for state, some in by_state.items():
            _remove_all(self.by_state[state], some)
        for context_id, some in by_context.items():
            of_context = self.by_context[context_id]
            _remove_all(of_context, some)
            if not of_context:
                del self.by_context[context_id]

    def _add(self, entry: _Entry) -> None:
        record = entry[2]
        record.is_listed = True
        _insert(self.all, entry)
        _insert(self.by_state.setdefault(record.state, []), entry)
        _insert(self.by_context.setdefault(record.task.context_id, []), entry)

    def _remove(self, entry: _Entry, state: TaskState) -> None:
        _remove(self.all, entry)
        _remove(self.by_state[state], entry)
        context_id = entry[2].task.context_id
        of_context = self.by_context[context_id]
        _remove(of_context, entry)
        if not of_context:
            del self.by_context[context_id]


def _insert(entries: list[_Entry], entry: _Entry) -> None:
    if entries and entry < entries[-1]:
        insort(entries, entry)
    else:
        entries.append(entry)


def _remove(entries: list[_Entry], entry: _Entry) -> None:
    # The entry of a task that changes is usually near the end.
    if entries[-1] is entry:
        entries.pop()
    else:
        del entries[bisect_left(entries, entry)]


def _remove_all(entries: list[_Entry], removed: Sequence[_Entry]) -> None:
    # Expired tasks are near the start; the entries after the last of them are not visited.
    revisions = {revision for _, revision, _ in removed}
    end = bisect_right(entries, max(removed))
    entries[:end] = [entry for entry in entries[:end] if entry[1] not in revisions]


class SequentialUnitOfWork:
    """Applies writes in order, each atomic by itself."""

    def __init__(self, *, sessions: SessionStorePort, tasks: TaskStorePort) -> None:
        self._sessions = sessions
        self._tasks = tasks

    async def commit(self, *writes: Write) -> CommitResult:
        """Store all writes; a refused task update does not undo the events before it."""
        session: Session | None = None
        events: tuple[Event, ...] = ()
        updates: tuple[TaskEvent, ...] = ()
        refusal: AccError | None = None
        for write in writes:
            if isinstance(write, AppendTaskUpdates):
                try:
                    updates += await self._tasks.append(write.task_id, write.updates)
                except AccError as error:
                    refusal = error
            elif isinstance(write, BeginTurn):
                session, events = await self._sessions.begin_turn(
                    write.key,
                    write.message,
                    holder=write.holder,
                    agent=write.agent,
                    waits_for_runs=write.waits_for_runs,
                )
                if not events:
                    break
            else:
                events += await self._sessions.append(
                    write.key, write.events, holder=write.holder, release=write.release
                )
        return CommitResult(session, events, updates, refusal)
