"""Contracts from types, functions and agents, and calls of intents in this process."""

import asyncio
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from agent_support import WHO, Does
from seed_nodes import PublishLogNode, SummarizeTextNode, resolve_network_issue

from acc import (
    Agent,
    BaseAgent,
    FunctionAgent,
    InvalidInput,
    InvalidTree,
    Part,
    RunContext,
    Runner,
    approve,
)
from acc.contracts import (
    Field,
    IntentAgent,
    IntentContract,
    Intents,
    InvalidInputs,
    InvalidOutputs,
    UnknownIntent,
    contract_of_agent,
    intent,
    intent_message,
    object_schema,
    run_agent,
    run_agent_async,
)
from acc.domain.errors import PermissionDenied
from acc.testing import ScriptedModel


@intent
def route_summary(text: str, doc_type: str) -> str:
    return f"{doc_type}: {text}"


@dataclass
class DataclassOrder:
    item: str
    count: int = 1


class TypedDictOrder(TypedDict):
    item: str
    count: int


class StructOrder(msgspec.Struct):
    item: str
    count: int = 1


class ModelOrder(pydantic.BaseModel):
    item: str
    count: int = 1


@pytest.mark.parametrize("kind", [DataclassOrder, TypedDictOrder, StructOrder, ModelOrder])
def test_types_with_fields_declare_inputs(kind: Any) -> None:
    schema = object_schema(kind)
    assert schema["properties"]["item"]["type"] == "string"
    assert schema["properties"]["count"]["type"] == "integer"
    assert "item" in schema["required"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("declared", [str, list[int], {"a": 3}, {"text": "str"}])
def test_declarations_without_fields_are_rejected(declared: Any) -> None:
    with pytest.raises(InvalidInput):
        object_schema(declared)


@pytest.mark.parametrize("name", ["", "1st", "a b", "x" * 129, 3, "message/send"])
def test_invalid_intent_names_are_rejected(name: Any) -> None:
    with pytest.raises(InvalidInput, match="name of an intent"):
        IntentContract(name=name)


def test_schema_that_is_not_of_an_object_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="input_schema"):
        IntentContract(name="a", input_schema={"type": "string"})


def test_typed_function_declares_its_contract() -> None:
    @intent(idempotent=True, permissions=["orders"])
    def place(item: str, size: Literal["s", "l"], count: int = 1) -> DataclassOrder:
        """Place an order.

        Args:
            item: What is ordered
        """
        return DataclassOrder(item=f"{item}-{size}", count=count)

    contract = place.contract
    assert contract.description == "Place an order."
    assert contract.required_inputs == ("item", "size")
    assert contract.input_fields["item"]["description"] == "What is ordered"
    assert set(contract.output_fields) == {"item", "count"}
    assert contract.idempotent
    assert place.run({"item": "tea", "size": "s"}, {}, {}) == {"item": "tea-s", "count": 1}
    with pytest.raises(InvalidInputs, match="must be one of l, s"):
        place.run({"item": "tea", "size": "m"}, {}, {})


def test_function_with_a_simple_result_has_the_output_field_result() -> None:
    @intent
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    assert add.run({"a": 1, "b": 2}, {}, {}) == {"result": 3}
    assert add.contract.output_fields["result"] == {"type": "integer"}


def test_nested_types_are_converted_to_the_types_of_the_function() -> None:
    @intent
    async def total(orders: list[DataclassOrder], extra: ModelOrder) -> int:
        """Count the ordered items."""
        return sum(order.count for order in orders) + extra.count

    outputs = asyncio.run(
        total.run(
            {"orders": [{"item": "a", "count": 2}], "extra": {"item": "b", "count": 3}}, {}, {}
        )
    )
    assert outputs == {"result": 5}
    with pytest.raises(InvalidInputs) as caught:
        total.run({"orders": [{"count": 2}], "extra": {"item": "b"}}, {}, {})
    assert caught.value.violations[0].field == "orders[0].item"


def review_agent() -> IntentAgent:
    @intent(outputs={"sentiment": Field(type=Literal["positive", "negative"])})
    def analyze_sentiment(review: str) -> dict[str, str]:
        """Say whether a review is positive."""
        return {"sentiment": "positive" if "loved" in review else "negative"}

    return IntentAgent(
        name="review_agent", intents=[analyze_sentiment, SummarizeTextNode(), PublishLogNode()]
    )


