"""`acc mcp --memory` with the client of the official SDK."""

import sys
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from mcp import Client, MCPError, StdioServerParameters

from acc.cli import execute

SOURCE = str(Path(__file__).parent.parent.parent / "src")


def _server(store: Path) -> StdioServerParameters:
    command = ["-m", "acc", "mcp", "--memory", "--store", str(store)]
    return StdioServerParameters(command=sys.executable, args=command, env={"PYTHONPATH": SOURCE})


async def _call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, mcp_types.CallToolResult)
    assert not result.is_error, result.content
    return result.structured_content


async def test_rules_facts_and_their_history(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    async with Client(_server(store)) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["remember", "recall", "rules", "explain"]
        read = await _call(client, "remember", text="From now on, always answer in French.")
        assert [one["act"] for one in read["read"]] == ["set"]
        await _call(client, "remember", text="My dog is called Momo and he is nine years old.")
        await _call(
            client, "remember", text="今後は金額を必ず円で書いてください。", conversation="ja"
        )
        for number in range(12):
            await _call(client, "remember", text=f"We talked about lamp {number} for a while.")
    # A new process continues from the store.
    async with Client(_server(store)) as client:
        rules = await _call(client, "rules")
        assert rules["rules"] == ["From now on, always answer in French."]
        japanese = await _call(client, "rules", conversation="ja")
        assert japanese["rules"] == ["今後は金額を必ず円で書いてください。"]
        found = await _call(client, "recall", query="What is my dog called?")
        assert "Momo" in found["memory"] and "French" in found["memory"]
        assert "円" not in found["memory"]
        again = await _call(client, "recall", query="What is my dog called?")
        assert again == found  # a question is not remembered
        history = await _call(client, "explain", query="rule about French")
        (statement,) = history["statements"]
        assert statement["text"] == "From now on, always answer in French."
        assert [one["step"] for one in statement["history"]][:2] == ["said", "read"]


async def test_invalid_calls_are_rejected(tmp_path: Path) -> None:
    async with Client(_server(tmp_path / "memory.db")) as client:
        assert await _call(client, "rules", conversation="new") == {"rules": [], "goal": ""}
        assert await _call(client, "recall", query="Anything?") == {"memory": "", "tokens": 0}
        for tool, arguments in (
            ("remember", {"text": "  "}),
            ("remember", {}),
            ("remember", {"text": 3}),
            ("remember", {"text": "x" * 100_001}),
            ("recall", {"query": "x", "conversation": ""}),
            ("rules", {"conversation": "x" * 10_000}),
            ("rules", {"unknown": "x"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, mcp_types.CallToolResult)
            assert result.is_error, (tool, arguments)
        assert (await _call(client, "rules"))["rules"] == []
        with pytest.raises(MCPError, match="remember, recall, rules, explain"):
            await client.call_tool("forget", {})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "--memory"),
        (["desk.py:agent", "--memory"], "either"),
        (["--memory", "--sub-agents"], "--sub-agents"),
    ],
)
def test_invalid_options_are_rejected(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["mcp", *arguments]) == 2
    assert expected in capsys.readouterr().err
