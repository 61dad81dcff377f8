"""Ids that may be used once, in a store that servers share."""

import asyncio
import logging

from acc.adapters.storage.counters import CounterTable, digest
from acc.domain.errors import Unavailable
from acc.ports.outbound.auth_ports import UsedIdsPort

log = logging.getLogger("acc.auth")
_RETRY_AFTER_SECONDS = 5.0


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
