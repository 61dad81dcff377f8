"""Specialised agents instead of one generic agent (section 2.2).

A generic agent reacts to the word "problem" and handles a network failure and an invoice alike. Two
agents with one intent each remember what they have tried. The example sends the same four messages
to both designs; the third network failure is escalated to a person.

Run it: python examples/specialised_agents.py
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
    """The generic design: one agent for all requests."""

    async def run(self, ctx: RunContext) -> str:
        """Choose an action by a single word."""
        return "investigate_issue" if "problem" in ctx.message else "general_response"


class ResolveNetworkIssue(BaseAgent):
    """The specialised design: one intent, and a record of earlier attempts."""

    async def run(self, ctx: RunContext) -> str:
        """Run diagnostics twice, then escalate to a person."""
        attempts = ctx.state.get("network_diagnostics", 0)
        if attempts >= 2:
            return "escalate_to_support"
        ctx.state["network_diagnostics"] = attempts + 1
        return "run_diagnostics_check"


class ExplainInvoice(BaseAgent):
    """One intent without state."""

    async def run(self, ctx: RunContext) -> str:
        """Show the invoice."""
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
    """Send the same messages to both designs and compare the actions."""
    generic, specialised = Runner(HandleRequest(name="handle_request")), Runner(support)
    actions: list[tuple[str, str]] = []
    for message in MESSAGES:
        first = await generic.run(user_id="u1", session_id="s1", message=message)
        second = await specialised.run(user_id="u1", session_id="s1", message=message)
        route = next(event for event in second.events if event.kind is EventKind.ROUTE)
        actions.append((first.text, second.text))
        print(f"{message}\n  generic:     {first.text}")
        print(f"  specialised: {second.text}  ({route.detail['to']}, {route.detail['reason']})")

    assert {action for action, _ in actions[2:]} == {"general_response"}
    assert [action for _, action in actions] == [
        "run_diagnostics_check",
        "show_invoice_lines",
        "run_diagnostics_check",
        "escalate_to_support",
    ]


if __name__ == "__main__":
    asyncio.run(main())
