"""Agents with the intents of the specification, for servers in processes of their own."""

from typing import Any

from seed_nodes import SummarizeTextNode

from acc import BaseAgent, RunContext
from acc.contracts import Field, IntentAgent, intent


def summarizer(name: str, prefix: str) -> Any:
    @intent(
        name=name,
        inputs={"text": Field(type=str, description="The text")},
        outputs={"summary": Field(type=str, description="The summary")},
    )
    def summarize(
        inputs: dict[str, Any], memory: dict[str, Any], context: dict[str, Any]
    ) -> dict[str, Any]:
        """Summarize a document of one kind."""
        sender = context.get("on_behalf_of", "")
        return {"summary": f"{prefix}: {inputs['text']} ({context['caller']}, {sender})"}

    return summarize


desk = IntentAgent(
    name="desk",
    description="Summarizes documents of several kinds.",
    intents=[
        SummarizeTextNode(),
        summarizer("summarize_legal", "legal"),
        summarizer("summarize_scientific", "science"),
        summarizer("summarize_generic", "general"),
    ],
)


class _Plain(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        data = [part.data for part in ctx.parts]
        return f"plain {data} {sorted(ctx.call.metadata)}"


plain = _Plain(name="plain", description="Has no contract.")
