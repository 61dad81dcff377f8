"""Subscriptions to the events that a store has recorded, whichever store it is."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from acc.application.events.cloud_events import encode_cloud_event
from acc.domain.value_objects.cloud_event import CloudEvent, matches_event_type
from acc.ports.outbound.event_ports import DELIVERY_LEASE_SECONDS, EventDelivery

_POLL_SECONDS = 0.2
#: Events that one call reads at most.
SCAN_LIMIT = 500


class Interest(NamedTuple):
    """A subscription: its name, the patterns of its types, and the lease of its deliveries."""

    name: str
    types: tuple[str, ...]
    lease: float

    def includes(self, event_type: str) -> bool:
        """Return True if an event of this type is delivered."""
        return matches_event_type(self.types, event_type)


class Claimed(NamedTuple):
    """What a subscription gets; `is_complete` is False if more events must be looked at."""

    deliveries: tuple[EventDelivery, ...]
    is_complete: bool


class EventLog(Protocol):
    """The recorded events of a store, with the positions of subscriptions."""

    async def check(self) -> None:
        """Return if events can be stored now."""
        ...

    async def publish(self, event: CloudEvent) -> None:
        """Store an event; one with the same source and id has no effect."""
        ...

    async def claim(self, interest: Interest, *, limit: int) -> Claimed:
        """Lease events that are new or due again."""
        ...

    async def complete(self, name: str, seq: int) -> None:
        """End a delivery."""
        ...

    async def delay(self, name: str, seq: int, *, seconds: float) -> None:
        """Make a delivery due again after so many seconds."""
        ...

    async def backlog(self, interest: Interest) -> int:
        """Return how many events of a subscription are new or leased."""
        ...

    async def aclose(self) -> None:
        """Close the store."""
        ...


class LogPublisher:
    """Adds events to the log of a store; `owns_log` closes the store with the publisher."""

    def __init__(self, log: EventLog, *, owns_log: bool) -> None:
        self._log = log
        self._owns_log = owns_log

    async def check(self) -> None:
        """Return if the store can be written now."""
        await self._log.check()

    async def publish(self, event: CloudEvent) -> None:
        """Return once the store has the event."""
        await self._log.publish(event)

    async def aclose(self) -> None:
        """Close the store if it belongs to the publisher."""
        if self._owns_log:
            await self._log.aclose()


class LogSubscription:
    """Receives events from the log of a store, by polling.

    `owns_log` closes the store with the subscription.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        name: str,
        types: Sequence[str],
        lease: float = DELIVERY_LEASE_SECONDS,
        owns_log: bool = False,
    ) -> None:
        self._log = log
        self._owns_log = owns_log
        self._interest = Interest(name, tuple(types), lease)

    async def receive(self, *, limit: int, wait: float) -> tuple[EventDelivery, ...]:
        """Return up to `limit` deliveries; wait so many seconds for the first."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        while True:
            deliveries, is_complete = await self._log.claim(self._interest, limit=limit)
            remaining = deadline - loop.time()
            if deliveries or (is_complete and remaining <= 0):
                return deliveries
            if is_complete:
                await asyncio.sleep(min(_POLL_SECONDS, remaining))

    async def acknowledge(self, delivery: EventDelivery) -> None:
        """End a delivery; the event is not delivered again."""
        await self._log.complete(self._interest.name, int(delivery.token))

    async def extend(self, delivery: EventDelivery) -> None:
        """Start the lease of a delivery again."""
        await self.postpone(delivery, seconds=self._interest.lease)

    async def postpone(self, delivery: EventDelivery, *, seconds: float) -> None:
        """Deliver the event again, not before so many seconds, at most a lease."""
        seconds = min(seconds, self._interest.lease)
        await self._log.delay(self._interest.name, int(delivery.token), seconds=seconds)

    async def backlog(self) -> int:
        """Return the number of unacknowledged events, delivered or not."""
        return await self._log.backlog(self._interest)

    async def aclose(self) -> None:
        """Close the store if it belongs to the subscription."""
        if self._owns_log:
            await self._log.aclose()


def published_row(event: CloudEvent, at: float) -> tuple[str, str, str, float, bytes]:
    """Return source, id, type, time and body of an event."""
    return (event.source, event.id, event.type, at, encode_cloud_event(event))
