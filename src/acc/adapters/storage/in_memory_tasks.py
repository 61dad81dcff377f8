"""Tasks in memory, for tests and for servers whose tasks may be forgotten."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from acc.adapters.storage.in_memory_deliveries import Deliveries, Places
from acc.adapters.storage.invariants import (
    advanced,
    check_active,
    check_pushes,
    digest_of,
    digest_within,
    is_of_another_context,
    is_told,
    page_token,
    place_of,
)
from acc.domain.errors import (
    AccError,
    ContextNotFound,
    InvalidInput,
    InvalidTransition,
    TaskNotFound,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner
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
from acc.ports.outbound.storage_ports import NOTHING, Delivery, ExpiredTask, SubmitResult
from acc.ports.outbound.system_ports import ClockPort


class _Record:
    """A task as it is kept: its events, what was folded of them, and where it stands."""

    __slots__ = (
        "entry",
        "events",
        "is_listed",
        "lease_until",
        "messages",
        "owner",
        "state",
        "task",
    )

    def __init__(self, task: Task, owner: Owner, digest: bytes, lease_until: float) -> None:
        self.task = task
        self.owner = owner
        self.state = task.status.state
        self.events = [TaskEvent(1, StatusUpdate(status=task.status))]
        self.messages = [digest]
        self.lease_until = lease_until
        self.entry: _Entry = (task.status.at, 0, self)
        #: Whether it is in the lists of its shelf.
        self.is_listed = False

    def now(self) -> Task:
        """Return the task after all its events."""
        events = self.events
        if self.task.seq != len(events):
            self.task = apply_events(self.task, events[self.task.seq :])
        return self.task


#: When a task moved, the number of the move, and the task. Sorted, the last moved comes last.
_Entry: TypeAlias = tuple[float, int, _Record]


class _Shelf:
    """The tasks of one owner in the order in which they moved: all, by state and by context.

    A task that is at work soon moves on. It is put into the lists once it has ended or waits, or
    once somebody wants to see them.
    """

    __slots__ = ("all", "at_work", "by_context", "by_state")

    def __init__(self) -> None:
        self.all: list[_Entry] = []
        self.by_state: dict[TaskState, list[_Entry]] = {}
        self.by_context: dict[str, list[_Entry]] = {}
        #: What is at work and not in the lists.
        self.at_work: dict[str, _Record] = {}

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no task."""
        return not self.all and not self.at_work

    def move(self, record: _Record, entry: _Entry, state: TaskState) -> None:
        """Let a task come to where it stands, from a state that it leaves."""
        if record.is_listed:
            self._take(record.entry, state)
        record.entry = entry
        if record.state in ACTIVE:
            record.is_listed = False
            self.at_work[record.task.id] = record
        else:
            self.at_work.pop(record.task.id, None)
            self._put(entry)

    def hide(self, record: _Record) -> None:
        """Remove a task that turned out to be none."""
        self.at_work.pop(record.task.id, None)
        if record.is_listed:
            self._take(record.entry, record.state)
            record.is_listed = False

    def list_all(self) -> None:
        """Put what is at work into the lists too."""
        for record in self.at_work.values():
            self._put(record.entry)
        self.at_work.clear()

    def count_active(self) -> int:
        """Return how many tasks are at work."""
        count = len(self.at_work)
        for state in ACTIVE:
            count += len(self.by_state.get(state, ()))
        return count

    def _put(self, entry: _Entry) -> None:
        record = entry[2]
        record.is_listed = True
        _insert(self.all, entry)
        _insert(self.by_state.setdefault(record.state, []), entry)
        _insert(self.by_context.setdefault(record.task.context_id, []), entry)

    def _take(self, entry: _Entry, state: TaskState) -> None:
        _remove(self.all, entry)
        _remove(self.by_state[state], entry)
        context_id = entry[2].task.context_id
        of_context = self.by_context[context_id]
        _remove(of_context, entry)
        if not of_context:
            del self.by_context[context_id]

    def forget(self, entries: Sequence[_Entry]) -> None:
        """Remove tasks that are in the lists."""
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


def _insert(entries: list[_Entry], entry: _Entry) -> None:
    if entries and entry < entries[-1]:
        insort(entries, entry)
    else:
        entries.append(entry)


def _remove(entries: list[_Entry], entry: _Entry) -> None:
    # What moves is what moved lately; it is found near the end.
    if entries[-1] is entry:
        entries.pop()
    else:
        del entries[bisect_left(entries, entry)]


def _remove_all(entries: list[_Entry], gone: Sequence[_Entry]) -> None:
    # What is forgotten is what moved long ago; the younger ones need not be looked at.
    moves = {move for _, move, _ in gone}
    end = bisect_right(entries, max(gone))
    entries[:end] = [entry for entry in entries[:end] if entry[1] not in moves]


_Advance: TypeAlias = Callable[[str, Sequence[Update]], tuple[TaskEvent, ...]]


