"""Nodes alone, in agent trees and as tools."""

import asyncio
import logging
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest
import seed_nodes
from agent_support import WHO, results, says, turn
from pydantic import BaseModel
from seed_nodes import (
    EmbeddingNode,
    PublishLogNode,
    ReportSummaryNode,
    RetriableCallNode,
    SummarizeTextNode,
    SummaryRouterNode,
    resolve_network_issue,
)

from acc import Agent, LoopAgent, Part, RunConfig, Runner, SequentialAgent, approve
from acc.application.contracts.nodes import NodeServices
from acc.bootstrap.schemas import LazySchemaValidator
from acc.contracts import (
    Field,
    FunctionNode,
    IntentAgent,
    InvalidInputs,
    InvalidOutputs,
    ToolNode,
    ToolSchema,
    intent,
    run_agent,
    run_agent_async,
)
from acc.domain.errors import AgentFailed, InvalidInput, InvalidTree, RemoteFailed
from acc.testing import ScriptedModel, call


# Section 11.4: both tests of the specification, with the imports above
def test_summary_short_text() -> None:
    """単一ノードをモックを使ってユニットテスト"""
    node = SummarizeTextNode()
    inputs = {"text": "Google ADKは構造化された委譲をAgent間で実現します。"}
    memory: dict[str, Any] = {}
    context = {"trace_id": "test-1234", "caller": "test"}

    result = node.run(inputs, memory, context)

    assert "summary" in result
    assert len(result["summary"]) > 0


def test_summary_missing_required_field() -> None:
    """必須フィールド欠落のバリデーションテスト"""
    node = SummarizeTextNode()

    try:
        node.run({}, {}, {"trace_id": "test-1235"})
        assert False, "ValueError が発生すべき"  # noqa: B011
    except ValueError as e:
        assert "text" in str(e)


class RecordingCaller:
    """Answers calls of other agents and records them."""

    def __init__(self, answer: Mapping[str, Any] | Exception) -> None:
        self.answer = answer
        self.calls: list[tuple[str, Mapping[str, Any], str]] = []

    async def call(
        self,
        url: str,
        payload: Mapping[str, Any],
        *,
        token: str = "",
        timeout: float = 60.0,  # noqa: ASYNC109 - the port has it
        allow: Sequence[str] = (),
        trace_parent: str = "",
    ) -> Mapping[str, Any]:
        self.calls.append((url, payload, token))
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def services(caller: RecordingCaller) -> NodeServices:
    return NodeServices(schemas=LazySchemaValidator(), caller=caller)


def test_section_2_2_function_escalates_after_three_attempts() -> None:
    node = intent(resolve_network_issue)
    memory: dict[str, Any] = {}
    actions = [node.run({}, memory, {})["action"] for _ in range(4)]
    assert actions == [*["run_diagnostics_check"] * 3, "escalate_to_support"]
    assert node.contract.name == "resolve_network_issue"


async def test_section_2_2_function_uses_the_session_state_in_a_run() -> None:
    runner = Runner(intent(resolve_network_issue).as_agent())
    answers = [(await runner.run(**WHO, message="the network is down")).text for _ in range(4)]
    assert answers == [
        *['{"action":"run_diagnostics_check"}'] * 3,
        '{"action":"escalate_to_support"}',
    ]
    assert (await runner.state(**WHO))["network_diagnostics"] == 3


@pytest.mark.parametrize(
    ("kind", "url", "name"),
    [
        ("legal", "https://legal-summarizer-agent/run", "summarize_legal"),
        ("science", "https://science-summarizer-agent/run", "summarize_scientific"),
        ("other", "https://general-summarizer-agent/run", "summarize_generic"),
    ],
)
def test_section_4_2_router_calls_the_agent_for_the_document(
    kind: str, url: str, name: str
) -> None:
    caller = RecordingCaller({"summary": "要約"})

    class Router(SummaryRouterNode):
        services = services(caller)

    context = {"caller": "agent://desk", "trace_id": "t1"}
    outputs = Router().run({"doc_type": kind, "text": "本文"}, {}, context)
    assert outputs == {"summary": "要約"}
    assert caller.calls == [
        (url, {"intent": name, "inputs": {"text": "本文"}, "context": context}, "")
    ]


