"""Ids that may be used once, wherever they are remembered: memory, SQLite, PostgreSQL, Valkey."""

import asyncio
import logging
import time
from pathlib import Path
from uuid import uuid4

import pytest
from counter_factories import place, shared_place

from acc.a2a import UsedIds
from acc.application.a2a.replay_protection import MAX_IDS, InMemoryUsedIds
from acc.domain.errors import Unavailable

__all__ = ["place", "shared_place"]
Place = str | Path


async def claim(ids: UsedIds | InMemoryUsedIds, value: str, kind: str = "jti") -> bool:
    now = time.time()
    return await ids.claim(kind, value, now=now, until=now + 60)


async def test_id_is_accepted_once_of_each_kind(place: Place) -> None:
    ids, value = UsedIds(place), f"番号\x00\udcff {uuid4().hex}"
    assert [await claim(ids, value), await claim(ids, value)] == [True, False]
    assert await claim(ids, value, kind="nonce of ann")
    assert await claim(ids, f"{value} b")
    await ids.aclose()


async def test_one_of_concurrent_claims_succeeds(place: Place) -> None:
    ids, value = UsedIds(place), uuid4().hex
    async with asyncio.TaskGroup() as group:
        claims = [group.create_task(claim(ids, value)) for _ in range(20)]
    assert sum(task.result() for task in claims) == 1
    await ids.aclose()


async def test_expired_id_may_be_used_again(place: Place) -> None:
    ids, value, now = UsedIds(place), uuid4().hex, time.time()
    assert await ids.claim("jti", value, now=now, until=now + 0.05)
    assert not await ids.claim("jti", value, now=now, until=now + 60)
    await asyncio.sleep(0.1)
    assert await ids.claim("jti", value, now=now + 0.1, until=now + 60)
    await ids.aclose()


async def test_two_servers_share_ids(shared_place: Place) -> None:
    one, two, value = UsedIds(shared_place), UsedIds(shared_place), uuid4().hex
    assert [await claim(one, value), await claim(two, value)] == [True, False]
    await one.aclose()
    await two.aclose()


@pytest.mark.parametrize(
    "store",
    ["postgresql://user:s3cret@127.0.0.1:1/acc", "valkey://user:s3cret@127.0.0.1:1", "/no/x.db"],
    ids=["postgres", "valkey", "sqlite"],
)
async def test_requests_are_rejected_while_the_store_does_not_respond(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = UsedIds(store)
    with caplog.at_level(logging.WARNING, "acc.auth"), pytest.raises(Unavailable) as caught:
        await claim(ids, "a")
    assert caught.value.retry_after is not None
    assert "cannot be read" in caplog.text
    assert "s3cret" not in caplog.text + str(caught.value)
    await ids.aclose()


async def test_memory_is_bounded_without_forgetting_valid_ids() -> None:
    ids = InMemoryUsedIds()
    await ids.claim("jti", "long", now=0, until=1000)
    for number in range(MAX_IDS - 1):
        await ids.claim("jti", str(number), now=0, until=10)
    with pytest.raises(Unavailable):
        await ids.claim("jti", "one more", now=5, until=1000)
    assert await ids.claim("jti", "one more", now=10, until=1000)
    assert not await ids.claim("jti", "long", now=10, until=1000)
