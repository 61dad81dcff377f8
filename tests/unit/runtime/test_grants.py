"""Call context and grants of sub-agents."""

from collections.abc import Callable
from typing import Any

import pytest
from agent_support import WHO, Does, Writes, messages, results, says, turn

from acc import (
    Agent,
    CallContext,
    Grant,
    ParallelAgent,
    RouterAgent,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    tool,
)
from acc.domain.errors import StateNotGranted
from acc.testing import ScriptedModel, call

CALL = CallContext(
    request_id="req-7", trace_id="trace-7", caller="app://shop", permissions=frozenset({"a", "b"})
)


async def test_events_contain_request_trace_and_caller() -> None:
    @tool
    def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.save_artifact("n", "x")
        ctx.state["n"] = 1
        return "noted"

    agent = Agent(name="a", model=ScriptedModel(call("note"), "x"), tools=[note], memory="acc")
    both = ParallelAgent(name="p", sub_agents=[agent, says("b")])
    result = await turn(SequentialAgent(name="s", sub_agents=[both]), context=CALL)
    carried = {(e.request_id, e.trace_id, e.caller) for e in result.events}
    assert carried == {("req-7", "trace-7", "app://shop")}
    assert {e.run_id for e in result.events} == {result.run_id}


async def test_call_context_defaults_to_run_and_user() -> None:
    result = await turn(says("a"))
    carried = {(e.request_id, e.trace_id, e.caller) for e in result.events}
    assert carried == {(result.run_id, result.run_id, "user://ann")}


async def test_sub_agent_without_grant_has_full_access() -> None:
    def look(ctx: RunContext) -> str:
        assert ctx.call.permissions is not None
        return f"{ctx.user_id} {sorted(ctx.call.permissions)} {sorted(ctx.state)}"

    worker = Does(name="worker", do=look)
    steps = [Writes(name="w", values={"x": 1}), worker]
    result = await turn(SequentialAgent(name="s", sub_agents=steps), context=CALL)
    assert result.text == "ann ['a', 'b'] ['x']"


async def test_grant_restricts_state() -> None:
    def work(ctx: RunContext) -> str:
        ctx.state["out_1"] = sum(ctx.state.values())
        with pytest.raises(StateNotGranted, match="'doc_1' cannot be written"):
            ctx.state["doc_1"] = 0
        return str(dict(ctx.state))

    grants = {"worker": Grant(read=("doc_*",), write=("out_*",))}
    first = Writes(name="w", values={"doc_1": 1, "doc_2": 2, "secret": 3})
    steps = [first, Does(name="worker", do=work)]
    result = await turn(SequentialAgent(name="s", sub_agents=steps, grants=grants))
    assert result.text == "{'doc_1': 1, 'doc_2': 2}"
    assert result.state == {"doc_1": 1, "doc_2": 2, "secret": 3, "out_1": 3}


async def test_read_only_state_cannot_be_changed_in_place() -> None:
    def change(ctx: RunContext) -> None:
        ctx.state["list"].append("changed")

    steps = [Writes(name="w", values={"list": []}), Does(name="worker", do=change)]
    grants = {"worker": Grant(write=())}
    result = await turn(SequentialAgent(name="s", sub_agents=steps, grants=grants))
    assert result.state == {"list": []}


async def test_nested_grants_combine_in_branches() -> None:
    def look(ctx: RunContext) -> str:
        with pytest.raises(StateNotGranted):
            ctx.state["b"] = 0
        ctx.state["c"] = 1
        return f"{sorted(ctx.state)} {sorted(ctx.call.permissions or [])} {ctx.call.caller}"

    worker = Does(name="worker", do=look)
    inner = ParallelAgent(
        name="inner",
        sub_agents=[worker],
        grants={"worker": Grant(read=("b", "c"), permissions=frozenset({"b", "z"}))},
    )
    outer = SequentialAgent(
        name="outer",
        sub_agents=[Writes(name="w", values={"a": 1, "b": 2, "c": 3}), inner],
        grants={"inner": Grant(read=("a", "b"), write=("a", "c"))},
    )
    result = await turn(outer, context=CALL)
    assert dict(messages(result))["worker"] == "['b'] ['b'] agent://inner"
    assert result.state == {"a": 1, "b": 2, "c": 1}


