"""Structured logs with one trace id across two services (section 11.1).

Runs are logged to the logger `acc.run` with the fields trace, run, caller, agent and path. Services
that propagate the trace id can be searched together. The example prints JSON lines and the path of
one request through both services.

Run it: python examples/tracing.py
"""

import asyncio
import json
import logging

from acc import Agent, BaseAgent, CallContext, RunContext, Runner, SequentialAgent
from acc.testing import ScriptedModel, call

FIELDS = ("trace_id", "run_id", "caller", "agent", "path", "tool", "status")
LINES: list[dict[str, str]] = []


class JsonLines(logging.Handler):
    """Prints every record as one JSON object; send it to your log store instead."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the fields of a record."""
        fields = {key: record.__dict__[key] for key in FIELDS if record.__dict__.get(key)}
        line = {"event": record.getMessage(), **fields}
        LINES.append(line)
        print(json.dumps(line, ensure_ascii=False))


def lookup(word: str) -> str:
    """Look up a word."""
    return f"{word}: 委譲"


dictionary = Runner(
    Agent(
        name="translator",
        model=ScriptedModel(call("lookup", word="delegation"), "委譲"),
        tools=[lookup],
    ),
    app_name="dictionary-service",
)


class AskDictionary(BaseAgent):
    """Calls the other service and propagates the trace id."""

    async def run(self, ctx: RunContext) -> str:
        """Call the service with the same trace id."""
        context = CallContext(
            request_id=f"{ctx.call.request_id}.1",
            trace_id=ctx.call.trace_id,
            caller=f"agent://{self.name}",
        )
        answer = await dictionary.run(
            user_id="service", session_id=ctx.session_id, message=ctx.message, context=context
        )
        return answer.text


reports = Runner(
    SequentialAgent(
        name="report_orchestrator",
        sub_agents=[
            AskDictionary(name="ask_dictionary"),
            Agent(name="writer", model=ScriptedModel("レポート: 委譲とは…")),
        ],
    ),
    app_name="report-service",
)


async def main() -> None:
    """Run one request and check its logs."""
    log = logging.getLogger("acc.run")
    log.setLevel(logging.INFO)
    log.addHandler(JsonLines())
    context = CallContext(request_id="req-1", trace_id="trace-3fb2b1", caller="user://u1")
    await reports.run(user_id="u1", session_id="s1", message="delegation", context=context)

    steps = [line["agent"] for line in LINES if line["event"] == "agent started"]
    print(" → ".join(steps))
    assert {line["trace_id"] for line in LINES} == {"trace-3fb2b1"}, "one search finds all lines"
    assert len({line["run_id"] for line in LINES}) == 2, "there were two runs"
    assert steps == ["report_orchestrator", "ask_dictionary", "translator", "writer"]
    assert any(line.get("tool") == "lookup" for line in LINES)
    assert [line["status"] for line in LINES if "status" in line] == ["completed"] * 2


if __name__ == "__main__":
    asyncio.run(main())
