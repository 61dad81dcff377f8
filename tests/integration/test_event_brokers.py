"""Events over real brokers and between processes: crashes, outages and errors."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from event_agents import sales, shipping
from nats_server import NatsServer, shared_nats
from postgres_server import new_store_url
from valkey.asyncio import Valkey
from valkey_server import new_valkey, shared_valkey

from acc import Runner
from acc.domain.errors import CarrierFailed
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
    await handle(url, str(tmp_path / "shipping.db"))
    assert sorted(ledger.read_text().split()) == ["one", "二"]


async def test_relay_and_subscriber_continue_after_a_restart_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ledger = str(tmp_path / "shop.db"), tmp_path / "ledger"
    monkeypatch.setenv("LEDGER", str(ledger))
    server = NatsServer()
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
