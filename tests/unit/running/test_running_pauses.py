"""A pause anywhere in a tree: what was done is not done again, and nothing counts twice."""

from collections.abc import Callable
from typing import Any

import pytest
from running_world import Desk, Till, World, check_record, clerk

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    GraphAgent,
    LoopAgent,
    ParallelAgent,
    RouterAgent,
    RunContext,
    RunResult,
    RunStatus,
    SequentialAgent,
    ToolContext,
    approve,
    deny,
    exit_loop,
    tool,
)
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=5)


class Count(BaseAgent):
    """Counts how often it did its work, in the state and for real."""

    done: int = 0

    async def run(self, ctx: RunContext) -> str:
        self.done += 1
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.state["temp:last"] = self.name
        await ctx.artifacts.save("log.txt", f"round {ctx.state['rounds']}")
        return f"round {ctx.state['rounds']}"


def in_sequence(till: Till) -> BaseAgent:
    pays = clerk(ScriptedModel(PAY, "paid"), till.tool(), name="payer", output_key="receipt")
    return SequentialAgent(
        name="root", sub_agents=[Count(name="before"), pays, Count(name="after")]
    )


def in_parallel(till: Till) -> BaseAgent:
    pays = clerk(ScriptedModel(PAY, "paid"), till.tool(), name="payer", output_key="receipt")
    other = clerk(ScriptedModel("looked"), name="other", output_key="seen")
    both = ParallelAgent(name="both", sub_agents=[pays, other])
    return SequentialAgent(
        name="root", sub_agents=[Count(name="before"), both, Count(name="after")]
    )


def in_loop(till: Till) -> BaseAgent:
    model = ScriptedModel("not yet", PAY, "paid", call("exit_loop"))
    pays = clerk(model, till.tool(), exit_loop, name="payer", output_key="receipt")
    return LoopAgent(name="root", max_iterations=5, sub_agents=[Count(name="counts"), pays])


def in_graph(till: Till) -> BaseAgent:
    pays = clerk(ScriptedModel(PAY, "paid"), till.tool(), name="payer", output_key="receipt")
    return GraphAgent(
        name="root",
        sub_agents=[Count(name="counts"), pays, Count(name="ends")],
        edges=[
            ("counts", "counts", lambda state: state["rounds"] < 2),
            ("counts", "payer", lambda state: state["rounds"] >= 2),
            ("payer", "ends"),
        ],
        max_steps=9,
    )


def in_router(till: Till) -> BaseAgent:
    pays = clerk(
        ScriptedModel(PAY, "paid"),
        till.tool(),
        name="payer",
        description="payments",
        output_key="receipt",
    )
    chosen = RouterAgent(
        name="chooses",
        by="model",
        model=ScriptedModel("payer"),
        sub_agents=[pays, clerk(ScriptedModel(), name="talker", description="small talk")],
    )
    return SequentialAgent(name="root", sub_agents=[Count(name="a"), chosen, Count(name="b")])


def after_transfer(till: Till) -> BaseAgent:
    pays = clerk(
        ScriptedModel(PAY, "paid"),
        till.tool(),
        name="payer",
        description="payments",
        output_key="receipt",
    )
    model = ScriptedModel(call("count"), call("transfer_to_agent", agent_name="payer"))

    @tool
    async def count(ctx: ToolContext) -> int:
        """Count."""
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 2
        await ctx.artifacts.save("log.txt", "round 1")
        await ctx.artifacts.save("log.txt", "round 2")
        return 2

    return clerk(model, count, name="root", sub_agents=[pays])


def in_agent_tool(till: Till) -> BaseAgent:
    pays = clerk(
        ScriptedModel(PAY, "paid"),
        till.tool(),
        name="payer",
        description="pays",
        output_key="receipt",
    )
    model = ScriptedModel([call("payer", request="pay 5"), call("count")], call("count"), "fine")
    return clerk(model, pays, counting(), name="root")


