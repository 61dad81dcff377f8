"""Coordinator, delegator, worker: route a document to the right summarizer (section 4.2).

The delegator is a RouterAgent. It chooses by a rule over the state, by matching the message with
intents, or by asking a model. The workers do not depend on it. The example prints which worker each
method chose and the reason, which is stored as an event.

Run it: python examples/delegator.py
"""

import asyncio
import re
from collections.abc import Callable
from typing import Literal

from acc import BaseAgent, EventKind, RouterAgent, RunContext, Runner, SequentialAgent
from acc.testing import ScriptedModel

CONTRACT = "契約書: 甲は乙に対し、秘密保持義務を負う。違約金は100万円とする。"
PAPER = "Abstract: we measured a clear effect in 42 patients. Methods and results follow."


class Classifier(BaseAgent):
    """The first step of the coordinator: classify the document."""

    async def run(self, ctx: RunContext) -> None:
        """Write the type to the state key that the delegator reads."""
        kinds = {"legal": r"契約|義務|agreement", "science": r"abstract|methods|実験"}
        matches = (k for k, words in kinds.items() if re.search(words, ctx.message, re.I))
        ctx.state["doc_type"] = next(matches, "general")


class Summarizer(BaseAgent):
    """A worker with one task and no state; in production an Agent with a model."""

    async def run(self, ctx: RunContext) -> str:
        """Return the first sentence."""
        return f"[{self.name}] {re.split(r'(?<=[。.])', ctx.message)[0].strip()}"


Rule = Literal["intent", "model"] | Callable[[RunContext], str]


def by_doc_type(ctx: RunContext) -> str:
    """Choose a worker by a business rule."""
    return {"legal": "summarize_legal", "science": "summarize_scientific"}.get(
        ctx.state["doc_type"], "summarize_generic"
    )


def delegator(by: Rule) -> RouterAgent:
    """Return a delegator in front of the three workers."""
    return RouterAgent(
        name="summary_router",
        by=by,
        # Used only with by="model"; a real model gets the same descriptions.
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
    cases: list[tuple[Rule, str]] = [
        (by_doc_type, CONTRACT),
        ("intent", CONTRACT),
        ("model", PAPER),
        ("intent", "Hello."),
    ]
    chosen: list[tuple[str, str]] = []
    for by, document in cases:
        tree = SequentialAgent(
            name="coordinator", sub_agents=[Classifier(name="classifier"), delegator(by)]
        )
        result = await Runner(tree).run(user_id="u1", session_id="s1", message=document)
        route = next(event for event in result.events if event.kind is EventKind.ROUTE).detail
        chosen.append((route["to"], route["reason"].split()[0]))
        print(f"{route['reason']:>12}: {result.text}")

    assert chosen == [
        ("summarize_legal", "rule"),
        ("summarize_legal", "intent"),
        ("summarize_scientific", "model"),
        ("summarize_generic", "default"),
    ]


if __name__ == "__main__":
    asyncio.run(main())
