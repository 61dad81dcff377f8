"""The ASGI application that serves agents over A2A: both generations, both bindings, one URL."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from acc.adapters.a2a.server.asgi import (
    A2A_JSON,
    JSON,
    HttpError,
    HttpRequest,
    Receive,
    Scope,
    Send,
    respond,
)
from acc.adapters.a2a.server.dispatch import (
    NEW,
    OLD,
    REST_WIRES,
    WIRES,
    RequestDispatcher,
    StaticDocuments,
    asked_version,
    challenge,
    note,
)
from acc.adapters.a2a.server.sse import STREAMING, send_events
from acc.adapters.a2a.wire.errors import (
    UnknownMethod,
    encode_http_error,
    encode_rpc_error,
    wire_error_for,
)
from acc.adapters.a2a.wire.jsonrpc import RequestId, decode_rpc_request, find_request_id
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.application.a2a.subscriptions import TaskStream
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.errors import AccError, VersionNotSupported
from acc.ports.outbound.auth_ports import TokenVerifierPort

#: What is told by the HTTP status in JSON-RPC too, for those who stand in between.
_NEVER_200 = frozenset({401, 403, 429})
_encode = msgspec.json.Encoder().encode
_STREAMED = frozenset({Operation.STREAM, Operation.SUBSCRIBE})


async def answer_rpc(reception: RequestDispatcher, request: HttpRequest, send: Send) -> None:
    """Answer a call of a method, or say in JSON-RPC's words why not."""
    name: RequestId = None
    operation: Operation | None = None
    body = b""
    wire = NEW
    try:
        spoken = _spoken(reception, request)
        wire = NEW if isinstance(spoken, VersionNotSupported) else spoken
        request.check_json()
        # Before the body, so that strangers can fill no memory.
        principal = await reception.principal(request)
        body = await request.body()
        # Not before the body, so that the answer has the id of the call.
        _check_spoken(spoken)
        call = decode_rpc_request(body)
        name = call.id
        headers = reception.extensions(request)
        operation = _operation(call.method, wire)
        asked = wire.read_request(operation, call.params)
        answer = await reception.perform(wire, operation, principal, asked, request)
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
        note(error)
        name = find_request_id(body) if name is None else name
        await send_rpc_error(send, error, name=name, wire=wire, operation=operation)
        return
    prefix = b'{"jsonrpc":"2.0","id":%b,"result":' % _encode(name)
    if isinstance(answer, TaskStream):
        await send_events(request, send, wire, answer, around=(prefix, b"}"), headers=headers)
    else:
        await respond(send, 200, prefix + answer + b"}", JSON, headers)


async def send_rpc_error(
    send: Send,
    error: BaseException,
    *,
    name: RequestId = None,
    wire: Wire = NEW,
    operation: Operation | None = None,
) -> None:
    """Send the answer to a call that failed."""
    told = encode_rpc_error(error, name, wire.version)
    if isinstance(error, HttpError):
        await respond(send, error.status, told, JSON, error.headers)
        return
    status = wire_error_for(error).http_status
    status = status if status in _NEVER_200 else 200
    if wire is OLD and operation in _STREAMED and status == 200:
        # Clients of 0.3 that asked for a stream read the error from one.
        await send({"type": "http.response.start", "status": 200, "headers": STREAMING})
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % told})
        return
    await respond(send, status, told, JSON, challenge(status))


def _spoken(reception: RequestDispatcher, request: HttpRequest) -> Wire | VersionNotSupported:
    try:
        return reception.wire(request, WIRES)
    except VersionNotSupported as fault:
        return fault


def _check_spoken(spoken: Wire | VersionNotSupported) -> None:
    if isinstance(spoken, VersionNotSupported):
        raise spoken


def _operation(method: str, wire: Wire) -> Operation:
    operation = wire.methods.get(method)
    if operation is not None:
        return operation
    hint = ""
    if wire is OLD and method in NEW.methods:
        hint = "; it is of generation 1.0: send the header A2A-Version: 1.0"
    elif wire is NEW and method in OLD.methods:
        hint = "; it is of generation 0.3: send no A2A-Version header, or 0.3"
    raise UnknownMethod(f"there is no method {method[:100]!r}{hint}")


class Route(NamedTuple):
    """An operation, the names in its path, and whether the path is of generation 0.3."""

    operation: Operation
    path: Mapping[str, str]
    is_old: bool
    has_body: bool


class NoRoute(NamedTuple):
    """A path that is known with other methods, or not at all."""

    allowed: tuple[str, ...]