async def test_section_4_2_router_in_a_run_names_itself_as_the_caller() -> None:
    caller = RecordingCaller({"summary": "ok"})

    class Router(SummaryRouterNode):
        services = services(caller)

    agent = Router().as_agent(name="router")
    runner = Runner(agent)
    runner.services.intents = caller
    parts = [Part(data={"doc_type": "legal", "text": "x"})]
    assert (await runner.run(**WHO, message=parts)).text == '{"summary":"ok"}'
    sent = caller.calls[0][1]["context"]
    assert (sent["caller"], sent["on_behalf_of"]) == ("agent://router", "user://ann")
    assert sent["trace_id"]


def test_section_7_2_defaults_are_applied_and_outputs_returned() -> None:
    assert SummarizeTextNode().run({"text": "あ" * 300}, {}, {}) == {"summary": "あ" * 100 + "..."}
    assert SummarizeTextNode().run({"text": "b" * 300, "length": "long"}, {}, {}) == {
        "summary": "b" * 200
    }


@pytest.mark.parametrize(
    ("inputs", "field", "rule"),
    [
        ({"length": "short"}, "text", "required"),
        ({"text": 3}, "text", "type"),
        ({"text": None}, "text", "type"),
        ({"text": "a", "lenght": "short"}, "lenght", "unknown"),
        ([], "", "type"),
        ({1: 2}, "", "type"),
    ],
)
def test_section_7_3_invalid_inputs_are_rejected_before_the_node_runs(
    inputs: Any, field: str, rule: str
) -> None:
    with pytest.raises(InvalidInputs) as caught:
        SummarizeTextNode().run(inputs, {}, {})
    assert (caught.value.violations[0].field, caught.value.violations[0].rule) == (field, rule)
    assert caught.value.intent == "summarize_text"


def test_misspelled_field_names_the_right_one() -> None:
    with pytest.raises(InvalidInputs, match="did you mean 'length'"):
        SummarizeTextNode().run({"text": "a", "lenght": "short"}, {}, {})


def test_section_7_1_wrong_output_is_an_error_that_names_field_and_agent() -> None:
    class Wrong(ToolNode):
        schema_class = SummarizeTextNode.schema_class

        def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            return {"sumary": "x"}

    with pytest.raises(InvalidOutputs) as caught:
        Wrong().run({"text": "secret"}, {}, {})
    assert {one.field for one in caught.value.violations} == {"summary", "sumary"}
    assert caught.value.agent == "summarize_text"
    assert "secret" not in str(caught.value)


def test_missing_field_of_a_node_without_schema_is_an_error_of_the_caller() -> None:
    with pytest.raises(InvalidInputs) as caught:
        SummaryRouterNode().run({"doc_type": "legal"}, {}, {})
    assert str(caught.value) == "Missing required field 'text' in inputs."
    assert isinstance(caught.value, KeyError)


async def test_section_11_3_node_returns_its_own_answer_in_debug_mode() -> None:
    agent = SequentialAgent(name="report", sub_agents=[ReportSummaryNode().as_agent()])
    result = await turn(agent, config=RunConfig(debug=True))
    assert result.text == '{"summary":"[DEBUG] Summary would go here."}'


def test_section_12_2_repeated_request_is_skipped() -> None:
    seed_nodes.sent_messages.clear()
    node, memory = PublishLogNode(), {}  # type: ignore[var-annotated]
    inputs = {"request_id": "r-1", "message": "hello"}
    assert node.run(inputs, memory, {}) == {"status": "success", "log_id": "r-1"}
    assert node.run(inputs, memory, {}) == {"status": "skipped", "reason": "already_processed"}
    assert seed_nodes.sent_messages == ["hello"]


def test_section_12_3_hundred_and_first_call_is_refused() -> None:
    seed_nodes.redis.values.clear()
    node, context = EmbeddingNode(), {"caller": "agent://a"}
    for _ in range(100):
        assert node.run({"text": "ab"}, {}, context) == {"embedding": [97.0, 98.0]}
    with pytest.raises(Exception, match="Rate limit exceeded for agent://a"):
        node.run({"text": "ab"}, {}, context)
    assert seed_nodes.redis.lifetimes == {"rate:agent://a": 60}


def test_section_13_3_failed_calls_are_repeated_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    delays: list[float] = []
    monkeypatch.setattr("time.sleep", delays.append)
    caller = RecordingCaller(RemoteFailed("down"))

    class Retriable(RetriableCallNode):
        services = services(caller)

    with caplog.at_level(logging.WARNING, logger="acc.run.node"):
        outputs = Retriable().run({"query": "?"}, {}, {"trace_id": "t-9"})
    assert outputs == {"error": "Failed after 3 retries"}
    assert (len(caller.calls), delays) == (3, [1, 2])
    assert [getattr(record, "attempt") for record in caplog.records] == [1, 2, 3]  # noqa: B009
    assert {getattr(record, "trace_id") for record in caplog.records} == {"t-9"}  # noqa: B009
    assert '"error":"down"' in caplog.records[0].getMessage()


