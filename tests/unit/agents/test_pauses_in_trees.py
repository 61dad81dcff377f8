"""Trees that wait for a person and go on: nothing is done twice, wherever the pause is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from small_agents import (
    WHO,
    Does,
    Writes,
    approved,
    counts,
    of_kind,
    payer,
    results,
    said,
    says,
    till,
    turn,
)

from acc import (
    Agent,
    BaseAgent,
    EventKind,
    FunctionTool,
    LoopAgent,
    ParallelAgent,
    RouterAgent,
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


@dataclass
class Money:
    amount: int
    currency: str = "EUR"


async def to_the_end(agent: BaseAgent) -> RunResult:
    """Run a tree and say yes to everything it asks."""
    runner = Runner(agent)
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        result = await approved(runner, result)
    return result


TREES: dict[str, Callable[[FunctionTool], BaseAgent]] = {
    "a sequence": lambda pay: SequentialAgent(
        name="s", sub_agents=[counts("before", "n"), payer("p", pay, 1)]
    ),
    "a loop": lambda pay: LoopAgent(
        name="l", sub_agents=[counts("before", "n"), payer("p", pay, 1)], max_iterations=1
    ),
    "a branch": lambda pay: ParallelAgent(
        name="both", sub_agents=[counts("before", "n"), payer("p", pay, 1)]
    ),
    "a router by a model": lambda pay: SequentialAgent(
        name="s",
        sub_agents=[
            counts("before", "n"),
            RouterAgent(
                name="r",
                sub_agents=[payer("p", pay, 1, description="Pays.")],
                by="model",
                model=ScriptedModel("p"),
            ),
        ],
    ),
    "an agent that answered before": lambda pay: SequentialAgent(
        name="s",
        sub_agents=[
            counts("before", "n"),
            Agent(name="a", model=ScriptedModel("", "said"), memory=None, output_key="said"),
            payer("p", pay, 1),
        ],
    ),
}


@pytest.mark.parametrize("tree", TREES)
async def test_what_was_done_before_the_pause_is_not_done_again(tree: str) -> None:
    pay, paid = till()
    result = await to_the_end(TREES[tree](pay))
    assert result.status is RunStatus.COMPLETED
    assert (paid, result.state["n"]) == ([1], 1)


async def test_calls_of_one_answer_wait_together_and_are_made_once() -> None:
    pay, paid = till()
    looked: list[int] = []

    @tool
    def look() -> str:
        """Look."""
        looked.append(1)
        return "seen"

    model = ScriptedModel([call("pay", amount=1), call("look"), call("pay", amount=2)], "done")
    runner = Runner(Agent(name="a", model=model, tools=[pay, look], memory=None))
    paused = await runner.run(**WHO, message="go")
    assert (paid, looked, len(paused.requests)) == ([], [1], 2)
    half = await runner.resume(**WHO, answers=[approve(paused.requests[0].id)])
    assert (paid, looked, half.requests) == ([1], [1], paused.requests[1:])
    result = await approved(runner, half)
    assert (result.text, paid, looked) == ("done", [1, 2], [1])


async def test_a_call_that_could_not_be_made_is_not_counted_as_made_when_resumed() -> None:
    pay, paid = till()
    model = ScriptedModel([call("magic"), call("pay", amount=1)], "done")
    result = await to_the_end(Agent(name="a", model=model, tools=[pay], memory=None))
    assert (result.text, paid) == ("done", [1])


async def test_a_person_may_say_no_or_give_other_arguments() -> None:
    pay, paid = till()
    agent = payer("a", pay, 1, 2, 3)
    runner = Runner(agent)
    paused = await runner.run(**WHO, message="go")
    answers = [
        deny(paused.requests[0].id, "too much"),
        approve(paused.requests[1].id, arguments={"amount": 20}),
        deny(paused.requests[2].id),
    ]
    result = await runner.resume(**WHO, answers=answers)
    assert paid == [20]
    assert isinstance(agent.model, ScriptedModel)
    told = [m.parts[0].result for m in agent.model.asked[-1].messages if m.role == "tool"]
    denied, edited, plainly = [r.content for r in told if r is not None]
    assert denied == {"status": "denied", "reason": "too much"}
    assert edited == "paid 20"
    assert plainly == {"status": "denied", "reason": "a person denied this call"}
    assert result.text == "done"


async def test_a_person_is_shown_what_will_run_with_its_defaults() -> None:
    @tool(confirm="Really?")
    def pay(money: Money, times: int = 1) -> str:
        """Pay."""
        return f"{money.amount * times} {money.currency}"

    model = ScriptedModel(call("pay", money={"amount": 5}), "done")
    runner = Runner(Agent(name="a", model=model, tools=[pay], memory=None))
    paused = await runner.run(**WHO, message="go")
    asked = paused.requests[0]
    assert (asked.message, asked.tool) == ("Really?", "pay")
    assert asked.arguments == {"money": {"amount": 5, "currency": "EUR"}, "times": 1}
    assert results(await approved(runner, paused)) == ["5 EUR"]


async def test_a_predicate_decides_and_one_that_fails_asks_a_person() -> None:
    @tool(confirm=lambda arguments: arguments["amount"] > 10)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    async def broken(arguments: Any) -> bool:
        raise RuntimeError("cannot decide")

    @tool(confirm=broken)
    def send() -> str:
        """Send."""
        return "sent"

    calls = [call("pay", amount=1), call("pay", amount=11), call("send")]
    runner = Runner(Agent(name="a", model=ScriptedModel(calls, "done"), tools=[pay, send]))
    paused = await runner.run(**WHO, message="go")
    assert [(r.tool, r.arguments) for r in paused.requests] == [
        ("pay", {"amount": 11}),
        ("send", {}),
    ]
    assert (await approved(runner, paused)).text == "done"


async def test_a_step_that_needs_a_yes_runs_after_it_and_a_no_ends_the_run() -> None:
    def tree() -> SequentialAgent:
        step = Writes(name="step", values={"done": True}, confirm="Shall it?")
        return SequentialAgent(name="s", sub_agents=[counts("before", "n"), step])

    runner = Runner(tree())
    paused = await runner.run(**WHO, message="go")
    assert paused.requests[0].message == "Shall it?"
    assert (await approved(runner, paused)).state == {"n": 1, "done": True}
    other = Runner(tree())
    paused = await other.run(**WHO, message="go")
    result = await other.resume(**WHO, answers=[deny(paused.requests[0].id, "not now")])
    assert (result.status, result.text) == (RunStatus.REJECTED, "rejected: step: not now")


async def test_a_predicate_tells_whether_a_step_needs_a_yes() -> None:
    asked: list[str] = []

    def needed(ctx: RunContext) -> bool:
        asked.append(ctx.message)
        return ctx.message == "danger"

    runner = Runner(Does(name="a", confirm=needed))
    assert (await runner.run(**WHO, message="harmless")).text == "a done"
    paused = await runner.run(**WHO, message="danger")
    assert (await approved(runner, paused)).text == "a done"
    assert asked == ["harmless", "danger"]


async def test_a_no_in_a_branch_or_beside_other_calls_ends_the_run() -> None:
    trees: list[BaseAgent] = [
        ParallelAgent(name="p", sub_agents=[says("a"), says("b", confirm=True)]),
        Agent(
            name="boss",
            model=ScriptedModel([call("a", request="x"), call("b", request="x")]),
            tools=[says("a", description="A."), says("b", description="B.", confirm=True)],
            memory=None,
        ),
    ]
    for tree in trees:
        runner = Runner(tree)
        paused = await runner.run(**WHO, message="go")
        result = await runner.resume(**WHO, answers=[deny(paused.requests[0].id)])
        assert (result.status, result.text) == (RunStatus.REJECTED, "rejected: b: deny")


async def test_a_branch_that_failed_before_the_pause_is_not_run_again() -> None:
    ran: list[str] = []

    def fail(ctx: RunContext) -> None:
        ran.append(ctx.agent.name)
        raise RuntimeError("broken")

    pay, paid = till()
    branches = [Does(name="bad", do=fail), payer("p", pay, 1)]
    result = await to_the_end(ParallelAgent(name="both", sub_agents=branches, on_error="collect"))
    assert (result.text, ran, paid) == ("p: done", ["bad"], [1])


async def test_an_exit_from_a_loop_before_a_pause_still_counts_after_it() -> None:
    pay, paid = till()

    @tool
    def enough(ctx: ToolContext) -> str:
        """Stop."""
        ctx.actions.escalate = True
        return "enough"

    model = ScriptedModel([call("enough"), call("pay", amount=1)])
    agent = Agent(name="a", model=model, tools=[pay, enough], memory=None)
    result = await to_the_end(LoopAgent(name="l", sub_agents=[agent], max_iterations=5))
    assert (result.text, paid) == ("paid 1", [1])


async def test_a_long_running_tool_is_not_started_again_and_may_come_to_nothing() -> None:
    started: list[str] = []
    pay, paid = till()

    @tool(long_running=True)
    async def build(name: str, ctx: ToolContext) -> str:
        """Build."""
        started.append(name)
        await ctx.artifacts.save(f"log {name}", "begun")
        return f"ticket {name}"

    calls = [call("build", name="x"), call("build", name="y"), call("pay", amount=1)]
    runner = Runner(Agent(name="a", model=ScriptedModel(calls, "done"), tools=[build, pay]))
    paused = await runner.run(**WHO, message="go")
    asked = {str(request.arguments.get("ticket", "pay")): request for request in paused.requests}
    no_room = deny(asked.pop("ticket x").id, "no room")
    half = await runner.resume(**WHO, answers=[no_room])
    assert {r.id for r in half.requests} == {r.id for r in asked.values()}
    answers = [approve(asked["ticket y"].id, value="built"), approve(asked["pay"].id)]
    result = await runner.resume(**WHO, answers=answers)
    assert (result.text, started, paid) == ("done", ["x", "y"], [1])
    stored = [e.result.content for e in await runner.events(**WHO) if e.result is not None]
    assert {"status": "denied", "reason": "no room"} in stored
    assert "built" in stored


async def test_files_saved_before_a_pause_are_saved_once() -> None:
    async def save(ctx: RunContext) -> str:
        version = await ctx.artifacts.save("notes", "text")
        return f"version {version}"

    pay, _ = till()
    steps = [Does(name="saver", do=save), payer("p", pay, 1)]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps))
    result = await approved(runner, await runner.run(**WHO, message="go"))
    assert result.text == "done"
    stored = await runner.events(**WHO)
    assert [e.detail["version"] for e in stored if e.kind is EventKind.ARTIFACT] == [1]
    assert [e.text for e in stored if e.author == "saver" and e.text] == ["version 1"]


async def test_nothing_waits_in_a_tree_that_asks_nobody() -> None:
    result = await turn(says("a"))
    assert (said(result), of_kind(result, EventKind.INPUT_REQUIRED)) == ([("a", "a")], [])
