"""The interface of a protocol version, so that server and client are written once."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec

from acc.adapters.a2a.wire.json_fields import field_error
from acc.application.a2a.requests import Request
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


class Operation(StrEnum):
    """An operation of the protocol, independent of its name on the wire."""

    SEND = "send"
    STREAM = "stream"
    GET = "get"
    LIST = "list"
    CANCEL = "cancel"
    SUBSCRIBE = "subscribe"
    PUSH_CREATE = "push_create"
    PUSH_GET = "push_get"
    PUSH_LIST = "push_list"
    PUSH_DELETE = "push_delete"
    EXTENDED_CARD = "extended_card"


StreamPayload = Task | Message | StatusUpdate | ArtifactUpdate
#: A path without parameters.
NO_PATH: Mapping[str, str] = MappingProxyType({})


class StreamResponse(NamedTuple):
    """An item of a stream with the ids of its task and context."""

    task_id: str
    context_id: str
    item: StreamPayload


class Wire(Protocol):
    """One protocol version as JSON.

    An invalid request raises InvalidInput, an invalid response RemoteFailed. Both name the field.
    """

    @property
    def version(self) -> str:
        """Return the protocol version: "1.0" or "0.3"."""
        ...

    @property
    def methods(self) -> Mapping[str, Operation]:
        """Return the operation of each JSON-RPC method."""
        ...

    @property
    def method_names(self) -> Mapping[Operation, str]:
        """Return the JSON-RPC method of each operation."""
        ...

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Decode the params of a JSON-RPC request or the body of a POST.

        Path parameters override the body: `id`, for push configurations `task_id` and `id`, and
        `tenant`. With a path the body may be empty.
        """
        ...

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Decode the path and query of a GET or DELETE."""
        ...

    def write_task(self, task: Task) -> bytes:
        """Encode a task."""
        ...

    def write_send_result(self, result: Task | Message) -> bytes:
        """Encode the result of SendMessage."""
        ...

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Encode an item of a stream."""
        ...

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Encode a page of tasks."""
        ...

    def write_push(self, config: PushConfig) -> bytes:
        """Encode a push configuration."""
        ...

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Encode a page of push configurations."""
        ...

    def write_empty(self) -> bytes:
        """Encode an empty result, for example of a deletion."""
        ...

    def write_card(self, card: AgentCard) -> bytes:
        """Encode an extended card."""
        ...

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Encode the params of a JSON-RPC request or the body of a POST."""
        ...

    def read_task(self, data: bytes) -> Task:
        """Decode a task."""
        ...

    def read_send_result(self, data: bytes) -> Task | Message:
        """Decode the result of SendMessage."""
        ...

    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Decode an item of a stream."""
        ...

    def read_page(self, data: bytes) -> TaskPage:
        """Decode a page of tasks."""
        ...

    def read_push(self, data: bytes) -> PushConfig:
        """Decode a push configuration."""
        ...

    def read_push_list(self, data: bytes) -> PushPage:
        """Decode a page of push configurations."""
        ...

    def read_card(self, data: bytes) -> AgentCard:
        """Decode an extended card."""
        ...


_SNAKE_CASE_NAMES = {
    "context_id": "contextId",
    "page_size": "pageSize",
    "page_token": "pageToken",
    "history_length": "historyLength",
    "status_timestamp_after": "statusTimestampAfter",
    "last_updated_after": "lastUpdatedAfter",
    "include_artifacts": "includeArtifacts",
}
_TEXT_FIELDS = (
    "contextId",
    "pageToken",
    "statusTimestampAfter",
    "lastUpdatedAfter",
    "status",
    "tenant",
    "pageSize",
    "historyLength",
)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def query_to_params(query: Mapping[str, str]) -> bytes:
    """Encode a query string as JSON params.

    Names may be in snake case, which older clients use. An empty value is absent.
    """
    values = {_SNAKE_CASE_NAMES.get(name, name): value for name, value in query.items() if value}
    params: dict[str, Any] = {name: values[name] for name in _TEXT_FIELDS if name in values}
    if "includeArtifacts" in values:
        include = _BOOLEANS.get(values["includeArtifacts"].lower())
        if include is None:
            raise field_error("includeArtifacts", "must be true or false")
        params["includeArtifacts"] = include
    try:
        return msgspec.json.encode(params)
    except UnicodeEncodeError:
        raise field_error(
            "query", "is not valid UTF-8; percent-encode the values (RFC 3986)"
        ) from None


def params_to_query(params: bytes, in_path: Collection[str] = ()) -> dict[str, str]:
    """Return JSON params as query parameters, without those of the path."""
    fields: dict[str, Any] = msgspec.json.decode(params)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
        if name not in in_path
    }
