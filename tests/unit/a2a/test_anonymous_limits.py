"""Limits of anonymous callers: each address has its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from http_app import App, served_requests
from server_harness import CommandAgent, wait_until

from acc import LlmAgent, tool
from acc.a2a import (
    RateLimiter,
    ServerLimits,
    StaticTokens,
    TokenEntry,
    create_app,
    token_hash,
)
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.principal import limited_address
from acc.ports.outbound.model_ports import ModelResponse
from acc.testing import ScriptedModel, call

ONE, OTHER = "192.0.2.1", "192.0.2.2"


@asynccontextmanager
async def callers(app: Any, *addresses: str) -> AsyncIterator[list[App]]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.lifespan())
        yield [
            await stack.enter_async_context(served_requests(app, one))
            for one in addresses or (ONE, OTHER)
        ]


async def statuses(client: App, count: int, text: str = "hello", path: str = "") -> list[int]:
    return [
        (await client.send(text, message_id=f"{id(client)}-{path}{n}")).status_code
        for n in range(count)
    ]


@pytest.mark.parametrize("quota", [{"tokens_per_day": 150}, {"cost_per_day": 0.5}])
async def test_quota_of_the_day_is_that_of_the_address(quota: Any) -> None:
    usage = Usage(llm_calls=1, input_tokens=90, output_tokens=10, cost=0.3)
    model = ScriptedModel(ModelResponse(text="done", usage=usage), repeat=True)
    app = create_app(LlmAgent(name="desk", model=model), limiter=RateLimiter(**quota))
    async with callers(app) as (one, other):
        assert await statuses(one, 3) == [200, 200, 429]
        assert await statuses(other, 1) == [200]


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_stored_tasks_and_bytes_are_those_of_the_address(place: str, tmp_path: Path) -> None:
    for number, limits in enumerate(
        (ServerLimits(stored_tasks=2), ServerLimits(stored_bytes=2500)), 1
    ):
        store = "memory" if place == "memory" else tmp_path / f"{number}.db"
        app = create_app(CommandAgent(name="desk"), limits=limits, store=store)
        async with callers(app) as (one, other):
            assert await statuses(one, 3, "x" * 1000) == [200, 200, 429]
            assert await statuses(other, 3, "x" * 1000) == [200, 200, 429]


async def test_running_tasks_are_those_of_the_address() -> None:
    agent = CommandAgent(name="desk")
    app = create_app(agent, limits=ServerLimits(tasks=2))
    async with callers(app) as (one, other):
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(one.send("wait", message_id=str(n))) for n in range(2)]
            await wait_until(lambda: len(agent.log) == 2)
            rejected = await one.send("third")
            assert rejected.status_code == 429
            assert "for each address" in rejected.text
            # A tenant that the caller chose does not have a limit of its own.
            message = {"messageId": "t", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
            params = {"tenant": "another", "message": message}
            assert (await one.rpc("SendMessage", params)).status_code == 429
            assert (await other.send("hello")).status_code == 200
            agent.gate.set()
        assert [task.result().status_code for task in waiting] == [200, 200]
        assert (await one.send("again")).status_code == 200


async def test_rate_of_an_intent_is_that_of_the_address() -> None:
    limiter = RateLimiter(per_intent={"desk": ["1/minute"]})
    app = create_app(CommandAgent(name="desk", input_schema={"type": "object"}), limiter=limiter)
    async with callers(app) as (one, other):
        assert await statuses(one, 2) == [200, 429]
        assert await statuses(other, 2) == [200, 429]


@pytest.mark.parametrize("is_anonymous", [True, False])
async def test_limit_of_a_tool_is_that_of_the_address_or_caller_in_every_tenant(
    is_anonymous: bool,
) -> None:
    used: list[str] = []

    @tool
    def search(query: str) -> str:
        """Search the archive."""
        used.append(query)
        return "found"

    script: list[Any] = []
    for number in range(4):
        script += [call("search", query=str(number)), "done"]
    agent = LlmAgent(name="desk", model=ScriptedModel(*script), tools=[search], memory=None)
    tokens = [TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name) for name in ("ann", "bob")]
    verifier = None if is_anonymous else StaticTokens(tokens)
    limiter = RateLimiter(per_tool={"search": ["1/hour"]})
    app = create_app(agent, limiter=limiter, verifier=verifier)
    async with callers(app) as (one, other):
        for number, tenant in enumerate(("", "red", "blue")):
            message = {"messageId": tenant, "role": "ROLE_USER", "parts": [{"text": "go"}]}
            params = {"tenant": tenant, "message": {**message, "messageId": f"m{number}"}}
            token = "" if is_anonymous else "acc_ann"
            assert (await one.rpc("SendMessage", params, token)).status_code == 200
        assert used == ["0"]
        token = "" if is_anonymous else "acc_bob"
        assert (await other.send("go", token)).status_code == 200
    assert used == ["0", "3"]


async def test_address_does_not_own_tasks() -> None:
    async with callers(create_app(CommandAgent(name="desk"))) as (one, other):
        task = (await one.send("hello")).json()["result"]["task"]
        assert (await other.get(f"/tasks/{task['id']}")).status_code == 200


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_addresses_of_one_subscriber_are_one(address: str, counted: str) -> None:
    assert limited_address(address) == counted


async def test_requests_of_one_ipv6_network_are_counted_together() -> None:
    app = create_app(CommandAgent(name="desk"), limiter=RateLimiter(["1/minute"]))
    async with callers(app, "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1") as (one, two, three):
        assert await statuses(one, 1) == [200]
        assert await statuses(two, 1) == [429]
        assert await statuses(three, 1) == [200]
