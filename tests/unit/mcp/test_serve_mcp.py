"""Agents as tools of MCP clients."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from acc import Agent, BaseAgent, RequestKind, RunContext, Runner, tool
from acc.application.use_cases.serve_mcp import (
    ServeMcpUseCase,
    detached_copy,
    form_answer,
    form_schema,
    progress_text,
)
from acc.domain.errors import InvalidInput, NotFound
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.content import Part, ToolCall, text_part
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.testing import ScriptedModel, call


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def offer(*script: Any) -> ServeMcpUseCase:
    agent = Agent(name="till", model=ScriptedModel(*script), tools=[pay])
    return ServeMcpUseCase({"till": Runner(agent)})


async def test_calls_continue_a_conversation() -> None:
    offered = offer("一", "二")
    assert offered.agents == {"till": "Talk to the agent till."}
    first = await offered.call("till", {"message": "やあ"})
    second = await offered.call(
        "till", {"message": "go on", "conversation_id": first.conversation_id}
    )
    assert (first.text, second.text, second.status) == ("一", "二", "completed")
    assert first.conversation_id == second.conversation_id
    await offered.aclose()


async def test_unknown_conversation_is_noted() -> None:
    offered = offer("一", "二", "三")
    first = await offered.call("till", {"message": "やあ"})
    assert first.note == ""
    for note in ("Conversation lost does not exist; earlier messages are unknown.", ""):
        turn = await offered.call("till", {"message": "go on", "conversation_id": "lost"})
        assert (turn.status, turn.conversation_id, turn.note) == ("completed", "lost", note)


async def test_waiting_conversation_describes_how_to_answer() -> None:
    offered = offer(call("pay", amount=3), "done", call("pay", amount=4), "no")
    turn = await offered.call("till", {"message": "pay", "conversation_id": "c"})
    assert turn.is_error and turn.status == "input_required"
    assert 'May pay be called? pay {"amount":3}' in turn.text
    again = await offered.call("till", {"message": "well?", "conversation_id": "c"})
    assert again == replace(turn, note="") == await offered.pending("till", "c")
    answers = [{"request_id": turn.requests[0].id}]
    done = await offered.call("till", {"conversation_id": "c", "answers": answers})
    assert done.text == "done" and not done.is_error
    assert (await offered.pending("till", "c")).text.endswith("has no pending requests")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"message": 3}, "Expected `str`"),
        ({"what": "x"}, "unknown field"),
        ({"message": "x", "conversation_id": "a\nb"}, "at most 128"),
        ({"message": "x", "conversation_id": "a" * 200}, "at most 128"),
        ({}, "invalid_input: the message is empty"),
        ({"conversation_id": "c", "answers": [{"request_id": "r"}]}, "nothing_pending"),
    ],
)
async def test_invalid_call_becomes_error_result(
    arguments: Mapping[str, Any], expected: str
) -> None:
    turn = await offer("x").call("till", arguments)
    assert turn.is_error and expected in turn.text


async def test_unknown_agent_is_not_found() -> None:
    with pytest.raises(NotFound, match="tools: till"):
        await offer().call("other", {})
    with pytest.raises(NotFound):
        await offer().pending("other", "c")
    with pytest.raises(InvalidInput, match="at least one agent"):
        ServeMcpUseCase({})


def request(kind: RequestKind, **fields: Any) -> InputRequest:
    return InputRequest(id="r", kind=kind, agent="a", message="どうしますか", **fields)


def test_form_schema_has_flat_fields() -> None:
    flat = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    deep = {"type": "object", "properties": {"n": {"type": "array"}}}
    assert form_schema(request(RequestKind.AUTHORIZATION)) is None
    confirmation = form_schema(request(RequestKind.CONFIRMATION)) or {}
    assert set(confirmation["properties"]) == {"approve", "reason"}
    assert form_schema(request(RequestKind.INPUT, schema=flat)) == flat
    for schema in ({}, deep):
        free = form_schema(request(RequestKind.INPUT, schema=schema)) or {}
        assert free["required"] == ["answer"]
    assert request(RequestKind.INPUT, tool="t").question == "どうしますか"


def test_form_answer_converts_submitted_form() -> None:
    ask, confirm = request(RequestKind.INPUT), request(RequestKind.CONFIRMATION)
    own = request(RequestKind.INPUT, schema={"properties": {"answer": {"type": "string"}}})
    assert form_answer(ask, "cancel", None) is None
    assert form_answer(ask, "decline", None) == {"request_id": "r", "verdict": "deny"}
    assert form_answer(ask, "accept", {"answer": "はい"}) == {"request_id": "r", "value": "はい"}
    assert form_answer(ask, "accept", {"n": 1}) == {"request_id": "r", "value": {"n": 1}}
    assert form_answer(own, "accept", {"answer": "x"}) == {
        "request_id": "r",
        "value": {"answer": "x"},
    }
    yes = form_answer(confirm, "accept", {"approve": True, "reason": "ok"})
    assert yes == {"request_id": "r", "verdict": "approve", "reason": "ok"}
    no = form_answer(confirm, "accept", {"approve": "yes"})
    assert no is not None and no["verdict"] == "deny"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": EventKind.PROGRESS, "parts": text_part("半分")}, "a: 半分"),
        (
            {"kind": EventKind.TOOL_CALLS, "parts": (Part(call=ToolCall(id="1", name="t")),)},
            "a calls t",
        ),
        (
            {"kind": EventKind.TRANSFER, "actions": EventActions(transfer_to_agent="b")},
            "a transfers to b",
        ),
        ({"kind": EventKind.MESSAGE, "parts": text_part("secret")}, "a has answered"),
        ({"kind": EventKind.MESSAGE, "parts": text_part("secret"), "author": "user"}, ""),
        ({"kind": EventKind.STATE}, ""),
    ],
)
def test_progress_text_contains_no_content(fields: Any, expected: str) -> None:
    assert progress_text(Event(**{"run_id": "r", "author": "a", **fields})) == expected


class Odd(BaseAgent):
    """An agent with its own constructor."""

    def __init__(self, size: int) -> None:
        super().__init__(name="odd")
        self.size = size


@dataclass(kw_only=True, eq=False)
class Echo(BaseAgent):
    """Echoes its message."""

    async def run(self, ctx: RunContext) -> str:
        return ctx.message


async def test_detached_copy_is_a_new_root() -> None:
    leaf = Echo(name="leaf", description="x")
    middle = Agent(name="middle", description="y", sub_agents=[leaf], model=ScriptedModel("hi"))
    root = Agent(name="root", sub_agents=[middle])
    alone = detached_copy(middle)
    assert alone.parent is None and middle.parent is root
    assert alone.sub_agents[0].parent is alone and leaf.parent is middle
    done = await ServeMcpUseCase({"middle": Runner(alone)}).call("middle", {"message": "x"})
    assert done.text == "hi"
    with pytest.raises(InvalidInput, match="'odd' cannot be served separately"):
        detached_copy(Odd(3))
