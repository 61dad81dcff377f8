"""Delegation packets of section 7.4: conditions, fallback, budget, deadline, vague packets."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from acc import BaseAgent, InputAnswer, LlmAgent, RunContext, Runner
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.application.contracts.packets import Delegation, judge_conditions
from acc.contracts import (
    Field,
    IntentAgent,
    InvalidInputs,
    VaguePacket,
    intent,
    intent_message,
    run_agent_async,
)
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.principal import ANONYMOUS
from acc.domain.value_objects.task import TaskQuery
from acc.testing import ScriptedModel, call

#: The packets of section 7.4, as they are printed there.
GOOD = json.loads("""
{
  "delegated_intent": "fetch_invoice",
  "context": {
    "invoice_id": "INV-7789",
    "user_id": "U-103"
  },
  "success_conditions": ["invoice_retrieved"],
  "fallback": "notify_accounting_failure"
}
""")
BAD = json.loads("""
{
  "intent": "do_something",
  "data": "handle it"
}
""")


class Accounting:
    """An agent with the intents of the packet, and what they executed."""

    def __init__(self) -> None:
        self.fetched: list[tuple[str, str]] = []
        self.notified: list[dict[str, Any]] = []
        self.invoices = {"INV-7789": 120}
        self.delay = 0.0

        @intent(outputs={"amount": Field(type=int, required=False)})
        async def fetch_invoice(invoice_id: str, user_id: str) -> dict[str, Any]:
            """Fetch an invoice from the ledger."""
            self.fetched.append((invoice_id, user_id))
            await asyncio.sleep(self.delay)
            if invoice_id == "broken":
                raise RuntimeError("ledger offline")
            amount = self.invoices.get(invoice_id)
            return {} if amount is None else {"amount": amount}

        @intent(
            inputs={
                "invoice_id": Field(type=str),
                "reason": Field(type=str),
                "unmet_conditions": Field(type=list[str]),
            }
        )
        def notify_accounting_failure(
            inputs: dict[str, Any], memory: Any, context: dict[str, Any]
        ) -> dict[str, Any]:
            """Notify accounting of a missing invoice."""
            self.notified.append(dict(inputs))
            return {"notified": True}

        @intent(permissions=["write_off"])
        def write_off(inputs: dict[str, Any]) -> dict[str, Any]:
            """Write an invoice off."""
            return {"written_off": True}

        self.intents = [fetch_invoice, notify_accounting_failure, write_off]
        self.agent = IntentAgent(
            name="accounting",
            description="Fetches invoices.",
            intents=self.intents,
            conditions={"invoice_retrieved": lambda outputs, state: "amount" in outputs},
        )


@pytest.fixture
def desk() -> Accounting:
    return Accounting()


def packet(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


def missing_invoice(**changes: Any) -> dict[str, Any]:
    return packet(context={"invoice_id": "INV-1", "user_id": "U-103"}, **changes)


async def test_seed_packet_is_fulfilled(desk: Accounting) -> None:
    result = await run_agent_async(desk.agent, GOOD)
    assert result == {
        "delegated_intent": "fetch_invoice",
        "status": "fulfilled",
        "conditions": {"invoice_retrieved": True},
        "outputs": {"amount": 120},
    }
    assert desk.fetched == [("INV-7789", "U-103")]
    assert desk.notified == []


async def test_unmet_condition_runs_fallback_and_is_recorded(desk: Accounting) -> None:
    runner = Runner(desk.agent)
    data = missing_invoice()
    data["context"]["session_id"] = "s1"
    result = await run_agent_async(runner, data)
    assert result["status"] == "fallback"
    assert result["fallback"] == "notify_accounting_failure"
    assert result["outputs"] == {"notified": True}
    assert desk.notified == [
        {
            "invoice_id": "INV-1",
            "reason": "unmet conditions: invoice_retrieved",
            "unmet_conditions": ["invoice_retrieved"],
        }
    ]
    events = await runner.events(user_id="U-103", session_id="s1")
    (event,) = [event for event in events if event.kind is EventKind.DELEGATION]
    assert event.detail["conditions"] == {"invoice_retrieved": False}
    assert event.detail["fallback"] == "notify_accounting_failure"


async def test_failed_intent_runs_fallback(desk: Accounting) -> None:
    data = packet(context={"invoice_id": "broken", "user_id": "U-103"})
    result = await run_agent_async(desk.agent, data)
    assert result["status"] == "fallback"
    # The caller sees the reason, so it must not quote an error of the agent.
    assert desk.notified[0]["reason"] == "the intent failed (agent_failed)"
    assert "ledger offline" not in str(result)


@pytest.mark.parametrize("seconds", [-5, 0.2])
async def test_deadline_runs_fallback(desk: Accounting, seconds: float) -> None:
    desk.delay = 5
    deadline = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    async with asyncio.timeout(4):
        result = await run_agent_async(desk.agent, packet(deadline=deadline))
    assert result["reason"] == "the deadline has passed"
    assert len(desk.fetched) == (0 if seconds < 0 else 1)


async def test_budget_of_packet_runs_fallback() -> None:
    def search(query: str) -> str:
        """Search the archive for a query."""
        return "nothing"

    model = ScriptedModel(call("search", query="a"), "found")
    desk = Accounting()
    writer = LlmAgent(
        name="research",
        description="Researches an invoice.",
        model=model,
        tools=[search],
        input_schema={"type": "object", "properties": {"invoice_id": {"type": "string"}}},
    )
    agent = IntentAgent(name="root", intents=[writer, *desk.intents])
    data = {
        "delegated_intent": "research",
        "context": {"invoice_id": "INV-1"},
        "success_conditions": ["text"],
        "fallback": "notify_accounting_failure",
        "budget": {"llm_calls": 1},
    }
    result = await run_agent_async(agent, data)
    assert result["status"] == "fallback"
    assert "max_llm_calls" in result["reason"]
    assert len(desk.notified) == 1


async def test_condition_may_name_output_field_or_written_state_key() -> None:
    @intent(outputs={"approved": Field(type=bool)}, writes=("invoice.status",))
    def approve(inputs: dict[str, Any], memory: Any) -> dict[str, Any]:
        """Approve an invoice of the ledger."""
        memory["invoice.status"] = inputs["status"]
        return {"approved": True}

    @intent
    def report(inputs: dict[str, Any]) -> dict[str, Any]:
        """Report a failure to accounting."""
        return {"got": sorted(inputs)}

    agent = IntentAgent(name="root", intents=[approve, report])
    data: dict[str, Any] = {
        "delegated_intent": "approve",
        "context": {"status": "paid"},
        "success_conditions": ["approved", "invoice.status"],
        "fallback": "report",
    }
    assert (await run_agent_async(agent, data))["status"] == "fulfilled"
    data["context"] = {"status": ""}
    result = await run_agent_async(agent, data)
    assert result["conditions"] == {"approved": True, "invoice.status": False}


async def test_paused_delegation_resumes_and_runs_its_fallback_once(desk: Accounting) -> None:
    class Approval(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            answer = await ctx.request_input("May I?")
            return str(answer.value)

    agent = IntentAgent(
        name="root",
        intents=[
            Approval(name="approval", input_schema={"type": "object"}),
            *desk.intents,
        ],
        conditions={"agreed": lambda outputs, state: outputs["text"] == "yes"},
    )
    runner = Runner(agent)
    message = intent_message(
        "approval",
        {"invoice_id": "INV-1"},
        delegation={"success_conditions": ["agreed"], "fallback": "notify_accounting_failure"},
    )
    paused = await runner.run(message, user_id="u", session_id="s")
    assert paused.requests
    result = await runner.resume(
        user_id="u",
        session_id="s",
        answers=InputAnswer(request_id=paused.requests[0].id, value="no"),
    )
    assert json.loads(result.text)["status"] == "fallback"
    assert len(desk.notified) == 1


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (BAD, {"delegated_intent", "context", "success_conditions", "fallback"}),
        ({"delegated_intent": "fetch_invoice"}, {"context", "success_conditions", "fallback"}),
        (packet(success_conditions=[]), {"success_conditions"}),
        (packet(success_conditions="invoice_retrieved"), {"success_conditions"}),
        (packet(fallback=""), {"fallback"}),
        (packet(context={}), {"context"}),
        (packet(delegated_intent=None), {"delegated_intent"}),
    ],
)
async def test_vague_packets_are_rejected_with_missing_parts(
    desk: Accounting, data: Mapping[str, Any], missing: set[str]
) -> None:
    with pytest.raises(VaguePacket) as caught:
        await run_agent_async(desk.agent, data)
    assert {part.partition(":")[0] for part in caught.value.missing} == missing
    assert desk.fetched == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"delegated_intent": "unknown"}, "delegated_intent"),
        ({"fallback": "unknown"}, "fallback"),
        ({"fallback": "fetch_invoice"}, "fallback"),
        ({"success_conditions": ["unknown"]}, "success_conditions"),
        ({"success_conditions": ["amount"] + [f"c{n}" for n in range(30)]}, "success_conditions"),
        ({"budget": {"llm_calls": 0}}, "budget"),
        ({"budget": {"money": 3}}, "budget"),
        ({"budget": 3}, "budget"),
        ({"deadline": "tomorrow"}, "deadline"),
        ({"deadline": 17}, "deadline"),
        ({"deadline": "0001-01-01T00:00:00+14:00"}, "deadline"),
        ({"deadline": "9999-12-31T23:59:59-14:00"}, "deadline"),
        ({"data": "x"}, "data"),
        ({"context": {"user_id": "U-103"}}, "invoice_id"),
        ({"inputs": []}, "inputs"),
    ],
)
async def test_invalid_packets_are_rejected_before_anything_runs(
    desk: Accounting, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInputs) as caught:
        await run_agent_async(desk.agent, packet(**changes))
    assert field in {violation.field for violation in caught.value.violations}
    assert desk.fetched == []


# Over HTTP


async def post(app: Any, path: str, body: Any, token: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
        return await client.post(path, json=body, headers=headers)


async def test_packets_over_run(desk: Accounting) -> None:
    app = create_app(desk.agent, public_url="http://desk")
    async with app.lifespan():
        response = await post(app, "/run", GOOD)
        assert response.status_code == 200
        assert response.json()["outputs"] == {"amount": 120}
        response = await post(app, "/run", missing_invoice())
        assert response.json()["status"] == "fallback"
        before = (await app.serve._tasks.list_tasks(ANONYMOUS.owner, TaskQuery())).total
        for body, word in ((BAD, "success_conditions"), (packet(delegated_intent="x"), "unknown")):
            response = await post(app, "/run", body)
            assert response.status_code == 400
            assert word in response.json()["error"]["message"]
        after = (await app.serve._tasks.list_tasks(ANONYMOUS.owner, TaskQuery())).total
        assert after == before == 2


async def test_packets_over_jsonrpc(desk: Accounting) -> None:
    app = create_app(desk.agent, public_url="http://desk")
    params = {key: value for key, value in GOOD.items() if key != "delegated_intent"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "fetch_invoice", "params": params}
    async with app.lifespan():
        response = await post(app, "/", body)
        assert response.json()["result"]["status"] == "fulfilled"
        body["params"] = {"success_conditions": ["invoice_retrieved"]}
        error = (await post(app, "/", body)).json()["error"]
        assert error["code"] == -32602
        assert "fallback" in error["message"]


async def test_caller_needs_the_permissions_of_the_fallback(desk: Accounting) -> None:
    entry = TokenEntry(
        sha256=token_hash("acc_ann"), caller="ann", permissions=["agent.invoke", "agent.read"]
    )
    app = create_app(desk.agent, public_url="http://desk", verifier=StaticTokens([entry]))
    async with app.lifespan():
        response = await post(app, "/run", packet(fallback="write_off"), "acc_ann")
    assert response.status_code == 403
    assert desk.fetched == []


def test_check_that_raises_is_logged_and_not_met(caplog: pytest.LogCaptureFixture) -> None:
    def broken(outputs: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
        return bool(outputs["amount"] / 0)

    delegation = Delegation(success_conditions=("paid",), fallback="notify")
    assert judge_conditions(delegation, {"amount": 1}, {}, {"paid": broken}) == {"paid": False}
    assert "'paid'" in caplog.text
    assert "ZeroDivisionError" in caplog.text
