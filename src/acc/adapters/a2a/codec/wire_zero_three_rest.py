"""Generation 0.3 as JSON, as its HTTP side speaks it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from acc.adapters.a2a.codec.cards import merged_card
from acc.adapters.a2a.codec.wire import NO_PATH, Operation, Streamed, StreamItem
from acc.adapters.a2a.codec.wire_zero_three import (
    WireZeroThree,
    built,
    item_shape,
    page_from,
    page_shape,
    streamed_from,
)
from acc.adapters.a2a.shapes import zero_three_content as content
from acc.adapters.a2a.shapes import zero_three_requests as asked
from acc.adapters.a2a.shapes import zero_three_rest_shapes as rest
from acc.adapters.a2a.shapes.reading import converted, decoded, fault, from_remote
from acc.adapters.a2a.shapes.writing import encoded
from acc.application.serving.requests import Request
from acc.domain.value_objects.card import AgentCard
from acc.domain.value_objects.task import Message, PushConfig, PushPage, Task, TaskPage

T = TypeVar("T")

_any: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()

_INWARD: Mapping[Operation, Callable[[Any], Any]] = {
    Operation.SEND: rest.send_in,
    Operation.STREAM: rest.send_in,
    Operation.PUSH_CREATE: rest.push_in,
}
_OUTWARD: Mapping[Operation, Callable[[dict[str, Any]], dict[str, Any]]] = {
    Operation.SEND: rest.send_out,
    Operation.STREAM: rest.send_out,
    Operation.PUSH_CREATE: lambda push: {
        "parent": f"tasks/{push['taskId']}",
        "configId": push["pushNotificationConfig"].get("id", ""),
        "config": rest.push_out(push),
    },
}


def _read(data: bytes, change: Callable[[Any], Any], shape: type[T], what: str) -> T:
    return converted(change(decoded(_any, data, what)), shape, what)


def _plain(shape: msgspec.Struct) -> Any:
    return msgspec.to_builtins(shape)


class WireZeroThreeRest(WireZeroThree):
    """Reads and writes generation 0.3 over HTTP; it reads what JSON-RPC would write as well."""

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Return what the body of a POST asks for."""
        change = _INWARD.get(operation)
        if change is None:
            return super().read_request(operation, params, path)
        reader = asked.READERS[operation]
        shape = converted(change(decoded(_any, params or b"{}", "body")), reader.shape, "body")
        return built(reader, shape, path)

    def write_task(self, task: Task) -> bytes:
        """Return a task as JSON."""
        return encoded(rest.item_out(_plain(content.task_shape(task))))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Return what a message led to as JSON."""
        return self.write_stream_item("", "", result)

    def write_stream_item(self, task_id: str, context_id: str, item: StreamItem) -> bytes:
        """Return an item of a stream as JSON."""
        return encoded(rest.wrapped_out(_plain(item_shape(task_id, context_id, item))))

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        written = _plain(page_shape(page, page_size, include_artifacts))
        written["tasks"] = [rest.item_out(task) for task in written["tasks"]]
        return encoded(written)

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        return encoded(rest.push_out(_plain(asked.push_shape(config))))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON."""
        written: dict[str, Any] = {
            "configs": [rest.push_out(_plain(asked.push_shape(config))) for config in configs]
        }
        if next_page_token:
            written["nextPageToken"] = next_page_token
        return encoded(written)

    def write_empty(self) -> bytes:
        """Return that there is nothing to say."""
        return b"{}"

    def write_card(self, card: AgentCard) -> bytes:
        """Return a card as JSON, its security as protocol buffers write it."""
        document = merged_card(card)
        if "security" in document:
            document["security"] = document["securityRequirements"]
        return encoded(document)

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the body of a POST as JSON."""
        written = _plain(asked.request_shape(operation, request))
        change = _OUTWARD.get(operation)
        return encoded(written if change is None else change(written))

    @from_remote
    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        shape = _read(data, lambda held: rest.item_in(held, "task"), content.ItemShape, "task")
        return content.task_from(shape)

    @from_remote
    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        item = streamed_from(_read(data, rest.wrapped_in, content.ItemShape, "result")).item
        if isinstance(item, Task | Message):
            return item
        raise fault("result", "must hold a task or a message")

    @from_remote
    def read_stream_item(self, data: bytes) -> Streamed:
        """Return an item that a server streamed."""
        return streamed_from(_read(data, rest.wrapped_in, content.ItemShape, "item"))

    @from_remote
    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        return page_from(_read(data, rest.page_in, asked.PageShape, "page"))

    @from_remote
    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        return asked.push_from(_read(data, rest.push_in, asked.PushShape, "config"), "")

    @from_remote
    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        document = decoded(_any, data, "configs")
        held = document.get("configs") if isinstance(document, dict) else document
        if not isinstance(held, list | type(None)):
            raise fault("configs", "must be a list")
        configs = [
            asked.push_from(converted(rest.push_in(push), asked.PushShape, f"[{at}]"), f"[{at}].")
            for at, push in enumerate(held or ())
        ]
        token = document.get("nextPageToken") if isinstance(document, dict) else ""
        return PushPage(tuple(configs), token if isinstance(token, str) else "")


WIRE_ZERO_THREE_REST = WireZeroThreeRest()
