"""Tests of pauses in every kind of tree: no step is repeated or counted twice."""

from collections.abc import Callable
from typing import Any

import pytest
from runner_harness import PaymentTool, RunnerHarness, Storage, check_record, scripted_agent

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
    """Counts its executions in the state and in an attribute."""

    done: int = 0

    async def run(self, ctx: RunContext) -> str:
        self.done += 1
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.state["temp:last"] = self.name
        await ctx.artifacts.save("log.txt", f"round {ctx.state['rounds']}")
        return f"round {ctx.state['rounds']}"


def in_sequence(payment: PaymentTool) -> BaseAgent:
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"), payment.tool(), name="payer", output_key="receipt"
    )
    return SequentialAgent(
        name="root", sub_agents=[Count(name="before"), pays, Count(name="after")]
    )


def in_parallel(payment: PaymentTool) -> BaseAgent:
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"), payment.tool(), name="payer", output_key="receipt"
    )
    other = scripted_agent(ScriptedModel("looked"), name="other", output_key="seen")
    both = ParallelAgent(name="both", sub_agents=[pays, other])
    return SequentialAgent(
        name="root", sub_agents=[Count(name="before"), both, Count(name="after")]
    )


def in_loop(payment: PaymentTool) -> BaseAgent:
    model = ScriptedModel("not yet", PAY, "paid", call("exit_loop"))
    pays = scripted_agent(model, payment.tool(), exit_loop, name="payer", output_key="receipt")
    return LoopAgent(name="root", max_iterations=5, sub_agents=[Count(name="counts"), pays])


def in_graph(payment: PaymentTool) -> BaseAgent:
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"), payment.tool(), name="payer", output_key="receipt"
    )
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


def in_router(payment: PaymentTool) -> BaseAgent:
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"),
        payment.tool(),
        name="payer",
        description="payments",
        output_key="receipt",
    )
    chosen = RouterAgent(
        name="chooses",
        by="model",
        model=ScriptedModel("payer"),
        sub_agents=[pays, scripted_agent(ScriptedModel(), name="talker", description="small talk")],
    )
    return SequentialAgent(name="root", sub_agents=[Count(name="a"), chosen, Count(name="b")])


def after_transfer(payment: PaymentTool) -> BaseAgent:
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"),
        payment.tool(),
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

    return scripted_agent(model, count, name="root", sub_agents=[pays])


def in_agent_tool(payment: PaymentTool) -> BaseAgent:
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"),
        payment.tool(),
        name="payer",
        description="pays",
        output_key="receipt",
    )
    model = ScriptedModel([call("payer", request="pay 5"), call("count")], call("count"), "fine")
    return scripted_agent(model, pays, counting(), name="root")


def counting() -> Any:
    @tool
    async def count(ctx: ToolContext) -> int:
        """Count."""
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.save_artifact("log.txt", f"round {ctx.state['rounds']}")
        return int(ctx.state["rounds"])

    return count


def deep_down(payment: PaymentTool) -> BaseAgent:
    """Return an agent tool in a loop in a branch in a sequence."""
    pays = scripted_agent(
        ScriptedModel(PAY, "paid"),
        payment.tool(),
        name="payer",
        description="pays",
        output_key="receipt",
    )
    model = ScriptedModel("wait", call("payer", request="now"), call("exit_loop"))
    asks = scripted_agent(model, AgentTool(agent=pays, confirm=True), exit_loop, name="asks")
    loop = LoopAgent(name="loop", max_iterations=4, sub_agents=[asks])
    both = ParallelAgent(
        name="both", sub_agents=[loop, scripted_agent(ScriptedModel("seen"), name="other")]
    )
    return SequentialAgent(name="root", sub_agents=[Count(name="a"), both, Count(name="b")])


TREES: dict[str, Callable[[PaymentTool], BaseAgent]] = {
    "sequence": in_sequence,
    "parallel": in_parallel,
    "loop": in_loop,
    "graph": in_graph,
    "router": in_router,
    "transfer": after_transfer,
    "agent_tool": in_agent_tool,
    "deep": deep_down,
}


async def approve_until_done(
    harness: RunnerHarness, result: RunResult, *, restart: bool
) -> RunResult:
    while result.status is RunStatus.INPUT_REQUIRED:
        harness = harness.restarted() if restart else harness
        result = await harness.approve_all(result.requests)
    return result


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "another process"])
@pytest.mark.parametrize("tree", sorted(TREES))
async def test_resumed_run_completes_with_each_step_done_once(
    storage: Storage, tree: str, restart: bool
) -> None:
    payment = PaymentTool()
    harness = storage.harness(TREES[tree](payment))
    first = await harness.say("pay 5")
    assert (first.status, payment.paid) == (RunStatus.INPUT_REQUIRED, [])
    done = await approve_until_done(harness, first, restart=restart)
    assert (done.status, payment.paid) == (RunStatus.COMPLETED, [5])
    stored = await harness.state()
    assert (stored["rounds"], stored["receipt"]) == (2 + (tree in ("loop", "graph")), "paid")
    assert {key: value for key, value in done.state.items() if "temp:" not in key} == stored
    artifact = await storage.artifacts.load(harness.runner.session_key("ann", "s1"), "log.txt")
    rounds = stored["rounds"]
    assert artifact is not None
    assert (artifact.version, artifact.text) == (rounds, f"round {rounds}")
    check_record(await harness.events())


