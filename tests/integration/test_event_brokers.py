"""Events over real brokers and between processes: crashes, outages and errors."""

import asyncio
import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import nats
import pytest
from event_agents import sales, shipping
from nats_server import NatsServer, shared_nats
from postgres_server import new_store_url
from valkey.asyncio import Valkey
from valkey_server import DurableValkey, new_valkey, shared_valkey

from acc import Runner
from acc.adapters.events.valkey import STREAM, ValkeyPublisher, ValkeySubscription
from acc.bootstrap.events import make_publisher, make_subscription
from acc.domain.errors import CarrierFailed, InvalidInput
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.events import open_relay, open_subscriber

PROGRAM = str(Path(__file__).parent / "event_agents.py")


async def publish(store: str, words: str) -> None:
    runner = Runner(sales, store=store, app_name="shop")
    await runner.run(words)
    await runner.services.aclose()


async def relay(store: str, target: str, name: str = "relay") -> int:
    async with open_relay(store, target, name=name) as started:
        return await started.run(until_idle=True)


async def handle(source: str, store: str) -> None:
    async with open_subscriber(
        shipping, events=["order.*"], source=source, store=store
    ) as subscriber:
        await subscriber.run(until_idle=True)


def orders(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


async def wait_for(order: str, ledger: Path) -> None:
    for _ in range(300):
        if order in orders(ledger):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{order} was not shipped")


@pytest.mark.parametrize("technology", ["sqlite", "postgres"])
async def test_run_of_a_process_that_died_is_resumed_for_the_same_event(
    technology: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "shop.db") if technology == "sqlite" else new_store_url()
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(ledger))
    await publish(store, "crash")
    died = subprocess.run(  # noqa: ASYNC221, S603 - nothing else runs
        [sys.executable, PROGRAM, store, store], env={**os.environ}, timeout=60, check=False
    )
    assert died.returncode == 9
    await asyncio.sleep(0.6)  # the lease of the delivery
    await handle(store, store)
    assert ledger.read_text().split() == ["crash"]
    runner = Runner(shipping, store=store, app_name="shipping")
    (session,) = await runner.services.sessions.sessions("shipping", "events")
    events = await runner.services.sessions.events(session.key)
    assert (session.turns, session.status) == (1, "completed"), events[-1].text
    events = await runner.services.sessions.events(session.key)
    assert [event.text for event in events if event.author == "shipping"].count("ships crash") == 1
    await runner.services.aclose()


