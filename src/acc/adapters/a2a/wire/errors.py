"""Errors on the wire: one table, and the whole document for each generation and binding."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from acc.adapters.a2a.server.asgi import HttpError
from acc.adapters.a2a.wire.json_fields import InvalidJson, encode
from acc.domain import errors
from acc.domain.errors import AccError, InvalidInput, RemoteFailed

DOMAIN = "a2a-protocol.org"
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_FIELD = re.compile(r"(?P<field>[A-Za-z_\[][\w.\[\]-]*): (?P<text>.+)", re.DOTALL)
#: What a client sent is repeated to it only so far.
_MOST_TEXT = 1000
_MOST_ID = 256


class InvalidRpcRequest(InvalidInput):
    """Report JSON that is no call of a method."""

    code = "invalid_call"


class UnknownMethod(AccError):
    """Report a method, or an address, that does not exist here."""

    code = "unknown_method"


class WireError(NamedTuple):
    """How an error is told: JSON-RPC code, HTTP status, google.rpc status and reason.

    `legacy` is the name that 0.3 has for it.
    """

    code: int
    http: int
    status: str
    reason: str
    legacy: str


_INTERNAL = WireError(-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError")
_INVALID = WireError(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS", "InvalidParamsError")


def _precondition(code: int, reason: str, legacy: str) -> WireError:
    return WireError(code, 400, "FAILED_PRECONDITION", reason, legacy)


WIRE_ERRORS: Mapping[type[AccError], WireError] = {
    AccError: _INTERNAL,
    InvalidJson: WireError(-32700, 400, "INVALID_ARGUMENT", "JSON_PARSE", "JSONParseError"),
    InvalidRpcRequest: WireError(
        -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST", "InvalidRequestError"
    ),
    UnknownMethod: WireError(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND", "MethodNotFoundError"),
    errors.InvalidInput: _INVALID,
    errors.ContextNotFound: _INVALID,
    errors.NotFound: WireError(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError"),
    errors.TaskNotCancelable: _precondition(
        -32002, "TASK_NOT_CANCELABLE", "TaskNotCancelableError"
    ),
    errors.PushNotSupported: _precondition(
        -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "PushNotificationNotSupportedError"
    ),
    errors.UnsupportedOperation: _precondition(
        -32004, "UNSUPPORTED_OPERATION", "UnsupportedOperationError"
    ),
    errors.InvalidTransition: _precondition(
        -32004, "UNSUPPORTED_OPERATION", "UnsupportedOperationError"
    ),
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
    errors.LimitExceeded: WireError(
        -32042, 429, "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", "LimitExceededError"
    ),
}
_REFUSED = WIRE_ERRORS[InvalidRpcRequest]
#: What HTTP refuses before the protocol has a say.
_HTTP_FAULTS: Mapping[int, WireError] = {
    404: WIRE_ERRORS[UnknownMethod],
    405: WIRE_ERRORS[UnknownMethod]._replace(status="UNIMPLEMENTED"),
    408: _REFUSED._replace(status="DEADLINE_EXCEEDED"),
    413: _REFUSED._replace(status="RESOURCE_EXHAUSTED"),
    415: WIRE_ERRORS[errors.ContentTypeNotSupported],
    431: _REFUSED._replace(status="RESOURCE_EXHAUSTED"),
}
#: 0.3 has no name for these.
_LATER = {-32008: -32602, -32009: -32602}


def wire_error_for(error: BaseException) -> WireError:
    """Return how an error is told; what is not in the table is internal."""
    if isinstance(error, HttpError):
        return _HTTP_FAULTS.get(error.status, _REFUSED)._replace(http=error.status)
    return next(
        (WIRE_ERRORS[kind] for kind in type(error).__mro__ if kind in WIRE_ERRORS), _INTERNAL
    )


def public_message(error: BaseException) -> str:
    """Return an error's text; that of an internal one is not for others to see."""
    if wire_error_for(error) is _INTERNAL:
        return "Internal error"
    return _short(str(error), _MOST_TEXT) or "Request refused"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def error_details(error: BaseException) -> list[dict[str, Any]]:
    """Return what 1.0 tells of an error: its reason, and which field is at fault."""
    details: list[dict[str, Any]] = [
        {"@type": _INFO, "reason": wire_error_for(error).reason, "domain": DOMAIN}
    ]
    if isinstance(error, errors.TaskNotFound):
        details[0]["metadata"] = {"taskId": _short(error.task_id, _MOST_ID)}
    placed = (
        _FIELD.fullmatch(_short(str(error), _MOST_TEXT))
        if isinstance(error, InvalidInput)
        else None
    )
    if placed:
        violation = {"field": placed["field"], "description": placed["text"]}
        details.append({"@type": _BAD_REQUEST, "fieldViolations": [violation]})
    return details


