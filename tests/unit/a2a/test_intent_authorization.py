"""Authorization per intent (section 6.8): every intent that a message may execute is checked."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from acc import BaseAgent, InvalidTree, RunContext
from acc.a2a import (
    CardConfig,
    RateLimiter,
    StaticTokens,
    TokenEntry,
    create_app,
    token_hash,
)
from acc.contracts import INTENTS_EXTENSION, FunctionNode, IntentAgent, intent

CHECKOUT = "agent://checkout_agent"
SCOPES = ["agent.invoke", "agent.read"]
CALLERS = {"acc_checkout": CHECKOUT, "acc_other": "agent://other_agent"}


class Payments:
    """Intents of which `process_transaction` is only for the checkout agent."""

    def __init__(self) -> None:
        self.processed: list[str] = []

        @intent
        def process_transaction(memo: str) -> dict[str, str]:
            """Process a transaction."""
            self.processed.append(memo)
            return {"memo": memo}

        @intent
        def query_transaction_metadata(inputs: dict[str, Any]) -> dict[str, Any]:
            """Return the metadata of a transaction."""
            return {}

        self.process: FunctionNode = process_transaction
        self.query: FunctionNode = query_transaction_metadata


class PaymentAgent(IntentAgent):
    """The agent of the specification."""

    def authorize_call(self, intent: str, caller: str) -> bool:
        return not (intent == "process_transaction" and caller != CHECKOUT)


def never(outputs: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    return False


@asynccontextmanager
async def serving(agent: Any, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    entries = [
        TokenEntry(sha256=token_hash(token), caller=caller, permissions=SCOPES)
        for token, caller in CALLERS.items()
    ]
    app = create_app(agent, public_url="http://pay", verifier=StaticTokens(entries), **options)
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://pay") as client:
            yield client


def headers(token: str = "acc_other") -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        "A2A-Version": "1.0",
        "A2A-Extensions": INTENTS_EXTENSION,
    }


async def send(client: httpx.AsyncClient, part: Any, token: str = "acc_other") -> httpx.Response:
    message = {"messageId": f"m-{token}", "role": "ROLE_USER", "parts": [part]}
    return await client.post("/message:send", json={"message": message}, headers=headers(token))


async def count_tasks(client: httpx.AsyncClient) -> int:
    total: int = (await client.get("/tasks", headers=headers())).json()["totalSize"]
    return total


async def test_fallback_of_a_packet_is_authorized_too() -> None:
    payments = Payments()
    agent = PaymentAgent(
        name="payment",
        intents=[payments.process, payments.query],
        conditions={"never": never},
    )
    packet = {
        "delegated_intent": "query_transaction_metadata",
        "context": {"memo": "m-1"},
        "success_conditions": ["never"],
        "fallback": "process_transaction",
    }
    async with serving(agent) as client:
        response = await client.post("/run", json=packet, headers=headers())
        assert response.status_code == 403
        assert "process_transaction" in response.json()["error"]["message"]
        assert await count_tasks(client) == 0
        assert payments.processed == []
        allowed = await client.post("/run", json=packet, headers=headers("acc_checkout"))
        assert allowed.json()["status"] == "fallback"


async def test_fallback_of_a_packet_counts_against_its_rate() -> None:
    payments = Payments()
    agent = IntentAgent(
        name="payment", intents=[payments.process, payments.query], conditions={"never": never}
    )
    packet = {
        "delegated_intent": "query_transaction_metadata",
        "context": {"memo": "m-1"},
        "success_conditions": ["never"],
        "fallback": "process_transaction",
    }
    limiter = RateLimiter(per_intent={"process_transaction": ["1/minute"]})
    async with serving(agent, limiter=limiter) as client:
        responses = [
            await client.post("/run", json=packet, headers=headers("acc_checkout"))
            for _ in range(2)
        ]
    assert [response.status_code for response in responses] == [200, 429]


@pytest.mark.parametrize("part", [{"text": "m-1"}, {"data": {"memo": "m-1"}}])
async def test_message_to_the_only_intent_is_a_call_of_it(part: Any) -> None:
    payments = Payments()
    async with serving(PaymentAgent(name="payment", intents=[payments.process])) as client:
        assert (await send(client, part)).status_code == 403
        assert await count_tasks(client) == 0
        assert payments.processed == []
        assert (await send(client, part, "acc_checkout")).status_code == 200
    assert payments.processed == ["m-1"]


@pytest.mark.parametrize("is_root", [False, True])
async def test_text_needs_the_permissions_of_the_contract(is_root: bool) -> None:
    @intent(permissions=["pay"])
    def refund(memo: str) -> dict[str, str]:
        """Refund a payment."""
        raise AssertionError

    agent = refund if is_root else IntentAgent(name="desk", intents=[refund])
    async with serving(agent) as client:
        response = await send(client, {"text": "m-1"})
        assert response.status_code == 403
        assert "'pay'" in response.json()["error"]["message"]
        assert await count_tasks(client) == 0


def test_async_authorization_is_an_error_of_the_agent() -> None:
    class Careless(IntentAgent):
        async def authorize_call(self, intent: str, caller: str) -> bool:  # type: ignore[override]
            return False

    with pytest.raises(InvalidTree, match="authorize_call"):
        create_app(Careless(name="payment", intents=[Payments().query]))


@dataclass(kw_only=True, eq=False)
class Ledger(BaseAgent):
    """An agent that decides who may use its own intent."""

    def authorize_call(self, intent: str, caller: str) -> bool:
        return caller == CHECKOUT

    async def run(self, ctx: RunContext) -> dict[str, Any]:
        return {"booked": True}


async def test_owner_of_an_intent_authorizes_it() -> None:
    ledger = Ledger(name="ledger", input_schema={"type": "object"})
    agent = IntentAgent(name="desk", intents=[ledger, Payments().query])
    async with serving(agent) as client:
        body = {"intent": "ledger", "inputs": {}}
        assert (await client.post("/run", json=body, headers=headers())).status_code == 403
        assert await count_tasks(client) == 0
        other = {**body, "intent": "query_transaction_metadata"}
        assert (await client.post("/run", json=other, headers=headers())).status_code == 200
        allowed = await client.post("/run", json=body, headers=headers("acc_checkout"))
        assert allowed.json() == {"booked": True}


def rpc(params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "process_transaction", "params": params}


@pytest.mark.parametrize("inputs", [{}, {"memo": 1}, {"memo": "m-1", "other": 1}])
@pytest.mark.parametrize("interface", ["run", "rpc", "extension", "data"])
async def test_invalid_inputs_of_a_forbidden_intent_do_not_disclose_its_contract(
    interface: str, inputs: Any
) -> None:
    payments = Payments()
    others = [] if interface == "data" else [payments.query]
    agent = PaymentAgent(name="payment", intents=[payments.process, *others])
    async with serving(agent) as client:
        if interface == "run":
            body: Any = {"intent": "process_transaction", "inputs": inputs}
            response = await client.post("/run", json=body, headers=headers())
        elif interface == "rpc":
            response = await client.post("/", json=rpc({"inputs": inputs}), headers=headers())
        else:
            metadata = {INTENTS_EXTENSION: {"skill": "process_transaction"}}
            message = {
                "messageId": "m",
                "role": "ROLE_USER",
                "parts": [{"data": inputs}],
                "metadata": metadata if interface == "extension" else {},
            }
            body = {"message": message}
            response = await client.post("/message:send", json=body, headers=headers())
        assert response.status_code == 403
        assert "memo" not in response.text
        assert await count_tasks(client) == 0
    assert payments.processed == []


async def test_text_without_inputs_of_a_forbidden_intent_does_not_disclose_its_contract() -> None:
    @intent
    def process_transaction(memo: str, amount: int) -> dict[str, str]:
        """Process a transaction."""
        raise AssertionError

    async with serving(PaymentAgent(name="payment", intents=[process_transaction])) as client:
        response = await send(client, {"text": "m-1"})
        assert response.status_code == 403
        assert "amount" not in response.text
        allowed = await send(client, {"text": "m-1"}, "acc_checkout")
        assert allowed.status_code == 400
        assert "'amount'" in allowed.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"intent": "unknown", "inputs": {}}, 404),
        ({"delegated_intent": "unknown", "fallback": "process_transaction"}, 400),
        ({"delegated_intent": "query_transaction_metadata", "fallback": "unknown"}, 400),
    ],
)
async def test_errors_do_not_name_intents_that_the_card_does_not_list(
    body: dict[str, Any], status: int
) -> None:
    payments = Payments()
    agent = IntentAgent(name="payment", intents=[payments.process, payments.query])
    card = CardConfig(public=("*", "!process_transaction"))
    packet = {"context": {"memo": "m-1"}, "success_conditions": ["memo"]}
    async with serving(agent, card=card) as client:
        sent = body if "intent" in body else {**packet, **body}
        response = await client.post("/run", json=sent, headers=headers())
        assert response.status_code == status
        assert "process_transaction" not in response.text
        response = await send(client, {"text": "hello"})
        assert response.status_code == 400
        assert "query_transaction_metadata" in response.text
        assert "process_transaction" not in response.text
        listed = {"intent": "process_transaction", "inputs": {"memo": "m-1"}}
        assert (await client.post("/run", json=listed, headers=headers())).status_code == 200
