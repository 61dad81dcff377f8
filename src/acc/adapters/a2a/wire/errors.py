"""Map errors to the wire and back, for each protocol version and binding."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.wire.json_fields import InvalidJson, encode
from acc.domain import contract_errors, errors
from acc.domain.errors import AccError, InvalidInput, RemoteFailed

DOMAIN = "a2a-protocol.org"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_FIELD = re.compile(r"(?P<field>[A-Za-z_\[][\w.\[\]-]*): (?P<text>.+)", re.DOTALL)
#: Errors may quote the request; the quotation is truncated.
_MAX_MESSAGE_LENGTH = 1000
_MAX_ID_LENGTH = 256
_MAX_REMOTE_MESSAGE_LENGTH = 500


class InvalidRpcRequest(InvalidInput):
    """Report JSON that is not a JSON-RPC request."""

    code = "invalid_call"


class UnknownMethod(AccError):
    """Report a method or path that does not exist."""

    code = "unknown_method"


class HttpError(AccError):
    """Report a request that is rejected before it is dispatched, with its HTTP status."""

    code = "invalid_request"

    def __init__(self, status: int, text: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.headers = tuple(headers)


class WireError(NamedTuple):
    """An error on the wire: JSON-RPC code, HTTP status, google.rpc status and reason.

    `legacy_type` is the name of the error in protocol version 0.3.
    """

    code: int
    http_status: int
    status: str
    reason: str
    legacy_type: str


_INTERNAL = WireError(-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError")
_INVALID = WireError(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "InvalidParamsError")


def _precondition(code: int, reason: str, legacy_type: str) -> WireError:
    return WireError(code, 400, "FAILED_PRECONDITION", reason, legacy_type)


_UNSUPPORTED = _precondition(-32004, "UNSUPPORTED_OPERATION", "UnsupportedOperationError")
WIRE_ERRORS: Mapping[type[AccError], WireError] = {
    AccError: _INTERNAL,
    InvalidJson: WireError(-32700, 400, "INVALID_ARGUMENT", "JSON_PARSE", "JSONParseError"),
    InvalidRpcRequest: WireError(
        -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "InvalidRequestError"
    ),
    UnknownMethod: WireError(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", "MethodNotFoundError"),
    errors.InvalidInput: _INVALID,
    errors.ContextNotFound: _INVALID,
    contract_errors.UnknownIntent: WireError(
        -32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", "MethodNotFoundError"
    ),
    errors.NotFound: WireError(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError"),
    errors.TaskNotCancelable: _precondition(
        -32002, "TASK_NOT_CANCELABLE", "TaskNotCancelableError"
    ),
    errors.PushNotSupported: _precondition(
        -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "PushNotificationNotSupportedError"
    ),
    errors.UnsupportedOperation: _UNSUPPORTED,
    errors.InvalidTransition: _UNSUPPORTED,
    errors.ContentTypeNotSupported: WireError(
        -32005,
        400,
        "INVALID_ARGUMENT",
        "CONTENT_TYPE_NOT_SUPPORTED",
        "ContentTypeNotSupportedError",
    ),
    errors.ExtendedCardMissing: _precondition(
        -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "ExtendedAgentCardNotConfiguredError"
    ),
    errors.ExtensionRequired: _precondition(
        -32008, "EXTENSION_SUPPORT_REQUIRED", "ExtensionSupportRequiredError"
    ),
    errors.VersionNotSupported: _precondition(
        -32009, "VERSION_NOT_SUPPORTED", "VersionNotSupportedError"
    ),
    errors.Unauthenticated: WireError(
        -32040, 401, "UNAUTHENTICATED", "UNAUTHENTICATED", "UnauthenticatedError"
    ),
    errors.PermissionDenied: WireError(
        -32041, 403, "PERMISSION_DENIED", "PERMISSION_DENIED", "PermissionDeniedError"
    ),
    errors.InsufficientScope: WireError(
        -32041, 403, "PERMISSION_DENIED", "INSUFFICIENT_SCOPE", "PermissionDeniedError"
    ),
    errors.Unavailable: WireError(-32043, 503, "UNAVAILABLE", "UNAVAILABLE", "UnavailableError"),
    errors.LimitExceeded: WireError(
        -32042, 429, "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", "LimitExceededError"
    ),
}
_INVALID_REQUEST = WIRE_ERRORS[InvalidRpcRequest]
_HTTP_ERRORS: Mapping[int, WireError] = {
    404: WIRE_ERRORS[UnknownMethod],
    405: WIRE_ERRORS[UnknownMethod]._replace(status="UNIMPLEMENTED"),
    408: _INVALID_REQUEST._replace(status="DEADLINE_EXCEEDED"),
    413: _INVALID_REQUEST._replace(status="RESOURCE_EXHAUSTED"),
    415: WIRE_ERRORS[errors.ContentTypeNotSupported],
    431: _INVALID_REQUEST._replace(status="RESOURCE_EXHAUSTED"),
}
#: Version 0.3 does not define these codes.
_V03_CODES = {-32008: -32602, -32009: -32602}


def wire_error_for(error: BaseException) -> WireError:
    """Return the representation of an error; an error outside the table is internal."""
    if isinstance(error, HttpError):
        wire_error = _HTTP_ERRORS.get(error.status, _INVALID_REQUEST)
        return wire_error._replace(http_status=error.status)
    return next(
        (WIRE_ERRORS[kind] for kind in type(error).__mro__ if kind in WIRE_ERRORS), _INTERNAL
    )


def encode_rpc_error(error: BaseException, request_id: Any, version: str) -> bytes:
    """Return the JSON-RPC response for an error."""
    wire_error = wire_error_for(error)
    document: dict[str, Any] = {"code": wire_error.code, "message": public_message(error)}
    if version == "0.3":
        document["code"] = _V03_CODES.get(wire_error.code, wire_error.code)
        document |= _legacy_data(error)
    else:
        document["data"] = error_details(error)
    return encode({"jsonrpc": "2.0", "id": request_id, "error": document})


def encode_http_error(error: BaseException, version: str) -> bytes:
    """Return the body of the HTTP+JSON response for an error."""
    wire_error = wire_error_for(error)
    if version == "0.3":
        document: dict[str, Any] = {
            "type": wire_error.legacy_type,
            "code": _V03_CODES.get(wire_error.code, wire_error.code),
            "message": public_message(error),
        }
        return encode(document | _legacy_data(error))
    document = {
        "code": wire_error.http_status,
        "status": wire_error.status,
        "message": public_message(error),
        "details": error_details(error),
    }
    return encode({"error": document})


def grpc_message(error: BaseException, version: str) -> str:
    """Return the message of a gRPC status; clients of 0.3 read the type of the error in it."""
    message = public_message(error)
    return message if version != "0.3" else f"{wire_error_for(error).legacy_type}: {message}"


def public_message(error: BaseException) -> str:
    """Return the text of an error; the text of an internal error is not disclosed.

    Invalid outputs of an intent are internal too, but their text has no values.
    """
    if wire_error_for(error) is _INTERNAL and not isinstance(error, contract_errors.InvalidOutputs):
        return "Internal error"
    return _truncate(str(error), _MAX_MESSAGE_LENGTH) or "Request rejected"


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _field_of(error: BaseException) -> re.Match[str] | None:
    """Return the field that an InvalidInput names, and the rest of its text."""
    if not isinstance(error, InvalidInput):
        return None
    return _FIELD.fullmatch(_truncate(str(error), _MAX_MESSAGE_LENGTH))


def error_details(error: BaseException) -> list[dict[str, Any]]:
    """Return the error details of 1.0: the reason and the invalid field."""
    info: dict[str, Any] = {
        "@type": _ERROR_INFO,
        "reason": wire_error_for(error).reason,
        "domain": DOMAIN,
    }
    details = [info]
    if isinstance(error, errors.TaskNotFound):
        info["metadata"] = {"taskId": _truncate(error.task_id, _MAX_ID_LENGTH)}
    if isinstance(error, errors.InsufficientScope):
        info["metadata"] = {"scope": error.scope}
    if isinstance(error, contract_errors.InvalidInputs):
        violations = [
            {"field": f"{error.place}.{one.field}".rstrip("."), "description": one.description}
            for one in error.violations
        ]
        details.append({"@type": _BAD_REQUEST, "fieldViolations": violations})
    elif field := _field_of(error):
        violation = {"field": field["field"], "description": field["text"]}
        details.append({"@type": _BAD_REQUEST, "fieldViolations": [violation]})
    return details


def _legacy_data(error: BaseException) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if isinstance(error, errors.TaskNotFound):
        data["taskId"] = _truncate(error.task_id, _MAX_ID_LENGTH)
    if field := _field_of(error):
        data["field"] = field["field"]
    return {"data": data} if data else {}


# Errors of remote servers

_RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
_ERROR_TYPES: Mapping[str, Callable[[str], AccError]] = {
    "TASK_NOT_CANCELABLE": errors.TaskNotCancelable,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": errors.PushNotSupported,
    "UNSUPPORTED_OPERATION": errors.UnsupportedOperation,
    "CONTENT_TYPE_NOT_SUPPORTED": errors.ContentTypeNotSupported,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": errors.ExtendedCardMissing,
    "EXTENSION_SUPPORT_REQUIRED": errors.ExtensionRequired,
    "VERSION_NOT_SUPPORTED": errors.VersionNotSupported,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "INSUFFICIENT_SCOPE": errors.PermissionDenied,
    "INVALID_PARAMS": errors.InvalidInput,
}
_REASONS_BY_CODE = {
    -32001: "TASK_NOT_FOUND",
    -32002: "TASK_NOT_CANCELABLE",
    -32003: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    -32004: "UNSUPPORTED_OPERATION",
    -32005: "CONTENT_TYPE_NOT_SUPPORTED",
    -32007: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    -32008: "EXTENSION_SUPPORT_REQUIRED",
    -32009: "VERSION_NOT_SUPPORTED",
    -32602: "INVALID_PARAMS",
}
_REASONS_BY_STATUS = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
_REASONS_BY_GRPC_STATUS = {
    "INVALID_ARGUMENT": "INVALID_PARAMS",
    "NOT_FOUND": "TASK_NOT_FOUND",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
    "UNAUTHENTICATED": "UNAUTHENTICATED",
}
_TEXTS_BY_STATUS = {
    401: "the remote agent requires a valid token",
    403: "the remote agent denied permission to this caller",
}


def error_from_rpc(error: Any, *, task_id: str = "") -> AccError:
    """Return the error for the error object of a JSON-RPC response."""
    if not isinstance(error, Mapping):
        return RemoteFailed("the remote agent failed without an error object")
    code = error.get("code")
    reason = _reason_in(error.get("data")) or _reason_for_code(code)
    return _build_error(reason, _message_in(error), str(code or ""), task_id=task_id)


def error_from_http(status: int, body: bytes, *, task_id: str = "") -> AccError:
    """Return the error for an HTTP response with an error status."""
    document = _decode_object(body)
    inner = document.get("error")
    error = inner if isinstance(inner, Mapping) else document
    code = error.get("code")
    reason = (
        _reason_in(error.get("details"))
        or _reason_in(error.get("data"))
        or _reason_from_legacy_type(error.get("type"))
        or _reason_for_code(code)
        or _REASONS_BY_STATUS.get(status, "")
    )
    message = _message_in(error)
    if not message:
        message = f"HTTP status {status}"
        if status in _TEXTS_BY_STATUS:
            message = f"{_TEXTS_BY_STATUS[status]} ({message})"
    return _build_error(
        reason,
        message,
        str(error.get("status") or code or status),
        task_id=task_id,
        retryable=status in _RETRYABLE_STATUSES,
    )


def error_from_grpc(
    status: str, message: str, details: Sequence[Mapping[str, Any]], *, task_id: str = ""
) -> AccError:
    """Return the error for a gRPC status, given by its name and error details."""
    reason, text = _reason_in(list(details)), message[:_MAX_REMOTE_MESSAGE_LENGTH]
    name, separator, rest = text.partition(": ")
    if separator and (named := _reason_from_legacy_type(name)):
        reason, text = reason or named, rest
    reason = reason or _REASONS_BY_GRPC_STATUS.get(status, "")
    return _build_error(reason, text, status, task_id=task_id)


def _build_error(
    reason: str, message: str, remote_code: str, *, task_id: str, retryable: bool = False
) -> AccError:
    if reason == "TASK_NOT_FOUND":
        # A message that starts a task has no task id; something else was not found.
        return errors.TaskNotFound(task_id) if task_id or not message else errors.NotFound(message)
    kind = _ERROR_TYPES.get(reason)
    if kind is not None and not retryable:
        return kind(message or reason)
    return RemoteFailed(
        f"the remote agent failed: {message or 'no error message'}",
        remote_code=reason or remote_code,
        retryable=retryable,
    )


def _decode_object(body: bytes) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, Mapping) else {}


def _message_in(error: Mapping[str, Any]) -> str:
    for name in ("message", "detail", "title"):
        text = error.get(name)
        if isinstance(text, str) and text:
            return text[:_MAX_REMOTE_MESSAGE_LENGTH]
    return ""


def _reason_for_code(code: Any) -> str:
    return _REASONS_BY_CODE.get(code, "") if isinstance(code, int) else ""


def _reason_in(details: Any) -> str:
    if not isinstance(details, list):
        return ""
    reasons = [detail.get("reason") for detail in details if isinstance(detail, Mapping)]
    return next((reason for reason in reasons if isinstance(reason, str)), "")


def _reason_from_legacy_type(name: Any) -> str:
    """Return the reason of a type name such as TaskNotFoundError."""
    if not isinstance(name, str) or not name.endswith("Error"):
        return ""
    stem = name.removesuffix("Error")
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in stem)[1:].upper()
