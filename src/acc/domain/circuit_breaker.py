"""A circuit breaker: after repeated failures, calls fail at once until a probe succeeds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple
from weakref import WeakSet

from acc.domain.errors import CircuitOpen, InvalidInput


class CircuitState(StrEnum):
    """State of a circuit breaker; half-open while one probe is under way."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitStatus(NamedTuple):
    """What is known about one circuit; `next_attempt` is in seconds since the epoch."""

    name: str
    state: CircuitState
    failures: int
    next_attempt: float | None


class CircuitBreaker:
    """Counts consecutive failures of calls to one service.

    After `failures` of them the circuit is open for `reset` seconds: calls raise CircuitOpen with
    the time of the next attempt. Then one call is admitted as a probe. Its success closes the
    circuit; its failure opens it again. With `failures` of 0 the circuit never opens. `on_change`
    gets the status whenever the circuit opens or closes.
    """

    def __init__(
        self,
        name: str,
        *,
        failures: int = 5,
        reset: float = 30.0,
        now: Callable[[], float] = time.time,
        on_change: Callable[[CircuitStatus], None] | None = None,
    ) -> None:
        if failures < 0 or not reset > 0:
            raise InvalidInput(
                f"a circuit breaker needs failures >= 0 and reset > 0, got {failures} and {reset}"
            )
        self.name = name
        self.max_failures = failures
        self.reset = reset
        self._now = now
        self._on_change = on_change
        self._failures = 0
        self._open_until = 0.0
        self._shared_until = 0.0
        self._probing = False
        _BREAKERS.add(self)

    @property
    def status(self) -> CircuitStatus:
        """Return the name, the state, the failures in a row and the time of the next attempt."""
        return CircuitStatus(self.name, self.state, self._failures, self.next_attempt)

    @property
    def state(self) -> CircuitState:
        """Return the current state."""
        if self._probing:
            return CircuitState.HALF_OPEN
        return CircuitState.CLOSED if self.next_attempt is None else CircuitState.OPEN

    @property
    def next_attempt(self) -> float | None:
        """Return when the next call is admitted, in seconds since the epoch; None if at once."""
        return max(self._open_until, self._shared_until) or None

    def note_shared(self, next_attempt: float | None) -> None:
        """Note when processes that share the circuit admit the next call; None if it is closed.

        It is a part of the status, but does not decide which calls are admitted here.
        """
        was_closed = self.state is CircuitState.CLOSED
        self._shared_until = next_attempt or 0.0
        if was_closed != (self.state is CircuitState.CLOSED):
            self._report_change()

    @contextmanager
    def call(self, failures: tuple[type[BaseException], ...]) -> Iterator[None]:
        """Admit a call, or raise CircuitOpen. Exceptions of these types count as failures.

        Other exceptions show that the service responds. A cancelled call counts as neither.
        """
        is_probe = self._admit()
        try:
            yield
        except failures:
            self._record_failure()
            raise
        except Exception:
            self._record_success()
            raise
        except BaseException:
            if is_probe:
                self._probing = False  # the next call is the probe
            raise
        else:
            self._record_success()

    def _admit(self) -> bool:
        """Return True if the call is the probe."""
        if not self._open_until:
            return False
        if self._probing or self._now() < self._open_until:
            raise CircuitOpen(self.name, next_attempt=self._open_until, now=self._now())
        self._probing = True
        return True

    def _record_failure(self) -> None:
        self._failures += 1
        if self._probing or (self.max_failures and self._failures >= self.max_failures):
            # Calls that were admitted before it opened may fail later.
            is_change = self._probing or not self._open_until
            self._probing = False
            self._open_until = self._now() + self.reset
            if is_change:
                self._report_change()

    def _record_success(self) -> None:
        was_open = self.next_attempt is not None
        self._failures, self._open_until, self._shared_until, self._probing = 0, 0.0, 0.0, False
        if was_open:
            self._report_change()

    def _report_change(self) -> None:
        if self._on_change is not None:
            self._on_change(self.status)


_BREAKERS: WeakSet[CircuitBreaker] = WeakSet()


def list_circuits() -> tuple[CircuitStatus, ...]:
    """Return the circuits of this process that have failures or are not closed, by name."""
    found = (breaker.status for breaker in tuple(_BREAKERS))
    return tuple(
        sorted(one for one in found if one.failures or one.state is not CircuitState.CLOSED)
    )
