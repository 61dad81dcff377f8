"""Encode and decode the requests and responses of the gRPC binding.

The JSON of HTTP+JSON is the JSON form of the protobuf messages in both protocol versions. The wires
read and write that form; this module converts between it and the binary form.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError

from acc.adapters.a2a.wire.errors import error_details, public_message
from acc.adapters.a2a.wire.json_fields import check_depth, encode, field_error
from acc.adapters.a2a.wire.protobuf_schema import (
    METHODS,
    PACKAGES,
    STATUS_PACKAGE,
    Method,
    message_class,
)
from acc.adapters.a2a.wire.protocol import NO_PATH, Operation, Wire
from acc.adapters.a2a.wire.v03_rest import WIRE_V03_REST
from acc.adapters.a2a.wire.v1 import WIRE_V1
from acc.application.a2a.extensions import EVENT_IDS
from acc.application.a2a.requests import (
    GetRequest,
    PushCreateRequest,
    PushRequest,
    Request,
    TaskRequest,
)
from acc.domain.errors import InvalidInput, RemoteFailed, UnsupportedOperation

#: Protobuf allows 100 levels of messages, and has up to three of them for one level of JSON. What
#: is accepted must fit into a task too.
MAX_DEPTH = 30
#: Methods of 0.3 whose names differ from 1.0. Tasks cannot be listed there.
_LEGACY_METHODS = {
    "TaskSubscription": Operation.SUBSCRIBE,
    "ListTaskPushNotificationConfig": Operation.PUSH_LIST,
    "GetAgentCard": Operation.EXTENDED_CARD,
}
_RESOURCE = re.compile(
    r"tasks/(?P<task>[^/]+)(?:/pushNotificationConfigs/(?P<config>[^/]*))?", re.DOTALL
)
#: Trailing metadata with the serialized status of a failed call.
STATUS_METADATA = "grpc-status-details-bin"
_TYPE_PREFIX = "type.googleapis.com/google.rpc."
_DETAIL_TYPES = ("ErrorInfo", "BadRequest")
_MAX_EXACT_INTEGER = 2**53
_MAX_STATUS_BYTES = 64 * 1024
_CONVERSION_ERRORS = (ValueError, TypeError, RecursionError, json_format.Error)


class ProtobufWire:
    """One protocol version in its binary form."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.version = wire.version
        self._package = PACKAGES[wire.version]
        self.methods: Mapping[str, Operation] = {
            method.name: _LEGACY_METHODS.get(method.name) or WIRE_V1.methods[method.name]
            for method in METHODS[wire.version]
        }
        self.by_operation: Mapping[Operation, Method] = {
            self.methods[method.name]: method for method in METHODS[wire.version]
        }

    def read_request(self, operation: Operation, data: bytes, *, max_parts: int) -> Request:
        """Decode a request; raise InvalidInput if it is malformed."""
        method = self.by_operation[operation]
        message = message_class(self._package, method.request)()
        try:
            message.ParseFromString(data)
        except DecodeError:
            raise field_error(
                "request",
                f"is not a valid {method.request}: it is truncated, has text that is not UTF-8, or "
                "is nested too deeply",
            ) from None
        if operation in (Operation.SEND, Operation.STREAM):
            _check_parts(message, max_parts)  # before the parts are converted one by one
        try:
            fields = _to_json(message)
        except _CONVERSION_ERRORS as error:
            raise field_error("request", f"cannot be represented as JSON: {error}") from None
        check_depth(fields, "request", MAX_DEPTH)
        path: Mapping[str, str] = NO_PATH
        if self.version == "0.3":
            path = _path_of(operation, fields)
        return self.wire.read_request(operation, encode(fields), path)

    def write_response(self, operation: Operation, document: bytes) -> bytes:
        """Encode a response or an item of a stream, given as JSON."""
        fields = msgspec.json.decode(document)
        if operation is Operation.EXTENDED_CARD and self.version == "0.3":
            fields = _legacy_card(fields)
        try:
            return self._encode(self.by_operation[operation].response, fields)
        except (*_CONVERSION_ERRORS, EncodeError) as error:
            raise UnsupportedOperation(
                "the response cannot be sent over gRPC, for example because its data is nested too "
                f"deeply; use another binding ({type(error).__name__})"
            ) from None

    def write_request(self, operation: Operation, request: Request) -> bytes:
        """Encode a request; raise InvalidInput if gRPC cannot transmit it."""
        if operation not in self.by_operation:
            raise UnsupportedOperation(f"{operation.value} does not exist in A2A {self.version}")
        fields = self._request_fields(operation, request)
        try:
            return self._encode(self.by_operation[operation].request, fields)
        except (*_CONVERSION_ERRORS, EncodeError) as error:
            raise InvalidInput(f"the request cannot be sent over gRPC: {error}") from None

    def read_response(self, operation: Operation, data: bytes) -> bytes:
        """Decode a response or an item of a stream to JSON; raise RemoteFailed if it is invalid."""
        message = message_class(self._package, self.by_operation[operation].response)()
        try:
            message.ParseFromString(data)
            return encode(_to_json(message))
        except (DecodeError, *_CONVERSION_ERRORS):
            raise RemoteFailed(
                "invalid response of the remote agent: it is not a valid protobuf message",
                remote_code="invalid_agent_response",
            ) from None

    def read_item(self, operation: Operation, data: bytes) -> tuple[str, bytes]:
        """Decode an item of a stream to the id of its event, empty if it has none, and JSON."""
        fields = msgspec.json.decode(self.read_response(operation, data))
        event_id = ""
        for payload in fields.values():
            metadata = payload.get("metadata") if isinstance(payload, dict) else None
            seq = metadata.pop(EVENT_IDS, None) if isinstance(metadata, dict) else None
            event_id = str(seq) if isinstance(seq, int) and seq >= 0 else event_id
        return event_id, encode(fields)

    def _encode(self, name: str, fields: Any) -> bytes:
        message = message_class(self._package, name)()
        # Fields that only exist in JSON are left out.
        json_format.ParseDict(fields, message, ignore_unknown_fields=True)
        data: bytes = message.SerializeToString()
        return data

    def encode_params(self, operation: Operation, params: Mapping[str, Any]) -> bytes:
        """Encode the JSON form of a request."""
        return self._encode(self.by_operation[operation].request, dict(params))

    def _request_fields(self, operation: Operation, request: Request) -> Any:
        if self.version == "0.3":
            match request:
                case GetRequest():
                    name = f"tasks/{request.id}"
                    return {"name": name, "historyLength": request.history_length}
                case TaskRequest():
                    return {"name": f"tasks/{request.id}"}
                case PushRequest() if operation is Operation.PUSH_LIST:
                    return {"parent": f"tasks/{request.task_id}"}
                case PushRequest():
                    name = f"tasks/{request.task_id}/pushNotificationConfigs/{request.id}"
                    return {"name": name}
        fields = msgspec.json.decode(self.wire.write_request(operation, request))
        if isinstance(request, PushCreateRequest) and self.version == "1.0":
            fields.setdefault("taskId", request.config.task_id)
        return fields


