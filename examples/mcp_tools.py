"""Tools of an MCP server that runs in its own process.

This file is both programs. With the argument "serve" it is an MCP server made with the official
SDK; without arguments it runs an agent that uses the tools of that server. The server is started
when the agent first needs it and stopped with the runner. The example shows a call with Japanese
arguments, a call that fails, and a destructive call that needs approval.

MCPサーバーのツールを使う例。このファイルはサーバーとしても動作します。サーバーはエージェントが最初に
必要としたときに別プロセスで起動し、runner とともに終了します。破壊的なツールは人の承認を待ちます。

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
    """Discard the stock of an item."""
    return f"discarded {STOCK.pop(item)} of {item}"


def serve() -> None:
    """Run the MCP server with two tools."""
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
            env={"PYTHONPATH": os.pathsep.join(sys.path)},  # the server gets no other variable
        )
    ],
)


async def main() -> None:
    """Look up two items, and discard one after approval."""
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
        await runner.aclose()  # also stops the server

    results = [event.result for event in paused.events if event.result is not None]
    assert sorted(result.is_error for result in results) == [False, True]
    assert request.tool == "discard"
    assert done.text == "緑茶を処分しました。"


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        asyncio.run(main())
