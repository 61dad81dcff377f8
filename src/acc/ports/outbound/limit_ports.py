"""Port for limits of requests and bytes per caller."""

from typing import Protocol


class RateLimiterPort(Protocol):
    """Counts the requests of callers, possibly together with other servers.

    The methods that count raise RateLimited if a limit is exceeded, and Unavailable if the counter
    does not respond and requests must not be accepted without it.
    """

    async def count_request(self, caller: str, intent: str = "") -> None:
        """Count a request of a caller; with an intent, only against the limits of the intent."""
        ...

    async def count_bytes(self, caller: str, size: int) -> None:
        """Count the bytes of the body of a request."""
        ...

    async def aclose(self) -> None:
        """Close the connections to the counter."""
        ...
