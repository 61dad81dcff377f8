"""The same things in the JSON of 0.3's JSON-RPC and in that of its HTTP side, which differ.

Over HTTP the names are those of protocol buffers, in camel or in snake case. What has the wrong
type is left as it is, so that whoever reads the result can say what is wrong.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from acc.adapters.a2a.wire import v03 as asked
from acc.adapters.a2a.wire import v03_types as content
from acc.adapters.a2a.wire.card_codec import merged_card
from acc.adapters.a2a.wire.json_fields import (
    camel_case,
    convert,
    decode,
    decode_base64,
    encode,
    encode_base64,
    field_error,
    remote_response,
)
from acc.adapters.a2a.wire.protocol import NO_PATH, Operation, StreamPayload, StreamResponse
from acc.adapters.a2a.wire.v03 import (
    WireV03,
    built,
    item_shape,
    page_from,
    page_shape,
    streamed_from,
)
from acc.adapters.a2a.wire.v1_types import NUMBERED_ROLES, NUMBERED_STATES, ROLE_NAMES, STATE_NAMES
from acc.application.a2a.requests import Request
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.task import Message, PushConfig, PushPage, Task, TaskPage, TaskState

_STATE_NAMES = {
    **{state.value: name for state, name in STATE_NAMES.items()},
    TaskState.CANCELED.value: "TASK_STATE_CANCELLED",
}
_STATES = {
    **{name: state.value for state, name in STATE_NAMES.items()},
    "TASK_STATE_CANCELLED": TaskState.CANCELED.value,
}
_ROLE_NAMES = {role.value: name for role, name in ROLE_NAMES.items()}
_ROLES = {name: role for role, name in _ROLE_NAMES.items()}
_NUMBERED_ROLES = {number: role.value for number, role in NUMBERED_ROLES.items()}
_NUMBERED_STATES = {number: state.value for number, state in NUMBERED_STATES.items()}
_ITEMS = {
    "task": "task",
    "message": "message",
    "msg": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_ITEM_NAMES = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
_CONFIG_NAME = re.compile(r"tasks/(?P<task>[^/]+)(?:/pushNotificationConfigs/(?P<id>[^/]*))?")


def _object(value: Any) -> dict[str, Any] | None:
    """Return an object with its names in camel case, None if it is none."""
    if not isinstance(value, Mapping):
        return None
    return {camel_case(str(name)): held for name, held in value.items()}


def _renamed(fields: dict[str, Any], old: str, new: str) -> None:
    if old in fields:
        fields.setdefault(new, fields.pop(old))


def _each(value: Any, change: Any) -> Any:
    return [change(held) for held in value] if isinstance(value, list) else value


def _word(value: Any, words: Mapping[str, str], numbered: Mapping[int, str]) -> Any:
    if isinstance(value, str):
        return words.get(value, value)
    return numbered.get(value, value) if type(value) is int else value  # which true is not


def part_asked(value: Any) -> Any:
    """Return a part of a request in the words of JSON-RPC.

    The official Python library writes names in snake case, and encodes bytes that are encoded
    already; everyone else does neither.
    """
    file = value.get("file") if isinstance(value, Mapping) else None
    is_once = isinstance(file, Mapping) and "file_with_bytes" not in file
    return part_in(value, is_once=is_once)


def part_in(value: Any, *, is_once: bool = False) -> Any:
    """Return a part in the words of JSON-RPC."""
    part = _object(value)
    if part is None or part.get("kind"):
        return value
    file = _object(part.get("file"))
    if file is not None:
        _renamed(file, "fileWithUri", "uri")
        if isinstance(file.get("fileWithBytes"), str):
            encoded = file.pop("fileWithBytes")
            file["bytes"] = encoded if is_once else _once(encoded)
        part["file"] = file
    data = part.get("data")
    if isinstance(data, Mapping) and data.keys() == {"data"} and isinstance(data["data"], Mapping):
        part["data"] = data["data"]
    held = [kind for kind in ("text", "file", "data") if part.get(kind) is not None]
    if len(held) == 1:
        part["kind"] = held[0]
    return part


def _once(text: str) -> str:
    """Return base64 text that was encoded once; the official library encodes what is encoded."""
    try:
        inner = decode_base64(text, "").decode("ascii")
        if len(inner) % 4 == 0:
            decode_base64(inner, "")
            return inner
    except (InvalidInput, UnicodeDecodeError):
        pass
    return text


def part_out(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part in the words of HTTP."""
    kind = part.pop("kind")
    if kind == "file":
        file = part["file"]
        _renamed(file, "uri", "fileWithUri")
        if "bytes" in file:
            file["fileWithBytes"] = encode_base64(file.pop("bytes").encode())
    elif kind == "data":
        part["data"] = {"data": part["data"]}
    return part


def message_in(value: Any, read_part: Callable[[Any], Any] = part_in) -> Any:
    """Return a message in the words of JSON-RPC."""
    message = _object(value)
    if message is None:
        return value
    _renamed(message, "content", "parts")
    message["role"] = _word(message.get("role"), _ROLES, _NUMBERED_ROLES)
    message["parts"] = _each(message.get("parts"), read_part)
    return message


