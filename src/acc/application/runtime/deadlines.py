"""How long one waits for an answer: a clock that stands still while calls are held back.

Whoever asks a model has only so much patience with it. Who stands in line for a limit, or has been
told by a provider to come back later, has not been kept waiting by the model, and must not be taken
for one who was.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType


class PausableTimeout:
    """Ends what takes too long with a TimeoutError, as `asyncio.timeout` does.

    Its clock stands still while anything in it is `held`, also in tasks and threads that it began.
    None is patience without end.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else seconds
        self._timeout = asyncio.Timeout(None)
        self._loop = asyncio.get_running_loop()
        self._outer: PausableTimeout | None = None
        self._holds = 0
        self._is_over = False

    @property
    def left(self) -> float:
        """Return how many seconds are left; below 0 are those since they were used up."""
        until = self._timeout.when()
        return self._left if until is None else until - self._loop.time()

    async def __aenter__(self) -> "PausableTimeout":
        await self._timeout.__aenter__()
        self._outer = _INNERMOST.get()
        _INNERMOST.set(self)
        self._run_on()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over = True
        # Not by a token: a task that is closed under its coroutine ends in somebody else's context.
        _INNERMOST.set(self._outer)
        await self._timeout.__aexit__(kind, error, trace)

    def check(self) -> None:
        """Raise what the end of the time raises, where who blocks the loop has put that off."""
        if self.left <= 0:
            raise TimeoutError

    def chain(self) -> "Iterator[PausableTimeout]":
        """Give this one, and those around it."""
        patience: PausableTimeout | None = self
        while patience is not None:
            yield patience
            patience = patience._outer

    def hold(self) -> None:
        """Stop the clock, until it was let go as often."""
        self._in_its_loop(self._stop)

    def let_go(self) -> None:
        """Let the clock run on, if nobody else holds it."""
        self._in_its_loop(self._start)

    def _stop(self) -> None:
        self._holds += 1
        if self._is_running:
            self._left = self.left
            self._timeout.reschedule(None)

    def _start(self) -> None:
        self._holds -= 1
        if not self._holds and self._is_running:
            self._run_on()

    def _run_on(self) -> None:
        if self._left < math.inf:
            self._timeout.reschedule(self._loop.time() + self._left)

    @property
    def _is_running(self) -> bool:
        return not self._is_over and not self._timeout.expired()

    def _in_its_loop(self, change: Callable[[], None]) -> None:
        if self._loop is asyncio.get_running_loop():
            change()
            return
        with suppress(RuntimeError):  # the loop was closed, so that nobody waits any more
            self._loop.call_soon_threadsafe(change)


_INNERMOST: ContextVar[PausableTimeout | None] = ContextVar("patience", default=None)


@contextmanager
def pause_deadlines() -> Iterator[None]:
    """Stop the clocks of all who wait for what goes on here."""
    innermost = _INNERMOST.get()
    stopped = [] if innermost is None else list(innermost.chain())
    for patience in stopped:
        patience.hold()
    try:
        yield
    finally:
        for patience in stopped:
            patience.let_go()
