"""What a generation of the protocol can be asked, so that server and client are written once."""

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
    """What a client can ask for, whatever its name on the wire."""

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


#: What a stream carries.
StreamPayload = Task | Message | StatusUpdate | ArtifactUpdate
#: No names in the path of the address.
NO_PATH: Mapping[str, str] = MappingProxyType({})


class StreamResponse(NamedTuple):
    """An item of a stream, with the task and context that it belongs to."""

    task_id: str
    context_id: str
    item: StreamPayload


class Wire(Protocol):
    """One generation of the protocol as JSON.

    What a client sends wrongly raises InvalidInput, what a server answers wrongly RemoteFailed;
    both name the field.
    """

    @property
    def version(self) -> str:
        """Return the generation: "1.0" or "0.3"."""
        ...

    @property
    def methods(self) -> Mapping[str, Operation]:
        """Return what each JSON-RPC method asks for."""
        ...

    @property
    def method_names(self) -> Mapping[Operation, str]:
        """Return the JSON-RPC method that a client calls for each operation."""
        ...

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Return what the params of a call, or the body of a POST, ask for.

        The names in a path win over those in the body: `id`, for push configurations `task_id` and
        `id`, and `tenant`. With a path the body may be empty.
        """
        ...

    def read_query(
        self, operation: Operation, path: Mapping[str, str], query: Mapping[str, str]
    ) -> Request:
        """Return what the address of a GET or DELETE asks for."""
        ...

    def write_task(self, task: Task) -> bytes:
        """Return a task as JSON."""
        ...

    def write_send_result(self, result: Task | Message) -> bytes:
        """Return what a message led to as JSON."""
        ...

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Return an item of a stream as JSON."""
        ...

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        ...

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        ...

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON."""
        ...

    def write_empty(self) -> bytes:
        """Return that there is nothing to say, as when a configuration is deleted."""
        ...

    def write_card(self, card: AgentCard) -> bytes:
        """Return an extended card as JSON."""
        ...

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the params of a call, or the body of a POST, as JSON."""
        ...

    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        ...

    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        ...

    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Return an item that a server streamed."""
        ...

    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        ...

    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        ...

    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        ...

    def read_card(self, data: bytes) -> AgentCard:
        """Return the card that a server answered with."""
        ...


_SNAKE = {
    "context_id": "contextId",
    "page_size": "pageSize",
    "page_token": "pageToken",
    "history_length": "historyLength",
    "status_timestamp_after": "statusTimestampAfter",
    "last_updated_after": "lastUpdatedAfter",
    "include_artifacts": "includeArtifacts",
}
_TEXT = ("contextId", "pageToken", "statusTimestampAfter", "lastUpdatedAfter", "status", "tenant")
_NUMBERS = ("pageSize", "historyLength")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def query_to_params(query: Mapping[str, str]) -> bytes:
    """Return the query of an address as JSON; names may be in snake case, as older clients write.

    What is empty is absent.
    """
    given = {_SNAKE.get(name, name): value for name, value in query.items() if value}
    params: dict[str, Any] = {name: given[name] for name in (*_TEXT, *_NUMBERS) if name in given}
    if "includeArtifacts" in given:
        truth = _TRUTHS.get(given["includeArtifacts"].lower())
        if truth is None:
            raise field_error("includeArtifacts", "must be true or false")
        params["includeArtifacts"] = truth
    try:
        return msgspec.json.encode(params)
    except UnicodeEncodeError:
        raise field_error(
            "query", "is not valid UTF-8; encode its values as RFC 3986 says"
        ) from None


def params_to_query(params: bytes, in_path: Collection[str] = ()) -> dict[str, str]:
    """Return the params of a call as a query, without what stands in the path."""
    fields: dict[str, Any] = msgspec.json.decode(params)
    return {name: _text(value) for name, value in fields.items() if name not in in_path}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
