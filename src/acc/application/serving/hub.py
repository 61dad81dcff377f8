"""Waking those who follow a task when something has happened to it."""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence

from acc.domain.value_objects.task import TaskEvent

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


class Hub:
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
