"""What a server's error is to us."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from acc.domain import errors
from acc.domain.errors import AccError, RemoteFailed

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


def from_rpc_error(error: Any, *, task_id: str = "") -> AccError:
    """Return our error for the error object of a JSON-RPC answer."""
    if not isinstance(error, Mapping):
        return RemoteFailed("the remote agent failed and did not say how")
    code = error.get("code")
    reason = _reason(error.get("data")) or _CODES.get(code if isinstance(code, int) else 0, "")
    return _made(reason, _said(error), str(code or ""), task_id=task_id)


def from_http_error(status: int, body: bytes, *, task_id: str = "") -> AccError:
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
