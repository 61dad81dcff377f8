"""Daemon threads for blocking functions; they never prevent the process from exiting."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Outcome = tuple[Any, BaseException | None]


class DaemonThreads:
    """Runs functions in up to `limit` threads, which are started on demand and reused.

    A function that never returns occupies one thread but does not keep the process alive.
    """

    def __init__(self, *, limit: int = 64) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self._limit = limit
        self._workers = self._start_workers()

    async def call(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Call a function in a thread, in the context of the caller, and return its result.

        If the caller is cancelled, the call returns at once and the function continues to run.
        """
        if self._workers.pid != os.getpid():
            self._workers = self._start_workers()  # threads do not survive a fork
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()
        work = partial(copy_context().run, function, *arguments, **named)
        workers, call = self._workers, _Call(work, loop, future)
        workers.submit(call)
        try:
            result, error = await future
        except asyncio.CancelledError:
            workers.abandon(call)
            raise
        if error is not None:
            try:
                raise error
            finally:
                del error  # avoids a reference cycle of the error and this frame
        return result  # type: ignore[no-any-return] # the result of the function

    def _start_workers(self) -> "_Workers":
        workers = _Workers(self._limit)
        weakref.finalize(self, workers.stop).atexit = False
        return workers


class _Call:
    """A function to call and the future for its outcome."""

    __slots__ = ("function", "future", "is_abandoned", "is_started", "loop")

    def __init__(
        self,
        function: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[_Outcome]",
    ) -> None:
        self.function = function
        self.loop = loop
        self.future = future
        self.is_started = False
        self.is_abandoned = False


class _Workers:
    """Threads that share a queue. They hold no reference to the pool, which may be deleted."""

    def __init__(self, limit: int) -> None:
        self.pid = os.getpid()
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._limit = limit
        self._lock = threading.Lock()
        self._size = 0
        self._idle = 0
        self._queued = 0

    def submit(self, call: _Call) -> None:
        """Queue a call and start a thread if no idle thread is left for it."""
        with self._lock:
            if self._queued >= self._idle and self._size < self._limit:
                name = f"acc call {self._size + 1}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
                self._size += 1
                self._idle += 1
            self._queued += 1
        self._queue.put(call)

    def abandon(self, call: _Call) -> None:
        """Stop counting the thread of a cancelled call, so that another one can start."""
        with self._lock:
            if call.is_started:
                call.is_abandoned = True
                self._size -= 1

    def stop(self) -> None:
        """Let each thread exit when it is idle."""
        for _ in range(self._size):
            self._queue.put(None)

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            with self._lock:
                self._queued -= 1
                self._idle -= 1
                call.is_started = True
            outcome = (None, None) if call.future.cancelled() else _outcome(call.function)
            with self._lock:
                if call.is_abandoned:
                    return
                # Idle before the caller resumes, so that its next call reuses this thread.
                self._idle += 1
                call.is_started = False
            with suppress(RuntimeError):  # the loop may be closed
                call.loop.call_soon_threadsafe(_set_outcome, call.future, outcome)
            del call, outcome  # an idle thread must not keep objects alive


def _outcome(function: Callable[[], Any]) -> _Outcome:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - raised in the caller
        return None, error


def _set_outcome(future: "asyncio.Future[_Outcome]", outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)
