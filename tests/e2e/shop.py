"""Agents with scripted models for the tests of the command line."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from acc import (
    Agent,
    BaseAgent,
    LoopAgent,
    ModelRequest,
    ParallelAgent,
    RunContext,
    SequentialAgent,
    ToolCall,
    exit_loop,
    tool,
)
from acc.testing import ScriptedModel, call

print("printed by the module")  # noqa: T201 - must not appear in the output of a command


@tool
def lookup_order(order: str) -> str:
    """Look up where an order is."""
    return f"{order} was shipped"


@tool(confirm=True)
def refund(order: str, amount: int) -> dict[str, object]:
    """Refund an order."""
    return {"refunded": amount, "order": order}


@tool
def delete_account(name: str) -> str:
    """Delete the account of a customer."""
    return f"account {name} deleted"


def respond(prompt: ModelRequest) -> str | list[ToolCall]:
    """Return the next response of the scripted model."""
    results = [m.parts[0].result for m in prompt.following if m.role == "tool"]
    if results and results[-1] is not None:
        return f"Done: {results[-1].content}"
    if "refund" in prompt.query or "返金" in prompt.query:
        return [call("refund", order="A-17", amount=50)]
    if "order" in prompt.query or "注文" in prompt.query:
        return [call("lookup_order", order="A-17")]
    if "fail" in prompt.query:
        raise ConnectionError("the model is away")
    return f"You said: {prompt.query}"


def desk() -> Agent:
    return Agent(
        name="desk",
        model=ScriptedModel(respond, repeat=True),
        instruction="Help with orders.",
        tools=[lookup_order, refund],
        output_key="answer",
    )


@tool(name="refund", confirm=True)
def refund_slowly(order: str, amount: int) -> str:
    """Refund an order, slowly."""
    Path(os.environ["REFUND_STARTED"]).touch()
    time.sleep(60)
    return f"{amount} for {order}"


def slow_refund() -> Agent:
    model = ScriptedModel(respond, repeat=True)
    return Agent(name="desk", model=model, tools=[lookup_order, refund_slowly])


def with_memory() -> Agent:
    """Return an agent with an ACC memory and the embedded model."""
    return Agent(name="assistant", instruction="Remember.", memory="acc")


class Slow(BaseAgent):
    """Waits a minute if the message asks for it."""

    async def run(self, ctx: RunContext) -> str:
        if "sleep" in ctx.message:
            await ctx.progress("sleeping")
            await asyncio.sleep(60)
        return f"slow: {ctx.message}"


def slow() -> BaseAgent:
    return Slow(name="slow")


class AskSize(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        answer = await ctx.request_input("Which size?", schema={"type": "integer"})
        return f"size {answer.value + 1}"


def ask_size() -> BaseAgent:
    return AskSize(name="ask_size")


def team() -> Agent:
    """Return a tree with a transfer, in English and Japanese."""
    transfer = ScriptedModel(call("transfer_to_agent", agent_name="返品担当"), repeat=True)
    return Agent(
        name="受付",
        model=transfer,
        instruction="Transfer what is about returns.",
        sub_agents=[
            Agent(
                name="返品担当",
                description="返品と交換の相談を受けます",
                instruction="返品を受ける。担当外なら受付に戻す。",
                model=ScriptedModel(respond, repeat=True),
                tools=[lookup_order, refund],
            )
        ],
    )


def both() -> BaseAgent:
    return ParallelAgent(
        name="both",
        sub_agents=[
            Agent(name="left", model=ScriptedModel("on the left", repeat=True), output_key="l"),
            Agent(name="right", model=ScriptedModel("on the right", repeat=True), output_key="r"),
        ],
    )


@dataclass
class Order:
    total: int


def faulty() -> BaseAgent:
    """Return a tree with problems that `acc check` reports."""
    return SequentialAgent(
        name="faulty",
        sub_agents=[
            Agent(name="reader", instruction="Sum up {total} and {notes}."),
            Agent(name="parser", instruction="Parse.", output_schema=Order, output_key="order"),
            LoopAgent(
                name="repeat",
                max_iterations=3,
                sub_agents=[Agent(name="worker", instruction="Do.", tools=[delete_account])],
            ),
        ],
    )


def valid_tree() -> BaseAgent:
    return LoopAgent(
        name="valid",
        max_iterations=3,
        sub_agents=[
            Agent(
                name="writer",
                description="Writes and improves the draft",
                instruction="Write, and consider {review?}.",
                output_key="draft",
            ),
            Agent(
                name="critic",
                description="Reviews the draft and ends the loop when it is good",
                instruction="Review {draft}.",
                output_key="review",
                tools=[exit_loop],
            ),
        ],
    )


def invalid_tree() -> BaseAgent:
    return LoopAgent(name="endless", sub_agents=[Agent(name="worker", instruction="Do.")])


def broken() -> BaseAgent:
    raise KeyError("colour")
