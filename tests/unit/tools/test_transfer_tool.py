"""Transfers between agents, and which agent keeps the conversation."""

from typing import Any

import pytest
from agent_support import WHO, events_of_kind, messages, results, says, turn

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    Event,
    EventKind,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    Runner,
    SequentialAgent,
    ToolCall,
    exit_loop,
    tool,
)
from acc.domain.errors import InvalidTree, ModelOutputInvalid, TransferLoop
from acc.testing import ScriptedModel, call


def to(name: str) -> ToolCall:
    return call("transfer_to_agent", agent_name=name)


def agent(name: str, *script: Any, **fields: Any) -> Agent:
    """Return an agent whose model follows the script and then repeats its last line."""
    model = ScriptedModel(*script, repeat=True)
    return Agent(name=name, description=f"The {name}.", model=model, memory=None, **fields)


def offered_targets(source: Agent) -> list[str]:
    """Return the transfer targets offered to the model of an agent."""
    assert isinstance(source.model, ScriptedModel)
    specs = {spec.name: spec for spec in source.model.requests[0].tools}
    if "transfer_to_agent" not in specs:
        return []
    names: list[str] = specs["transfer_to_agent"].parameters["properties"]["agent_name"]["enum"]
    return names


async def test_sub_agent_answers_after_transfer() -> None:
    billing = agent("billing", "paid")
    root = agent("root", to("billing"), sub_agents=[billing])
    result = await turn(root, "pay it")
    assert (result.text, messages(result)) == ("paid", [("billing", "paid")])
    handed = events_of_kind(result, EventKind.TRANSFER)[0]
    assert (handed.author, handed.actions.transfer_to_agent) == ("root", "billing")
    assert handed.detail == {"path": ["root", "billing"]}
    assert results(result) == ["billing takes over."]
    assert isinstance(billing.model, ScriptedModel)
    assert billing.model.requests[0].query == "pay it"


async def test_spec_lists_targets_with_descriptions() -> None:
    root = agent("root", "no need", sub_agents=[agent("a", "x"), agent("b", "x")])
    await turn(root)
    assert isinstance(root.model, ScriptedModel)
    spec = root.model.requests[0].tools[0]
    assert spec.description.endswith("\n- a: The a.\n- b: The b.")
    assert spec.parameters["required"] == ["agent_name"]


async def test_targets_are_children_parent_and_peers() -> None:
    middle = agent("middle", "x", sub_agents=[agent("child", "x")])
    root = agent("root", to("middle"), sub_agents=[middle, agent("peer", "x")])
    await turn(root)
    assert offered_targets(middle) == ["child", "root", "peer"]


@pytest.mark.parametrize(
    ("switched_off", "left"),
    [
        ({"disallow_transfer_to_sub_agents": True}, ["root", "peer"]),
        ({"disallow_transfer_to_parent": True}, ["child", "peer"]),
        ({"disallow_transfer_to_peers": True}, ["child", "root"]),
        (
            {
                "disallow_transfer_to_sub_agents": True,
                "disallow_transfer_to_parent": True,
                "disallow_transfer_to_peers": True,
            },
            [],
        ),
    ],
)
async def test_transfers_can_be_disallowed(switched_off: Any, left: list[str]) -> None:
    middle = agent("middle", "x", sub_agents=[agent("child", "x")], **switched_off)
    root = agent("root", to("middle"), sub_agents=[middle, agent("peer", "x")])
    await turn(root)
    assert offered_targets(middle) == left


async def test_peers_are_not_targets_if_parent_disallows_sub_agents() -> None:
    middle = agent("middle", "x")
    quiet = {"disallow_transfer_to_sub_agents": True}
    root = agent("root", "x", sub_agents=[middle, agent("peer", "x")], **quiet)
    assert list(middle.transfer_targets()) == [root]


async def test_agent_below_workflow_has_no_parent_target() -> None:
    step = agent("step", "x")
    await turn(SequentialAgent(name="flow", sub_agents=[step, says("other")]))
    assert offered_targets(step) == []


