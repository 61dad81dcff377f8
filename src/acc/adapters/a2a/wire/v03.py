"""Protocol version 0.3: requests, responses and their methods."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.wire.card_codec import PROTOCOL_V03, merged_card, parse_card
from acc.adapters.a2a.wire.json_fields import (
    IntegerField,
    decode,
    encode,
    field_error,
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
    WireItem,
    WireMessage,
    from_wire_artifact,
    from_wire_message,
    from_wire_status,
    from_wire_task,
    to_wire_artifact,
    to_wire_message,
    to_wire_task,
    to_wire_update,
)
from acc.adapters.a2a.wire.v1 import build_list_request, parse_state, to_wire_list
from acc.adapters.a2a.wire.v1_types import STATES as V1_STATES
from acc.adapters.a2a.wire.v1_types import WireCardRequest, WireListTasksRequest, WireStruct
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
)

#: The end of the year 9999, the last time that can be formatted.
_MAX_MILLISECONDS = 253_402_300_799_999
_MILLISECONDS = re.compile(r"-?[0-9]{1,20}")
_LIST_STATES = {**STATES, **V1_STATES}
_METHOD_NAMES = {
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


class WireAuthentication(WireStruct):
    """How to authenticate to the receiver of notifications."""

    schemes: list[str] | None = None
    credentials: str | None = None


class WirePushConfig(WireStruct):
    """The receiver of notifications."""

    id: str | None = None
    url: str | None = None
    token: str | None = None
    authentication: WireAuthentication | None = None


class WireTaskPushConfig(WireStruct):
    """A push configuration of a task."""

    tenant: str | None = None
    task_id: str | None = None
    push_notification_config: WirePushConfig | None = None


class WireTaskPage(WireStruct):
    """A page of tasks."""

    tasks: list[WireItem] | None = None
    next_page_token: str | None = None
    page_size: IntegerField = None
    total_size: IntegerField = None


class WireSendConfiguration(WireStruct):
    """Options of message/send."""

    accepted_output_modes: list[str] | None = None
    push_notification_config: WirePushConfig | None = None
    history_length: IntegerField = None
    blocking: bool | None = None


class WireSendRequest(WireStruct):
    """The params of message/send and message/stream."""

    tenant: str | None = None
    message: WireMessage | None = None
    configuration: WireSendConfiguration | None = None
    metadata: dict[str, Any] | None = None


class WireTaskRequest(WireStruct):
    """The params of tasks/get, tasks/cancel and tasks/resubscribe."""

    tenant: str | None = None
    id: str | None = None
    history_length: IntegerField = None
    metadata: dict[str, Any] | None = None


class WirePushRequest(WireStruct):
    """The params that get, list or delete push configurations; `id` is the id of the task."""

    tenant: str | None = None
    id: str | None = None
    push_notification_config_id: str | None = None


class WireListRequest(WireListTasksRequest):
    """The params of tasks/list; `lastUpdatedAfter` is an older name of the time filter."""

    last_updated_after: str | int | None = None


_item_decoder = msgspec.json.Decoder(WireItem)
_page_decoder = msgspec.json.Decoder(WireTaskPage)
_push_decoder = msgspec.json.Decoder(WireTaskPushConfig)
_push_list_decoder: "msgspec.json.Decoder[list[WireTaskPushConfig] | None]" = msgspec.json.Decoder(
    list[WireTaskPushConfig] | None
)


class WireV03:
    """Encode and decode protocol version 0.3 over JSON-RPC."""

    version = PROTOCOL_V03
    method_names: Mapping[Operation, str] = _METHOD_NAMES
    methods: Mapping[str, Operation] = {
        **{name: operation for operation, name in _METHOD_NAMES.items()},
        "agent/authenticatedExtendedCard": Operation.EXTENDED_CARD,
    }

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Decode the params of a JSON-RPC request."""
        reader = READERS[operation]
        return reader.build_request(decode(reader.decoder, params or b"{}", "params"), path)

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Decode the path and query of a GET or DELETE."""
        return self.read_request(operation, query_to_params(query), path)

    def write_task(self, task: Task) -> bytes:
        """Encode a task."""
        return encode(to_wire_task(task))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Encode the result of message/send."""
        return encode(to_wire_item("", "", result))

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Encode an item of a stream."""
        return encode(to_wire_item(task_id, context_id, item))

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Encode a page of tasks."""
        return encode(to_wire_page(page, page_size, include_artifacts))

    def write_push(self, config: PushConfig) -> bytes:
        """Encode a push configuration."""
        return encode(to_wire_task_push(config))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Encode push configurations; version 0.3 has no pages of them."""
        del next_page_token
        return encode([to_wire_task_push(config) for config in configs])

    def write_empty(self) -> bytes:
        """Encode an empty result."""
        return b"null"

    def write_card(self, card: AgentCard) -> bytes:
        """Encode a card that clients of both protocol versions can read."""
        return encode(merged_card(card))

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Encode the params of a JSON-RPC request."""
        return encode(to_wire_request(operation, request))

    @remote_response
    def read_task(self, data: bytes) -> Task:
        """Decode a task."""
        return from_wire_task(decode(_item_decoder, data, "task"))

    @remote_response
    def read_send_result(self, data: bytes) -> Task | Message:
        """Decode the result of message/send."""
        item = decode(_item_decoder, data, "result")
        if item.inferred_kind == "message":
            return from_wire_message(item, "")
        if item.kind not in (None, "", "task"):
            raise field_error("kind", "must be task or message")
        return from_wire_task(item)

    @remote_response
    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Decode an item of a stream."""
        return from_wire_item(decode(_item_decoder, data, "item"))

    @remote_response
    def read_page(self, data: bytes) -> TaskPage:
        """Decode a page of tasks."""
        return from_wire_page(decode(_page_decoder, data, "page"))

    @remote_response
    def read_push(self, data: bytes) -> PushConfig:
        """Decode a push configuration."""
        return from_wire_task_push(decode(_push_decoder, data, "config"), "")

    @remote_response
    def read_push_list(self, data: bytes) -> PushPage:
        """Decode push configurations."""
        items = decode(_push_list_decoder, data, "configs") or ()
        configs = [from_wire_task_push(item, f"[{index}].") for index, item in enumerate(items)]
        return PushPage(tuple(configs), "")

    @remote_response
    def read_card(self, data: bytes) -> AgentCard:
        """Decode an extended card."""
        return parse_card(data)


WIRE_V03 = WireV03()


def to_wire_item(task_id: str, context_id: str, item: StreamPayload) -> msgspec.Struct:
    """Return an item of a stream for the wire."""
    if isinstance(item, StatusUpdate | ArtifactUpdate):
        return to_wire_update(task_id, context_id, item)
    return to_wire_message(item) if isinstance(item, Message) else to_wire_task(item)


def from_wire_item(item: WireItem) -> StreamResponse:
    """Return an item of a stream."""
    kind = item.inferred_kind
    metadata = item.metadata or {}
    if kind == "task":
        task = from_wire_task(item)
        return StreamResponse(task.id, task.context_id, task)
    if kind == "message":
        message = from_wire_message(item, "")
        return StreamResponse(message.task_id, message.context_id, message)
    task_id, context_id = item.task_id or "", item.context_id or ""
    if kind == "status-update":
        status = from_wire_status(item.status, "status")
        return StreamResponse(task_id, context_id, StatusUpdate(status=status, metadata=metadata))
    if kind != "artifact-update":
        raise field_error("kind", "must be task, message, status-update or artifact-update")
    if item.artifact is None:
        raise field_error("artifact", "is required")
    update = ArtifactUpdate(
        artifact=from_wire_artifact(item.artifact, "artifact"),
        append=bool(item.append),
        last_chunk=bool(item.last_chunk),
        metadata=metadata,
    )
    return StreamResponse(task_id, context_id, update)


def from_wire_page(page: WireTaskPage) -> TaskPage:
    """Return a page of tasks."""
    tasks = tuple(
        from_wire_task(task, f"tasks[{index}].") for index, task in enumerate(page.tasks or ())
    )
    total = parse_integer(page.total_size, "totalSize")
    return TaskPage(
        tasks=tasks,
        next_page_token=page.next_page_token or "",
        total=len(tasks) if total is None else total,
    )


def to_wire_page(page: TaskPage, page_size: int, include_artifacts: bool) -> WireTaskPage:
    """Return a page of tasks for the wire."""
    return WireTaskPage(
        tasks=[_to_listed_task(task, include_artifacts) for task in page.tasks],
        next_page_token=page.next_page_token,
        page_size=page_size,
        total_size=page.total,
    )


def _to_listed_task(task: Task, include_artifacts: bool) -> WireItem:
    """Return a task of a page; included artifacts are written even if there are none."""
    item = to_wire_task(task)
    item.artifacts = (
        [to_wire_artifact(artifact) for artifact in task.artifacts] if include_artifacts else None
    )
    return item


def from_wire_task_push(push: WireTaskPushConfig, where: str) -> PushConfig:
    """Return the push configuration of a task; `where` is its path with a trailing dot."""
    if push.push_notification_config is None:
        raise field_error(f"{where}pushNotificationConfig", "is required")
    return _from_wire_push(
        push.push_notification_config, push.task_id or "", f"{where}pushNotificationConfig."
    )


def _from_wire_push(config: WirePushConfig, task_id: str, where: str) -> PushConfig:
    authentication = config.authentication or WireAuthentication()
    return PushConfig(
        id=config.id or "",
        task_id=task_id,
        url=require_text(config.url, f"{where}url"),
        token=config.token or "",
        scheme=authentication.schemes[0] if authentication.schemes else "",
        credentials=authentication.credentials or "",
        protocol_version=PROTOCOL_V03,
    )


def to_wire_task_push(config: PushConfig) -> WireTaskPushConfig:
    """Return the push configuration of a task for the wire."""
    return WireTaskPushConfig(
        task_id=config.task_id, push_notification_config=_to_wire_push(config)
    )


def _to_wire_push(config: PushConfig) -> WirePushConfig:
    authentication = None
    if config.scheme or config.credentials:
        authentication = WireAuthentication(
            schemes=[config.scheme] if config.scheme else [],
            credentials=config.credentials or None,
        )
    return WirePushConfig(
        id=config.id or None,
        url=config.url,
        token=config.token or None,
        authentication=authentication,
    )


# Requests: from the wire


def _build_send(request: WireSendRequest) -> Request:
    if request.message is None:
        raise field_error("message", "is required")
    options = request.configuration or WireSendConfiguration()
    push = options.push_notification_config
    where = "configuration."
    return SendRequest(
        message=from_wire_message(request.message, "message.", strict=True),
        accepted_output_modes=tuple(options.accepted_output_modes or ()),
        history_length=parse_integer(options.history_length, f"{where}historyLength"),
        wait=options.blocking is not False,
        push=None if push is None else _from_wire_push(push, "", f"{where}pushNotificationConfig."),
        metadata=request.metadata or {},
        tenant=request.tenant or "",
    )


def _build_get(request: WireTaskRequest) -> Request:
    return GetRequest(
        id=require_text(request.id, "id"),
        history_length=parse_integer(request.history_length, "historyLength"),
        tenant=request.tenant or "",
    )


def _build_list(request: WireListRequest) -> Request:
    return build_list_request(
        request, state=parse_state(request.status, _LIST_STATES), since=_parse_since(request)
    )


def _parse_since(request: WireListRequest) -> float | None:
    if request.status_timestamp_after:
        return parse_timestamp(request.status_timestamp_after, "statusTimestampAfter")
    value = request.last_updated_after
    if isinstance(value, str) and _MILLISECONDS.fullmatch(value):
        value = int(value)  # a query string contains numbers as text
    if isinstance(value, int):
        if abs(value) > _MAX_MILLISECONDS:
            raise field_error(
                "lastUpdatedAfter", "is out of range; expected milliseconds since 1970"
            )
        return value / 1000
    return parse_timestamp(value, "lastUpdatedAfter") if value else None


def _build_task(request: WireTaskRequest) -> Request:
    return TaskRequest(
        id=require_text(request.id, "id"),
        metadata=request.metadata or {},
        tenant=request.tenant or "",
    )


def _build_push_create(request: WireTaskPushConfig) -> Request:
    require_text(request.task_id, "taskId")
    return PushCreateRequest(config=from_wire_task_push(request, ""), tenant=request.tenant or "")


def _build_push(request: WirePushRequest) -> Request:
    return PushRequest(
        task_id=require_text(request.id, "id"),
        id=request.push_notification_config_id or "",
        tenant=request.tenant or "",
    )


def _build_push_delete(request: WirePushRequest) -> Request:
    require_text(request.push_notification_config_id, "pushNotificationConfigId")
    return _build_push(request)


def _build_card(request: WireCardRequest) -> Request:
    return CardRequest(tenant=request.tenant or "")


class Reader(NamedTuple):
    """How a request is decoded; `path_fields` maps path parameters to fields."""

    kind: type[Any]
    decoder: "msgspec.json.Decoder[Any]"
    build: Callable[[Any], Request]
    path_fields: Mapping[str, str]

    def build_request(self, request: Any, path: Mapping[str, str]) -> Request:
        """Return the request with its path parameters."""
        if path:
            fields = {self.path_fields.get(name, name): value for name, value in path.items()}
            request = msgspec.structs.replace(request, **fields)
        return self.build(request)


def _reader(
    kind: type[Any], build: Callable[[Any], Request], path_fields: Mapping[str, str] = NO_PATH
) -> Reader:
    return Reader(kind, msgspec.json.Decoder(kind), build, path_fields)


_PUSH_PATH = {"task_id": "id", "id": "push_notification_config_id"}
READERS: Mapping[Operation, Reader] = {
    Operation.SEND: _reader(WireSendRequest, _build_send),
    Operation.STREAM: _reader(WireSendRequest, _build_send),
    Operation.GET: _reader(WireTaskRequest, _build_get),
    Operation.LIST: _reader(WireListRequest, _build_list),
    Operation.CANCEL: _reader(WireTaskRequest, _build_task),
    Operation.SUBSCRIBE: _reader(WireTaskRequest, _build_task),
    Operation.PUSH_CREATE: _reader(WireTaskPushConfig, _build_push_create),
    Operation.PUSH_GET: _reader(WirePushRequest, _build_push, _PUSH_PATH),
    Operation.PUSH_LIST: _reader(WirePushRequest, _build_push, _PUSH_PATH),
    Operation.PUSH_DELETE: _reader(WirePushRequest, _build_push_delete, _PUSH_PATH),
    Operation.EXTENDED_CARD: _reader(WireCardRequest, _build_card),
}


# Requests: to the wire


def to_wire_request(operation: Operation, request: Request) -> WireStruct:
    """Return a request for the wire."""
    tenant = request.tenant or None
    match request:
        case SendRequest():
            return _to_wire_send(request)
        case GetRequest():
            return WireTaskRequest(
                tenant=tenant, id=request.id, history_length=request.history_length
            )
        case ListRequest():
            state = request.query.state
            return to_wire_list(request, None if state is None else state.value)
        case TaskRequest():
            return WireTaskRequest(
                tenant=tenant, id=request.id, metadata=dict(request.metadata) or None
            )
        case PushCreateRequest():
            push = to_wire_task_push(request.config)
            push.tenant = tenant
            return push
        case PushRequest():
            config_id = None if operation is Operation.PUSH_LIST else request.id or None
            return WirePushRequest(
                tenant=tenant, id=request.task_id, push_notification_config_id=config_id
            )
    return WireCardRequest(tenant=tenant)


def _to_wire_send(request: SendRequest) -> WireSendRequest:
    options = WireSendConfiguration(
        accepted_output_modes=list(request.accepted_output_modes) or None,
        push_notification_config=None if request.push is None else _to_wire_push(request.push),
        history_length=request.history_length,
        blocking=request.wait,
    )
    return WireSendRequest(
        tenant=request.tenant or None,
        message=to_wire_message(request.message),
        configuration=options,
        metadata=dict(request.metadata) or None,
    )
