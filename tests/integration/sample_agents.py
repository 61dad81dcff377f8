"""Agents with scripted models that the tests serve."""

import asyncio
import json
import re
from dataclasses import dataclass

from acc import Agent, BaseAgent, ModelRequest, Part, RequestKind, RunContext, ToolCall, tool
from acc.testing import ScriptedModel, call, last_result


@tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
def pay(payee: str, amount: int) -> str:
    """Pay an amount in yen."""
    return f"paid {amount} yen to {payee}"


def respond(prompt: ModelRequest) -> ToolCall | str:
    if not prompt.following:
        amounts = re.findall(r"\d+", prompt.query)
        if not amounts:
            return f"you said: {prompt.query}"
        return call("pay", payee="Aoba", amount=int(amounts[0]))
    return str(last_result(prompt))


payment = Agent(
    name="payment",
    description="Pays invoices; large ones need approval. 支払いを処理します。",
    model=ScriptedModel(respond, repeat=True),
    instruction="You process payments.",
    tools=[pay],
)


@dataclass(kw_only=True, eq=False)
class CommandAgent(BaseAgent):
    """An agent that executes the command in the first word of the message."""

    input_modes = ("*/*",)
    output_modes = ("text/plain", "application/json")

    async def run(self, ctx: RunContext) -> str | None:
        verb, _, rest = ctx.message.partition(" ")
        if verb == "count":
            return await self._count(ctx, *rest.split())
        if verb == "ask":
            answer = await ctx.request_input(rest or "What shall it be?")
            return f"you answered {answer.value}"
        if verb == "login":
            await ctx.ask_with_request("Sign in at the shop.", kind=RequestKind.AUTHORIZATION)
            return "signed in"
        if verb == "fail":
            raise RuntimeError(f"the database password is {rest}")
        if verb == "files":
            return await self._files(ctx)
        if verb == "sleep":
            await asyncio.sleep(float(rest or 60))
            return "awake"
        if verb == "parts":
            descriptions = [
                json.dumps(describe_part(part), ensure_ascii=False)
                for part in ctx.run.request.message
            ]
            return "\n".join(descriptions)
        return f"echo: {ctx.message}"

    async def _count(self, ctx: RunContext, upto: str, pause: str = "0") -> str:
        for number in range(1, int(upto) + 1):
            last = number == int(upto)
            await ctx.artifacts.publish("numbers", f"{number} ", append=number > 1, last=last)
            await asyncio.sleep(float(pause))
        return f"counted to {upto}"

    async def _files(self, ctx: RunContext) -> str:
        await ctx.artifacts.save("report.txt", "日本語の報告 / a report")
        await ctx.artifacts.save("dot.png", b"\x89PNG\r\n", media_type="image/png")
        url = Part(url="https://example.com/a.pdf", media_type="application/pdf", filename="a.pdf")
        await ctx.artifacts.publish("elsewhere", url)
        await ctx.artifacts.publish("table", Part(data={"rows": [1, 2.5, None, "三"]}))
        return "four files"


def describe_part(part: Part) -> object:
    if part.raw is not None:
        return {
            "raw": len(part.raw),
            "hex": part.raw.hex(),
            "type": part.media_type,
            "name": part.filename,
        }
    if part.url is not None:
        return {"url": part.url, "type": part.media_type, "name": part.filename}
    return part.text if part.text is not None else part.data


everything = CommandAgent(name="everything", description="Executes the command in a message.")
