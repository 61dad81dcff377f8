"""What is asked for, and configurations and pages, as generation 1.0 writes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.a2a.wire import v1_types as content
from acc.adapters.a2a.wire.card_codec import merged_card, parse_card
from acc.adapters.a2a.wire.json_fields import (
    IntegerField,
    camel_case_fields,
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
from acc.adapters.a2a.wire.v1_types import (
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
    TaskState,
)

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
    page_size: IntegerField = None
    total_size: IntegerField = None


class ConfigurationShape(Shape):
    """How to answer a message."""

    accepted_output_modes: list[str] | None = None
    task_push_notification_config: PushShape | None = None
    history_length: IntegerField = None
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
    history_length: IntegerField = None


class ListShape(Shape):
    """List tasks."""

    tenant: str | None = None
    context_id: str | None = None
    status: str | int | None = None
    page_size: IntegerField = None
    page_token: str | None = None
    history_length: IntegerField = None
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
    page_size: IntegerField = None
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
        url=require_text(shape.url, f"{where}url"),
        token=shape.token or "",
        scheme=auth.scheme or "",
        credentials=auth.credentials or "",
        protocol_version="1.0",
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
        raise field_error("message", "is required")
    how = shape.configuration or ConfigurationShape()
    push = how.task_push_notification_config
    where = "configuration."
    return SendRequest(
        message=message_from(shape.message, "message", strict=True),
        accepted_output_modes=tuple(how.accepted_output_modes or ()),
        history_length=parse_integer(how.history_length, f"{where}historyLength"),
        wait=not how.return_immediately,
        push=None if push is None else push_from(push, f"{where}taskPushNotificationConfig."),
        metadata=shape.metadata or {},
        tenant=shape.tenant or "",
    )


def _get(shape: GetShape) -> Request:
    return GetRequest(
        id=require_text(shape.id, "id"),
        history_length=parse_integer(shape.history_length, "historyLength"),
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
        raise field_error("status", f"is no state of a task; use one of {', '.join(states)}")
    return None if state is TaskState.UNKNOWN else state


def _list(shape: ListShape) -> Request:
    since = shape.status_timestamp_after
    query = TaskQuery(
        context_id=shape.context_id or "",
        state=wanted_state(shape.status, STATES),
        since=parse_timestamp(since, "statusTimestampAfter") if since else None,
        page_size=parse_integer(shape.page_size, "pageSize", least=1, most=100) or 50,
        page_token=shape.page_token or "",
    )
    return ListRequest(
        query=query,
        history_length=parse_integer(shape.history_length, "historyLength"),
        include_artifacts=bool(shape.include_artifacts),
        tenant=shape.tenant or "",
    )


def _by_task(shape: ByTaskShape) -> Request:
    return TaskRequest(
        id=require_text(shape.id, "id"), metadata=shape.metadata or {}, tenant=shape.tenant or ""
    )


def _push_create(shape: PushShape) -> Request:
    require_text(shape.task_id, "taskId")
    return PushCreateRequest(config=push_from(shape, ""), tenant=shape.tenant or "")


def _by_config(shape: ByConfigShape) -> Request:
    require_text(shape.id, "id")
    return _push_list(shape)


def _push_list(shape: ByConfigShape) -> Request:
    return PushRequest(
        task_id=require_text(shape.task_id, "taskId"),
        id=shape.id or "",
        page_size=parse_integer(shape.page_size, "pageSize") or 0,
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
        status_timestamp_after=None if query.since is None else format_timestamp(query.since),
        include_artifacts=request.include_artifacts or None,
    )


_task = msgspec.json.Decoder(content.TaskShape)
_streamed = msgspec.json.Decoder(content.StreamShape)
_page = msgspec.json.Decoder(PageShape)
_push = msgspec.json.Decoder(PushShape)
_push_page = msgspec.json.Decoder(PushPageShape)
_NAMES = {
    Operation.SEND: "SendMessage",
    Operation.STREAM: "SendStreamingMessage",
    Operation.GET: "GetTask",
    Operation.LIST: "ListTasks",
    Operation.CANCEL: "CancelTask",
    Operation.SUBSCRIBE: "SubscribeToTask",
    Operation.PUSH_CREATE: "CreateTaskPushNotificationConfig",
    Operation.PUSH_GET: "GetTaskPushNotificationConfig",
    Operation.PUSH_LIST: "ListTaskPushNotificationConfigs",
    Operation.PUSH_DELETE: "DeleteTaskPushNotificationConfig",
    Operation.EXTENDED_CARD: "GetExtendedAgentCard",
}


class WireV1:
    """Reads and writes generation 1.0."""

    version = "1.0"
    method_names: Mapping[Operation, str] = _NAMES
    methods: Mapping[str, Operation] = {name: operation for operation, name in _NAMES.items()}

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Return what the params of a call, or the body of a POST, ask for."""
        decoder, build = READERS[operation]
        shape = decode(decoder, camel_case_fields(params) or b"{}", "params")
        for name, value in path.items():
            setattr(shape, name, value)
        return build(shape)

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
        if isinstance(result, Message):
            return encode(content.StreamShape(message=content.message_shape(result)))
        return encode(content.StreamShape(task=content.task_shape(result)))

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Return an item of a stream as JSON."""
        if isinstance(item, StatusUpdate):
            moved = content.StatusUpdateShape(
                task_id=task_id,
                context_id=context_id,
                status=content.status_shape(item.status),
                metadata=dict(item.metadata) or None,
            )
            return encode(content.StreamShape(status_update=moved))
        if isinstance(item, ArtifactUpdate):
            made = content.ArtifactUpdateShape(
                task_id=task_id,
                context_id=context_id,
                artifact=content.artifact_shape(item.artifact),
                append=item.append or None,
                last_chunk=item.last_chunk or None,
                metadata=dict(item.metadata) or None,
            )
            return encode(content.StreamShape(artifact_update=made))
        return self.write_send_result(item)

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        shape = PageShape(
            tasks=[listed_shape(task, include_artifacts) for task in page.tasks],
            next_page_token=page.next_page_token,
            page_size=page_size,
            total_size=page.total,
        )
        return encode(shape)

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        return encode(push_shape(config))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON."""
        shape = PushPageShape(
            configs=[push_shape(config) for config in configs],
            next_page_token=next_page_token or None,
        )
        return encode(shape)

    def write_empty(self) -> bytes:
        """Return that there is nothing to say."""
        return b"{}"

    def write_card(self, card: AgentCard) -> bytes:
        """Return a card as JSON, with what a client of the other generation needs."""
        return encode(merged_card(card))

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the params of a call, or the body of a POST, as JSON."""
        return encode(request_shape(operation, request))

    @remote_response
    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        return content.task_from(decode(_task, data, "task"))

    @remote_response
    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        shape = decode(_streamed, data, "result")
        if shape.task is not None:
            return content.task_from(shape.task, "task.")
        if shape.message is not None:
            return content.message_from(shape.message, "message")
        raise field_error("result", "must hold a task or a message")

    @remote_response
    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Return an item that a server streamed."""
        shape = decode(_streamed, data, "item")
        if shape.status_update is not None:
            moved = shape.status_update
            update: StreamPayload = content.status_update_from(moved, "statusUpdate")
            return StreamResponse(moved.task_id or "", moved.context_id or "", update)
        if shape.artifact_update is not None:
            made = shape.artifact_update
            update = content.artifact_update_from(made, "artifactUpdate")
            return StreamResponse(made.task_id or "", made.context_id or "", update)
        if shape.task is not None:
            task = content.task_from(shape.task, "task.")
            return StreamResponse(task.id, task.context_id, task)
        if shape.message is not None:
            message = content.message_from(shape.message, "message")
            return StreamResponse(message.task_id, message.context_id, message)
        raise field_error("item", "must hold a task, message, statusUpdate or artifactUpdate")

    @remote_response
    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        shape = decode(_page, data, "page")
        tasks = tuple(
            content.task_from(task, f"tasks[{index}].")
            for index, task in enumerate(shape.tasks or ())
        )
        total = parse_integer(shape.total_size, "totalSize")
        return TaskPage(
            tasks=tasks,
            next_page_token=shape.next_page_token or "",
            total=len(tasks) if total is None else total,
        )

    @remote_response
    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        return push_from(decode(_push, data, "config"), "")

    @remote_response
    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        shape = decode(_push_page, data, "configs")
        configs = tuple(
            push_from(config, f"configs[{index}].")
            for index, config in enumerate(shape.configs or ())
        )
        return PushPage(configs, shape.next_page_token or "")

    @remote_response
    def read_card(self, data: bytes) -> AgentCard:
        """Return the card that a server answered with."""
        return parse_card(data)


WIRE_V1 = WireV1()
