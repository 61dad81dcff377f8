"""Deliver the events of tasks to their subscribers in this process."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import NamedTuple

from acc.application.a2a.requests import ServerLimits
from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    INTERRUPTED,
    TERMINAL,
    ArtifactUpdate,
    DirectReply,
    Message,
    MessageAdded,
    StatusUpdate,
    Task,
    TaskEvent,
)
from acc.ports.outbound.storage_ports import TaskStorePort

_MAX_RECENT_EVENTS = 128
_EVENT_PAGE_SIZE = 64


class _Topic:
    """The subscribers of a task, its newest events, and the waiting subscribers."""

    __slots__ = ("latest_seq", "recent", "revision", "subscribers", "waiters")

    def __init__(self) -> None:
        self.subscribers = 0
        self.latest_seq = 0
        self.revision = 0
        self.recent: deque[TaskEvent] = deque(maxlen=_MAX_RECENT_EVENTS)
        self.waiters: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        self.revision += 1
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.set_result(None)


class TaskBroker:
    """Notify the subscribers of a task that there are new events.

    The broker caches only the newest events of tasks with subscribers. A subscriber that is further
    behind reads the store.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    @property
    def subscribed(self) -> Collection[str]:
        """Return the tasks that have subscribers."""
        return self._topics.keys()

    def subscribe(self, task_id: str) -> None:
        """Add a subscriber; `unsubscribe` must follow."""
        topic = self._topics.get(task_id)
        if topic is None:
            topic = self._topics[task_id] = _Topic()
        topic.subscribers += 1

    def unsubscribe(self, task_id: str) -> None:
        """Remove a subscriber."""
        topic = self._topics[task_id]
        topic.subscribers -= 1
        if not topic.subscribers:
            del self._topics[task_id]

    def publish(self, task_id: str, events: Sequence[TaskEvent] = ()) -> None:
        """Publish stored events; without events, subscribers read the store."""
        topic = self._topics.get(task_id)
        if topic is None:
            return
        recent = topic.recent
        # The cache must end with the newest event and have no gap. Events that are published late
        # are read from the store.
        is_new = bool(events) and events[-1].seq > topic.latest_seq
        if not events or (is_new and recent and recent[-1].seq + 1 != events[0].seq):
            recent.clear()
        if is_new:
            recent.extend(events)
            topic.latest_seq = events[-1].seq
        topic.wake()

    def advance(self, task_id: str, seq: int) -> None:
        """Report the number of the last stored event, which another process may have stored."""
        topic = self._topics.get(task_id)
        if topic is not None and seq > topic.latest_seq:
            topic.latest_seq = seq
            self.publish(task_id)

    def wake(self, task_id: str) -> None:
        """Wake the subscribers so that they check whether they must stop."""
        if (topic := self._topics.get(task_id)) is not None:
            topic.wake()

    def events_after(self, task_id: str, seq: int) -> list[TaskEvent] | None:
        """Return the cached events after one; None if the store must be read."""
        recent = self._topics[task_id].recent
        if not recent or recent[0].seq > seq + 1:
            return None
        return [event for event in recent if event.seq > seq]

    def revision(self, task_id: str) -> int:
        """Return a number that changes with every publication."""
        return self._topics[task_id].revision

    async def wait(self, task_id: str, *, revision: int, seconds: float) -> bool:
        """Wait until the revision changes; return False after a timeout."""
        topic = self._topics[task_id]
        if topic.revision != revision:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        topic.waiters.append(waiter)
        try:
            done, _ = await asyncio.wait([waiter], timeout=seconds)
        finally:
            if waiter in topic.waiters:
                topic.waiters.remove(waiter)
        return bool(done)


class StreamItem(NamedTuple):
    """An item of a stream and the number of its event; without an item, a heartbeat."""

    seq: int
    item: Task | Message | StatusUpdate | ArtifactUpdate | None


