"""Protection against replayed requests for intents: a recent time, and a nonce used once."""

from collections.abc import Mapping
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

from acc.domain.contract_errors import ReplayRejected
from acc.domain.errors import Unavailable
from acc.ports.outbound.auth_ports import UsedIdsPort

#: Maximum number of ids in memory; further requests are rejected until some of them expire.
MAX_IDS = 100_000
_RETRY_AFTER_SECONDS = 5.0


class InMemoryUsedIds:
    """The ids that were used in this process; implements UsedIdsPort."""

    def __init__(self) -> None:
        self._used: set[tuple[str, str]] = set()
        self._expiry: list[tuple[float, tuple[str, str]]] = []

    async def claim(self, kind: str, value: str, *, now: float, until: float) -> bool:
        """Use an id; return False if it was used before."""
        while self._expiry and self._expiry[0][0] <= now:
            self._used.discard(heappop(self._expiry)[1])
        if (kind, value) in self._used:
            return False
        if len(self._used) >= MAX_IDS:
            # Forgetting an id that is still valid would permit its replay.
            raise Unavailable(
                "the server stores too many used ids at present; try again later",
                retry_after=_RETRY_AFTER_SECONDS,
            )
        self._used.add((kind, value))
        heappush(self._expiry, (until, (kind, value)))
        return True

    async def aclose(self) -> None:
        """Do nothing."""


class ReplayGuard:
    """Rejects requests that are older than `window` seconds or were sent before.

    The nonce is `context.nonce`. A request without one needs a `request_id`, because a repeated id
    is not executed again. Without a window everything is accepted.
    """

    def __init__(self, window: float | None, used_ids: UsedIdsPort | None = None) -> None:
        self._window = window
        self._used_ids = used_ids or InMemoryUsedIds()

    async def check(
        self, caller: str, context: Mapping[str, Any], now: float, *, is_repeatable: bool = False
    ) -> None:
        """Raise ReplayRejected if a request must not be executed.

        A message that is recognised by its id is `repeatable`, and needs no nonce.
        """
        if self._window is None:
            return
        if "timestamp" not in context:
            raise ReplayRejected("context.timestamp is required: send the time of the request")
        sent = datetime.fromisoformat(context["timestamp"])
        age = now - (sent if sent.tzinfo else sent.replace(tzinfo=UTC)).timestamp()
        if abs(age) > self._window:
            raise ReplayRejected(
                f"context.timestamp must be at most {self._window:g} s from the time of the server"
            )
        if is_repeatable:
            return
        nonce = context.get("nonce")
        if nonce is None:
            if not context.get("request_id") and not context.get("idempotency_key"):
                raise ReplayRejected("context.nonce or context.request_id is required")
            return
        # A time in the future stays valid for up to two windows.
        until = now + 2 * self._window
        if not await self._used_ids.claim(f"nonce of {caller}", nonce, now=now, until=until):
            raise ReplayRejected("context.nonce was used before; send a new one")
