"""Waking those who follow a task when something has happened to it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
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

_MOST_RECENT = 128


class _Watched:
    """A task that someone follows: its newest events, and who waits for the next."""

    __slots__ = ("followers", "head", "news", "recent", "waiting")

    def __init__(self) -> None:
        self.followers = 0
        self.head = 0
        self.news = 0
        self.recent: deque[TaskEvent] = deque(maxlen=_MOST_RECENT)
        self.waiting: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        self.news += 1
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            future.set_result(None)


class TaskBroker:
    """Tells the followers of a task, in this process, that there is more to read of it.

    What is kept here is bounded: the newest events of tasks that someone follows. Who has fallen
    behind further reads the store, at a pace of their own.
    """

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    @property
    def followed(self) -> Collection[str]:
        """Return the tasks that someone follows."""
        return self._watched.keys()

    def follow(self, task_id: str) -> None:
        """Begin to follow a task; `leave` must come after it."""
        watched = self._watched.get(task_id)
        if watched is None:
            watched = self._watched[task_id] = _Watched()
        watched.followers += 1

    def leave(self, task_id: str) -> None:
        """Follow a task no longer."""
        watched = self._watched[task_id]
        watched.followers -= 1
        if not watched.followers:
            del self._watched[task_id]

    def tell(self, task_id: str, events: Sequence[TaskEvent] = ()) -> None:
        """Say that events were stored; without them, that there are some to be read."""
        watched = self._watched.get(task_id)
        if watched is None:
            return
        recent = watched.recent
        # What is told late is in the store for whoever lacks it: what is kept ends with the newest.
        is_new = bool(events) and events[-1].seq > watched.head
        if not events or (is_new and recent and recent[-1].seq + 1 != events[0].seq):
            recent.clear()  # others stored some in between: only the store knows all of them
        if is_new:
            recent.extend(events)
            watched.head = events[-1].seq
        watched.wake()

    def notice(self, task_id: str, head: int) -> None:
        """Say which event of a task is the last in the store, whoever stored it."""
        watched = self._watched.get(task_id)
        if watched is not None and head > watched.head:
            watched.head = head
            self.tell(task_id)

    def wake(self, task_id: str) -> None:
        """Let those who wait look whether they still have to."""
        if (watched := self._watched.get(task_id)) is not None:
            watched.wake()

    def newer(self, task_id: str, after: int) -> list[TaskEvent] | None:
        """Return the events that came after one, or None where only the store can tell."""
        recent = self._watched[task_id].recent
        if not recent or recent[0].seq > after + 1:
            return None
        return [event for event in recent if event.seq > after]

    def news(self, task_id: str) -> int:
        """Return a number that changes whenever something is told of a task."""
        return self._watched[task_id].news

    async def wait(self, task_id: str, *, since: int, seconds: float) -> bool:
        """Wait for news other than `since`; False if there are none for some seconds."""
        watched = self._watched[task_id]
        if watched.news != since:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watched.waiting.append(future)
        try:
            done, _ = await asyncio.wait([future], timeout=seconds)
        finally:
            if future in watched.waiting:
                watched.waiting.remove(future)
        return bool(done)


_PAGE = 64


class StreamItem(NamedTuple):
    """Something to show, with the number of the event that it brings one up to.

    Without an item nothing has happened for a while, and the stream is still alive.
    """

    seq: int
    item: Task | Message | StatusUpdate | ArtifactUpdate | None


class TaskStream:
    """A reader of one task. It keeps nothing but its place, so a slow one holds nobody up."""

    def __init__(
        self,
        task: Task,
        *,
        tasks: TaskStorePort,
        hub: TaskBroker,
        heartbeat: float,
        leave: Callable[[], None],
    ) -> None:
        self.task_id = task.id
        self.context_id = task.context_id
        self._task: Task | None = task
        self._after = self._head = task.seq
        self._tasks = tasks
        self._hub = hub
        self._heartbeat = heartbeat
        self._leave: Callable[[], None] | None = leave
        self._is_stopped = False
        self._is_finishing = False
        #: Whether the first word may turn out to be a message, and no task at all.
        self.may_reply = False
        #: Whether there is nothing to wait for after the first word.
        self.ends_at_once = task.is_terminal
        hub.follow(task.id)

    def after(self, seq: int) -> None:
        """Begin after an event that the client has seen, without showing the task first."""
        self._task = None
        self._after = seq
        self.ends_at_once = False

    def stop(self) -> None:
        """End the stream where it is; the client can come back for the rest."""
        self._is_stopped = True
        self._hub.wake(self.task_id)

    def finish(self) -> None:
        """End the stream once it has told all that has happened so far."""
        self._is_finishing = True
        self._hub.wake(self.task_id)

    def close(self) -> None:
        """Follow the task no longer."""
        if self._leave is not None:
            self._hub.leave(self.task_id)
            self._leave()
            self._leave = None

    async def items(self) -> AsyncGenerator[StreamItem, None]:
        """Give what there is to show until the task ends or waits for the client."""
        if self._task is not None and self._task.reply is not None:
            yield StreamItem(self._task.seq, self._task.reply)
            return
        if self._task is not None and not self.may_reply:
            yield StreamItem(self._task.seq, self._task)
            self._task = None
        if self.ends_at_once:
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
        while not self._is_stopped:
            news, is_finishing = self._hub.news(self.task_id), self._is_finishing
            events = self._hub.newer(self.task_id, self._after)
            if events is None:
                events = list(
                    await self._tasks.events(self.task_id, after=self._after, limit=_PAGE)
                )
            for event in events:
                self._after = event.seq
                yield event
            if events:
                continue
            if is_finishing:
                return
            if not await self._hub.wait(self.task_id, since=news, seconds=self._heartbeat):
                yield None

    def _is_last(self, seq: int, update: StatusUpdate) -> bool:
        """Tell whether the client is to do something next; what it missed is told to the end."""
        state = update.status.state
        return state in TERMINAL or (state in INTERRUPTED and seq >= self._head)


class Subscriptions:
    """Opens streams. A caller's place is claimed first, so that many at once cannot be too many."""

    def __init__(self, *, tasks: TaskStorePort, hub: TaskBroker, limits: ServerLimits) -> None:
        self._tasks = tasks
        self._hub = hub
        self._limits = limits
        self._claimed: dict[Owner, int] = {}
        self._open: set[TaskStream] = set()

    def claim(self, owner: Owner) -> None:
        """Take a place for a stream of a caller, LimitExceeded if all are taken."""
        count = self._claimed.get(owner, 0)
        if count >= self._limits.streams:
            raise LimitExceeded(f"at most {self._limits.streams} open streams of one caller")
        self._claimed[owner] = count + 1

    def give_up(self, owner: Owner) -> None:
        """Free a place that was claimed."""
        self._claimed[owner] -= 1
        if not self._claimed[owner]:
            del self._claimed[owner]

    def open(self, task: Task, *, claimed_by: Owner | None = None) -> TaskStream:
        """Return a stream of a task; closing it frees the place that was claimed for it."""

        def leave() -> None:
            self._open.discard(stream)
            if claimed_by is not None:
                self.give_up(claimed_by)

        stream = TaskStream(
            task,
            tasks=self._tasks,
            hub=self._hub,
            heartbeat=self._limits.heartbeat,
            leave=leave,
        )
        self._open.add(stream)
        return stream

    def finish(self) -> None:
        """End all streams once they have told what has happened so far."""
        for stream in list(self._open):
            stream.finish()