#: The request of section 6.2.
SEED_BODY = {
    "intent": "analyze_sentiment",
    "inputs": {"review": "I absolutely loved the performance and story arc!"},
    "memory": {},
    "context": {"user_id": "user_456", "timestamp": "2025-07-04T10:02:00Z"},
}


def test_section_6_2_run_agent_returns_the_outputs() -> None:
    assert run_agent(agent=review_agent(), payload=SEED_BODY) == {"sentiment": "positive"}


async def test_section_6_2_run_agent_works_in_a_thread_with_an_event_loop() -> None:
    agent = review_agent()
    assert run_agent(agent=agent, payload=SEED_BODY) == {"sentiment": "positive"}
    assert await run_agent_async(agent, SEED_BODY) == {"sentiment": "positive"}


def test_node_can_be_run_with_a_payload_without_an_intent() -> None:
    assert run_agent(SummarizeTextNode(), {"inputs": {"text": "abc", "length": "long"}}) == {
        "summary": "abc"
    }


def test_session_of_the_context_is_continued() -> None:
    node = intent(resolve_network_issue)
    payload = {"inputs": {}, "context": {"session_id": "s-1", "user_id": "u"}}
    actions = [run_agent(node, payload)["action"] for _ in range(4)]
    assert actions[2:] == ["run_diagnostics_check", "escalate_to_support"]
    assert run_agent(node, {"inputs": {}})["action"] == "run_diagnostics_check"
    started = {"inputs": {}, "memory": {"network_diagnostics": 3}}
    assert run_agent(node, started)["action"] == "escalate_to_support"


@pytest.mark.parametrize(
    ("payload", "place", "field"),
    [
        ({"intent": "summarize_text", "inputs": {"length": "short"}}, "inputs", "text"),
        ({"intent": "summarize_text", "inputs": []}, "request", "inputs"),
        ({"intent": "summarize_text", "memory": 3}, "request", "memory"),
        ({"inputs": {}}, "request", "intent"),
        ({"intent": 3}, "request", "intent"),
        ({"intent": "summarize_text", "input": {}}, "request", "input"),
        ([], "request", ""),
        ({"intent": "summarize_text", "inputs": {"text": "a"}, "context": 3}, "context", ""),
        (
            {"intent": "summarize_text", "inputs": {"text": "a"}, "context": {"caller": 3}},
            "context",
            "caller",
        ),
        (
            {"intent": "summarize_text", "inputs": {"text": "a"}, "context": {"timestamp": "now"}},
            "context",
            "timestamp",
        ),
        (
            {"intent": "summarize_text", "inputs": {"text": "a"}, "context": {"permissions": "a"}},
            "context",
            "permissions",
        ),
        (
            {"intent": "summarize_text", "inputs": {"text": "a"}, "memory": {"user:name": "x"}},
            "memory",
            "user:name",
        ),
    ],
)
def test_section_7_3_invalid_payloads_are_rejected(payload: Any, place: str, field: str) -> None:
    with pytest.raises(InvalidInputs) as caught:
        run_agent(review_agent(), payload)
    assert (caught.value.place, caught.value.violations[0].field) == (place, field)


def test_unknown_intent_lists_the_known_ones() -> None:
    with pytest.raises(UnknownIntent, match="analyze_sentiment"):
        run_agent(review_agent(), {"intent": "sing", "inputs": {}})


async def test_rejected_call_leaves_no_session() -> None:
    runner = Runner(review_agent())
    with pytest.raises(InvalidInputs):
        await runner.run(**WHO, message=intent_message("summarize_text", {}))
    assert await runner.events(**WHO) == ()


async def test_data_for_an_agent_with_a_contract_is_validated_before_it_is_stored() -> None:
    runner = Runner(SummarizeTextNode().as_agent())
    with pytest.raises(InvalidInputs):
        await runner.run(**WHO, message=Part(data={"txt": "a"}))
    assert await runner.events(**WHO) == ()
    assert (await runner.run(**WHO, message=Part(data={"text": "a"}))).text == '{"summary":"a..."}'


