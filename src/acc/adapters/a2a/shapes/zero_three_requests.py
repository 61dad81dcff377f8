"""What is asked for, and configurations and pages, as generation 0.3 writes them."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.codec.wire import Operation
from acc.adapters.a2a.shapes.one_content import STATES as ONE_STATES
from acc.adapters.a2a.shapes.one_content import Shape
from acc.adapters.a2a.shapes.one_requests import CardShape, ListShape, wanted_state
from acc.adapters.a2a.shapes.reading import (
    Whole,
    fault,
    from_timestamp,
    required,
    to_timestamp,
    whole_number,
)
from acc.adapters.a2a.shapes.zero_three_content import (
    STATES,
    ItemShape,
    MessageShape,
    artifact_shape,
    message_from,
    message_shape,
    task_shape,
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
from acc.domain.value_objects.task import PushConfig, Task, TaskQuery

#: The end of the year 9999, after which times have no name.
_LAST_MILLISECOND = 253_402_300_799_999
_MILLISECONDS = re.compile(r"-?[0-9]{1,20}")
_LISTED_STATES = {**STATES, **ONE_STATES}


class AuthenticationShape(Shape):
    """How to authenticate to who is notified."""

    schemes: list[str] | None = None
    credentials: str | None = None


class ConfigShape(Shape):
    """Where to notify."""

    id: str | None = None
    url: str | None = None
    token: str | None = None
    authentication: AuthenticationShape | None = None


class PushShape(Shape):
    """A push configuration of a task."""

    tenant: str | None = None
    task_id: str | None = None
    push_notification_config: ConfigShape | None = None


class PageShape(Shape):
    """A page of tasks."""

    tasks: list[ItemShape] | None = None
    next_page_token: str | None = None
    page_size: Whole = None
    total_size: Whole = None


class ConfigurationShape(Shape):
    """How to answer a message."""

    accepted_output_modes: list[str] | None = None
    push_notification_config: ConfigShape | None = None
    history_length: Whole = None
    blocking: bool | None = None


class SendShape(Shape):
    """Send a message."""

    tenant: str | None = None
    message: MessageShape | None = None
    configuration: ConfigurationShape | None = None
    metadata: dict[str, Any] | None = None


class ByTaskShape(Shape):
    """Get or cancel a task, or subscribe to it."""

    tenant: str | None = None
    id: str | None = None
    history_length: Whole = None
    metadata: dict[str, Any] | None = None


class ByConfigShape(Shape):
    """Get, list or delete push configurations; `id` is the task's."""

    tenant: str | None = None
    id: str | None = None
    push_notification_config_id: str | None = None


class OldListShape(ListShape):
    """List tasks; the time has had two names."""

    last_updated_after: str | int | None = None


def config_from(shape: ConfigShape, task_id: str, where: str) -> PushConfig:
    """Return a push configuration; of several schemes the first is taken."""
    auth = shape.authentication or AuthenticationShape()
    return PushConfig(
        id=shape.id or "",
        task_id=task_id,
        url=required(shape.url, f"{where}url"),
        token=shape.token or "",
        scheme=auth.schemes[0] if auth.schemes else "",
        credentials=auth.credentials or "",
        generation="0.3",
    )


def config_shape(config: PushConfig) -> ConfigShape:
    """Return where to notify, for the wire."""
    auth = None
    if config.scheme or config.credentials:
        auth = AuthenticationShape(
            schemes=[config.scheme] if config.scheme else [],
            credentials=config.credentials or None,
        )
    return ConfigShape(
        id=config.id or None, url=config.url, token=config.token or None, authentication=auth
    )


def push_from(shape: PushShape, where: str) -> PushConfig:
    """Return a task's push configuration; `where` is the path to it, with a dot at its end."""
    if shape.push_notification_config is None:
        raise fault(f"{where}pushNotificationConfig", "is required")
    return config_from(
        shape.push_notification_config, shape.task_id or "", f"{where}pushNotificationConfig."
    )


def push_shape(config: PushConfig) -> PushShape:
    """Return a task's push configuration for the wire."""
    return PushShape(task_id=config.task_id, push_notification_config=config_shape(config))


def listed_shape(task: Task, include_artifacts: bool) -> ItemShape:
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
    push = how.push_notification_config
    where = "configuration."
    return SendRequest(
        message=message_from(shape.message, "message.", strict=True),
        accepted_output_modes=tuple(how.accepted_output_modes or ()),
        history_length=whole_number(how.history_length, f"{where}historyLength"),
        wait=how.blocking is not False,
        push=None if push is None else config_from(push, "", f"{where}pushNotificationConfig."),
        metadata=shape.metadata or {},
        tenant=shape.tenant or "",
    )


def _get(shape: ByTaskShape) -> Request:
    return GetRequest(
        id=required(shape.id, "id"),
        history_length=whole_number(shape.history_length, "historyLength"),
        tenant=shape.tenant or "",
    )


