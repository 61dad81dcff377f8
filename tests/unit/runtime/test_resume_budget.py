"""Budgets of resumed runs."""

import asyncio
from typing import Any

import pytest
from agent_support import WHO, Does, approve_all, payment_tool, says
from msgspec.structs import replace

from acc import (
    Agent,
    BaseAgent,
    BudgetExceeded,
    GraphAgent,
    ModelRequest,
    ModelResponse,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    TransferLoop,
    Usage,
    approve,
    tool,
)
from acc.testing import ScriptedModel, call


async def ask(ctx: RunContext) -> None:
    await ctx.request_input("Go on?")


def asks(name: str = "asks") -> Does:
    return Does(name=name, do=ask)


def fails(name: str, **fields: Any) -> Does:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError("broken")

    return Does(name=name, do=fail, **fields)


def failing_model_agent() -> Agent:
    """Return an agent that fails after four model calls."""
    return Agent(name="bad", model=ScriptedModel(*[call("nothing")] * 4), memory=None)


def answering_agent(name: str, *answers: Any, **fields: Any) -> Agent:
    return Agent(name=name, model=ScriptedModel(*answers or (name,)), memory=None, **fields)


def in_branches(*agents: BaseAgent) -> BaseAgent:
    return ParallelAgent(name="both", sub_agents=agents, on_error="collect")


def in_graph(*agents: BaseAgent) -> BaseAgent:
    edges = [("first", agent.name) for agent in agents]
    nodes = [says("first"), *agents]
    return GraphAgent(name="both", sub_agents=nodes, edges=edges, on_error="collect")


COLLECTING = [in_branches, in_graph]


@pytest.mark.parametrize("collecting", COLLECTING)
async def test_usage_of_failed_branch_counts_after_resume(collecting: Any) -> None:
    both = collecting(failing_model_agent(), asks())
    runner = Runner(
        SequentialAgent(name="s", sub_agents=[both, asks("again"), answering_agent("end")])
    )
    result = await runner.run(**WHO, message="go")
    for _ in range(2):
        assert result.usage.llm_calls == 4
        result = await approve_all(runner, result)
    assert (result.text, result.usage.llm_calls) == ("end", 5)


@pytest.mark.parametrize("collecting", COLLECTING)
async def test_failed_branch_uses_budget_after_resume(collecting: Any) -> None:
    steps = [
        collecting(failing_model_agent(), asks()),
        answering_agent("one"),
        answering_agent("two"),
    ]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps), config=RunConfig(max_llm_calls=5))
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await approve_all(runner, await runner.run(**WHO, message="go"))


async def test_usage_of_failed_node_counts_once() -> None:
    async def ask_after_failure(ctx: RunContext) -> None:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        if ctx.state["n"] == 2:
            await ask(ctx)

    graph = GraphAgent(
        name="g",
        sub_agents=[
            says("first"),
            answering_agent("twice", "fine", *[call("nothing")] * 4),
            Does(name="beside", do=ask_after_failure),
        ],
        edges=[("first", "twice"), ("first", "beside"), ("twice", "first")],
        max_steps=4,
        on_error="collect",
    )
    runner = Runner(graph)
    paused = await runner.run(**WHO, message="go")
    assert paused.usage.llm_calls == 5
    assert (await approve_all(runner, paused)).usage.llm_calls == 5


async def test_transfers_of_failed_branch_count_after_resume() -> None:
    def hands_over(name: str, to: BaseAgent) -> Agent:
        return answering_agent(name, call("transfer_to_agent", agent_name=to.name), sub_agents=[to])

    bad = hands_over("bad", fails("worse", description="Fails."))
    good = hands_over("good", says("better", description="Works."))
    steps = [in_branches(bad, asks()), good]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps), config=RunConfig(max_hops=1))
    with pytest.raises(TransferLoop):
        await approve_all(runner, await runner.run(**WHO, message="go"))


class SlowModel:
    """Slow model that uses a thousand tokens per answer."""

    def __init__(self, *answers: Any) -> None:
        self._scripted = ScriptedModel(*answers)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        await asyncio.sleep(0.001)
        answer = await self._scripted.complete(prompt)
        return replace(answer, usage=Usage(input_tokens=900, output_tokens=100))


async def test_recorded_branches_pass_budget_check_on_resume() -> None:
    pay, paid = payment_tool()
    agents = [Agent(name=name, model=SlowModel(name), memory=None) for name in ("a", "b")]
    payer = Agent(name="c", model=SlowModel(call("pay", amount=5)), tools=[pay], memory=None)
    tree = ParallelAgent(name="p", sub_agents=[*agents, payer])
    runner = Runner(tree, config=RunConfig(token_budget=2_000))
    paused = await runner.run(**WHO, message="go")
    assert paused.usage.input_tokens + paused.usage.output_tokens == 3_000
    with pytest.raises(BudgetExceeded, match="token_budget"):  # for the next answer only
        await approve_all(runner, paused)
    assert paid == [5]


async def test_answer_without_model_call_passes_budget_check_on_resume() -> None:
    cached = answering_agent("cached", before_model_callback=lambda ctx, prompt: "known")
    tree = SequentialAgent(name="s", sub_agents=[answering_agent("asked"), cached, asks()])
    runner = Runner(tree, config=RunConfig(max_llm_calls=1))
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert (result.text, result.usage.llm_calls) == ("asks done", 1)


@tool
def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


TWO_LOOKS = [call("look", at="a"), call("look", at="b")]


async def test_calls_that_were_not_executed_pass_budget_check_on_resume() -> None:
    ran = Agent(name="ran", model=SlowModel(TWO_LOOKS, "ran"), tools=[look], memory=None)
    spared = answering_agent(
        "spared", TWO_LOOKS, "spared", tools=[look], before_tool_callback=lambda *_: "as before"
    )
    tree = ParallelAgent(name="p", sub_agents=[ran, spared, asks()])
    runner = Runner(tree, config=RunConfig(max_tool_calls=2))
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert (result.text, result.usage.tool_calls) == (
        "ran: ran\nspared: spared\nasks: asks done",
        2,
    )


async def test_limits_of_resume_apply_to_new_calls() -> None:
    used = says("used", description="Helps.")
    other = says("other", description="Takes over.")
    worker = answering_agent(
        "worker",
        TWO_LOOKS,
        call("used", request="x"),
        call("transfer_to_agent", agent_name="other"),
        tools=[look, used],
        sub_agents=[other],
    )
    runner = Runner(SequentialAgent(name="s", sub_agents=[worker, asks(), answering_agent("end")]))
    paused = await runner.run(**WHO, message="go")
    least = RunConfig(max_llm_calls=4, max_tool_calls=0, max_hops=0)
    answers = [approve(paused.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, config=least)
    assert (result.text, result.usage.llm_calls, result.usage.tool_calls) == ("end", 4, 4)
