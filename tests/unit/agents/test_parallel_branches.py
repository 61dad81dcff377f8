"""At the same time: branches, isolation, limits, and what happens when one fails."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from small_agents import Does, Writes, of_kind, said, says, turn

from acc import Agent, EventKind, ParallelAgent, RunConfig, RunContext, Runner, SequentialAgent
from acc.domain.errors import (
    AccError,
    AgentFailed,
    BranchFailed,
    BudgetExceeded,
    ReplayMismatch,
    SessionConflict,
    StateConflict,
    StorageFailed,
)
from acc.testing import ScriptedModel, call


def fails(name: str, why: str = "broken") -> Does:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError(why)

    return Does(name=name, do=fail)


def meets(barrier: asyncio.Barrier) -> Callable[[RunContext], Awaitable[None]]:
    """Return what only ends if all the others run at the same time."""

    async def wait(ctx: RunContext) -> None:
        await barrier.wait()

    return wait


async def test_branches_run_at_the_same_time() -> None:
    barrier = asyncio.Barrier(3)
    branches = [Does(name=name, do=meets(barrier)) for name in ("a", "b", "c")]
    result = await asyncio.wait_for(turn(ParallelAgent(name="p", sub_agents=branches)), 5)
    assert result.text == "a: a done\nb: b done\nc: c done"


async def test_branches_are_named_by_their_way_through_the_tree() -> None:
    left = ParallelAgent(name="left", sub_agents=[says("a"), says("b")])
    steps = SequentialAgent(name="right", sub_agents=[says("c"), _pair("deep", "d", "e")])
    result = await turn(ParallelAgent(name="root", sub_agents=[left, steps]))
    found = {event.author: event.branch for event in result.events}
    assert found == {
        "user": "",
        "a": "root.left.a",
        "b": "root.left.b",
        "c": "root.right",
        "d": "root.right.deep.d",
        "e": "root.right.deep.e",
        "root": "",
    }


def _pair(name: str, *names: str) -> ParallelAgent:
    return ParallelAgent(name=name, sub_agents=[says(each) for each in names])


async def test_a_branch_sees_the_state_as_it_was_and_not_what_others_write() -> None:
    barrier = asyncio.Barrier(2)

    async def write_then_look(ctx: RunContext) -> str:
        ctx.state[ctx.agent.name] = 1
        ctx.state["list"].append(ctx.agent.name)
        await barrier.wait()
        return f"{sorted(ctx.state)} {ctx.state['list']}"

    branches = [Does(name=name, do=write_then_look) for name in ("a", "b")]
    both = ParallelAgent(name="p", sub_agents=branches, merge={"list": "union"})
    result = await turn(
        SequentialAgent(name="s", sub_agents=[Writes(name="w", values={"list": ["w"]}), both])
    )
    assert dict(said(result)) == {
        "w": "w",
        "a": "['a', 'list'] ['w', 'a']",
        "b": "['b', 'list'] ['w', 'b']",
    }
    assert result.state == {"list": ["w", "a", "b"], "a": 1, "b": 1}


async def test_what_a_branch_wrote_is_told_apart_until_the_branches_join() -> None:
    branches = [Writes(name=name, values={name: 1}) for name in ("a", "b")]
    result = await turn(ParallelAgent(name="p", sub_agents=branches))
    inside = {e.author: e.actions for e in result.events if e.branch}
    assert {name: actions.branch_delta for name, actions in inside.items()} == {
        "a": {"a": 1},
        "b": {"b": 1},
    }
    assert all(not actions.state_delta for actions in inside.values())
    joined = [e.actions.state_delta for e in result.events if e.actions.state_delta]
    assert joined == [{"a": 1, "b": 1}]


async def test_branches_do_not_hear_each_other_and_the_next_step_hears_all() -> None:
    models = [ScriptedModel("from a"), ScriptedModel("from b"), ScriptedModel("end")]
    agents = [Agent(name=n, model=m, memory=None) for n, m in zip("abc", models, strict=True)]
    both = ParallelAgent(name="p", sub_agents=agents[:2])
    await turn(SequentialAgent(name="s", sub_agents=[says("first"), both, agents[2]]))
    heard = [[message.text for message in model.asked[0].messages] for model in models]
    assert heard == [["first"], ["first"], ["first", "from a", "from b"]]


async def test_a_branch_that_fails_cancels_its_siblings() -> None:
    ended: list[str] = []

    async def slow(ctx: RunContext) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(ctx.agent.name)

    async def fail_soon(ctx: RunContext) -> None:
        await asyncio.sleep(0.01)
        raise RuntimeError("broken")

    branches = [Does(name="slow", do=slow), Does(name="bad", do=fail_soon), says("quick")]
    runner = Runner(ParallelAgent(name="p", sub_agents=branches))
    with pytest.raises(AgentFailed, match="agent 'bad' failed"):
        await runner.run(user_id="ann", session_id="s1", message="go")
    assert ended == ["slow"]
    authors = [e.author for e in await runner.events(user_id="ann", session_id="s1")]
    assert authors == ["user", "quick", "p"]


async def test_failures_can_be_collected_and_the_others_count() -> None:
    branches = [Writes(name="good", values={"x": 1}), fails("bad", "no luck"), says("fine")]
    result = await turn(ParallelAgent(name="p", sub_agents=branches, on_error="collect"))
    assert (result.text, result.state) == ("good: good\nfine: fine", {"x": 1})
    fault = of_kind(result, EventKind.FAULT)[0]
    assert fault.text == "agent 'bad' failed: RuntimeError: no luck"
    assert fault.detail == {"code": "agent_failed", "agent": "bad", "branch": "p.bad"}


async def test_what_a_failed_branch_wrote_is_dropped() -> None:
    def write_and_fail(ctx: RunContext) -> None:
        ctx.state["x"] = "half"
        raise RuntimeError("broken")

    branches = [Does(name="bad", do=write_and_fail), Writes(name="good", values={"x": "whole"})]
    result = await turn(ParallelAgent(name="p", sub_agents=branches, on_error="collect"))
    assert result.state == {"x": "whole"}


async def test_if_all_branches_fail_there_is_nothing_to_collect() -> None:
    agent = ParallelAgent(name="p", sub_agents=[fails("a"), fails("b")], on_error="collect")
    with pytest.raises(BranchFailed, match="agent 'a' failed"):
        await turn(agent)


async def test_a_conflict_is_no_failure_of_a_branch_that_could_be_collected() -> None:
    branches = [Writes(name=name, values={"x": 1}) for name in ("a", "b")]
    with pytest.raises(StateConflict):
        await turn(ParallelAgent(name="p", sub_agents=branches, on_error="collect"))


@pytest.mark.parametrize("most", [1, 2])
async def test_no_more_branches_run_at_once_than_allowed(most: int) -> None:
    running: list[str] = []
    highest = 0

    async def work(ctx: RunContext) -> None:
        nonlocal highest
        running.append(ctx.agent.name)
        highest = max(highest, len(running))
        await asyncio.sleep(0.005)
        running.remove(ctx.agent.name)

    branches = [Does(name=f"b{n}", do=work) for n in range(5)]
    await turn(ParallelAgent(name="p", sub_agents=branches, max_concurrency=most))
    assert highest == most


async def test_a_transfer_out_of_a_branch_stays_in_the_branch() -> None:
    helper = Agent(name="helper", description="Helps.", model=ScriptedModel("helped"), memory=None)
    asks = ScriptedModel(call("transfer_to_agent", agent_name="helper"))
    left = Agent(name="left", model=asks, sub_agents=[helper], memory=None)
    result = await turn(ParallelAgent(name="p", sub_agents=[left, says("right")]))
    assert result.text == "left: helped\nright: right"
    branch = next(e.branch for e in result.events if e.author == "helper")
    assert branch == "p.left"


async def test_answers_stand_in_the_order_of_the_branches_whoever_is_first() -> None:
    async def slow(ctx: RunContext) -> None:
        await asyncio.sleep(0.01)

    result = await turn(ParallelAgent(name="p", sub_agents=[Does(name="a", do=slow), says("b")]))
    assert result.text == "a: a done\nb: b"
    assert [author for author, _ in said(result)] == ["b", "a"]


async def test_a_predicate_that_cannot_decide_fails_its_branch_and_no_other() -> None:
    unsure = says("pay", confirm=lambda ctx: ctx.state["amount"] > 10_000)
    result = await turn(ParallelAgent(name="p", sub_agents=[unsure, says("b")], on_error="collect"))
    assert result.text == "b: b"
    (fault,) = of_kind(result, EventKind.FAULT)
    assert (fault.text, fault.detail["code"]) == (
        "agent 'pay' failed: KeyError: 'amount'",
        "agent_failed",
    )


async def test_a_budget_ends_the_run_where_failures_of_branches_are_collected() -> None:
    asked = [Agent(name=n, model=ScriptedModel("x"), memory=None) for n in ("a", "b", "c")]
    tree = ParallelAgent(name="p", sub_agents=asked, on_error="collect")
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await turn(tree, config=RunConfig(max_llm_calls=2))


@pytest.mark.parametrize("kind", [StorageFailed, SessionConflict, ReplayMismatch])
async def test_what_is_wrong_with_the_whole_run_is_not_collected(kind: type[AccError]) -> None:
    def fail(ctx: RunContext) -> None:
        raise kind("that ends it")

    steps = [Does(name="a", do=fail), says("b")]
    with pytest.raises(kind, match="that ends it"):
        await turn(ParallelAgent(name="p", sub_agents=steps, on_error="collect"))