async def test_nodes_in_a_sequence_pass_their_outputs_by_field_name() -> None:
    class Shorten(ToolNode):
        class schema_class(ToolSchema):
            name = "shorten"
            description = "Shortens a summary."
            inputs = {"summary": Field(type=str)}
            outputs = {"title": Field(type=str)}

        def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            memory["shortened"] = True
            return {"title": inputs["summary"][:3]}

    agent = SequentialAgent(name="pipeline", sub_agents=[SummarizeTextNode(), Shorten()])  # type: ignore[list-item]
    runner = Runner(agent)
    assert (await runner.run(**WHO, message="abcdef")).text == '{"title":"abc"}'
    assert (await runner.state(**WHO))["shortened"] is True


async def test_node_as_a_tool_is_validated_and_called() -> None:
    model = ScriptedModel(
        call("summarize_text", length="short"), call("summarize_text", text="abc"), "done"
    )
    agent = Agent(name="writer", model=model, tools=[SummarizeTextNode()])  # type: ignore[list-item]
    result = await turn(agent)
    failed, summary = results(result)
    assert "text" in str(failed)
    assert summary == {"summary": "abc..."}
    assert result.text == "done"


async def test_completed_node_is_not_repeated_when_a_run_is_resumed() -> None:
    executed: list[str] = []

    @intent
    def charge(inputs: dict[str, Any]) -> dict[str, Any]:
        """Charge once."""
        executed.append("charge")
        return {"charged": True}

    agent = SequentialAgent(
        name="shop", sub_agents=[charge.as_agent(), says("thanks", confirm=True)]
    )
    runner = Runner(agent)
    paused = await runner.run(**WHO, message="buy")
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id))
    assert done.text == "thanks"
    assert executed == ["charge"]


async def test_node_in_a_loop_runs_in_every_round() -> None:
    loop = LoopAgent(
        name="loop", max_iterations=2, sub_agents=[intent(resolve_network_issue).as_agent()]
    )
    runner = Runner(loop)
    await runner.run(**WHO, message="down")
    assert (await runner.state(**WHO))["network_diagnostics"] == 2


async def test_memory_of_a_node_is_limited_to_its_contract() -> None:
    @intent(reads=["a*"], writes=["b"])
    def peek(inputs: dict[str, Any], memory: dict[str, Any]) -> dict[str, Any]:
        """Return what is visible."""
        memory["b"] = 1
        return {"seen": sorted(memory)}

    runner = Runner(peek.as_agent())
    await runner.update_state({"a1": 1, "secret": 2}, **WHO)
    assert (await runner.run(**WHO, message="?")).text == '{"seen":["a1"]}'

    @intent(writes=[])
    def write(inputs: dict[str, Any], memory: dict[str, Any]) -> dict[str, Any]:
        """Write without permission."""
        memory["x"] = 1
        return {}

    with pytest.raises(Exception, match="cannot be written"):
        await turn(write.as_agent())


async def test_async_node_runs_in_the_event_loop() -> None:
    loops: list[object] = []

    class Slow(FunctionNode):
        async def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            loops.append(asyncio.get_running_loop())
            await asyncio.sleep(0)
            return {"ok": True}

    assert (await turn(Slow().as_agent())).text == '{"ok":true}'
    assert loops == [asyncio.get_running_loop()]


async def test_blocking_call_in_an_async_node_is_explained() -> None:
    class Blocking(FunctionNode):
        async def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
            return self.call_agent(url="https://other/run", payload={"intent": "x"})

    with pytest.raises(InvalidInput, match="await self.call_agent_async"):
        await turn(Blocking().as_agent())


async def test_exception_in_a_node_names_the_node() -> None:
    @intent
    def broken(inputs: dict[str, Any]) -> dict[str, Any]:
        """Fail."""
        raise RuntimeError("boom")

    with pytest.raises(AgentFailed) as caught:
        await turn(broken.as_agent())
    assert caught.value.agent == "broken"


