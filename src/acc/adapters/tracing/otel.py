"""Spans and metrics with OpenTelemetry; imported only if tracing is enabled."""

from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from typing import Any, Protocol
from weakref import ref

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    MeterProvider,
    Observation,
)
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
from acc.ports.outbound.tracing_ports import (
    Attributes,
    AttributeValue,
    OwnerT,
    SpanKind,
    SpanPort,
)

_KINDS = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.CLIENT: trace.SpanKind.CLIENT,
    SpanKind.SERVER: trace.SpanKind.SERVER,
}
_NAME = "acc"
_EMPTY = otel_context.Context()
#: Bounds of histograms, as the conventions recommend them: seconds, and numbers of tokens.
_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TOKENS = tuple(4**power for power in range(14))


class OtelSpan:
    """A span of OpenTelemetry.

    Attributes are collected and added at the end: each call of the SDK checks all values under two
    locks.
    """

    __slots__ = ("_attributes", "_context", "_span", "_traceparent")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._attributes: dict[str, AttributeValue] = {}
        self._context: otel_context.Context | None = None
        self._traceparent: str | None = None

    @property
    def context(self) -> otel_context.Context:
        """Return the parent of spans below this one; nothing else of the surrounding context."""
        if self._context is None:
            self._context = trace.set_span_in_context(self._span, _EMPTY)
        return self._context

    @property
    def traceparent(self) -> str:
        """Return the span as W3C traceparent."""
        if self._traceparent is None:
            own = self._span.get_span_context()
            self._traceparent = (
                f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
                if own.is_valid
                else ""
            )
        return self._traceparent

    @property
    def trace_id(self) -> str:
        """Return the id of the trace."""
        return self.traceparent[3:35]

    def rename(self, name: str) -> None:
        """Replace the name."""
        self._span.update_name(name)

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._attributes.update(attributes)

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Add an event that happens now."""
        self._span.add_event(name, attributes)

    def activate(self) -> "_ActiveSpan":
        """Make the span the current one, in addition to the rest of the current context."""
        return _ActiveSpan(self._span)

    def new_context(self) -> Context:
        """Return a copy of the current context in which the span is the current one."""
        own = copy_context()
        own.run(otel_context.attach, trace.set_span_in_context(self._span))
        return own

    def end(self, error: str = "") -> None:
        """End the span, with the class of an error."""
        if error:
            self._attributes[ERROR_TYPE] = error
            self._span.set_status(Status(StatusCode.ERROR, error))
        if self._attributes:
            self._span.set_attributes(self._attributes)
        self._span.end()


class _ActiveSpan:
    """A block in which a span is the current one; a class, because a generator costs more."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def __enter__(self) -> None:
        self._token = otel_context.attach(trace.set_span_in_context(self._span))

    def __exit__(self, *_: object) -> None:
        otel_context.detach(self._token)


class RecordsValues(Protocol):
    """A histogram, of the SDK or our own."""

    def record(self, amount: float, attributes: Attributes) -> None:
        """Add a value."""
        ...


class HistogramSource(Protocol):
    """Creates histograms in place of the meter."""

    def create(self, name: str, unit: str, bounds: Sequence[float]) -> RecordsValues:
        """Return a new histogram."""
        ...


class OtelTracer:
    """Starts spans and records metrics with the providers of an application."""

    def __init__(
        self,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
        *,
        version: str,
        captures_content: bool = False,
        histograms: "HistogramSource | None" = None,
    ) -> None:
        self.captures_content = captures_content
        self._tracer = tracer_provider.get_tracer(_NAME, version)
        self._meter = meter_provider.get_meter(_NAME, version)
        self._counters: dict[str, Counter] = {}
        self._own_histograms = histograms
        self._histograms: dict[str, RecordsValues] = {}
        self._watched: dict[str, dict[ref[Any], Callable[[Any], int]]] = {}

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
            context = trace.set_span_in_context(NonRecordingSpan(remote), _EMPTY)
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
            unit, bounds = ("{token}", _TOKENS) if "token" in metric else ("s", _SECONDS)
            histogram = self._histograms[metric] = (
                self._meter.create_histogram(
                    metric, unit=unit, explicit_bucket_boundaries_advisory=bounds
                )
                if self._own_histograms is None
                else self._own_histograms.create(metric, unit, bounds)
            )
        histogram.record(value, attributes)

    def watch(self, metric: str, owner: OwnerT, read: Callable[[OwnerT], int]) -> None:
        """Report a current value of an owner whenever metrics are exported, while it exists."""
        owners = self._watched.get(metric)
        if owners is None:
            owners = self._watched[metric] = {}
            self._meter.create_observable_up_down_counter(metric, callbacks=[_sum_over(owners)])
        owners[ref(owner, owners.pop)] = read


def _sum_over(
    owners: dict[ref[Any], Callable[[Any], int]],
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        # A copy, because other threads add and remove owners.
        found = [(owner(), read) for owner, read in list(owners.items())]
        return [Observation(sum(read(owner) for owner, read in found if owner is not None))]

    return observe


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
