"""Requests and replies of each protocol version and binding as raw JSON.

The doctor does not use the codecs of the A2A adapter: it must detect servers that deviate.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode

from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.ports.outbound.remote_ports import ProbeRequest, ProbeResponse

_CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "VERSION_NOT_SUPPORTED": -32009,
}
ERROR_NAMES = {
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
TERMINAL_STATES = frozenset({"completed", "failed", "canceled", "rejected"})
INTERRUPTED_STATES = frozenset({"input-required", "auth-required"})
_STATES = TERMINAL_STATES | INTERRUPTED_STATES | {"submitted", "working", "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentProbe:
    """The call of an intent that is sent instead of a short text."""

    intent: str
    inputs: Mapping[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a message that activate the extension and name the intent."""
        return {
            "metadata": {INTENTS_EXTENSION: {"skill": self.intent}},
            "extensions": [INTENTS_EXTENSION],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A parsed reply: a result, or an error with its code."""

    status: int
    headers: Mapping[str, str]
    result: Any = None
    error: Any = None
    code: int | None = None
    text: str = ""

    @property
    def is_error(self) -> bool:
        """Return True if the server rejected the request."""
        return self.error is not None or self.status >= 400

    @property
    def is_unauthenticated(self) -> bool:
        """Return True if the server requires other credentials."""
        return self.status in (401, 403)

    @property
    def summary(self) -> str:
        """Return a short description of the reply."""
        if not self.is_error:
            return f"a result (HTTP {self.status})"
        name = ERROR_NAMES.get(self.code or 0, "")
        code = "" if self.code is None else f" {self.code}" + (f" {name}" if name else "")
        return f"HTTP {self.status}{code}"


def wrapped_data(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part as in the protobuf definition of 0.3, where data is in a field of its own."""
    return {"data": {"data": part["data"]}} if "data" in part else dict(part)


def read_json(body: bytes) -> Any:
    """Return the value of a JSON document, or None if it is invalid."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def rpc_reply(response: ProbeResponse, document: Any) -> Reply:
    """Parse a JSON-RPC response."""
    fields = document if isinstance(document, dict) else {}
    error = fields.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return Reply(
        status=response.status,
        headers=response.headers,
        result=fields.get("result"),
        error=error,
        code=code if isinstance(code, int) and code < 0 else None,
        text=response.body[:100_000].decode("utf-8", "replace"),
    )


def http_reply(response: ProbeResponse, document: Any) -> Reply:
    """Parse an HTTP+JSON response."""
    is_error = response.status >= 400
    return Reply(
        status=response.status,
        headers=response.headers,
        result=None if is_error else document,
        error=document if is_error else None,
        code=_http_code(document) if is_error else None,
        text=response.body[:100_000].decode("utf-8", "replace"),
    )


def _http_code(document: Any) -> int | None:
    """Return the JSON-RPC code of an HTTP+JSON error."""
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and detail.get("reason") in _CODES:
            return _CODES[detail["reason"]]
    codes = {name: code for code, name in ERROR_NAMES.items()}
    kind, code = document.get("type"), document.get("code")
    if isinstance(kind, str) and kind in codes:
        return codes[kind]
    return code if isinstance(code, int) and code < 0 else None


def read_payload(document: Any) -> dict[str, Any]:
    """Return the task, message, status or artifact update of a result or event, by its kind."""
    if not isinstance(document, dict):
        return {}
    kinds = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate"}
    if isinstance(kind := document.get("kind"), str):
        return {kinds.get(kind, kind): document}
    for name in ("task", "message", "msg", "statusUpdate", "artifactUpdate"):
        if isinstance(document.get(name), dict):
            return {"message" if name == "msg" else name: document[name]}
    return {"task": document} if "id" in document and "status" in document else {}


def task_state(item: Any) -> str:
    """Return the state of a task or status update in the spelling of 0.3; empty if unknown."""
    status = item.get("status") if isinstance(item, dict) else None
    state = status.get("state") if isinstance(status, dict) else None
    if not isinstance(state, str):
        return ""
    plain = state.removeprefix("TASK_STATE_").lower().replace("_", "-")
    plain = "canceled" if plain == "cancelled" else plain
    return plain if plain in _STATES else ""


JSONRPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"
V1 = "1.0"
V03 = "0.3"


class Op(StrEnum):
    """An operation of the protocol."""

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
    V1: {
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
    V03: {
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
_V03_ROUTES = {Op.EXTENDED: ("GET", "/card"), Op.SUBSCRIBE: ("GET", "/tasks/{task}:subscribe")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCall:
    """A call: an operation, its task, and further arguments."""

    op: Op
    task: str = ""
    config: str = ""
    url: str = ""
    message: Mapping[str, Any] | None = None
    wait: bool = True
    history: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """An interface as the card declares it."""

    url: str
    binding: str
    version: str
    tenant: str = ""

    @property
    def protocol_version(self) -> str:
        """Return major and minor version."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_supported(self) -> bool:
        """Return True if the doctor supports binding and version."""
        return self.binding in (JSONRPC, HTTP_JSON) and self.protocol_version in (V1, V03)

    @property
    def label(self) -> str:
        """Return binding and version."""
        return f"{self.binding} {self.protocol_version}"

    @property
    def _is_v03_http(self) -> bool:
        return self.binding == HTTP_JSON and self.protocol_version == V03

    def message(
        self,
        message_id: str,
        text: str,
        *,
        call: IntentProbe | None = None,
        context: str = "",
        task: str = "",
    ) -> dict[str, Any]:
        """Return a user message: a text, or a call of an intent."""
        part: dict[str, Any] = {"text": text} if call is None else {"data": dict(call.inputs)}
        message: dict[str, Any]
        if self._is_v03_http:
            message = {"role": "ROLE_USER", "content": [wrapped_data(part)]}
        elif self.protocol_version == V03:
            part = {"kind": "text" if call is None else "data", **part}
            message = {"kind": "message", "role": "user", "parts": [part]}
        else:
            message = {"role": "ROLE_USER", "parts": [part]}
        if call is not None:
            message |= call.fields
        message["messageId"] = message_id
        if context:
            message["contextId"] = context
        if task:
            message["taskId"] = task
        return message

    def request(self, call: ProbeCall, headers: Mapping[str, str]) -> ProbeRequest:
        """Return the HTTP request of a call."""
        params = self._params(call)
        if self.binding == JSONRPC:
            return self.call(_METHODS[self.protocol_version][call.op], params, headers)
        return self._http_request(call, params, headers)

    def call(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ProbeRequest:
        """Return the HTTP request of a JSON-RPC call of any method."""
        document = {"jsonrpc": "2.0", "id": "acc-doctor", "method": method, "params": params}
        return self.post(self.url, json.dumps(document).encode(), headers)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> ProbeRequest:
        """Return a POST request with a JSON content type."""
        return ProbeRequest(
            method="POST",
            url=url,
            headers={"Content-Type": "application/json", **self.head(headers)},
            body=body,
        )

    def head(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the common headers and `headers`; an empty A2A-Version is omitted."""
        version = {} if self.protocol_version == V03 else {"A2A-Version": self.protocol_version}
        return {
            name: value
            for name, value in {**_ACCEPT, **version, **headers}.items()
            if value or name != "A2A-Version"
        }

    def _http_request(
        self, call: ProbeCall, params: dict[str, Any], headers: Mapping[str, str]
    ) -> ProbeRequest:
        routes = _ROUTES | (_V03_ROUTES if self.protocol_version == V03 else {})
        method, pattern = routes[call.op]
        path = pattern.format(task=quote(call.task, safe=""), config=quote(call.config, safe=""))
        url = self.http_base + path
        if method == "POST":
            return self.post(url, json.dumps(params).encode(), headers)
        query = {"historyLength": call.history} if call.history is not None else {}
        if call.op is Op.LIST:
            query["pageSize"] = params["pageSize"]
        url += f"?{urlencode(query)}" if query else ""
        return ProbeRequest(method=method, url=url, headers=self.head(headers))

    @property
    def http_base(self) -> str:
        """Return the base URL of the HTTP+JSON binding."""
        base = self.url.rstrip("/")
        if self.tenant:
            base += f"/{quote(self.tenant, safe='')}"
        if self.protocol_version == V03 and not base.endswith("/v1"):
            base += "/v1"
        return base

    def _params(self, call: ProbeCall) -> dict[str, Any]:
        params = _PARAMS.get(call.op, _id_params)(self, call)
        if self.tenant and self.binding == JSONRPC:
            params["tenant"] = self.tenant
        return params

    def read(self, response: ProbeResponse) -> Reply:
        """Parse a response."""
        document = read_json(response.body)
        if self.binding == JSONRPC:
            return rpc_reply(response, document)
        return http_reply(response, document)

    def item(self, data: str) -> dict[str, Any]:
        """Return the payload of a stream event, by its kind; `error` if it is an error."""
        document = read_json(data.encode())
        if self.binding == JSONRPC and isinstance(document, dict):
            if "error" in document:
                return {"error": document["error"]}
            document = document.get("result")
        return read_payload(document)


_ACCEPT = {"Accept": "application/json, application/a2a+json, text/event-stream"}


def _id_params(interface: Interface, call: ProbeCall) -> dict[str, Any]:
    params: dict[str, Any] = {"id": call.task} if interface.binding == JSONRPC else {}
    if call.history is not None:
        params["historyLength"] = call.history
    return params


def _send_params(interface: Interface, call: ProbeCall) -> dict[str, Any]:
    configuration: dict[str, Any] = {"blocking": call.wait}
    if interface.protocol_version == V1:
        configuration = {} if call.wait else {"returnImmediately": True}
    return {"message": dict(call.message or {}), "configuration": configuration}


def _list_params(interface: Interface, call: ProbeCall) -> dict[str, Any]:
    return {"pageSize": 5}


def _push_params(interface: Interface, call: ProbeCall) -> dict[str, Any]:
    config = {"id": call.config, "url": call.url}
    if interface.protocol_version == V1:
        return {"taskId": call.task, **config}
    if interface.binding == JSONRPC:
        return {"taskId": call.task, "pushNotificationConfig": config}
    name = f"tasks/{call.task}/pushNotificationConfigs/{call.config}"
    return {
        "parent": f"tasks/{call.task}",
        "configId": call.config,
        "config": {"name": name, "pushNotificationConfig": config},
    }


def _push_delete_params(interface: Interface, call: ProbeCall) -> dict[str, Any]:
    if interface.protocol_version == V1:
        return {"taskId": call.task, "id": call.config}
    return {"id": call.task, "pushNotificationConfigId": call.config}


def _no_params(interface: Interface, call: ProbeCall) -> dict[str, Any]:
    return {}


_PARAMS = {
    Op.SEND: _send_params,
    Op.STREAM: _send_params,
    Op.LIST: _list_params,
    Op.PUSH_CREATE: _push_params,
    Op.PUSH_DELETE: _push_delete_params,
    Op.EXTENDED: _no_params,
}


def v1_state(state: str) -> str:
    """Return a state in the spelling of 1.0."""
    return f"TASK_STATE_{state.upper().replace('-', '_')}"
