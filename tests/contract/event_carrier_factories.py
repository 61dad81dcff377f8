"""Carriers of events for the contract suites, and events to publish."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from nats_server import shared_nats
from postgres_server import new_store_url
from valkey_server import shared_valkey

from acc import FunctionAgent, Runner
from acc.bootstrap.events import Carrier, make_publisher, make_subscription
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.ports.outbound.event_ports import EventPublisherPort, EventSubscriptionPort

LEASE = 0.4


def _answer(message: str) -> str:
    return "done"


MAKERS: dict[str, Callable[[Path], Carrier]] = {
    "in_process": lambda _: Runner(FunctionAgent(name="idle", function=_answer)),
    "nats": lambda _: shared_nats().url,
    "postgres": lambda _: new_store_url(),
    "sqlite": lambda folder: folder / "events.db",
    "valkey": lambda _: shared_valkey(),
}


class CarrierUnderTest:
    """A carrier with events of its own: servers are shared by the tests of a process."""

    def __init__(self, carrier: Carrier) -> None:
        self.carrier = carrier
        self.prefix = f"t{uuid4().hex[:12]}"
        self._publisher: EventPublisherPort | None = None
        self._open: list[EventSubscriptionPort] = []

    def event(self, number: int, event_type: str = "order.created", **fields: object) -> CloudEvent:
        values = {
            "id": f"{self.prefix}-{number}",
            "source": "/apps/shop/agents/sales",
            "type": f"{self.prefix}.{event_type}",
            "data": {"number": number},
        }
        return CloudEvent(**{**values, **fields})  # type: ignore[arg-type]

    async def publish(self, *events: CloudEvent) -> None:
        if self._publisher is None:
            self._publisher = make_publisher(self.carrier)
        for event in events:
            await self._publisher.publish(event)

    def subscribe(
        self, name: str = "shipping", *, events: Sequence[str] = ("*",), lease: float = LEASE
    ) -> EventSubscriptionPort:
        subscription = make_subscription(
            self.carrier,
            name=f"{self.prefix}-{name}",
            events=[f"{self.prefix}.{pattern}" for pattern in events],
            lease=lease,
        )
        self._open.append(subscription)
        return subscription

    async def aclose(self) -> None:
        for subscription in self._open:
            await subscription.aclose()
        if self._publisher is not None:
            await self._publisher.aclose()


@pytest.fixture(params=sorted(MAKERS))
async def carrier(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[CarrierUnderTest]:
    created = CarrierUnderTest(MAKERS[request.param](tmp_path))
    yield created
    await created.aclose()
