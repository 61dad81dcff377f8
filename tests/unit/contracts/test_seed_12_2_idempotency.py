"""Idempotency by request id (sections 12.2 and 15), over HTTP and in process."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from acc import AccError, InvalidInput, Runner
from acc.a2a import ServerLimits, StaticTokens, TokenEntry, create_app, token_hash
from acc.bootstrap.agents import make_services
from acc.contracts import (
    INTENTS_EXTENSION,
    Field,
    FunctionNode,
    IntentAgent,
    RequestIdReused,
    intent,
    run_agent_async,
)
from acc.domain.errors import PermissionDenied

TOKENS = [TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name) for name in ("ann", "bob")]


class Shop:
    """An agent whose intent must not be executed twice."""

    def __init__(self) -> None:
        self.orders: list[str] = []

        @intent(inputs={"item": Field(type=str)}, outputs={"number": Field(type=int)})
        async def order(inputs: dict[str, Any]) -> dict[str, Any]:
            """Order an item from the shop."""
            await asyncio.sleep(0.05)
            self.orders.append(inputs["item"])
            if inputs["item"] == "broken":
                raise RuntimeError("out of order")
            return {"number": len(self.orders)}

        @intent(inputs={"item": Field(type=str)}, outputs={"number": Field(type=int)})
        def price(inputs: dict[str, Any]) -> dict[str, Any]:
            """Return the price of an item."""
            return {"number": 7}

        self.agent = IntentAgent(name="shop", intents=[order, price])


def payload(item: str = "tea", request_id: str = "r-1", **context: Any) -> dict[str, Any]:
    context = {"request_id": request_id, **context}
    return {"intent": "order", "inputs": {"item": item}, "context": context}


class Client:
    def __init__(self, app: Any, interface: str) -> None:
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop")
        self._interface = interface

    async def call(self, data: dict[str, Any], token: str = "acc_ann") -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        if self._interface == "run":
            return await self._http.post("/run", json=data, headers=headers)
        params = {key: value for key, value in data.items() if key != "intent"}
        body = {"jsonrpc": "2.0", "id": 1, "method": data["intent"], "params": params}
        return await self._http.post("/", json=body, headers=headers)

    def number(self, response: httpx.Response) -> int:
        data = response.json()
        number: int = (data["result"] if self._interface == "rpc" else data)["number"]
        return number


@pytest.mark.parametrize("interface", ["run", "rpc"])
@pytest.mark.parametrize("store", ["memory", "file"])
async def test_repeated_request_returns_recorded_response(
    interface: str, store: str, tmp_path: Path
) -> None:
    shop = Shop()
    location = "memory" if store == "memory" else tmp_path / "shop.db"
    app = create_app(
        shop.agent, public_url="http://shop", verifier=StaticTokens(TOKENS), store=location
    )
    client = Client(app, interface)
    async with app.lifespan():
        first = await client.call(payload(timestamp="2026-01-01T00:00:00Z"))
        again = await client.call(payload(timestamp="2026-01-01T00:00:09Z"))
        assert client.number(first) == client.number(again) == 1
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        other = await client.call(payload("coffee"))
        assert "error" in other.json()
        assert other.status_code == (409 if interface == "run" else 200)
        assert shop.orders == ["tea"]
        assert client.number(await client.call(payload("coffee", "r-2"))) == 2
        assert client.number(await client.call(payload(), "acc_bob")) == 3
        price = {**payload(), "intent": "price"}
        assert client.number(await client.call(price)) == 7


@pytest.mark.parametrize(
    "claim", [{"user_id": "u-2"}, {"session_id": "s-2"}, {"debug_mode": True}], ids=str
)
async def test_request_for_another_user_or_session_is_not_a_repetition(
    claim: dict[str, Any],
) -> None:
    shop = Shop()
    app = create_app(shop.agent, public_url="http://shop", verifier=StaticTokens(TOKENS))
    client = Client(app, "run")
    async with app.lifespan():
        assert client.number(await client.call(payload(user_id="u-1"))) == 1
        other = await client.call(payload(**{"user_id": "u-1", **claim}))
        assert (other.status_code, "other inputs" in other.text) == (409, True)
        again = await client.call(payload(user_id="u-1"))
        assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize("interface", ["run", "rpc"])
async def test_concurrent_duplicates_execute_once(interface: str) -> None:
    shop = Shop()
    app = create_app(shop.agent, public_url="http://shop", verifier=StaticTokens(TOKENS))
    client = Client(app, interface)
    async with app.lifespan(), asyncio.TaskGroup() as group:
        calls = [group.create_task(client.call(payload())) for _ in range(20)]
    responses = [call.result() for call in calls]
    assert {client.number(response) for response in responses} == {1}
    assert shop.orders == ["tea"]
    assert sum("idempotency-replayed" in response.headers for response in responses) == 19


async def test_failed_request_is_not_executed_again() -> None:
    shop = Shop()
    app = create_app(shop.agent, public_url="http://shop", verifier=StaticTokens(TOKENS))
    client = Client(app, "run")
    async with app.lifespan():
        assert (await client.call(payload("broken"))).status_code == 500
        again = await client.call(payload("broken"))
        assert (again.status_code, "new request_id" in again.text) == (409, True)
    assert shop.orders == ["broken"]


async def test_rejected_request_may_be_corrected() -> None:
    shop = Shop()
    app = create_app(shop.agent, public_url="http://shop", verifier=StaticTokens(TOKENS))
    client = Client(app, "run")
    async with app.lifespan():
        wrong = {**payload(), "inputs": {}}
        assert (await client.call(wrong)).status_code == 400
        assert (await client.call(payload())).status_code == 200
    with pytest.raises(ValueError, match="item"):
        await run_agent_async(shop.agent, {**payload("x", "r-9"), "inputs": {}})
    assert not (await run_agent_async(shop.agent, payload("x", "r-9"))).repeated


async def test_in_process_requests_are_repeated_too() -> None:
    shop = Shop()
    first = await run_agent_async(shop.agent, payload())
    again = await run_agent_async(shop.agent, payload())
    assert first == again == {"number": 1}
    assert (first.repeated, again.repeated) == (False, True)
    with pytest.raises(RequestIdReused):
        await run_agent_async(shop.agent, payload("coffee"))
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(run_agent_async(shop.agent, payload(request_id="r-2")))
            for _ in range(10)
        ]
    assert {call.result()["number"] for call in calls} == {2}
    without_id = {"intent": "order", "inputs": {"item": "tea"}}
    assert (await run_agent_async(shop.agent, without_id))["number"] == 3
    assert (await run_agent_async(shop.agent, without_id))["number"] == 4


@pytest.mark.parametrize("error", [InvalidInput, PermissionDenied, RuntimeError])
async def test_failed_request_in_process_is_not_executed_again(error: type[Exception]) -> None:
    started: list[str] = []

    @intent
    def pay(memo: str) -> dict[str, str]:
        """Pay, then fail like the call of another agent."""
        started.append(memo)
        raise error("the remote agent rejected the call")

    agent = IntentAgent(name="shop", intents=[pay])
    payload = {"intent": "pay", "inputs": {"memo": "m"}, "context": {"request_id": "r-1"}}
    for _ in range(2):
        with pytest.raises(AccError):
            await run_agent_async(agent, payload)
    assert started == ["m"]


async def test_canceled_request_in_process_is_not_executed_again() -> None:
    started: list[str] = []

    @intent
    async def pay(memo: str) -> dict[str, str]:
        """Pay slowly."""
        started.append(memo)
        await asyncio.sleep(60)
        return {"memo": memo}

    agent = IntentAgent(name="shop", intents=[pay])
    payload = {"intent": "pay", "inputs": {"memo": "m"}, "context": {"request_id": "r-1"}}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await run_agent_async(agent, payload)
    with pytest.raises(AccError, match="new request_id") as caught:
        await run_agent_async(agent, payload)
    assert caught.value.code == "intent_not_completed"
    assert started == ["m"]


async def test_calls_on_behalf_of_one_request_are_executed_each() -> None:
    sent: list[dict[str, Any]] = []

    class Recorder:
        async def call(self, url: str, payload: Any, **options: Any) -> dict[str, Any]:
            sent.append(dict(payload["context"]))
            return {"ok": True}

    class TwiceNode(FunctionNode):
        def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            for _ in range(2):
                self.call_agent(
                    url="https://qa/run", payload={"intent": "poll", "context": context}
                )
            return {}

    services = dataclasses.replace(make_services(), intents=Recorder())
    agent = IntentAgent(name="root", intents=[TwiceNode()])
    data = {
        "intent": "twice",
        "context": {"request_id": "r-1", "idempotency_key": "k-1", "permissions": ["a"]},
    }
    await run_agent_async(Runner(agent, services=services), data)
    assert [context["request_id"] for context in sent] == ["r-1", "r-1"]
    assert len({context["idempotency_key"] for context in sent} | {"k-1"}) == 3


def at(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def test_replayed_and_old_requests_are_rejected() -> None:
    shop = Shop()
    app = create_app(
        shop.agent,
        public_url="http://shop",
        verifier=StaticTokens(TOKENS),
        limits=ServerLimits(replay_window=60),
    )
    client = Client(app, "run")

    async def status(token: str = "acc_ann", **context: Any) -> int:
        data = {"intent": "order", "inputs": {"item": "tea"}, "context": context}
        return (await client.call(data, token)).status_code

    async with app.lifespan():
        assert await status(timestamp=at(0), nonce="n-1") == 200
        assert await status(timestamp=at(0), nonce="n-1") == 400
        assert await status("acc_bob", timestamp=at(0), nonce="n-1") == 200
        assert await status(timestamp=at(-90), nonce="n-2") == 400
        assert await status(timestamp=at(90), nonce="n-3") == 400
        assert await status(nonce="n-4") == 400
        assert await status(timestamp=at(0)) == 400
        assert await status(timestamp=at(0), request_id="r-1") == 200
        assert await status(timestamp=at(0), request_id="r-1") == 200  # the recorded response
    assert len(shop.orders) == 3


async def test_nonce_is_accepted_once_by_two_servers_with_one_store(tmp_path: Path) -> None:
    shop = Shop()
    apps = [
        create_app(
            shop.agent,
            public_url="http://shop",
            store=tmp_path / "acc.db",
            verifier=StaticTokens(TOKENS),
            limits=ServerLimits(replay_window=60),
        )
        for _ in range(2)
    ]
    data = {
        "intent": "order",
        "inputs": {"item": "tea"},
        "context": {"timestamp": at(0), "nonce": "n-1"},
    }
    statuses = []
    for app in apps:  # the second server may also be the first one after a restart
        async with app.lifespan():
            statuses.append((await Client(app, "run").call(data)).status_code)
    assert statuses == [200, 400]
    assert shop.orders == ["tea"]


@asynccontextmanager
async def served(shop: Shop, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(shop.agent, public_url="http://shop", **options)
    transport = httpx.ASGITransport(app)
    async with (
        app.lifespan(),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        yield client


async def send(client: httpx.AsyncClient, message_id: str, item: str, **context: Any) -> Any:
    """Call `order` with the A2A extension and return the response."""
    message = {
        "messageId": message_id,
        "role": "ROLE_USER",
        "parts": [{"data": {"item": item}}],
        "metadata": {INTENTS_EXTENSION: {"skill": "order", "context": context}},
    }
    headers = {"A2A-Version": "1.0", "A2A-Extensions": INTENTS_EXTENSION}
    return await client.post("/message:send", json={"message": message}, headers=headers)


async def test_request_id_in_the_a2a_extension_is_executed_once() -> None:
    shop = Shop()
    async with served(shop) as client:
        first = (await send(client, "m1", "tea", request_id="r-1")).json()["task"]
        again = (await send(client, "m2", "tea", request_id="r-1")).json()["task"]
        run = await client.post("/run", json=payload())
        reused = await send(client, "m3", "coffee", request_id="r-1")
        other = (await send(client, "m4", "tea", request_id="r-2")).json()["task"]
    assert INTENTS_EXTENSION not in first.get("metadata", {})
    assert again["id"] == first["id"]
    assert again["artifacts"] == first["artifacts"]
    assert again["metadata"][INTENTS_EXTENSION] == {"repeated": True}
    assert (run.json(), run.headers["idempotency-replayed"]) == ({"number": 1}, "true")
    assert (reused.status_code, "request_id" in reused.text) == (400, True)
    assert other["id"] != first["id"]
    assert shop.orders == ["tea", "tea"]


async def test_concurrent_messages_with_one_request_id_execute_once() -> None:
    shop = Shop()
    async with served(shop) as client, asyncio.TaskGroup() as group:
        calls = [
            group.create_task(send(client, f"m{number}", "tea", request_id="r-1"))
            for number in range(10)
        ]
    assert len({call.result().json()["task"]["id"] for call in calls}) == 1
    assert shop.orders == ["tea"]


async def test_old_call_in_the_a2a_extension_is_rejected() -> None:
    shop = Shop()
    now = datetime.now(UTC)
    async with served(shop, limits=ServerLimits(replay_window=60)) as client:
        old = (now - timedelta(seconds=90)).isoformat()
        assert (await send(client, "m1", "tea", timestamp=old)).status_code == 400
        assert (await send(client, "m1", "tea")).status_code == 400
        # The id of the message takes the place of the nonce.
        sent = [await send(client, "m2", "tea", timestamp=now.isoformat()) for _ in range(2)]
    assert [response.status_code for response in sent] == [200, 200]
    assert shop.orders == ["tea"]
