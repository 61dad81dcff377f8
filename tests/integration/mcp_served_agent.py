"""An agent for `acc mcp` with payments, approvals, a slow tool and a sub-agent."""

import asyncio

from acc import Agent, ModelRequest, ModelResponse, ToolContext, tool
from acc.testing import ScriptedModel, call, last_result

PAID: list[int] = []


@tool(confirm=lambda arguments: arguments["amount"] >= 100)
def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    print("what a tool prints must not disturb the protocol")  # noqa: T201 - that is the point
    return f"paid {amount}"


@tool
async def wait(seconds: float, ctx: ToolContext) -> str:
    """Wait for some seconds."""
    await ctx.progress("待っています")
    await asyncio.sleep(seconds)
    return "waited"


class CommandModel:
    """A model that follows commands (`pay 5`, `wait 1`) and echoes other messages."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        if prompt.following:
            return ModelResponse(text=f"result: {last_result(prompt)}")
        command, _, rest = prompt.query.partition(" ")
        if command == "pay":
            return ModelResponse(calls=(call("pay", amount=int(rest)),))
        if command == "wait":
            return ModelResponse(calls=(call("wait", seconds=float(rest)),))
        position = "again" if prompt.earlier else "first"
        return ModelResponse(text=f"言いました: {prompt.query} ({position})")


clerk = Agent(name="clerk", description="Files things.", model=ScriptedModel("filed"))
office = Agent(
    name="office",
    description="事務: pays and waits.",
    model=CommandModel(),
    tools=[pay, wait],
    sub_agents=[clerk],
)
