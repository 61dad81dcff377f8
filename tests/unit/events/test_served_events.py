"""Servers that send the events of their agents to a carrier."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from acc import BaseAgent, InvalidInput, RunContext
from acc.a2a import A2AServer, create_app
from acc.application.events.cloud_events import decode_cloud_event
from acc.application.events.relay import EventRelay
from acc.bootstrap.events import make_subscription
from acc.cli import execute

AGENT = str(Path(__file__).parents[2] / "integration" / "event_agents.py") + ":sales"


class Sales(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        ctx.publish("order.created", {"item": ctx.message})
        return "ordered"


def make_app(store: str, target: str) -> A2AServer:
    return create_app(Sales(name="sales", description="Sells."), store=store, events_to=target)


async def order(app: A2AServer, item: str) -> None:
    message = {"messageId": item, "role": "ROLE_USER", "parts": [{"text": item}]}
    headers = {"A2A-Version": "1.0"}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        response = await http.post("/message:send", json={"message": message}, headers=headers)
        assert response.status_code == 200


async def received(target: str, count: int) -> list[object]:
    """Return the items of events that arrive at a carrier."""
    subscription = make_subscription(target, name="test", events=["order.*"])
    items: list[object] = []
    try:
        for _ in range(20):
            for delivery in await subscription.receive(limit=10, wait=1.0):
                items.append(decode_cloud_event(delivery.body).payload["item"])
                await subscription.acknowledge(delivery)
            if len(items) >= count:
                break
    finally:
        await subscription.aclose()
    return items


@pytest.mark.parametrize("store", ["memory", "shop.db"])
async def test_events_of_a_served_agent_arrive_at_the_carrier(store: str, tmp_path: Path) -> None:
    source = store if store == "memory" else str(tmp_path / store)
    target = str(tmp_path / "other.db")
    app = make_app(source, target)
    async with app.lifespan():
        await order(app, "箱")
        assert await received(target, 1) == ["箱"]


async def test_events_of_the_last_run_are_sent_when_the_server_stops(tmp_path: Path) -> None:
    target = str(tmp_path / "other.db")
    app = make_app(str(tmp_path / "shop.db"), target)
    async with app.lifespan():
        await order(app, "box")
    assert await received(target, 1) == ["box"]


async def test_events_stay_in_the_store_while_the_carrier_is_unavailable(tmp_path: Path) -> None:
    store, target = str(tmp_path / "shop.db"), str(tmp_path / "other.db")
    app = make_app(store, "valkey://127.0.0.1:1")
    async with app.lifespan():
        await order(app, "box")
    app = make_app(store, target)
    async with app.lifespan():
        assert await received(target, 1) == ["box"]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("kafka://broker:9092", "cannot be carried by 'kafka'"),
        ("memory", "cannot be sent to memory"),
        ("shop.db", "already"),
    ],
)
def test_carrier_that_cannot_be_used_is_refused(
    target: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "shop.db")
    place = store if target == "shop.db" else target
    with pytest.raises(InvalidInput, match=text):
        make_app(store, place)
    command = ["serve", AGENT, "--store", store, "--events-to", place, "--allow-embedded"]
    assert execute([*command, "--port", "0"]) == 2
    assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "target",
    ["nats://127.0.0.1:99999", "nats://ann:geheim@", "valkey://:6379", "nats://h:4222,nats://h:x"],
)
def test_impossible_url_of_a_broker_is_rejected_at_the_start(tmp_path: Path, target: str) -> None:
    with pytest.raises(InvalidInput, match="names no host, or no port") as caught:
        make_app(str(tmp_path / "sales.db"), target)
    assert "geheim" not in str(caught.value)


async def test_unexpected_failure_of_a_relay_is_logged_and_repeated(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Source:
        calls = 0

        async def check(self) -> None:
            return

        async def receive(self, *, limit: int, wait: float) -> list[object]:
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError("broken client")
            relay.stop()
            return []

    source: Any = Source()
    relay = EventRelay(source, source)
    assert await relay.run() == 0
    assert source.calls == 2
    assert "broken client" in caplog.text


@pytest.mark.parametrize("name", ["missing/events.db", "text.db", "folder"])
def test_store_that_can_never_be_opened_is_rejected_at_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.db").write_text("no database, only a text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match="events cannot be sent to"):
        make_app(str(tmp_path / "sales.db"), str(tmp_path / name))