def test_class_without_schema_is_named_after_the_class() -> None:
    names = [
        node.contract.name
        for node in (SummaryRouterNode(), RetriableCallNode(), PublishLogNode(), EmbeddingNode())
    ]
    assert names == ["summary_router", "retriable_call", "publish_log", "embedding"]
    assert SummarizeTextNode().schema.name == "summarize_text"


def test_subclass_of_a_node_without_schema_is_named_after_itself() -> None:
    class LegalRouterNode(SummaryRouterNode):
        """Routes legal documents."""

    class Summarizer(SummarizeTextNode):
        """Summarizes in another way."""

    assert LegalRouterNode().contract.name == "legal_router"
    assert LegalRouterNode().contract.description == "Routes legal documents."
    assert Summarizer().contract.name == "summarize_text"


class Invoice(TypedDict):
    invoice_id: str


def test_typed_dict_declares_the_input_fields_of_a_node_function() -> None:
    @intent
    def fetch(inputs: Invoice) -> dict[str, Any]:
        """Fetch an invoice."""
        raise AssertionError("invalid inputs reach the function")

    agent = IntentAgent(name="a", intents=[fetch])
    with pytest.raises(InvalidInputs, match="'invoice_id'"):
        run_agent(agent, {"intent": "fetch", "inputs": {}})


@dataclass
class DataclassAmount:
    amount: int
    currency: str = "EUR"


class StructAmount(msgspec.Struct):
    amount: int
    currency: str = "EUR"


class ModelAmount(BaseModel):
    amount: int
    currency: str = "EUR"


class Total(TypedDict):
    total: int


@pytest.mark.parametrize("kind", [DataclassAmount, StructAmount, ModelAmount])
def test_type_with_fields_declares_the_inputs_of_a_node_function(kind: Any) -> None:
    executed: list[Any] = []

    def pay(inputs: Any, memory: dict[str, Any]) -> Any:
        """Pay an amount."""
        executed.append(inputs)
        return {"total": inputs.amount}

    pay.__annotations__ |= {"inputs": kind, "return": Total}
    for node in (intent(pay), intent(inputs=kind)(pay)):
        assert node.contract.required_inputs == ("amount",)
        assert set(node.contract.output_fields) == {"total"}
        with pytest.raises(InvalidInputs, match="'amount'"):
            run_agent(node, {"inputs": {"currency": "JPY"}})
        assert executed == []
        assert run_agent(node, {"inputs": {"amount": 3}}) == {"total": 3}
        assert executed.pop() == kind(amount=3)


def test_result_type_declares_the_outputs_of_a_node_function() -> None:
    @intent
    async def count(inputs: dict[str, Any]) -> Total:
        """Count."""
        return {"total": "secret"}  # type: ignore[typeddict-item]

    assert count.contract.required_inputs == ()
    with pytest.raises(InvalidOutputs, match="'total' in outputs must be an integer") as found:
        run_agent(count, {"inputs": {}})
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("kind", [str, list[str], int | None, set[str]])
def test_inputs_of_a_node_function_cannot_have_another_type(kind: Any) -> None:
    def count(inputs: Any) -> dict[str, Any]:
        return {}

    count.__annotations__["inputs"] = kind
    with pytest.raises(InvalidTree, match="must be a dict, or a type with fields"):
        intent(count)


@pytest.mark.parametrize(
    "kind", [dict, dict[str, int], Mapping[str, Any], MutableMapping, object, Any]
)
def test_mapping_as_inputs_of_a_node_function_declares_no_fields(kind: Any) -> None:
    def count(inputs: Any) -> dict[str, Any]:
        return dict(inputs)

    count.__annotations__["inputs"] = kind
    assert run_agent(intent(count), {"inputs": {"a": 1}}) == {"a": 1}


def test_docstring_of_a_node_describes_its_intent() -> None:
    assert seed_nodes.PublishLogNode().contract.description == "冪等性を保証するノード"
    assert seed_nodes.SummaryRouterNode().contract.description == ""
    assert seed_nodes.ReportSummaryNode().contract.description == ""

    class AuditNode(seed_nodes.PublishLogNode):
        """Publish an audit."""

    assert AuditNode().contract.description == "Publish an audit."


async def test_node_may_return_its_memory() -> None:
    @intent
    def look(inputs: dict[str, Any], memory: Any) -> Any:
        """Return the memory."""
        return memory

    payload = {"intent": "look", "inputs": {}, "memory": {"summary.day": "ok"}}
    assert await run_agent_async(look, payload) == {"summary.day": "ok"}
