"""How each generation and binding says the same few things, as raw JSON.

The examiner writes its own JSON instead of using the codecs: what it looks for are servers that
differ from them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode

from acc.ports.outbound.remote_ports import ProbeAnswer, ProbeRequest

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


JSONRPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"
ONE = "1.0"
OLD = "0.3"


class Op(StrEnum):
    """What can be asked of a server."""

    SEND = "send"
    STREAM = "stream"
    GET = "get"
    LIST = "list"
    CANCEL = "cancel"
    SUBSCRIBE = "subscribe"
    PUSH_CREATE = "push-create"
    PUSH_DELETE = "push-delete"
    EXTENDED = "extended-card"


_METHODS = {
    ONE: {
        Op.SEND: "SendMessage",
        Op.STREAM: "SendStreamingMessage",
        Op.GET: "GetTask",
        Op.LIST: "ListTasks",
        Op.CANCEL: "CancelTask",
        Op.SUBSCRIBE: "SubscribeToTask",
        Op.PUSH_CREATE: "CreateTaskPushNotificationConfig",
        Op.PUSH_DELETE: "DeleteTaskPushNotificationConfig",
        Op.EXTENDED: "GetExtendedAgentCard",
    },
    OLD: {
        Op.SEND: "message/send",
        Op.STREAM: "message/stream",
        Op.GET: "tasks/get",
        Op.LIST: "tasks/list",
        Op.CANCEL: "tasks/cancel",
        Op.SUBSCRIBE: "tasks/resubscribe",
        Op.PUSH_CREATE: "tasks/pushNotificationConfig/set",
        Op.PUSH_DELETE: "tasks/pushNotificationConfig/delete",
        Op.EXTENDED: "agent/getAuthenticatedExtendedCard",
    },
}
_ROUTES = {
    Op.SEND: ("POST", "/message:send"),
    Op.STREAM: ("POST", "/message:stream"),
    Op.GET: ("GET", "/tasks/{task}"),
    Op.LIST: ("GET", "/tasks"),
    Op.CANCEL: ("POST", "/tasks/{task}:cancel"),
    Op.SUBSCRIBE: ("POST", "/tasks/{task}:subscribe"),
    Op.PUSH_CREATE: ("POST", "/tasks/{task}/pushNotificationConfigs"),
    Op.PUSH_DELETE: ("DELETE", "/tasks/{task}/pushNotificationConfigs/{config}"),
    Op.EXTENDED: ("GET", "/extendedAgentCard"),
}
_OLD_ROUTES = {Op.EXTENDED: ("GET", "/card"), Op.SUBSCRIBE: ("GET", "/tasks/{task}:subscribe")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked: an operation, the task it is about, and the rest as the dialect says it."""

    op: Op
    task: str = ""
    config: str = ""
    url: str = ""
    message: Mapping[str, Any] | None = None
    wait: bool = True
    history: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Where and how a server can be spoken to, as its card says it."""

    url: str
    binding: str
    version: str
    tenant: str = ""

    @property
    def generation(self) -> str:
        """Return major and minor number of the version."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_spoken(self) -> bool:
        """Tell whether the examiner speaks this."""
        return self.binding in (JSONRPC, HTTP_JSON) and self.generation in (ONE, OLD)

    @property
    def told(self) -> str:
        """Return the interface in a few words."""
        return f"{self.binding} {self.generation}"

    @property
    def _is_old_http(self) -> bool:
        return self.binding == HTTP_JSON and self.generation == OLD

    def message(
        self, message_id: str, text: str, *, context: str = "", task: str = ""
    ) -> dict[str, Any]:
        """Return a message of the user."""
        if self._is_old_http:
            told: dict[str, Any] = {"role": "ROLE_USER", "content": [{"text": text}]}
        elif self.generation == OLD:
            part = {"kind": "text", "text": text}
            told = {"kind": "message", "role": "user", "parts": [part]}
        else:
            told = {"role": "ROLE_USER", "parts": [{"text": text}]}
        told["messageId"] = message_id
        if context:
            told["contextId"] = context
        if task:
            told["taskId"] = task
        return told

    def request(self, ask: Ask, headers: Mapping[str, str]) -> ProbeRequest:
        """Return the request that asks for something."""
        params = self._params(ask)
        if self.binding == JSONRPC:
            return self.call(_METHODS[self.generation][ask.op], params, headers)
        return self._routed(ask, params, headers)

    def call(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ProbeRequest:
        """Return a JSON-RPC call of any method."""
        document = {"jsonrpc": "2.0", "id": "acc-doctor", "method": method, "params": params}
        return self.post(self.url, json.dumps(document).encode(), headers)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> ProbeRequest:
        """Return a request with a body that is said to be JSON."""
        return ProbeRequest(
            method="POST",
            url=url,
            headers={"Content-Type": "application/json", **self.head(headers)},
            body=body,
        )

    def head(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of every request; a version that is given stands."""
        version = {} if self.generation == OLD else {"A2A-Version": self.generation}
        return {
            name: value
            for name, value in {**_ACCEPT, **version, **headers}.items()
            if value or name != "A2A-Version"
        }

    def _routed(self, ask: Ask, params: dict[str, Any], headers: Mapping[str, str]) -> ProbeRequest:
        routes = _ROUTES | (_OLD_ROUTES if self.generation == OLD else {})
        method, pattern = routes[ask.op]
        path = pattern.format(task=quote(ask.task, safe=""), config=quote(ask.config, safe=""))
        url = self.http_base + path
        if method == "POST":
            return self.post(url, json.dumps(params).encode(), headers)
        query = {"historyLength": ask.history} if ask.history is not None else {}
        if ask.op is Op.LIST:
            query["pageSize"] = params["pageSize"]
        url += f"?{urlencode(query)}" if query else ""
        return ProbeRequest(method=method, url=url, headers=self.head(headers))

    @property
    def http_base(self) -> str:
        """Return what the paths of the HTTP+JSON binding begin with."""
        base = self.url.rstrip("/")
        if self.tenant:
            base += f"/{quote(self.tenant, safe='')}"
        if self.generation == OLD and not base.endswith("/v1"):
            base += "/v1"
        return base

    def _params(self, ask: Ask) -> dict[str, Any]:
        params = _PARAMS.get(ask.op, _by_id)(self, ask)
        if self.tenant and self.binding == JSONRPC:
            params["tenant"] = self.tenant
        return params

    def read(self, answer: ProbeAnswer) -> Reply:
        """Return an answer as far as it can be read."""
        document = read_json(answer.body)
        if self.binding == JSONRPC:
            return rpc_reply(answer, document)
        return http_reply(answer, document)

    def item(self, data: str) -> dict[str, Any]:
        """Return what an event of a stream holds, by its kind; `error` if it is an error."""
        document = read_json(data.encode())
        if self.binding == JSONRPC and isinstance(document, dict):
            if "error" in document:
                return {"error": document["error"]}
            document = document.get("result")
        return held(document)


_ACCEPT = {"Accept": "application/json, application/a2a+json, text/event-stream"}


def _by_id(interface: Interface, ask: Ask) -> dict[str, Any]:
    params: dict[str, Any] = {"id": ask.task} if interface.binding == JSONRPC else {}
    if ask.history is not None:
        params["historyLength"] = ask.history
    return params


def _sending(interface: Interface, ask: Ask) -> dict[str, Any]:
    waiting = {"blocking": ask.wait}
    if interface.generation == ONE:
        waiting = {} if ask.wait else {"returnImmediately": True}
    return {"message": dict(ask.message or {}), "configuration": waiting}


def _listing(interface: Interface, ask: Ask) -> dict[str, Any]:
    return {"pageSize": 5}


def _pushing(interface: Interface, ask: Ask) -> dict[str, Any]:
    config = {"id": ask.config, "url": ask.url}
    if interface.generation == ONE:
        return {"taskId": ask.task, **config}
    if interface.binding == JSONRPC:
        return {"taskId": ask.task, "pushNotificationConfig": config}
    name = f"tasks/{ask.task}/pushNotificationConfigs/{ask.config}"
    return {
        "parent": f"tasks/{ask.task}",
        "configId": ask.config,
        "config": {"name": name, "pushNotificationConfig": config},
    }


def _unpushing(interface: Interface, ask: Ask) -> dict[str, Any]:
    if interface.generation == ONE:
        return {"taskId": ask.task, "id": ask.config}
    return {"id": ask.task, "pushNotificationConfigId": ask.config}


def _nothing(interface: Interface, ask: Ask) -> dict[str, Any]:
    return {}


_PARAMS = {
    Op.SEND: _sending,
    Op.STREAM: _sending,
    Op.LIST: _listing,
    Op.PUSH_CREATE: _pushing,
    Op.PUSH_DELETE: _unpushing,
    Op.EXTENDED: _nothing,
}


def spelled_state(state: str) -> str:
    """Return how generation 1.0 writes a state."""
    return f"TASK_STATE_{state.upper().replace('-', '_')}"