@pytest.mark.parametrize("broker", ["nats", "valkey"])
async def test_relay_keeps_what_an_unavailable_broker_does_not_confirm(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ledger = str(tmp_path / "shop.db"), tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(ledger))
    await publish(store, "one 二")
    with pytest.raises(CarrierFailed) as error:
        await relay(store, f"{broker}://ann:s3cret-password@127.0.0.1:1")
    assert f"{broker}://127.0.0.1:1: the server cannot be reached" in str(error.value)
    assert "s3cret" not in str(error.value)
    url = shared_nats().url if broker == "nats" else shared_valkey()
    assert await relay(store, url) == 2
    assert await relay(store, url) == 0
    # A carrier that is wrong is noticed before there are events.
    with pytest.raises(CarrierFailed):
        await relay(store, f"{broker}://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="is not a directory"):
        await relay(store, str(tmp_path / "missing" / "events.db"))
    await handle(url, str(tmp_path / "shipping.db"))
    assert sorted(ledger.read_text().split()) == ["one", "二"]


@pytest.mark.parametrize("broker", ["nats", "valkey"])
async def test_relay_and_subscriber_continue_after_a_restart_of_the_broker(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ledger = str(tmp_path / "shop.db"), tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(ledger))
    server = NatsServer() if broker == "nats" else DurableValkey(tmp_path / "valkey")
    server.start()
    try:
        async with (
            open_relay(store, server.url) as started,
            open_subscriber(
                shipping, events=["order.*"], source=server.url, store=tmp_path / "shipping.db"
            ) as subscriber,
            asyncio.timeout(20),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(started.run())
            group.create_task(subscriber.run())
            await publish(store, "before")
            await wait_for("before", ledger)
            server.kill()
            await publish(store, "during")
            await asyncio.sleep(0.3)
            server.start()
            await wait_for("during", ledger)
            started.stop()
            subscriber.stop()
    finally:
        server.stop()
    assert sorted(ledger.read_text().split()) == ["before", "during"]


async def test_server_without_streams_and_wrong_password_are_explained(tmp_path: Path) -> None:
    store = str(tmp_path / "shop.db")
    await publish(store, "one")
    for server, user, text in (
        (NatsServer(has_streams=False), "", "start the server with -js"),
        (NatsServer("--user", "ann", "--pass", "right"), "ann:wr0ng-pass@", "credentials"),
    ):
        server.start()
        try:
            with pytest.raises(CarrierFailed, match=text) as error:
                await relay(store, f"nats://{user}127.0.0.1:{server.port}")
        finally:
            server.stop()
        assert "wr0ng" not in str(error.value)
    with new_valkey() as valkey:
        client = Valkey(port=valkey.port)
        await client.config_set("requirepass", "right-password")
        await client.aclose()
        with pytest.raises(CarrierFailed, match="credentials") as error:
            await relay(store, f"valkey://:wr0ng-pass@127.0.0.1:{valkey.port}")
        assert "wr0ng" not in str(error.value)


def order(number: int) -> CloudEvent:
    return CloudEvent(id=f"e{number}", source="/shop", type="order.created", data="x" * 2_000)


async def test_event_that_valkey_could_not_store_is_stored_when_it_is_sent_again() -> None:
    with new_valkey() as server:
        client = Valkey(port=server.port)
        await client.set(STREAM, "not a stream")
        url = f"valkey://127.0.0.1:{server.port}"
        publisher = make_publisher(url)
        with pytest.raises(CarrierFailed, match="WRONGTYPE"):
            await publisher.publish(order(1))
        await client.delete(STREAM)
        await publisher.publish(order(1))
        await publisher.publish(order(1))
        subscription = make_subscription(url, name="shipping", events=["*"])
        assert len(await subscription.receive(limit=5, wait=1.0)) == 1
        await client.aclose()
        await publisher.aclose()
        await subscription.aclose()


async def test_subscription_continues_after_its_stream_was_deleted() -> None:
    with new_valkey() as server:
        url = f"valkey://127.0.0.1:{server.port}"
        publisher = make_publisher(url)
        subscription = make_subscription(url, name="shipping", events=["*"])
        await publisher.publish(order(1))
        assert len(await subscription.receive(limit=5, wait=1.0)) == 1
        client = Valkey(port=server.port)
        await client.delete(STREAM)
        await publisher.publish(order(2))
        assert await subscription.backlog() == 1
        assert len(await subscription.receive(limit=5, wait=1.0)) == 1
        await client.aclose()
        await publisher.aclose()
        await subscription.aclose()


async def test_delivery_that_a_slow_process_acknowledges_while_it_is_claimed_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with new_valkey() as server:
        url = f"valkey://127.0.0.1:{server.port}"
        publisher = ValkeyPublisher(url)
        slow, other = (
            ValkeySubscription(url, name="shipping", types=["*"], lease=0.1) for _ in range(2)
        )
        await publisher.publish(order(1))
        (delivery,) = await slow.receive(limit=1, wait=1.0)
        await asyncio.sleep(0.2)
        count_deliveries = other._server.client.xpending_range

        async def acknowledge_first(*arguments: object, **options: object) -> object:
            await slow.acknowledge(delivery)
            return await count_deliveries(*arguments, **options)

        monkeypatch.setattr(other._server.client, "xpending_range", acknowledge_first)
        assert await other.receive(limit=1, wait=0.0) == ()
        for opened in (publisher, slow, other):
            await opened.aclose()


async def test_server_that_forgets_events_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    durable = DurableValkey(tmp_path)
    durable.start()
    with new_valkey() as server, caplog.at_level(logging.WARNING, "acc.run"):
        for url in (durable.url, f"valkey://:@127.0.0.1:{server.port}"):
            publisher = make_publisher(url)
            await publisher.publish(order(1))
            await publisher.publish(order(2))
            await publisher.aclose()
        assert [record.getMessage() for record in caplog.records] == [
            f"valkey://127.0.0.1:{server.port}: the server does not write each event to its disk, "
            "so events are lost if it is killed; set appendonly to yes"
        ]
    durable.stop()


async def test_stream_of_nats_that_was_deleted_is_created_again() -> None:
    server = NatsServer()
    server.start()
    try:
        publisher = make_publisher(server.url)
        subscription = make_subscription(server.url, name="shipping", events=["*"])
        await publisher.publish(order(1))
        assert len(await subscription.receive(limit=5, wait=1.0)) == 1
        client = await nats.connect(server.url)
        await client.jetstream().delete_stream("ACC_EVENTS")
        with pytest.raises(CarrierFailed, match="no stream stores the event"):
            await publisher.publish(order(2))
        await publisher.publish(order(2))
        found: list[str] = []
        async with asyncio.timeout(10):
            while not found:
                with suppress(CarrierFailed):
                    received = await subscription.receive(limit=5, wait=1.0)
                    found += [delivery.token for delivery in received]
        await client.close()
        await publisher.aclose()
        await subscription.aclose()
    finally:
        server.stop()


async def test_server_with_too_small_messages_is_explained(tmp_path: Path) -> None:
    settings = tmp_path / "nats.conf"
    settings.write_text("max_payload: 1024\n")
    server = NatsServer("-c", str(settings))
    server.start()
    try:
        publisher = make_publisher(server.url)
        with pytest.raises(CarrierFailed, match="set its max_payload to 128KB or more"):
            await publisher.publish(order(1))
        await publisher.aclose()
    finally:
        server.stop()
