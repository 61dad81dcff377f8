"""Nested workflows, custom agents and callbacks of every agent class."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from agent_support import WHO, Does, Writes, events_of_kind, messages, says, turn

from acc import (
    Agent,
    BaseAgent,
    EventKind,
    GraphAgent,
    LoopAgent,
    ModelRequest,
    ParallelAgent,
    RouterAgent,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
)
from acc.domain.errors import AgentFailed, InvalidInput
from acc.testing import ScriptedModel, call

Nest = Callable[[str, BaseAgent], BaseAgent]


def _custom(name: str, child: BaseAgent) -> BaseAgent:
    async def delegate(ctx: RunContext) -> str:
        return (await ctx.run_agent(child)).text

    return Does(name=name, do=delegate, sub_agents=[child], description=name)


def _model(name: str, child: BaseAgent) -> BaseAgent:
    asks = ScriptedModel(call("transfer_to_agent", agent_name=child.name), repeat=True)
    return Agent(name=name, model=asks, sub_agents=[child], description=name, memory=None)


def _tool(name: str, child: BaseAgent) -> BaseAgent:
    asks = ScriptedModel(call(child.name, request="go"), _last_result)
    return Agent(name=name, model=asks, tools=[child], description=name, memory=None)


def _last_result(prompt: ModelRequest) -> str:
    result = prompt.following[-1].parts[0].result
    assert result is not None
    return str(result.content)


NESTS: dict[str, Nest] = {
    "sequential": lambda name, child: SequentialAgent(
        name=name, sub_agents=[child], description=name
    ),
    "parallel": lambda name, child: ParallelAgent(name=name, sub_agents=[child], description=name),
    "loop": lambda name, child: LoopAgent(
        name=name, sub_agents=[child], description=name, max_iterations=1
    ),
    "router": lambda name, child: RouterAgent(
        name=name, sub_agents=[child], description=name, by=lambda ctx: child.name
    ),
    "graph": lambda name, child: GraphAgent(name=name, sub_agents=[child], description=name),
    "model": _model,
    "tool": _tool,
    "custom": _custom,
}


@pytest.mark.parametrize("inner", NESTS)
@pytest.mark.parametrize("outer", NESTS)
async def test_every_workflow_nests_in_every_workflow(outer: str, inner: str) -> None:
    leaf = Writes(name="leaf", values={"reached": True}, description="leaf")
    result = await turn(NESTS[outer]("outer", NESTS[inner]("inner", leaf)))
    assert result.status is RunStatus.COMPLETED
    assert result.text.endswith("leaf")
    assert result.state["reached"] is True
    assert ("leaf", "leaf") in messages(result)


async def test_all_workflows_nest_in_one_tree() -> None:
    tree: BaseAgent = Writes(name="leaf", values={"reached": True}, description="leaf")
    for kind, nest in NESTS.items():
        tree = nest(f"in_{kind}", tree)
    result = await turn(tree)
    assert result.text.endswith("leaf")
    assert result.state["reached"] is True


async def test_llm_agent_transfers_to_workflow() -> None:
    flow = SequentialAgent(name="flow", description="Flow.", sub_agents=[says("a"), says("b")])
    result = await turn(_model("root", flow))
    assert result.text == "b"


async def test_custom_agent_may_send_several_messages() -> None:
    async def talk(ctx: RunContext) -> str:
        await ctx.say("one")
        await ctx.progress("half way", detail={"percent": 50})
        return f"{ctx.message} {ctx.user_id} {ctx.session_id} {ctx.branch!r} {len(ctx.run_id)}"

    result = await turn(Does(name="a", do=talk), "hi")
    assert [text for _, text in messages(result)] == ["one", "hi ann s1 '' 32"]
    progress = events_of_kind(result, EventKind.PROGRESS)[0]
    assert (progress.text, progress.detail, progress.partial) == ("half way", {"percent": 50}, True)


async def test_custom_agent_may_answer_with_say() -> None:
    class Quiet(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            await ctx.say("said")

    assert (await turn(Quiet(name="q"))).text == "said"


async def test_custom_agent_may_return_a_value_which_is_stored_as_json() -> None:
    @dataclass
    class Count:
        words: int

    class Counts(BaseAgent[object, Count]):
        async def run(self, ctx: RunContext) -> Count:
            return Count(words=len(ctx.message.split()))

    result = await Runner(Counts(name="c")).run(**WHO, message="one two")
    assert result.text == '{"words":2}'
    assert result.output == Count(words=2)


async def test_custom_agent_must_return_a_value_that_fits_json() -> None:
    class Careless(BaseAgent):
        async def run(self, ctx: RunContext) -> object:
            return object()

    with pytest.raises(InvalidInput, match="'c' returned object; expected str"):
        await turn(Careless(name="c"))


async def test_custom_agent_runs_agent_with_own_message() -> None:
    model = ScriptedModel("first", "second")
    worker = Agent(name="worker", model=model, memory=None)

    async def plan(ctx: RunContext) -> str:
        done = [await ctx.run_agent(worker, message=f"part {n}") for n in (1, 2)]
        return " + ".join(each.text for each in done)

    result = await turn(Does(name="boss", do=plan, sub_agents=[worker]), "all of it")
    assert result.text == "first + second"
    assert [prompt.query for prompt in model.requests] == ["part 1", "part 2"]


async def test_agent_callbacks_run_for_every_agent_class() -> None:
    async def after(ctx: RunContext, text: str) -> str:
        return f"[{text}]"

    sequence = SequentialAgent(name="s", sub_agents=[says("a")], after_agent_callback=after)
    assert (await turn(sequence)).text == "[a]"
    skipped = SequentialAgent(
        name="s", sub_agents=[says("a")], before_agent_callback=lambda ctx: "not today"
    )
    assert messages(await turn(skipped)) == [("s", "not today")]
    silent = SequentialAgent(
        name="s",
        sub_agents=[says("a")],
        before_agent_callback=lambda ctx: None,
        after_agent_callback=lambda ctx, text: None,
    )
    assert (await turn(silent)).text == "a"


async def test_failing_agent_callback_fails_the_agent() -> None:
    def broken(ctx: RunContext) -> None:
        raise ValueError("oh no")

    with pytest.raises(AgentFailed, match="agent 'a' failed: ValueError: oh no"):
        await turn(Does(name="a", before_agent_callback=broken))


async def test_timeout_error_of_agent_is_not_a_run_timeout() -> None:
    def late(ctx: RunContext) -> None:
        raise TimeoutError("the printer")

    with pytest.raises(AgentFailed, match="TimeoutError: the printer"):
        await turn(Does(name="a", do=late), config=RunConfig(timeout=5))


async def test_runner_runs_sessions_concurrently() -> None:
    runner = Runner(Does(name="a", do=lambda ctx: f"{ctx.user_id}/{ctx.session_id}"))
    found: dict[str, str] = {}

    async def ask(user: str) -> None:
        result = await runner.run(user_id=user, session_id="s", message="hi")
        found[user] = result.text

    async with asyncio.TaskGroup() as group:
        for user in ("ann", "bob", "cyd"):
            group.create_task(ask(user))
    assert found == {"ann": "ann/s", "bob": "bob/s", "cyd": "cyd/s"}
