"""What is asked for, and configurations and pages, as generation 1.0 writes them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from acc.adapters.a2a.codec.wire import Operation
from acc.adapters.a2a.shapes.one_content import (
    NUMBERED_STATES,
    STATE_NAMES,
    STATES,
    MessageShape,
    Shape,
    TaskShape,
    artifact_shape,
    message_from,
    message_shape,
    task_shape,
)
from acc.adapters.a2a.shapes.reading import (
    Whole,
    fault,
    from_timestamp,
    required,
    to_timestamp,
    whole_number,
)
from acc.application.serving.requests import (
    CardRequest,
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    Request,
    SendRequest,
    TaskRequest,
)
from acc.domain.value_objects.task import PushConfig, Task, TaskQuery, TaskState

_MOST_DIGITS = 10


class AuthenticationShape(Shape):
    """How to authenticate to who is notified."""

    scheme: str | None = None
    credentials: str | None = None


class PushShape(Shape):
    """A push configuration."""

    tenant: str | None = None
    id: str | None = None
    task_id: str | None = None
    url: str | None = None
    token: str | None = None
    authentication: AuthenticationShape | None = None


class PushPageShape(Shape):
    """Push configurations."""

    configs: list[PushShape] | None = None
    next_page_token: str | None = None


class PageShape(Shape):
    """A page of tasks."""

    tasks: list[TaskShape] | None = None
    next_page_token: str | None = None
    page_size: Whole = None
    total_size: Whole = None


class ConfigurationShape(Shape):
    """How to answer a message."""

    accepted_output_modes: list[str] | None = None
    task_push_notification_config: PushShape | None = None
    history_length: Whole = None
    return_immediately: bool | None = None


class SendShape(Shape):
    """Send a message."""

    tenant: str | None = None
    message: MessageShape | None = None
    configuration: ConfigurationShape | None = None
    metadata: dict[str, Any] | None = None


class GetShape(Shape):
    """Get a task."""

    tenant: str | None = None
    id: str | None = None
    history_length: Whole = None


class ListShape(Shape):
    """List tasks."""

    tenant: str | None = None
    context_id: str | None = None
    status: str | int | None = None
    page_size: Whole = None
    page_token: str | None = None
    history_length: Whole = None
    status_timestamp_after: str | None = None
    include_artifacts: bool | None = None


class ByTaskShape(Shape):
    """Cancel a task or subscribe to it."""

    tenant: str | None = None
    id: str | None = None
    metadata: dict[str, Any] | None = None


class ByConfigShape(Shape):
    """Get, list or delete push configurations."""

    tenant: str | None = None
    task_id: str | None = None
    id: str | None = None
    page_size: Whole = None
    page_token: str | None = None


class CardShape(Shape):
    """Get the extended card."""

    tenant: str | None = None


def push_from(shape: PushShape, where: str) -> PushConfig:
    """Return a push configuration; `where` is the path to it, with a dot at its end."""
    auth = shape.authentication or AuthenticationShape()
    return PushConfig(
        id=shape.id or "",
        task_id=shape.task_id or "",
        url=required(shape.url, f"{where}url"),
        token=shape.token or "",
        scheme=auth.scheme or "",
        credentials=auth.credentials or "",
        generation="1.0",
    )


def push_shape(config: PushConfig) -> PushShape:
    """Return a push configuration for the wire."""
    auth = None
    if config.scheme or config.credentials:
        auth = AuthenticationShape(
            scheme=config.scheme or None, credentials=config.credentials or None
        )
    return PushShape(
        id=config.id or None,
        task_id=config.task_id or None,
        url=config.url,
        token=config.token or None,
        authentication=auth,
    )


def listed_shape(task: Task, include_artifacts: bool) -> TaskShape:
    """Return a task of a page: with its artifacts, even if there are none, or without the key."""
    shape = task_shape(task)
    shape.artifacts = (
        [artifact_shape(made) for made in task.artifacts] if include_artifacts else None
    )
    return shape


def _send(shape: SendShape) -> Request:
    if shape.message is None:
        raise fault("message", "is required")
    how = shape.configuration or ConfigurationShape()
    push = how.task_push_notification_config
    where = "configuration."
    return SendRequest(
        message=message_from(shape.message, "message", strict=True),
        accepted_output_modes=tuple(how.accepted_output_modes or ()),
        history_length=whole_number(how.history_length, f"{where}historyLength"),
        wait=not how.return_immediately,
        push=None if push is None else push_from(push, f"{where}taskPushNotificationConfig."),
        metadata=shape.metadata or {},
        tenant=shape.tenant or "",
    )


def _get(shape: GetShape) -> Request:
    return GetRequest(
        id=required(shape.id, "id"),
        history_length=whole_number(shape.history_length, "historyLength"),
        tenant=shape.tenant or "",
    )


def wanted_state(told: str | int | None, states: Mapping[str, TaskState]) -> TaskState | None:
    """Return the state that tasks are filtered by; that of no particular state is no filter.

    It may be told by its number, which a query holds as text.
    """
    if not told:
        return None
    text = str(told)
    is_number = text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS
    state = NUMBERED_STATES.get(int(text)) if is_number else states.get(text)
    if state is None:
        raise fault("status", f"is no state of a task; use one of {', '.join(states)}")
    return None if state is TaskState.UNKNOWN else state


def _list(shape: ListShape) -> Request:
    since = shape.status_timestamp_after
    query = TaskQuery(
        context_id=shape.context_id or "",
        state=wanted_state(shape.status, STATES),
        since=from_timestamp(since, "statusTimestampAfter") if since else None,
        page_size=whole_number(shape.page_size, "pageSize", least=1, most=100) or 50,
        page_token=shape.page_token or "",
    )
    return ListRequest(
        query=query,
        history_length=whole_number(shape.history_length, "historyLength"),
        include_artifacts=bool(shape.include_artifacts),
        tenant=shape.tenant or "",
    )


def _by_task(shape: ByTaskShape) -> Request:
    return TaskRequest(
        id=required(shape.id, "id"), metadata=shape.metadata or {}, tenant=shape.tenant or ""
    )


def _push_create(shape: PushShape) -> Request:
    required(shape.task_id, "taskId")
    return PushCreateRequest(config=push_from(shape, ""), tenant=shape.tenant or "")


def _by_config(shape: ByConfigShape) -> Request:
    required(shape.id, "id")
    return _push_list(shape)


def _push_list(shape: ByConfigShape) -> Request:
    return PushRequest(
        task_id=required(shape.task_id, "taskId"),
        id=shape.id or "",
        page_size=whole_number(shape.page_size, "pageSize") or 0,
        page_token=shape.page_token or "",
        tenant=shape.tenant or "",
    )


def _card(shape: CardShape) -> Request:
    return CardRequest(tenant=shape.tenant or "")


def _reader(kind: type[Any], build: Callable[[Any], Request]) -> "Reader":
    return msgspec.json.Decoder(kind), build


Reader = tuple["msgspec.json.Decoder[Any]", Callable[[Any], Request]]

READERS: Mapping[Operation, Reader] = {
    Operation.SEND: _reader(SendShape, _send),
    Operation.STREAM: _reader(SendShape, _send),
    Operation.GET: _reader(GetShape, _get),
    Operation.LIST: _reader(ListShape, _list),
    Operation.CANCEL: _reader(ByTaskShape, _by_task),
    Operation.SUBSCRIBE: _reader(ByTaskShape, _by_task),
    Operation.PUSH_CREATE: _reader(PushShape, _push_create),
    Operation.PUSH_GET: _reader(ByConfigShape, _by_config),
    Operation.PUSH_LIST: _reader(ByConfigShape, _push_list),
    Operation.PUSH_DELETE: _reader(ByConfigShape, _by_config),
    Operation.EXTENDED_CARD: _reader(CardShape, _card),
}


def request_shape(operation: Operation, request: Request) -> Shape:
    """Return what is asked for, for the wire."""
    tenant = request.tenant or None
    if isinstance(request, SendRequest):
        return _send_shape(request)
    if isinstance(request, GetRequest):
        return GetShape(tenant=tenant, id=request.id, history_length=request.history_length)
    if isinstance(request, ListRequest):
        return _list_shape(request)
    if isinstance(request, TaskRequest):
        told = dict(request.metadata) if operation is Operation.CANCEL else None
        return ByTaskShape(tenant=tenant, id=request.id, metadata=told or None)
    if isinstance(request, PushCreateRequest):
        shape = push_shape(request.config)
        shape.tenant = tenant
        return shape
    if isinstance(request, PushRequest):
        return ByConfigShape(
            tenant=tenant,
            task_id=request.task_id,
            id=request.id or None,
            page_size=request.page_size or None,
            page_token=request.page_token or None,
        )
    return CardShape(tenant=tenant)


def _send_shape(request: SendRequest) -> SendShape:
    how = ConfigurationShape(
        accepted_output_modes=list(request.accepted_output_modes) or None,
        task_push_notification_config=None if request.push is None else push_shape(request.push),
        history_length=request.history_length,
        return_immediately=None if request.wait else True,
    )
    return SendShape(
        tenant=request.tenant or None,
        message=message_shape(request.message),
        configuration=None if how == ConfigurationShape() else how,
        metadata=dict(request.metadata) or None,
    )


def _list_shape(request: ListRequest) -> ListShape:
    query = request.query
    return ListShape(
        tenant=request.tenant or None,
        context_id=query.context_id or None,
        status=None if query.state is None else STATE_NAMES[query.state],
        page_size=query.page_size,
        page_token=query.page_token or None,
        history_length=request.history_length,
        status_timestamp_after=None if query.since is None else to_timestamp(query.since),
        include_artifacts=request.include_artifacts or None,
    )