_HEADS = frozenset({"message:send", "message:stream", "tasks", "extendedAgentCard", "card"})
_CONFIGS = "pushNotificationConfigs"
_Entry = dict[str, tuple[Operation, bool]]
_SEND: _Entry = {"POST": (Operation.SEND, True)}
_STREAM: _Entry = {"POST": (Operation.STREAM, True)}
_LIST: _Entry = {"GET": (Operation.LIST, False)}
_TASK: _Entry = {"GET": (Operation.GET, False)}
_CANCEL: _Entry = {"POST": (Operation.CANCEL, True)}
_SUBSCRIBE: _Entry = {
    "POST": (Operation.SUBSCRIBE, True),
    "GET": (Operation.SUBSCRIBE, False),
}
_PUSHES: _Entry = {"POST": (Operation.PUSH_CREATE, True), "GET": (Operation.PUSH_LIST, False)}
_PUSH: _Entry = {"GET": (Operation.PUSH_GET, False), "DELETE": (Operation.PUSH_DELETE, False)}
_CARD: _Entry = {"GET": (Operation.EXTENDED_CARD, False)}


def find_route(method: str, path: str) -> Route | NoRoute:
    """Return what a request asks for; the path is as it was sent, percent signs and all."""
    segments = path.strip("/").split("/")
    is_old = segments[0] == "v1"
    if is_old:
        segments = segments[1:]
    names: dict[str, str] = {}
    if len(segments) > 1 and segments[0] not in _HEADS:
        names["tenant"] = unquote(segments[0])
        segments = segments[1:]
    entry = _entry(segments, names)
    if method == "HEAD" and entry.get("GET") not in (None, _SUBSCRIBE["GET"]):
        method = "GET"
    if method not in entry:
        return NoRoute(tuple(entry))
    operation, has_body = entry[method]
    return Route(operation, names, is_old, has_body)


def _entry(segments: list[str], names: dict[str, str]) -> _Entry:
    match segments:
        case ["message:send"]:
            return _SEND
        case ["message:stream"]:
            return _STREAM
        case ["extendedAgentCard"] | ["card"]:
            return _CARD
        case ["tasks"]:
            return _LIST
        case ["tasks", task]:
            return _of_task(task, names)
        case ["tasks", task, kind] if kind == _CONFIGS:
            names["task_id"] = unquote(task)
            return _PUSHES
        case ["tasks", task, kind, config] if kind == _CONFIGS:
            names |= {"task_id": unquote(task), "id": unquote(config)}
            return _PUSH
    return {}


def _of_task(task: str, names: dict[str, str]) -> _Entry:
    for ending, entry in ((":cancel", _CANCEL), (":subscribe", _SUBSCRIBE)):
        if task.endswith(ending):
            names["id"] = unquote(task.removesuffix(ending))
            return entry
    names["id"] = unquote(task)
    return _TASK


async def answer_rest(reception: RequestDispatcher, request: HttpRequest, send: Send) -> None:
    """Answer a request to an address, or say in the protocol's words why not."""
    wire = NEW
    kind = answer_type(request)
    try:
        wire = reception.wire(request, REST_WIRES)
        route = _routed(request)
        principal = await reception.principal(request)
        headers = reception.extensions(request)
        if route.has_body:
            body = await request.body()
            if body:
                request.check_json()
            asked = wire.read_request(route.operation, body, route.path)
        else:
            asked = wire.read_query(route.operation, route.path, request.query())
        answer = await reception.perform(wire, route.operation, principal, asked, request)
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
        note(error)
        await send_http_error(send, error, wire, kind)
        return
    if isinstance(answer, TaskStream):
        await send_events(request, send, wire, answer, headers=headers)
    else:
        await respond(send, 200, answer, kind, headers)


async def send_http_error(
    send: Send, error: BaseException, wire: Wire = NEW, kind: bytes = JSON
) -> None:
    """Send the answer to a request that failed."""
    status = wire_error_for(error).http_status
    headers = error.headers if isinstance(error, HttpError) else challenge(status)
    await respond(send, status, encode_http_error(error, wire.version), kind, headers)


def answer_type(request: HttpRequest) -> bytes:
    """Return the media type of answers: the protocol's own for clients that name it."""
    asked = request.headers.get(b"accept", b"") + request.headers.get(b"content-type", b"")
    return A2A_JSON if A2A_JSON in asked else JSON


def _routed(request: HttpRequest) -> Route:
    route = find_route(request.method, request.path)
    if isinstance(route, Route):
        return route
    if not route.allowed:
        raise HttpError(404, "there is nothing at this address")
    request.only(*route.allowed)
    raise AssertionError(request.method)  # pragma: no cover - routes and `only` agree