async def test_transfer_to_parent_and_peer() -> None:
    first = agent("first", to("second"))
    second = agent("second", to("root"))
    root = agent("root", to("first"), "at last", sub_agents=[first, second])
    result = await turn(root)
    assert result.text == "at last"
    path = events_of_kind(result, EventKind.TRANSFER)[-1].detail["path"]
    assert path == ["root", "first", "second", "root"]


async def test_unknown_target_returns_error_result() -> None:
    root = agent("root", to("biling"), to("billing"), sub_agents=[agent("billing", "paid")])
    result = await turn(root)
    assert result.text == "paid"
    assert results(result)[0]["error"].endswith(
        "agent 'biling' is not a transfer target; choose one of: billing"
    )
    assert len(events_of_kind(result, EventKind.TRANSFER)) == 1


async def test_repeated_unknown_target_fails_the_run() -> None:
    root = agent("root", to("nobody"), sub_agents=[agent("billing", "paid")])
    with pytest.raises(
        ModelOutputInvalid, match="2 times: invalid arguments for transfer_to_agent"
    ):
        await turn(root, config=RunConfig(max_repairs=1))


async def test_first_of_two_transfers_counts() -> None:
    a, b = agent("a", "from a"), agent("b", "from b")
    result = await turn(agent("root", [to("a"), to("b")], sub_agents=[a, b]))
    assert result.text == "from a"
    already = "the conversation was already transferred to a"
    assert results(result) == [
        "a takes over.",
        {"error": f"transfer_to_agent failed: ValueError: {already}"},
    ]


async def test_other_calls_run_before_transfer() -> None:
    @tool
    def note() -> str:
        """Take a note."""
        return "noted"

    root = agent("root", [to("a"), call("note")], tools=[note], sub_agents=[agent("a", "x")])
    result = await turn(root)
    assert (results(result), result.text) == (["noted", "a takes over."], "x")


@pytest.mark.parametrize("beside", [[], [says("other")]])
async def test_exit_loop_with_transfer_ends_loop_after_target(
    beside: list[BaseAgent],
) -> None:
    last = agent("last", "the end")
    middle = agent("middle", to("last"), sub_agents=[last])
    first = agent(
        "first", [call("exit_loop"), to("middle")], tools=[exit_loop], sub_agents=[middle]
    )
    step = ParallelAgent(name="step", sub_agents=[first, *beside]) if beside else first
    result = await turn(LoopAgent(name="loop", sub_agents=[step], max_iterations=3))
    assert [one for one in messages(result) if one[0] == "last"] == [("last", "the end")]
    assert result.text.startswith("first: the end" if beside else "the end")


async def test_transfer_loop_error_contains_path() -> None:
    ping, pong = agent("ping", to("pong")), agent("pong", to("ping"))
    root = agent("root", to("ping"), sub_agents=[ping, pong])
    with pytest.raises(TransferLoop, match="root → ping → pong → ping → pong") as loop:
        await turn(root, config=RunConfig(max_hops=3))
    assert loop.value.path == ("root", "ping", "pong", "ping", "pong")
    with pytest.raises(TransferLoop, match=r"max_hops \(0\)"):
        await turn(agent("r", to("c"), sub_agents=[agent("c", "x")]), config=RunConfig(max_hops=0))


async def test_transfers_of_branches_count_together() -> None:
    pairs = [agent(f"a{n}", to(f"b{n}"), sub_agents=[agent(f"b{n}", "x")]) for n in (1, 2)]
    with pytest.raises(TransferLoop, match="a1 → b1 → a2 → b2"):
        await turn(ParallelAgent(name="p", sub_agents=pairs), config=RunConfig(max_hops=1))


async def test_returns_control_returns_answer_to_caller() -> None:
    clerk = agent("clerk", "It costs 5.", returns_control=True)
    root = agent("root", to("clerk"), "The clerk says 5.", sub_agents=[clerk])
    runner = Runner(root)
    first = await runner.run(**WHO, message="price?")
    assert messages(first) == [("clerk", "It costs 5."), ("root", "The clerk says 5.")]
    assert results(first) == ["It costs 5."]
    assert first.state == {}


async def test_target_keeps_conversation_until_next_transfer() -> None:
    billing = agent("billing", "one", "two", to("root"))
    root = agent("root", to("billing"), "back", sub_agents=[billing])
    runner = Runner(root)
    turns = [await runner.run(**WHO, message=f"turn {n}") for n in range(4)]
    assert [result.text for result in turns] == ["one", "two", "back", "back"]
    assert [messages(result)[-1][0] for result in turns] == ["billing", "billing", "root", "root"]


