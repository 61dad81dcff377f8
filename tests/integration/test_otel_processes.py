"""Traces across processes, received by a real OTLP/HTTP receiver."""

import os
import subprocess
import sys
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otlp_receiver import OtlpReceiver, orphans
from server_process import HERE, Server

from acc import Agent, McpToolset, Runner, ToolCall, disable_tracing, enable_tracing
from acc.testing import ScriptedModel


def _environment(receiver: OtlpReceiver) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "ACC_ALLOW": "127.0.0.1",
    }


def _run(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)]), **extra},
    )


def test_three_processes_produce_one_trace_without_orphans(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        shared = _environment(receiver)
        options = ("--allow-embedded", "--allow", "127.0.0.1")
        with Server(tmp_path, *options, agent="traced_agents:expert", **shared) as expert:
            expert_url = f"http://127.0.0.1:{expert.port}"
            with Server(
                tmp_path, *options, agent="traced_agents:middle", EXPERT=expert_url, **shared
            ) as middle:
                middle_url = f"http://127.0.0.1:{middle.port}"
                done = _run("run", "traced_agents:front", "db-1は?", MIDDLE=middle_url, **shared)
                assert done.returncode == 0, done.stderr
                assert "正常です。" in done.stdout
                spans = receiver.wait_for(
                    "invoke_workflow front", "invoke_workflow middle", "execute_tool lookup"
                )
        spans = receiver.spans()  # also those of the end of the servers
    assert {span.service for span in spans} == {"front", "middle", "expert"}
    turn = [span for span in spans if span.trace_id == spans[0].trace_id]
    assert orphans(spans) == []
    roots = [span.name for span in spans if not span.parent_id]
    assert roots == ["invoke_workflow front"]
    assert {span.trace_id for span in turn} == {span.trace_id for span in spans}
    by_id = {span.span_id: span for span in spans}
    (inner,) = [span for span in spans if span.name == "invoke_agent expert"]
    path = [inner.name]
    while inner.parent_id:
        inner = by_id[inner.parent_id]
        path.append(inner.name)
    assert path == [
        "invoke_agent expert",
        "SendStreamingMessage",
        "SendStreamingMessage",
        "invoke_agent remote_expert",
        "invoke_workflow middle",
        "SendStreamingMessage",
        "SendStreamingMessage",
        "invoke_agent remote_middle",
        "invoke_workflow front",
    ]
    (server, *_) = [
        span for span in spans if span.name == "SendStreamingMessage" and span.kind == 2
    ]
    assert server.attributes["a2a.method.name"] == "SendStreamingMessage"


def test_three_processes_over_a2a_and_mcp_produce_one_trace(tmp_path: Path) -> None:
    """A server that exports spans starts the MCP server as a child process."""
    with OtlpReceiver() as receiver:
        shared = _environment(receiver)
        options = ("--allow-embedded", "--allow", "127.0.0.1", "--otel")
        with Server(tmp_path, *options, agent="traced_agents:asker", **shared) as asker:
            url = f"http://127.0.0.1:{asker.port}"
            done = _run("run", "traced_agents:front", "db-1は?", MIDDLE=url, **shared)
            assert done.returncode == 0, done.stderr
            receiver.wait_for("invoke_workflow front", "invoke_agent asker", "execute_tool lookup")
        spans = receiver.spans()
    assert {span.service for span in spans} == {"front", "asker", "expert"}
    assert len({span.trace_id for span in spans}) == 1
    assert orphans(spans) == []
    by_id = {span.span_id: span for span in spans}
    (expert,) = [span for span in spans if span.name == "invoke_agent expert"]
    assert by_id[expert.parent_id].name == "execute_tool expert"


def test_evaluation_in_one_process_exports_the_scores(tmp_path: Path) -> None:
    options = ["--scenario", "it-operations", "--episodes", "1", "--turns", "2", "--quiet"]
    options += ["--agents", "acc,baseline", "--workers", "1", "--out", str(tmp_path / "run")]
    with OtlpReceiver() as receiver:
        done = _run("eval", *options, "--otel", **_environment(receiver))
        assert done.returncode == 0, done.stderr
        spans = receiver.spans()
    assert sorted(span.name for span in spans) == [
        *["invoke_agent acc"] * 2,
        *["invoke_agent baseline"] * 2,
    ]
    assert all("gen_ai.evaluation.result" in span.events for span in spans)


async def test_mcp_server_continues_the_trace_of_its_caller(tmp_path: Path) -> None:
    """The SDK of MCP passes the current span, which is that of the tool, in `_meta`."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    enable_tracing(tracer_provider=provider)
    with OtlpReceiver() as receiver:
        shared = {**_environment(receiver), "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)])}
        command = [sys.executable, "-m", "acc", "mcp", "traced_agents:expert"]
        expert = McpToolset(command=command, env=shared)
        call = ToolCall(id="1", name="expert", arguments={"message": "db-1は?"})
        caller = Agent(name="caller", model=ScriptedModel(call, "ok"), tools=[expert])
        runner = Runner(caller)
        try:
            await runner.run("go")
        finally:
            disable_tracing()
            await runner.aclose()
        spans = receiver.wait_for("invoke_agent expert", "execute_tool lookup")
    (outer,) = [s for s in exporter.get_finished_spans() if s.name == "execute_tool expert"]
    (inner,) = [span for span in spans if span.name == "invoke_agent expert"]
    assert outer.context is not None
    assert inner.trace_id == f"{outer.context.trace_id:032x}"
    assert inner.parent_id == f"{outer.context.span_id:016x}"


def test_otel_flag_exports_spans_and_metrics(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        variables = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.url}/v1/traces",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{receiver.url}/v1/metrics",
        }
        done = _run("run", "traced_agents:expert", "db-1?", "--otel", **variables)
        assert done.returncode == 0, done.stderr
        assert {span.name for span in receiver.spans()} >= {
            "invoke_agent expert",
            "chat ScriptedModel",
            "execute_tool lookup",
        }
        assert "gen_ai.client.operation.duration" in receiver.metrics()


def test_disabled_sdk_exports_nothing(tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        variables = {**_environment(receiver), "OTEL_SDK_DISABLED": "true"}
        done = _run("run", "traced_agents:expert", "db-1?", **variables)
        assert done.returncode == 0, done.stderr
        assert receiver.spans() == []


def test_opentelemetry_is_not_imported_unless_it_is_enabled() -> None:
    code = (
        "import sys; from acc import Agent, Runner; from acc.testing import ScriptedModel;"
        "import asyncio; asyncio.run(Runner(Agent(name='a', model=ScriptedModel('b'))).run('c'));"
        "import acc.cli; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_unsupported_exporter_is_rejected() -> None:
    done = _run("run", "traced_agents:expert", "x", "--otel", OTEL_TRACES_EXPORTER="zipkin")
    assert done.returncode == 2
    assert "OTEL_TRACES_EXPORTER=zipkin is not supported" in done.stderr
