"""Resumed trees do not repeat work."""

from collections.abc import Callable

import pytest
from agent_support import (
    WHO,
    Does,
    approve_all,
    counts,
    payer,
    payment_tool,
    says,
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


async def approve_until_done(agent: BaseAgent) -> RunResult:
    """Run a tree and approve all its requests."""
    runner = Runner(agent)
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        result = await approve_all(runner, result)
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
async def test_work_before_pause_is_not_repeated(tree: str) -> None:
    pay, paid = payment_tool()
    result = await approve_until_done(TREES[tree](pay))
    assert result.status is RunStatus.COMPLETED
    assert (paid, result.state["n"]) == ([1], 1)


async def test_agent_confirm_predicate_decides_about_approval() -> None:
    asked: list[str] = []

    def needed(ctx: RunContext) -> bool:
        asked.append(ctx.message)
        return ctx.message == "danger"

    runner = Runner(Does(name="a", confirm=needed))
    assert (await runner.run(**WHO, message="harmless")).text == "a done"
    paused = await runner.run(**WHO, message="danger")
    assert (await approve_all(runner, paused)).text == "a done"
    assert asked == ["harmless", "danger"]


async def test_denied_agent_rejects_the_run() -> None:
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


async def test_failed_branch_is_not_repeated_on_resume() -> None:
    ran: list[str] = []

    def fail(ctx: RunContext) -> None:
        ran.append(ctx.agent.name)
        raise RuntimeError("broken")

    pay, paid = payment_tool()
    branches = [Does(name="bad", do=fail), payer("p", pay, 1)]
    result = await approve_until_done(
        ParallelAgent(name="both", sub_agents=branches, on_error="collect")
    )
    assert (result.text, ran, paid) == ("p: done", ["bad"], [1])


async def test_escalation_before_pause_ends_loop_after_resume() -> None:
    pay, paid = payment_tool()

    @tool
    def enough(ctx: ToolContext) -> str:
        """Stop."""
        ctx.actions.escalate = True
        return "enough"

    model = ScriptedModel([call("enough"), call("pay", amount=1)])
    agent = Agent(name="a", model=model, tools=[pay, enough], memory=None)
    result = await approve_until_done(LoopAgent(name="l", sub_agents=[agent], max_iterations=5))
    assert (result.text, paid) == ("", [1])


async def test_long_running_tool_is_started_once_and_may_be_denied() -> None:
    started: list[str] = []
    pay, paid = payment_tool()

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


async def test_artifacts_saved_before_pause_are_saved_once() -> None:
    async def save(ctx: RunContext) -> str:
        version = await ctx.artifacts.save("notes", "text")
        return f"version {version}"

    pay, _ = payment_tool()
    steps = [Does(name="saver", do=save), payer("p", pay, 1)]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps))
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert result.text == "done"
    stored = await runner.events(**WHO)
    assert [e.detail["version"] for e in stored if e.kind is EventKind.ARTIFACT] == [1]
    assert [e.text for e in stored if e.author == "saver" and e.text] == ["version 1"]