async def test_permissions_cannot_be_extended() -> None:
    def look(ctx: RunContext) -> str:
        return f"{sorted(ctx.call.permissions or ['all'])}"

    async def visible_permissions(
        grant_permissions: frozenset[str] | None, caller_permissions: frozenset[str] | None
    ) -> str:
        context = CallContext(
            request_id="r", trace_id="t", caller="c", permissions=caller_permissions
        )
        agent = SequentialAgent(
            name="s",
            sub_agents=[Does(name="worker", do=look)],
            grants={"worker": Grant(permissions=grant_permissions)},
        )
        return (await turn(agent, context=context)).text

    assert await visible_permissions(frozenset({"a", "z"}), frozenset({"a", "b"})) == "['a']"
    assert await visible_permissions(frozenset({"a"}), None) == "['a']"
    assert await visible_permissions(None, frozenset({"a", "b"})) == "['a', 'b']"
    assert await visible_permissions(None, None) == "['all']"


async def test_grant_without_history_hides_conversation() -> None:
    model = ScriptedModel("x", repeat=True)
    worker = Agent(name="worker", model=model)
    agent = SequentialAgent(
        name="s", sub_agents=[says("before"), worker], grants={"worker": Grant(history=False)}
    )
    runner = Runner(agent)
    for message in ("one", "two"):
        await runner.run(**WHO, message=message)
    assert [(p.query, p.memory, len(p.messages)) for p in model.requests] == [
        ("one", "", 1),
        ("two", "", 1),
    ]


async def test_grant_without_identity_hides_user() -> None:
    @tool
    def who(ctx: ToolContext) -> str:
        """Tell."""
        return f"<{ctx.user_id}>"

    model = ScriptedModel(call("who"), "done")
    worker = Agent(name="worker", model=model, tools=[who], memory=None)
    hidden = Grant(identity=False)
    agent = SequentialAgent(name="s", sub_agents=[worker], grants={"worker": hidden})
    result = await turn(agent)
    assert results(result) == ["<>"]
    narrowed = next(e for e in result.events if e.author == "worker")
    assert narrowed.caller == "agent://s"


@tool(requires="pay")
def pay() -> str:
    """Pay."""
    return "paid"


def payer(name: str = "payer", **fields: Any) -> Agent:
    model = ScriptedModel(call("pay"), "done", call("pay"), "done")
    return Agent(name=name, description="Pays.", model=model, tools=[pay], memory=None, **fields)


def _transfers(name: str, child: Agent, **fields: Any) -> Agent:
    hand_over = call("transfer_to_agent", agent_name=child.name)
    script = [hand_over, "back"] * 2 if child.returns_control else [hand_over]
    model = ScriptedModel(*script, repeat=True)
    return Agent(
        name=name, description=name, model=model, sub_agents=[child], memory=None, **fields
    )


NONE = Grant(permissions=frozenset())
WAYS: dict[str, Callable[[], Any]] = {
    "to a child": lambda: _transfers("root", payer(), grants={"payer": NONE}),
    "to a grandchild by its parent's grant": lambda: _transfers(
        "root", _transfers("middle", payer(), grants={"payer": NONE})
    ),
    "to a grandchild by the root's grant": lambda: _transfers(
        "root", _transfers("middle", payer()), grants={"middle": NONE}
    ),
    "inside a workflow": lambda: SequentialAgent(
        name="root", sub_agents=[_transfers("middle", payer(), grants={"payer": NONE})]
    ),
    "inside a branch": lambda: ParallelAgent(
        name="root",
        sub_agents=[_transfers("middle", payer(), grants={"payer": NONE}), says("other")],
    ),
    "to one who returns control": lambda: _transfers(
        "root", payer(returns_control=True), grants={"payer": NONE}
    ),
    "by a router": lambda: RouterAgent(
        name="root", sub_agents=[payer()], grants={"payer": NONE}, by=lambda ctx: "payer"
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_grant_applies_for_every_delegation_and_turn(way: str) -> None:
    runner = Runner(WAYS[way]())
    for _ in range(2):
        result = await runner.run(**WHO, message="pay")
        refused = [content for content in results(result) if isinstance(content, dict)]
        assert refused == [{"error": "pay requires the permission 'pay'; the call lacks it"}]
        assert "paid" not in results(result)


async def test_transfer_to_parent_restores_its_permissions() -> None:
    child = Agent(
        name="child",
        description="Hands back.",
        model=ScriptedModel(call("transfer_to_agent", agent_name="root")),
        memory=None,
    )
    model = ScriptedModel(call("transfer_to_agent", agent_name="child"), call("pay"), "done")
    root = Agent(
        name="root",
        model=model,
        sub_agents=[child],
        tools=[pay],
        grants={"child": NONE},
        memory=None,
    )
    assert results(await turn(root))[-1] == "paid"
