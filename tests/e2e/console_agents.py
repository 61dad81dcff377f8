"""An agent for the tests of the console."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

from acc import Agent, ModelRequest, ModelResponse, SequentialAgent, ToolCall, ToolContext, tool
from acc.testing import ScriptedModel, call

HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "</p></li></ol><hx-partial hx-target='body'>gone</hx-partial>"
    " \u202etxet desrever\u202c مرحبا بالعالم \x1b[31m " + "long" * 800
)


@tool(confirm=True)
def refund(order: str, amount: int) -> dict[str, object]:
    """Refund an order."""
    with Path(os.environ["REFUNDS"]).open("a", encoding="utf-8") as file:
        file.write(f"{order} {amount}\n")
    return {"refunded": amount, "order": order}


@tool
async def save_note(text: str, ctx: ToolContext) -> str:
    """Save a note as a file."""
    await ctx.artifacts.save("note.txt", text.encode(), media_type="text/plain")
    return "saved"


def respond(prompt: ModelRequest) -> str | list[ToolCall]:
    results = [m.parts[0].result for m in prompt.following if m.role == "tool"]
    if results and results[-1] is not None:
        return f"Done: {results[-1].content}"
    if "refund" in prompt.query or "返金" in prompt.query:
        return [call("refund", order="A-17", amount=50)]
    if "note" in prompt.query:
        return [call("save_note", text="remember")]
    if "hostile" in prompt.query:
        return HOSTILE
    if "slowly" in prompt.query:
        return " ".join(f"word{number}" for number in range(60))
    return f"You wrote: {prompt.query}"


class PacedModel(ScriptedModel):
    """Streams a long answer with pauses."""

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        answer = await self.complete(prompt)
        for piece in re.findall(r"\S+\s*|\s+", answer.text):
            await asyncio.sleep(0.05 if "slowly" in prompt.query else 0)
            yield piece
        yield answer


def desk() -> Agent:
    return Agent(
        name="desk",
        description="Helps with orders",
        model=PacedModel(respond, repeat=True),
        instruction="Help with orders.",
        tools=[refund, save_note],
        memory="acc",
        output_key="answer",
    )


def team() -> SequentialAgent:
    return SequentialAgent(
        name="team",
        sub_agents=[
            Agent(name="reader", model=ScriptedModel("read", repeat=True), output_key="read"),
            Agent(name="writer", model=ScriptedModel("written", repeat=True)),
        ],
    )
