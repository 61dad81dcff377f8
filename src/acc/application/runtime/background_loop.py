"""One event loop in a thread of this process, for callers without `await`."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from functools import lru_cache
from typing import Any, TypeVar

from acc.domain.errors import InvalidInput

T = TypeVar("T")


def run_in_background(coroutine: Coroutine[Any, Any, T], *, instead: str) -> T:
    """Run a coroutine in the background loop of this process and return its result.

    Works whether or not an event loop runs in this thread; one that does is blocked meanwhile.
    `instead` is what code inside the background loop has to call.
    """
    if _background_loop().pid != os.getpid():
        _background_loop.cache_clear()  # threads do not survive a fork
    return _background_loop().run(coroutine, instead=instead)


class BackgroundLoop:
    """An event loop in a daemon thread, which does not prevent the process from exiting.

    All calls use the same loop, so that connections stay usable from one call to the next.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="acc loop", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, T], *, instead: str) -> T:
        """Run a coroutine, with the context variables of the caller, and return its result.

        If the wait is interrupted, as by Ctrl-C, the coroutine is cancelled and has ended when the
        exception is raised.
        """
        if _running_loop() is self._loop:
            coroutine.close()
            raise InvalidInput(
                f"this code runs in the event loop that would do the work: use {instead}"
            )
        tasks: list[asyncio.Task[T]] = []
        ended = threading.Event()

        def start() -> None:
            # Not a task group: the caller is in another thread and waits for the task.
            task = self._loop.create_task(coroutine)
            task.add_done_callback(lambda _: ended.set())
            tasks.append(task)

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before the start was scheduled
                coroutine.close()
                ended.set()

        try:
            self._loop.call_soon_threadsafe(start)
            ended.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(cancel)
            ended.wait()
            raise
        return tasks[0].result()


@lru_cache(maxsize=1)
def _background_loop() -> BackgroundLoop:
    return BackgroundLoop()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
