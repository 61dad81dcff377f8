"""Following a task: what it is now, then everything that happens to it, once and in order."""

from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from acc.application.serving.hub import Hub
from acc.application.serving.limits import ServeLimits
from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.remote import Owner
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
from acc.ports.outbound.task_ports import TaskStorePort

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
        hub: Hub,
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
        self.ends_at_once = task.is_over
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


class Following:
    """Opens streams. A caller's place is claimed first, so that many at once cannot be too many."""

    def __init__(self, *, tasks: TaskStorePort, hub: Hub, limits: ServeLimits) -> None:
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