async def test_agent_with_input_schema_answers_an_intent() -> None:
    model = ScriptedModel("two cups of tea")
    agent = Agent(
        name="orders", description="Takes orders.", model=model, input_schema=DataclassOrder
    )
    runner = Runner(agent)
    with pytest.raises(InvalidInputs):
        await runner.run(**WHO, message=intent_message("orders", {"count": 2}))
    result = await runner.run(**WHO, message=intent_message("orders", {"item": "tea", "count": 2}))
    assert result.text == "two cups of tea"
    assert "tea" in str(model.requests[0].query) + str(model.requests[0].messages)
    contract = contract_of_agent(agent)
    assert contract is not None
    assert list(contract.output_fields) == ["text"]
    assert await run_agent_async(
        Runner(Agent(name="orders", model=ScriptedModel("ok"), input_schema=DataclassOrder)),
        {"inputs": {"item": "tea"}},
    ) == {"text": "ok"}


@dataclass
class Bill:
    total: int


class ReturnsDict(BaseAgent):
    async def run(self, ctx: RunContext) -> dict[str, Any]:
        return {"total": 7, "items": ["お茶"]}


class ReturnsFields(BaseAgent):
    async def run(self, ctx: RunContext) -> Bill | None:
        return Bill(total=7)


class ReturnsWithoutAnnotation(BaseAgent):
    async def run(self, ctx):  # type: ignore[no-untyped-def]
        return {"total": 7}


@pytest.mark.parametrize(
    ("kind", "outputs", "fields"),
    [
        (ReturnsDict, {"total": 7, "items": ["お茶"]}, []),
        (ReturnsFields, {"total": 7}, ["total"]),
        (ReturnsWithoutAnnotation, {"total": 7}, []),
    ],
)
async def test_agent_with_input_schema_may_return_an_object(
    kind: Any, outputs: dict[str, Any], fields: list[str]
) -> None:
    agent = kind(name="bills", input_schema=DataclassOrder)
    assert await run_agent_async(agent, {"inputs": {"item": "tea"}}) == outputs
    contract = contract_of_agent(agent)
    assert contract is not None
    assert list(contract.output_fields) == fields
    with pytest.raises(InvalidInputs):
        await run_agent_async(agent, {"inputs": {"count": 2}})


@pytest.mark.parametrize("returned", [{"total": 7}, "seven"])
async def test_function_agent_may_return_an_object_or_a_text(returned: Any) -> None:
    def bill(message):  # type: ignore[no-untyped-def]
        return returned

    agent = FunctionAgent(bill, input_schema=DataclassOrder)
    outputs = await run_agent_async(agent, {"inputs": {"item": "tea"}})
    assert outputs == (returned if isinstance(returned, dict) else {"text": returned})


async def test_outputs_of_an_agent_are_validated_when_it_answers_an_intent() -> None:
    @dataclass
    class Answer:
        total: int

    agent = Does(name="sums", input_schema=DataclassOrder, do=lambda ctx: '{"total": "many"}')
    agent.output_schema = Answer  # type: ignore[attr-defined]
    with pytest.raises(InvalidOutputs) as caught:
        await run_agent_async(agent, {"inputs": {"item": "tea"}})
    assert (caught.value.agent, caught.value.violations[0].field) == ("sums", "total")


