"""The events of a run as an iterator."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from acc.application.runtime.event_queue import EventQueue, cancel_and_wait
from acc.domain.value_objects.event import Event

ResultT = TypeVar("ResultT")


async def stream_run(
    start: Callable[..., Coroutine[Any, Any, ResultT]],
) -> AsyncGenerator[Event | ResultT, None]:
    """Yield the events of a run as they happen, then its result.

    `start` gets the argument `observer`. Closing the iterator cancels the run.
    """
    queue = EventQueue()

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
        await cancel_and_wait(task)