def message_out(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the words of HTTP."""
    message.pop("kind", None)
    message["role"] = _ROLE_NAMES[message["role"]]
    message["content"] = [part_out(part) for part in message.pop("parts")]
    return message


def artifact_in(value: Any) -> Any:
    """Return an artifact in the words of JSON-RPC."""
    artifact = _object(value)
    if artifact is None:
        return value
    artifact["parts"] = _each(artifact.get("parts"), part_in)
    return artifact


def artifact_out(artifact: dict[str, Any]) -> dict[str, Any]:
    """Return an artifact in the words of HTTP."""
    artifact["parts"] = [part_out(part) for part in artifact["parts"]]
    return artifact


def status_in(value: Any) -> Any:
    """Return a status in the words of JSON-RPC."""
    status = _object(value)
    if status is None:
        return value
    _renamed(status, "update", "message")
    status["state"] = _word(status.get("state"), _STATES, _NUMBERED_STATES)
    if "message" in status:
        status["message"] = message_in(status["message"])
    return status


def status_out(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status in the words of HTTP."""
    status["state"] = _STATE_NAMES[status["state"]]
    if "message" in status:
        status["message"] = message_out(status["message"])
    return status


def item_in(value: Any, kind: str) -> Any:
    """Return a task, a message or an update in the words of JSON-RPC."""
    if kind == "message":
        item = message_in(value)
    else:
        item = _object(value)
        if item is None:
            return value
        for name, change in (
            ("status", status_in),
            ("artifact", artifact_in),
            ("artifacts", lambda held: _each(held, artifact_in)),
            ("history", lambda held: _each(held, message_in)),
        ):
            if name in item:
                item[name] = change(item[name])
    if isinstance(item, dict):
        item["kind"] = kind
    return item


def item_out(item: dict[str, Any]) -> dict[str, Any]:
    """Return a task, a message or an update in the words of HTTP."""
    if item.pop("kind", "task") == "message":
        return message_out(item)
    if "status" in item:
        item["status"] = status_out(item["status"])
    if "artifact" in item:
        item["artifact"] = artifact_out(item["artifact"])
    for name, change in (("artifacts", artifact_out), ("history", message_out)):
        if name in item:
            item[name] = [change(held) for held in item[name]]
    return item


def wrapped_in(value: Any) -> Any:
    """Return what stands in a wrapper that names its kind; without one it is taken as it is."""
    wrapper = _object(value)
    if wrapper is None or wrapper.get("kind"):
        return value
    for name, kind in _ITEMS.items():
        if isinstance(wrapper.get(name), Mapping):
            return item_in(wrapper[name], kind)
    return value


def wrapped_out(item: dict[str, Any]) -> dict[str, Any]:
    """Return a task, a message or an update in a wrapper that names its kind."""
    name = _ITEM_NAMES[item["kind"]]
    return {name: item_out(item)}


def page_in(value: Any) -> Any:
    """Return a page of tasks in the words of JSON-RPC."""
    page = _object(value)
    if page is None:
        return value
    page["tasks"] = _each(page.get("tasks"), lambda task: item_in(task, "task"))
    return page


def push_in(value: Any) -> Any:
    """Return a push configuration, or the wish for one, in the words of JSON-RPC."""
    push = _object(value)
    if push is None:
        return value
    held = _object(push.get("config")) or push
    if "url" in held:
        held = {"pushNotificationConfig": held}
    config = _object(held.get("pushNotificationConfig"))
    named = _CONFIG_NAME.fullmatch(str(held.get("name") or push.get("parent") or ""))
    task_id = push.get("taskId") or held.get("taskId") or (named["task"] if named else None)
    if config is None:
        return {"taskId": task_id, "pushNotificationConfig": held.get("pushNotificationConfig")}
    if not config.get("id"):
        config["id"] = push.get("configId") or (named["id"] if named else None)
    return {"taskId": task_id, "pushNotificationConfig": config}


def push_out(push: dict[str, Any]) -> dict[str, Any]:
    """Return a push configuration in the words of HTTP, where its name tells whose it is."""
    config = push["pushNotificationConfig"]
    name = f"tasks/{push['taskId']}/pushNotificationConfigs/{config.get('id', '')}"
    return {"name": name, "pushNotificationConfig": config}


def send_in(value: Any) -> Any:
    """Return a message to be sent in the words of JSON-RPC.

    Over HTTP what is false is not written, so a configuration that does not say so does not wait.
    """
    send = _object(value)
    if send is None:
        return value
    _renamed(send, "request", "message")
    if "message" in send:
        send["message"] = message_in(send["message"], part_asked)
    how = _object(send.get("configuration"))
    if how is not None:
        _renamed(how, "pushNotification", "pushNotificationConfig")
        how.setdefault("blocking", False)
        send["configuration"] = how
    return send


def send_out(send: dict[str, Any]) -> dict[str, Any]:
    """Return a message to be sent in the words of HTTP."""
    send["message"] = message_out(send["message"])
    for part in send["message"]["content"]:
        if "file" in part:  # encoded twice, and told so as the official library does
            _renamed(part["file"], "fileWithBytes", "file_with_bytes")
    _renamed(send["configuration"], "pushNotificationConfig", "pushNotification")
    return send


T = TypeVar("T")
_any: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()
_INWARD: Mapping[Operation, Callable[[Any], Any]] = {
    Operation.SEND: send_in,
    Operation.STREAM: send_in,
    Operation.PUSH_CREATE: push_in,
}
_OUTWARD: Mapping[Operation, Callable[[dict[str, Any]], dict[str, Any]]] = {
    Operation.SEND: send_out,
    Operation.STREAM: send_out,
    Operation.PUSH_CREATE: lambda push: {
        "parent": f"tasks/{push['taskId']}",
        "configId": push["pushNotificationConfig"].get("id", ""),
        "config": push_out(push),
    },
}


def _read(data: bytes, change: Callable[[Any], Any], shape: type[T], what: str) -> T:
    return convert(change(decode(_any, data, what)), shape, what)


def _plain(shape: msgspec.Struct) -> Any:
    return msgspec.to_builtins(shape)


class WireV03Rest(WireV03):
    """Reads and writes generation 0.3 over HTTP; it reads what JSON-RPC would write as well."""

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Return what the body of a POST asks for."""
        change = _INWARD.get(operation)
        if change is None:
            return super().read_request(operation, params, path)
        reader = asked.READERS[operation]
        shape = convert(change(decode(_any, params or b"{}", "body")), reader.shape, "body")
        return built(reader, shape, path)

    def write_task(self, task: Task) -> bytes:
        """Return a task as JSON."""
        return encode(item_out(_plain(content.task_shape(task))))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Return what a message led to as JSON."""
        return self.write_stream_item("", "", result)

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Return an item of a stream as JSON."""
        return encode(wrapped_out(_plain(item_shape(task_id, context_id, item))))

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Return a page of tasks as JSON."""
        written = _plain(page_shape(page, page_size, include_artifacts))
        written["tasks"] = [item_out(task) for task in written["tasks"]]
        return encode(written)

    def write_push(self, config: PushConfig) -> bytes:
        """Return a push configuration as JSON."""
        return encode(push_out(_plain(asked.push_shape(config))))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Return push configurations as JSON."""
        written: dict[str, Any] = {
            "configs": [push_out(_plain(asked.push_shape(config))) for config in configs]
        }
        if next_page_token:
            written["nextPageToken"] = next_page_token
        return encode(written)

    def write_empty(self) -> bytes:
        """Return that there is nothing to say."""
        return b"{}"

    def write_card(self, card: AgentCard) -> bytes:
        """Return a card as JSON, its security as protocol buffers write it."""
        document = merged_card(card)
        if "security" in document:
            document["security"] = document["securityRequirements"]
        return encode(document)

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Return the body of a POST as JSON."""
        written = _plain(asked.request_shape(operation, request))
        change = _OUTWARD.get(operation)
        return encode(written if change is None else change(written))

    @remote_response
    def read_task(self, data: bytes) -> Task:
        """Return the task that a server answered with."""
        shape = _read(data, lambda held: item_in(held, "task"), content.ItemShape, "task")
        return content.task_from(shape)

    @remote_response
    def read_send_result(self, data: bytes) -> Task | Message:
        """Return what a server says a message led to."""
        item = streamed_from(_read(data, wrapped_in, content.ItemShape, "result")).item
        if isinstance(item, Task | Message):
            return item
        raise field_error("result", "must hold a task or a message")

    @remote_response
    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Return an item that a server streamed."""
        return streamed_from(_read(data, wrapped_in, content.ItemShape, "item"))

    @remote_response
    def read_page(self, data: bytes) -> TaskPage:
        """Return the page of tasks that a server answered with."""
        return page_from(_read(data, page_in, asked.PageShape, "page"))

    @remote_response
    def read_push(self, data: bytes) -> PushConfig:
        """Return the push configuration that a server answered with."""
        return asked.push_from(_read(data, push_in, asked.PushShape, "config"), "")

    @remote_response
    def read_push_list(self, data: bytes) -> PushPage:
        """Return the push configurations that a server answered with."""
        document = decode(_any, data, "configs")
        held = document.get("configs") if isinstance(document, dict) else document
        if not isinstance(held, list | type(None)):
            raise field_error("configs", "must be a list")
        configs = [
            asked.push_from(convert(push_in(push), asked.PushShape, f"[{at}]"), f"[{at}].")
            for at, push in enumerate(held or ())
        ]
        token = document.get("nextPageToken") if isinstance(document, dict) else ""
        return PushPage(tuple(configs), token if isinstance(token, str) else "")


WIRE_V03_REST = WireV03Rest()
