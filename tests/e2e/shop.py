"""Agents for the tests of the command line; their models are scripted, so answers are known."""

import asyncio
import os
import sys
from dataclasses import dataclass

from acc import (
    Agent,
    BaseAgent,
    LoopAgent,
    ParallelAgent,
    Prompt,
    RunContext,
    SequentialAgent,
    exit_loop,
    tool,
)
from acc.testing import ScriptedModel, call


@tool
def lookup_order(order: str) -> str:
    """Look up where an order is."""
    return f"{order} was shipped"


@tool(confirm=True)
def refund(order: str, amount: int) -> dict[str, object]:
    """Give money back for an order."""
    return {"refunded": amount, "order": order}


def _said(prompt: Prompt) -> str | list[object]:
    """Answer by what was asked last: tools first, then words."""
    results = [m.text or str(m.parts[0].result.content) for m in prompt.messages if m.role == "tool" and m.parts[0].result]
    if results:
        return f"Done: {results[-1]}"
    if "refund" in prompt.query or "返金" in prompt.query:
        return [call("refund", order="A-17", amount=50)]
    if "order" in prompt.query or "注文" in prompt.query:
        return [call("lookup_order", order="A-17")]
    return f"You said: {prompt.query}"


def desk() -> Agent:
    return Agent(
        name="desk",
        model=ScriptedModel(_said, repeat=True),
        instruction="Help with orders.",
        tools=[lookup_order, refund],
    )
