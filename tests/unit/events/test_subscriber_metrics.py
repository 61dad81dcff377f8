"""Metrics of a subscription: backlog, deliveries in flight, outcomes."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NoOpTracerProvider

from acc import FunctionAgent, Runner, disable_tracing, enable_tracing
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.events import make_publisher, open_subscriber

Read = Callable[[], dict[str, float]]


@pytest.fixture
def read_metrics() -> Iterator[Read]:
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    enable_tracing(tracer_provider=NoOpTracerProvider(), meter_provider=meters)

    def read() -> dict[str, float]:
        data = reader.get_metrics_data()
        assert data is not None
        points: dict[str, Any] = {
            metric.name: metric.data.data_points
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
        }
        return {
            "/".join([name, *map(str, (point.attributes or {}).values())]): point.value
            for name, found in points.items()
            if name.startswith("acc.event.")
            for point in found
        }

    yield read
    disable_tracing()
    meters.shutdown()


async def test_backlog_and_outcomes_are_metrics(read_metrics: Read, tmp_path: Path) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    async def ship(message: str) -> str:
        started.set()
        await may_end.wait()
        if '"number":3' in message.replace(" ", ""):
            raise RuntimeError("no stock")
        return "shipped"

    runner = Runner(FunctionAgent(name="shipping", function=ship), store=tmp_path / "shop.db")
    publisher = make_publisher(runner)
    async with open_subscriber(
        runner, events=["order.*"], source=runner, concurrency=1
    ) as subscriber:
        for number in (1, 2, 3):
            await publisher.publish(
                CloudEvent(
                    id=str(number), source="/shop", type="order.created", data={"number": number}
                )
            )
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            handling = group.create_task(subscriber.run(until_idle=True))
            await started.wait()
            found = read_metrics()
            while not found["acc.event.backlog"]:
                await asyncio.sleep(0.01)
                found = read_metrics()
            may_end.set()
            assert await handling == 1
    assert found["acc.event.backlog"] == 3
    assert found["acc.event.in_flight"] == 1
    after = read_metrics()
    assert after["acc.event.deliveries/completed"] == 2
    assert after["acc.event.deliveries/dead_letter"] == 1
    await runner.aclose()
