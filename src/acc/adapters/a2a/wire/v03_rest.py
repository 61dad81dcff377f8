"""Protocol version 0.3 over HTTP+JSON, whose JSON differs from that of JSON-RPC.

The functions `*_to_rpc` rewrite a document of HTTP+JSON, in camel or snake case, to the form of
JSON-RPC; the functions `*_to_rest` do the reverse. A value of the wrong type is passed on
unchanged; the decoder of the result reports it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

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
    READERS,
    WireTaskPage,
    WireTaskPushConfig,
    WireV03,
    from_wire_item,
    from_wire_page,
    from_wire_task_push,
    to_wire_item,
    to_wire_page,
    to_wire_request,
    to_wire_task_push,
)
from acc.adapters.a2a.wire.v03_types import WireItem, from_wire_task, to_wire_task
from acc.adapters.a2a.wire.v1_types import NUMBERED_ROLES, NUMBERED_STATES, ROLE_NAMES, STATE_NAMES
from acc.application.a2a.requests import Request
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.task import Message, PushConfig, PushPage, Task, TaskPage, TaskState

T = TypeVar("T")
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
_KINDS = {
    "task": "task",
    "message": "message",
    "msg": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_KIND_NAMES = {kind: name for name, kind in _KINDS.items() if name != "msg"}
_CONFIG_NAME = re.compile(r"tasks/(?P<task>[^/]+)(?:/pushNotificationConfigs/(?P<id>[^/]*))?")
_json_decoder: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()


class WireV03Rest(WireV03):
    """Encode and decode protocol version 0.3 over HTTP+JSON; also decode its JSON-RPC form."""

    def read_request(
        self, operation: Operation, params: bytes, path: Mapping[str, str] = NO_PATH
    ) -> Request:
        """Decode the body of a POST."""
        rewrite = _REQUESTS_TO_RPC.get(operation)
        if rewrite is None:
            return super().read_request(operation, params, path)
        reader = READERS[operation]
        body = rewrite(decode(_json_decoder, params or b"{}", "body"))
        return reader.build_request(convert(body, reader.kind, "body"), path)

    def write_task(self, task: Task) -> bytes:
        """Encode a task."""
        return encode(_item_to_rest(msgspec.to_builtins(to_wire_task(task))))

    def write_send_result(self, result: Task | Message) -> bytes:
        """Encode the result of message/send."""
        return self.write_stream_item("", "", result)

    def write_stream_item(self, task_id: str, context_id: str, item: StreamPayload) -> bytes:
        """Encode an item of a stream, in a wrapper that names its kind."""
        wire_item = msgspec.to_builtins(to_wire_item(task_id, context_id, item))
        name = _KIND_NAMES[wire_item["kind"]]
        return encode({name: _item_to_rest(wire_item)})

    def write_page(self, page: TaskPage, page_size: int, include_artifacts: bool) -> bytes:
        """Encode a page of tasks."""
        wire_page = msgspec.to_builtins(to_wire_page(page, page_size, include_artifacts))
        wire_page["tasks"] = [_item_to_rest(task) for task in wire_page["tasks"]]
        return encode(wire_page)

    def write_push(self, config: PushConfig) -> bytes:
        """Encode a push configuration."""
        return encode(_push_to_rest(msgspec.to_builtins(to_wire_task_push(config))))

    def write_push_list(self, configs: Sequence[PushConfig], next_page_token: str = "") -> bytes:
        """Encode a page of push configurations."""
        page: dict[str, Any] = {
            "configs": [
                _push_to_rest(msgspec.to_builtins(to_wire_task_push(config))) for config in configs
            ]
        }
        if next_page_token:
            page["nextPageToken"] = next_page_token
        return encode(page)

    def write_empty(self) -> bytes:
        """Encode an empty result."""
        return b"{}"

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Encode the body of a POST."""
        body = msgspec.to_builtins(to_wire_request(operation, request))
        rewrite = _REQUESTS_TO_REST.get(operation)
        return encode(body if rewrite is None else rewrite(body))

    @remote_response
    def read_task(self, data: bytes) -> Task:
        """Decode a task."""
        return from_wire_task(
            _read(data, lambda task: _item_to_rpc(task, "task"), WireItem, "task")
        )

    @remote_response
    def read_send_result(self, data: bytes) -> Task | Message:
        """Decode the result of message/send."""
        item = from_wire_item(_read(data, _wrapper_to_rpc, WireItem, "result")).item
        if isinstance(item, Task | Message):
            return item
        raise field_error("result", "must contain a task or a message")

    @remote_response
    def read_stream_item(self, data: bytes) -> StreamResponse:
        """Decode an item of a stream."""
        return from_wire_item(_read(data, _wrapper_to_rpc, WireItem, "item"))

    @remote_response
    def read_page(self, data: bytes) -> TaskPage:
        """Decode a page of tasks."""
        return from_wire_page(_read(data, _page_to_rpc, WireTaskPage, "page"))

    @remote_response
    def read_push(self, data: bytes) -> PushConfig:
        """Decode a push configuration."""
        return from_wire_task_push(_read(data, _push_to_rpc, WireTaskPushConfig, "config"), "")

    @remote_response
    def read_push_list(self, data: bytes) -> PushPage:
        """Decode a page of push configurations."""
        document = decode(_json_decoder, data, "configs")
        items = document.get("configs") if isinstance(document, dict) else document
        if not isinstance(items, list | type(None)):
            raise field_error("configs", "must be a list")
        configs = [
            from_wire_task_push(
                convert(_push_to_rpc(item), WireTaskPushConfig, f"[{index}]"), f"[{index}]."
            )
            for index, item in enumerate(items or ())
        ]
        token = document.get("nextPageToken") if isinstance(document, dict) else ""
        return PushPage(tuple(configs), token if isinstance(token, str) else "")


