"""Agents that publish and handle events, for tests with processes."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from acc import BaseAgent, RunContext
from acc.events import event_of, open_subscriber


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


sales = Sales(name="sales")
shipping = Shipping(name="shipping")


async def work(source: str, store: str) -> None:
    async with open_subscriber(
        shipping, events=["order.*"], source=source, store=store, lease=0.5
    ) as subscriber:
        await subscriber.run(until_idle=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
