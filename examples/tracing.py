"""Structured logs that one trace id ties together (section 11.1).

Everything a run does is logged on `acc.run`, with trace, run, caller, agent and path as fields. Two
services that pass the trace id on can be searched as one. You will see JSON lines, and the path of
one request through both services put together from them.

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
    """Prints every record as one JSON object; yours would send it where your logs are."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take the fields that the record has."""
        fields = {key: record.__dict__[key] for key in FIELDS if record.__dict__.get(key)}
        line = {"event": record.getMessage(), **fields}
        LINES.append(line)
        print(json.dumps(line, ensure_ascii=False))


def lookup(word: str) -> str:
    """Look a word up."""
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
    """Calls the other service, and passes on who asks and how to follow it."""

    async def run(self, ctx: RunContext) -> str:
        """Ask with the same trace id."""
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
    """Serve one request, with its logs."""
    log = logging.getLogger("acc.run")
    log.setLevel(logging.INFO)
    log.addHandler(JsonLines())
    context = CallContext(request_id="req-1", trace_id="trace-3fb2b1", caller="user://u1")
    await reports.run(user_id="u1", session_id="s1", message="delegation", context=context)

    steps = [line["agent"] for line in LINES if line["event"] == "agent started"]
    print(" → ".join(steps))
    assert {line["trace_id"] for line in LINES} == {"trace-3fb2b1"}, "one search finds it all"
    assert len({line["run_id"] for line in LINES}) == 2, "and it was two runs"
    assert steps == ["report_orchestrator", "ask_dictionary", "translator", "writer"]
    assert any(line.get("tool") == "lookup" for line in LINES)
    assert [line["status"] for line in LINES if "status" in line] == ["completed"] * 2


if __name__ == "__main__":
    asyncio.run(main())
