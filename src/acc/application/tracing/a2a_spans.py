"""Spans of A2A requests, on the side of the client and of the server."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from acc.application.tracing import conventions as names
from acc.application.tracing.spans import TRACE_PARENT, end_span, error_type
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.run import trace_of_parent
from acc.domain.value_objects.task import Message, Role, Task
from acc.ports.outbound.tracing_ports import (
    Attributes,
    AttributeValue,
    SpanKind,
    SpanPort,
    TracerPort,
)

_SEND = "SendMessage"
_SEND_STREAMING = "SendStreamingMessage"
_NOTIFY = "PushNotification"


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
    """Add the attributes of a request to the span of the server."""
    if span is None:
        return
    attributes: dict[str, AttributeValue] = {names.A2A_PROTOCOL_VERSION: version}
    if tenant:
        attributes[names.A2A_TENANT] = tenant
    if message is not None:
        attributes |= _message_attributes(message)
    span.set_attributes(attributes)


def count_refusal(tracer: TracerPort | None, error: Exception) -> str:
    """Count a request that ended with an error; return the class of the error."""
    kind = error_type(error)
    if tracer is not None:
        tracer.count(names.METRIC_REFUSALS, {names.ERROR_TYPE: kind})
    return kind


@contextmanager
def trace_send(
    tracer: TracerPort | None, message: Message, url: str
) -> Iterator[tuple[Message, SpanPort | None]]:
    """Start and end the span of a message to a remote agent, which the message then names."""
    if tracer is None:
        yield message, None
        return
    parent = message.metadata.get(TRACE_PARENT)
    with _client_span(
        tracer, _SEND, url, parent if isinstance(parent, str) else "", _message_attributes(message)
    ) as span:
        if own := span.traceparent:
            message = replace(message, metadata={**message.metadata, TRACE_PARENT: own})
        yield message, span


@contextmanager
def trace_intent_call(
    tracer: TracerPort | None, intent: str, url: str, parent: str
) -> Iterator[str]:
    """Start and end the span of a call of an intent; yield the traceparent that is sent."""
    if tracer is None:
        yield parent
        return
    with _client_span(tracer, intent, url, parent, {}) as span:
        yield span.traceparent


@contextmanager
def trace_notification(tracer: TracerPort | None, task: Task, url: str) -> Iterator[str]:
    """Start and end the span of a push notification; yield the traceparent that is sent.

    Its parent is what the newest message of the caller names, because the notification is often
    sent after the request has ended.
    """
    parent = ""
    for message in reversed(task.history):
        if message.role is Role.USER:
            found = message.metadata.get(TRACE_PARENT)
            parent = found if isinstance(found, str) and trace_of_parent(found) else ""
            break
    # Without a parent there is no trace that the notification belongs to.
    if tracer is None or not parent:
        yield parent
        return
    with _client_span(tracer, _NOTIFY, url, parent, {names.A2A_TASK_ID: task.id}) as span:
        yield span.traceparent


@contextmanager
def _client_span(
    tracer: TracerPort, method: str, url: str, parent: str, attributes: Attributes
) -> Iterator[SpanPort]:
    parts = urlsplit(url)
    described: dict[str, AttributeValue] = {
        **attributes,
        names.A2A_METHOD_NAME: method,
        names.OPENINFERENCE_SPAN_KIND: names.KIND_CHAIN,
    }
    if parts.hostname:
        described[names.SERVER_ADDRESS] = parts.hostname
        described[names.SERVER_PORT] = parts.port or (443 if parts.scheme == "https" else 80)
    span = tracer.start_span(method, attributes=described, kind=SpanKind.CLIENT, parent=parent)
    try:
        yield span
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
