"""MCP servers that tell secrets, or describe their tools badly."""

from typing import Any

import pytest
from mcp_user import RUDE

from acc import Agent, EventKind, McpToolset, RemoteFailed, Runner, RunResult
from acc.testing import ScriptedModel, call


async def ran(source: McpToolset, model: ScriptedModel) -> RunResult:
    runner = Runner(Agent(name="a", model=model, tools=[source]))
    try:
        return await runner.run(user_id="u", session_id="s", message="go")
    finally:
        await runner.aclose()


def result_of(done: RunResult) -> Any:
    """Return what the first tool gave."""
    return next(
        e.result.content for e in done.events if e.kind is EventKind.TOOL_RESULT and e.result
    )


async def test_what_a_server_was_given_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "canary-東京-6f1d2c9b")
    env = {"TOK": "env:SHOP_KEY"}
    dying = McpToolset(command=[*RUDE, "tells"], env=env)
    with pytest.raises(RemoteFailed) as raised:
        await ran(dying, ScriptedModel("x"))
    assert "6f1d2c9b" not in str(raised.value)
    assert str(raised.value).startswith("the MCP server mcp_rude.py: ")
    blaming = McpToolset(command=[*RUDE, "blames"], env=env)
    model = ScriptedModel(call("echo", text="x"), "told")
    done = await ran(blaming, model)
    assert "no such user: ***" in result_of(done)["error"]
    assert "6f1d2c9b" not in str(done.events)


async def test_a_malformed_tool_does_not_take_the_others_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(call("echo", text="やあ"), "heard")
    source = McpToolset(command=[*RUDE, "sloppy"])
    done = await ran(source, model)
    assert result_of(done) == "やあ"
    assert [tool.name for tool in model.asked[0].tools] == ["echo"]
    assert "3 malformed tools of an MCP server are left out" in caplog.text
