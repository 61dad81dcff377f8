"""Events whose subscriber is killed: one effect, or a dead letter that a person sees."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from event_agents import packing, sales
from postgres_server import new_store_url

from acc import Runner
from acc.events import (
    DeadLetter,
    EventOutcome,
    EventSubscriber,
    decode_cloud_event,
    make_subscription,
    open_subscriber,
)

PROGRAM = str(Path(__file__).parent / "event_agents.py")
#: The delivery of the killed process has a lease of 0.5 seconds.
AFTER_LEASE_SECONDS = 0.6
KILLS = 4
ORDERS_PER_KILL = 10


class Shop:
    """A store with one order, and a ledger of what was packed."""

    def __init__(self, store: str, ledger: Path) -> None:
        self.store = store
        self.ledger = ledger

    @property
    def packed(self) -> list[str]:
        return self.ledger.read_text().split() if self.ledger.exists() else []

    async def order(self, words: str) -> None:
        runner = Runner(sales, store=self.store, app_name="shop")
        await runner.run(words)
        await runner.services.aclose()

    async def kill_after(self, count: int) -> None:
        """Handle orders in a process that is killed when so many are packed."""
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - our arguments
            [sys.executable, PROGRAM, self.store, self.store, "packing"], env={**os.environ}
        )
        try:
            for _ in range(20_000):
                if len(self.packed) >= count:
                    return
                await asyncio.sleep(0.003)
            raise AssertionError(f"{count} orders were not packed")
        finally:
            process.kill()
            process.wait()

    async def die(self, place: str) -> None:
        """Handle the order in a process that dies at a place."""
        died = subprocess.run(  # noqa: ASYNC221, S603 - nothing else runs
            [sys.executable, PROGRAM, self.store, self.store, "packing"],
            env={**os.environ, "CRASH": place},
            timeout=60,
            check=False,
        )
        assert died.returncode == 9
        await asyncio.sleep(AFTER_LEASE_SECONDS)

    @asynccontextmanager
    async def subscriber(self) -> AsyncIterator[EventSubscriber]:
        async with open_subscriber(packing, events=["order.*"], source=self.store) as subscriber:
            yield subscriber


@pytest.fixture(params=["postgres", "sqlite"])
async def shop(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    store = str(tmp_path / "shop.db") if request.param == "sqlite" else new_store_url()
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger"))
    shop = Shop(store, tmp_path / "ledger")
    await shop.order("tea")
    return shop


async def only_letter(subscriber: EventSubscriber) -> DeadLetter:
    (letter,) = await subscriber.dead_letters()
    assert "the outcome of pack is unknown" in letter.reason
    return letter


async def test_run_that_died_before_a_tool_call_is_continued_without_a_person(shop: Shop) -> None:
    await shop.die("model")
    async with shop.subscriber() as subscriber:
        assert await subscriber.run(until_idle=True) == 0
        assert await subscriber.dead_letters() == ()
    assert shop.packed == ["tea"]


async def test_tool_call_without_effect_becomes_a_dead_letter_and_is_replayed_once(
    shop: Shop,
) -> None:
    await shop.die("before the effect")
    async with shop.subscriber() as subscriber:
        assert await subscriber.run(until_idle=True) == 1
        letter = await only_letter(subscriber)
        assert shop.packed == []
        async with asyncio.TaskGroup() as group:  # two people at the same time
            replays = [group.create_task(subscriber.replay(letter)) for _ in range(2)]
        assert EventOutcome.COMPLETED in [replay.result().outcome for replay in replays]
        assert (await subscriber.replay(letter)).outcome is EventOutcome.REPEATED
        assert await subscriber.dead_letters() == ()
    assert shop.packed == ["tea"]


async def test_tool_call_with_effect_becomes_a_dead_letter_that_can_be_discarded(
    shop: Shop,
) -> None:
    await shop.die("after the effect")
    async with shop.subscriber() as subscriber:
        assert await subscriber.run(until_idle=True) == 1
        assert await subscriber.discard(await only_letter(subscriber))
        assert await subscriber.dead_letters() == ()
        assert await subscriber.run(until_idle=True) == 0
    assert shop.packed == ["tea"]


async def test_dead_letter_is_stored_if_the_process_dies_between_the_run_and_the_letter(
    shop: Shop,
) -> None:
    await shop.die("before the effect")
    runner = Runner(packing, store=shop.store, app_name="packing")
    (session,) = await runner.services.sessions.sessions("packing", "events")
    await runner.resume(user_id="events", session_id=session.session_id)
    await runner.services.aclose()
    async with shop.subscriber() as subscriber:
        assert await subscriber.run(until_idle=True) == 1
        await only_letter(subscriber)


async def test_replay_that_died_is_resumed_by_the_next_replay(shop: Shop) -> None:
    await shop.die("before the effect")
    async with shop.subscriber() as subscriber:
        assert await subscriber.run(until_idle=True) == 1
        await only_letter(subscriber)
    replay = "import asyncio, event_agents; asyncio.run(event_agents.replay_all())"
    died = subprocess.run(  # noqa: ASYNC221, S603 - nothing else runs
        [sys.executable, "-c", replay],
        cwd=Path(__file__).parent,
        env={**os.environ, "CRASH": "after the effect", "STORE": shop.store},
        timeout=60,
        check=False,
    )
    assert (died.returncode, shop.packed) == (9, ["tea"])
    async with shop.subscriber() as subscriber:
        handled = await subscriber.replay(await only_letter(subscriber))
        assert handled.outcome is EventOutcome.DEAD_LETTER  # packed, but that was not recorded
        assert await subscriber.discard(await only_letter(subscriber))
    assert shop.packed == ["tea"]


async def test_every_event_has_one_effect_or_a_dead_letter_after_kills(shop: Shop) -> None:
    orders = [f"order-{number}" for number in range((KILLS + 1) * ORDERS_PER_KILL)]
    await shop.order(" ".join(orders))
    for number in range(KILLS):
        await shop.kill_after((number + 1) * ORDERS_PER_KILL)
    subscription = make_subscription(shop.store, name="packing", events=["order.*"])
    async with shop.subscriber() as subscriber, asyncio.timeout(60):
        while await subscription.backlog():
            await subscriber.run(until_idle=True)
            await asyncio.sleep(0.1)
        letters = {
            decode_cloud_event(letter.body).payload["order"]: letter
            for letter in await subscriber.dead_letters()
        }
        assert len(shop.packed) == len(set(shop.packed))
        assert set(shop.packed) | set(letters) == {"tea", *orders}
        for order, letter in letters.items():
            if order in shop.packed:
                await subscriber.discard(letter)
            else:
                assert (await subscriber.replay(letter)).outcome is EventOutcome.COMPLETED
        assert await subscriber.dead_letters() == ()
    await subscription.aclose()
    assert sorted(shop.packed) == sorted(["tea", *orders])
