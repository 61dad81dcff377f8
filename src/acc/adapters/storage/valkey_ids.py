"""Ids that may be used once, as keys of a Valkey or Redis server, where they expire."""

from valkey.asyncio import Valkey

from acc.adapters.storage.counters import digest

_TIMEOUT_SECONDS = 1.0


class ValkeyIds:
    """Ids in a Valkey or Redis server; implements UsedIdsPort."""

    def __init__(self, url: str) -> None:
        self._client = Valkey.from_url(
            url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS
        )

    async def claim(self, kind: str, value: str, *, now: float, until: float) -> bool:
        """Use an id; return False if it was used before."""
        key = f"acc:used:{digest(kind, value).hex()}"
        lifetime = max(1, int((until - now) * 1000))
        return bool(await self._client.set(key, "1", nx=True, px=lifetime))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
