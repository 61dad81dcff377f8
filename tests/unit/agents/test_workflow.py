"""SequentialAgent, LoopAgent and ParallelAgent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_support import (
    Does,
    Writes,
    counts,
    escalates,
    events_of_kind,
    messages,
    says,
    texts_of_other_agents,
    turn,
)

from acc import (
    Agent,
    EventKind,
    LoopAgent,
    ModelResponse,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    ToolCall,
    ToolContext,
    exit_loop,
    tool,
)
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


def _escalates(ctx: RunContext) -> None:
    assert ctx.actions.escalate is False
    ctx.actions.escalate = True


@pytest.mark.parametrize("end", [_escalates, exit_loop])
async def test_custom_agent_may_escalate_with_actions(end: Any) -> None:
    def stop(ctx: RunContext) -> None:
        end(ctx)
        assert ctx.escalated

    steps = [counts("n", "n"), Does(name="stop", do=stop), counts("never", "m")]
    loop = LoopAgent(name="l", sub_agents=steps, max_iterations=5)
    assert (await turn(loop)).state == {"n": 1}


async def test_sequence_runs_in_order_and_returns_last_answer() -> None:
    result = await turn(SequentialAgent(name="s", sub_agents=[says("a"), says("b"), says("c")]))
    assert messages(result) == [("a", "a"), ("b", "b"), ("c", "c")]
    assert result.text == "c"


async def test_step_receives_messages_of_earlier_steps() -> None:
    model = ScriptedModel("mine")
    steps = [says("a", "first"), says("b", "second"), Agent(name="c", model=model, memory=None)]
    await turn(SequentialAgent(name="s", sub_agents=steps), "the question")
    prompt = model.requests[0]
    assert prompt.query == "the question"
    assert [(m.role, m.author, m.text) for m in prompt.following] == [
        ("assistant", "a", "first"),
        ("assistant", "b", "second"),
        ("user", "runtime", "The previous messages are from other agents: a, b. You are c."),
    ]


async def test_escalation_ends_outer_sequences() -> None:
    inner = SequentialAgent(name="inner", sub_agents=[escalates("stop"), says("skipped")])
    outer = SequentialAgent(name="outer", sub_agents=[says("a"), inner, says("also_skipped")])
    result = await turn(outer)
    assert [author for author, _ in messages(result)] == ["a", "stop"]
    assert result.text == "stop done"


async def test_failed_step_fails_the_run() -> None:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError("no paper")

    steps = [Writes(name="a", values={"kept": 1}), Does(name="b", do=fail), says("c")]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps))
    with pytest.raises(AgentFailed, match="agent 'b' failed: RuntimeError: no paper") as failed:
        await runner.run(user_id="ann", session_id="s1", message="go")
    assert failed.value.agent == "b"
    assert isinstance(failed.value.__cause__, RuntimeError)
    events = await runner.events(user_id="ann", session_id="s1")
    assert [event.author for event in events if event.kind is EventKind.MESSAGE] == ["user", "a"]
    assert events[-1].detail == {"code": "agent_failed"}
    assert await runner.state(user_id="ann", session_id="s1") == {"kept": 1}


async def test_loop_ends_at_max_iterations() -> None:
    loop = LoopAgent(name="l", sub_agents=[counts("a", "n"), counts("b", "n")], max_iterations=3)
    result = await turn(loop)
    assert [text for _, text in messages(result)] == ["1", "2", "3", "4", "5", "6"]
    assert (result.text, result.state) == ("6", {"n": 6})


async def test_loop_ends_on_escalation() -> None:
    def stop_at_two(ctx: RunContext) -> None:
        ctx.escalated = ctx.state["n"] == 2

    steps = [counts("a", "n"), Does(name="check", do=stop_at_two), counts("b", "later")]
    after = says("after")
    loop = LoopAgent(name="l", sub_agents=steps, max_iterations=9)
    result = await turn(SequentialAgent(name="s", sub_agents=[loop, after]))
    assert result.state == {"n": 2, "later": 1}
    assert result.text == "after"


async def test_escalation_ends_only_innermost_loop() -> None:
    def stop_at_two(ctx: RunContext) -> None:
        ctx.escalated = ctx.state["inner"] % 2 == 0

    check = Does(name="check", do=stop_at_two)
    inner = LoopAgent(name="inner", sub_agents=[counts("a", "inner"), check], max_iterations=9)
    outer = LoopAgent(name="outer", sub_agents=[inner, counts("b", "outer")], max_iterations=3)
    assert (await turn(outer)).state == {"inner": 6, "outer": 3}


async def test_exit_loop_ends_the_loop() -> None:
    model = ScriptedModel("draft 1", "draft 2", call("exit_loop"))
    writer = Agent(name="writer", model=model, tools=[exit_loop], memory=None)
    loop = LoopAgent(name="l", sub_agents=[writer, counts("round", "n")], max_iterations=9)
    result = await turn(loop)
    assert result.state == {"n": 2}
    assert result.text == "2", "the last words that were said in it"
    ended = next(e for e in result.events if e.actions.escalate)
    assert (ended.kind, ended.author) == (EventKind.TOOL_RESULT, "writer")


async def test_tool_may_escalate_and_model_text_is_the_answer() -> None:
    @tool
    def enough(ctx: ToolContext) -> dict[str, bool]:
        """Stop."""
        ctx.actions.escalate = True
        return {"enough": True}

    stop = ModelResponse(text="It is good now.", calls=(ToolCall(id="1", name="enough"),))
    model = ScriptedModel(stop, call("enough"))
    agent = Agent(name="a", model=model, tools=[enough], memory=None)
    runner = Runner(LoopAgent(name="l", sub_agents=[agent], max_iterations=5))
    first = await runner.run(user_id="ann", session_id="s1", message="go")
    second = await runner.run(user_id="ann", session_id="s1", message="go")
    # The result of a tool is never the answer.
    assert (first.text, second.text) == ("It is good now.", "")


async def test_escalation_in_branch_ends_outer_loop() -> None:
    both = ParallelAgent(name="p", sub_agents=[escalates("a"), says("b")])
    loop = LoopAgent(name="l", sub_agents=[both, says("never")], max_iterations=5)
    result = await turn(loop)
    assert [author for author, _ in messages(result)] == ["a", "b"]


async def test_rounds_of_loop_have_distinct_paths() -> None:
    result = await turn(LoopAgent(name="l", sub_agents=[says("a")], max_iterations=3))
    steps = [event.step for event in result.events if event.author == "a"]
    assert steps == ["/l/a#0", "/l/a:1#0", "/l/a:2#0"]


async def test_exit_loop_keeps_last_answer() -> None:
    writer = Agent(name="writer", model=ScriptedModel("draft 1", "draft 2"))
    critic = Agent(name="critic", model=ScriptedModel("more", call("exit_loop")), tools=[exit_loop])
    loop = LoopAgent(name="loop", sub_agents=[writer, critic], max_iterations=3)
    result = await Runner(loop).run(user_id="u", session_id="s", message="write")
    assert result.text == "draft 2"


async def test_loop_that_ends_in_its_first_round_has_the_answer_of_that_round() -> None:
    writer = Agent(name="writer", model=ScriptedModel("初稿"))
    critic = Agent(name="critic", model=ScriptedModel(call("exit_loop")), tools=[exit_loop])
    loop = LoopAgent(name="loop", sub_agents=[writer, critic], max_iterations=3)
    assert (await Runner(loop).run("write", user_id="u", session_id="s")).text == "初稿"


def fails(name: str, why: str = "broken") -> Does:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError(why)

    return Does(name=name, do=fail)


def meets(barrier: asyncio.Barrier) -> Callable[[RunContext], Awaitable[None]]:
    """Return what only ends if all the others run at the same time."""

    async def wait(ctx: RunContext) -> None:
        await barrier.wait()

    return wait


async def test_branches_run_concurrently() -> None:
    barrier = asyncio.Barrier(3)
    branches = [Does(name=name, do=meets(barrier)) for name in ("a", "b", "c")]
    result = await asyncio.wait_for(turn(ParallelAgent(name="p", sub_agents=branches)), 5)
    assert result.text == "a: a done\nb: b done\nc: c done"


async def test_branch_names_contain_the_path() -> None:
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


async def test_branch_does_not_see_writes_of_others() -> None:
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
    assert dict(messages(result)) == {
        "w": "w",
        "a": "['a', 'list'] ['w', 'a']",
        "b": "['b', 'list'] ['w', 'b']",
    }
    assert result.state == {"list": ["w", "a", "b"], "a": 1, "b": 1}


async def test_branch_writes_are_recorded_as_branch_delta() -> None:
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


async def test_branch_messages_are_visible_after_merge() -> None:
    models = [ScriptedModel("from a"), ScriptedModel("from b"), ScriptedModel("end")]
    agents = [Agent(name=n, model=m, memory=None) for n, m in zip("abc", models, strict=True)]
    both = ParallelAgent(name="p", sub_agents=agents[:2])
    await turn(SequentialAgent(name="s", sub_agents=[says("first"), both, agents[2]]))
    received = [texts_of_other_agents(model.requests[0]) for model in models]
    assert received == [["first"], ["first"], ["first", "from a", "from b"]]


async def test_failed_branch_cancels_others() -> None:
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


async def test_collected_failure_keeps_other_answers() -> None:
    branches = [Writes(name="good", values={"x": 1}), fails("bad", "no luck"), says("fine")]
    result = await turn(ParallelAgent(name="p", sub_agents=branches, on_error="collect"))
    assert (result.text, result.state) == ("good: good\nfine: fine", {"x": 1})
    fault = events_of_kind(result, EventKind.FAULT)[0]
    assert fault.text == "agent 'bad' failed: RuntimeError: no luck"
    assert fault.detail == {"code": "agent_failed", "agent": "bad", "branch": "p.bad"}


async def test_writes_of_failed_branch_are_dropped() -> None:
    def write_and_fail(ctx: RunContext) -> None:
        ctx.state["x"] = "half"
        raise RuntimeError("broken")

    branches = [Does(name="bad", do=write_and_fail), Writes(name="good", values={"x": "whole"})]
    result = await turn(ParallelAgent(name="p", sub_agents=branches, on_error="collect"))
    assert result.state == {"x": "whole"}


async def test_error_is_raised_if_all_branches_fail() -> None:
    agent = ParallelAgent(name="p", sub_agents=[fails("a"), fails("b")], on_error="collect")
    with pytest.raises(BranchFailed, match="agent 'a' failed"):
        await turn(agent)


async def test_merge_conflict_is_not_collected() -> None:
    branches = [Writes(name=name, values={"x": 1}) for name in ("a", "b")]
    with pytest.raises(StateConflict):
        await turn(ParallelAgent(name="p", sub_agents=branches, on_error="collect"))


@pytest.mark.parametrize("most", [1, 2])
async def test_max_concurrency_limits_branches(most: int) -> None:
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


async def test_transfer_stays_in_its_branch() -> None:
    helper = Agent(name="helper", description="Helps.", model=ScriptedModel("helped"), memory=None)
    asks = ScriptedModel(call("transfer_to_agent", agent_name="helper"))
    left = Agent(name="left", model=asks, sub_agents=[helper], memory=None)
    result = await turn(ParallelAgent(name="p", sub_agents=[left, says("right")]))
    assert result.text == "left: helped\nright: right"
    branch = next(e.branch for e in result.events if e.author == "helper")
    assert branch == "p.left"


async def test_answers_have_the_order_of_branches() -> None:
    async def slow(ctx: RunContext) -> None:
        await asyncio.sleep(0.01)

    result = await turn(ParallelAgent(name="p", sub_agents=[Does(name="a", do=slow), says("b")]))
    assert result.text == "a: a done\nb: b"
    assert [author for author, _ in messages(result)] == ["b", "a"]


async def test_failing_confirm_predicate_fails_only_its_branch() -> None:
    unsure = says("pay", confirm=lambda ctx: ctx.state["amount"] > 10_000)
    result = await turn(ParallelAgent(name="p", sub_agents=[unsure, says("b")], on_error="collect"))
    assert result.text == "b: b"
    (fault,) = events_of_kind(result, EventKind.FAULT)
    assert (fault.text, fault.detail["code"]) == (
        "agent 'pay' failed: KeyError: 'amount'",
        "agent_failed",
    )


async def test_exceeded_budget_is_not_collected() -> None:
    asked = [Agent(name=n, model=ScriptedModel("x"), memory=None) for n in ("a", "b", "c")]
    tree = ParallelAgent(name="p", sub_agents=asked, on_error="collect")
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await turn(tree, config=RunConfig(max_llm_calls=2))


@pytest.mark.parametrize("kind", [StorageFailed, SessionConflict, ReplayMismatch])
async def test_run_level_errors_are_not_collected(kind: type[AccError]) -> None:
    def fail(ctx: RunContext) -> None:
        raise kind("that ends it")

    steps = [Does(name="a", do=fail), says("b")]
    with pytest.raises(kind, match="that ends it"):
        await turn(ParallelAgent(name="p", sub_agents=steps, on_error="collect"))
