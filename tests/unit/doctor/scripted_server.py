"""In-memory server that conforms to the protocol unless a test overrides it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import ProbeEvent, ProbeRequest, ProbeResponse, ProbeStream

URL = "https://agents.example"
TOKENS = {"ann-token": "ann", "bob-token": "bob"}
OPS = {
    "SendMessage": "send",
    "SendStreamingMessage": "stream",
    "GetTask": "get",
    "ListTasks": "list",
    "CancelTask": "cancel",
    "SubscribeToTask": "subscribe",
    "CreateTaskPushNotificationConfig": "push-create",
    "DeleteTaskPushNotificationConfig": "push-delete",
    "GetExtendedAgentCard": "extended-card",
    "message/send": "send",
    "message/stream": "stream",
    "tasks/get": "get",
    "tasks/cancel": "cancel",
    "tasks/resubscribe": "subscribe",
    "tasks/pushNotificationConfig/set": "push-create",
    "tasks/pushNotificationConfig/delete": "push-delete",
    "agent/getAuthenticatedExtendedCard": "extended-card",
}
REASONS = {-32001: "TASK_NOT_FOUND", -32004: "UNSUPPORTED_OPERATION", -32002: "TASK_NOT_CANCELABLE"}


class Refusal(Exception):
    """An error of the protocol, with an HTTP status if it needs one."""

    def __init__(self, code: int, status: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.status = status
        self.headers = headers or {}


Override = Callable[["ScriptedServer", dict[str, Any], ProbeRequest], Any]


def card(**changes: Any) -> dict[str, Any]:
    base = {
        "name": "greeter",
        "description": "Greets whoever writes to it.",
        "version": "1",
        "protocolVersion": "0.3.0",
        "url": f"{URL}/",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": URL, "transport": "HTTP+JSON"}],
        "supportedInterfaces": [
            {"url": f"{URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": URL, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": f"{URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        ],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {"id": "greet", "name": "Greet", "description": "Greets politely.", "tags": ["hello"]}
        ],
    }
    return {name: value for name, value in (base | changes).items() if value is not None}


class ScriptedServer:
    """Serves the card and one agent to two callers; `overrides` are by operation or path."""

    def __init__(self, document: Any = None, **overrides: Any) -> None:
        self.document = card() if document is None else document
        self.overrides = {name.replace("_", "-"): what for name, what in overrides.items()}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.requests: list[ProbeRequest] = []
        self.state = "completed"
        self.is_open = False
        #: Whether streams stay open after their last event.
        self.stays_open = False

    # The port

    async def exchange(self, request: ProbeRequest) -> ProbeResponse:
        self.requests.append(request)
        path = urlsplit(request.url).path
        for name in (path, request.url):
            if name in self.overrides:
                return self._overridden(name, {}, request)  # type: ignore[no-any-return]
        if request.method == "GET" and (".json" in path or path.startswith("/agent/")):
            return self._document(path, request)
        try:
            return self._called(request)
        except Refusal as refusal:
            return self._refused(refusal, request)

    @asynccontextmanager
    async def stream(self, request: ProbeRequest) -> AsyncIterator[ProbeStream]:
        answer = await self.exchange(request)
        events_header = answer.headers.get("x-events")
        headers = {"content-type": "text/event-stream"} if events_header else answer.headers
        events = json.loads(answer.body) if events_header else []
        yield ProbeStream(
            response=ProbeResponse(
                status=answer.status, headers=headers, body=b"" if events_header else answer.body
            ),
            events=_each(events, stays_open=self.stays_open),
        )

    def _overridden(self, name: str, params: dict[str, Any], request: ProbeRequest) -> Any:
        what = self.overrides[name]
        if callable(what):
            what = what(self, params, request)
        if isinstance(what, Exception):
            raise what
        return what

    def _document(self, path: str, request: ProbeRequest) -> ProbeResponse:
        if path not in ("/.well-known/agent-card.json", "/.well-known/agent.json"):
            return ProbeResponse(status=404)
        headers = {
            "content-type": "application/json",
            "etag": '"1"',
            "cache-control": "max-age=60",
            "strict-transport-security": "max-age=1",
        }
        if request.headers.get("If-None-Match") == '"1"':
            return ProbeResponse(status=304, headers=headers)
        return ProbeResponse(status=200, headers=headers, body=json.dumps(self.document).encode())

    def _called(self, request: ProbeRequest) -> ProbeResponse:
        if len(request.body) > 8 * 1024 * 1024:
            return ProbeResponse(status=413)
        if len(request.headers.get("X-Acc-Doctor", "")) > 50_000:
            return ProbeResponse(status=431)
        version = request.headers.get("A2A-Version", "0.3")
        if version not in ("1.0", "0.3"):
            raise Refusal(-32009)
        op, params = self._asked(request)
        if version == "0.3" and op == "get" and b"GetTask" in request.body:
            raise Refusal(-32601)
        caller = self._caller(request)
        if op in self.overrides:
            result = self._overridden(op, params, request)
        else:
            result = getattr(self, f"do_{op.replace('-', '_')}")(params, caller, request)
        if isinstance(result, ProbeResponse):
            return result
        return self._transcript(result, request)

    def _transcript(self, result: Any, request: ProbeRequest) -> ProbeResponse:
        is_rpc = urlsplit(request.url).path == "/"
        if isinstance(result, list):
            events = [
                {"id": each[0], "data": json.dumps({"result": each[1]} if is_rpc else each[1])}
                for each in result
            ]
            return ProbeResponse(
                status=200, headers={"x-events": "1"}, body=json.dumps(events).encode()
            )
        transcript = {"jsonrpc": "2.0", "id": 1, "result": result} if is_rpc else result
        return ProbeResponse(status=200, body=json.dumps(transcript).encode())

    def _refused(self, refusal: Refusal, request: ProbeRequest) -> ProbeResponse:
        if urlsplit(request.url).path == "/":
            error: Any = {"error": {"code": refusal.code, "message": "no"}}
            status = refusal.status
        elif "/v1/" in request.url:
            names = {-32001: "TaskNotFoundError"}
            error = {"type": names.get(refusal.code, 7), "code": refusal.code}
            status = 404 if refusal.status == 200 else refusal.status
        else:
            details = [{"@type": "x"}, {"reason": REASONS.get(refusal.code, "OTHER")}]
            error = {"error": {"code": 400, "details": details}}
            status = 400 if refusal.status == 200 else refusal.status
        return ProbeResponse(
            status=status, headers=refusal.headers, body=json.dumps(error).encode()
        )

    def _asked(self, request: ProbeRequest) -> tuple[str, dict[str, Any]]:
        path = urlsplit(request.url).path
        if path == "/":
            try:
                call = json.loads(request.body)
            except (ValueError, RecursionError):
                raise Refusal(-32700) from None
            if call["method"] not in OPS:
                raise Refusal(-32601)
            return OPS[call["method"]], call["params"]
        return self._routed(path.removeprefix("/v1"), request)

    def _routed(self, path: str, request: ProbeRequest) -> tuple[str, dict[str, Any]]:
        try:
            params = json.loads(request.body) if request.body else {}
        except (ValueError, RecursionError):
            raise Refusal(-32700, 400) from None
        for name in ("send", "stream"):
            if path == f"/message:{name}":
                return name, params
        if path in ("/extendedAgentCard", "/card"):
            return "extended-card", {}
        parts = path.strip("/").split("/")
        if parts[0] != "tasks":
            raise Refusal(-32601, 404)
        if len(parts) == 1:
            return "list", {}
        if len(parts) == 2:
            task, _, verb = parts[1].partition(":")
            return verb or "get", {**params, "id": task}
        return ("push-create" if request.method == "POST" else "push-delete"), params

    def _caller(self, request: ProbeRequest) -> str:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.is_open:
            return "anyone"
        if token not in TOKENS:
            raise Refusal(-32040, 401, {"www-authenticate": "Bearer"})
        return TOKENS[token]

    # Agent behaviour

    def make(self, caller: str, *, state: str = "", context: str = "") -> dict[str, Any]:
        name = f"t{len(self.tasks) + 1}"
        task = {
            "id": name,
            "contextId": context or f"c-{caller}",
            "status": {
                "state": f"TASK_STATE_{(state or self.state).upper()}",
                "timestamp": "2026-01-01T00:00:00.000Z",
            },
        }
        self.tasks[name] = task
        self.owners[name] = caller
        return task

    def find(self, params: dict[str, Any], caller: str) -> dict[str, Any]:
        if self.owners.get(params["id"]) != caller:
            raise Refusal(-32001)
        return self.tasks[params["id"]]

    def do_send(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        message = params["message"]
        parts = message.get("parts", message.get("content"))
        if not isinstance(parts, list) or not parts:
            raise Refusal(-32602)
        if "taskId" in message:
            self.find({"id": message["taskId"]}, caller)
            raise Refusal(-32004)
        if message.get("contextId", f"c-{caller}") != f"c-{caller}":
            raise Refusal(-32602)
        known = self.messages.get(message["messageId"])
        configuration = params.get("configuration", {})
        is_late = configuration.get("returnImmediately") or configuration.get("blocking") is False
        if known is None:
            task = self.make(caller, state="working" if is_late else "")
            self.messages[message["messageId"]] = task["id"]
        else:
            task = self.tasks[known]
        if message.get("kind"):
            return {"kind": "task", **task}
        return {"task": task}

    def do_get(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        return self.find(params, caller)

    def do_list(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        tasks = [task for name, task in self.tasks.items() if self.owners[name] == caller]
        return {"tasks": tasks, "nextPageToken": "", "pageSize": 5, "totalSize": len(tasks)}

    def do_cancel(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        task = self.find(params, caller)
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            raise Refusal(-32002)
        task["status"]["state"] = "TASK_STATE_CANCELED"
        return task

    def do_stream(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        task = self.make(caller)
        before = {**task, "status": {"state": "TASK_STATE_WORKING"}}
        done = {"taskId": task["id"], "contextId": task["contextId"], "status": task["status"]}
        return [("1", {"task": before}), ("2", {"statusUpdate": done})]

    def do_subscribe(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        task = self.find(params, caller)
        done = {"taskId": task["id"], "contextId": task["contextId"], "status": task["status"]}
        if "Last-Event-ID" in request.headers:
            return [("2", {"statusUpdate": done})]
        raise Refusal(-32004)

    def do_push_create(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        if "https://example.com" not in request.body.decode():
            raise Refusal(-32602)
        return params

    def do_push_delete(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        return {}

    def do_extended_card(self, params: dict[str, Any], caller: str, request: ProbeRequest) -> Any:
        return self.document


async def _each(
    events: list[dict[str, str]], *, stays_open: bool = False
) -> AsyncIterator[ProbeEvent]:
    for event in events:
        yield ProbeEvent(id=event["id"], data=event["data"])
    if stays_open:
        await asyncio.Event().wait()


def lost(text: str = "it did not answer in time") -> RemoteFailed:
    return RemoteFailed(text)
