"""Spans and metrics of memories, callers and commands."""

from pathlib import Path
from typing import Any, Literal

import pytest
from telemetry import Telemetry

from acc import Agent, CallContext, RunConfig, Runner
from acc.cli import execute
from acc.testing import ScriptedModel

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def desk(memory: Literal["acc", "transcript"]) -> Agent:
    return Agent(name="desk", model=ScriptedModel("ok", repeat=True), memory=memory)


async def test_rejected_passages_have_reasons_in_spans_and_metrics(telemetry: Telemetry) -> None:
    runner = Runner(desk("acc"))
    await runner.run("The barn is red. 納屋は赤いです。")
    await runner.run("Is the barn red?")
    searches = [span for span in telemetry.finished() if span.name == "search_memory desk"]
    attributes: dict[str, Any] = dict(searches[-1].attributes or {})
    assert list(attributes["acc.memory.rejected"]) == ["duplicate=2"]
    metrics = telemetry.metrics()
    (rejections,) = metrics["acc.memory.rejections"]
    assert rejections.attributes == {
        "gen_ai.agent.name": "desk",
        "acc.memory.rejection.reason": "duplicate",
    }
    assert rejections.value == 2
    (sizes,) = metrics["acc.memory.tokens"]
    assert sizes.count == 2
    assert sizes.max == attributes["acc.memory.tokens.after"]


async def test_shortened_conversation_is_an_event_of_the_agent(telemetry: Telemetry) -> None:
    runner = Runner(desk("transcript"), config=RunConfig(max_prompt_tokens=300))
    for number in range(6):
        await runner.run(f"{number} " + "long message " * 30)
    run = telemetry.finished()[-1]
    assert run.name == "invoke_agent desk"
    (event,) = [one for one in run.events if one.name == "gen_ai.conversation.compacted"]
    sizes: dict[str, Any] = dict(event.attributes or {})
    assert sizes["acc.memory.tokens.before"] > sizes["acc.memory.tokens.after"]


async def test_ids_and_caller_of_the_seed_are_in_the_span_of_the_run(telemetry: Telemetry) -> None:
    runner = Runner(desk("transcript"))
    context = CallContext(
        request_id="request-1",
        trace_id="own-trace",
        caller="agent://billing",
        metadata={"traceparent": PARENT},
    )
    await runner.run("hello", context=context)
    run = telemetry.finished()[-1]
    attributes: dict[str, Any] = dict(run.attributes or {})
    assert attributes["acc.caller"] == "agent://billing"
    assert attributes["acc.request_id"] == "request-1"
    assert attributes["acc.trace_id"] == "own-trace"
    assert run.context is not None
    assert f"{run.context.trace_id:032x}" == PARENT.split("-")[1]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "AGENT", "hello"],
        ["chat", "AGENT"],
        ["serve", "AGENT", "--allow-embedded", "--port", "0"],
        ["mcp", "AGENT"],
        ["worker", "AGENT", "--engine", "temporal://127.0.0.1:1", "--store", "FOLDER/a.db"],
        ["subscribe", "AGENT", "--from", "FOLDER/a.db"],
        ["eval", "--scenario", "it-operations", "--turns", "1", "--out", "FOLDER/run", "--quiet"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_runs_agents_has_the_option(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")  # refused when tracing starts
    file = tmp_path / "desk.py"
    file.write_text(
        "from acc import Agent\nfrom acc.testing import ScriptedModel\n"
        'root = Agent(name="desk", model=ScriptedModel("ok", repeat=True))\n'
    )
    known = {"AGENT": f"{file}:root"}
    line = [known.get(word, word.replace("FOLDER", str(tmp_path))) for word in words]
    assert execute([*line, "--otel"]) == 2
    assert "OTEL_TRACES_EXPORTER=zipkin is not supported" in capsys.readouterr().err
