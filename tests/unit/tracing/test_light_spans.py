"""Spans of commands, compared with those of the SDK."""

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode

from acc import Agent, Runner, ToolCall, disable_tracing, enable_tracing, tool
from acc.adapters.tracing.export import span_provider
from acc.adapters.tracing.light_spans import LightSpan, LightTracerProvider, encode
from acc.testing import ScriptedModel

RESOURCE = Resource({"service.name": "注文"})


class Collected(InMemorySpanExporter):
    """Keeps light spans; they are the argument of the exporter in place of those of the SDK."""

    def light(self) -> list[LightSpan]:
        return list(self.get_finished_spans())  # type: ignore[arg-type]


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def provider(collected: Collected) -> LightTracerProvider:
    return LightTracerProvider(RESOURCE, SimpleSpanProcessor(collected))


def inside(span: trace.Span) -> Context:
    return trace.set_span_in_context(span, Context())


def by_id(request: ExportTraceServiceRequest) -> dict[bytes, Any]:
    return {
        span.span_id: span
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def test_encoded_spans_equal_those_of_the_sdk(
    provider: LightTracerProvider, collected: Collected
) -> None:
    tracer = provider.get_tracer("acc", "1.0")
    remote = SpanContext(
        1 << 100,
        7,
        is_remote=True,
        trace_flags=trace.TraceFlags(1),
        trace_state=trace.TraceState([("vendor", "a"), ("other", "b")]),
    )
    server = tracer.start_span(
        "SendMessage", context=inside(NonRecordingSpan(remote)), kind=SpanKind.SERVER
    )
    values: dict[str, Any] = {
        "text": "発送済み",
        "long": "x" * 20_000,
        "empty": "",
        "one": 1,
        "negative": -(2**40),
        "half": 0.5,
        "whole": 1.0,
        "yes": True,
        "no": False,
        "reasons": ["stale=2", "unsafe=1"],
        "none": [],
    }
    child = tracer.start_span(
        "チャット", context=inside(server), kind=SpanKind.CLIENT, attributes=values
    )
    child.set_attribute("later", "value")
    failed = tracer.start_span("failed", links=[Link(remote, {"why": "resumed"})])
    failed.add_event("acc.approval", {"acc.approval.decision": "approve"})
    failed.record_exception(ValueError("secret"))
    failed.set_status(StatusCode.ERROR, "tool_error")
    other = tracer.start_span("status")
    other.set_status(Status(StatusCode.ERROR, "x"))
    for span in (child, server, failed, other):
        span.end()
    own = ExportTraceServiceRequest.FromString(encode(collected.light()))
    expected = encode_spans([span.readable() for span in collected.light()])
    assert by_id(own) == by_id(expected)
    assert len(by_id(own)) == 4
    assert "secret" not in str(own)
    frames = {
        (one.resource.SerializeToString(), one.scope_spans[0].scope.SerializeToString())
        for request in (own, expected)
        for one in request.resource_spans
    }
    assert len(frames) == 1


def test_span_of_an_unrecorded_parent_is_not_exported(
    provider: LightTracerProvider, collected: Collected
) -> None:
    tracer = provider.get_tracer("acc")
    parent = SpanContext(5, 7, is_remote=True, trace_flags=trace.TraceFlags(0))
    span = tracer.start_span("child", context=inside(NonRecordingSpan(parent)))
    assert not span.is_recording()
    assert span.get_span_context().trace_id == 5
    assert not span.get_span_context().trace_flags.sampled
    span.end()
    assert collected.light() == []


def test_span_is_exported_once(provider: LightTracerProvider, collected: Collected) -> None:
    with provider.get_tracer("acc").start_as_current_span("one") as span:
        assert trace.get_current_span() is span
        assert span.is_recording()
    span.end()
    assert not span.is_recording()
    (light,) = collected.light()
    assert 0 < light.start_time <= light.end_time
    assert light.context.trace_flags == 3  # sampled, with random ids
    assert trace.get_current_span() is not span


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "3"),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "3"),
    ],
)
def test_samplers_and_limits_of_the_environment_use_the_sdk(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for configured in (False, True):
        if configured:
            monkeypatch.setenv(name, value)
        provider = span_provider(RESOURCE, InMemorySpanExporter())
        assert isinstance(provider, TracerProvider) is configured
        provider.shutdown()


@tool
async def status(order: str) -> str:
    """Return the status of an order."""
    return f"{order} は発送済みです"


def run_traced(provider: trace.TracerProvider) -> None:
    meters = MeterProvider(shutdown_on_exit=False)
    enable_tracing(tracer_provider=provider, meter_provider=meters)
    model = ScriptedModel(ToolCall(id="1", name="status", arguments={"order": "A-17"}), "はい")
    try:
        asyncio.run(Runner(Agent(name="shop", model=model, tools=[status])).run("注文は?"))
    finally:
        disable_tracing()
        meters.shutdown()


def comparable(spans: list[ReadableSpan]) -> list[tuple[Any, ...]]:
    """Return what must be equal in two runs: everything but ids and times."""
    names = {span.context.span_id: span.name for span in spans if span.context is not None}
    return [
        (
            span.name,
            span.kind,
            names[span.parent.span_id] if span.parent is not None else None,
            {
                key: value
                for key, value in (span.attributes or {}).items()
                if key not in ("acc.run.id", "acc.request_id")
            },
            span.status.status_code,
            span.instrumentation_scope,
        )
        for span in spans
    ]


def test_run_has_the_same_spans_with_the_provider_of_the_sdk(
    provider: LightTracerProvider, collected: Collected
) -> None:
    run_traced(provider)
    exporter = InMemorySpanExporter()
    sdk = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    sdk.add_span_processor(SimpleSpanProcessor(exporter))
    run_traced(sdk)
    sdk.shutdown()
    assert (
        encode(exporter.get_finished_spans())
        == encode_spans(exporter.get_finished_spans()).SerializeToString()
    )
    light = comparable([span.readable() for span in collected.light()])
    assert light == comparable(list(exporter.get_finished_spans()))
    assert len(light) == 4