def _to_json(message: Any) -> Any:
    return _with_integers(json_format.MessageToDict(message))


def _with_integers(value: Any) -> Any:
    """Return JSON whose whole numbers are integers; protobuf has only floating-point numbers."""
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER:
        return int(value)
    return value


def _check_parts(message: Any, max_parts: int) -> None:
    inner = message.message if hasattr(message, "message") else message.request
    parts: Sequence[Any] = inner.parts if hasattr(inner, "parts") else inner.content
    if len(parts) > max_parts:
        raise field_error("message.parts", f"has {len(parts)} parts; at most {max_parts} allowed")


def _path_of(operation: Operation, fields: dict[str, Any]) -> Mapping[str, str]:
    """Return the parameters that a request of 0.3 has in its resource name."""
    if operation in (Operation.SEND, Operation.STREAM, Operation.PUSH_CREATE):
        return NO_PATH
    if operation is Operation.EXTENDED_CARD:
        return NO_PATH
    field = "parent" if operation is Operation.PUSH_LIST else "name"
    name = fields.pop(field, "")
    match = _RESOURCE.fullmatch(name)
    is_config = operation in (Operation.PUSH_GET, Operation.PUSH_DELETE)
    if match is None or (is_config and match["config"] is None):
        form = "tasks/ID/pushNotificationConfigs/ID" if is_config else "tasks/ID"
        raise field_error(field, f"must have the form {form}")
    if is_config:
        return {"task_id": match["task"], "id": match["config"]}
    if operation is Operation.PUSH_LIST:
        return {"task_id": match["task"]}
    return {"id": match["task"]}


def _legacy_card(card: dict[str, Any]) -> dict[str, Any]:
    """Return a card whose security requirements have the protobuf form of 0.3."""
    card["security"] = card.get("securityRequirements", [])
    for skill in card.get("skills", ()):
        skill["security"] = skill.get("securityRequirements", [])
    return card


PROTOBUF_WIRES: Mapping[str, ProtobufWire] = {
    "1.0": ProtobufWire(WIRE_V1),
    "0.3": ProtobufWire(WIRE_V03_REST),
}


def write_status(error: BaseException, code: int) -> bytes:
    """Encode an error as google.rpc.Status; `code` is the number of its gRPC status."""
    status = message_class(STATUS_PACKAGE, "Status")(code=code, message=public_message(error))
    for fields in error_details(error):
        kind = fields["@type"].removeprefix(_TYPE_PREFIX)
        detail = message_class(STATUS_PACKAGE, kind)()
        json_format.ParseDict(fields, detail, ignore_unknown_fields=True)
        status.details.add(type_url=fields["@type"], value=detail.SerializeToString())
    data: bytes = status.SerializeToString()
    return data


def read_details(data: bytes) -> list[dict[str, Any]]:
    """Return the known error details of a google.rpc.Status; none if it is invalid."""
    details: list[dict[str, Any]] = []
    status = message_class(STATUS_PACKAGE, "Status")()
    try:
        status.ParseFromString(data[:_MAX_STATUS_BYTES])
        for detail in status.details:
            kind = detail.type_url.removeprefix(_TYPE_PREFIX)
            if kind in _DETAIL_TYPES:
                message = message_class(STATUS_PACKAGE, kind).FromString(detail.value)
                details.append(json_format.MessageToDict(message))
    except (DecodeError, *_CONVERSION_ERRORS):
        return []
    return details
