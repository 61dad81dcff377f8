"""Generation 0.3 as JSON, as its JSON-RPC speaks it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.a2a.codec.cards import card_from, merged_card
from acc.adapters.a2a.codec.queries import as_params
from acc.adapters.a2a.codec.wire import NO_PATH, Operation, Streamed, StreamItem
from acc.adapters.a2a.shapes import zero_three_content as content
from acc.adapters.a2a.shapes import zero_three_requests as asked
from acc.adapters.a2a.shapes.reading import decoded, fault, from_remote, whole_number
from acc.adapters.a2a.shapes.writing import encoded
from acc.application.serving.requests import Request
from acc.domain.value_objects.card import AgentCard
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    PushPage,
    StatusUpdate,
    Task,
    TaskPage,
)

_item = msgspec.json.Decoder(content.ItemShape)
_page = msgspec.json.Decoder(asked.PageShape)
_push = msgspec.json.Decoder(asked.PushShape)
_push_list: "msgspec.json.Decoder[list[asked.PushShape] | None]" = msgspec.json.Decoder(
    list[asked.PushShape] | None
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


def item_shape(task_id: str, context_id: str, item: StreamItem) -> msgspec.Struct:
    """Return an item of a stream for the wire."""
    if isinstance(item, StatusUpdate | ArtifactUpdate):
        return content.update_shape(task_id, context_id, item)
    if isinstance(item, Message):
        return content.message_shape(item)
    return content.task_shape(item)


def streamed_from(shape: content.ItemShape) -> Streamed:
    """Return an item that a server streamed."""
    kind = shape.told_kind
    metadata = shape.metadata or {}
    if kind == "task":
        task = content.task_from(shape)
        return Streamed(task.id, task.context_id, task)
    if kind == "message":
        message = content.message_from(shape, "")
        return Streamed(message.task_id, message.context_id, message)
    task_id, context_id = shape.task_id or "", shape.context_id or ""
    if kind == "status-update":
        status = content.status_from(shape.status, "status")
        return Streamed(task_id, context_id, StatusUpdate(status=status, metadata=metadata))
    if kind != "artifact-update":
        raise fault("kind", "must be task, message, status-update or artifact-update")
    if shape.artifact is None:
        raise fault("artifact", "is required")
    made = ArtifactUpdate(
        artifact=content.artifact_from(shape.artifact, "artifact"),
        append=bool(shape.append),
        last_chunk=bool(shape.last_chunk),
        metadata=metadata,
    )
    return Streamed(task_id, context_id, made)


def page_from(shape: asked.PageShape) -> TaskPage:
    """Return the page of tasks that a server answered with."""
    tasks = tuple(
        content.task_from(task, f"tasks[{index}].") for index, task in enumerate(shape.tasks or ())
    )
    total = whole_number(shape.total_size, "totalSize")
    return TaskPage(
        tasks=tasks,
        next_page_token=shape.next_page_token or "",
        total=len(tasks) if total is None else total,
    )


def page_shape(page: TaskPage, page_size: int, include_artifacts: bool) -> asked.PageShape:
    """Return a page of tasks for the wire."""
    return asked.PageShape(
        tasks=[asked.listed_shape(task, include_artifacts) for task in page.tasks],
        next_page_token=page.next_page_token,
        page_size=page_size,
        total_size=page.total,
    )


def built(reader: asked.Reader, shape: Any, path: Mapping[str, str]) -> Request:
    """Return what a shape asks for together with the names in a path."""
    for name, value in path.items():
        setattr(shape, reader.path.get(name, name), value)
    return reader.build(shape)


class WireZeroThree:
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
        reader = asked.READERS[operation]
        return built(reader, decoded(reader.decoder, params or b"{}", "params"), path)

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Return what the address of a GET or DELETE asks for."""
        return self.read_request(operation, as_params(query), path)

    def write_task(self, task: Task) -> bytes:
        """Return a task as JSON."""
        return encoded(content.task_shape(task))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Return what a message led to as JSON."""
        return encoded(item_shape("", "", result))

    def write_stream_item(self, task_id: str, context_id: str, item: StreamItem) -> bytes:
        """Return an item of a stream as JSON."""
        return encoded(item_shape(task_id, context_id, item))

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        return encoded(page_shape(page, page_size, include_artifacts))

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        return encoded(asked.push_shape(config))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON; 0.3 knows no pages of them."""
        del next_page_token
        return encoded([asked.push_shape(config) for config in configs])

    def write_empty(self) -> bytes:
        """Return that there is nothing to say."""
        return b"null"

    def write_card(self, card: AgentCard) -> bytes:
        """Return a card as JSON, with what a client of the other generation needs."""
        return encoded(merged_card(card))

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the params of a call as JSON."""
        return encoded(asked.request_shape(operation, request))

    @from_remote
    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        return content.task_from(decoded(_item, data, "task"))

    @from_remote
    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        shape = decoded(_item, data, "result")
        if shape.told_kind == "message":
            return content.message_from(shape, "")
        if shape.kind not in (None, "", "task"):
            raise fault("kind", "must be task or message")
        return content.task_from(shape)

    @from_remote
    def read_stream_item(self, data: bytes) -> Streamed:
        """Return an item that a server streamed."""
        return streamed_from(decoded(_item, data, "item"))

    @from_remote
    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        return page_from(decoded(_page, data, "page"))

    @from_remote
    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        return asked.push_from(decoded(_push, data, "config"), "")

    @from_remote
    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        shapes = decoded(_push_list, data, "configs") or ()
        configs = [asked.push_from(held, f"[{index}].") for index, held in enumerate(shapes)]
        return PushPage(tuple(configs), "")

    @from_remote
    def read_card(self, data: bytes) -> AgentCard:
        """Return the card that a server answered with."""
        return card_from(data)


WIRE_ZERO_THREE = WireZeroThree()
