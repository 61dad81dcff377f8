"""Protection against replayed requests for intents: a recent time, and a nonce used once."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from acc.domain.contract_errors import ReplayRejected

#: Nonces that are remembered; more requests within the window are rejected.
MAX_NONCES = 100_000


class ReplayGuard:
    """Rejects requests that are older than `window` seconds or were sent before.

    The nonce is `context.nonce`. A request without one needs a `request_id`, because a repeated id
    is not executed again. Without a window everything is accepted.
    """

    def __init__(self, window: float | None) -> None:
        self._window = window
        self._used: dict[tuple[str, str], float] = {}

    def check(self, caller: str, context: Mapping[str, Any], now: float) -> None:
        """Raise ReplayRejected if a request must not be executed."""
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
        nonce = context.get("nonce")
        if nonce is None:
            if not context.get("request_id") and not context.get("idempotency_key"):
                raise ReplayRejected("context.nonce or context.request_id is required")
            return
        # A time in the future stays valid for up to two windows.
        for key, until in list(self._used.items()):
            if until > now:
                break
            del self._used[key]
        if (caller, nonce) in self._used:
            raise ReplayRejected("context.nonce was used before; send a new one")
        if len(self._used) >= MAX_NONCES:
            # Forgetting a nonce that is still valid would permit its replay.
            raise ReplayRejected("too many requests with a nonce; try again later")
        self._used[caller, nonce] = now + 2 * self._window
