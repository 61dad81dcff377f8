"""Graphs: conditions, joins, bounded cycles, steps at the same time."""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from small_agents import Does, Writes, counts, escalates, of_kind, said, says, turn

from acc import Edge, EventKind, GraphAgent, LoopAgent, RunContext, SequentialAgent
from acc.domain.errors import AgentFailed, BudgetExceeded, GraphStuck, StateConflict


def order(result: Any) -> list[str]:
    return [author for author, _ in said(result)]


async def test_a_graph_follows_its_edges_from_the_first_node() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), says("c")],
        edges=[("a", "c"), Edge("c", "b")],
    )
    result = await turn(graph)
    assert order(result) == ["a", "c", "b"]
    assert result.text == "b"
    assert graph.all_edges == (Edge("a", "c"), Edge("c", "b"))


async def test_a_graph_may_start_anywhere() -> None:
    nodes = [says("a"), says("b")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[("b", "a")], start="b")
    assert order(await turn(graph)) == ["b", "a"]


@pytest.mark.parametrize(
    ("score", "way"), [(9, ["judge", "publish"]), (5, ["judge", "edit"]), (1, ["judge", "drop"])]
)
async def test_conditions_on_the_state_choose_the_way(score: int, way: list[str]) -> None:
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


async def test_a_graph_ends_where_no_edge_is_taken() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), says("b")], edges=[("a", "b", lambda state: False)]
    )
    assert order(await turn(graph)) == ["a"]


async def test_a_condition_that_fails_is_told_as_the_graphs_fault() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), says("b")], edges=[("a", "b", lambda state: state["no"])]
    )
    with pytest.raises(AgentFailed, match="agent 'g' failed: KeyError: 'no'"):
        await turn(graph)


async def test_nodes_that_are_due_together_run_at_the_same_time_and_join() -> None:
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


async def test_without_a_join_a_node_runs_as_soon_as_one_edge_leads_to_it() -> None:
    nodes = [says("a"), says("b"), says("c"), counts("d", "n")]
    edges = [("a", "b"), ("a", "d"), ("b", "c"), ("c", "d")]
    result = await turn(GraphAgent(name="g", sub_agents=nodes, edges=edges))
    assert result.state == {"n": 2}


async def test_a_join_waits_for_ways_of_different_length() -> None:
    nodes = [says("a"), says("b"), says("c"), counts("d", "n")]
    edges = [("a", "b"), ("a", "d"), ("b", "c"), ("c", "d")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=edges, joins=["d"])
    result = await turn(graph)
    assert result.state == {"n": 1}
    assert order(result) == ["a", "b", "c", "d"]


async def test_a_step_of_several_nodes_answers_with_all_of_them() -> None:
    graph = GraphAgent(
        name="g", sub_agents=[says("a"), says("b"), says("c")], edges=[("a", "b"), ("a", "c")]
    )
    assert (await turn(graph)).text == "b: b\nc: c"


async def test_nodes_that_write_the_same_key_need_a_rule() -> None:
    def graph(**fields: Any) -> GraphAgent:
        nodes = [says("a"), Writes(name="b", values={"x": 1}), Writes(name="c", values={"x": 2})]
        return GraphAgent(name="g", sub_agents=nodes, edges=[("a", "b"), ("a", "c")], **fields)

    with pytest.raises(StateConflict, match="b and c"):
        await turn(graph())
    assert (await turn(graph(merge={"x": "list"}))).state == {"x": [1, 2]}


async def test_a_cycle_runs_until_a_condition_leads_out_of_it() -> None:
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


async def test_a_cycle_that_does_not_end_is_ended_at_its_bound() -> None:
    graph = GraphAgent(name="g", sub_agents=[counts("a", "n")], edges=[("a", "a")], max_steps=4)
    with pytest.raises(BudgetExceeded, match=r"/g: the run reached its limit of max_steps \(4\)"):
        await turn(graph)


async def test_a_join_in_a_cycle_waits_anew_in_every_round() -> None:
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