def counting() -> Any:
    @tool
    async def count(ctx: ToolContext) -> int:
        """Count."""
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.save_artifact("log.txt", f"round {ctx.state['rounds']}")
        return int(ctx.state["rounds"])

    return count


def deep_down(till: Till) -> BaseAgent:
    """A tool's agent in a loop, in a branch, in a sequence."""
    pays = clerk(
        ScriptedModel(PAY, "paid"),
        till.tool(),
        name="payer",
        description="pays",
        output_key="receipt",
    )
    model = ScriptedModel("wait", call("payer", request="now"), call("exit_loop"))
    asks = clerk(model, AgentTool(agent=pays, confirm=True), exit_loop, name="asks")
    loop = LoopAgent(name="loop", max_iterations=4, sub_agents=[asks])
    both = ParallelAgent(name="both", sub_agents=[loop, clerk(ScriptedModel("seen"), name="other")])
    return SequentialAgent(name="root", sub_agents=[Count(name="a"), both, Count(name="b")])


TREES: dict[str, Callable[[Till], BaseAgent]] = {
    "sequence": in_sequence,
    "parallel": in_parallel,
    "loop": in_loop,
    "graph": in_graph,
    "router": in_router,
    "transfer": after_transfer,
    "agent_tool": in_agent_tool,
    "deep": deep_down,
}


async def to_the_end(desk: Desk, result: RunResult, *, restart: bool) -> RunResult:
    while result.status is RunStatus.INPUT_REQUIRED:
        desk = desk.restarted() if restart else desk
        result = await desk.approve_all(result.requests)
    return result


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "another process"])
@pytest.mark.parametrize("tree", sorted(TREES))
async def test_a_run_that_paused_ends_as_one_that_did_not(
    world: World, tree: str, restart: bool
) -> None:
    till = Till()
    desk = world.desk(TREES[tree](till))
    first = await desk.say("pay 5")
    assert (first.status, till.paid) == (RunStatus.INPUT_REQUIRED, [])
    done = await to_the_end(desk, first, restart=restart)
    assert (done.status, till.paid) == (RunStatus.COMPLETED, [5])
    stored = await desk.state()
    assert (stored["rounds"], stored["receipt"]) == (2 + (tree in ("loop", "graph")), "paid")
    assert {key: value for key, value in done.state.items() if "temp:" not in key} == stored
    artifact = await world.artifacts.load(desk.runner._key("ann", "s1"), "log.txt")
    rounds = stored["rounds"]
    assert artifact is not None
    assert (artifact.version, artifact.text) == (rounds, f"round {rounds}")
    check_record(await desk.events())


@pytest.mark.parametrize("tree", sorted(TREES))
async def test_a_pause_costs_nothing(world: World, tree: str) -> None:
    paused, plain = Till(), Till()
    desk = world.desk(TREES[tree](paused))
    done = await to_the_end(desk, await desk.say("pay 5"), restart=True)
    straight_tree = TREES[tree](plain)
    for agent in straight_tree.walk():
        if isinstance(agent, Agent):
            for item in agent.own_tools.values():
                item.confirm = False
                if isinstance(item, AgentTool) and isinstance(item.agent, Agent):
                    item.agent.own_tools["pay"].confirm = False
    straight = await world.desk(straight_tree).say("pay 5", session="other")
    assert straight.status is RunStatus.COMPLETED
    assert done.usage == straight.usage
    assert done.state == straight.state
    assert done.text == straight.text


async def test_the_branches_beside_one_that_waits_finish_first(world: World) -> None:
    till = Till()
    slow = clerk(ScriptedModel("a", "b", "c"), name="slow", output_key="slow")
    work = LoopAgent(name="work", max_iterations=3, sub_agents=[slow])
    pays = clerk(ScriptedModel(PAY, "paid"), till.tool(), name="payer")
    desk = world.desk(ParallelAgent(name="root", sub_agents=[pays, work]))
    waiting = await desk.say("go")
    assert [e.text for e in waiting.events if e.author == "slow"] == ["a", "b", "c"]
    assert await desk.state() == {}
    done = await desk.restarted().approve_all(waiting.requests)
    assert done.text == "payer: paid\nwork: c"
    assert await desk.state() == {"slow": "c"}


