"""CPU of tracing per tool turn: `python benchmarks/tracing_cost.py`.

Spans are encoded as OTLP in the background thread and not sent. The first number is the CPU of the
thread of the event loop, the second that of the process with the encoding. The limit is 0.15 ms.
"""

import asyncio
import time
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from acc import Agent, ModelRequest, Runner, ToolCall, disable_tracing, enable_tracing, tool
from acc.testing import ScriptedModel

TURNS = 400
ROUNDS = 7


class EncodingExporter(SpanExporter):
    """Encodes spans as they would be sent."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


@tool
def weather(city: str) -> str:
    """Return the weather."""
    return f"sunny in {city}"


def respond(prompt: ModelRequest) -> ToolCall | str:
    if prompt.following:
        return "ok"
    return ToolCall(id="c1", name="weather", arguments={"city": "Rome"})


async def measure(*, traced: bool) -> tuple[float, float]:
    """Return the least milliseconds of a turn: of the event loop's thread, and of the process."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(EncodingExporter()))
    meters = MeterProvider(metric_readers=[InMemoryMetricReader()], shutdown_on_exit=False)
    if traced:
        enable_tracing(tracer_provider=provider, meter_provider=meters)
    runner = Runner(Agent(name="a", model=ScriptedModel(respond, repeat=True), tools=[weather]))
    disable_tracing()
    thread, process = [], []
    for round_number in range(ROUNDS):
        began, began_process = time.thread_time(), time.process_time()
        for turn in range(TURNS):
            await runner.run("hi", session_id=f"s{round_number}-{turn}")
        thread.append((time.thread_time() - began) / TURNS * 1e3)
        provider.force_flush()
        process.append((time.process_time() - began_process) / TURNS * 1e3)
    provider.shutdown()
    meters.shutdown()
    return min(thread), min(process)


if __name__ == "__main__":
    plain = asyncio.run(measure(traced=False))
    with_spans = asyncio.run(measure(traced=True))
    print(f"without tracing {plain[0]:.3f} ms, process {plain[1]:.3f} ms")
    print(f"with tracing    {with_spans[0]:.3f} ms, process {with_spans[1]:.3f} ms")
    extra = [b - a for a, b in zip(plain, with_spans, strict=True)]
    print(f"overhead        {extra[0]:.3f} ms, process {extra[1]:.3f} ms (limit 0.150 ms)")
