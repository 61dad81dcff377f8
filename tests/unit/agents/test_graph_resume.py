"""Resumed graphs replay the edges that were taken."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from agent_support import WHO, Does, approve_all, counts, escalates, messages, says

from acc import (
    Agent,
    Edge,
    EventKind,
    GraphAgent,
    LoopAgent,
    ParallelAgent,
    RunContext,
    Runner,
    RunResult,
    RunStatus,
    SequentialAgent,
    approve,
    deny,
    tool,
)
from acc.domain.errors import ReplayMismatch
from acc.testing import ScriptedModel, call


def asks(name: str) -> Does:
    """Return an agent that asks, counts its answers in the state, and says what it was told."""

    async def ask(ctx: RunContext) -> str:
        answer = await ctx.request_input(f"{name}?")
        ctx.state[name] = ctx.state.get(name, 0) + 1
        return answer.verdict.value

    return Does(name=name, do=ask)


def is_gold(state: Mapping[str, Any]) -> bool:
    return state.get("user:tier") == "gold"


def shop(is_express: Callable[[Mapping[str, Any]], Any] = is_gold) -> GraphAgent:
    """Return a graph in which a standard order waits for a person, and an express one does not."""
    return GraphAgent(
        name="shop",
        sub_agents=[says("intake"), counts("standard", "n"), asks("ship"), counts("express", "n")],
        edges=[
            Edge("intake", "express", when=is_express),
            Edge("intake", "standard", otherwise=True),
            ("standard", "ship"),
        ],
    )


async def routes(runner: Runner) -> list[dict[str, Any]]:
    """Return all decisions on record, in their order."""
    stored = await runner.events(**WHO)
    return [dict(event.detail) for event in stored if event.kind is EventKind.ROUTE]


async def promote(runner: Runner, session_id: str) -> None:
    values = {"user:tier": "gold", "tier": "gold"}
    await runner.update_state(values, user_id=WHO["user_id"], session_id=session_id)


async def to_the_end(runner: Runner) -> RunResult:
    """Run a tree and say yes to one request after another."""
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        await promote(runner, "other")
        result = await runner.resume(**WHO, answers=approve(result.requests[0].id))
        assert result.state == await runner.state(**WHO)
    return result


@pytest.mark.parametrize("session_id", [WHO["session_id"], "other"])
async def test_external_writes_do_not_change_recorded_edges(
    session_id: str,
) -> None:
    runner = Runner(shop())
    paused = await runner.run(**WHO, message="buy")
    await promote(runner, session_id)
    denied = await runner.resume(**WHO, answers=deny(paused.requests[0].id))
    assert (denied.text, messages(denied), denied.state["n"]) == ("deny", [("ship", "deny")], 1)


async def test_condition_is_not_evaluated_again_on_resume() -> None:
    times: list[int] = []

    async def is_late(state: Mapping[str, Any]) -> bool:
        times.append(1)
        return len(times) > 1

    runner = Runner(shop(is_late))
    result = await approve_all(runner, await runner.run(**WHO, message="buy"))
    assert (result.text, len(times)) == ("approve", 1)
    assert await routes(runner) == [{"from": "intake", "to": ["standard"]}]


async def test_unconditional_edges_are_not_recorded() -> None:
    graph = GraphAgent(name="g", sub_agents=[says("a"), says("b")], edges=[("a", "b")])
    runner = Runner(graph)
    await runner.run(**WHO, message="go")
    assert not await routes(runner)


async def test_completed_graph_is_not_continued_on_resume() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), counts("b", "n")], edges=[("a", "b", is_gold)]
    )
    runner = Runner(SequentialAgent(name="s", sub_agents=[graph, asks("c")]))
    result = await to_the_end(runner)
    assert (result.text, result.state.get("n")) == ("approve", None)
    assert await routes(runner) == [{"from": "a", "to": []}]


async def test_each_round_of_cycle_replays_its_edges() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[counts("a", "n"), asks("gold"), asks("plain"), says("z")],
        edges=[
            Edge("a", "gold", when=is_gold),
            Edge("a", "plain", otherwise=True),
            ("plain", "a"),
            ("gold", "a", lambda state: state["n"] < 3),
            Edge("gold", "z", otherwise=True),
        ],
        max_steps=20,
    )
    runner = Runner(graph)
    result = await to_the_end(runner)
    assert (result.text, result.state["n"]) == ("z", 3)
    assert (result.state["plain"], result.state["gold"]) == (1, 2)
    ways = [f"{route['from']} {route['to'][0]}" for route in await routes(runner)]
    assert ways == ["a plain", "a gold", "gold a", "a gold", "gold z"]


async def test_edge_chosen_after_paused_branches_is_replayed() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), asks("b"), counts("c", "n"), says("d"), asks("e"), says("f")],
        edges=[
            *(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")),
            Edge("d", "e", when=lambda state: state["b"] + state["n"] == 2 and "e" not in state),
            Edge("d", "f", otherwise=True),
        ],
        joins=["d"],
    )
    chooses = GraphAgent(
        name="outer", sub_agents=[graph, says("y")], edges=[("g", "y", lambda state: "e" in state)]
    )
    runner = Runner(ParallelAgent(name="both", sub_agents=[chooses, asks("z")]))
    result = await to_the_end(runner)
    assert result.text == "outer: y\nz: approve"
    assert result.state["e"] == result.state["n"] == 1
    assert [route["to"] for route in await routes(runner)] == [["e"], ["y"]]


async def test_branch_writes_before_decision_are_stored_once() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), counts("b", "b"), counts("c", "c"), asks("d")],
        edges=[("a", "b"), ("a", "c"), ("b", "d", lambda state: state["b"] == 1)],
    )
    result = await to_the_end(Runner(graph))
    wrote = {key: result.state[key] for key in "bcd"}
    assert wrote == {"b": 1, "c": 1, "d": 1}


async def test_resume_fails_when_recorded_edge_is_missing() -> None:
    runner = Runner(shop())
    paused = await runner.run(**WHO, message="buy")
    changed = GraphAgent(
        name="shop",
        sub_agents=[says("intake"), asks("ship")],
        edges=[("intake", "ship", is_gold)],
    )
    later = Runner(changed, services=runner.services)
    with pytest.raises(ReplayMismatch, match="edge to standard"):
        await approve_all(later, paused)


async def test_escalation_after_resume_ends_outer_loop() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[asks("a"), escalates("b"), says("c")],
        edges=[("a", "b", is_gold), Edge("a", "c", otherwise=True)],
    )
    result = await to_the_end(Runner(LoopAgent(name="l", sub_agents=[graph], max_iterations=3)))
    assert (result.text, result.state["a"]) == ("b done", 1)


async def test_failed_single_node_is_not_repeated_on_resume() -> None:
    ran: list[str] = []
    looked: list[int] = []

    @tool
    def look() -> str:
        """Look."""
        looked.append(1)
        return "seen"

    def fail(ctx: RunContext, text: str) -> None:
        ran.append(ctx.agent.name)
        ctx.state["tried"] = ctx.state.get("tried", 0) + 1
        raise RuntimeError("broken")

    model = ScriptedModel(call("look"), "one", call("look"), "two")
    fragile = Agent(name="c2", model=model, tools=[look], memory=None, after_agent_callback=fail)
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), counts("c", "n"), fragile, asks("d"), says("e")],
        edges=[
            *(("a", "b"), ("a", "c"), ("b", "d"), ("c", "c2"), ("c2", "d")),
            Edge("d", "a", when=lambda state: state["n"] < 2),
            Edge("d", "e", otherwise=True),
        ],
        joins=["d"],
        max_steps=20,
        on_error="collect",
    )
    runner = Runner(graph)
    result = await to_the_end(runner)
    assert result.text == "e"
    assert (result.state["tried"], result.state["n"], result.state["d"]) == (2, 2, 2)
    assert (ran, looked) == (["c2", "c2"], [1, 1])
    assert (result.usage.llm_calls, result.usage.tool_calls) == (4, 2)
