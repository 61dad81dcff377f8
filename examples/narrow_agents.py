"""Narrow agents instead of one that does everything (section 2.2).

A generic agent reacts to the word "problem" and treats a broken network and an unpaid invoice
alike. Two agents with one intent each know what they have tried and when to give up. You will see
the same four messages go through both, and the third repair escalate to a person.

Run it: python examples/narrow_agents.py
"""

import asyncio

from acc import BaseAgent, EventKind, RouterAgent, RunContext, Runner

MESSAGES = (
    "The network connection drops every hour",
    "I have a problem with the amount on my invoice",
    "The network connection is still down",
    "The network connection dropped again",
)


class HandleRequest(BaseAgent):
    """The bad example: one agent, responsible for whatever comes."""

    async def run(self, ctx: RunContext) -> str:
        """Guess from a single word."""
        return "investigate_issue" if "problem" in ctx.message else "general_response"


class ResolveNetworkIssue(BaseAgent):
    """The good example: one intent, and a memory of what was tried."""

    async def run(self, ctx: RunContext) -> str:
        """Run diagnostics twice, then hand over to a person."""
        attempts = ctx.state.get("network_diagnostics", 0)
        if attempts >= 2:
            return "escalate_to_support"
        ctx.state["network_diagnostics"] = attempts + 1
        return "run_diagnostics_check"


class ExplainInvoice(BaseAgent):
    """One intent, and nothing to remember."""

    async def run(self, ctx: RunContext) -> str:
        """Look the invoice up."""
        return "show_invoice_lines"


support = RouterAgent(
    name="support",
    by="intent",
    sub_agents=[
        ResolveNetworkIssue(
            name="network", description="Network connection down, slow, drops or dropped"
        ),
        ExplainInvoice(name="billing", description="Amount on an invoice, payment, refund"),
    ],
)


async def main() -> None:
    """Send the same messages to both and compare."""
    generic, narrow = Runner(HandleRequest(name="handle_request")), Runner(support)
    actions: list[tuple[str, str]] = []
    for message in MESSAGES:
        one = await generic.run(user_id="u1", session_id="s1", message=message)
        other = await narrow.run(user_id="u1", session_id="s1", message=message)
        route = next(event for event in other.events if event.kind is EventKind.ROUTE)
        actions.append((one.text, other.text))
        print(f"{message}\n  generic: {one.text}")
        print(f"  narrow:  {other.text}  ({route.detail['to']}, {route.detail['reason']})")

    assert {generic for generic, _ in actions[2:]} == {"general_response"}
    assert [narrow for _, narrow in actions] == [
        "run_diagnostics_check",
        "show_invoice_lines",
        "run_diagnostics_check",
        "escalate_to_support",
    ]


if __name__ == "__main__":
    asyncio.run(main())