async def test_new_session_starts_with_root() -> None:
    runner = Runner(agent("root", to("billing"), "root here", sub_agents=[agent("billing", "x")]))
    await runner.run(user_id="ann", session_id="s1", message="hi")
    assert (await runner.run(user_id="ann", session_id="s2", message="hi")).text == "root here"


async def test_removed_owner_of_conversation_is_replaced_by_root() -> None:
    old = Runner(agent("root", to("billing"), sub_agents=[agent("billing", "x")]))
    await old.run(**WHO, message="hi")
    new = Runner(agent("root", "new root"), services=old.services)
    assert (await new.run(**WHO, message="hi")).text == "new root"


async def test_workflow_does_not_keep_conversation() -> None:
    flow = SequentialAgent(name="flow", description="Flows.", sub_agents=[says("step")])
    runner = Runner(agent("root", to("flow"), "root again", sub_agents=[flow]))
    texts = [(await runner.run(**WHO, message="hi")).text for _ in range(2)]
    assert texts == ["step", "root again"]


async def test_agent_inside_workflow_does_not_keep_conversation() -> None:
    inner = agent("inner", to("deep"), sub_agents=[agent("deep", "from deep")])
    flow = SequentialAgent(name="flow", sub_agents=[inner])
    result = await turn(flow)
    assert (result.text, result.state) == ("from deep", {})


async def test_transfer_inside_agent_tool_ends_with_it() -> None:
    helper = agent("helper", to("expert"), sub_agents=[agent("expert", "expert says")])
    billing = agent("billing", call("helper", request="x"), "paid", tools=[AgentTool(agent=helper)])
    root = agent("root", to("billing"), "root again", sub_agents=[billing])
    runner = Runner(root)
    first = await runner.run(**WHO, message="pay")
    assert results(first)[-1] == "expert says"
    assert messages(await runner.run(**WHO, message="again")) == [("billing", "paid")]


async def test_transfer_by_agent_returning_control_is_temporary() -> None:
    clerk = agent("clerk", to("expert"), returns_control=True)
    root = agent("root", to("clerk"), "root", sub_agents=[clerk, agent("expert", "expert says")])
    runner = Runner(root)
    first = await runner.run(**WHO, message="x")
    assert results(first)[-1] == "expert says"
    assert messages(await runner.run(**WHO, message="y")) == [("root", "root")]


async def test_stream_contains_transfer_events() -> None:
    root = agent("root", to("a"), sub_agents=[agent("a", "x")])
    events: list[Event] = [e async for e in Runner(root).stream(**WHO, message="hi")]
    stored = [event.kind for event in events if not event.partial]
    assert stored == [
        EventKind.MESSAGE,
        EventKind.TOOL_CALLS,
        EventKind.TRANSFER,
        EventKind.TOOL_RESULT,
        EventKind.MESSAGE,
        EventKind.ENDED,
    ]


@pytest.mark.parametrize(("contents", "expected"), [("default", True), ("none", False)])
async def test_transferred_agent_sees_earlier_turns_unless_contents_are_none(
    contents: Any, expected: bool
) -> None:
    model = ScriptedModel("It is 300 euro.", repeat=True)
    billing = Agent(
        name="billing",
        description="Bills.",
        model=model,
        memory="transcript",
        include_contents=contents,
    )
    root = agent("root", "Noted.", to("billing"), sub_agents=[billing])
    runner = Runner(root)
    await runner.run("The invoice is number 4711.")
    result = await runner.run("What does it cost?")
    assert result.text == "It is 300 euro."
    request = model.requests[0]
    assert request.query == "What does it cost?"
    shown = [message.text for message in request.messages]
    assert ("The invoice is number 4711." in shown) is expected
    assert ("Noted." in shown) is expected


def test_unknown_choice_of_contents_is_rejected() -> None:
    with pytest.raises(InvalidTree, match="include_contents"):
        Agent(name="a", model=ScriptedModel("x"), include_contents="all")  # type: ignore[arg-type]