async def test_branches_that_wait_are_answered_one_by_one(world: World) -> None:
    tills = [Till(), Till()]
    payers = [
        clerk(ScriptedModel(PAY, f"paid {n}"), till.tool(), name=f"payer{n}", output_key=f"r{n}")
        for n, till in enumerate(tills)
    ]
    desk = world.desk(ParallelAgent(name="root", sub_agents=payers))
    waiting = await desk.say("go")
    by_agent = {request.agent: request for request in waiting.requests}
    again = await desk.restarted().answer(approve(by_agent["payer1"].id))
    assert again.requests == (by_agent["payer0"],)
    assert [till.paid for till in tills] == [[], [5]]
    done = await desk.restarted().answer(approve(by_agent["payer0"].id))
    assert [till.paid for till in tills] == [[5], [5]]
    assert (done.text, dict(done.state)) == (
        "payer0: paid 0\npayer1: paid 1",
        {"r0": "paid 0", "r1": "paid 1"},
    )


async def test_a_no_to_one_branch_ends_the_run_though_another_waits(world: World) -> None:
    till = Till()
    step = clerk(ScriptedModel(), name="step", confirm=True)
    pays = clerk(ScriptedModel(PAY), till.tool(), name="payer")
    desk = world.desk(ParallelAgent(name="root", sub_agents=[pays, step]))
    waiting = await desk.say("go")
    denied = next(request for request in waiting.requests if request.agent == "step")
    done = await desk.answer(deny(denied.id))
    assert (done.status, till.paid) == (RunStatus.REJECTED, [])
    assert await desk.pending() == ()
    check_record(await desk.events())


async def test_a_loop_that_pauses_in_each_round_counts_each_round_once(world: World) -> None:
    till = Till()
    model = ScriptedModel(PAY, "paid", PAY, "paid", PAY, "paid")
    pays = clerk(model, till.tool(), name="payer")
    desk = world.desk(
        LoopAgent(name="root", max_iterations=3, sub_agents=[Count(name="counts"), pays])
    )
    result = await desk.say("go")
    for round_ in (1, 2, 3):
        assert (result.status, len(till.paid)) == (RunStatus.INPUT_REQUIRED, round_ - 1)
        assert (await desk.state())["rounds"] == round_
        result = await desk.restarted().approve_all(result.requests)
    assert (result.status, till.paid, result.state["rounds"]) == (RunStatus.COMPLETED, [5] * 3, 3)
    assert "temp:last" in result.state
    assert "temp:last" not in await desk.state()
    check_record(await desk.events())


async def test_the_next_turn_goes_on_with_the_state_of_the_resumed_one(world: World) -> None:
    till = Till()
    pays = clerk(ScriptedModel(PAY, "paid", "hello"), till.tool(), name="payer")
    desk = world.desk(SequentialAgent(name="root", sub_agents=[Count(name="counts"), pays]))
    await desk.approve_all((await desk.say("pay")).requests)
    assert (await desk.say("hi")).state["rounds"] == 2


async def test_a_key_taken_away_before_the_pause_is_there_again_for_the_replay(
    world: World,
) -> None:
    class Takes(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            if ctx.message == "put":
                ctx.state.update({"ticket": "t-1", "open": [1]})
                return "put"
            ticket = ctx.state.pop("ticket")
            ctx.state["open"].append(2)
            answer = await ctx.request_input(f"use {ticket}?")
            return f"{ticket} {answer.value} {ctx.state['open']} {'ticket' in ctx.state}"

    desk = world.desk(Takes(name="takes"))
    await desk.say("put")
    (request,) = (await desk.say("take")).requests
    assert await desk.state() == {"open": [1, 2]}
    done = await desk.restarted().answer(approve(request.id, value="yes"))
    assert done.text == "t-1 yes [1, 2] False"
