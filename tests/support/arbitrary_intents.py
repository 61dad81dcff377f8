"""Intents of tests with arbitrary requests; `executed` lists their calls."""

from typing import Any, Literal

from acc.contracts import Field, intent

executed: list[str] = []


@intent(
    inputs={
        "text": Field(type=str, required=True),
        "length": Field(type=Literal["short", "long"], default="short"),
        "tags": Field(type=list[str], required=False),
        "limit": Field(type=int | None, required=False),
    },
    outputs={"summary": Field(type=str)},
)
def summarize(inputs: dict[str, Any]) -> dict[str, Any]:
    """Summarize a text. テキストを要約します。"""
    executed.append("summarize")
    return {"summary": inputs["text"][:10]}


@intent
def anything(inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
    """Accept every object."""
    executed.append("anything")
    return {"count": len(inputs), "memory": len(memory), "caller": context["caller"]}
