"""Rate limits and quotas, wherever they are counted: memory, SQLite, PostgreSQL, Valkey."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from counter_factories import place, shared_place

from acc import InvalidInput
from acc.a2a import RateLimiter
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_counters import SqliteCounters
from acc.domain.errors import RateLimited, Unavailable

__all__ = ["place", "shared_place"]
Place = str | Path


@asynccontextmanager
async def opened(*limiters: RateLimiter) -> AsyncIterator[tuple[RateLimiter, ...]]:
    try:
        yield limiters
    finally:
        for limiter in limiters:
            await limiter.aclose()


@pytest.fixture
def caller() -> str:
    """A caller of this test only: a Valkey server is shared by the tests of a process."""
    return f"花子 {uuid4().hex}"


async def admitted(limiter: RateLimiter, caller: str, count: int) -> int:
    accepted = 0
    for _ in range(count):
        try:
            await limiter.count_request(caller)
            accepted += 1
        except RateLimited:
            pass
    return accepted


async def test_request_over_the_limit_is_rejected_with_a_wait(place: Place, caller: str) -> None:
    async with opened(RateLimiter(["5/hour"], store=place)) as (limiter,):
        assert await admitted(limiter, caller, 5) == 5
        with pytest.raises(RateLimited) as caught:
            await limiter.count_request(caller)
        assert 0 < caught.value.retry_after <= 2 * 3600
        await limiter.count_request(f"{caller} too")


async def test_concurrent_requests_do_not_exceed_the_limit(place: Place, caller: str) -> None:
    async with (
        opened(RateLimiter(["20/hour"], store=place)) as (limiter,),
        asyncio.TaskGroup() as group,
    ):
        counts = [group.create_task(admitted(limiter, caller, 1)) for _ in range(40)]
    assert sum(task.result() for task in counts) == 20


async def test_window_ends(place: Place, caller: str) -> None:
    async with opened(RateLimiter(["2/second"], store=place)) as (limiter,):
        with pytest.raises(RateLimited) as caught:
            for _ in range(100):
                await limiter.count_request(caller)
        assert caught.value.retry_after <= 2
        deadline = time.monotonic() + 10
        while await admitted(limiter, caller, 1) == 0:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def test_intents_tools_and_bytes_are_counted_separately(place: Place, caller: str) -> None:
    limiter = RateLimiter(
        per_intent={"refund": ["1/hour"]},
        per_tool={"search": ["1/hour"]},
        bytes_per_caller=["1000/hour"],
        store=place,
    )
    async with opened(limiter):
        await limiter.count_request(caller, "refund")
        await limiter.count_request(caller, "quote")
        await limiter.count_tool_call(caller, "search")
        await limiter.count_bytes(caller, 600)
        for rejected in (
            limiter.count_request(caller, "refund"),
            limiter.count_tool_call(caller, "search"),
            limiter.count_bytes(caller, 600),
        ):
            with pytest.raises(RateLimited):
                await rejected
        await limiter.count_bytes(caller, 400)


@pytest.mark.parametrize("quota", [{"tokens_per_day": 150}, {"cost_per_day": 0.5}])
async def test_quota_is_used_up_until_the_next_day(
    quota: dict[str, Any], place: Place, caller: str
) -> None:
    async with opened(RateLimiter(**quota, store=place)) as (limiter,):
        for _ in range(2):
            await limiter.check_quota(caller)
            await limiter.charge(caller, tokens=100, cost=0.3)
        with pytest.raises(RateLimited) as caught:
            await limiter.check_quota(caller)
        next_day = 86_400 - time.time() % 86_400
        assert abs(caught.value.retry_after - next_day) < 60
        await limiter.check_quota(f"{caller} too")


async def test_two_servers_share_one_counter(shared_place: Place, caller: str) -> None:
    options: dict[str, Any] = {"tokens_per_day": 100, "store": shared_place}
    async with opened(RateLimiter(["4/hour"], **options), RateLimiter(["4/hour"], **options)) as (
        one,
        two,
    ):
        assert await admitted(one, caller, 3) == 3
        assert await admitted(two, caller, 3) == 1
        await one.charge(caller, tokens=200, cost=0.0)
        with pytest.raises(RateLimited):
            await two.check_quota(caller)


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://user:s3cret-password@127.0.0.1:1/acc",
        "valkey://user:s3cret-password@127.0.0.1:1",
        "/nonexistent/s3cret/counters.db",
    ],
    ids=["postgres", "valkey", "sqlite"],
)
async def test_behaviour_without_counter_is_configurable_and_logged(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "acc.limits"):
        async with opened(
            RateLimiter(["1/minute"], tokens_per_day=1, store=store, on_failure="allow"),
            RateLimiter(["1/minute"], tokens_per_day=1, store=store, on_failure="deny"),
        ) as (allows, denies):
            for _ in range(3):
                await allows.count_request("ann")
                await allows.check_quota("ann")
                for denied in (denies.count_request("ann"), denies.check_quota("ann")):
                    with pytest.raises(Unavailable) as caught:
                        await denied
                    assert caught.value.retry_after is not None
            await denies.charge("ann", tokens=5, cost=1.0)
    messages = [record.getMessage() for record in caplog.records if record.name == "acc.limits"]
    assert len(messages) == 2  # once for each limiter, not for each request
    assert "accepted without" in messages[0]
    assert "rejected without" in messages[1]
    assert "s3cret-password" not in caplog.text


async def test_log_names_the_reason_why_a_file_cannot_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "記録.txt"
    path.write_text("not a database " * 100)
    async with opened(RateLimiter(["1/minute"], store=path)) as (limiter,):
        await limiter.count_request("花子")
    assert "it is not an SQLite database" in caplog.text


async def test_locked_file_does_not_delay_requests_for_long(tmp_path: Path) -> None:
    path = tmp_path / "acc.db"
    limiter = RateLimiter(["9/minute"], store=path, on_failure="deny")
    async with opened(limiter):
        await limiter.count_request("ann")
        other = sqlite3.connect(path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable):
                await limiter.count_request("ann")
        finally:
            other.close()
        await limiter.count_request("ann")


async def test_expired_counters_are_deleted(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    counters = SqliteCounters(database)
    now = time.time()
    await counters.add(b"old", 5, now=now - 10, until=now - 5)
    assert await counters.add(b"old", 1, now=now, until=now - 1) == 1  # not 6
    later = SqliteCounters(database)  # another process prunes with its first write
    await later.claim(b"new", now=now, until=now + 60)
    rows = await database.read(lambda c: c.execute("SELECT key FROM counters").fetchall())
    assert rows == [(b"new",)]
    await database.aclose()


@pytest.mark.parametrize("store", ["http://localhost", "mysql://root:s3cret@localhost/acc"])
def test_unknown_place_is_rejected_by_its_scheme(store: str) -> None:
    with pytest.raises(InvalidInput, match="valkey://HOST:6379") as caught:
        RateLimiter(store=store)
    assert "s3cret" not in str(caught.value)
