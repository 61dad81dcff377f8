"""Spans of commands, which need less CPU than those of the SDK; see docs/adr/0057.

`TelemetryExport` uses them if the environment configures neither a sampler nor limits. The batch
processor of the SDK passes them to `LightSpanExporter`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from random import getrandbits
from struct import Struct
from time import time_ns
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    get_current_span,
    use_span,
)
from opentelemetry.util import types

from acc.application.tracing.conventions import (
    ACC_REQUEST_ID,
    ACC_RUN_ID,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_TOOL_CALL_ID,
    OPENINFERENCE_SESSION,
)

#: Attributes with short texts are cached in encoded form, because most of them repeat.
_MAX_CACHED_ATTRIBUTES, _MAX_CACHED_LENGTH = 2048, 64
#: Attributes that differ in every run.
_UNIQUE = frozenset(
    (ACC_RUN_ID, ACC_REQUEST_ID, GEN_AI_CONVERSATION_ID, GEN_AI_TOOL_CALL_ID, OPENINFERENCE_SESSION)
)
_ROOT_FLAGS = TraceFlags(TraceFlags.SAMPLED | TraceFlags.RANDOM_TRACE_ID)
# Fields of opentelemetry.proto.trace.v1.Span that are not texts.
_KINDS = {kind: bytes((0x30, kind.value + 1)) for kind in SpanKind}
_TIMES = Struct("<BQBQ")
_LOCAL_PARENT = bytes.fromhex("850100010000")
_REMOTE_PARENT = bytes.fromhex("850100030000")


class LightSpan(Span):
    """A span for one thread at a time; the types of attributes are not checked."""

    __slots__ = (
        "_tracer",
        "attributes",
        "context",
        "end_time",
        "events",
        "kind",
        "links",
        "name",
        "parent",
        "start_time",
        "status",
    )

    def __init__(
        self,
        tracer: "LightTracer",
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind,
        attributes: types.Attributes,
        links: Sequence[Link],
        start_time: int | None,
    ) -> None:
        self._tracer = tracer
        self.name = name
        self.context = context
        self.parent = parent
        self.kind = kind
        self.attributes: dict[str, Any] = dict(attributes) if attributes else {}
        self.links = links
        self.events: list[Event] | None = None
        self.status: Status | None = None
        self.end_time = 0
        self.start_time = start_time or time_ns()

    def get_span_context(self) -> SpanContext:
        """Return the ids."""
        return self.context

    def set_attributes(self, attributes: Mapping[str, types.AnyValue]) -> None:
        """Add attributes."""
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: types.AnyValue) -> None:
        """Add an attribute."""
        self.attributes[key] = value

    def add_event(
        self, name: str, attributes: types.Attributes = None, timestamp: int | None = None
    ) -> None:
        """Add an event."""
        if self.events is None:
            self.events = []
        self.events.append(Event(name, attributes, timestamp))

    def update_name(self, name: str) -> None:
        """Replace the name."""
        self.name = name

    def is_recording(self) -> bool:
        """Return True until the span is ended."""
        return not self.end_time

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status."""
        self.status = status if isinstance(status, Status) else Status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an event with the class of an exception; its message may contain private content."""
        self.add_event("exception", {"exception.type": type(exception).__name__}, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """End the span; it is exported once."""
        if not self.end_time:
            self.end_time = end_time or time_ns()
            self._tracer.processor.on_end(self)  # type: ignore[arg-type] # its exporter reads it

    def readable(self) -> ReadableSpan:
        """Return the span in the form of the SDK."""
        return ReadableSpan(
            name=self.name,
            context=self.context,
            parent=self.parent,
            resource=self._tracer.resource,
            attributes=self.attributes,
            events=self.events or (),
            links=self.links,
            kind=self.kind,
            status=self.status or Status(StatusCode.UNSET),
            start_time=self.start_time,
            end_time=self.end_time,
            instrumentation_scope=self._tracer.scope,
        )


class LightTracer(Tracer):
    """Starts spans. A span is recorded unless it has a parent that is not recorded."""

    def __init__(
        self, processor: SpanProcessor, resource: Resource, scope: InstrumentationScope
    ) -> None:
        self.processor = processor
        self.resource = resource
        self.scope = scope

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: types.Attributes = None,
        links: Sequence[Link] | None = (),
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> Span:
        """Start a span that does not become the current one."""
        parent: SpanContext | None = get_current_span(context).get_span_context()
        if parent is None or not parent.is_valid:
            parent = None
            span_context = SpanContext(
                _random_id(128), _random_id(64), is_remote=False, trace_flags=_ROOT_FLAGS
            )
        else:
            span_context = SpanContext(
                parent.trace_id,
                _random_id(64),
                is_remote=False,
                trace_flags=parent.trace_flags,
                trace_state=parent.trace_state,
            )
            if not span_context.trace_flags.sampled:
                return NonRecordingSpan(span_context)
        return LightSpan(
            self, name, span_context, parent, kind, attributes, links or (), start_time
        )

    @contextmanager
    def start_as_current_span(  # type: ignore[override] # the arguments are those of `start_span`
        self, name: str, *arguments: Any, **options: Any
    ) -> Iterator[Span]:
        """Start a span that is the current one inside the block."""
        with use_span(self.start_span(name, *arguments, **options), end_on_exit=True) as span:
            yield span


class LightTracerProvider(TracerProvider):
    """Passes ended spans to a processor of the SDK."""

    def __init__(self, resource: Resource, processor: SpanProcessor) -> None:
        self._resource = resource
        self._processor = processor

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: types.Attributes = None,
    ) -> LightTracer:
        """Return a tracer with a name and a version."""
        scope = InstrumentationScope(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )
        return LightTracer(self._processor, self._resource, scope)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export the recorded spans."""
        return self._processor.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Export the remaining spans and stop."""
        self._processor.shutdown()


class LightSpanExporter(OTLPSpanExporter):
    """Sends spans over OTLP/HTTP."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; failures are logged by the client of the base class."""
        result = self._client.export(encode(spans))
        return SpanExportResult.SUCCESS if result.success else SpanExportResult.FAILURE


