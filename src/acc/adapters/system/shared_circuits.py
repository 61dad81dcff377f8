"""Circuits that several processes share through a Valkey or Redis server."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TypeVar
from urllib.parse import urlsplit

from valkey.asyncio import Valkey

from acc.domain.errors import InvalidInput

log = logging.getLogger("acc.circuit")
_SCHEMES = frozenset({"valkey", "valkeys", "redis", "rediss"})
_TIMEOUT_SECONDS = 1.0
_LOG_INTERVAL_SECONDS = 10.0
#: How long failures, and a circuit without calls, are remembered.
_KEEP_SECONDS = 3600
_T = TypeVar("_T")


class ValkeyCircuits:
    """The failures and open circuits of several processes; implements CircuitStorePort.

    Calls are admitted while the server does not respond, which is logged. A connection is opened
    for each operation, because circuits live longer than event loops.
    """

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in _SCHEMES:
            raise InvalidInput(
                "ACC_CIRCUIT_STORE must be a URL such as valkey://HOST:6379, got the scheme "
                f"{urlsplit(url).scheme!r}"
            )
        self._url = url
        self._logged_at = -_LOG_INTERVAL_SECONDS

    async def admit(self, name: str, *, reset: float) -> float | None:
        """Return None if a call is admitted, else the time of the next attempt."""

        async def ask(client: Valkey) -> float | None:
            key = _key(name)
            opened = await client.get(f"{key}:open")
            if opened is None:
                return None
            now = time.time()
            if now < float(opened):
                return float(opened)
            if await client.set(f"{key}:probe", "1", nx=True, px=max(1, int(reset * 1000))):
                return None
            left = int(await client.pttl(f"{key}:probe"))
            return now + max(0, left) / 1000

        return await self._try(ask, None)

    async def record(
        self, name: str, *, failed: bool, max_failures: int, reset: float
    ) -> float | None:
        """Count a failure, and open the circuit if there are too many; or close the circuit.

        Returns the time of the next attempt if the circuit is open.
        """

        async def store(client: Valkey) -> float | None:
            key = _key(name)
            if not failed:
                await client.delete(f"{key}:failures", f"{key}:open", f"{key}:probe")
                return None
            failures = await client.incr(f"{key}:failures")
            await client.expire(f"{key}:failures", _KEEP_SECONDS)
            until = time.time() + reset if failures >= max_failures else None
            if until is not None:
                await client.set(f"{key}:open", str(until), ex=int(reset) + _KEEP_SECONDS)
            await client.delete(f"{key}:probe")
            return until

        return await self._try(store, None)

    async def release(self, name: str) -> None:
        """End a probe without a result, so that the next call is the probe."""

        async def drop(client: Valkey) -> None:
            await client.delete(f"{_key(name)}:probe")

        await self._try(drop, None)

    async def _try(self, use: Callable[[Valkey], Awaitable[_T]], otherwise: _T) -> _T:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS), Valkey.from_url(self._url) as client:
                return await use(client)
        except Exception as error:  # noqa: BLE001 - third-party code
            now = time.monotonic()
            if now - self._logged_at >= _LOG_INTERVAL_SECONDS:
                self._logged_at = now
                # Errors of the client may contain the URL with its password.
                log.warning(
                    "the shared circuits at %s failed (%s); each process uses its own",
                    urlsplit(self._url).hostname,
                    type(error).__name__,
                )
            return otherwise


def _key(name: str) -> str:
    return f"acc:circuit:{sha256(name.encode()).hexdigest()[:32]}"
