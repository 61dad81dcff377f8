"""Agents that publish and handle events, for tests with processes."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from acc import Agent, BaseAgent, ModelRequest, RunContext, ToolCall, ToolContext, tool
from acc.events import event_of, open_subscriber
from acc.testing import ScriptedModel, call


@dataclass(kw_only=True, eq=False)
class Sales(BaseAgent):
    """Publishes an order for every word of the message."""

    async def run(self, ctx: RunContext) -> str:
        words = ctx.message.split()
        return " ".join(ctx.publish("order.created", {"order": word}) for word in words)


@dataclass(kw_only=True, eq=False)
class Shipping(BaseAgent):
    """Writes orders to a ledger; the process may die right after that."""

    async def run(self, ctx: RunContext) -> str:
        order = event_of(ctx).payload["order"]
        await ctx.say(f"ships {order}")  # recorded, so that a resumed run does not say it again
        if order == "bad":
            raise RuntimeError("no stock")
        if write(order) and order == "crash":
            os._exit(9)
        return f"shipped {order}"


def write(order: str) -> bool:
    """Add an order to the ledger; return False if it is there."""
    ledger = Path(os.environ["LEDGER"])
    if ledger.exists() and order in ledger.read_text().split():
        return False
    with ledger.open("a") as file:
        file.write(f"{order}\n")
    return True


def _die_at(place: str) -> None:
    """End the process if CRASH names this place."""
    if os.environ.get("CRASH") == place:
        os._exit(9)


def _pack_once(prompt: ModelRequest) -> ToolCall | str:
    if prompt.messages[-1].role == "tool":
        return "done"
    _die_at("model")
    return call("pack")


@tool
def pack(ctx: ToolContext) -> str:
    """Pack the order of the event."""
    _die_at("before the effect")
    with Path(os.environ["LEDGER"]).open("a") as file:
        file.write(f"{event_of(ctx.run_context).payload['order']}\n")
    _die_at("after the effect")
    return "packed"


sales = Sales(name="sales")
shipping = Shipping(name="shipping")
packing = Agent(name="packing", model=ScriptedModel(_pack_once, repeat=True), tools=[pack])


async def work(source: str, store: str, agent: str = "shipping") -> None:
    async with open_subscriber(
        {"shipping": shipping, "packing": packing}[agent],
        events=["order.*"],
        source=source,
        store=store,
        lease=0.5,
    ) as subscriber:
        await subscriber.run(until_idle=True)


async def replay_all() -> None:
    """Replay the dead letters of the agent `packing`."""
    async with open_subscriber(packing, events=["*"], source=os.environ["STORE"]) as subscriber:
        for letter in await subscriber.dead_letters():
            await subscriber.replay(letter)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
