"""GraphAgent: conditions, joins, cycles and concurrent steps."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from agent_support import Does, Writes, counts, escalates, events_of_kind, messages, says, turn

from acc import Edge, EventKind, GraphAgent, LoopAgent, RunContext, SequentialAgent
from acc.domain.errors import AgentFailed, BudgetExceeded, GraphStuck, StateConflict


def order(result: Any) -> list[str]:
    return [author for author, _ in messages(result)]


async def test_graph_follows_edges_from_first_node() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), says("c")],
        edges=[("a", "c"), Edge("c", "b")],
    )
    result = await turn(graph)
    assert order(result) == ["a", "c", "b"]
    assert result.text == "b"
    assert graph.all_edges == (Edge("a", "c"), Edge("c", "b"))


async def test_graph_starts_at_given_node() -> None:
    nodes = [says("a"), says("b")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[("b", "a")], start="b")
    assert order(await turn(graph)) == ["b", "a"]


@pytest.mark.parametrize(
    ("score", "way"), [(9, ["judge", "publish"]), (5, ["judge", "edit"]), (1, ["judge", "drop"])]
)
async def test_conditions_choose_edges(score: int, way: list[str]) -> None:
    async def is_middling(state: Mapping[str, Any]) -> bool:
        return bool(3 < state["score"] < 8)

    judge = Writes(name="judge", values={"score": score})
    graph = GraphAgent(
        name="g",
        sub_agents=[judge, says("publish"), says("edit"), says("drop")],
        edges=[
            ("judge", "publish", lambda state: state["score"] >= 8),
            Edge("judge", "edit", when=is_middling),
            Edge("judge", "drop", otherwise=True),
        ],
    )
    assert order(await turn(graph)) == way


async def test_graph_ends_when_no_edge_is_taken() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), says("b")], edges=[("a", "b", lambda state: False)]
    )
    assert order(await turn(graph)) == ["a"]


async def test_failing_condition_fails_the_graph() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), says("b")], edges=[("a", "b", lambda state: state["no"])]
    )
    with pytest.raises(AgentFailed, match="agent 'g' failed: KeyError: 'no'"):
        await turn(graph)


async def test_due_nodes_run_concurrently_and_join() -> None:
    barrier = asyncio.Barrier(2)

    async def meet(ctx: RunContext) -> str:
        await barrier.wait()
        ctx.state[ctx.agent.name] = ctx.branch
        return ctx.agent.name

    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=meet), Does(name="c", do=meet), says("d")],
        edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")],
        joins=["d"],
    )
    result = await asyncio.wait_for(turn(graph), 5)
    assert (order(result)[0], set(order(result)[1:3]), order(result)[3:]) == (
        "a",
        {"b", "c"},
        ["d"],
    )
    assert result.state == {"b": "g.b", "c": "g.c"}


async def test_node_without_join_runs_for_each_edge() -> None:
    nodes = [says("a"), says("b"), says("c"), counts("d", "n")]
    edges = [("a", "b"), ("a", "d"), ("b", "c"), ("c", "d")]
    result = await turn(GraphAgent(name="g", sub_agents=nodes, edges=edges))
    assert result.state == {"n": 2}


async def test_join_waits_for_paths_of_different_length() -> None:
    nodes = [says("a"), says("b"), says("c"), counts("d", "n")]
    edges = [("a", "b"), ("a", "d"), ("b", "c"), ("c", "d")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=edges, joins=["d"])
    result = await turn(graph)
    assert result.state == {"n": 1}
    assert order(result) == ["a", "b", "c", "d"]


async def test_answer_of_concurrent_step_has_all_answers() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), says("b"), says("c")], edges=[("a", "b"), ("a", "c")]
    )
    assert (await turn(graph)).text == "b: b\nc: c"


async def test_concurrent_nodes_writing_one_key_need_merge_rule() -> None:
    def graph(**fields: Any) -> GraphAgent:
        nodes = [says("a"), Writes(name="b", values={"x": 1}), Writes(name="c", values={"x": 2})]
        return GraphAgent(name="g", sub_agents=nodes, edges=[("a", "b"), ("a", "c")], **fields)

    with pytest.raises(StateConflict, match="b and c"):
        await turn(graph())
    assert (await turn(graph(merge={"x": "list"}))).state == {"x": [1, 2]}


async def test_cycle_ends_by_condition() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[counts("draft", "n"), says("review"), says("publish")],
        edges=[
            ("draft", "review"),
            ("review", "draft", lambda state: state["n"] < 3),
            Edge("review", "publish", otherwise=True),
        ],
        max_steps=20,
    )
    result = await turn(graph)
    assert order(result) == ["draft", "review"] * 3 + ["publish"]


async def test_cycle_without_end_exceeds_max_steps() -> None:
    graph = GraphAgent(name="g", sub_agents=[counts("a", "n")], edges=[("a", "a")], max_steps=4)
    with pytest.raises(BudgetExceeded, match=r"/g: the run reached its limit of max_steps \(4\)"):
        await turn(graph)


async def test_join_in_cycle_waits_in_each_round() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[counts("a", "rounds"), says("b"), says("c"), counts("d", "joined")],
        edges=[
            ("a", "b"),
            ("a", "c"),
            ("b", "d"),
            ("c", "d"),
            ("d", "a", lambda state: state["rounds"] < 2),
        ],
        joins=["d"],
        max_steps=20,
    )
    assert (await turn(graph)).state == {"rounds": 2, "joined": 2}


async def test_unreachable_join_raises_graph_stuck() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), says("c"), says("d")],
        edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d", lambda state: False)],
        joins=["d"],
    )
    with pytest.raises(GraphStuck, match="'g' .*'d' waits for c"):
        await turn(graph)


def _fail(ctx: RunContext) -> None:
    raise RuntimeError("broken")


async def test_failed_node_is_skipped_when_collecting_errors() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=_fail), says("c"), says("after_b"), says("d")],
        edges=[("a", "b"), ("a", "c"), ("b", "after_b"), ("c", "d")],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "c", "d"]


async def test_failed_node_fails_the_graph_by_default() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=_fail), says("c")],
        edges=[("a", "b"), ("a", "c")],
    )
    with pytest.raises(AgentFailed, match="agent 'b' failed"):
        await turn(graph)


async def test_escalation_ends_graph_and_outer_loop() -> None:
    graph = GraphAgent(name="g", sub_agents=[escalates("a"), says("b")], edges=[("a", "b")])
    loop = LoopAgent(name="l", sub_agents=[graph, says("c")], max_iterations=3)
    assert order(await turn(loop)) == ["a"]


async def test_join_continues_without_failed_source() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), Does(name="c", do=_fail), says("d"), says("e")],
        edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")],
        joins=["d"],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "d", "e"]


async def test_consecutive_joins_continue_in_order() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), Does(name="c", do=_fail), *map(says, "xde")],
        edges=[*zip("aabbcxd", "bcdexde", strict=True)],
        joins=["e", "d"],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "d", "e"]


async def test_cyclic_joins_continue_together_after_failure() -> None:
    def once(key: str) -> Any:
        return lambda state: key not in state

    graph = GraphAgent(
        name="g",
        sub_agents=[
            says("a"),
            says("b"),
            Does(name="c", do=_fail),
            Writes(name="d", values={"d": 1}),
            Writes(name="e", values={"e": 1}),
        ],
        edges=[
            *zip("aabbcc", "bcdede", strict=True),
            ("d", "e", once("e")),
            ("e", "d", once("d")),
        ],
        joins=["d", "e"],
        max_steps=9,
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "d", "e"]


async def test_join_is_stuck_if_source_did_not_fail() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), Does(name="c", do=_fail), says("x"), says("d")],
        edges=[("a", "b"), ("a", "c"), ("a", "x", lambda s: False), ("b", "d"), ("x", "d")],
        joins=["d"],
        on_error="collect",
    )
    with pytest.raises(GraphStuck, match="'d' waits for x"):
        await turn(graph)


@pytest.mark.parametrize("beside", [[], ["b2"]])
async def test_failure_is_collected_with_and_without_concurrent_nodes(
    beside: list[str],
) -> None:
    way = ["b", *beside, "d"]
    graph = GraphAgent(
        name="g",
        sub_agents=[*map(says, ["a", "c", *way]), Does(name="c2", do=_fail)],
        edges=[("a", "b"), ("a", "c"), ("c", "c2"), ("c2", "d"), *pairwise(way)],
        joins=["d"],
        on_error="collect",
    )
    result = await turn(graph)
    assert result.text == "d"
    fault = events_of_kind(result, EventKind.FAULT)[0]
    assert (fault.detail["agent"], fault.detail["code"]) == ("c2", "agent_failed")


async def test_step_with_only_failures_continues_at_waiting_join() -> None:
    failing = [Does(name="x", do=_fail), Does(name="y", do=_fail)]
    graph = GraphAgent(
        name="g",
        sub_agents=[*map(says, "abcd"), *failing],
        edges=[*zip("aabccxy", "bcdxydd", strict=True)],
        joins=["d"],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "c", "d"]


async def test_failure_is_raised_if_no_node_can_run() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=_fail), says("c")],
        edges=[("a", "b"), ("b", "c")],
        on_error="collect",
    )
    with pytest.raises(AgentFailed, match="agent 'b' failed: RuntimeError: broken"):
        await turn(graph)


async def test_run_level_error_of_single_node_is_raised() -> None:
    inner = GraphAgent(name="b", sub_agents=[says("x")], edges=[("x", "x")], max_steps=2)
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), inner, says("c"), says("d")],
        edges=[("a", "c"), ("a", "d"), ("c", "b"), ("d", "b")],
        joins=["b"],
        on_error="collect",
    )
    with pytest.raises(BudgetExceeded):
        await turn(graph)


async def test_failed_single_node_has_no_messages_in_conversation() -> None:
    def list_authors(ctx: RunContext) -> str:
        return ",".join(one.author for one in ctx.current_branch.thread)

    first = SequentialAgent(
        name="c", sub_agents=[Writes(name="c1", values={"x": 1}), Does(name="c2", do=_fail)]
    )
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), says("b2"), first, Does(name="d", do=list_authors)],
        edges=[("a", "b"), ("a", "b2"), ("b2", "c"), ("b", "d"), ("c", "d")],
        joins=["d"],
        on_error="collect",
    )
    result = await turn(graph)
    assert (result.text, result.state) == ("a,b,b2", {"x": 1})
