"""Events over streams of a Valkey or Redis server."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from valkey.asyncio import Valkey
from valkey.exceptions import AuthenticationError, NoPermissionError, ResponseError, ValkeyError

from acc.adapters.events.location import carrier_label
from acc.application.events.cloud_events import encode_cloud_event, event_key
from acc.domain.errors import CarrierFailed
from acc.domain.value_objects.cloud_event import CloudEvent, matches_event_type
from acc.ports.outbound.event_ports import (
    DELIVERY_LEASE_SECONDS,
    EVENT_RETENTION_SECONDS,
    EventDelivery,
)

log = logging.getLogger("acc.run")
#: The braces keep all keys on one node of a cluster.
STREAM = "{acc:events}"
#: An event that is published again is recognised for so many seconds.
_DUPLICATE_WINDOW_SECONDS = 86_400
_TIMEOUT_SECONDS = 5.0
_POLL_SECONDS = 0.1
# The event is added and its id remembered in one step, so a crash cannot separate them. A command
# that fails does not undo those before it, so the id comes last.
_PUBLISH = """
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('XADD', KEYS[1], 'MINID', '~', ARGV[2], '*', 'type', ARGV[3], 'event', ARGV[4])
  redis.call('SET', KEYS[2], 1, 'EX', ARGV[1])
