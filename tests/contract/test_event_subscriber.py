"""An agent starts once per event, whichever carrier delivers it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_support import Does
from event_carrier_factories import CarrierUnderTest, carrier

from acc import Agent, RunContext, Runner, ToolContext, tool
from acc.application.events.subscriber import MAX_ATTEMPTS
from acc.domain.errors import CarrierFailed
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.events import (
    EventOutcome,
    EventSubscriber,
    HandledEvent,
    encode_cloud_event,
    event_of,
)
from acc.ports.outbound.event_ports import EventDelivery, EventSubscriptionPort
from acc.testing import ScriptedModel, call

__all__ = ["carrier"]


class Log:
    """What became of deliveries."""

    def __init__(self) -> None:
        self.handled: list[HandledEvent] = []

    def on_handled(self, handled: HandledEvent) -> None:
        self.handled.append(handled)

    @property
    def outcomes(self) -> list[EventOutcome]:
        return [one.outcome for one in self.handled]


class LosesAcknowledgements:
    """A connection that breaks before acknowledgements arrive."""

    def __init__(self, inner: EventSubscriptionPort) -> None:
        self._inner = inner
        self.receive = inner.receive
        self.extend = inner.extend
        self.postpone = inner.postpone
        self.backlog = inner.backlog
        self.aclose = inner.aclose

    async def acknowledge(self, delivery: EventDelivery) -> None:
        raise CarrierFailed("the connection is lost")


class Shipping:
    """An agent that counts its effects in a runner with a store on disk."""

    def __init__(self, folder: Path) -> None:
        self.effects: list[int] = []
        self.running = self.most_running = 0
        self.fails = False
        self.seconds = 0.0
        self.runner = Runner(Does(name="shipping", do=self._ship), store=folder / "shipping.db")

    async def _ship(self, ctx: RunContext) -> str:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        number = event_of(ctx).payload["number"]
        self.effects.append(number)
        if self.fails:
            raise RuntimeError("no stock")
        return f"shipped {number} for {ctx.call.request_id} in {ctx.call.trace_id}"

    def subscriber(
        self, subscription: EventSubscriptionPort, *, lease: float = 5.0, concurrency: int = 4
    ) -> EventSubscriber:
        letters = self.runner.services.sessions.event_log()  # type: ignore[attr-defined]
        return EventSubscriber(
            self.runner,
            subscription,
            letters,
            name="shipping",
            lease=lease,
            concurrency=concurrency,
        )


@pytest.fixture
async def shipping(tmp_path: Path) -> AsyncIterator[Shipping]:
    created = Shipping(tmp_path)
    yield created
    await created.runner.services.aclose()


async def run_until(subscriber: EventSubscriber, log: Log, count: int) -> None:
    """Handle events until there are so many outcomes."""
    async with asyncio.timeout(30):
        while len(log.handled) < count:
            await subscriber.run(until_idle=True, observer=log)


async def test_agent_runs_once_for_every_event_and_continues_its_trace(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await carrier.publish(carrier.event(1, traceparent=parent), carrier.event(2))
    log = Log()
    await run_until(shipping.subscriber(carrier.subscribe(lease=5.0)), log, 2)
    assert sorted(shipping.effects) == [1, 2]
    assert log.outcomes == [EventOutcome.COMPLETED] * 2
    assert {one.text for one in log.handled} == {
        f"shipped 1 for {carrier.prefix}-1 in 4bf92f3577b34da6a3ce929d0e0e4736",
        f"shipped 2 for {carrier.prefix}-2 in {carrier.prefix}-2",
    }


async def test_agent_does_not_run_again_after_a_crash_before_the_acknowledgement(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    await carrier.publish(carrier.event(1))
    first = carrier.subscribe()
    (delivery,) = await first.receive(limit=1, wait=3.0)
    with pytest.raises(CarrierFailed):
        await shipping.subscriber(LosesAcknowledgements(first)).handle(delivery)
    assert shipping.effects == [1]
    log = Log()
    await run_until(shipping.subscriber(carrier.subscribe()), log, 1)
    assert log.outcomes == [EventOutcome.REPEATED]
    assert shipping.effects == [1]


async def test_no_more_events_are_in_progress_than_allowed(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    shipping.seconds = 0.05
    await carrier.publish(*[carrier.event(number) for number in range(6)])
    subscriber = shipping.subscriber(carrier.subscribe(lease=5.0), concurrency=2)
    await run_until(subscriber, Log(), 6)
    assert sorted(shipping.effects) == [0, 1, 2, 3, 4, 5]
    assert shipping.most_running == 2


async def test_run_that_takes_longer_than_the_lease_is_not_repeated(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    shipping.seconds = 1.2
    await carrier.publish(carrier.event(1))
    log = Log()
    await run_until(shipping.subscriber(carrier.subscribe(), lease=0.8), log, 1)
    assert log.outcomes == [EventOutcome.COMPLETED]
    assert await carrier.subscribe().receive(limit=1, wait=1.0) == ()


async def test_failed_run_becomes_a_dead_letter_that_can_be_replayed(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    shipping.fails = True
    await carrier.publish(carrier.event(1))
    subscription = carrier.subscribe()
    subscriber, log = shipping.subscriber(subscription), Log()
    await run_until(subscriber, log, 1)
    assert log.outcomes == [EventOutcome.DEAD_LETTER]
    assert await subscription.receive(limit=1, wait=0.6) == ()
    (letter,) = await subscriber.dead_letters()
    assert "no stock" in letter.reason
    assert (await subscriber.replay(letter)).outcome is EventOutcome.DEAD_LETTER
    shipping.fails = False
    (letter,) = await subscriber.dead_letters()
    assert (await subscriber.replay(letter)).outcome is EventOutcome.COMPLETED
    assert await subscriber.dead_letters() == ()
    assert shipping.effects == [1, 1, 1]


async def test_duplicates_with_another_delivery_start_nothing(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    await carrier.publish(carrier.event(1))
    subscription = carrier.subscribe(lease=5.0)
    (delivery,) = await subscription.receive(limit=1, wait=3.0)
    subscriber = shipping.subscriber(subscription)
    shipping.seconds = 0.1
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(subscriber.handle(delivery)) for _ in range(3)]
    outcomes = sorted(task.result().outcome for task in tasks)
    assert outcomes == [EventOutcome.COMPLETED, EventOutcome.REPEATED, EventOutcome.REPEATED]
    assert shipping.effects == [1]


async def test_invalid_event_becomes_a_dead_letter(shipping: Shipping) -> None:
    subscriber = shipping.subscriber(_NoCarrier())
    handled = await subscriber.handle(EventDelivery("7", b"not an event", 1))
    assert handled.outcome is EventOutcome.DEAD_LETTER
    (letter,) = await subscriber.dead_letters()
    assert letter[:2] == ("invalid-7", b"not an event")
    assert shipping.effects == []


async def test_event_whose_run_never_ends_becomes_a_dead_letter_without_another_run(
    shipping: Shipping,
) -> None:
    event = CloudEvent(id="1", source="/shop", type="order.created", data={"number": 1})
    delivery = EventDelivery("7", encode_cloud_event(event), MAX_ATTEMPTS + 1)
    subscriber = shipping.subscriber(_NoCarrier())
    assert (await subscriber.handle(delivery)).outcome is EventOutcome.DEAD_LETTER
    assert shipping.effects == []
    (letter,) = await subscriber.dead_letters()
    assert f"did not end in {MAX_ATTEMPTS} deliveries" in letter.reason
    assert (await subscriber.replay(letter)).outcome is EventOutcome.COMPLETED
    assert shipping.effects == [1]
    assert (await subscriber.handle(delivery)).outcome is EventOutcome.REPEATED


async def test_unexpected_error_of_one_event_does_not_end_the_runs_of_others(
    carrier: CarrierUnderTest, shipping: Shipping, caplog: pytest.LogCaptureFixture
) -> None:
    await carrier.publish(carrier.event(1), carrier.event(2))
    subscriber, log = shipping.subscriber(carrier.subscribe(lease=5.0)), _FailingOnce()
    await run_until(subscriber, log, 1)
    assert sorted(shipping.effects) == [1, 2]
    assert "an event could not be handled" in caplog.text


async def test_tool_reads_the_event(carrier: CarrierUnderTest, tmp_path: Path) -> None:
    @tool
    def ship(ctx: ToolContext) -> str:
        """Ship what the event names."""
        return f"shipped {event_of(ctx).payload['number']}"

    agent = Agent(name="packing", model=ScriptedModel(call("ship"), "done"), tools=[ship])
    runner = Runner(agent, app_name="packing", store=tmp_path / "packing.db")
    letters = runner.services.sessions.event_log()  # type: ignore[attr-defined]
    await carrier.publish(carrier.event(7))
    subscriber, log = EventSubscriber(runner, carrier.subscribe(), letters, name="packing"), Log()
    await run_until(subscriber, log, 1)
    (session,) = await runner.services.sessions.sessions("packing", "events")
    events = await runner.services.sessions.events(session.key)
    assert [one.result.content for one in events if one.result] == ["shipped 7"]
    await runner.services.aclose()


async def test_run_until_idle_reports_an_unreachable_carrier(shipping: Shipping) -> None:
    with pytest.raises(CarrierFailed):
        await shipping.subscriber(_UnreachableCarrier()).run(until_idle=True)


async def test_run_returns_how_many_deliveries_failed(
    carrier: CarrierUnderTest, shipping: Shipping
) -> None:
    shipping.fails = True
    await carrier.publish(carrier.event(1), carrier.event(2))
    subscriber, log, failed = shipping.subscriber(carrier.subscribe(lease=5.0)), Log(), 0
    async with asyncio.timeout(10):
        while len(log.handled) < 2:
            failed += await subscriber.run(until_idle=True, observer=log)
    assert failed == 2


class _FailingOnce(Log):
    """An observer whose first call has a defect."""

    def __init__(self) -> None:
        super().__init__()
        self._has_failed = False

    def on_handled(self, handled: HandledEvent) -> None:
        if not self._has_failed:
            self._has_failed = True
            raise ZeroDivisionError
        super().on_handled(handled)


class _NoCarrier:
    """A carrier with nothing to deliver."""

    async def receive(self, *, limit: int, wait: float) -> tuple[EventDelivery, ...]:
        return ()

    async def acknowledge(self, delivery: EventDelivery) -> None: ...

    async def extend(self, delivery: EventDelivery) -> None: ...

    async def postpone(self, delivery: EventDelivery, *, seconds: float) -> None: ...

    async def backlog(self) -> int:
        return 0

    async def aclose(self) -> None: ...


class _UnreachableCarrier(_NoCarrier):
    """A carrier whose server does not respond."""

    async def receive(self, *, limit: int, wait: float) -> tuple[EventDelivery, ...]:
        raise CarrierFailed("the broker cannot be reached")
