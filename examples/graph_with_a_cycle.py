"""A graph: conditional edges, a join, and a cycle that is bounded (the last row of section 4.1).

An order is checked for stock and for fraud at the same time; a join waits for both; then it ships,
or goes back to be corrected, at most so often. You will see the path each order takes, an order
that can never pass run into `max_steps`, and a graph without a bound refused before it runs.

Run it: python examples/graph_with_a_cycle.py
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from acc import AccError, BaseAgent, Edge, GraphAgent, RunContext, Runner


@dataclass(kw_only=True, eq=False)
class Step(BaseAgent):
    """A node that is a plain function; an Agent with a model is a node just as well."""

    work: Callable[[RunContext], str | None]

    async def run(self, ctx: RunContext) -> str | None:
        """Do the work; what it returns is what the node says."""
        return self.work(ctx)


def receive(ctx: RunContext) -> str:
    """Read the quantity from the message, unless it was corrected already."""
    quantity = ctx.state.setdefault("quantity", int(ctx.message.split()[0]))
    return f"{quantity} wanted"


def correct(ctx: RunContext) -> str:
    """Offer half of it, and send the order round again."""
    ctx.state["quantity"] //= 2
    return f"what about {ctx.state['quantity']}?"


def check_stock(ctx: RunContext) -> None:
    """Look into the warehouse."""
    ctx.state["in_stock"] = ctx.state["quantity"] <= 10


def check_fraud(ctx: RunContext) -> None:
    """Trust everybody but one."""
    ctx.state["trusted"] = "mallory" not in ctx.message


def accepted(state: Mapping[str, Any]) -> bool:
    """Tell whether both checks passed: a condition sees the state and nothing else."""
    return bool(state["in_stock"] and state["trusted"])


def order_graph(max_steps: int | None) -> GraphAgent:
    """Return the graph; its shape is checked here, before anything runs."""
    return GraphAgent(
        name="order",
        sub_agents=[
            Step(name="receive", work=receive),
            Step(name="stock", work=check_stock),
            Step(name="fraud", work=check_fraud),
            Step(name="decide", work=lambda ctx: f"accepted: {accepted(ctx.state)}"),
            Step(name="correct", work=correct),
            Step(name="ship", work=lambda ctx: f"shipped {ctx.state['quantity']}"),
        ],
        edges=[
            ("receive", "stock"),
            ("receive", "fraud"),
            ("stock", "decide"),
            ("fraud", "decide"),
            ("decide", "ship", accepted),
            Edge("decide", "correct", otherwise=True),
            ("correct", "receive"),
        ],
        joins=["decide"],
        max_steps=max_steps,
    )


async def main() -> None:
    """Send three orders through, and build one graph that is wrong."""
    runner = Runner(order_graph(max_steps=16))
    outcomes: dict[str, str] = {}
    for message in ("8 for alice", "35 for bob", "5 for mallory"):
        name = message.split()[-1]
        try:
            done = await runner.run(user_id=name, session_id="order-1", message=message)
            outcomes[name] = done.text
        except AccError as error:
            outcomes[name] = error.code
        seen = await runner.events(user_id=name, session_id="order-1")
        path = " → ".join(event.author for event in seen if event.step)
        print(f"{message}: {outcomes[name]}\n  {path}")
    try:
        order_graph(max_steps=None)
    except AccError as error:
        outcomes["unbounded"] = str(error)
        print(error)

    assert outcomes["alice"] == "shipped 8"
    assert outcomes["bob"] == "shipped 8", "35 → 17 → 8"
    assert outcomes["mallory"] == "budget_exceeded"
    assert "max_steps" in outcomes["unbounded"]


if __name__ == "__main__":
    asyncio.run(main())
