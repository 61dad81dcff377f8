"""Rate limits and quotas per caller, in a storage of the package limits."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Literal

from limits import RateLimitItem, RateLimitItemPerDay, parse_many
from limits.aio.storage import RedisStorage
from limits.aio.storage.base import Storage
from limits.aio.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter

from acc.adapters.storage.counters import StoreCounters
from acc.domain.errors import AccError, InvalidInput, RateLimited, StorageFailed, Unavailable

log = logging.getLogger("acc.limits")
OnFailure = Literal["allow", "deny"]
_RETRY_AFTER_SECONDS = 5.0
_LOG_INTERVAL_SECONDS = 10.0
_DAY_SECONDS = 24 * 3600
#: Temporary errors of the Valkey client.
_OUTAGES = frozenset({"ConnectionError", "TimeoutError", "BusyLoadingError", "TryAgainError"})
#: Costs are counted in millionths of a US dollar.
_COST_UNITS = 1_000_000
#: A cost quota in units must fit into a 64-bit counter.
_MAX_QUOTA = 2**40 - 1


async def check_storage(storage: Storage, *, timeout: float) -> None:  # noqa: ASYNC109 - a limit of the check
    """Raise StorageFailed if counters cannot be used; `is_temporary` if the server is down."""
    try:
        async with asyncio.timeout(timeout):
            if isinstance(storage, RedisStorage):
                bridge: Any = storage.bridge
                await bridge.storage.ping()  # the check of the library hides the reason
            else:
                await storage.check()
    except AccError:
        raise
    except OSError as error:
        reason = error.strerror or "no response"
        raise StorageFailed(f"the server does not respond ({reason})", is_temporary=True) from None
    except Exception as error:  # noqa: BLE001 - third-party code
        # Errors of clients may contain the URL with its password.
        name = type(error).__name__
        is_temporary = name in _OUTAGES
        text = "the server does not respond" if is_temporary else "the server rejects the request"
        raise StorageFailed(f"{text} ({name})", is_temporary=is_temporary) from None


class StorageRateLimiter:
    """Counts requests per caller and intent; implements RateLimiterPort.

    `place` is where the counters are, as it may be logged, and `timeout` how long a request waits
    for them. `acc.a2a.RateLimiter` explains the other options.
    """

    def __init__(
        self,
        per_caller: Sequence[str] = (),
        *,
        per_intent: Mapping[str, Sequence[str]] | None = None,
        per_tool: Mapping[str, Sequence[str]] | None = None,
        bytes_per_caller: Sequence[str] = (),
        tokens_per_day: int | None = None,
        cost_per_day: float | None = None,
        storage: Storage,
        place: str,
        timeout: float,
        on_failure: OnFailure = "allow",
    ) -> None:
        if on_failure not in ("allow", "deny"):
            raise InvalidInput(f"on_failure must be 'allow' or 'deny', got {on_failure!r}")
        self._per_caller = _parse_rates(per_caller)
        self._per_intent = {
            intent: _parse_rates(rates) for intent, rates in (per_intent or {}).items()
        }
        self._per_tool = {tool: _parse_rates(rates) for tool, rates in (per_tool or {}).items()}
        self._bytes = _parse_rates(bytes_per_caller)
        self._tokens = _quota("tokens_per_day", tokens_per_day)
        self._cost = _quota("cost_per_day", cost_per_day, unit=_COST_UNITS)
        self._place = place
        self._timeout = timeout
        self._on_failure = on_failure
        self._storage = storage
        self._limiter = SlidingWindowCounterRateLimiter(storage)
        self._quotas = FixedWindowRateLimiter(storage)
        self._logged_at = -_LOG_INTERVAL_SECONDS

    def describe(self) -> Sequence[str]:
        """Return the limits in words, such as "100 per 1 minute", for operators."""
        named = (("intent", self._per_intent), ("tool", self._per_tool))
        quotas = (
            None if self._tokens is None else f"{self._tokens.amount} tokens per day",
            None if self._cost is None else f"{self._dollars(self._cost)} per day",
        )
        return [
            *map(str, self._per_caller),
            *(
                f"{name} {key}: {rate}"
                for name, rates in named
                for key in rates
                for rate in rates[key]
            ),
            *(f"{rate} (bytes)" for rate in self._bytes),
            *(quota for quota in quotas if quota is not None),
        ]

    async def count_request(self, caller: str, intent: str = "") -> None:
        """Count a request; raise RateLimited if a limit of the caller or intent is exceeded."""
        if intent:
            await self._count(self._per_intent.get(intent, ()), ("intent", intent, caller))
        else:
            await self._count(self._per_caller, ("caller", caller))

    async def count_bytes(self, caller: str, size: int) -> None:
        """Count the bytes of a request; raise RateLimited if the limit is exceeded."""
        await self._count(self._bytes, ("bytes", caller), size, unit=" bytes")

    async def count_tool_call(self, caller: str, tool: str) -> None:
        """Count a tool call; raise RateLimited if the limit of the tool is exceeded."""
        await self._count(self._per_tool.get(tool, ()), ("tool", tool, caller))

    async def check_quota(self, caller: str) -> None:
        """Raise RateLimited if the tokens or the cost of the day are used up."""
        day, elapsed = divmod(time.time(), _DAY_SECONDS)
        for quota, name in ((self._tokens, "tokens"), (self._cost, "cost")):
            if quota is None:
                continue
            try:
                async with asyncio.timeout(self._timeout):
                    if await self._quotas.test(quota, name, caller, f"{day:g}"):
                        continue
            except Exception as error:  # noqa: BLE001 - third-party code
                self._handle_failure(error)
                return
            amount = f"{quota.amount} tokens" if name == "tokens" else self._dollars(quota)
            raise RateLimited(f"of {amount} per day", retry_after=_DAY_SECONDS - elapsed)

    async def charge(self, caller: str, *, tokens: int, cost: float) -> None:
        """Count the tokens and the cost of a model call; a failure of the store is logged."""
        units = ceil(cost * _COST_UNITS)
        day = time.time() // _DAY_SECONDS
        for quota, name, amount in ((self._tokens, "tokens", tokens), (self._cost, "cost", units)):
            if quota is None or amount <= 0:
                continue
            try:
                async with asyncio.timeout(self._timeout):
                    await self._quotas.hit(quota, name, caller, f"{day:g}", cost=amount)
            except Exception as error:  # noqa: BLE001 - third-party code
                with suppress(Unavailable):
                    self._handle_failure(error)

    def _dollars(self, quota: RateLimitItem) -> str:
        return f"{quota.amount / _COST_UNITS:.2f} US dollars"

    async def aclose(self) -> None:
        """Close the connections to the store."""
        await close_storage(self._storage)

    async def _count(
        self, rates: Sequence[RateLimitItem], key: tuple[str, ...], cost: int = 1, *, unit: str = ""
    ) -> None:
        for rate in rates:
            try:
                async with asyncio.timeout(self._timeout):
                    if await self._limiter.hit(rate, *key, cost=cost):
                        continue
                    stats = await self._limiter.get_window_stats(rate, *key)
            except Exception as error:  # noqa: BLE001 - third-party code
                self._handle_failure(error)
                return
            raise RateLimited(f"{rate}{unit}", retry_after=max(0.0, stats.reset_time - time.time()))

    def _handle_failure(self, error: Exception) -> None:
        """Log a failure of the store, and raise Unavailable unless requests are accepted."""
        now = time.monotonic()
        if now - self._logged_at >= _LOG_INTERVAL_SECONDS:
            self._logged_at = now
            effect = "accepted without" if self._on_failure == "allow" else "rejected without"
            # Errors of clients may contain the URL with its password, StorageFailed does not.
            reason = str(error) if isinstance(error, StorageFailed) else type(error).__name__
            log.warning(
                "the rate limit counter at %s failed (%s); requests are %s it",
                self._place,
                reason,
                effect,
            )
        if self._on_failure == "deny":
            raise Unavailable(
                "the server cannot check the rate limit at present; try again later",
                retry_after=_RETRY_AFTER_SECONDS,
            )


async def close_storage(storage: Storage) -> None:
    """Close the connections to counters."""
    if isinstance(storage, StoreCounters):
        await storage.aclose()
    elif isinstance(storage, RedisStorage):
        bridge: Any = storage.bridge
        await bridge.storage.aclose()  # the library does not close its client


def _quota(name: str, amount: float | None, *, unit: int = 1) -> RateLimitItem | None:
    if amount is None:
        return None
    if not 0 < amount <= _MAX_QUOTA:
        raise InvalidInput(
            f"{name} must be greater than 0 and at most {_MAX_QUOTA}, got {amount!r}"
        )
    return RateLimitItemPerDay(ceil(amount * unit))


def _parse_rates(texts: Sequence[str]) -> tuple[RateLimitItem, ...]:
    """Return the rates, the shortest window first."""
    if isinstance(texts, str):
        raise InvalidInput(f'rates must be a list of strings, such as ("{texts}",)')
    rates: list[RateLimitItem] = []
    for text in texts:
        try:
            rates += parse_many(text)
        except ValueError:
            raise InvalidInput(
                f"{text!r} is not a rate; write a number and a period, such as 100/minute"
            ) from None
    if any(rate.amount <= 0 for rate in rates):
        raise InvalidInput("a rate must be at least 1")
    # A request that a short window rejects is not counted in a longer one.
    return tuple(sorted(rates, key=lambda rate: rate.get_expiry()))
