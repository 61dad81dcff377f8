"""Ports for limits of requests, bytes, tokens and cost per caller, and for shared circuits."""

from collections.abc import Sequence
from typing import Protocol


class CircuitStorePort(Protocol):
    """Failures and open circuits that several processes share. No method ever fails."""

    async def admit(self, name: str, *, reset: float) -> float | None:
        """Return None if a call is admitted, else the time of the next attempt.

        Once an open circuit may be tried again, one call of all processes is admitted as the probe.
        """
        ...

    async def record(
        self, name: str, *, failed: bool, max_failures: int, reset: float
    ) -> float | None:
        """Count a failure, and open the circuit if there are too many; or close the circuit.

        Returns the time of the next attempt if the circuit is open.
        """
        ...

    async def release(self, name: str) -> None:
        """End a probe without a result, so that the next call is the probe."""
        ...


class RateLimiterPort(Protocol):
    """Counts the requests of callers, possibly together with other servers.

    The methods that count raise RateLimited if a limit is exceeded, and Unavailable if the counter
    does not respond and requests must not be accepted without it.
    """

    def describe(self) -> Sequence[str]:
        """Return the limits in words, such as "100 per 1 minute", for operators."""
        ...

    async def count_request(self, caller: str, intent: str = "") -> None:
        """Count a request of a caller; with an intent, only against the limits of the intent."""
        ...

    async def count_bytes(self, caller: str, size: int) -> None:
        """Count the bytes of the body of a request."""
        ...

    async def count_tool_call(self, caller: str, tool: str) -> None:
        """Count a tool call of a run that a caller started."""
        ...

    async def check_quota(self, caller: str) -> None:
        """Raise RateLimited if a caller has used up the tokens or the cost of the day."""
        ...

    async def charge(self, caller: str, *, tokens: int, cost: float) -> None:
        """Count the tokens and the cost in US dollars of a model call; this never fails."""
        ...

    async def aclose(self) -> None:
        """Close the connections to the counter."""
        ...
