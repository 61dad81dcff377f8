"""Context propagation with least privilege (section 10.3).

Caller, request id, trace id and permissions are propagated with every call. A Grant restricts them
for a worker: the state keys it may read and write, its permissions, and access to the user id. The
example prints what both agents see, and the attempts of the worker that are rejected.

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

CONTEXTS: dict[str, dict[str, Any]] = {}


def record_context(ctx: RunContext) -> None:
    """Record the context of an agent before it runs."""
    CONTEXTS[ctx.agent.name] = {
        "caller": ctx.call.caller,
        "trace_id": ctx.call.trace_id,
        "user_id": ctx.user_id,
        "permissions": sorted(ctx.call.permissions or ()),
        "state": sorted(ctx.state),
    }


class Loader(BaseAgent):
    """The first step of the pipeline: load the document."""

    async def run(self, ctx: RunContext) -> None:
        """Write three keys, of which the worker may read one."""
        ctx.state["document_text"] = "Revenue grew by 12 % to 4.2 million."
        ctx.state["pipeline_stage"] = "extracted"
        ctx.state["customer_email"] = "kei@example.com"


@tool(requires="write:summary")
def save_summary(text: str, tool_context: ToolContext) -> str:
    """Save the summary, which the worker may do."""
    tool_context.state["summary"] = text
    return "saved"


@tool(requires="publish:web")
def publish(text: str) -> str:
    """Publish a text, which the worker may not do."""
    raise AssertionError("this must not be called")


def skip_ahead(tool_context: ToolContext) -> str:
    """Read and write state keys that were not granted."""
    address = str(tool_context.state.get("customer_email", "no address"))
    tool_context.state["pipeline_stage"] = address
    return address


report_orchestrator = SequentialAgent(
    name="report_orchestrator",
    before_agent_callback=record_context,
    sub_agents=[
        Loader(name="loader"),
        Agent(
            name="summarizer",
            # A real model may try anything; this one tries two actions that are not granted.
            model=ScriptedModel(
                [call("publish", text="Secret"), call("skip_ahead")],
                call("save_summary", text="Revenue up 12 %."),
                "Summarized.",
            ),
            instruction="Summarize: {document_text}",
            tools=[save_summary, publish, skip_ahead],
            before_agent_callback=record_context,
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
    """Run with the context of a request."""
    context = CallContext(
        request_id="req-cbe13a",
        trace_id="trace-7739a",
        caller="user://user-12081",
        permissions=frozenset({"read:docs", "write:summary", "delete:docs"}),
    )
    result = await Runner(report_orchestrator).run(
        user_id="user-12081", session_id="s1", message="Summarize document_003", context=context
    )
    for name, fields in CONTEXTS.items():
        print(name, *(f"{key}: {value}" for key, value in fields.items()), sep="\n  ")
    rejected = [e.result.content["error"] for e in result.events if e.result and e.result.is_error]
    print("rejected", *rejected, sep="\n  ")

    worker = CONTEXTS["summarizer"]
    assert worker["trace_id"] == "trace-7739a" and worker["caller"] == "agent://report_orchestrator"
    assert worker["user_id"] == "" and worker["state"] == ["document_text"]
    assert worker["permissions"] == ["read:docs", "write:summary"], "a grant never adds permissions"
    assert "publish:web" in rejected[0] and "pipeline_stage" in rejected[1]
    assert result.state["summary"] == "Revenue up 12 %."
    assert result.state["pipeline_stage"] == "extracted"
    assert {event.trace_id for event in result.events} == {"trace-7739a"}


if __name__ == "__main__":
    asyncio.run(main())