async def test_a_join_that_can_no_longer_be_reached_is_told() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), says("c"), says("d")],
        edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d", lambda state: False)],
        joins=["d"],
    )
    with pytest.raises(GraphStuck, match="graph 'g' ended, but 'd' waits for c, which can no long"):
        await turn(graph)


def _fail(ctx: RunContext) -> None:
    raise RuntimeError("broken")


async def test_a_node_that_fails_can_be_left_behind() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=_fail), says("c"), says("after_b"), says("d")],
        edges=[("a", "b"), ("a", "c"), ("b", "after_b"), ("c", "d")],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "c", "d"]


async def test_a_node_that_fails_ends_the_graph_otherwise() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=_fail), says("c")],
        edges=[("a", "b"), ("a", "c")],
    )
    with pytest.raises(AgentFailed, match="agent 'b' failed"):
        await turn(graph)


async def test_a_node_that_escalates_ends_the_graph_and_the_loop_around_it() -> None:
    graph = GraphAgent(name="g", sub_agents=[escalates("a"), says("b")], edges=[("a", "b")])
    loop = LoopAgent(name="l", sub_agents=[graph, says("c")], max_iterations=3)
    assert order(await turn(loop)) == ["a"]


async def test_a_join_behind_a_collected_failure_goes_on_with_what_came() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), Does(name="c", do=_fail), says("d"), says("e")],
        edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")],
        joins=["d"],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "d", "e"]


async def test_joins_one_behind_another_go_on_in_their_order() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), Does(name="c", do=_fail), *map(says, "xde")],
        edges=[*zip("aabbcxd", "bcdexde", strict=True)],
        joins=["e", "d"],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "d", "e"]


async def test_joins_in_a_circle_go_on_together_after_a_failure() -> None:
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


async def test_a_join_that_waits_for_what_no_failure_cut_off_is_stuck_all_the_same() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), Does(name="c", do=_fail), says("x"), says("d")],
        edges=[("a", "b"), ("a", "c"), ("a", "x", lambda s: False), ("b", "d"), ("x", "d")],
        joins=["d"],
        on_error="collect",
    )
    with pytest.raises(GraphStuck, match="'d' waits for x, which can no longer come"):
        await turn(graph)


@pytest.mark.parametrize("beside", [[], ["b2"]])
async def test_a_failure_is_collected_whether_or_not_another_node_is_due_beside_it(
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
    fault = of_kind(result, EventKind.FAULT)[0]
    assert (fault.detail["agent"], fault.detail["code"]) == ("c2", "agent_failed")


async def test_a_step_whose_nodes_all_failed_is_collected_where_a_join_still_waits() -> None:
    failing = [Does(name="x", do=_fail), Does(name="y", do=_fail)]
    graph = GraphAgent(
        name="g",
        sub_agents=[*map(says, "abcd"), *failing],
        edges=[*zip("aabccxy", "bcdxydd", strict=True)],
        joins=["d"],
        on_error="collect",
    )
    assert order(await turn(graph)) == ["a", "b", "c", "d"]


async def test_a_failure_after_which_nothing_can_go_on_ends_the_graph() -> None:
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), Does(name="b", do=_fail), says("c")],
        edges=[("a", "b"), ("b", "c")],
        on_error="collect",
    )
    with pytest.raises(AgentFailed, match="agent 'b' failed: RuntimeError: broken"):
        await turn(graph)


async def test_what_ends_the_run_is_not_collected_from_a_node_that_runs_alone() -> None:
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


async def test_a_node_that_failed_alone_has_written_but_is_not_heard() -> None:
    def heard(ctx: RunContext) -> str:
        return ",".join(one.author for one in ctx.current_branch.thread)

    first = SequentialAgent(
        name="c", sub_agents=[Writes(name="c1", values={"x": 1}), Does(name="c2", do=_fail)]
    )
    graph = GraphAgent(
        name="g",
        sub_agents=[says("a"), says("b"), says("b2"), first, Does(name="d", do=heard)],
        edges=[("a", "b"), ("a", "b2"), ("b2", "c"), ("b", "d"), ("c", "d")],
        joins=["d"],
        on_error="collect",
    )
    result = await turn(graph)
    assert (result.text, result.state) == ("a,b,b2", {"x": 1})