def encode_rpc_error(error: BaseException, call_id: Any, version: str) -> bytes:
    """Return the whole JSON-RPC answer for an error."""
    told = wire_error_for(error)
    document: dict[str, Any] = {"code": told.code, "message": public_message(error)}
    if version == "0.3":
        document["code"] = _LATER.get(told.code, told.code)
        document |= _legacy_data(error)
    else:
        document["data"] = error_details(error)
    return encode({"jsonrpc": "2.0", "id": call_id, "error": document})


def encode_http_error(error: BaseException, version: str) -> bytes:
    """Return the whole body of an HTTP answer for an error; its status is in the table."""
    told = wire_error_for(error)
    if version == "0.3":
        document: dict[str, Any] = {
            "type": told.legacy,
            "code": _LATER.get(told.code, told.code),
            "message": public_message(error),
        }
        return encode(document | _legacy_data(error))
    document = {
        "code": told.http,
        "status": told.status,
        "message": public_message(error),
        "details": error_details(error),
    }
    return encode({"error": document})


def _legacy_data(error: BaseException) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if isinstance(error, errors.TaskNotFound):
        data["taskId"] = _short(error.task_id, _MOST_ID)
    placed = (
        _FIELD.fullmatch(_short(str(error), _MOST_TEXT))
        if isinstance(error, InvalidInput)
        else None
    )
    if placed:
        data["field"] = placed["field"]
    return {"data": data} if data else {}


_RETRYABLE = frozenset({429, 502, 503, 504})
_LONGEST = 500
_KINDS: Mapping[str, Callable[[str], AccError]] = {
    "TASK_NOT_CANCELABLE": errors.TaskNotCancelable,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": errors.PushNotSupported,
    "UNSUPPORTED_OPERATION": errors.UnsupportedOperation,
    "CONTENT_TYPE_NOT_SUPPORTED": errors.ContentTypeNotSupported,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": errors.ExtendedCardMissing,
    "EXTENSION_SUPPORT_REQUIRED": errors.ExtensionRequired,
    "VERSION_NOT_SUPPORTED": errors.VersionNotSupported,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "PERMISSION_DENIED": errors.PermissionDenied,
    "INVALID_PARAMS": errors.InvalidInput,
}
_CODES = {
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
_STATUSES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
_WORDS = {
    401: "the remote agent wants a token that is good",
    403: "the remote agent does not let this caller do that",
}


def error_from_rpc(error: Any, *, task_id: str = "") -> AccError:
    """Return our error for the error object of a JSON-RPC answer."""
    if not isinstance(error, Mapping):
        return RemoteFailed("the remote agent failed and did not say how")
    code = error.get("code")
    reason = _reason(error.get("data")) or _CODES.get(code if isinstance(code, int) else 0, "")
    return _made(reason, _said(error), str(code or ""), task_id=task_id)


def error_from_http(status: int, body: bytes, *, task_id: str = "") -> AccError:
    """Return our error for an HTTP answer that is not a success."""
    document = _object(body)
    inner = document.get("error")
    error = inner if isinstance(inner, Mapping) else document
    code = error.get("code")
    reason = (
        _reason(error.get("details"))
        or _reason(error.get("data"))
        or _legacy_reason(error.get("type"))
        or _CODES.get(code if isinstance(code, int) else 0, "")
        or _STATUSES.get(status, "")
    )
    said = _said(error) or _without_words(status)
    remote_code = str(error.get("status") or code or status)
    retryable = status in _RETRYABLE
    return _made(reason, said, remote_code, task_id=task_id, retryable=retryable)


def _without_words(status: int) -> str:
    told = f"HTTP status {status}"
    return f"{_WORDS[status]} ({told})" if status in _WORDS else told


def _made(
    reason: str, said: str, remote_code: str, *, task_id: str, retryable: bool = False
) -> AccError:
    kind = _KINDS.get(reason)
    if reason == "TASK_NOT_FOUND":
        # A message that begins a task has none that could be missing.
        return errors.TaskNotFound(task_id) if task_id or not said else errors.NotFound(said)
    if kind is not None and not retryable:
        return kind(said or reason)
    return RemoteFailed(
        f"the remote agent failed: {said or 'it did not say how'}",
        remote_code=reason or remote_code,
        retryable=retryable,
    )


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return document if isinstance(document, Mapping) else {}


def _said(error: Mapping[str, Any]) -> str:
    for name in ("message", "detail", "title"):
        text = error.get(name)
        if isinstance(text, str) and text:
            return text[:_LONGEST]
    return ""


def _reason(details: Any) -> str:
    if not isinstance(details, list):
        return ""
    reasons = [detail.get("reason") for detail in details if isinstance(detail, Mapping)]
    return next((reason for reason in reasons if isinstance(reason, str)), "")


def _legacy_reason(name: Any) -> str:
    """Return the reason behind a name like TaskNotFoundError."""
    if not isinstance(name, str) or not name.endswith("Error"):
        return ""
    stem = name.removesuffix("Error")
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in stem)[1:].upper()
