"""A context that travels along, and a worker that gets only its part of it (section 10.3).

Caller, request, trace and permissions go with every call. A Grant projects them for a worker: which
keys of the state it may read and write, which permissions, whether it learns who the user is. You
will see both views of the same run, and three things the worker tries that it was not granted.

Run it: python examples/context_propagation.py
"""

import asyncio
from typing import Any

from acc import (
    Agent,
    BaseAgent,
    CallContext,
    Grant,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    tool,
)
from acc.testing import ScriptedModel, call

SEEN: dict[str, dict[str, Any]] = {}


def look_around(ctx: RunContext) -> None:
    """Note what an agent gets to see, before it runs."""
    SEEN[ctx.agent.name] = {
        "caller": ctx.call.caller,
        "trace_id": ctx.call.trace_id,
        "user_id": ctx.user_id,
        "permissions": sorted(ctx.call.permissions or ()),
        "state": sorted(ctx.state),
    }


class Loader(BaseAgent):
    """The first step of the pipeline: it brings in the document."""

    async def run(self, ctx: RunContext) -> None:
        """Fill the state; the worker shall see one of these keys."""
        ctx.state["document_text"] = "Revenue grew by 12 % to 4.2 million."
        ctx.state["pipeline_stage"] = "extracted"
        ctx.state["customer_email"] = "kei@example.com"


@tool(requires="write:summary")
def save_summary(text: str, tool_context: ToolContext) -> str:
    """Keep the summary; this is what the worker is for."""
    tool_context.state["summary"] = text
    return "saved"


@tool(requires="publish:web")
def publish(text: str) -> str:
    """Put something on the web; this worker may not."""
    raise AssertionError("this must not be called")


def skip_ahead(tool_context: ToolContext) -> str:
    """Declare the pipeline done, and look for the customer's address on the way."""
    found = str(tool_context.state.get("customer_email", "no address"))
    tool_context.state["pipeline_stage"] = found
    return found


report_orchestrator = SequentialAgent(
    name="report_orchestrator",
    before_agent_callback=look_around,
    sub_agents=[
        Loader(name="loader"),
        Agent(
            name="summarizer",
            # A real model may try anything; this one tries two things that it should not.
            model=ScriptedModel(
                [call("publish", text="Secret"), call("skip_ahead")],
                call("save_summary", text="Revenue up 12 %."),
                "Summarized.",
            ),
            instruction="Summarize: {document_text}",
            tools=[save_summary, publish, skip_ahead],
            before_agent_callback=look_around,
        ),
    ],
    grants={
        "summarizer": Grant(
            read=("document_text",),
            write=("summary",),
            permissions=frozenset({"read:docs", "write:summary", "publish:web"}),
            history=False,
            identity=False,
        )
    },
)


async def main() -> None:
    """Run with a context as it would come in with a request."""
    context = CallContext(
        request_id="req-cbe13a",
        trace_id="trace-7739a",
        caller="user://user-12081",
        permissions=frozenset({"read:docs", "write:summary", "delete:docs"}),
    )
    result = await Runner(report_orchestrator).run(
        user_id="user-12081", session_id="s1", message="Summarize document_003", context=context
    )
    for name, seen in SEEN.items():
        print(name, *(f"{key}: {value}" for key, value in seen.items()), sep="\n  ")
    refused = [e.result.content["error"] for e in result.events if e.result and e.result.is_error]
    print("refused", *refused, sep="\n  ")

    worker = SEEN["summarizer"]
    assert worker["trace_id"] == "trace-7739a" and worker["caller"] == "agent://report_orchestrator"
    assert worker["user_id"] == "" and worker["state"] == ["document_text"]
    assert worker["permissions"] == ["read:docs", "write:summary"], "a grant never adds any"
    assert "publish:web" in refused[0] and "pipeline_stage" in refused[1]
    assert result.state["summary"] == "Revenue up 12 %."
    assert result.state["pipeline_stage"] == "extracted"
    assert {event.trace_id for event in result.events} == {"trace-7739a"}


if __name__ == "__main__":
    asyncio.run(main())
