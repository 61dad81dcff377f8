"""One after another, and again and again."""

from typing import Any

import pytest
from small_agents import Does, Writes, counts, escalates, said, says, turn

from acc import (
    Agent,
    EventKind,
    LoopAgent,
    ModelAnswer,
    ParallelAgent,
    RunContext,
    Runner,
    SequentialAgent,
    ToolCall,
    ToolContext,
    exit_loop,
    tool,
)
from acc.domain.errors import AgentFailed
from acc.testing import ScriptedModel, call


def _escalates(ctx: RunContext) -> None:
    assert ctx.actions.escalate is False
    ctx.actions.escalate = True


@pytest.mark.parametrize("end", [_escalates, exit_loop])
async def test_an_agent_of_ones_own_ends_a_loop_in_the_words_of_a_tool(end: Any) -> None:
    def stop(ctx: RunContext) -> None:
        end(ctx)
        assert ctx.escalated

    steps = [counts("n", "n"), Does(name="stop", do=stop), counts("never", "m")]
    loop = LoopAgent(name="l", sub_agents=steps, max_iterations=5)
    assert (await turn(loop)).state == {"n": 1}


async def test_a_sequence_runs_in_order_and_answers_with_the_last() -> None:
    result = await turn(SequentialAgent(name="s", sub_agents=[says("a"), says("b"), says("c")]))
    assert said(result) == [("a", "a"), ("b", "b"), ("c", "c")]
    assert result.text == "c"


async def test_each_step_hears_what_those_before_it_said() -> None:
    model = ScriptedModel("mine")
    steps = [says("a", "first"), says("b", "second"), Agent(name="c", model=model, memory=None)]
    await turn(SequentialAgent(name="s", sub_agents=steps), "the question")
    prompt = model.asked[0]
    assert prompt.query == "the question"
    assert [(m.role, m.author, m.text) for m in prompt.messages] == [
        ("agent", "a", "first"),
        ("agent", "b", "second"),
    ]


async def test_a_step_that_escalates_ends_the_sequences_around_it() -> None:
    inner = SequentialAgent(name="inner", sub_agents=[escalates("stop"), says("skipped")])
    outer = SequentialAgent(name="outer", sub_agents=[says("a"), inner, says("also_skipped")])
    result = await turn(outer)
    assert [author for author, _ in said(result)] == ["a", "stop"]
    assert result.text == "stop done"


async def test_a_step_that_fails_ends_the_run_and_names_the_agent() -> None:
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


async def test_a_loop_ends_at_its_bound() -> None:
    loop = LoopAgent(name="l", sub_agents=[counts("a", "n"), counts("b", "n")], max_iterations=3)
    result = await turn(loop)
    assert [text for _, text in said(result)] == ["1", "2", "3", "4", "5", "6"]
    assert (result.text, result.state) == ("6", {"n": 6})


async def test_a_loop_ends_when_a_step_escalates() -> None:
    def stop_at_two(ctx: RunContext) -> None:
        ctx.escalated = ctx.state["n"] == 2

    steps = [counts("a", "n"), Does(name="check", do=stop_at_two), counts("b", "later")]
    after = says("after")
    loop = LoopAgent(name="l", sub_agents=steps, max_iterations=9)
    result = await turn(SequentialAgent(name="s", sub_agents=[loop, after]))
    assert result.state == {"n": 2, "later": 1}
    assert result.text == "after"


async def test_only_the_innermost_loop_ends() -> None:
    def stop_at_two(ctx: RunContext) -> None:
        ctx.escalated = ctx.state["inner"] % 2 == 0

    check = Does(name="check", do=stop_at_two)
    inner = LoopAgent(name="inner", sub_agents=[counts("a", "inner"), check], max_iterations=9)
    outer = LoopAgent(name="outer", sub_agents=[inner, counts("b", "outer")], max_iterations=3)
    assert (await turn(outer)).state == {"inner": 6, "outer": 3}


async def test_a_model_ends_the_loop_with_a_tool() -> None:
    model = ScriptedModel("draft 1", "draft 2", call("exit_loop"))
    writer = Agent(name="writer", model=model, tools=[exit_loop], memory=None)
    loop = LoopAgent(name="l", sub_agents=[writer, counts("round", "n")], max_iterations=9)
    result = await turn(loop)
    assert result.state == {"n": 2}
    assert result.text == "2", "the last words that were said in it"
    ended = next(e for e in result.events if e.actions.escalate)
    assert (ended.kind, ended.author) == (EventKind.TOOL_RESULT, "writer")


async def test_a_tool_of_ones_own_can_end_the_loop_and_the_models_words_are_the_answer() -> None:
    @tool
    def enough(ctx: ToolContext) -> dict[str, bool]:
        """Stop."""
        ctx.actions.escalate = True
        return {"enough": True}

    stop = ModelAnswer(text="It is good now.", calls=(ToolCall(id="1", name="enough"),))
    model = ScriptedModel(stop, call("enough"))
    agent = Agent(name="a", model=model, tools=[enough], memory=None)
    runner = Runner(LoopAgent(name="l", sub_agents=[agent], max_iterations=5))
    first = await runner.run(user_id="ann", session_id="s1", message="go")
    second = await runner.run(user_id="ann", session_id="s1", message="go")
    assert (first.text, second.text) == ("It is good now.", '{"enough":true}')


async def test_an_escalation_in_a_parallel_branch_ends_the_loop_around_it() -> None:
    both = ParallelAgent(name="p", sub_agents=[escalates("a"), says("b")])
    loop = LoopAgent(name="l", sub_agents=[both, says("never")], max_iterations=5)
    result = await turn(loop)
    assert [author for author, _ in said(result)] == ["a", "b"]


async def test_each_round_of_a_loop_has_a_place_of_its_own() -> None:
    result = await turn(LoopAgent(name="l", sub_agents=[says("a")], max_iterations=3))
    steps = [event.step for event in result.events if event.author == "a"]
    assert steps == ["/l/a#0", "/l/a:1#0", "/l/a:2#0"]
