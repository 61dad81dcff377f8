"""A timeout that does not count the time that calls wait for a rate limit or a retry.

The limits are set elsewhere: `RunConfig` has those of a run and its tools, `Tool` that of one tool.
A limit for every agent would be a field of `BaseAgent` in `agents/base.py`.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType


class PausableTimeout:
    """Raises TimeoutError after some seconds, as `asyncio.timeout` does.

    Its clock stops inside `pause_deadlines`, also in tasks and threads that the block started. None
    means no timeout.
    """

    def __init__(self, seconds: float | None) -> None:
        self._remaining = math.inf if seconds is None else seconds
        self._timeout = asyncio.Timeout(None)
        self._loop = asyncio.get_running_loop()
        self._outer: PausableTimeout | None = None
        self._pauses = 0
        self._is_over = False

    @property
    def remaining(self) -> float:
        """Return the remaining seconds; negative after the timeout."""
        until = self._timeout.when()
        return self._remaining if until is None else until - self._loop.time()

    async def __aenter__(self) -> "PausableTimeout":
        await self._timeout.__aenter__()
        self._outer = _INNERMOST.get()
        _INNERMOST.set(self)
        self._schedule()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        # Not by a token: a coroutine that is closed from outside ends in another context.
        _INNERMOST.set(self._outer)
        await self._timeout.__aexit__(kind, error, trace)

    def check(self) -> None:
        """Raise TimeoutError if the time is over but a blocked event loop delayed the timeout."""
        if self.remaining <= 0:
            raise TimeoutError

    def chain(self) -> "Iterator[PausableTimeout]":
        """Yield this timeout and those around it."""
        timeout: PausableTimeout | None = self
        while timeout is not None:
            yield timeout
            timeout = timeout._outer

    def pause(self) -> None:
        """Stop the clock; each call needs a `resume`."""
        self._call_in_loop(self._pause)

    def resume(self) -> None:
        """Continue the clock after the last pause."""
        self._call_in_loop(self._resume)

    def _pause(self) -> None:
        self._pauses += 1
        if self._is_running:
            self._remaining = self.remaining
            self._timeout.reschedule(None)

    def _resume(self) -> None:
        self._pauses -= 1
        if not self._pauses and self._is_running:
            self._schedule()

    def _schedule(self) -> None:
        if self._remaining < math.inf:
            self._timeout.reschedule(self._loop.time() + self._remaining)

    @property
    def _is_running(self) -> bool:
        return not self._is_over and not self._timeout.expired()

    def _call_in_loop(self, change: Callable[[], None]) -> None:
        if self._loop is asyncio.get_running_loop():
            change()
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(change)


_INNERMOST: ContextVar[PausableTimeout | None] = ContextVar("innermost_timeout", default=None)


@contextmanager
def pause_deadlines() -> Iterator[None]:
    """Stop the clocks of all timeouts around the block."""
    innermost = _INNERMOST.get()
    paused = [] if innermost is None else list(innermost.chain())
    for timeout in paused:
        timeout.pause()
    try:
        yield
    finally:
        for timeout in paused:
            timeout.resume()