class _Along:
    """Updates that are appended when the session store says so."""

    __slots__ = ("_advance", "_events", "_refusal", "_task_id", "_updates")

    def __init__(self, advance: _Advance, task_id: str, updates: Sequence[Update]) -> None:
        self._advance = advance
        self._task_id = task_id
        self._updates = updates
        self._events: tuple[TaskEvent, ...] = ()
        self._refusal: AccError | None = None

    async def store(self) -> None:
        try:
            self._events = self._advance(self._task_id, self._updates)
        except AccError as error:
            self._refusal = error

    def result(self) -> tuple[TaskEvent, ...]:
        if self._refusal is not None:
            raise self._refusal
        return self._events


class InMemoryTaskStore:
    """Keeps tasks until the process ends. Nothing here waits, so nothing is half done."""

    def __init__(self, *, clock: ClockPort, app_name: str = "", lease: float = 30.0) -> None:
        self.app_name = app_name
        self._clock = clock
        self._lease = lease
        self._moves = 0
        self._records: dict[str, _Record] = {}
        self._active: dict[str, _Record] = {}
        self._messages: dict[tuple[Owner, bytes], _Record] = {}
        self._contexts: dict[str, tuple[Owner, int]] = {}
        self._shelves: dict[Owner, _Shelf] = {}
        #: What is over, of all owners.
        self._over: list[_Entry] = []
        self._deliveries = Deliveries()

    @property
    def is_shared(self) -> bool:
        """Tell whether other processes may move the tasks: they cannot."""
        return False

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
        digest = digest_of(message, "", key)
        known = self._task_of(owner, digest)
        if known is not None and is_of_another_context(known, message):
            digest = digest_within(digest, message.context_id)
            known = self._task_of(owner, digest)
        if known is not None:
            return SubmitResult(known, False)
        check_active(self._count_active(owner), most_active)
        context_owner, tasks = self._contexts.get(task.context_id, (owner, 0))
        if context_owner != owner:
            raise ContextNotFound(task.context_id)
        if task.id in self._records:
            raise InvalidInput(f"there is a task {task.id!r} already")
        filed = replace(task, history=(*task.history, message), seq=1)
        record = _Record(filed, owner, digest, self._clock.now() + self._lease)
        self._contexts[task.context_id] = (owner, tasks + 1)
        self._records[task.id] = record
        self._messages[owner, digest] = record
        self._active[task.id] = record
        shelf = self._shelves.get(owner)
        if shelf is None:
            shelf = self._shelves[owner] = _Shelf()
        shelf.move(record, self._entry(record, task.status.at), record.state)
        if push is not None:
            self._deliveries.save(replace(push, task_id=task.id), owner)
        return SubmitResult(filed, True)

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
        if (known := self._task_of(owner, digest)) is not None:
            return SubmitResult(known, False)
        record = self._records.get(task_id)
        if record is None or record.owner != owner:
            raise TaskNotFound(task_id)
        if seen is None or seen.seq != len(record.events):
            raise InvalidTransition(task_id, record.state.value, "a message")
        self._advance(record, (MessageAdded(message=message), *updates))
        self._messages[owner, digest] = record
        record.messages.append(digest)
        record.lease_until = self._clock.now() + self._lease
        return SubmitResult(record.now(), True)

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers."""
        return self._append(task_id, updates)

    def along(self, task_id: str, updates: Sequence[Update]) -> "_Along":
        """Return updates to append along with the events of a session, all or none."""
        return _Along(self._append, task_id, updates)

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the owner given has no such task."""
        record = self._records.get(task_id)
        if record is None or (owner is not None and record.owner != owner):
            return None
        return record.now()

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        record = self._records.get(task_id)
        if record is None:
            return ()
        first = max(after, 0)
        return tuple(record.events[first : None if limit is None else first + max(limit, 0)])

    async def heads(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task there is."""
        records = self._records
        return {name: len(records[name].events) for name in task_ids if name in records}

    async def listed(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, the last moved first; what it costs does not grow."""
        end = place_of(query.page_token) if query.page_token else None
        entries = self._found(owner, query)
        first = 0 if query.since is None else bisect_left(entries, (query.since,))
        last = len(entries) if end is None else max(bisect_left(entries, end), first)
        start = max(last - max(query.page_size, 1), first)
        return TaskPage(
            tasks=tuple(record.now() for _, _, record in reversed(entries[start:last])),
            next_page_token=page_token(*entries[start][:2]) if start > first else "",
            total=len(entries) - first,
        )

    async def renew(self, task_ids: Collection[str]) -> None:
        """Keep hold of tasks for another lease."""
        until = self._clock.now() + self._lease
        for name in task_ids:
            if (record := self._records.get(name)) is not None:
                record.lease_until = until

    async def orphans(self) -> tuple[str, ...]:
        """Return active tasks that nobody has renewed for longer than the lease."""
        now = self._clock.now()
        found = tuple(name for name, held in self._active.items() if held.lease_until <= now)
        await self.renew(found)
        return found

    async def ended(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, the longest ago first, without some."""
        end = min(bisect_left(self._over, (before,)), skip + limit)
        found = [record for _, _, record in self._over[skip:end]]
        contexts = Counter(record.task.context_id for record in found)
        all_of = {name for name, count in contexts.items() if self._contexts[name][1] == count}
        return tuple(
            ExpiredTask(
                record.task.id,
                record.task.context_id,
                record.owner,
                record.task.context_id in all_of,
            )
            for record in found
        )

    async def forget(self, task_ids: Collection[str]) -> int:
        """Drop those of some tasks that are over, with all that is theirs; return how many."""
        known = (self._records.get(name) for name in dict.fromkeys(task_ids))
        doomed = [record for record in known if record and record.state in TERMINAL]
        if not doomed:
            return 0
        _remove_all(self._over, [record.entry for record in doomed])
        listed: dict[Owner, list[_Entry]] = {}
        for record in doomed:
            if record.is_listed:
                listed.setdefault(record.owner, []).append(record.entry)
            self._drop(record)
        for owner, entries in listed.items():
            self._shelves[owner].forget(entries)
        for owner in {record.owner for record in doomed}:
            if self._shelves[owner].is_empty:
                del self._shelves[owner]
        return len(doomed)

    async def save_push(self, config: PushConfig, *, most: int | None = None) -> None:
        """Keep a configuration; one with the same task and id is replaced."""
        owner = self._record(config.task_id).owner
        known = {held.id for held in self._deliveries.configs(config.task_id)}
        if config.id not in known:
            check_pushes(len(known), most)
        self._deliveries.save(config, owner)

    async def pushes(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the configurations of a task, the oldest first."""
        return self._deliveries.configs(task_id)

    async def delete_push(self, task_id: str, config_id: str) -> None:
        """Drop a configuration and what is still to be delivered to it; harmless if it is gone."""
        self._deliveries.delete(task_id, config_id)

    async def due(
        self,
        *,
        limit: int,
        lease: float,
        of_one: int | None = None,
        under_way: Mapping[Owner, int] = NOTHING,
    ) -> tuple[Delivery, ...]:
        """Take deliveries whose time has come, at most one for each configuration, the oldest."""
        now, most = self._clock.now(), limit if of_one is None else of_one
        counts = NOTHING if of_one is None else under_way
        return self._deliveries.due(now, limit, lease, Places(most, counts))

    async def delivered(self, delivery_id: int) -> None:
        """Settle a delivery: it arrived, or is given up."""
        self._deliveries.settle(delivery_id, self._clock.now())

    async def postpone(self, delivery_id: int, *, seconds: float) -> None:
        """Try a delivery again later, counting the attempt."""
        self._deliveries.postpone(delivery_id, self._clock.now() + seconds)

    async def aclose(self) -> None:
        """Do nothing: there are no files and no threads."""

    def _count_active(self, owner: Owner) -> int:
        shelf = self._shelves.get(owner)
        return 0 if shelf is None else shelf.count_active()

    def _record(self, task_id: str) -> _Record:
        record = self._records.get(task_id)
        if record is None:
            raise TaskNotFound(task_id)
        return record

    def _task_of(self, owner: Owner, digest: bytes) -> Task | None:
        """Return the task that a message has led to before."""
        record = self._messages.get((owner, digest))
        return None if record is None else record.now()

    def _append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        return self._advance(self._record(task_id), updates)

    def _advance(self, record: _Record, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        task_id = record.task.id
        events, state, moved_at, is_reply = advanced(
            task_id, record.state, len(record.events), updates
        )
        record.events += events
        if moved_at is not None or is_reply:
            self._move(record, state, moved_at, is_reply=is_reply)
        if self._deliveries.has_configs(task_id):
            told = [event for event in events if is_told(event.update)]
            self._deliveries.add(task_id, told, self._clock.now())
        return events

    def _move(
        self, record: _Record, state: TaskState, moved_at: float | None, *, is_reply: bool
    ) -> None:
        shelf, left = self._shelves[record.owner], record.state
        entry = self._entry(record, record.entry[0] if moved_at is None else moved_at)
        if is_reply:
            shelf.hide(record)
            record.entry = entry
        record.state = state
        if not is_reply:
            shelf.move(record, entry, left)
        if state in ACTIVE:
            self._active[record.task.id] = record
        else:
            self._active.pop(record.task.id, None)
        if state in TERMINAL:
            _insert(self._over, entry)

    def _entry(self, record: _Record, moved_at: float) -> _Entry:
        self._moves += 1
        return (moved_at, self._moves, record)

    def _found(self, owner: Owner, query: TaskQuery) -> list[_Entry]:
        shelf = self._shelves.get(owner)
        if shelf is None:
            return []
        shelf.list_all()
        if not query.context_id:
            return shelf.all if query.state is None else shelf.by_state.get(query.state, [])
        entries = shelf.by_context.get(query.context_id, [])
        if query.state is None:
            return entries
        return [entry for entry in entries if entry[2].state is query.state]

    def _drop(self, record: _Record) -> None:
        task = record.task
        del self._records[task.id]
        for digest in record.messages:
            del self._messages[record.owner, digest]
        owner, tasks = self._contexts.pop(task.context_id)
        if tasks > 1:
            self._contexts[task.context_id] = (owner, tasks - 1)
        self._deliveries.delete_all(task.id)
