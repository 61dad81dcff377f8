"""The retry policy of calls to models and remote agents: backoff, jitter, Retry-After."""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential

from acc.application.runtime.current_trace import current_trace_id
from acc.application.runtime.pausable_timeout import pause_deadlines
from acc.domain.value_objects.endpoint import redact_secrets

log = logging.getLogger("acc.retry")
FIRST_WAIT_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 30.0

Result = TypeVar("Result")


class RetryPolicy:
    """Call an operation again after failures that may pass.

    A failure may pass if its exception has a true attribute `retryable`. If the exception has a
    `retry_after` in seconds, the next attempt waits at least that long. If `retry_after` exceeds
    `max_wait`, the exception is raised at once. `attempts` includes the first one. Deadlines of
    callers are paused between attempts. Each failed attempt is logged with its number, the trace
    id, by default that of the current run, and the error.
    """

    def __init__(
        self,
        *,
        attempts: int,
        max_wait: float,
        first_wait: float = FIRST_WAIT_SECONDS,
        max_backoff: float = MAX_BACKOFF_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        trace_id: str = "",
    ) -> None:
        self.attempts = attempts
        self.max_wait = max_wait
        self._sleep = sleep
        self._trace_id = trace_id
        self._backoff = wait_exponential(multiplier=first_wait, max=min(max_backoff, max_wait))

    async def call(self, operation: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of `operation`, or raise the exception of the last attempt."""
        retrying = AsyncRetrying(
            sleep=self._pause,
            stop=stop_after_attempt(self.attempts),
            wait=self._wait,
            retry=retry_if_exception(self._may_pass),
            before_sleep=self._log_attempt,
            reraise=True,
        )

        async def attempt() -> Result:  # the library awaits only coroutine functions
            return await operation()

        return await retrying(attempt)

    def asks_too_long(self, error: BaseException) -> bool:
        """Return True if the server asked for a longer wait than `max_wait`."""
        retry_after = getattr(error, "retry_after", None)
        return retry_after is not None and retry_after > self.max_wait

    def _may_pass(self, error: BaseException) -> bool:
        return bool(getattr(error, "retryable", False)) and not self.asks_too_long(error)

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        # Jitter: clients that failed together must not come back together.
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, protects nothing
        return max(getattr(error, "retry_after", None) or 0.0, self._backoff(state) * jitter)

    def _log_attempt(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        trace_id = self._trace_id or current_trace_id()
        log.warning(
            "attempt %d of %d failed, the next one is in %.1f s%s: %s",
            state.attempt_number,
            self.attempts,
            state.upcoming_sleep,
            f" (trace {trace_id})" if trace_id else "",
            redact_secrets(str(error)),
            extra={"attempt": state.attempt_number, "trace_id": trace_id},
        )

    async def _pause(self, seconds: float) -> None:
        with pause_deadlines():
            await self._sleep(seconds)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a server asks for: retry-after-ms, or Retry-After as number or date."""
    after = headers.get("retry-after", "")
    for value, unit in ((headers.get("retry-after-ms", ""), 1000), (after, 1)):
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (OverflowError, ValueError):
        return None
