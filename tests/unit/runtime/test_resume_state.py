"""State of resumed runs."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_support import WHO, Does, Writes, approve_all, says
from hypothesis import given, settings
from hypothesis import strategies as st

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    Edge,
    FunctionTool,
    GraphAgent,
    ParallelAgent,
    RunContext,
    Runner,
    RunResult,
    RunStatus,
    SequentialAgent,
    ToolContext,
    approve,
    deny,
    tool,
)
from acc.testing import ScriptedModel, call


def adding(
    name: str, *, confirm: bool = True, parallel: bool = True, wait: bool = True
) -> FunctionTool:
    """Return a tool that adds to a number and to a list of the state."""

    @tool(name=name, confirm=confirm, parallel=parallel)
    async def add(n: int, ctx: ToolContext) -> int:
        """Add."""
        if wait:
            await asyncio.sleep(0)
        add_to(ctx, n)
        return n

    return add


def add_to(ctx: ToolContext | RunContext, n: int) -> None:
    ctx.state["total"] = ctx.state.get("total", 0) + n
    ctx.state.setdefault("all", []).append(n)


def adder(name: str, *, confirm: bool) -> Does:
    """Return an agent that adds one before a question and its request after it."""

    async def add(ctx: RunContext) -> None:
        add_to(ctx, 1)
        if confirm:
            await ctx.request_input("Go on?")
        add_to(ctx, int(ctx.message))

    return Does(name=name, description="Adds.", do=add)


def clerk(calls: Sequence[Any], *tools: Any) -> Runner:
    model = ScriptedModel(*calls, "done")
    return Runner(Agent(name="clerk", model=model, tools=tools, memory=None))


async def stored_state(runner: Runner) -> dict[str, Any]:
    return dict(await runner.state(**WHO))


async def approve_in_order(runner: Runner, paused: RunResult, order: Sequence[int]) -> RunResult:
    """Approve requests one by one and assert that result and stored state agree."""
    result = paused
    for place in order:
        result = await runner.resume(**WHO, answers=[approve(paused.requests[place].id)])
        assert result.state == await stored_state(runner)
    return result


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_approved_calls_accumulate_in_any_order(
    order: Sequence[int], wait: bool, parallel: bool
) -> None:
    calls = [call("pay", n=1), call("pay", n=10), call("pay", n=100)]
    runner = clerk([calls], adding("pay", parallel=parallel, wait=wait))
    result = await approve_in_order(runner, await runner.run(**WHO, message="go"), order)
    assert (result.status, result.state["total"]) == (RunStatus.COMPLETED, 111)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("wait", [True, False])
async def test_approved_call_sees_writes_before_pause(wait: bool, parallel: bool) -> None:
    pay = adding("pay", wait=wait, parallel=parallel)
    note = adding("note", confirm=False, parallel=parallel)
    runner = clerk([[call("pay", n=1), call("note", n=2)]], pay, note)
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert result.state == await stored_state(runner) == {"total": 3, "all": [2, 1]}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_agent_tools_accumulate_across_pauses(
    order: Sequence[int],
) -> None:
    helpers = adder("left", confirm=True), adder("right", confirm=True)
    runner = clerk([[call("left", request="10"), call("right", request="100")]], *helpers)
    result = await approve_in_order(runner, await runner.run(**WHO, message="go"), order)
    assert result.state["total"] == 112
    assert sorted(result.state["all"]) == [1, 1, 10, 100]


async def test_new_work_waits_for_replay_of_concurrent_work() -> None:
    async def ask_once(ctx: RunContext) -> None:
        if "agreed" not in ctx.state:
            await ctx.request_input("Agreed?")
        ctx.state["agreed"] = True

    helpers = [Does(name=name, description="Asks.", do=ask_once) for name in ("left", "right")]
    runner = clerk([[call("left", request="x"), call("right", request="x")]], *helpers)
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert (result.text, result.state) == ("done", {"agreed": True})


async def test_call_sees_writes_of_paused_exclusive_call() -> None:
    alone = AgentTool(agent=adder("helper", confirm=True), parallel=False)
    runner = clerk([[call("pay", n=10), call("helper", request="100")]], adding("pay"), alone)
    paused = await runner.run(**WHO, message="go")
    result = await approve_in_order(runner, paused, (0, 1))
    assert result.state == {"total": 111, "all": [1, 10, 100]}


async def test_replayed_call_does_not_see_later_writes() -> None:
    async def look(ctx: RunContext) -> str:
        if "total" not in ctx.state:
            await ctx.artifacts.save("found.txt", "nothing")
        return "looked"

    looks = Does(name="looks", description="Looks.", do=look)
    alone = AgentTool(agent=looks, parallel=False)
    runner = clerk([[call("pay", n=1), call("looks", request="x")]], adding("pay"), alone)
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert (result.text, result.state) == ("done", {"total": 1, "all": [1]})


async def test_branches_of_two_calls_are_independent() -> None:
    def ask_and_add(name: str) -> Does:
        async def work(ctx: RunContext) -> None:
            ctx.state[name] = ctx.state.get(name, 0) + int(ctx.message)
            await ctx.request_input("Go on?")
            ctx.state[name] += 1

        return Does(name=name, do=work)

    team = ParallelAgent(
        name="team", description="Works.", sub_agents=[ask_and_add("a"), ask_and_add("b")]
    )
    calls = [[call("team", request="10")], [call("team", request="20")]]
    runner = clerk(calls, team)
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        result = await runner.resume(**WHO, answers=[approve(result.requests[-1].id)])
        assert result.state == await stored_state(runner)
    assert result.state == {"a": 32, "b": 32}


async def test_branches_of_repeated_agent_tool_are_independent() -> None:
    async def add_and_ask(ctx: RunContext) -> None:
        key = f"{ctx.agent.name}_{ctx.message}"
        ctx.state[key] = 1
        await ctx.request_input("Go on?")
        ctx.state[key] += len(ctx.state)

    team = ParallelAgent(
        name="team",
        description="Works.",
        sub_agents=[Does(name="a", do=add_and_ask), Does(name="b", do=add_and_ask)],
    )
    alone = AgentTool(agent=team, parallel=False)
    runner = clerk([[call("team", request="x"), call("team", request="y")]], alone)
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert result.state == await stored_state(runner)
    assert result.state == {"a_x": 2, "b_x": 2, "a_y": 4, "b_y": 4}


async def test_failed_branch_does_not_affect_later_round() -> None:
    def mark(ctx: RunContext) -> None:
        ctx.state[f"mark_{ctx.state.get('round', 0)}"] = True

    async def fail_first(ctx: RunContext) -> None:
        await ctx.run_agent(early)
        if "round" not in ctx.state:
            raise RuntimeError("not yet")

    async def ask(ctx: RunContext) -> None:
        if "round" not in ctx.state:
            await ctx.request_input("Go on?")
        ctx.state["round"] = ctx.state.get("round", 0) + 1

    early = Does(name="early", do=mark)
    flaky = Does(name="flaky", do=fail_first, sub_agents=[early])
    graph = GraphAgent(
        name="graph",
        sub_agents=[says("start"), flaky, Does(name="b", do=ask)],
        edges=[
            Edge("start", "flaky"),
            Edge("start", "b"),
            Edge("b", "start", when=lambda state: state["round"] < 2),
        ],
        max_steps=6,
        on_error="collect",
    )
    runner = Runner(graph)
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert result.state == await stored_state(runner) == {"round": 2, "mark_1": True}


async def test_writes_of_cancelled_task_match_stored_state() -> None:
    async def add_and_wait(ctx: RunContext) -> None:
        add_to(ctx, 5)
        if not ctx.run.journal.steps:
            await asyncio.Event().wait()

    async def add_and_ask(ctx: RunContext) -> None:
        add_to(ctx, 1)
        await ctx.request_input("Go on?")

    slow, asks = Does(name="slow", do=add_and_wait), Does(name="asks", do=add_and_ask)

    async def both(ctx: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run_agent(slow))
            group.create_task(ctx.run_agent(asks))

    runner = Runner(Does(name="both", do=both, sub_agents=[slow, asks]))
    paused = await runner.run(**WHO, message="go")
    assert paused.state == await stored_state(runner)
    result = await approve_all(runner, paused)
    assert result.state == await stored_state(runner)


async def test_unrecorded_writes_are_not_in_result() -> None:
    async def write(ctx: RunContext) -> None:
        ctx.state["begun"] = True
        ctx.state.setdefault("list", []).append(1)
        await ctx.run_agent(team)

    team = ParallelAgent(name="team", sub_agents=[says("a", confirm=True), says("b")])
    runner = Runner(Does(name="root", do=write, sub_agents=[team]))
    paused = await runner.run(**WHO, message="go")
    assert paused.state == await stored_state(runner) == {}
    denied = await runner.resume(**WHO, answers=[deny(paused.requests[0].id)])
    assert denied.status is RunStatus.REJECTED
    assert denied.state == await stored_state(runner) == {}


async def test_writes_of_removed_agent_are_in_result() -> None:
    first, second = Writes(name="first", values={"a": 1}), says("second", confirm=True)
    runner = Runner(SequentialAgent(name="root", sub_agents=[first, second]))
    paused = await runner.run(**WHO, message="go")
    changed: list[BaseAgent] = [says("second", confirm=True)]
    left = Runner(SequentialAgent(name="root", sub_agents=changed), services=runner.services)
    result = await left.resume(**WHO, answers=[approve(paused.requests[0].id)])
    assert result.state == await stored_state(left) == {"a": 1}


async def test_resumed_run_sees_external_value() -> None:
    async def count(ctx: RunContext) -> str:
        ctx.state["user:n"] = ctx.state.get("user:n", 0) + 1
        ctx.state.setdefault("user:list", []).append("mine")
        await ctx.request_input("Go on?")
        return f"{ctx.state['user:n']} {ctx.state['user:list']}"

    runner = Runner(Does(name="a", do=count))
    paused = await runner.run(**WHO, message="go")
    theirs = {"user:n": 10, "user:list": ["theirs"]}
    await runner.update_state(theirs, user_id=WHO["user_id"], session_id="other")
    result = await approve_all(runner, paused)
    assert result.text == "10 ['theirs']"
    assert result.state == await stored_state(runner) == theirs


@dataclass
class Plan:
    """Rounds of calls (kind and number) and the order of their approvals."""

    rounds: list[list[tuple[str, int]]]
    picks: list[int] = field(default_factory=list)

    def runner(self, *, confirm: bool) -> Runner:
        tools = [
            adding("pay", confirm=confirm),
            adding("solo", confirm=confirm, parallel=False, wait=False),
            adding("note", confirm=False),
            adding("list", confirm=False, parallel=False),
            adder("helper", confirm=confirm),
            Agent(
                name="desk",
                description="Pays.",
                model=_PayingModel(),
                tools=[adding("pay", confirm=confirm), adding("note", confirm=False)],
            ),
        ]
        agents = ("helper", "desk")
        calls = [
            [call(k, request=str(n)) if k in agents else call(k, n=n) for k, n in one]
            for one in self.rounds
        ]
        return clerk(calls, *tools)


class _PayingModel:
    """Model that requests two payments and a note, then answers."""

    async def complete(self, prompt: Any) -> Any:
        if any(part.result for message in prompt.following for part in message.parts):
            return await ScriptedModel("paid").complete(prompt)
        n = int(prompt.query)
        calls = [call("pay", n=n), call("note", n=n + 1), call("pay", n=n + 2)]
        return await ScriptedModel(calls).complete(prompt)


KINDS = st.sampled_from(["pay", "solo", "note", "list", "helper", "desk"])
ROUNDS = st.lists(st.tuples(KINDS, st.integers(1, 9)), min_size=1, max_size=4)
PLANS = st.builds(Plan, st.lists(ROUNDS, min_size=1, max_size=2), st.lists(st.integers(0, 7)))


@settings(max_examples=60)
@given(PLANS)
async def test_paused_run_writes_same_state_as_unpaused_run(plan: Plan) -> None:
    whole = await plan.runner(confirm=False).run(**WHO, message="go")
    runner = plan.runner(confirm=True)
    result = await runner.run(**WHO, message="go")
    picks = list(plan.picks)
    while result.status is RunStatus.INPUT_REQUIRED:
        assert result.state == await stored_state(runner)
        open_now = await runner.pending(**WHO)
        first = picks.pop() if picks else 0
        chosen = [open_now[(first + n) % len(open_now)] for n in range(1 + first % len(open_now))]
        result = await runner.resume(**WHO, answers=[approve(r.id) for r in chosen])
    assert result.state == await stored_state(runner)
    assert result.state["total"] == whole.state["total"]
    assert sorted(result.state["all"]) == sorted(whole.state["all"])
    assert result.usage == whole.usage
