"""The suite that every carrier of events passes."""

import asyncio

import msgspec
import pytest
from event_carrier_factories import LEASE, CarrierUnderTest, carrier

from acc.domain.errors import InvalidInput
from acc.ports.outbound.event_ports import EventDelivery, EventSubscriptionPort

__all__ = ["carrier"]
WAIT = 3.0


async def receive(subscription: EventSubscriptionPort, count: int) -> list[EventDelivery]:
    """Return so many deliveries, fewer if they do not arrive in time."""
    found: list[EventDelivery] = []
    while len(found) < count:
        more = await subscription.receive(limit=count - len(found), wait=WAIT)
        if not more:
            break
        found += more
    return found


async def nothing_more(subscription: EventSubscriptionPort) -> bool:
    return await subscription.receive(limit=5, wait=LEASE * 1.5) == ()


def numbers(deliveries: list[EventDelivery]) -> list[int]:
    return sorted(msgspec.json.decode(one.body)["data"]["number"] for one in deliveries)


async def test_event_is_delivered_until_it_is_acknowledged(carrier: CarrierUnderTest) -> None:
    subscription = carrier.subscribe()
    await carrier.publish(carrier.event(1))
    (delivery,) = await receive(subscription, 1)
    assert delivery.attempts == 1
    document = msgspec.json.decode(delivery.body)
    assert document == {
        "specversion": "1.0",
        "id": f"{carrier.prefix}-1",
        "source": "/apps/shop/agents/sales",
        "type": f"{carrier.prefix}.order.created",
        "data": {"number": 1},
    }
    await subscription.acknowledge(delivery)
    assert await nothing_more(subscription)


async def test_event_published_twice_is_delivered_once(carrier: CarrierUnderTest) -> None:
    subscription = carrier.subscribe()
    await carrier.publish(carrier.event(1), carrier.event(1), carrier.event(2))
    deliveries = await receive(subscription, 2)
    assert numbers(deliveries) == [1, 2]
    for delivery in deliveries:
        await subscription.acknowledge(delivery)
    assert await nothing_more(subscription)


async def test_events_of_a_downtime_are_delivered_afterwards(carrier: CarrierUnderTest) -> None:
    await carrier.publish(carrier.event(1))
    before = carrier.subscribe()
    (delivery,) = await receive(before, 1)
    await before.acknowledge(delivery)
    await before.aclose()
    await carrier.publish(carrier.event(2), carrier.event(3))
    assert numbers(await receive(carrier.subscribe(), 2)) == [2, 3]


async def test_delivery_is_repeated_when_the_receiver_crashes_before_the_acknowledgement(
    carrier: CarrierUnderTest,
) -> None:
    await carrier.publish(carrier.event(1))
    crashed = carrier.subscribe()
    (first,) = await receive(crashed, 1)
    await crashed.aclose()
    other = carrier.subscribe()
    (second,) = await receive(other, 1)
    assert (second.body, second.token, second.attempts) == (first.body, first.token, 2)
    await other.acknowledge(second)
    assert await nothing_more(other)


async def test_postponed_event_is_delivered_after_later_ones(carrier: CarrierUnderTest) -> None:
    subscription = carrier.subscribe(lease=5.0)
    await carrier.publish(carrier.event(1), carrier.event(2))
    (first,) = await receive(subscription, 1)
    await subscription.postpone(first, seconds=0.3)
    order = []
    for _ in range(2):
        (delivery,) = await receive(subscription, 1)
        await subscription.acknowledge(delivery)
        order += numbers([delivery])
    assert order == [2, 1]


async def test_processes_that_share_a_subscription_get_different_events(
    carrier: CarrierUnderTest,
) -> None:
    one, two = carrier.subscribe(lease=10.0), carrier.subscribe(lease=10.0)
    await carrier.publish(*[carrier.event(number) for number in range(6)])
    first, second = await receive(one, 3), await receive(two, 3)
    assert numbers(first + second) == [0, 1, 2, 3, 4, 5]


async def test_every_subscription_gets_every_event(carrier: CarrierUnderTest) -> None:
    await carrier.publish(carrier.event(1), carrier.event(2))
    for name in ("shipping", "billing"):
        assert numbers(await receive(carrier.subscribe(name, lease=10.0), 2)) == [1, 2]


async def test_receiver_gets_no_more_events_than_it_asks_for(carrier: CarrierUnderTest) -> None:
    busy, idle = carrier.subscribe(lease=10.0), carrier.subscribe(lease=10.0)
    await carrier.publish(*[carrier.event(number) for number in range(5)])
    first = await busy.receive(limit=2, wait=WAIT)
    assert len(first) <= 2
    rest = await receive(idle, 5 - len(first))
    assert numbers([*first, *rest]) == [0, 1, 2, 3, 4]


async def test_slow_receiver_keeps_a_delivery_by_extending_its_lease(
    carrier: CarrierUnderTest,
) -> None:
    slow, other = carrier.subscribe(), carrier.subscribe()
    await carrier.publish(carrier.event(1))
    (delivery,) = await receive(slow, 1)
    for _ in range(4):
        await asyncio.sleep(LEASE / 2)
        await slow.extend(delivery)
    assert await other.receive(limit=1, wait=0.0) == ()
    await slow.acknowledge(delivery)
    assert await nothing_more(other)


async def test_only_matching_types_are_delivered(carrier: CarrierUnderTest) -> None:
    subscription = carrier.subscribe(events=("order.*", "paid"), lease=10.0)
    types = ["order.created", "invoice.sent", "order.item.added", "paid", "paid.late"]
    await carrier.publish(*[carrier.event(n, event_type) for n, event_type in enumerate(types)])
    assert numbers(await receive(subscription, 3)) == [0, 2, 3]
    assert await subscription.receive(limit=1, wait=0.3) == ()


async def test_japanese_types_and_payloads_are_carried_unchanged(carrier: CarrierUnderTest) -> None:
    subscription = carrier.subscribe(events=("注文.*",), lease=10.0)
    await carrier.publish(carrier.event(1, "注文.作成", data={"number": 1, "商品": "緑茶"}))
    (delivery,) = await receive(subscription, 1)
    assert msgspec.json.decode(delivery.body)["data"] == {"number": 1, "商品": "緑茶"}


async def test_oversized_event_is_refused_and_not_delivered(carrier: CarrierUnderTest) -> None:
    subscription = carrier.subscribe()
    with pytest.raises(InvalidInput, match="65,536"):
        await carrier.publish(carrier.event(1, data={"text": "x" * 70_000}))
    await carrier.publish(carrier.event(2))
    assert numbers(await receive(subscription, 1)) == [2]


async def test_backlog_counts_events_until_they_are_acknowledged(
    carrier: CarrierUnderTest,
) -> None:
    subscription = carrier.subscribe(lease=10.0)
    assert await receive(subscription, 1) == []  # passes over the events of other tests
    assert await subscription.backlog() == 0
    await carrier.publish(carrier.event(1), carrier.event(2))
    assert await subscription.backlog() == 2
    (first,) = await receive(subscription, 1)
    assert await subscription.backlog() == 2
    await subscription.acknowledge(first)
    assert await subscription.backlog() == 1
    assert await carrier.subscribe("billing").backlog() >= 2
