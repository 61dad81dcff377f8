"""An MCP server on the official SDK, with normal and faulty tools.

python mcp_shop_server.py [--http PORT] [--slow SECONDS] [--log FILE]
"""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import mcp_types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

shop = MCPServer("shop", version="1")
LOG: Path | None = None


def log_line(text: str) -> None:
    """Append a line to the log that the test reads."""
    if LOG is not None:
        with LOG.open("a", encoding="utf-8") as out:
            out.write(text + "\n")


class Stock(BaseModel):
    item: str
    left: int


@shop.tool()
def add(a: int, b: Annotated[int, Field(ge=0)]) -> int:
    """Add two numbers."""
    log_line(f"add {a} {b}")
    return a + b


@shop.tool(name="在庫を調べる", description="品物の在庫を調べる")
def stock(品物: str) -> Stock:
    return Stock(item=品物, left=3)


@shop.tool(name="odd.name/with spaces")
def odd() -> str:
    """Return a text; the name of the tool has unusual characters."""
    return "odd"


@shop.tool(annotations=mcp_types.ToolAnnotations(destructive_hint=True))
def wipe(path: str) -> str:
    """Delete everything."""
    log_line(f"wipe {path}")
    return f"wiped {path}"


@shop.tool(structured_output=False)
def picture() -> list[Any]:
    """Return an image."""
    return ["here it is", Image(data=b"\x89PNG no picture", format="png")]


@shop.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("品切れです: out of stock")


@shop.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Wait and report progress."""
    log_line(f"slow begins {seconds}")
    try:
        await ctx.report_progress(1, 2, "半分まで来ました")
        await asyncio.sleep(seconds)
    except BaseException:
        log_line("slow was cancelled")
        raise
    log_line("slow ends")
    return "done"


@shop.tool()
def hang() -> str:
    """Block the whole server."""
    time.sleep(3600)
    return ""


@shop.tool()
def die() -> str:
    """End the server's process."""
    log_line(f"die {os.getpid()}")
    sys.stderr.write("the shop burned down\n")
    sys.stderr.flush()
    os._exit(7)


@shop.tool()
def big(characters: int) -> str:
    """Return a long text."""
    return "大" * characters


@shop.tool()
def environment() -> dict[str, str]:
    """Return the environment variables."""
    return dict(os.environ)


@shop.tool()
def pid() -> int:
    """Return the process ID."""
    return os.getpid()


def hidden() -> str:
    """Return a text; the tool is added later."""
    return "boo"


@shop.tool()
async def change(ctx: Context) -> str:
    """Remove one tool and add another."""
    shop.remove_tool("add")
    shop.add_tool(hidden)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "changed"


def main() -> None:
    global LOG
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, default=0)
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--log", type=Path, default=None)
    options = parser.parse_args()
    LOG = options.log
    log_line(f"start {os.getpid()}")
    time.sleep(options.slow)
    if options.http:
        shop.run("streamable-http", host="127.0.0.1", port=options.http)
    else:
        shop.run("stdio")


if __name__ == "__main__":
    main()