class TaskStream:
    """Read the events of one task.

    The stream stores only its position, so that a slow reader does not delay others. With
    `may_reply` the first item may be a message instead of the task. With `after` the stream starts
    after an event that the client has received, without the task.
    """

    def __init__(
        self,
        task: Task,
        *,
        tasks: TaskStorePort,
        broker: TaskBroker,
        subscriptions: "Subscriptions",
        heartbeat: float,
        may_reply: bool = False,
        is_complete: bool = False,
        after: int | None = None,
    ) -> None:
        self.task_id = task.id
        self.context_id = task.context_id
        self._task: Task | None = task if after is None else None
        self._latest_seq = task.seq
        self._after = task.seq if after is None else after
        self._tasks = tasks
        self._broker = broker
        self._subscriptions: Subscriptions | None = subscriptions
        self._heartbeat = heartbeat
        self._may_reply = may_reply
        self._is_complete = is_complete and after is None
        self._is_stopped = False
        self._is_finishing = False
        broker.subscribe(task.id)

    def stop(self) -> None:
        """End the stream now; the client can resume it."""
        self._is_stopped = True
        self._broker.wake(self.task_id)

    def finish(self) -> None:
        """End the stream after the events that are stored now."""
        self._is_finishing = True
        self._broker.wake(self.task_id)

    def close(self) -> None:
        """Unsubscribe and release the slot of the caller."""
        if self._subscriptions is not None:
            self._broker.unsubscribe(self.task_id)
            self._subscriptions.remove(self)
            self._subscriptions = None

    async def items(self) -> AsyncGenerator[StreamItem, None]:
        """Yield items until the task ends or requires input."""
        if self._task is not None and self._task.reply is not None:
            yield StreamItem(self._task.seq, self._task.reply)
            return
        if self._task is not None and not self._may_reply:
            yield StreamItem(self._task.seq, self._task)
            self._task = None
        if self._is_complete:
            return
        async for event in self._events():
            if event is None:
                yield StreamItem(self._after, None)
                continue
            seq, update = event
            if isinstance(update, DirectReply):
                yield StreamItem(seq, update.message)
                return
            if isinstance(update, MessageAdded):
                continue
            if self._task is not None:
                yield StreamItem(self._task.seq, self._task)
                self._task = None
            yield StreamItem(seq, update)
            if isinstance(update, StatusUpdate) and self._is_last(seq, update):
                return

    async def _events(self) -> AsyncGenerator[TaskEvent | None, None]:
        """Yield events; None after an idle heartbeat interval."""
        while not self._is_stopped:
            revision, is_finishing = self._broker.revision(self.task_id), self._is_finishing
            events = self._broker.events_after(self.task_id, self._after)
            if events is None:
                events = list(
                    await self._tasks.events(
                        self.task_id, after=self._after, limit=_EVENT_PAGE_SIZE
                    )
                )
            for event in events:
                self._after = event.seq
                yield event
            if events:
                continue
            if is_finishing:
                return
            if not await self._broker.wait(
                self.task_id, revision=revision, seconds=self._heartbeat
            ):
                yield None

    def _is_last(self, seq: int, update: StatusUpdate) -> bool:
        """Return True if the task ended or now requires input; past requests are skipped."""
        state = update.status.state
        return state in TERMINAL or (state in INTERRUPTED and seq >= self._latest_seq)


class Subscriptions:
    """Open streams within the limit of each caller.

    A slot is acquired before the task is created, so that concurrent requests cannot exceed the
    limit.
    """

    def __init__(self, *, tasks: TaskStorePort, broker: TaskBroker, limits: ServerLimits) -> None:
        self._tasks = tasks
        self._broker = broker
        self._limits = limits
        self._slots: dict[Owner, int] = {}
        self._streams: dict[TaskStream, Owner | None] = {}

    @property
    def count(self) -> int:
        """Return the number of open streams and acquired slots."""
        return len(self._streams) + len(self._slots)

    def acquire(self, owner: Owner) -> None:
        """Acquire a slot of a caller, or raise LimitExceeded."""
        count = self._slots.get(owner, 0)
        if count >= self._limits.streams:
            raise LimitExceeded(
                f"a caller may have at most {self._limits.streams} open streams; close one first"
            )
        self._slots[owner] = count + 1

    def release(self, owner: Owner) -> None:
        """Release a slot."""
        self._slots[owner] -= 1
        if not self._slots[owner]:
            del self._slots[owner]

    def open(
        self,
        task: Task,
        *,
        slot_of: Owner | None = None,
        may_reply: bool = False,
        is_complete: bool = False,
        after: int | None = None,
    ) -> TaskStream:
        """Open a stream; closing it releases the slot."""
        stream = TaskStream(
            task,
            tasks=self._tasks,
            broker=self._broker,
            subscriptions=self,
            heartbeat=self._limits.heartbeat,
            may_reply=may_reply,
            is_complete=is_complete,
            after=after,
        )
        self._streams[stream] = slot_of
        return stream

    def remove(self, stream: TaskStream) -> None:
        """Remove a closed stream and release its slot."""
        owner = self._streams.pop(stream)
        if owner is not None:
            self.release(owner)

    def finish(self) -> None:
        """End all streams after the events that are stored now."""
        for stream in list(self._streams):
            stream.finish()
