"""CPU of tracing per tool turn: `python benchmarks/tracing_cost.py`.

The spans and metrics are those of `acc run --otel`. Spans are encoded as OTLP in the background
thread and not sent. Rounds with and without tracing alternate, so that other load affects both. The
floor is the SDK of OpenTelemetry alone: spans and metrics of such a turn in a loop, without a run.
Exits with 1 if the process needs more than the limit.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from acc import Agent, ModelRequest, Runner, ToolCall, disable_tracing, enable_tracing, tool
from acc.adapters.tracing.export import span_provider
from acc.adapters.tracing.light_metrics import LightHistograms
from acc.adapters.tracing.light_spans import encode
from acc.bootstrap.tracing import install_tracer
from acc.testing import ScriptedModel

LIMIT_MS = 0.15
TURNS = 100
ROUNDS = 25

Turn = Callable[[str], Awaitable[object]]
Flush = Callable[[], object]


class EncodingExporter(SpanExporter):
    """Encodes spans as they would be sent, by us or by the SDK."""

    def __init__(self, *, sdk: bool) -> None:
        self._sdk = sdk

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._sdk:
            encode_spans(spans).SerializeToString()
        else:
            encode(spans)
        return SpanExportResult.SUCCESS


@tool
async def weather(city: str) -> str:
    """Return the weather."""
    return f"sunny in {city}"


def respond(prompt: ModelRequest) -> ToolCall | str:
    if prompt.following:
        return "ok"
    return ToolCall(id="c1", name="weather", arguments={"city": "Rome"})


def runner_turn() -> Turn:
    """Return a tool turn; it is traced if tracing is enabled now."""
    runner = Runner(Agent(name="a", model=ScriptedModel(respond, repeat=True), tools=[weather]))
    return lambda session_id: runner.run("hi", session_id=session_id)


def floor_turn(provider: TracerProvider, meters: MeterProvider) -> Turn:
    """Return what the SDK does in a tool turn: four spans and five values of metrics."""
    tracer = provider.get_tracer("floor")
    meter = meters.get_meter("floor")
    duration = meter.create_histogram("floor.duration", unit="s")
    names = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "acc"}
    labels = {**names, "gen_ai.request.model": "ScriptedModel"}
    attributes = {**labels, "gen_ai.agent.name": "a", "openinference.span.kind": "LLM"}

    async def turn(session_id: str) -> None:
        run = tracer.start_span("invoke_agent a", attributes=attributes)
        run.set_attributes({"gen_ai.conversation.id": session_id})
        inside = trace.set_span_in_context(run, otel_context.Context())
        for name in ("chat ScriptedModel", "execute_tool weather", "chat ScriptedModel"):
            tracer.start_span(name, context=inside, attributes=attributes).end()
            duration.record(0.01, labels)
        run.end()
        duration.record(0.01, labels)
        duration.record(0.01, labels)

    return turn


async def measure(turn: Turn, flush: Flush, round_number: int) -> tuple[float, float]:
    """Return the milliseconds of a turn: of the event loop's thread, and of the process."""
    began, began_process = time.thread_time(), time.process_time()
    for number in range(TURNS):
        await turn(f"s{round_number}-{number}")
    thread = time.thread_time() - began
    flush()
    return thread / TURNS * 1e3, (time.process_time() - began_process) / TURNS * 1e3


async def main() -> int:
    meters = MeterProvider(metric_readers=[InMemoryMetricReader()], shutdown_on_exit=False)
    own = span_provider(Resource({"service.name": "acc"}), EncodingExporter(sdk=False))
    sdk = TracerProvider(shutdown_on_exit=False)
    sdk.add_span_processor(BatchSpanProcessor(EncodingExporter(sdk=True)))
    contenders: dict[str, tuple[Turn, Flush]] = {"without tracing": (runner_turn(), lambda: None)}
    install_tracer(own, meters, LightHistograms("acc", "benchmark"))
    contenders["acc run --otel"] = (runner_turn(), own.force_flush)
    enable_tracing(tracer_provider=sdk, meter_provider=meters)
    contenders["provider of the SDK"] = (runner_turn(), sdk.force_flush)
    disable_tracing()
    contenders["floor of the SDK"] = (floor_turn(sdk, meters), sdk.force_flush)
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for number in range(ROUNDS + 1):
        for name, (turn, flush) in contenders.items():
            values[name].append(await measure(turn, flush, number))
    plain = values["without tracing"][1:]
    print("ms of CPU per tool turn    thread  process   overhead: thread  process")
    over = 0.0
    for name, rounds in values.items():
        thread, process = (statistics.median(column) for column in zip(*rounds[1:], strict=True))
        is_run = "floor" not in name
        extra = [
            statistics.median(
                a[i] - b[i] if is_run else a[i] for a, b in zip(rounds[1:], plain, strict=True)
            )
            for i in (0, 1)
        ]
        print(f"{name:25} {thread:8.3f} {process:8.3f} {extra[0]:18.3f} {extra[1]:8.3f}")
        if name == "acc run --otel":
            over = extra[1]
    print(f"limit of the overhead of acc run --otel, process: {LIMIT_MS} ms")
    own.shutdown()
    sdk.shutdown()
    meters.shutdown()
    return int(over > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
