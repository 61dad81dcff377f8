"""Spans of A2A requests, on the side of the client and of the server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from acc.application.tracing import conventions as names
from acc.application.tracing.spans import TRACE_PARENT, end_span
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.run import trace_of_parent
from acc.domain.value_objects.task import Message, Task
from acc.ports.outbound.tracing_ports import AttributeValue, SpanKind, SpanPort, TracerPort

_SEND = "SendMessage"
_SEND_STREAMING = "SendStreamingMessage"


def nearest_parent(metadata: Mapping[str, Any], header: str) -> str:
    """Return the traceparent of a message: the header, unless the message names another trace."""
    own = metadata.get(TRACE_PARENT)
    if not isinstance(own, str) or not trace_of_parent(own):
        return header
    return header if trace_of_parent(header) == trace_of_parent(own) else own


def start_server_span(tracer: TracerPort, method: str, parent: str) -> SpanPort:
    """Start the span of a request that the server received."""
    attributes = {names.A2A_METHOD_NAME: method, names.OPENINFERENCE_SPAN_KIND: names.KIND_CHAIN}
    return tracer.start_span(method, attributes=attributes, kind=SpanKind.SERVER, parent=parent)


def describe_request(
    span: SpanPort | None, *, version: str, tenant: str, message: Message | None
) -> None:
    """Add what a request says to the span of the server."""
    if span is None:
        return
    attributes: dict[str, AttributeValue] = {names.A2A_PROTOCOL_VERSION: version}
    if tenant:
        attributes[names.A2A_TENANT] = tenant
    if message is not None:
        attributes |= _message_attributes(message)
    span.set_attributes(attributes)


@contextmanager
def trace_send(
    tracer: TracerPort | None, message: Message, url: str
) -> Iterator[tuple[Message, SpanPort | None]]:
    """Start and end the span of a message to a remote agent, which the message then names."""
    if tracer is None:
        yield message, None
        return
    parts = urlsplit(url)
    attributes = _message_attributes(message)
    attributes[names.A2A_METHOD_NAME] = _SEND
    attributes[names.OPENINFERENCE_SPAN_KIND] = names.KIND_CHAIN
    if parts.hostname:
        attributes[names.SERVER_ADDRESS] = parts.hostname
        attributes[names.SERVER_PORT] = parts.port or (443 if parts.scheme == "https" else 80)
    parent = message.metadata.get(TRACE_PARENT)
    span = tracer.start_span(
        _SEND,
        attributes=attributes,
        kind=SpanKind.CLIENT,
        parent=parent if isinstance(parent, str) else None,
    )
    metadata = {**message.metadata, TRACE_PARENT: span.traceparent}
    try:
        yield replace(message, metadata=metadata), span
    except BaseException as error:
        end_span(span, error)
        raise
    span.end()


def note_streaming(span: SpanPort | None) -> None:
    """Note that a message is sent with the streaming method."""
    if span is not None:
        span.rename(_SEND_STREAMING)
        span.set_attributes({names.A2A_METHOD_NAME: _SEND_STREAMING})


def describe_reply(span: SpanPort | None, reply: Task | Message) -> None:
    """Add the task that a remote agent created to the span of the client."""
    if span is not None and isinstance(reply, Task):
        state = f"TASK_STATE_{reply.state.value.upper().replace('-', '_')}"
        span.set_attributes({names.A2A_TASK_ID: reply.id, names.A2A_TASK_STATE: state})


def _message_attributes(message: Message) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {names.A2A_MESSAGE_ID: message.message_id}
    if message.context_id:
        attributes[names.GEN_AI_CONVERSATION_ID] = message.context_id
    if message.task_id:
        attributes[names.A2A_TASK_ID] = message.task_id
    return attributes