@pytest.mark.parametrize("tree", sorted(TREES))
async def test_paused_run_has_usage_and_state_of_unpaused_run(storage: Storage, tree: str) -> None:
    paused, plain = PaymentTool(), PaymentTool()
    harness = storage.harness(TREES[tree](paused))
    done = await approve_until_done(harness, await harness.say("pay 5"), restart=True)
    straight_tree = TREES[tree](plain)
    for agent in straight_tree.walk():
        if isinstance(agent, Agent):
            for item in agent.own_tools.values():
                item.confirm = False
                if isinstance(item, AgentTool) and isinstance(item.agent, Agent):
                    item.agent.own_tools["pay"].confirm = False
    straight = await storage.harness(straight_tree).say("pay 5", session="other")
    assert straight.status is RunStatus.COMPLETED
    assert done.usage == straight.usage
    assert done.state == straight.state
    assert done.text == straight.text


async def test_other_branches_finish_before_the_run_pauses(storage: Storage) -> None:
    payment = PaymentTool()
    slow = scripted_agent(ScriptedModel("a", "b", "c"), name="slow", output_key="slow")
    work = LoopAgent(name="work", max_iterations=3, sub_agents=[slow])
    pays = scripted_agent(ScriptedModel(PAY, "paid"), payment.tool(), name="payer")
    harness = storage.harness(ParallelAgent(name="root", sub_agents=[pays, work]))
    waiting = await harness.say("go")
    assert [e.text for e in waiting.events if e.author == "slow"] == ["a", "b", "c"]
    assert await harness.state() == {}
    done = await harness.restarted().approve_all(waiting.requests)
    assert done.text == "payer: paid\nwork: c"
    assert await harness.state() == {"slow": "c"}


async def test_paused_branches_can_be_answered_one_by_one(storage: Storage) -> None:
    payments = [PaymentTool(), PaymentTool()]
    payers = [
        scripted_agent(
            ScriptedModel(PAY, f"paid {n}"), payment.tool(), name=f"payer{n}", output_key=f"r{n}"
        )
        for n, payment in enumerate(payments)
    ]
    harness = storage.harness(ParallelAgent(name="root", sub_agents=payers))
    waiting = await harness.say("go")
    by_agent = {request.agent: request for request in waiting.requests}
    again = await harness.restarted().answer(approve(by_agent["payer1"].id))
    assert again.requests == (by_agent["payer0"],)
    assert [payment.paid for payment in payments] == [[], [5]]
    done = await harness.restarted().answer(approve(by_agent["payer0"].id))
    assert [payment.paid for payment in payments] == [[5], [5]]
    assert (done.text, dict(done.state)) == (
        "payer0: paid 0\npayer1: paid 1",
        {"r0": "paid 0", "r1": "paid 1"},
    )


async def test_denied_branch_rejects_run_with_other_pending_request(storage: Storage) -> None:
    payment = PaymentTool()
    step = scripted_agent(ScriptedModel(), name="step", confirm=True)
    pays = scripted_agent(ScriptedModel(PAY), payment.tool(), name="payer")
    harness = storage.harness(ParallelAgent(name="root", sub_agents=[pays, step]))
    waiting = await harness.say("go")
    denied = next(request for request in waiting.requests if request.agent == "step")
    done = await harness.answer(deny(denied.id))
    assert (done.status, payment.paid) == (RunStatus.REJECTED, [])
    assert await harness.pending() == ()
    check_record(await harness.events())


async def test_loop_that_pauses_in_each_round_counts_rounds_once(storage: Storage) -> None:
    payment = PaymentTool()
    model = ScriptedModel(PAY, "paid", PAY, "paid", PAY, "paid")
    pays = scripted_agent(model, payment.tool(), name="payer")
    harness = storage.harness(
        LoopAgent(name="root", max_iterations=3, sub_agents=[Count(name="counts"), pays])
    )
    result = await harness.say("go")
    for round_ in (1, 2, 3):
        assert (result.status, len(payment.paid)) == (RunStatus.INPUT_REQUIRED, round_ - 1)
        assert (await harness.state())["rounds"] == round_
        result = await harness.restarted().approve_all(result.requests)
    assert (result.status, payment.paid, result.state["rounds"]) == (
        RunStatus.COMPLETED,
        [5] * 3,
        3,
    )
    assert "temp:last" in result.state
    assert "temp:last" not in await harness.state()
    check_record(await harness.events())


async def test_next_turn_uses_state_of_resumed_run(storage: Storage) -> None:
    payment = PaymentTool()
    pays = scripted_agent(ScriptedModel(PAY, "paid", "hello"), payment.tool(), name="payer")
    harness = storage.harness(SequentialAgent(name="root", sub_agents=[Count(name="counts"), pays]))
    await harness.approve_all((await harness.say("pay")).requests)
    assert (await harness.say("hi")).state["rounds"] == 2


async def test_key_removed_before_pause_is_available_in_replay(
    storage: Storage,
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

    harness = storage.harness(Takes(name="takes"))
    await harness.say("put")
    (request,) = (await harness.say("take")).requests
    assert await harness.state() == {"open": [1, 2]}
    done = await harness.restarted().answer(approve(request.id, value="yes"))
    assert done.text == "t-1 yes [1, 2] False"
