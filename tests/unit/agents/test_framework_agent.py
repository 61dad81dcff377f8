"""FrameworkAgent with a framework of our own: what all frameworks have in common."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

import acc
from acc.application.agents.framework import (
    FrameworkAgent,
    FrameworkEvents,
    FrameworkRequest,
    FrameworkResult,
    FrameworkTurn,
    agent_name,
)


@dataclass(kw_only=True, eq=False)
class Counter(FrameworkAgent):
    """Counts its calls in the checkpoint, and does what the message says."""

    framework: ClassVar[str] = "counter"
    turns: list[FrameworkTurn] = field(default_factory=list)

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        self.turns.append(turn)
        count = (turn.checkpoint or 0) + 1
        if turn.answers:
            values = [given.answer.value for given in turn.answers]
            return FrameworkResult(answer=f"got {values}", checkpoint=count)
        if turn.message == "ask":
            requests = tuple(FrameworkRequest(key=key, message=f"{key}?") for key in "ab")
            return FrameworkResult(checkpoint=-100, requests=requests)
        if turn.message == "thread":
            await asyncio.to_thread(self._work, events)
        if turn.message == "call":
            for _ in range(2):
                events.model_started(["earlier text"])
                events.model_ended(input_tokens=7, output_tokens=3, cached=2)
        if turn.message.startswith("crash"):
            events.model_started()
            raise RuntimeError("inside")
        answer: Any = {"count": count} if turn.message == "data" else f"call {count}"
        if turn.message == "long":
            answer = "x" * 100
        return FrameworkResult(answer=answer, checkpoint=count)

    def _work(self, events: FrameworkEvents) -> None:
        events.delta("one ")
        events.tool_started("1", "look_up", {"when": object})
        events.tool_started("1", "look_up", {})  # started again: still one call
        events.tool_ended("1", {"a": {1, 2}})
        events.tool_ended("unknown", None)
        events.tool_started("2", "read", "plain text")


async def test_checkpoint_of_one_call_is_that_of_the_next() -> None:
    agent = Counter(name="counter")
    runner = acc.Runner(agent)
    assert (await runner.run("hi")).text == "call 1"
    assert (await runner.run("hi")).text == "call 2"
    assert [turn.checkpoint for turn in agent.turns] == [None, 1]
    assert (await runner.run("hi", session_id="other")).text == "call 1"


async def test_session_id_is_different_for_users_sessions_and_agents() -> None:
    agent = Counter(name="counter")
    runner = acc.Runner(agent)
    for user_id, session_id in (("u", "s"), ("u", "t"), ("v", "s")):
        await runner.run("hi", user_id=user_id, session_id=session_id)
    other = Counter(name="other")
    await acc.Runner(other).run("hi", user_id="u", session_id="s")
    assert len({turn.session_id for turn in (*agent.turns, *other.turns)}) == 4


async def test_all_questions_are_answered_before_the_call_continues() -> None:
    agent = Counter(name="counter")
    runner = acc.Runner(agent)
    await runner.run("hi")
    paused = await runner.run("ask")
    assert [request.message for request in paused.requests] == ["a?", "b?"]
    still = await runner.resume(acc.approve(paused.requests[1], value=2))
    assert still.status is acc.RunStatus.INPUT_REQUIRED
    assert len(agent.turns) == 2
    result = await runner.resume(acc.approve(paused.requests[0], value=1))
    assert result.text == "got [1, 2]"
    assert agent.turns[-1].checkpoint == -100


async def test_turn_after_an_abandoned_question_starts_from_before_it() -> None:
    agent = Counter(name="counter")
    runner = acc.Runner(agent)
    await runner.run("hi")
    await runner.run("ask")
    await runner.abandon()
    assert (await runner.run("hi")).text == "call 2"


async def test_replayed_call_is_not_repeated_and_counts_its_usage() -> None:
    first, second = Counter(name="first"), Counter(name="second")
    runner = acc.Runner(acc.SequentialAgent(name="both", sub_agents=[first, second]))

    async def ask_later(ctx: acc.RunContext) -> str | None:
        await ctx.ask("ready?")
        return None

    second.before_agent_callback = ask_later
    paused = await runner.run("call")
    result = await runner.resume(acc.approve(paused.requests[0], value="yes"))
    assert len(first.turns) == 1
    assert result.usage.llm_calls == paused.usage.llm_calls
    assert result.usage.llm_calls == 2
    assert (result.usage.input_tokens, result.usage.cached_tokens) == (14, 4)


async def test_reports_from_threads_are_events_in_order() -> None:
    agent = Counter(name="counter")
    stream = acc.Runner(agent).stream("thread")
    events = [event async for event in stream if event.author == "counter"]
    kinds = [event.kind.value for event in events]
    calls = ["tool_calls", "tool_result"]
    assert kinds[:6] == ["delta", *calls, *calls, "memory"]
    results = [event.result for event in events if event.result is not None]
    assert results[1].content == "no result yet: the call waits for input"
    assert [dict(call.arguments) for event in events for call in event.calls][1] == {
        "input": "plain text"
    }


async def test_memory_is_measured_in_the_first_model_call() -> None:
    result = await acc.Runner(Counter(name="counter")).run("call")
    (memory,) = (event for event in result.events if event.kind is acc.EventKind.MEMORY)
    assert memory.detail["tokens"] == result.usage.memory_tokens > 0


async def test_limit_of_model_calls_is_reported_as_such() -> None:
    runner = acc.Runner(Counter(name="counter"), config=acc.RunConfig(max_llm_calls=1))
    with pytest.raises(acc.BudgetExceeded):
        await runner.run("call")


async def test_limit_of_tool_calls_is_reported_as_such() -> None:
    runner = acc.Runner(Counter(name="counter"), config=acc.RunConfig(max_tool_calls=0))
    with pytest.raises(acc.BudgetExceeded):
        await runner.run("thread")


async def test_model_call_that_never_ends_does_not_use_the_budget_of_others() -> None:
    tree = acc.SequentialAgent(name="both", sub_agents=[Counter(name="a"), Counter(name="b")])

    def ignore(ctx: acc.RunContext, error: Exception) -> str:
        return "failed"

    tree.sub_agents[0].on_agent_error_callback = ignore
    runner = acc.Runner(tree, config=acc.RunConfig(max_llm_calls=1))
    with pytest.raises(acc.AgentFailed, match="RuntimeError: inside"):
        await runner.run("crash")


async def test_answer_that_is_not_text_is_json() -> None:
    result = await acc.Runner(Counter(name="counter")).run("data")
    assert result.output == {"count": 1}
    assert result.text == '{"count":1}'


async def test_long_answer_is_refused() -> None:
    config = acc.RunConfig(max_answer_characters=50)
    with pytest.raises(acc.AgentFailed, match="exceeds 50 characters"):
        await acc.Runner(Counter(name="counter"), config=config).run("long")


def test_sub_agents_are_refused() -> None:
    with pytest.raises(acc.InvalidTree, match="has no sub-agents"):
        Counter(name="counter", sub_agents=[Counter(name="below")])


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("My agent!", "My_agent"),
        ("", "agent"),
        (None, "agent"),
        ("9 lives", "agent"),
        ("user", "agent"),
        ("案内係", "案内係"),
        ("x" * 100, "x" * 64),
    ],
)
def test_name_is_made_valid(given: object, name: str) -> None:
    assert agent_name(given, "agent") == name


async def test_agent_of_acc_may_take_the_name_of_a_framework_agent() -> None:
    from acc.testing import ScriptedModel

    services = acc.Runner(Counter(name="desk"))
    await services.run("hi")
    agent = acc.Agent(name="desk", model=ScriptedModel("fine"), memory="acc")
    runner = acc.Runner(agent, services=services.services)
    assert (await runner.run("hello")).text == "fine"