async def test_context_reaches_the_call_the_events_and_the_node() -> None:
    seen: list[Any] = []

    @intent
    def look(inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
        """Record the context."""
        seen.append(context)
        return {}

    runner = Runner(look.as_agent())
    context = {
        "caller": "agent:research_planner",
        "timestamp": "2025-07-04T11:00:00Z",
        "request_id": "request-982731",
        "trace_id": "trace-3fb2b1",
        "user_id": "user-12081",
        "permissions": ["read:docs"],
        "session_id": "s1",
        "debug_mode": True,
    }
    await run_agent_async(runner, {"inputs": {}, "context": context})
    expected = {key: value for key, value in context.items() if key != "debug_mode"}
    assert seen == [expected]
    events = await runner.events(user_id="user-12081", session_id="s1")
    assert {(event.request_id, event.trace_id, event.caller) for event in events} == {
        ("request-982731", "trace-3fb2b1", "agent:research_planner")
    }


async def test_context_is_limited_to_the_keys_of_the_contract() -> None:
    seen: list[Any] = []

    @intent(context=["caller", "trace_id"])
    def look(inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
        """Record the context."""
        seen.append(context)
        return {}

    context = {"caller": "agent://a", "trace_id": "t", "user_id": "u", "stage": "extracted"}
    await run_agent_async(look, {"inputs": {}, "context": context})
    assert seen == [{"caller": "agent://a", "trace_id": "t"}]


async def test_call_without_a_required_permission_is_denied() -> None:
    @intent(permissions=["pay"])
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    call = {"inputs": {"amount": 3}, "context": {"permissions": ["read"]}}
    with pytest.raises(PermissionDenied, match="'pay'"):
        await run_agent_async(pay, call)
    call["context"] = {"permissions": ["pay"]}
    assert await run_agent_async(pay, call) == {"result": 3}


def test_two_agents_with_one_intent_are_rejected() -> None:
    with pytest.raises(InvalidTree, match="summarize_text"):
        IntentAgent(
            name="desk",
            intents=[SummarizeTextNode(), SummarizeTextNode().as_agent(name="other")],
        )


async def test_message_without_an_intent_is_rejected_if_there_are_several() -> None:
    runner = Runner(review_agent())
    with pytest.raises(InvalidInputs, match="names no intent; this agent has: .*analyze_sentiment"):
        await runner.run(**WHO, message="hello")
    assert await runner.events(**WHO) == ()


async def test_section_7_3_text_without_the_other_required_inputs_is_rejected() -> None:
    runner = Runner(route_summary.as_agent())
    with pytest.raises(InvalidInputs, match="Missing required field 'doc_type' in inputs"):
        await runner.run(**WHO, message="a text")
    assert await runner.events(**WHO) == ()
    await runner.update_state({"doc_type": "legal"}, **WHO)
    assert "legal: a text" in (await runner.run(**WHO, message="a text")).text


async def test_callback_may_add_inputs_that_a_text_lacks() -> None:
    def add(ctx: RunContext) -> None:
        ctx.state["doc_type"] = "news"

    agent = route_summary.as_agent()
    agent.before_agent_callback = add
    assert "news: a text" in (await Runner(agent).run(**WHO, message="a text")).text


def test_intents_of_a_tree_are_those_of_the_root_and_its_sub_agents() -> None:
    agent = review_agent()
    assert Intents(agent).names == ("analyze_sentiment", "summarize_text", "publish_log")
    assert "summarize_text" in Intents(agent)
    inner = Does(name="inner", sub_agents=[SummarizeTextNode().as_agent()])
    assert Intents(Does(name="outer", sub_agents=[inner])).names == ()


async def test_intent_that_pauses_is_resumed() -> None:
    async def ask(ctx: RunContext) -> str:
        answer = await ctx.request_input("how many?")
        return f"{answer.value} x {ctx.parts[0].data['item']}"

    agent = IntentAgent(
        name="desk", intents=[Does(name="order", input_schema=DataclassOrder, do=ask)]
    )
    runner = Runner(agent)
    paused = await runner.run(**WHO, message=intent_message("order", {"item": "tea"}))
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id, value="2"))
    assert done.text == "2 x tea"


async def test_options_may_be_attributes_of_the_class() -> None:
    class Pay(BaseAgent):
        description = "Pays an amount."
        input_schema = {"type": "object", "required": ["amount"]}
        flow: Literal["strict", "ask", "off"] | None = "strict"

        async def run(self, ctx: RunContext) -> dict[str, Any]:
            return {"paid": True}

    agent = Pay(name="pay")
    assert (agent.description, agent.flow) == ("Pays an amount.", "strict")
    assert Pay(name="pay", flow="ask").flow == "ask"
    assert await run_agent_async(agent, {"inputs": {"amount": 5}}) == {"paid": True}
    with pytest.raises(InvalidInputs, match="amount"):
        await run_agent_async(agent, {"inputs": {}})


async def test_context_that_is_no_json_is_rejected() -> None:
    with pytest.raises(InvalidInputs, match="JSON"):
        await run_agent_async(
            SummarizeTextNode(), {"inputs": {"text": "a"}, "context": {"o": object()}}
        )
