"""Tools from an MCP server: a real one, in a process of its own.

This file is both. Started with "serve" it is a small MCP server, made with the official SDK;
started as it is, it runs an agent that takes its tools from that server. The server is started
when the agent first needs it, and ended with the runner. You will see the tools that the server
offers, a call with Japanese arguments, a call that the server refuses, and a destructive one that
waits for a person.

MCPサーバーのツールを使う例。このファイルはサーバーとしても動く。サーバーはエージェントが最初に必要と
したときに別プロセスで起動し、runnerとともに終了する。破壊的なツールは人の承認を待つ。

Run it: python examples/mcp_tools.py
"""

import asyncio
import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from acc import Agent, EventKind, McpToolset, Runner, approve
from acc.testing import ScriptedModel, call

STOCK = {"緑茶": 12, "coffee": 0}


def look_up(品物: str) -> int:
    """品物の在庫を調べる."""
    if 品物 not in STOCK:
        raise ToolError(f"{品物}は扱っていません")
    return STOCK[品物]


def discard(item: str) -> str:
    """Throw away what is left of an item."""
    return f"discarded {STOCK.pop(item)} of {item}"


def serve() -> None:
    """Be the server: offer the two functions to whoever started this process."""
    shop = MCPServer("shop", log_level="ERROR")
    shop.add_tool(look_up, name="在庫を調べる")
    shop.add_tool(discard, annotations=ToolAnnotations(destructive_hint=True))
    shop.run("stdio")


clerk = Agent(
    name="clerk",
    model=ScriptedModel(
        [call("在庫を調べる", 品物="緑茶"), call("在庫を調べる", 品物="紅茶")],
        call("discard", item="緑茶"),
        "緑茶を処分しました。",
    ),
    tools=[
        McpToolset(
            command=[sys.executable, __file__, "serve"],
            env={"PYTHONPATH": os.pathsep.join(sys.path)},  # it sees nothing of ours but this
        )
    ],
)


async def main() -> None:
    """Ask for two items, and throw one away once somebody agrees."""
    runner = Runner(clerk)
    try:
        paused = await runner.run(user_id="u1", session_id="s1", message="緑茶を処分して")
        for event in paused.events:
            if event.kind is EventKind.TOOL_RESULT and event.result is not None:
                print(f"{event.result.name}: {event.result.content}")
        request = paused.requests[0]
        print(f"{paused.status}: {request.message} {dict(request.arguments)}")
        done = await runner.resume(
            user_id="u1", session_id="s1", answers=[approve(request.id, by="manager")]
        )
        print(f"{done.status}: {done.text}")
    finally:
        await runner.aclose()  # ends the server too

    results = [event.result for event in paused.events if event.result is not None]
    assert sorted(result.is_error for result in results) == [False, True]
    assert request.tool == "discard"
    assert done.text == "緑茶を処分しました。"


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