end
"""
_FAILURES = (ValkeyError, OSError, TimeoutError)


class _Server:
    """A client, and errors that name the server without its password."""

    def __init__(self, url: str) -> None:
        self.label = carrier_label(url)
        self.client: Any = Valkey.from_url(
            url.replace("valkeys://", "rediss://", 1).replace("valkey://", "redis://", 1),
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
        )

    def convert(self, error: BaseException) -> CarrierFailed:
        """Return the error that the caller gets: the server, the reason and what to do."""
        if isinstance(error, AuthenticationError | NoPermissionError) or "NOAUTH" in str(error):
            return CarrierFailed(
                f"{self.label}: the server rejects the credentials; check user and password of the "
                "URL, and the permissions of the user"
            )
        if isinstance(error, ResponseError):
            return CarrierFailed(f"{self.label}: the server rejected the request: {error}")
        return CarrierFailed(
            f"{self.label}: the server cannot be reached ({type(error).__name__}); check host and "
            "port of the URL, and that the server runs"
        )


class ValkeyPublisher:
    """Adds events to one stream; old ones are deleted after the retention."""

    def __init__(self, url: str) -> None:
        self._server = _Server(url)
        self._is_checked = False

    async def check(self) -> None:
        """Return if the server responds; warn if it says that it forgets events when it stops."""
        try:
            persistence = await self._server.client.info("persistence")
        except NoPermissionError:
            persistence = {}
        except _FAILURES as error:
            raise self._server.convert(error) from error
        self._is_checked = True
        if persistence.get("aof_enabled") == 0:
            log.warning(
                "%s: the server does not write each event to its disk, so events are lost if it "
                "is killed; set appendonly to yes",
                self._server.label,
            )

    async def publish(self, event: CloudEvent) -> None:
        """Return once the server has stored the event."""
        if not self._is_checked:
            await self.check()
        body = encode_cloud_event(event)
        oldest = int((time.time() - EVENT_RETENTION_SECONDS) * 1000)
        keys = (STREAM, f"{STREAM}:id:{event_key(event)}")
        values = (_DUPLICATE_WINDOW_SECONDS, oldest, event.type, body)
        try:
            await self._server.client.eval(_PUBLISH, len(keys), *keys, *values)
        except _FAILURES as error:
            raise self._server.convert(error) from error

    async def aclose(self) -> None:
        """Close the connection."""
        await self._server.client.aclose()


class ValkeySubscription:
    """A consumer group of the stream, which several processes may share."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        types: Sequence[str],
        lease: float = DELIVERY_LEASE_SECONDS,
    ) -> None:
        self._server = _Server(url)
        self._name = name
        self._types = tuple(types)
        self._lease_ms = int(lease * 1000)
        self._consumer = f"acc-{uuid4().hex[:12]}"
        self._has_group = False

    async def receive(self, *, limit: int, wait: float) -> tuple[EventDelivery, ...]:
        """Return up to `limit` deliveries; wait so many seconds for the first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        try:
            if not self._has_group:
                await self._create_group()
            while True:
                # Not a blocking read: it would not see deliveries whose lease expires meanwhile.
                found = await self._claim_expired(limit) or await self._read_new(limit)
                remaining = deadline - loop.time()
                if found or remaining <= 0:
                    return found
                await asyncio.sleep(min(_POLL_SECONDS, remaining))
        except _FAILURES as error:
            self._has_group = False
            raise self._server.convert(error) from error

    async def acknowledge(self, delivery: EventDelivery) -> None:
        """End a delivery; the event is not delivered again."""
        try:
            await self._server.client.xack(STREAM, self._name, delivery.token)
        except _FAILURES as error:
            raise self._server.convert(error) from error

    async def extend(self, delivery: EventDelivery) -> None:
        """Start the lease of a delivery again."""
        await self._set_idle(delivery, 0)

    async def postpone(self, delivery: EventDelivery, *, seconds: float) -> None:
        """Deliver the event again, not before so many seconds, at most a lease."""
        await self._set_idle(delivery, max(self._lease_ms - int(seconds * 1000), 0))

    async def backlog(self) -> int:
        """Return the number of unacknowledged events, delivered or not."""
        try:
            if not self._has_group:
                await self._create_group()
            groups = await self._server.client.xinfo_groups(STREAM)
            for group in groups:
                if group["name"] == self._name.encode():
                    return int(group["pending"]) + int(group.get("lag") or 0)
            # The stream was deleted with its groups, and a publisher created another one.
            self._has_group = False
            return int(await self._server.client.xlen(STREAM))
        except _FAILURES as error:
            self._has_group = False
            raise self._server.convert(error) from error

    async def aclose(self) -> None:
        """Close the connection; deliveries that were not acknowledged are repeated."""
        await self._server.client.aclose()

    async def _create_group(self) -> None:
        try:
            await self._server.client.xgroup_create(STREAM, self._name, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        self._has_group = True

    async def _claim_expired(self, limit: int) -> tuple[EventDelivery, ...]:
        client = self._server.client
        _, entries, *_ = await client.xautoclaim(
            STREAM, self._name, self._consumer, self._lease_ms, count=limit
        )
        attempts: dict[bytes, int] = {}
        for entry_id, _ in entries:
            pending = await client.xpending_range(
                STREAM, self._name, min=entry_id, max=entry_id, count=1
            )
            if pending:  # otherwise the process that was slow has acknowledged it just now
                attempts[entry_id] = pending[0]["times_delivered"]
        expired = [(entry_id, fields) for entry_id, fields in entries if entry_id in attempts]
        return await self._deliveries(expired, attempts)

    async def _read_new(self, limit: int) -> tuple[EventDelivery, ...]:
        while True:
            found = await self._server.client.xreadgroup(
                self._name, self._consumer, {STREAM: ">"}, count=limit
            )
            if not found:
                return ()
            (entries,) = [one for _, one in found]
            if deliveries := await self._deliveries(entries, {}):
                return deliveries

    async def _deliveries(
        self, entries: Sequence[tuple[bytes, dict[bytes, bytes]]], attempts: dict[bytes, int]
    ) -> tuple[EventDelivery, ...]:
        deliveries: list[EventDelivery] = []
        for entry_id, fields in entries:
            event_type = fields.get(b"type", b"").decode(errors="replace")
            if event_type and not matches_event_type(self._types, event_type):
                await self._server.client.xack(STREAM, self._name, entry_id)
                continue
            body = fields.get(b"event", b"")
            deliveries.append(EventDelivery(entry_id.decode(), body, attempts.get(entry_id, 1)))
        return tuple(deliveries)

    async def _set_idle(self, delivery: EventDelivery, idle_ms: int) -> None:
        """Make a delivery as old as stated; it is due again when it is as old as the lease."""
        ids = [delivery.token]
        try:
            await self._server.client.xclaim(
                STREAM, self._name, self._consumer, 0, ids, idle=idle_ms, justid=True
            )
        except _FAILURES as error:
            raise self._server.convert(error) from error
