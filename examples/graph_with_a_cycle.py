"""A graph with conditional edges, a join and a bounded cycle (section 4.1, last row).

Stock and fraud of an order are checked in parallel and joined. Then the order ships, or is
corrected and checked again. The example prints the path of each order, an order that exceeds
`max_steps`, and the error for a graph without a bound.

Run it: python examples/graph_with_a_cycle.py
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from acc import AccError, BaseAgent, Edge, GraphAgent, RunContext, Runner


@dataclass(kw_only=True, eq=False)
class Step(BaseAgent):
    """A node that calls a function; an Agent with a model can also be a node."""

    work: Callable[[RunContext], str | None]

    async def run(self, ctx: RunContext) -> str | None:
        """Return the result of the function as the output of the node."""
        return self.work(ctx)


def receive(ctx: RunContext) -> str:
    """Read the quantity from the message unless it was corrected."""
    quantity = ctx.state.setdefault("quantity", int(ctx.message.split()[0]))
    return f"{quantity} wanted"


def correct(ctx: RunContext) -> str:
    """Halve the quantity."""
    ctx.state["quantity"] //= 2
    return f"corrected to {ctx.state['quantity']}"


def check_stock(ctx: RunContext) -> None:
    """Check the warehouse."""
    ctx.state["in_stock"] = ctx.state["quantity"] <= 10


def check_fraud(ctx: RunContext) -> None:
    """Trust all customers except one."""
    ctx.state["trusted"] = "mallory" not in ctx.message


def accepted(state: Mapping[str, Any]) -> bool:
    """Return True if both checks passed; a condition reads only the state."""
    return bool(state["in_stock"] and state["trusted"])


def order_graph(max_steps: int | None) -> GraphAgent:
    """Return the graph, which is validated on construction."""
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
    """Process three orders, then construct an invalid graph."""
    runner = Runner(order_graph(max_steps=16))
    outcomes: dict[str, str] = {}
    for message in ("8 for alice", "35 for bob", "5 for mallory"):
        name = message.split()[-1]
        try:
            done = await runner.run(user_id=name, session_id="order-1", message=message)
            outcomes[name] = done.text
        except AccError as error:
            outcomes[name] = error.code
        events = await runner.events(user_id=name, session_id="order-1")
        path = " → ".join(event.author for event in events if event.step)
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
