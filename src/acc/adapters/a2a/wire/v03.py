"""What is asked for, and configurations and pages, as generation 0.3 writes them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.wire import v03_types as content
from acc.adapters.a2a.wire.card_codec import merged_card, parse_card
from acc.adapters.a2a.wire.json_fields import (
    IntegerField,
    decode,
    encode,
    field_error,
    format_timestamp,
    parse_integer,
    parse_timestamp,
    remote_response,
    require_text,
)
from acc.adapters.a2a.wire.protocol import (
    NO_PATH,
    Operation,
    StreamPayload,
    StreamResponse,
    query_to_params,
)
from acc.adapters.a2a.wire.v03_types import (
    STATES,
    ItemShape,
    MessageShape,
    artifact_shape,
    message_from,
    message_shape,
    task_shape,
)
from acc.adapters.a2a.wire.v1 import CardShape, ListShape, wanted_state
from acc.adapters.a2a.wire.v1_types import STATES as ONE_STATES
from acc.adapters.a2a.wire.v1_types import Shape
from acc.application.a2a.requests import (
    CardRequest,
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    Request,
    SendRequest,
    TaskRequest,
)
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    PushPage,
    StatusUpdate,
    Task,
    TaskPage,
    TaskQuery,
)

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
    page_size: IntegerField = None
    total_size: IntegerField = None


class ConfigurationShape(Shape):
    """How to answer a message."""

    accepted_output_modes: list[str] | None = None
    push_notification_config: ConfigShape | None = None
    history_length: IntegerField = None
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
    history_length: IntegerField = None
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
        url=require_text(shape.url, f"{where}url"),
        token=shape.token or "",
        scheme=auth.schemes[0] if auth.schemes else "",
        credentials=auth.credentials or "",
        protocol_version="0.3",
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
        raise field_error(f"{where}pushNotificationConfig", "is required")
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
        raise field_error("message", "is required")
    how = shape.configuration or ConfigurationShape()
    push = how.push_notification_config
    where = "configuration."
    return SendRequest(
        message=message_from(shape.message, "message.", strict=True),
        accepted_output_modes=tuple(how.accepted_output_modes or ()),
        history_length=parse_integer(how.history_length, f"{where}historyLength"),
        wait=how.blocking is not False,
        push=None if push is None else config_from(push, "", f"{where}pushNotificationConfig."),
        metadata=shape.metadata or {},
        tenant=shape.tenant or "",
    )


def _get(shape: ByTaskShape) -> Request:
    return GetRequest(
        id=require_text(shape.id, "id"),
        history_length=parse_integer(shape.history_length, "historyLength"),
        tenant=shape.tenant or "",
    )


def _list(shape: OldListShape) -> Request:
    query = TaskQuery(
        context_id=shape.context_id or "",
        state=wanted_state(shape.status, _LISTED_STATES),
        since=_since(shape),
        page_size=parse_integer(shape.page_size, "pageSize", least=1, most=100) or 50,
        page_token=shape.page_token or "",
    )
    return ListRequest(
        query=query,
        history_length=parse_integer(shape.history_length, "historyLength"),
        include_artifacts=bool(shape.include_artifacts),
        tenant=shape.tenant or "",
    )


def _since(shape: OldListShape) -> float | None:
    if shape.status_timestamp_after:
        return parse_timestamp(shape.status_timestamp_after, "statusTimestampAfter")
    told = shape.last_updated_after
    if isinstance(told, str) and _MILLISECONDS.fullmatch(told):
        told = int(told)  # a query holds numbers as text
    if isinstance(told, int):
        if abs(told) > _LAST_MILLISECOND:
            raise field_error(
                "lastUpdatedAfter", "is too far from now; milliseconds since 1970 are meant"
            )
        return told / 1000
    return parse_timestamp(told, "lastUpdatedAfter") if told else None


def _by_task(shape: ByTaskShape) -> Request:
    return TaskRequest(
        id=require_text(shape.id, "id"), metadata=shape.metadata or {}, tenant=shape.tenant or ""
    )


def _push_create(shape: PushShape) -> Request:
    require_text(shape.task_id, "taskId")
    return PushCreateRequest(config=push_from(shape, ""), tenant=shape.tenant or "")


def _by_config(shape: ByConfigShape) -> Request:
    return PushRequest(
        task_id=require_text(shape.id, "id"),
        id=shape.push_notification_config_id or "",
        tenant=shape.tenant or "",
    )


def _push_delete(shape: ByConfigShape) -> Request:
    require_text(shape.push_notification_config_id, "pushNotificationConfigId")
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
        status_timestamp_after=None if query.since is None else format_timestamp(query.since),
        include_artifacts=request.include_artifacts or None,
    )


_item = msgspec.json.Decoder(content.ItemShape)
_page = msgspec.json.Decoder(PageShape)
_push = msgspec.json.Decoder(PushShape)
_push_list: "msgspec.json.Decoder[list[PushShape] | None]" = msgspec.json.Decoder(
    list[PushShape] | None
)
_NAMES = {
    Operation.SEND: "message/send",
    Operation.STREAM: "message/stream",
    Operation.GET: "tasks/get",
    Operation.LIST: "tasks/list",
    Operation.CANCEL: "tasks/cancel",
    Operation.SUBSCRIBE: "tasks/resubscribe",
    Operation.PUSH_CREATE: "tasks/pushNotificationConfig/set",
    Operation.PUSH_GET: "tasks/pushNotificationConfig/get",
    Operation.PUSH_LIST: "tasks/pushNotificationConfig/list",
    Operation.PUSH_DELETE: "tasks/pushNotificationConfig/delete",
    Operation.EXTENDED_CARD: "agent/getAuthenticatedExtendedCard",
}


def item_shape(task_id: str, context_id: str, item: StreamPayload) -> msgspec.Struct:
    """Return an item of a stream for the wire."""
    if isinstance(item, StatusUpdate | ArtifactUpdate):
        return content.update_shape(task_id, context_id, item)
    if isinstance(item, Message):
        return content.message_shape(item)
    return content.task_shape(item)


def streamed_from(shape: content.ItemShape) -> StreamResponse:
    """Return an item that a server streamed."""
    kind = shape.inferred_kind
    metadata = shape.metadata or {}
    if kind == "task":
        task = content.task_from(shape)
        return StreamResponse(task.id, task.context_id, task)
    if kind == "message":
        message = content.message_from(shape, "")
        return StreamResponse(message.task_id, message.context_id, message)
    task_id, context_id = shape.task_id or "", shape.context_id or ""
    if kind == "status-update":
        status = content.status_from(shape.status, "status")
        return StreamResponse(task_id, context_id, StatusUpdate(status=status, metadata=metadata))
    if kind != "artifact-update":
        raise field_error("kind", "must be task, message, status-update or artifact-update")
    if shape.artifact is None:
        raise field_error("artifact", "is required")
    made = ArtifactUpdate(
        artifact=content.artifact_from(shape.artifact, "artifact"),
        append=bool(shape.append),
        last_chunk=bool(shape.last_chunk),
        metadata=metadata,
    )
    return StreamResponse(task_id, context_id, made)


def page_from(shape: PageShape) -> TaskPage:
    """Return the page of tasks that a server answered with."""
    tasks = tuple(
        content.task_from(task, f"tasks[{index}].") for index, task in enumerate(shape.tasks or ())
    )
    total = parse_integer(shape.total_size, "totalSize")
    return TaskPage(
        tasks=tasks,
        next_page_token=shape.next_page_token or "",
        total=len(tasks) if total is None else total,
    )


def page_shape(page: TaskPage, page_size: int, include_artifacts: bool) -> PageShape:
    """Return a page of tasks for the wire."""
    return PageShape(
        tasks=[listed_shape(task, include_artifacts) for task in page.tasks],
        next_page_token=page.next_page_token,
        page_size=page_size,
        total_size=page.total,
    )


def built(reader: Reader, shape: Any, path: Mapping[str, str]) -> Request:
    """Return what a shape asks for together with the names in a path."""
    for name, value in path.items():
        setattr(shape, reader.path.get(name, name), value)
    return reader.build(shape)


class WireV03:
    """Reads and writes generation 0.3."""

    version = "0.3"
    method_names: Mapping[Operation, str] = _NAMES
    methods: Mapping[str, Operation] = {
        **{name: operation for operation, name in _NAMES.items()},
        "agent/authenticatedExtendedCard": Operation.EXTENDED_CARD,
    }

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Return what the params of a call ask for."""
        reader = READERS[operation]
        return built(reader, decode(reader.decoder, params or b"{}", "params"), path)

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Return what the address of a GET or DELETE asks for."""
        return self.read_request(operation, query_to_params(query), path)

    def write_task(self, task: Task) -> bytes:
        """Return a task as JSON."""
        return encode(content.task_shape(task))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Return what a message led to as JSON."""
        return encode(item_shape("", "", result))

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Return an item of a stream as JSON."""
        return encode(item_shape(task_id, context_id, item))

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        return encode(page_shape(page, page_size, include_artifacts))

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        return encode(push_shape(config))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON; 0.3 knows no pages of them."""
        del next_page_token
        return encode([push_shape(config) for config in configs])

    def write_empty(self) -> bytes:
        """Return that there is nothing to say."""
        return b"null"

    def write_card(self, card: AgentCard) -> bytes:
        """Return a card as JSON, with what a client of the other generation needs."""
        return encode(merged_card(card))

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the params of a call as JSON."""
        return encode(request_shape(operation, request))

    @remote_response
    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        return content.task_from(decode(_item, data, "task"))

    @remote_response
    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        shape = decode(_item, data, "result")
        if shape.inferred_kind == "message":
            return content.message_from(shape, "")
        if shape.kind not in (None, "", "task"):
            raise field_error("kind", "must be task or message")
        return content.task_from(shape)

    @remote_response
    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Return an item that a server streamed."""
        return streamed_from(decode(_item, data, "item"))

    @remote_response
    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        return page_from(decode(_page, data, "page"))

    @remote_response
    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        return push_from(decode(_push, data, "config"), "")

    @remote_response
    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        shapes = decode(_push_list, data, "configs") or ()
        configs = [push_from(held, f"[{index}].") for index, held in enumerate(shapes)]
        return PushPage(tuple(configs), "")

    @remote_response
    def read_card(self, data: bytes) -> AgentCard:
        """Return the card that a server answered with."""
        return parse_card(data)


WIRE_V03 = WireV03()
