"""Threads for functions that block, which never keep the process from ending."""

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


class _Call:
    """What to do in the caller's context, and where the outcome goes."""

    __slots__ = ("function", "future", "given_up", "loop", "started")

    def __init__(
        self,
        function: Callable[[], Any],
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[_Outcome]",
    ) -> None:
        self.function = function
        self.loop = loop
        self.future = future
        self.started = False
        self.given_up = False


class _Crew:
    """Threads that share a queue. They know nothing of the pool, which may be dropped."""

    def __init__(self, limit: int) -> None:
        self.pid = os.getpid()
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._limit = limit
        self._lock = threading.Lock()
        self._size = 0
        self._idle = 0
        self._waiting = 0

    def submit(self, call: _Call) -> None:
        """Hand a call to an idle thread, to a new one, or to the first that gets free."""
        with self._lock:
            if self._waiting >= self._idle and self._size < self._limit:
                name = f"acc call {self._size + 1}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
                self._size += 1
                self._idle += 1
            self._waiting += 1
        self.calls.put(call)

    def give_up(self, call: _Call) -> None:
        """Write off the thread of a call that nobody waits for, so that others find one."""
        with self._lock:
            if call.started:
                call.given_up = True
                self._size -= 1

    def dismiss(self) -> None:
        """Send the threads home, each when it is done."""
        for _ in range(self._size):
            self.calls.put(None)

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            with self._lock:
                self._waiting -= 1
                self._idle -= 1
                call.started = True
            # Who was cancelled before it began does not want it any more.
            outcome = (None, None) if call.future.cancelled() else _outcome(call.function)
            with self._lock:
                if call.given_up:
                    return
                # Before the caller hears of it: its next call is to find this thread idle.
                self._idle += 1
                call.started = False
            with suppress(RuntimeError):  # the loop was closed meanwhile
                call.loop.call_soon_threadsafe(_settle, call.future, outcome)
            del call, outcome  # an idle thread keeps nothing alive


def _outcome(function: Callable[[], Any]) -> _Outcome:
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001 - it is the caller's, whatever it is
        return None, error


def _settle(future: "asyncio.Future[_Outcome]", outcome: _Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


class DaemonThreads:
    """Runs functions in up to `limit` threads, made as needed and used again.

    A function that hangs takes one of the threads for good; it does not keep the process alive.
    """

    def __init__(self, *, limit: int = 64) -> None:
        if limit < 1:
            raise ValueError(f"at least one thread is needed, not {limit}")
        self._limit = limit
        self._crew = self._new_crew()

    async def call(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Return what `function` returns, from a thread of its own, in the caller's context.

        If the caller is cancelled it does not wait for the function, which cannot be stopped.
        """
        if self._crew.pid != os.getpid():
            self._crew = self._new_crew()  # the threads stayed behind when we were forked off
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()
        work = partial(copy_context().run, function, *arguments, **named)
        crew, call = self._crew, _Call(work, loop, future)
        crew.submit(call)
        try:
            result, fault = await future
        except asyncio.CancelledError:
            crew.give_up(call)
            raise
        if fault is not None:
            try:
                raise fault
            finally:
                del fault  # or the error and this frame would keep each other alive
        return result  # type: ignore[no-any-return] # it is what the function returned

    def _new_crew(self) -> _Crew:
        crew = _Crew(self._limit)
        weakref.finalize(self, crew.dismiss).atexit = False
        return crew
