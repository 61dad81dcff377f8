"""The agent for the official clients: it echoes, counts slowly and pays after approval."""

import asyncio
import re

from acc import Agent, ModelRequest, ToolCall, ToolContext, tool
from acc.testing import ScriptedModel, call, last_result

PIECES = 6
PAUSE = 0.25


@tool
async def count(tool_context: ToolContext) -> str:
    """Count slowly. ゆっくり数えます。"""
    for number in range(1, PIECES + 1):
        last = number == PIECES
        publish = tool_context.artifacts.publish
        await publish("numbers", f"{number} ", append=number > 1, last=last)
        await asyncio.sleep(PAUSE)
    return f"counted to {PIECES}"


@tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
def pay(amount: int) -> str:
    """Pay an amount in yen. 円で支払います。"""
    return f"{amount:,}円を支払いました"


def answer(prompt: ModelRequest) -> ToolCall | str:
    """Call the requested tool, or return the tool result, or echo the message."""
    if prompt.following and prompt.following[-1].role == "tool":
        return str(last_result(prompt))
    if "支払" in prompt.query:
        return call("pay", amount=int(re.findall(r"\d+", prompt.query)[0]))
    return call("count") if "slow" in prompt.query else f"echo: {prompt.query}"


class Desk(Agent):
    """An agent that accepts every media type."""

    input_modes = ("*/*",)


def desk() -> Agent:
    return Desk(
        name="desk",
        description="Echoes, counts and pays. 復唱し、数え、支払います。",
        model=ScriptedModel(answer, repeat=True),
        tools=[count, pay],
    )
