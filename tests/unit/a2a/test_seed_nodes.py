"""The six nodes of the specification: alone, in an agent tree, as a tool and as a served intent."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import seed_nodes
from agent_support import WHO, results
from http_app import served

from acc import Agent, Part, Runner, SequentialAgent
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.contracts import FunctionNode, IntentAgent, ToolNode, intent, run_agent
from acc.testing import ScriptedModel, call

ANSWER = {"summary": "短い", "answer": "42"}


class Router(seed_nodes.SummaryRouterNode):
    """The router of section 4.2; other agents answer at once."""

    def call_agent(self, *, url: str, payload: Any, **options: Any) -> dict[str, Any]:
        assert (url, payload["intent"]) == (
            "https://legal-summarizer-agent/run",
            "summarize_legal",
        )
        return ANSWER


class Retriable(seed_nodes.RetriableCallNode):
    """The node of section 13.3; other agents answer at once."""

    def call_agent(self, *, url: str, payload: Any, **options: Any) -> dict[str, Any]:
        return ANSWER


class Case(NamedTuple):
    """A node, its inputs and outputs."""

    make: Callable[[], FunctionNode | ToolNode]
    inputs: dict[str, Any]
    outputs: dict[str, Any]


CASES = {
    "summarize_text": Case(
        seed_nodes.SummarizeTextNode,
        {"text": "本文", "length": "short"},
        {"summary": "本文..."},
    ),
    "router": Case(Router, {"doc_type": "legal", "text": "本文"}, {"summary": "短い"}),
    "resolve_network_issue": Case(
        lambda: intent(seed_nodes.resolve_network_issue), {}, {"action": "run_diagnostics_check"}
    ),
    "retriable": Case(Retriable, {"query": "?"}, {"answer": "42"}),
    "publish_log": Case(
        seed_nodes.PublishLogNode,
        {"request_id": "r-1", "message": "hello"},
        {"status": "success", "log_id": "r-1"},
    ),
    "embedding": Case(seed_nodes.EmbeddingNode, {"text": "ab"}, {"embedding": [97.0, 98.0]}),
}

every_node = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(autouse=True)
def empty_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what the nodes share with other tests."""
    monkeypatch.setattr(seed_nodes, "redis", seed_nodes.Counters())
    monkeypatch.setattr(seed_nodes, "sent_messages", [])


@every_node
def test_node_runs_alone(case: Case) -> None:
    node, context = case.make(), {"caller": "agent://test", "trace_id": "t-1"}
    assert node.run(dict(case.inputs), {}, context) == case.outputs
    assert run_agent(node, {"inputs": case.inputs, "context": context}) == case.outputs


@every_node
async def test_node_runs_in_an_agent_tree(case: Case) -> None:
    agent = SequentialAgent(name="pipeline", sub_agents=[case.make().as_agent()])
    result = await Runner(agent).run(Part(data=case.inputs), **WHO)
    assert json.loads(result.text) == case.outputs


@every_node
async def test_node_is_a_tool(case: Case) -> None:
    node: Any = case.make()
    model = ScriptedModel(call(node.contract.name, **case.inputs), "done")
    result = await Runner(Agent(name="desk", model=model, tools=[node])).run("go", **WHO)
    (found,) = results(result)
    assert found == case.outputs


@every_node
async def test_node_is_a_served_intent(case: Case) -> None:
    node = case.make()
    desk = IntentAgent(name="desk", description="Serves the node.", intents=[node])
    body = {"intent": node.contract.name, "inputs": case.inputs}
    async with served(create_app(desk)) as client:
        over_http = await client.http.post("/run", json=body)
        assert (over_http.status_code, over_http.json()) == (200, case.outputs)
        seed_nodes.redis.values.clear()
        params = {"inputs": case.inputs}
        over_rpc = await client.rpc(node.contract.name, params)
        assert over_rpc.json()["result"] == case.outputs


async def test_section_11_3_debug_mode_is_for_permitted_callers() -> None:
    entries = [
        TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name, permissions=permissions)
        for name, permissions in (
            ("developer", ("agent.invoke", "debug")),
            ("customer", ("agent.invoke",)),
        )
    ]
    desk = IntentAgent(
        name="desk", description="Reports.", intents=[seed_nodes.ReportSummaryNode()]
    )
    body = {
        "intent": "report_summary",
        "inputs": {"section": "a"},
        "context": {"debug_mode": True},
    }
    async with served(create_app(desk, verifier=StaticTokens(entries))) as client:
        answers = [
            await client.http.post(
                "/run", json=body, headers={"Authorization": f"Bearer acc_{name}"}
            )
            for name in ("developer", "customer")
        ]
    assert answers[0].json() == {"summary": "[DEBUG] Summary would go here."}
    assert answers[1].status_code >= 400  # the address of the specification does not exist
