"""What servers answer, as far as it can be read, whatever is wrong with it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acc.ports.outbound.probe_ports import ProbeAnswer

_CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "VERSION_NOT_SUPPORTED": -32009,
}
NAMES = {
    -32700: "JSONParseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
    -32001: "TaskNotFoundError",
    -32002: "TaskNotCancelableError",
    -32003: "PushNotificationNotSupportedError",
    -32004: "UnsupportedOperationError",
    -32005: "ContentTypeNotSupportedError",
    -32007: "ExtendedAgentCardNotConfiguredError",
    -32009: "VersionNotSupportedError",
}
ENDED = frozenset({"completed", "failed", "canceled", "rejected"})
WAITING = frozenset({"input-required", "auth-required"})
_STATES = ENDED | WAITING | {"submitted", "working", "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer as far as it can be read: a result, or an error with its code."""

    status: int
    headers: Mapping[str, str]
    result: Any = None
    error: Any = None
    code: int | None = None
    text: str = ""

    @property
    def is_refusal(self) -> bool:
        """Tell whether the server said no, in whatever way."""
        return self.error is not None or self.status >= 400

    @property
    def is_unauthenticated(self) -> bool:
        """Tell whether the server wants other credentials."""
        return self.status in (401, 403)

    @property
    def told(self) -> str:
        """Return the answer in a few words."""
        if not self.is_refusal:
            return f"a result (HTTP {self.status})"
        name = NAMES.get(self.code or 0, "")
        code = "" if self.code is None else f" {self.code}" + (f" {name}" if name else "")
        return f"HTTP {self.status}{code}"


def read_json(body: bytes) -> Any:
    """Return what JSON says, None if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def rpc_reply(answer: ProbeAnswer, document: Any) -> Reply:
    """Return an answer of JSON-RPC as far as it can be read."""
    fields = document if isinstance(document, dict) else {}
    error = fields.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return Reply(
        status=answer.status,
        headers=answer.headers,
        result=fields.get("result"),
        error=error,
        code=code if isinstance(code, int) and code < 0 else None,
        text=answer.body[:100_000].decode("utf-8", "replace"),
    )


def http_reply(answer: ProbeAnswer, document: Any) -> Reply:
    """Return an answer of HTTP+JSON as far as it can be read."""
    is_error = answer.status >= 400
    return Reply(
        status=answer.status,
        headers=answer.headers,
        result=None if is_error else document,
        error=document if is_error else None,
        code=_http_code(document) if is_error else None,
        text=answer.body[:100_000].decode("utf-8", "replace"),
    )


def _http_code(document: Any) -> int | None:
    """Return the code that JSON-RPC has for an error of the HTTP+JSON binding."""
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and detail.get("reason") in _CODES:
            return _CODES[detail["reason"]]
    named = {name: code for code, name in NAMES.items()}
    kind, code = document.get("type"), document.get("code")
    if isinstance(kind, str) and kind in named:
        return named[kind]
    return code if isinstance(code, int) and code < 0 else None


def held(document: Any) -> dict[str, Any]:
    """Return what a result or an event holds, by its kind: task, message, status or artifact."""
    if not isinstance(document, dict):
        return {}
    kinds = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
    if isinstance(kind := document.get("kind"), str):
        return {kinds.get(kind, kind): document}
    for name in ("task", "message", "msg", "statusUpdate", "artifactUpdate"):
        if isinstance(document.get(name), dict):
            return {"message" if name == "msg" else name: document[name]}
    return {"task": document} if "id" in document and "status" in document else {}


def state_of(holder: Any) -> str:
    """Return the state of a task or of a status update, in the words of 0.3; empty if unknown."""
    status = holder.get("status") if isinstance(holder, dict) else None
    state = status.get("state") if isinstance(status, dict) else None
    if not isinstance(state, str):
        return ""
    plain = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    plain = "canceled" if plain == "cancelled" else plain
    return plain if plain in _STATES else ""
