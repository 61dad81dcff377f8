"""Coordinator, delegator, worker: a document goes to the right summarizer (section 4.2).

The delegator in the middle is a RouterAgent. It chooses by a rule over the state, by matching the
message with intents, or by asking a model; workers stay simple and never know. You will see which
worker each way of choosing took, and why, because every choice is on record.

Run it: python examples/delegator.py
"""

import asyncio
import re
from collections.abc import Callable

from acc import BaseAgent, EventKind, RouterAgent, RunContext, Runner, SequentialAgent
from acc.testing import ScriptedModel

CONTRACT = "契約書: 甲は乙に対し、秘密保持義務を負う。違約金は100万円とする。"
PAPER = "Abstract: we measured a clear effect in 42 patients. Methods and results follow."


class Classifier(BaseAgent):
    """The coordinator's first step: say what kind of document this is, in the shared state."""

    async def run(self, ctx: RunContext) -> None:
        """Write the type under a key that the delegator reads."""
        kinds = {"legal": r"契約|義務|agreement", "science": r"abstract|methods|実験"}
        found = (k for k, words in kinds.items() if re.search(words, ctx.message, re.I))
        ctx.state["doc_type"] = next(found, "general")


class Summarizer(BaseAgent):
    """A worker: one task, no state, easy to replace; a model would go here."""

    async def run(self, ctx: RunContext) -> str:
        """Return the first sentence."""
        return f"[{self.name}] {re.split(r'(?<=[。.])', ctx.message)[0].strip()}"


def by_doc_type(ctx: RunContext) -> str:
    """Choose by rule, as the business would write it down."""
    return {"legal": "summarize_legal", "science": "summarize_scientific"}.get(
        ctx.state["doc_type"], "summarize_generic"
    )


def delegator(by: str | Callable[[RunContext], str]) -> RouterAgent:
    """Return a delegator in front of the three workers."""
    return RouterAgent(
        name="summary_router",
        by=by,
        # Only by="model" asks this; a real model gets the same descriptions.
        model=ScriptedModel("summarize_scientific"),
        intents={"summarize_legal": ["契約書 秘密保持義務 違約金"]},
        default="summarize_generic",
        sub_agents=[
            Summarizer(name="summarize_legal", description="Contracts, agreements, obligations"),
            Summarizer(name="summarize_scientific", description="Abstract, methods and results"),
            Summarizer(name="summarize_generic"),
        ],
    )


async def main() -> None:
    """Send documents through all three kinds of delegator."""
    cases: list[tuple[str | Callable[[RunContext], str], str]] = [
        (by_doc_type, CONTRACT),
        ("intent", CONTRACT),
        ("model", PAPER),
        ("intent", "Hello."),
    ]
    taken: list[tuple[str, str]] = []
    for by, document in cases:
        tree = SequentialAgent(
            name="coordinator", sub_agents=[Classifier(name="classifier"), delegator(by)]
        )
        result = await Runner(tree).run(user_id="u1", session_id="s1", message=document)
        route = next(event for event in result.events if event.kind is EventKind.ROUTE).detail
        taken.append((route["to"], route["reason"].split()[0]))
        print(f"{route['reason']:>12}: {result.text}")

    assert taken == [
        ("summarize_legal", "rule"),
        ("summarize_legal", "intent"),
        ("summarize_scientific", "model"),
        ("summarize_generic", "default"),
    ]


if __name__ == "__main__":
    asyncio.run(main())
