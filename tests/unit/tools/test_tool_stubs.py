"""Stubs of tools: `RunConfig.stubs` and debug mode."""

from typing import Any

import pytest

from acc import Agent, InvalidInput, RunConfig, Runner, ToolCall, exit_loop, tool
from acc.testing import ScriptedModel, last_result

called: list[str] = []


@tool(confirm=True)
def order(item: str) -> str:
    """Order something."""
    called.append(item)
    return f"ordered {item}"


def clerk(**options: Any) -> Runner[Any, Any]:
    model = ScriptedModel(
        ToolCall(id="c1", name="order", arguments={"item": "りんご"}),
        lambda prompt: f"result: {last_result(prompt)}",
    )
    return Runner(Agent(name="clerk", model=model, tools=[order]), config=RunConfig(**options))


async def test_debug_mode_marks_the_result_and_calls_no_tool() -> None:
    called.clear()
    result = await clerk(debug=True).run("注文")
    assert result.text == 'result: [debug] order would be called with {"item":"りんご"}'
    assert called == []
    (event,) = [event for event in result.events if event.result is not None]
    assert event.detail["stub"] is True
    assert result.usage.tool_calls == 0


@pytest.mark.parametrize(
    ("stub", "expected"),
    [
        ("完了", "完了"),
        ('{"id": 7}', "{'id': 7}"),
        ("{broken", "{broken"),
        (lambda arguments: f"fake {arguments['item']}", "fake りんご"),
    ],
)
async def test_stub_replaces_the_result_of_a_tool(stub: Any, expected: str) -> None:
    called.clear()
    result = await clerk(stubs={"order": stub}).run("注文")
    assert result.text == f"result: {expected}"
    assert called == []


async def test_stub_of_an_unknown_tool_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="the tools order"):
        clerk(stubs={"oder": "x"})


async def test_debug_mode_calls_tools_of_the_runtime() -> None:
    model = ScriptedModel(ToolCall(id="c1", name="exit_loop", arguments={}), "done")
    agent = Agent(name="worker", model=model, tools=[exit_loop])
    result = await Runner(agent, config=RunConfig(debug=True)).run("go")
    (event,) = [event for event in result.events if event.result is not None]
    assert "stub" not in event.detail
    assert event.actions.escalate