WIRE_V03_REST = WireV03Rest()


def _read(data: bytes, rewrite: Callable[[Any], Any], kind: type[T], what: str) -> T:
    return convert(rewrite(decode(_json_decoder, data, what)), kind, what)


def _camel_case_object(value: Any) -> dict[str, Any] | None:
    """Return an object with its names in camel case; None if the value is not an object."""
    if not isinstance(value, Mapping):
        return None
    return {camel_case(str(name)): item for name, item in value.items()}


def _rename(fields: dict[str, Any], old: str, new: str) -> None:
    if old in fields:
        fields.setdefault(new, fields.pop(old))


def _map_list(value: Any, rewrite: Callable[[Any], Any]) -> Any:
    return [rewrite(item) for item in value] if isinstance(value, list) else value


def _enum_to_rpc(value: Any, names: Mapping[str, str], numbered: Mapping[int, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    return numbered.get(value, value) if type(value) is int else value  # bool is not a number


# Parts


#: Fields that parts of text and data do not have in 0.3; strict clients reject them.
_PART_METADATA = ("filename", "mediaType")
#: A longer text is not valid base64 by chance.
_MAX_CHANCE_LENGTH = 64


def _request_part_to_rpc(value: Any) -> Any:
    # Version 1.x of the official Python SDK encodes base64 twice and writes this name in snake
    # case. Version 0.3 encodes it twice in camel case, where others encode it once.
    file = value.get("file") if isinstance(value, Mapping) else None
    is_ambiguous = isinstance(file, Mapping) and "file_with_bytes" not in file
    return _part_to_rpc(value, is_ambiguous=is_ambiguous)


def _part_to_rpc(value: Any, *, is_ambiguous: bool = False) -> Any:
    part = _camel_case_object(value)
    if part is None or part.get("kind"):
        return value
    file = _camel_case_object(part.get("file"))
    if file is not None:
        _rename(file, "fileWithUri", "uri")
        if isinstance(file.get("fileWithBytes"), str):
            content = file.pop("fileWithBytes")
            is_text = is_ambiguous and str(file.get("mimeType", "")).startswith("text/")
            file["bytes"] = _decode_outer_base64(content, is_text=is_text)
        part["file"] = file
    metadata = part.get("metadata")
    if isinstance(metadata, Mapping) and file is None:
        moved = {name: metadata[name] for name in _PART_METADATA if name in metadata}
        if all(isinstance(text, str) for text in moved.values()):
            part = {**moved, **part}
            part["metadata"] = {name: metadata[name] for name in metadata if name not in moved}
    data = part.get("data")
    if isinstance(data, Mapping) and data.keys() == {"data"} and isinstance(data["data"], Mapping):
        part["data"] = data["data"]
    kinds = [kind for kind in ("text", "file", "data") if part.get(kind) is not None]
    if len(kinds) == 1:
        part["kind"] = kinds[0]
    return part


def _decode_outer_base64(text: str, *, is_text: bool) -> str:
    """Return base64 text without its outer encoding; unchanged if it was encoded once.

    A short text such as "test" is valid base64 by chance. The content of a short text file must
    therefore be UTF-8 after the second decoding too.
    """
    try:
        inner = decode_base64(text, "").decode("ascii")
        if len(inner) % 4 == 0:
            content = decode_base64(inner, "")
            if is_text and len(inner) < _MAX_CHANCE_LENGTH:
                content.decode()
            return inner
    except (InvalidInput, UnicodeDecodeError):
        pass
    return text


def _part_to_rest(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.pop("kind")
    if kind == "file":
        file = part["file"]
        _rename(file, "uri", "fileWithUri")
        if "bytes" in file:
            file["fileWithBytes"] = encode_base64(file.pop("bytes").encode())
        return part
    if kind == "data":
        part["data"] = {"data": part["data"]}
    moved = {name: part.pop(name) for name in _PART_METADATA if name in part}
    if moved:
        part["metadata"] = {**moved, **part.get("metadata", {})}
    return part


# Messages, artifacts, tasks and updates


def _message_to_rpc(value: Any, rewrite_part: Callable[[Any], Any] = _part_to_rpc) -> Any:
    message = _camel_case_object(value)
    if message is None:
        return value
    _rename(message, "content", "parts")
    message["role"] = _enum_to_rpc(message.get("role"), _ROLES, _NUMBERED_ROLES)
    message["parts"] = _map_list(message.get("parts"), rewrite_part)
    return message


def _message_to_rest(message: dict[str, Any]) -> dict[str, Any]:
    message.pop("kind", None)
    message["role"] = _ROLE_NAMES[message["role"]]
    message["content"] = [_part_to_rest(part) for part in message.pop("parts")]
    return message


def _artifact_to_rpc(value: Any) -> Any:
    artifact = _camel_case_object(value)
    if artifact is None:
        return value
    artifact["parts"] = _map_list(artifact.get("parts"), _part_to_rpc)
    return artifact


def _artifact_to_rest(artifact: dict[str, Any]) -> dict[str, Any]:
    artifact["parts"] = [_part_to_rest(part) for part in artifact["parts"]]
    return artifact


def _status_to_rpc(value: Any) -> Any:
    status = _camel_case_object(value)
    if status is None:
        return value
    _rename(status, "update", "message")
    status["state"] = _enum_to_rpc(status.get("state"), _STATES, _NUMBERED_STATES)
    if "message" in status:
        status["message"] = _message_to_rpc(status["message"])
    return status


def _status_to_rest(status: dict[str, Any]) -> dict[str, Any]:
    status["state"] = _STATE_NAMES[status["state"]]
    if "message" in status:
        status["message"] = _message_to_rest(status["message"])
    return status


_FIELDS_TO_RPC: Mapping[str, Callable[[Any], Any]] = {
    "status": _status_to_rpc,
    "artifact": _artifact_to_rpc,
    "artifacts": lambda artifacts: _map_list(artifacts, _artifact_to_rpc),
    "history": lambda history: _map_list(history, _message_to_rpc),
}


def _item_to_rpc(value: Any, kind: str) -> Any:
    if kind == "message":
        item = _message_to_rpc(value)
    else:
        item = _camel_case_object(value)
        if item is None:
            return value
        for name, rewrite in _FIELDS_TO_RPC.items():
            if name in item:
                item[name] = rewrite(item[name])
    if isinstance(item, dict):
        item["kind"] = kind
    return item


def _item_to_rest(item: dict[str, Any]) -> dict[str, Any]:
    if item.pop("kind", "task") == "message":
        return _message_to_rest(item)
    if "status" in item:
        item["status"] = _status_to_rest(item["status"])
    if "artifact" in item:
        item["artifact"] = _artifact_to_rest(item["artifact"])
    for name, rewrite in (("artifacts", _artifact_to_rest), ("history", _message_to_rest)):
        if name in item:
            item[name] = [rewrite(value) for value in item[name]]
    return item


def _wrapper_to_rpc(value: Any) -> Any:
    """Return the item of a wrapper that names its kind; a bare item is returned unchanged."""
    wrapper = _camel_case_object(value)
    if wrapper is None or wrapper.get("kind"):
        return value
    for name, kind in _KINDS.items():
        if isinstance(wrapper.get(name), Mapping):
            return _item_to_rpc(wrapper[name], kind)
    return value


def _page_to_rpc(value: Any) -> Any:
    page = _camel_case_object(value)
    if page is None:
        return value
    page["tasks"] = _map_list(page.get("tasks"), lambda task: _item_to_rpc(task, "task"))
    return page


# Requests and push configurations


def _push_to_rpc(value: Any) -> Any:
    push = _camel_case_object(value)
    if push is None:
        return value
    inner = _camel_case_object(push.get("config")) or push
    if "url" in inner:
        inner = {"pushNotificationConfig": inner}
    config = _camel_case_object(inner.get("pushNotificationConfig"))
    name = _CONFIG_NAME.fullmatch(str(inner.get("name") or push.get("parent") or ""))
    task_id = push.get("taskId") or inner.get("taskId") or (name["task"] if name else None)
    if config is None:
        return {"taskId": task_id, "pushNotificationConfig": inner.get("pushNotificationConfig")}
    if not config.get("id"):
        config["id"] = push.get("configId") or (name["id"] if name else None)
    return {"taskId": task_id, "pushNotificationConfig": config}


def _push_to_rest(push: dict[str, Any]) -> dict[str, Any]:
    config = push["pushNotificationConfig"]
    name = f"tasks/{push['taskId']}/pushNotificationConfigs/{config.get('id', '')}"
    return {"name": name, "pushNotificationConfig": config}


def _push_request_to_rest(push: dict[str, Any]) -> dict[str, Any]:
    return {
        "parent": f"tasks/{push['taskId']}",
        "configId": push["pushNotificationConfig"].get("id", ""),
        "config": _push_to_rest(push),
    }


def _send_to_rpc(value: Any) -> Any:
    send = _camel_case_object(value)
    if send is None:
        return value
    _rename(send, "request", "message")
    if "message" in send:
        send["message"] = _message_to_rpc(send["message"], _request_part_to_rpc)
    options = _camel_case_object(send.get("configuration"))
    if options is not None:
        _rename(options, "pushNotification", "pushNotificationConfig")
        # Protobuf JSON omits false.
        options.setdefault("blocking", False)
        send["configuration"] = options
    return send


def _send_to_rest(send: dict[str, Any]) -> dict[str, Any]:
    send["message"] = _message_to_rest(send["message"])
    for part in send["message"]["content"]:
        if "file" in part:  # encoded twice, which this name indicates to servers
            _rename(part["file"], "fileWithBytes", "file_with_bytes")
    _rename(send["configuration"], "pushNotificationConfig", "pushNotification")
    return send


_REQUESTS_TO_RPC: Mapping[Operation, Callable[[Any], Any]] = {
    Operation.SEND: _send_to_rpc,
    Operation.STREAM: _send_to_rpc,
    Operation.PUSH_CREATE: _push_to_rpc,
}
_REQUESTS_TO_REST: Mapping[Operation, Callable[[dict[str, Any]], dict[str, Any]]] = {
    Operation.SEND: _send_to_rest,
    Operation.STREAM: _send_to_rest,
    Operation.PUSH_CREATE: _push_request_to_rest,
}
