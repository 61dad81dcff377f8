"""Carriers of events between agents: publishers, subscriptions and dead letters."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from acc.domain.value_objects.cloud_event import CloudEvent

#: A delivery that is not acknowledged in so many seconds is delivered again.
DELIVERY_LEASE_SECONDS = 30.0
#: Events are deleted after so many seconds, delivered or not.
EVENT_RETENTION_SECONDS = 14 * 86_400.0


class EventPublisherPort(Protocol):
    """Passes events to a carrier, which delivers each of them at least once.

    Publishing an event again has no effect while the carrier remembers its source and id.
    CarrierFailed if the carrier does not confirm that it has stored the event.
    """

    async def check(self) -> None:
        """Return if events can be published now."""
        ...

    async def publish(self, event: CloudEvent) -> None:
        """Return once the carrier has stored the event."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class EventDelivery(NamedTuple):
    """An event on its way to a subscriber.

    `token` identifies the delivery for the carrier. `body` is as the publisher wrote it, so it may
    be invalid. `attempts` counts the deliveries, including this one.
    """

    token: str
    body: bytes
    attempts: int


class EventSubscriptionPort(Protocol):
    """Receives the events of a durable subscription, which several processes may share.

    Every event whose type matches is delivered until it is acknowledged, also those published
    while no process was connected. There is no order. A delivery whose lease expires is repeated.
    CarrierFailed if the carrier cannot be reached.
    """

    async def receive(self, *, limit: int, wait: float) -> tuple[EventDelivery, ...]:
        """Return up to `limit` deliveries; wait so many seconds for the first."""
        ...

    async def acknowledge(self, delivery: EventDelivery) -> None:
        """End a delivery; the event is not delivered again."""
        ...

    async def extend(self, delivery: EventDelivery) -> None:
        """Start the lease of a delivery again."""
        ...

    async def postpone(self, delivery: EventDelivery, *, seconds: float) -> None:
        """Deliver the event again, not before so many seconds, at most a lease."""
        ...

    async def backlog(self) -> int:
        """Return the number of unacknowledged events, delivered or not.

        A broker also counts events of other types that it has not skipped yet.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection; deliveries that were not acknowledged are repeated."""
        ...


class DeadLetter(NamedTuple):
    """An event that a subscription could not handle, and why.

    `key` is the same for every delivery of the event.
    """

    key: str
    body: bytes
    reason: str
    at: float


class DeadLetterPort(Protocol):
    """Stores the dead letters of subscriptions."""

    async def add_dead_letter(self, subscription: str, letter: DeadLetter) -> None:
        """Store a dead letter; one with the same key is replaced."""
        ...

    async def dead_letters(self, subscription: str, *, limit: int) -> Sequence[DeadLetter]:
        """Return dead letters, oldest first."""
        ...

    async def delete_dead_letter(self, subscription: str, key: str) -> bool:
        """Delete a dead letter; return False if there is none."""
        ...
