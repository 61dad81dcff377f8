"""Agents of six frameworks with and without ACC memory, on the same scenarios.

The answers come from the embedded model, so differences come from what a framework sends to it.
Run it in the environment of `make test-frameworks`; `crewai` in that of `make test-crewai`:

    .venv-frameworks/bin/python benchmarks/frameworks.py
    .venv-crewai/bin/python benchmarks/frameworks.py crewai
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from acc.application.runtime.background_loop import run_in_background
from acc.bootstrap.evaluation import open_judge, scenario_library
from acc.bootstrap.memory import token_counter
from acc.bootstrap.models import make_model
from acc.domain.metrics import drift_rate, hallucination_rate
from acc.domain.value_objects.content import ChatMessage, text_part
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.ports.outbound.model_ports import ModelRequest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "frameworks"), str(ROOT / "tests" / "crew")]
# CrewAI sends telemetry unless it is told not to.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
#: Messages and answers of the scripted models of all frameworks.
script: Any = import_module("script")
NAMES = {
    "langgraph": "LangGraph, LangChain",
    "pydantic_ai": "pydantic-ai",
    "openai_agents": "OpenAI Agents SDK",
    "google_adk": "ADK",
    "agent_framework": "Agent Framework",
    "crewai": "CrewAI",
}
SCENARIOS = ("it-operations", "it-operations-ja")
LONG = 500
EARLY, LATE = (8, 9, 10), tuple(range(LONG - 9, LONG + 1))
MAX_RATIO = 1.25
_SCRIPTED_REPLY = script.reply


class Row(NamedTuple):
    """The measurements of one framework, with or without ACC memory."""

    name: str
    has_memory: bool
    outcome: float
    hallucination: float
    drift: float
    early: int
    late: int


def embedded_reply(messages: Sequence[Any]) -> str:
    """Return the answer of the embedded model to the messages that a framework sent."""
    memory = [one.text for one in messages if "<memory>" in one.text]
    earlier = [
        ChatMessage(role="user" if one.role == "user" else "assistant", parts=text_part(one.text))
        for one in messages[:-1]
        if "<memory>" not in one.text and one.role in ("user", "assistant")
    ]
    block = memory[-1].partition("<memory>")[2].partition("</memory>")[0] if memory else ""
    request = ModelRequest.of(messages[-1].text, memory=block.strip(), earlier=earlier)
    return run_in_background(MODEL.complete(request), instead="await").text


MODEL = make_model("embedded")


async def evaluate(conversations: Any, name: str, has_memory: bool) -> tuple[float, float, float]:
    """Return outcome, hallucination and drift over the scenarios."""
    script.reply = embedded_reply
    outcomes: list[float] = []
    unsupported: list[float] = []
    drifts: list[float] = []
    for scenario_id in SCENARIOS:
        scenario = scenario_library().render(scenario_id, 0)
        judge = open_judge("rubric", None, scenario=scenario)
        conversation = conversations(session_id=scenario_id, has_memory=has_memory)
        known: dict[str, object] = {}
        for turn in scenario.turns:
            answer = await conversation.send(turn.query)
            query = EvaluationTurnQuery(turn_id=turn.turn_id, query=turn.query)
            response = AgentTurnResponse(agent_name=name, response_text=answer)
            result = await judge.evaluate_turn(query, known, (response,))
            known = dict(result.canonical_memory)
            (verdict,) = result.evaluations
            outcomes.append(verdict.outcome.mean)
            unsupported.append(hallucination_rate(verdict.hallucination))
            if turn.turn_id > 1:
                drifts.append(drift_rate(verdict.drift))
        conversation.forget_requests()
        await conversation.close()
    return fmean(outcomes), fmean(unsupported), fmean(drifts)


async def measure_input(conversations: Any, has_memory: bool) -> tuple[int, int]:
    """Return the largest input in tokens around turn 10 and around the last turn."""
    from test_framework_memory import message

    script.reply = _SCRIPTED_REPLY
    count = token_counter().count
    conversation = conversations(session_id="long", has_memory=has_memory)
    sizes: dict[int, int] = {}
    for number in range(1, LONG + 1):
        await conversation.send(message(number))
        if number in EARLY or number in LATE:
            sizes[number] = sum(count(one.text) for one in conversation.requests[0])
        conversation.forget_requests()
    await conversation.close()
    return max(sizes[number] for number in EARLY), max(sizes[number] for number in LATE)


async def measure(framework: str) -> list[Row]:
    """Return the rows of a framework without and with ACC memory."""
    conversations = import_module(f"scripted_{framework}").MemoryConversation
    rows: list[Row] = []
    for has_memory in (False, True):
        scores = await evaluate(conversations, framework, has_memory)
        sizes = await measure_input(conversations, has_memory)
        rows.append(Row(NAMES[framework], has_memory, *scores, *sizes))
        print(format_row(rows[-1]), flush=True)
    return rows


def format_row(row: Row) -> str:
    """Return a row of the table as Markdown."""
    cells = (
        row.name,
        "yes" if row.has_memory else "no",
        f"{row.outcome:.2f}",
        f"{100 * row.hallucination:.1f} %",
        f"{100 * row.drift:.1f} %",
        f"{row.early:,}",
        f"{row.late:,}",
        f"{row.late / row.early:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure the frameworks and print a table; fail if the input grows with ACC memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = [name for name in NAMES if name != "crewai"]
    parser.add_argument("frameworks", nargs="*", default=default)
    selected = parser.parse_args().frameworks
    print(
        "| framework | ACC memory | outcome | hallucination | drift | turn 10 | turn 500 | ratio |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    rows = [row for name in selected for row in asyncio.run(measure(name))]
    grown = [row.name for row in rows if row.has_memory and row.late > MAX_RATIO * row.early]
    if grown:
        sys.exit(f"with ACC memory the input of {', '.join(grown)} grows by more than a quarter")


if __name__ == "__main__":
    main()
