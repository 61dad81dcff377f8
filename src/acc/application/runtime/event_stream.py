"""The events of a run as an iterator."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from acc.domain.value_objects.event import Event

ResultT = TypeVar("ResultT")
_QUEUE_SIZE = 256


async def stream_run(
    start: Callable[..., Coroutine[Any, Any, ResultT]],
) -> AsyncGenerator[Event | ResultT, None]:
    """Yield the events of a run as they happen, then its result.

    `start` gets the argument `observer`. Closing the iterator cancels the run.
    """
    queue = _EventQueue()

    async def produce() -> ResultT:
        try:
            return await start(observer=queue)
        finally:
            queue.end()

    # Not a task group: yielding inside one breaks cancellation (PEP 789). The generator owns the
    # task and ends after it.
    task = asyncio.get_running_loop().create_task(produce())
    task.add_done_callback(queue.wake)
    try:
        while not (task.done() and queue.is_empty):
            event = await queue.get()
            if event is not None:
                yield event
        yield await task
    finally:
        queue.close()
        await _cancel_and_wait(task)


class _EventQueue:
    """Observer that passes events to the iterator of `stream`, which may stop reading."""

    wants_deltas = True

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(_QUEUE_SIZE)
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Return True if no event waits to be read."""
        return self._queue.empty()

    async def on_event(self, event: Event) -> None:
        """Wait until there is room for an event."""
        if not self._is_closed:
            await self._queue.put(event)

    async def get(self) -> Event | None:
        """Return the next event, None if the run has ended."""
        return await self._queue.get()

    def wake(self, _: object) -> None:
        """Wake a reader that waits for an event; a full queue needs no wake-up."""
        if not self._queue.full():
            self._queue.put_nowait(None)

    def end(self) -> None:
        """Drop all events from now on; queued ones can still be read."""
        self._is_closed = True

    def close(self) -> None:
        """Drop all events, including queued ones."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get_nowait()


async def _cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel a task that is still running, and wait until it has ended."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error  # raised after the task has ended, because we own it
    if cancelled is not None:
        raise cancelled
