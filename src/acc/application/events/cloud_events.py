"""CloudEvents 1.0 as structured JSON, and the events that agents publish."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from acc.application.runtime.json_types import encode_json
from acc.application.tracing.spans import outgoing_parent
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.cloud_event import MAX_EVENT_BYTES, CloudEvent, check_event_type

if TYPE_CHECKING:
    from acc.application.runtime.context import RunContext
    from acc.application.tools.tool import ToolContext

SPEC_VERSION = "1.0"
MEDIA_TYPE = "application/cloudevents+json"
#: Key of the metadata of a message that has the event.
EVENT_METADATA = "cloudevent"
#: State key of a trace id that the application chose.
_TRACE_STATE_KEY = "trace_id"
_ATTRIBUTES = ("id", "source", "type", "time", "subject", "datacontenttype", "traceparent")
_REQUIRED = ("id", "source", "type")
#: Deeper JSON cannot be processed reliably, as each level is a call.
_MAX_DEPTH = 100


def new_event(ctx: "RunContext", event_type: str, payload: JsonData, *, step: str) -> CloudEvent:
    """Return an event of an agent.

    The `step` gives it its id, so that a step that is repeated after a crash has the same event.
    """
    check_event_type(event_type)
    request = ctx.run.request
    try:
        # A copy, so that later changes of the payload are not published.
        payload = msgspec.json.decode(encode_json(payload))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            f"the payload of event {event_type!r} cannot be converted to JSON: {error}"
        ) from None
    place = f"{request.key.app_name}/{ctx.run_id}{step}"
    now = datetime.fromtimestamp(ctx.services.clock.now(), UTC)
    trace_id = ctx.state.get(_TRACE_STATE_KEY) if _TRACE_STATE_KEY in ctx.state else ""
    event = CloudEvent(
        id=str(uuid5(NAMESPACE_URL, place)),
        source=f"/apps/{_quoted(request.key.app_name)}/agents/{_quoted(ctx.agent.name)}",
        type=event_type,
        time=now.isoformat().replace("+00:00", "Z"),
        datacontenttype="application/json",
        traceparent=outgoing_parent(ctx),
        data={
            "event_type": event_type,
            "payload": payload,
            "trace_id": trace_id if isinstance(trace_id, str) and trace_id else ctx.call.trace_id,
            "agent_name": ctx.agent.name,
        },
    )
    encode_cloud_event(event)  # checks the size
    return event


def encode_cloud_event(event: CloudEvent) -> bytes:
    """Return an event as structured JSON; InvalidInput if it is too large for carriers."""
    document = event_document(event)
    _check_depth(document)
    body = msgspec.json.encode(document)
    if len(body) > MAX_EVENT_BYTES:
        raise InvalidInput(
            f"event {event.type!r} has {len(body):,} bytes, at most {MAX_EVENT_BYTES:,} are "
            "allowed: save the content as an artifact and publish its name"
        )
    return body


def event_document(event: CloudEvent) -> dict[str, JsonData]:
    """Return an event as a JSON object."""
    document: dict[str, Any] = {"specversion": SPEC_VERSION}
    for name in _ATTRIBUTES:
        if value := getattr(event, name):
            document[name] = value
    document |= event.extensions
    if event.data is not None:
        document["data"] = event.data
    return document


def decode_cloud_event(body: bytes) -> CloudEvent:
    """Return an event from structured JSON; InvalidInput if it is none."""
    if len(body) > MAX_EVENT_BYTES:
        raise InvalidInput(
            f"the event has {len(body):,} bytes, at most {MAX_EVENT_BYTES:,} are accepted"
        )
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the event is not JSON ({error}); expected a CloudEvent") from None
    _check_depth(document)
    return _read_document(document)


def event_of(ctx: "RunContext | ToolContext[Any]") -> CloudEvent:
    """Return the event that started the run; InvalidInput if it was not an event.

    The context is that of an agent or of a tool.
    """
    run_context: Any = getattr(ctx, "run_context", ctx)
    for part in run_context.run.request.message:
        if (document := part.metadata.get(EVENT_METADATA)) is not None:
            return _read_document(document)
    raise InvalidInput("the run was not started by an event; start it with `acc subscribe`")


def _read_document(document: object) -> CloudEvent:
    if not isinstance(document, Mapping) or document.get("specversion") != SPEC_VERSION:
        raise InvalidInput(
            f'the event is not a CloudEvent: expected an object with "specversion": '
            f'"{SPEC_VERSION}"; publish structured JSON ({MEDIA_TYPE})'
        )
    attributes = {name: document.get(name) or "" for name in _ATTRIBUTES}
    invalid = [name for name, value in attributes.items() if not isinstance(value, str)]
    missing = [name for name in _REQUIRED if not attributes[name]]
    if invalid or missing:
        raise InvalidInput(
            f"the attributes {', '.join(missing + invalid)} of the event must be non-empty strings"
        )
    known = {"specversion", "data", *_ATTRIBUTES}
    extensions = {name: value for name, value in document.items() if name not in known}
    return CloudEvent(**attributes, data=document.get("data"), extensions=extensions)


def _check_depth(value: object, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"the event is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for item in value:
        _check_depth(item, depth + 1)


def event_key(event: CloudEvent) -> str:
    """Return a short name of an event that is the same for every delivery of it."""
    return str(uuid5(NAMESPACE_URL, f"{event.source}\n{event.id}"))


def _quoted(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F").replace(" ", "%20")
