"""Agent callbacks and stubs: replaced answers, output keys, conversation."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from agent_support import (
    WHO,
    Does,
    Writes,
    events_of_kind,
    messages,
    says,
    texts_of_other_agents,
    turn,
)

from acc import (
    Agent,
    AgentFailed,
    ApprovalDecision,
    BaseAgent,
    EventKind,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    approve,
)
from acc.testing import ScriptedModel, call

SECRET = "the code is 1234"


def redacting(*script: Any, **fields: Any) -> Agent:
    return Agent(
        name="a",
        model=ScriptedModel(*(script or (SECRET,))),
        after_agent_callback=lambda ctx, text: "[redacted]",
        output_key="out",
        **fields,
    )


def received_by(model: ScriptedModel) -> list[str]:
    return texts_of_other_agents(model.requests[0])


async def test_replaced_answer_is_not_visible() -> None:
    model = ScriptedModel("fine")
    tree = SequentialAgent(name="s", sub_agents=[redacting(), Agent(name="b", model=model)])
    result = await turn(tree)
    assert messages(result) == [("a", "[redacted]"), ("b", "fine")]
    assert received_by(model) == ["[redacted]"]
    assert result.state["out"] == "[redacted]"
    (draft,) = events_of_kind(result, EventKind.DRAFT)
    assert draft.text == SECRET and draft.usage is not None and draft.usage.llm_calls == 1
    assert result.usage.llm_calls == 2


async def test_unchanged_answer_is_recorded_once() -> None:
    looked: list[str] = []
    tree = SequentialAgent(
        name="s",
        sub_agents=[
            says("a", "one", after_agent_callback=lambda ctx, text: looked.append(text)),
            says("b", "two"),
        ],
    )
    result = await turn(tree)
    assert looked == ["one"]
    assert messages(result) == [("a", "one"), ("b", "two")]


async def test_replaced_answer_of_workflow_replaces_its_messages() -> None:
    model = ScriptedModel("fine")
    team = SequentialAgent(
        name="team",
        sub_agents=[says("x", "draft"), says("y", SECRET)],
        after_agent_callback=lambda ctx, text: f"{len(text)} letters",
    )
    tree = SequentialAgent(
        name="s", sub_agents=[says("first", "hello"), team, Agent(name="b", model=model)]
    )
    assert (await turn(tree)).text == "fine"
    assert received_by(model) == ["hello", f"{len(SECRET)} letters"]


async def test_replaced_answer_in_branch_is_not_in_conversation() -> None:
    model = ScriptedModel("fine")
    beside = ParallelAgent(name="p", sub_agents=[redacting(), says("x", "other")])
    await turn(SequentialAgent(name="s", sub_agents=[beside, Agent(name="b", model=model)]))
    assert received_by(model) == ["[redacted]", "other"]


@pytest.mark.parametrize("callback_field", ["after_agent_callback", "after_model_callback"])
async def test_answer_is_not_streamed_if_callback_may_replace_it(callback_field: str) -> None:
    fields: dict[str, Any] = {callback_field: lambda ctx, found: "[redacted]"}
    agent = Agent(name="a", model=ScriptedModel(SECRET), **fields)
    shown = [event async for event in Runner(agent).stream(**WHO, message="go")]
    assert not [event for event in shown if event.kind is EventKind.DELTA]
    assert [e.text for e in shown if e.kind is EventKind.MESSAGE] == ["go", "[redacted]"]


async def test_after_callback_may_request_input_without_second_model_call() -> None:
    async def released(ctx: RunContext, text: str) -> str:
        answer = await ctx.request_input(f"May I say {text!r}?")
        return text if answer.verdict is ApprovalDecision.APPROVE else "no comment"

    model = ScriptedModel("profits are up")
    agent = Agent(name="a", model=model, after_agent_callback=released)
    runner = Runner(agent)
    paused = await runner.run(**WHO, message="news?")
    assert paused.requests[0].message == "May I say 'profits are up'?"
    assert not messages(paused)
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id))
    assert done.text == "profits are up" and len(model.requests) == 1


@pytest.mark.parametrize("found", [{"a": 1}, 5, b"x"])
async def test_callback_returning_no_text_fails_the_agent(found: object) -> None:
    def check(ctx: RunContext, text: str = "") -> object:
        return found

    no_text = f"check returned {type(found).__name__}"
    for agent in (says("a", after_agent_callback=check), says("a", before_agent_callback=check)):
        with pytest.raises(AgentFailed, match=no_text):
            await turn(agent)


async def test_message_of_callback_precedes_the_answer() -> None:
    async def note(ctx: RunContext, text: str) -> None:
        await ctx.say("(sources: a, b)")

    model = ScriptedModel("fine")
    first = says("a", "the answer", after_agent_callback=note)
    tree = SequentialAgent(name="s", sub_agents=[first, Agent(name="b", model=model)])
    assert messages(await turn(tree))[:2] == [("a", "(sources: a, b)"), ("a", "the answer")]
    assert received_by(model) == ["(sources: a, b)", "the answer"]


async def test_messages_of_concurrent_agents_survive_replacement() -> None:
    slow = asyncio.Event()

    async def wait(ctx: RunContext) -> str:
        await slow.wait()
        return "slow"

    def hurry(ctx: RunContext) -> str:
        slow.set()
        return "fast"

    async def both(ctx: RunContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run_agent(one))
            group.create_task(ctx.run_agent(other))
        return "both"

    one = Does(name="one", do=wait, after_agent_callback=lambda ctx, text: text.upper())
    other = Does(name="other", do=hurry)
    model = ScriptedModel("fine")
    team = Does(name="team", do=both, sub_agents=[one, other])
    await turn(SequentialAgent(name="s", sub_agents=[team, Agent(name="b", model=model)]))
    assert received_by(model) == ["fast", "SLOW", "both"]


async def test_callback_answer_does_not_overwrite_existing_output() -> None:
    def keep(ctx: RunContext, text: str) -> str:
        ctx.state["note"] = {"parsed": text}
        return "Done."

    cached = Agent(
        name="a",
        model=ScriptedModel("LONG REPORT"),
        output_key="report",
        before_agent_callback=lambda ctx: "it is there" if "report" in ctx.state else None,
    )
    noting = Agent(
        name="b", model=ScriptedModel("n1", "n2"), output_key="note", after_agent_callback=keep
    )
    runner = Runner(SequentialAgent(name="s", sub_agents=[cached, noting]))
    await runner.run(**WHO, message="a")
    result = await runner.run(**WHO, message="b")
    assert result.state == {"report": "LONG REPORT", "note": {"parsed": "n2"}}


# What stands in for an agent is kept where its answer would have been.


@dataclass
class Order:
    item: str
    count: int


def reader() -> Agent:
    return Agent(name="reader", model=ScriptedModel("ok"), instruction="Check {email}.")


async def test_stub_answer_is_written_to_output_key() -> None:
    collector = Agent(name="collector", model=ScriptedModel(), output_key="email")
    tree = SequentialAgent(name="s", sub_agents=[collector, reader()])
    config = RunConfig(stubs={"collector": "mio@example.com"})
    assert (await turn(tree, config=config)).state["email"] == "mio@example.com"
    debugged = await turn(tree, config=RunConfig(debug=True))
    assert debugged.state["email"] == "[debug] collector would answer: hello"


async def test_before_callback_answer_is_written_to_output_key() -> None:
    first = Agent(
        name="collector",
        model=ScriptedModel(),
        output_key="email",
        before_agent_callback=lambda ctx: "mio@example.com",
    )
    assert (await turn(first)).state["email"] == "mio@example.com"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"item": "お茶", "count": 2}', {"item": "お茶", "count": 2}),
        ("sold out", "sold out"),
    ],
)
async def test_stub_answer_is_parsed_if_it_matches_schema(text: str, expected: object) -> None:
    agent = Agent(name="a", model=ScriptedModel(), output_key="order", output_schema=Order)
    config = RunConfig(stubs={"a": text})
    assert (await turn(agent, config=config)).state["order"] == expected


# Who keeps the conversation.


async def test_agent_tools_do_not_take_over_the_conversation() -> None:
    leaf = Agent(name="leaf", description="leaf", model=ScriptedModel("from the leaf"))
    first = Agent(
        name="first",
        description="first",
        model=ScriptedModel(call("transfer_to_agent", agent_name="leaf")),
        sub_agents=[leaf],
    )
    second = Agent(name="second", description="second", model=ScriptedModel("from the second"))
    both = [call("first", request="x"), call("second", request="y")]
    boss = Agent(
        name="boss",
        description="boss",
        model=ScriptedModel("mine now", both, "done", "still mine"),
        tools=[first, second],
    )
    root = Agent(
        name="root",
        model=ScriptedModel(call("transfer_to_agent", agent_name="boss"), "back at the root"),
        sub_agents=[boss],
    )
    runner = Runner(root)
    texts = [(await runner.run(**WHO, message=word)).text for word in ("a", "b", "c")]
    assert texts == ["mine now", "done", "still mine"]


async def test_stub_without_output_key_writes_nothing() -> None:
    config = RunConfig(stubs={"a": "x", "w": "y"})
    tree = SequentialAgent(
        name="s", sub_agents=[Agent(name="a", model=ScriptedModel()), Writes(name="w")]
    )
    assert not (await turn(tree, config=config)).state


def desk(**fields: Any) -> Agent:
    return Agent(name="desk", description="desk", model=ScriptedModel("mine now"), **fields)


@pytest.mark.parametrize(
    "now",
    [
        lambda: desk(returns_control=True),
        lambda: SequentialAgent(name="flow", description="flow", sub_agents=[desk()]),
    ],
)
async def test_conversation_returns_to_root_if_agent_can_no_longer_keep_it(
    now: Callable[[], BaseAgent],
) -> None:
    hands_over = ScriptedModel(call("transfer_to_agent", agent_name="desk"))
    before = Runner(Agent(name="root", model=hands_over, sub_agents=[desk()]))
    assert (await before.run(**WHO, message="a")).text == "mine now"
    root = Agent(name="root", model=ScriptedModel("back at the root"), sub_agents=[now()])
    after = Runner(root, services=before.services)
    assert (await after.run(**WHO, message="b")).text == "back at the root"


async def test_output_schema_applies_without_output_key() -> None:
    model = ScriptedModel("sold out", '{"item": "tea", "count": 2}')
    result = await turn(Agent(name="a", model=model, output_schema=Order))
    assert result.text == '{"item": "tea", "count": 2}' and not result.state
    assert len(model.requests) == 2