def _list(shape: OldListShape) -> Request:
    query = TaskQuery(
        context_id=shape.context_id or "",
        state=wanted_state(shape.status, _LISTED_STATES),
        since=_since(shape),
        page_size=whole_number(shape.page_size, "pageSize", least=1, most=100) or 50,
        page_token=shape.page_token or "",
    )
    return ListRequest(
        query=query,
        history_length=whole_number(shape.history_length, "historyLength"),
        include_artifacts=bool(shape.include_artifacts),
        tenant=shape.tenant or "",
    )


def _since(shape: OldListShape) -> float | None:
    if shape.status_timestamp_after:
        return from_timestamp(shape.status_timestamp_after, "statusTimestampAfter")
    told = shape.last_updated_after
    if isinstance(told, str) and _MILLISECONDS.fullmatch(told):
        told = int(told)  # a query holds numbers as text
    if isinstance(told, int):
        if abs(told) > _LAST_MILLISECOND:
            raise fault(
                "lastUpdatedAfter", "is too far from now; milliseconds since 1970 are meant"
            )
        return told / 1000
    return from_timestamp(told, "lastUpdatedAfter") if told else None


def _by_task(shape: ByTaskShape) -> Request:
    return TaskRequest(
        id=required(shape.id, "id"), metadata=shape.metadata or {}, tenant=shape.tenant or ""
    )


def _push_create(shape: PushShape) -> Request:
    required(shape.task_id, "taskId")
    return PushCreateRequest(config=push_from(shape, ""), tenant=shape.tenant or "")


def _by_config(shape: ByConfigShape) -> Request:
    return PushRequest(
        task_id=required(shape.id, "id"),
        id=shape.push_notification_config_id or "",
        tenant=shape.tenant or "",
    )


def _push_delete(shape: ByConfigShape) -> Request:
    required(shape.push_notification_config_id, "pushNotificationConfigId")
    return _by_config(shape)


def _card(shape: CardShape) -> Request:
    return CardRequest(tenant=shape.tenant or "")


class Reader(NamedTuple):
    """How a request is read: its shape, what becomes of it, and where names in a path belong."""

    shape: type[Any]
    decoder: "msgspec.json.Decoder[Any]"
    build: Callable[[Any], Request]
    path: Mapping[str, str]


_CONFIG_PATH = {"task_id": "id", "id": "push_notification_config_id", "tenant": "tenant"}


def _reader(
    shape: type[Any], build: Callable[[Any], Request], path: Mapping[str, str] | None = None
) -> Reader:
    return Reader(shape, msgspec.json.Decoder(shape), build, path or {})


READERS: Mapping[Operation, Reader] = {
    Operation.SEND: _reader(SendShape, _send),
    Operation.STREAM: _reader(SendShape, _send),
    Operation.GET: _reader(ByTaskShape, _get),
    Operation.LIST: _reader(OldListShape, _list),
    Operation.CANCEL: _reader(ByTaskShape, _by_task),
    Operation.SUBSCRIBE: _reader(ByTaskShape, _by_task),
    Operation.PUSH_CREATE: _reader(PushShape, _push_create),
    Operation.PUSH_GET: _reader(ByConfigShape, _by_config, _CONFIG_PATH),
    Operation.PUSH_LIST: _reader(ByConfigShape, _by_config, _CONFIG_PATH),
    Operation.PUSH_DELETE: _reader(ByConfigShape, _push_delete, _CONFIG_PATH),
    Operation.EXTENDED_CARD: _reader(CardShape, _card),
}


def request_shape(operation: Operation, request: Request) -> Shape:
    """Return what is asked for, for the wire."""
    tenant = request.tenant or None
    if isinstance(request, SendRequest):
        return _send_shape(request)
    if isinstance(request, GetRequest):
        return ByTaskShape(tenant=tenant, id=request.id, history_length=request.history_length)
    if isinstance(request, ListRequest):
        return _list_shape(request)
    if isinstance(request, TaskRequest):
        return ByTaskShape(tenant=tenant, id=request.id, metadata=dict(request.metadata) or None)
    if isinstance(request, PushCreateRequest):
        shape = push_shape(request.config)
        shape.tenant = tenant
        return shape
    if isinstance(request, PushRequest):
        config_id = None if operation is Operation.PUSH_LIST else request.id or None
        return ByConfigShape(
            tenant=tenant, id=request.task_id, push_notification_config_id=config_id
        )
    return CardShape(tenant=tenant)


def _send_shape(request: SendRequest) -> SendShape:
    how = ConfigurationShape(
        accepted_output_modes=list(request.accepted_output_modes) or None,
        push_notification_config=None if request.push is None else config_shape(request.push),
        history_length=request.history_length,
        blocking=request.wait,
    )
    return SendShape(
        tenant=request.tenant or None,
        message=message_shape(request.message),
        configuration=how,
        metadata=dict(request.metadata) or None,
    )


def _list_shape(request: ListRequest) -> ListShape:
    query = request.query
    return ListShape(
        tenant=request.tenant or None,
        context_id=query.context_id or None,
        status=None if query.state is None else query.state.value,
        page_size=query.page_size,
        page_token=query.page_token or None,
        history_length=request.history_length,
        status_timestamp_after=None if query.since is None else to_timestamp(query.since),
        include_artifacts=request.include_artifacts or None,
    )
