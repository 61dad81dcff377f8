"""The status of a server: circuits that are not closed, for authenticated callers."""

import pytest
from http_app import served
from server_harness import CommandAgent

from acc.a2a import RateLimiter, StaticTokens, TokenEntry, create_app, token_hash
from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.errors import RemoteFailed

TOKENS = [TokenEntry(sha256=token_hash("acc_ann"), caller="ann")]


async def test_status_lists_open_circuits_to_authenticated_callers() -> None:
    breaker = CircuitBreaker("https://worker.example", failures=1, reset=60)
    with pytest.raises(RemoteFailed), breaker.call((RemoteFailed,)):
        raise RemoteFailed("down")
    limiter = RateLimiter(
        ["100/minute"],
        per_intent={"refund": ["10/minute"]},
        bytes_per_caller=["5/second"],
        tokens_per_day=9,
        cost_per_day=2,
    )
    app = create_app(CommandAgent(name="desk"), verifier=StaticTokens(TOKENS), limiter=limiter)
    async with served(app) as client:
        assert (await client.get("/status")).status_code == 401
        response = await client.get("/status", "acc_ann")
    (circuit,) = [
        one for one in response.json()["circuits"] if one["name"] == "https://worker.example"
    ]
    assert response.json()["rateLimits"] == [
        "100 per 1 minute",
        "intent refund: 10 per 1 minute",
        "5 per 1 second (bytes)",
        "9 tokens per day",
        "2.00 US dollars per day",
    ]
    assert circuit["state"] == "open"
    assert circuit["failures"] == 1
    assert circuit["nextAttempt"].endswith("+00:00")
