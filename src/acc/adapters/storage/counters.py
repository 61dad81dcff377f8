"""Counters of rate limits, and used ids, in a SQLite file or a PostgreSQL database."""

import asyncio
import logging
import time
from hashlib import sha256
from typing import Protocol

from limits.aio.storage.base import SlidingWindowCounterSupport, Storage

from acc.domain.errors import InvalidInput, StorageFailed, Unavailable
from acc.ports.outbound.auth_ports import UsedIdsPort

#: Interval at which each writing process deletes expired rows.
PRUNE_SECONDS = 60.0


log = logging.getLogger("acc.auth")
_RETRY_AFTER_SECONDS = 5.0


class CounterTable(Protocol):
    """A table of counters that several processes use; each call is one transaction.

    An expired row counts as missing. Every method raises StorageFailed if the store does not
    respond.
    """

    async def add(self, key: bytes, amount: int, *, now: float, until: float) -> int:
        """Add to a counter and return its value; a new counter expires at `until`."""
        ...

    async def add_within(
        self, key: bytes, amount: int, *, earlier: tuple[bytes, float], limit: int, until: float
    ) -> bool:
        """Add to a counter; return False without a change if a limit would be exceeded.

        `earlier` is the key of the previous window and its weight; the limit is for the sum.
        """
        ...

    async def read(self, key: bytes, *, now: float) -> tuple[int, float]:
        """Return the value and the expiry time of a counter; (0, now) if there is none."""
        ...

    async def claim(self, key: bytes, *, now: float, until: float) -> bool:
        """Create a row that expires at `until`; return False if it already exists."""
        ...

    async def delete(self, key: bytes) -> None:
        """Delete a row."""
        ...

    async def aclose(self) -> None:
        """Close the connections of the table."""
        ...


class StoreCounters(Storage, SlidingWindowCounterSupport):
    """The counters of a store, as the library `limits` uses them.

    Keys are stored as digests, because they contain names of callers and any characters.
    """

    STORAGE_SCHEME = None

    def __init__(self, table: CounterTable) -> None:
        super().__init__()
        self._table = table

    @property
    def base_exceptions(self) -> type[Exception]:
        """Return the error class for a store that does not respond."""
        return StorageFailed

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Add to a counter, which expires `expiry` seconds after it was created."""
        now = time.time()
        return await self._table.add(digest(key), amount, now=now, until=now + expiry)

    async def get(self, key: str) -> int:
        """Return the value of a counter."""
        return (await self._table.read(digest(key), now=time.time()))[0]

    async def get_expiry(self, key: str) -> float:
        """Return the time at which a counter expires."""
        return (await self._table.read(digest(key), now=time.time()))[1]

    async def check(self) -> bool:
        """Return True if the store responds."""
        await self.get("check")
        return True

    async def reset(self) -> int | None:
        """Raise an error: the counters of other servers must not be deleted."""
        raise InvalidInput("shared counters cannot be reset; delete single counters with clear()")

    async def clear(self, key: str) -> None:
        """Delete a counter."""
        await self._table.delete(digest(key))

    async def acquire_sliding_window_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        """Count an amount unless the weighted count of two windows would exceed the limit."""
        if amount > limit:
            return False
        now = time.time()
        window, elapsed = divmod(now, expiry)
        return await self._table.add_within(
            _window_key(key, window),
            amount,
            earlier=(_window_key(key, window - 1), 1 - elapsed / expiry),
            limit=limit,
            until=(window + 2) * expiry,
        )

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        """Return counts and remaining seconds of the previous and the current window."""
        now = time.time()
        window, elapsed = divmod(now, expiry)
        previous, _ = await self._table.read(_window_key(key, window - 1), now=now)
        current, _ = await self._table.read(_window_key(key, window), now=now)
        remaining = expiry - elapsed
        return previous, remaining if previous else 0.0, current, remaining + expiry

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        """Delete the counters of both windows."""
        window = time.time() // expiry
        for number in (window - 1, window):
            await self._table.delete(_window_key(key, number))

    async def aclose(self) -> None:
        """Close the connections to the store."""
        await self._table.aclose()


def digest(*parts: str) -> bytes:
    """Return the stored form of a key."""
    # The separator never occurs in UTF-8, so different parts never give the same bytes.
    return sha256(b"\xff".join(part.encode("utf-8", "surrogatepass") for part in parts)).digest()


def _window_key(key: str, window: float) -> bytes:
    return digest(key, str(int(window)))


class StoredIds:
    """Ids in the table of counters of a store; implements UsedIdsPort."""

    def __init__(self, table: CounterTable) -> None:
        self._table = table

    async def claim(self, kind: str, value: str, *, now: float, until: float) -> bool:
        """Use an id; return False if it was used before."""
        return await self._table.claim(digest(kind, value), now=now, until=until)

    async def aclose(self) -> None:
        """Close the connections to the store."""
        await self._table.aclose()


class BoundedUsedIds:
    """Raises Unavailable if other used ids fail or do not respond; implements UsedIdsPort.

    `place` is where the ids are, as it may be logged, and `timeout` how long a request waits.
    """

    def __init__(self, ids: UsedIdsPort, *, place: str, timeout: float) -> None:
        self._ids = ids
        self._place = place
        self._timeout = timeout

    async def claim(self, kind: str, value: str, *, now: float, until: float) -> bool:
        """Use an id; return False if it was used before."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ids.claim(kind, value, now=now, until=until)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - third-party code
            # Errors of the client may contain the URL with its password.
            log.warning(
                "the used ids at %s cannot be read (%s); the request is rejected",
                self._place,
                type(error).__name__,
            )
            raise Unavailable(
                "the server cannot check at present whether the request was sent before; try "
                "again later",
                retry_after=_RETRY_AFTER_SECONDS,
            ) from None

    async def aclose(self) -> None:
        """Close the connections to the store."""
        await self._ids.aclose()