# Encoding without the classes of opentelemetry-proto, which need three times as long.


def encode(spans: "Sequence[LightSpan | ReadableSpan]") -> bytes:
    """Return the spans of one tracer as an OTLP request.

    Spans of the SDK, and the rare spans with events, links or errors, are encoded by the SDK.
    The concatenation of two encoded requests is one request with the resources of both.
    """
    plain: list[LightSpan] = []
    other: list[ReadableSpan] = []
    for span in spans:
        if not isinstance(span, LightSpan):
            other.append(span)
        elif span.status is None and span.events is None and not span.links:
            plain.append(span)
        else:
            other.append(span.readable())
    request = encode_spans(other).SerializeToString() if other else b""
    if not plain:
        return request
    template = encode_spans([plain[0].readable()]).resource_spans[0]
    scope_spans = _field(1, template.scope_spans[0].scope.SerializeToString())
    scope_spans += b"".join([_field(2, _encode_span(span)) for span in plain])
    resource = _field(1, template.resource.SerializeToString())
    return request + _field(1, resource + _field(2, scope_spans))


def _encode_span(span: LightSpan) -> bytes:
    context, parent = span.context, span.parent
    pieces = [
        b"\x0a\x10",
        context.trace_id.to_bytes(16),
        b"\x12\x08",
        context.span_id.to_bytes(8),
        b"" if not context.trace_state else _field(3, context.trace_state.to_header().encode()),
        b"" if parent is None else b"\x22\x08" + parent.span_id.to_bytes(8),
        _field(5, span.name.encode()),
        _KINDS[span.kind],
        _TIMES.pack(0x39, span.start_time, 0x41, span.end_time),
        b"\x7a\x00",
        _REMOTE_PARENT if parent is not None and parent.is_remote else _LOCAL_PARENT,
    ]
    pieces += [_attribute(key, value) for key, value in span.attributes.items()]
    return b"".join(pieces)


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field; the number must be below 16."""
    length = len(content)
    if length < 128:
        return bytes((number << 3 | 2, length)) + content
    prefix = bytearray((number << 3 | 2,))
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + content


def _attribute(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        is_cached = len(value) <= _MAX_CACHED_LENGTH and key not in _UNIQUE
        return _cached_text(key, value) if is_cached else _text(key, value)
    if isinstance(value, bool):
        content = AnyValue(bool_value=value)
    elif isinstance(value, int):
        content = AnyValue(int_value=value)
    elif isinstance(value, float):
        content = AnyValue(double_value=value)
    else:
        texts = [AnyValue(string_value=str(one)) for one in value]
        content = AnyValue(array_value=ArrayValue(values=texts))
    return _field(9, KeyValue(key=key, value=content).SerializeToString())


def _text(key: str, value: str) -> bytes:
    return _field(9, _field(1, key.encode()) + _field(2, _field(1, value.encode())))


_cached_text = lru_cache(_MAX_CACHED_ATTRIBUTES)(_text)


def _random_id(bits: int) -> int:
    while not (number := getrandbits(bits)):  # pragma: no cover - probability 2**-64
        pass
    return number
