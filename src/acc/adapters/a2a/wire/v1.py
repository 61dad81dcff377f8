"""Protocol version 1.0: requests, responses and their methods."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.wire import v1_types as types
from acc.adapters.a2a.wire.card_codec import merged_card, parse_card
from acc.adapters.a2a.wire.json_fields import (
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
    WireAuthenticationInfo,
    WireCardRequest,
    WireGetTaskRequest,
    WireListTaskPushNotificationConfigsResponse,
    WireListTasksRequest,
    WireListTasksResponse,
    WirePushRequest,
    WireSendMessageConfiguration,
    WireSendMessageRequest,
    WireSendMessageResponse,
    WireStreamResponse,
    WireStruct,
    WireTask,
    WireTaskPushNotificationConfig,
    WireTaskRequest,
    from_wire_message,
    to_wire_message,
    to_wire_task,
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

PROTOCOL_V1 = "1.0"
MAX_PAGE_SIZE = 100
DEFAULT_PAGE_SIZE = 50
_MAX_STATE_DIGITS = 9
_METHOD_NAMES = {
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
_task_decoder = msgspec.json.Decoder(WireTask)
_stream_decoder = msgspec.json.Decoder(WireStreamResponse)
_page_decoder = msgspec.json.Decoder(WireListTasksResponse)
_push_decoder = msgspec.json.Decoder(WireTaskPushNotificationConfig)
_push_page_decoder = msgspec.json.Decoder(WireListTaskPushNotificationConfigsResponse)


class WireV1:
    """Encode and decode protocol version 1.0."""

    version = PROTOCOL_V1
    method_names: Mapping[Operation, str] = _METHOD_NAMES
    methods: Mapping[str, Operation] = {name: item for item, name in _METHOD_NAMES.items()}

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Decode the params of a JSON-RPC request or the body of a POST."""
        reader = _READERS[operation]
        request = decode(reader.decoder, camel_case_fields(params) or b"{}", "params")
        return reader.build(msgspec.structs.replace(request, **path) if path else request)

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Decode the path and query of a GET or DELETE."""
        return self.read_request(operation, query_to_params(query), path)

    def write_task(self, task: Task) -> bytes:
        """Encode a task."""
        return encode(to_wire_task(task))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Encode the result of SendMessage."""
        if isinstance(result, Message):
            return encode(WireSendMessageResponse(message=to_wire_message(result)))
        return encode(WireSendMessageResponse(task=to_wire_task(result)))

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Encode an item of a stream."""
        if isinstance(item, StatusUpdate):
            status_update = types.WireTaskStatusUpdateEvent(
                task_id=task_id,
                context_id=context_id,
                status=types.to_wire_status(item.status),
                metadata=dict(item.metadata) or None,
            )
            return encode(WireStreamResponse(status_update=status_update))
        if isinstance(item, ArtifactUpdate):
            artifact_update = types.WireTaskArtifactUpdateEvent(
                task_id=task_id,
                context_id=context_id,
                artifact=types.to_wire_artifact(item.artifact),
                append=item.append or None,
                last_chunk=item.last_chunk or None,
                metadata=dict(item.metadata) or None,
            )
            return encode(WireStreamResponse(artifact_update=artifact_update))
        return self.write_send_result(item)

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Encode a page of tasks."""
        response = WireListTasksResponse(
            tasks=[_to_listed_task(task, include_artifacts) for task in page.tasks],
            next_page_token=page.next_page_token,
            page_size=page_size,
            total_size=page.total,
        )
        return encode(response)

    def write_push(self, config: PushConfig) -> bytes:
        """Encode a push configuration."""
        return encode(_to_wire_push(config))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Encode a page of push configurations."""
        response = WireListTaskPushNotificationConfigsResponse(
            configs=[_to_wire_push(config) for config in configs],
            next_page_token=next_page_token or None,
        )
        return encode(response)

    def write_empty(self) -> bytes:
        """Encode an empty result."""
        return b"{}"

    def write_card(self, card: AgentCard) -> bytes:
        """Encode a card that clients of both protocol versions can read."""
        return encode(merged_card(card))

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Encode the params of a JSON-RPC request or the body of a POST."""
        return encode(_to_wire_request(operation, request))

    @remote_response
    def read_task(self, data: bytes) -> Task:
        """Decode a task."""
        return types.from_wire_task(decode(_task_decoder, data, "task"))

    @remote_response
    def read_send_result(self, data: bytes) -> Task | Message:
        """Decode the result of SendMessage."""
        response = decode(_stream_decoder, data, "result")
        if response.task is not None:
            return types.from_wire_task(response.task, "task.")
        if response.message is not None:
            return from_wire_message(response.message, "message")
        raise field_error("result", "must contain a task or a message")

    @remote_response
    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Decode an item of a stream."""
        response = decode(_stream_decoder, data, "item")
        if (event := response.status_update) is not None:
            update: StreamPayload = types.from_wire_status_update(event, "statusUpdate")
            return StreamResponse(event.task_id or "", event.context_id or "", update)
        if (chunk := response.artifact_update) is not None:
            update = types.from_wire_artifact_update(chunk, "artifactUpdate")
            return StreamResponse(chunk.task_id or "", chunk.context_id or "", update)
        if response.task is not None:
            task = types.from_wire_task(response.task, "task.")
            return StreamResponse(task.id, task.context_id, task)
        if response.message is not None:
            message = from_wire_message(response.message, "message")
            return StreamResponse(message.task_id, message.context_id, message)
        raise field_error("item", "must contain a task, message, statusUpdate or artifactUpdate")

    @remote_response
    def read_page(self, data: bytes) -> TaskPage:
        """Decode a page of tasks."""
        response = decode(_page_decoder, data, "page")
        tasks = tuple(
            types.from_wire_task(task, f"tasks[{index}].")
            for index, task in enumerate(response.tasks or ())
        )
        total = parse_integer(response.total_size, "totalSize")
        return TaskPage(
            tasks=tasks,
            next_page_token=response.next_page_token or "",
            total=len(tasks) if total is None else total,
        )

    @remote_response
    def read_push(self, data: bytes) -> PushConfig:
        """Decode a push configuration."""
        return _from_wire_push(decode(_push_decoder, data, "config"), "")

    @remote_response
    def read_push_list(self, data: bytes) -> PushPage:
        """Decode a page of push configurations."""
        response = decode(_push_page_decoder, data, "configs")
        configs = tuple(
            _from_wire_push(config, f"configs[{index}].")
            for index, config in enumerate(response.configs or ())
        )
        return PushPage(configs, response.next_page_token or "")

    @remote_response
    def read_card(self, data: bytes) -> AgentCard:
        """Decode an extended card."""
        return parse_card(data)


WIRE_V1 = WireV1()


def _from_wire_push(config: WireTaskPushNotificationConfig, where: str) -> PushConfig:
    """Return a push configuration; `where` is the path of the field with a trailing dot."""
    authentication = config.authentication or WireAuthenticationInfo()
    return PushConfig(
        id=config.id or "",
        task_id=config.task_id or "",
        url=require_text(config.url, f"{where}url"),
        token=config.token or "",
        scheme=authentication.scheme or "",
        credentials=authentication.credentials or "",
        protocol_version=PROTOCOL_V1,
    )


def _to_wire_push(config: PushConfig) -> WireTaskPushNotificationConfig:
    authentication = None
    if config.scheme or config.credentials:
        authentication = WireAuthenticationInfo(
            scheme=config.scheme or None, credentials=config.credentials or None
        )
    return WireTaskPushNotificationConfig(
        id=config.id or None,
        task_id=config.task_id or None,
        url=config.url,
        token=config.token or None,
        authentication=authentication,
    )


def _to_listed_task(task: Task, include_artifacts: bool) -> WireTask:
    """Return a task of a page; included artifacts are written even if there are none."""
    wire_task = to_wire_task(task)
    wire_task.artifacts = (
        [types.to_wire_artifact(artifact) for artifact in task.artifacts]
        if include_artifacts
        else None
    )
    return wire_task


# Requests: from the wire


def _build_send(request: WireSendMessageRequest) -> Request:
    if request.message is None:
        raise field_error("message", "is required")
    options = request.configuration or WireSendMessageConfiguration()
    push = options.task_push_notification_config
    where = "configuration."
    return SendRequest(
        message=from_wire_message(request.message, "message", strict=True),
        accepted_output_modes=tuple(options.accepted_output_modes or ()),
        history_length=parse_integer(options.history_length, f"{where}historyLength"),
        wait=not options.return_immediately,
        push=None if push is None else _from_wire_push(push, f"{where}taskPushNotificationConfig."),
        metadata=request.metadata or {},
        tenant=request.tenant or "",
    )


def _build_get(request: WireGetTaskRequest) -> Request:
    return GetRequest(
        id=require_text(request.id, "id"),
        history_length=parse_integer(request.history_length, "historyLength"),
        tenant=request.tenant or "",
    )


def _build_list(request: WireListTasksRequest) -> Request:
    since = request.status_timestamp_after
    return build_list_request(
        request,
        state=parse_state(request.status, STATES),
        since=parse_timestamp(since, "statusTimestampAfter") if since else None,
    )


def build_list_request(
    request: WireListTasksRequest, *, state: TaskState | None, since: float | None
) -> ListRequest:
    """Return a list request from the fields that both protocol versions share."""
    page_size = parse_integer(request.page_size, "pageSize", minimum=1, maximum=MAX_PAGE_SIZE)
    query = TaskQuery(
        context_id=request.context_id or "",
        state=state,
        since=since,
        page_size=page_size or DEFAULT_PAGE_SIZE,
        page_token=request.page_token or "",
    )
    return ListRequest(
        query=query,
        history_length=parse_integer(request.history_length, "historyLength"),
        include_artifacts=bool(request.include_artifacts),
        tenant=request.tenant or "",
    )


def parse_state(value: str | int | None, states: Mapping[str, TaskState]) -> TaskState | None:
    """Return the state to filter by; UNSPECIFIED means no filter.

    A state may be given by its number, which a query string contains as text.
    """
    if not value:
        return None
    text = str(value)
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_STATE_DIGITS
    state = NUMBERED_STATES.get(int(text)) if is_number else states.get(text)
    if state is None:
        raise field_error("status", f"is not a task state; use one of {', '.join(states)}")
    return None if state is TaskState.UNKNOWN else state


def _build_task(request: WireTaskRequest) -> Request:
    return TaskRequest(
        id=require_text(request.id, "id"),
        metadata=request.metadata or {},
        tenant=request.tenant or "",
    )


def _build_push_create(request: WireTaskPushNotificationConfig) -> Request:
    require_text(request.task_id, "taskId")
    return PushCreateRequest(config=_from_wire_push(request, ""), tenant=request.tenant or "")


def _build_push(request: WirePushRequest) -> Request:
    require_text(request.id, "id")
    return _build_push_list(request)


def _build_push_list(request: WirePushRequest) -> Request:
    return PushRequest(
        task_id=require_text(request.task_id, "taskId"),
        id=request.id or "",
        page_size=parse_integer(request.page_size, "pageSize") or 0,
        page_token=request.page_token or "",
        tenant=request.tenant or "",
    )


def _build_card(request: WireCardRequest) -> Request:
    return CardRequest(tenant=request.tenant or "")


class _Reader(NamedTuple):
    decoder: "msgspec.json.Decoder[Any]"
    build: Callable[[Any], Request]


_SEND = _Reader(msgspec.json.Decoder(WireSendMessageRequest), _build_send)
_TASK = _Reader(msgspec.json.Decoder(WireTaskRequest), _build_task)
_PUSH = _Reader(msgspec.json.Decoder(WirePushRequest), _build_push)
_READERS: Mapping[Operation, _Reader] = {
    Operation.SEND: _SEND,
    Operation.STREAM: _SEND,
    Operation.GET: _Reader(msgspec.json.Decoder(WireGetTaskRequest), _build_get),
    Operation.LIST: _Reader(msgspec.json.Decoder(WireListTasksRequest), _build_list),
    Operation.CANCEL: _TASK,
    Operation.SUBSCRIBE: _TASK,
    Operation.PUSH_CREATE: _Reader(_push_decoder, _build_push_create),
    Operation.PUSH_GET: _PUSH,
    Operation.PUSH_LIST: _PUSH._replace(build=_build_push_list),
    Operation.PUSH_DELETE: _PUSH,
    Operation.EXTENDED_CARD: _Reader(msgspec.json.Decoder(WireCardRequest), _build_card),
}


# Requests: to the wire


def _to_wire_request(operation: Operation, request: Request) -> WireStruct:
    tenant = request.tenant or None
    match request:
        case SendRequest():
            return _to_wire_send(request)
        case GetRequest():
            return WireGetTaskRequest(
                tenant=tenant, id=request.id, history_length=request.history_length
            )
        case ListRequest():
            state = request.query.state
            return to_wire_list(request, None if state is None else STATE_NAMES[state])
        case TaskRequest():
            metadata = dict(request.metadata) if operation is Operation.CANCEL else None
            return WireTaskRequest(tenant=tenant, id=request.id, metadata=metadata or None)
        case PushCreateRequest():
            config = _to_wire_push(request.config)
            config.tenant = tenant
            return config
        case PushRequest():
            return WirePushRequest(
                tenant=tenant,
                task_id=request.task_id,
                id=request.id or None,
                page_size=request.page_size or None,
                page_token=request.page_token or None,
            )
    return WireCardRequest(tenant=tenant)


def _to_wire_send(request: SendRequest) -> WireSendMessageRequest:
    options = WireSendMessageConfiguration(
        accepted_output_modes=list(request.accepted_output_modes) or None,
        task_push_notification_config=None if request.push is None else _to_wire_push(request.push),
        history_length=request.history_length,
        return_immediately=None if request.wait else True,
    )
    return WireSendMessageRequest(
        tenant=request.tenant or None,
        message=to_wire_message(request.message),
        configuration=None if options == WireSendMessageConfiguration() else options,
        metadata=dict(request.metadata) or None,
    )


def to_wire_list(request: ListRequest, state_name: str | None) -> WireListTasksRequest:
    """Return a list request for the wire, with the state as the protocol version names it."""
    query = request.query
    return WireListTasksRequest(
        tenant=request.tenant or None,
        context_id=query.context_id or None,
        status=state_name,
        page_size=query.page_size,
        page_token=query.page_token or None,
        history_length=request.history_length,
        status_timestamp_after=None if query.since is None else format_timestamp(query.since),
        include_artifacts=request.include_artifacts or None,
    )
