"""Spans and metrics with OpenTelemetry; imported only if tracing is enabled."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
)

from acc.application.tracing.conventions import ERROR_TYPE
from acc.domain.value_objects.run import trace_of_parent
from acc.ports.outbound.tracing_ports import Attributes, SpanKind, SpanPort

_KINDS = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
    SpanKind.SERVER: trace.SpanKind.SERVER,
}
_NAME = "acc"


class OtelSpan:
    """A span of OpenTelemetry."""

    __slots__ = ("_span", "context")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        #: The parent of spans below this one; nothing else of the surrounding context.
        self.context = trace.set_span_in_context(span, otel_context.Context())

    @property
    def traceparent(self) -> str:
        """Return the span as W3C traceparent."""
        own = self._span.get_span_context()
        return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"

    @property
    def trace_id(self) -> str:
        """Return the id of the trace."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def rename(self, name: str) -> None:
        """Replace the name."""
        self._span.update_name(name)

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Add an event that happens now."""
        self._span.add_event(name, attributes)

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make the span the current one, in addition to the rest of the current context."""
        token = otel_context.attach(trace.set_span_in_context(self._span))
        try:
            yield
        finally:
            otel_context.detach(token)

    def end(self, error: str = "") -> None:
        """End the span, with the class of an error."""
        if error:
            self._span.set_attribute(ERROR_TYPE, error)
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class OtelTracer:
    """Starts spans and records metrics with the providers of an application."""

    def __init__(
        self,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
        *,
        version: str,
        captures_content: bool = False,
    ) -> None:
        self.captures_content = captures_content
        self._tracer = tracer_provider.get_tracer(_NAME, version)
        self._meter = meter_provider.get_meter(_NAME, version)
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def start_span(
        self,
        name: str,
        *,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: SpanPort | str | None = None,
        link: str = "",
    ) -> OtelSpan:
        """Start a span that does not become the current one."""
        context: otel_context.Context | None = None
        if isinstance(parent, OtelSpan):
            context = parent.context
        elif isinstance(parent, str) and (remote := _remote_span(parent)) is not None:
            context = trace.set_span_in_context(NonRecordingSpan(remote), otel_context.Context())
        linked = _remote_span(link) if link else None
        span = self._tracer.start_span(
            name,
            context=context,
            kind=_KINDS[kind],
            attributes=attributes,
            links=None if linked is None else [Link(linked)],
        )
        return OtelSpan(span)

    def count(self, metric: str, attributes: Attributes, value: int = 1) -> None:
        """Add to a counter."""
        counter = self._counters.get(metric)
        if counter is None:
            counter = self._counters[metric] = self._meter.create_counter(metric)
        counter.add(value, attributes)

    def observe(self, metric: str, value: float, attributes: Attributes) -> None:
        """Add a value to a histogram."""
        histogram = self._histograms.get(metric)
        if histogram is None:
            unit = "{token}" if "token" in metric else "s"
            histogram = self._meter.create_histogram(metric, unit=unit)
            self._histograms[metric] = histogram
        histogram.record(value, attributes)


def global_providers() -> tuple[TracerProvider, MeterProvider]:
    """Return the providers that the application has set for the whole process."""
    return trace.get_tracer_provider(), metrics.get_meter_provider()


def _remote_span(traceparent: str) -> SpanContext | None:
    """Return the span that a W3C traceparent refers to, None if it is invalid."""
    if not trace_of_parent(traceparent):
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
    )