_CARD_PATHS = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json"})
_KEYS_PATH = "/.well-known/jwks.json"
_OLD_EXTENDED_CARD = "/agent/authenticatedExtendedCard"


def etag_of(document: bytes) -> str:
    """Return the tag by which a client tells whether a document has changed."""
    return f'"{sha256(document).hexdigest()[:32]}"'


async def serve_document(reception: RequestDispatcher, request: HttpRequest, send: Send) -> bool:
    """Send the document at an address, and return whether there is one."""
    path = request.path
    if path in _CARD_PATHS:
        request.only("GET", "HEAD")
        await _send_card(reception, request, send)
    elif path == "/openapi.json":
        request.only("GET", "HEAD")
        await _send_unless_known(request, send, reception.documents.openapi)
    elif path == _KEYS_PATH and reception.documents.keys:
        request.only("GET", "HEAD")
        await _send_unless_known(request, send, reception.documents.keys)
    elif path == "/health":
        request.only("GET", "HEAD")
        await respond(send, 200, b'{"status":"ok"}')
    elif path == _OLD_EXTENDED_CARD:
        request.only("GET", "HEAD")
        principal = await reception.principal(request)
        await respond(send, 200, OLD.write_card(reception.extended_card(principal)))
    elif path in ("", "/"):
        request.only("POST")
    else:
        return False
    return True


async def _send_card(reception: RequestDispatcher, request: HttpRequest, send: Send) -> None:
    documents = reception.documents
    card = documents.modern_card if asked_version(request) == "1.0" else documents.card
    headers = [(b"vary", b"a2a-version"), (b"last-modified", documents.modified)]
    await _send_unless_known(request, send, card, *headers)


async def _send_unless_known(
    request: HttpRequest, send: Send, document: bytes, *more: tuple[bytes, bytes]
) -> None:
    etag = etag_of(document)
    headers = [(b"etag", etag.encode()), (b"cache-control", b"public, max-age=300"), *more]
    known = [tag.strip().removeprefix("W/") for tag in request.header(b"if-none-match").split(",")]
    if etag in known or "*" in known:
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await respond(send, 200, document, JSON, headers)


__all__ = ["WIRES", "A2AServer", "StaticDocuments"]


class A2AServer:
    """Answers HTTP requests with what the use case says; an ASGI application.

    Without a verifier every caller is the same anonymous one. `hosts` are the names under which the
    server may be called; None are all of them.
    """

    def __init__(
        self,
        serve: ServeA2AUseCase,
        *,
        documents: StaticDocuments,
        verifier: TokenVerifierPort | None = None,
        hosts: Collection[str] | None = None,
        protocol_versions: Collection[str] = tuple(WIRES),
        life: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        self.serve = serve
        self._reception = RequestDispatcher(
            serve, documents=documents, verifier=verifier, protocol_versions=protocol_versions
        )
        self._hosts = hosts
        self._life = life or serve.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, or the server's life from start to stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    def lifespan(self, app: object = None) -> AbstractAsyncContextManager[Any]:
        """Return the server's life, for an application that it is mounted in."""
        return self._life()

    async def stop(self) -> None:
        """Take no more tasks and end the streams, before the connections are waited for."""
        await self.serve.stop()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._life():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, self.serve.limits)
        is_call = request.method == "POST" and request.path in ("", "/")
        try:
            request.check_head()
            self._check_host(request)
            if not is_call and await serve_document(self._reception, request, send):
                return
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
            note(error)
            await _refuse(send, request, error, is_call=is_call)
            return
        if is_call:
            await answer_rpc(self._reception, request, send)
        else:
            await answer_rest(self._reception, request, send)

    def _check_host(self, request: HttpRequest) -> None:
        # A page of the web can make a browser call a server of its own machine by another name.
        if self._hosts is not None and _host_name(request) not in self._hosts:
            raise HttpError(421, "this server does not answer to that Host")


async def _refuse(send: Send, request: HttpRequest, error: Exception, *, is_call: bool) -> None:
    """Answer a request that got no further than the door, in the shape that it would expect."""
    try:
        wire = REST_WIRES.get(asked_version(request), NEW)
    except AccError:
        wire = NEW
    if is_call:
        await send_rpc_error(send, error, wire=wire)
    else:
        await send_http_error(send, error, wire, answer_type(request))


def _host_name(request: HttpRequest) -> str:
    host = request.header(b"host").lower()
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]
