"""The ASGI application that serves agents over A2A: both generations, both bindings, one URL."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from acc.adapters.a2a.envelope import CallId, call_id, read_call
from acc.adapters.a2a.faults import (
    InvalidCall,
    UnknownMethod,
    fault_of,
    http_error,
    rpc_error,
)
from acc.adapters.a2a.http import (
    A2A_JSON,
    JSON,
    Headers,
    HttpFault,
    HttpRequest,
    Receive,
    Scope,
    Send,
    respond,
)
from acc.adapters.a2a.routes import Route, find_route
from acc.adapters.a2a.wire import Operation, Wire
from acc.adapters.a2a.wire_one import WireOne
from acc.adapters.a2a.wire_zero_three import WireZeroThree
from acc.adapters.a2a.wire_zero_three_rest import WireZeroThreeRest
from acc.application.serving.streams import TaskStream
from acc.application.use_cases.serve_tasks import ServeTasks
from acc.domain.errors import (
    AccError,
    ContentTypeNotSupported,
    ExtensionRequired,
    InvalidInput,
    Unauthenticated,
    UnsupportedOperation,
    VersionNotSupported,
)
from acc.domain.value_objects.card import AgentCard
from acc.domain.value_objects.identity import ANONYMOUS, Principal
from acc.ports.outbound.security_ports import TokenVerifierPort

log = logging.getLogger("acc.serve")

WIRES: Mapping[str, Wire] = {"1.0": WireOne(), "0.3": WireZeroThree()}
REST_WIRES: Mapping[str, Wire] = {**WIRES, "0.3": WireZeroThreeRest()}
_NEW, _OLD = WIRES["1.0"], WIRES["0.3"]
_CARD_PATHS = frozenset({"/.well-known/agent-card.json", "/.well-known/agent.json"})
_OLD_EXTENDED_CARD = "/agent/authenticatedExtendedCard"
#: What is told by the HTTP status in JSON-RPC too, for those who stand in between.
_NEVER_200 = frozenset({401, 403, 429})
_STREAMED = frozenset({Operation.STREAM, Operation.SUBSCRIBE})
_PING = b": still here\n\n"
_STREAMING = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What is served as it stands: the cards, and the description of the HTTP+JSON side."""

    card: bytes
    modern_card: bytes
    extended: AgentCard | None
    openapi: bytes
    modified: bytes
    extensions: Collection[str] = ()
    required_extensions: Collection[str] = ()


def etag_of(document: bytes) -> str:
    """Return the tag by which a client tells whether a document has changed."""
    return f'"{sha256(document).hexdigest()[:32]}"'


class A2AServer:
    """Answers HTTP requests with what the use case says; an ASGI application.

    Without a verifier every caller is the same anonymous one. `hosts` are the names under which the
    server may be called; None are all of them.
    """

    def __init__(
        self,
        serve: ServeTasks,
        *,
        documents: Documents,
        verifier: TokenVerifierPort | None = None,
        hosts: Collection[str] | None = None,
        generations: Collection[str] = tuple(WIRES),
        life: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        self.serve = serve
        self._documents = documents
        self._verifier = verifier
        self._hosts = hosts
        self._generations = tuple(generations)
        self._life = life or serve.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection's request, or the server's life from start to stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def stop(self) -> None:
        """End the streams and take no more tasks, before the connections are waited for."""
        await self.serve.stop()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._life():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = JSON
        wire = _NEW
        try:
            request = HttpRequest(scope, receive, self.serve.limits)
            self._check_host(request)
            if request.path in ("", "/") and request.method == "POST":
                await self._answer_rpc(request, send)
                return
            if await self._serve_document(request, send):
                return
            kind = _answer_type(request)
            route = _routed(request)
            wire = self._wire(request, REST_WIRES)
            await self._answer_rest(request, route, wire, send, kind)
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
            _note(error)
            if isinstance(error, HttpFault):
                await respond(send, error.status, _plain(error), kind, error.headers)
                return
            status = fault_of(error).http
            body = http_error(error, wire.version)
            await respond(send, status, body, kind, _challenge(status))

    def _check_host(self, request: HttpRequest) -> None:
        # A page of the web can make a browser call a server of its own machine by another name.
        if self._hosts is not None and _host_name(request) not in self._hosts:
            raise HttpFault(421, "this server does not answer to that Host")

    def _wire(self, request: HttpRequest, wires: Mapping[str, Wire]) -> Wire:
        version = _asked_version(request)
        if version not in self._generations:
            spoken = " or ".join(self._generations)
            raise VersionNotSupported(
                f"A2A version {version} is not spoken here; send the header A2A-Version: {spoken}"
            )
        return wires[version]

    async def _principal(self, request: HttpRequest) -> Principal:
        if self._verifier is None:
            return ANONYMOUS
        scheme, _, token = request.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("send credentials as Authorization: Bearer TOKEN")
        principal = await self._verifier.verify(token.strip())
        if principal is None:
            raise Unauthenticated("these credentials are not, or no longer, good")
        return principal

    # Cards and documents

    async def _serve_document(self, request: HttpRequest, send: Send) -> bool:
        path = request.path
        if path in _CARD_PATHS:
            _only(request, "GET", "HEAD")
            await self._send_card(request, send)
        elif path == "/openapi.json":
            _only(request, "GET", "HEAD")
            await respond(send, 200, self._documents.openapi)
        elif path == "/health":
            _only(request, "GET", "HEAD")
            await respond(send, 200, b'{"status":"ok"}')
        elif path == _OLD_EXTENDED_CARD:
            _only(request, "GET", "HEAD")
            principal = await self._principal(request)
            await respond(send, 200, _OLD.write_card(self._extended_card(principal)))
        elif path in ("", "/"):
            _only(request, "POST")
        else:
            return False
        return True

    async def _send_card(self, request: HttpRequest, send: Send) -> None:
        is_modern = _asked_version(request) == "1.0"
        card = self._documents.modern_card if is_modern else self._documents.card
        etag = etag_of(card)
        headers = [(b"etag", etag.encode()), (b"cache-control", b"public, max-age=300")]
        headers += [(b"vary", b"a2a-version"), (b"last-modified", self._documents.modified)]
        known = [
            tag.strip().removeprefix("W/") for tag in request.header(b"if-none-match").split(",")
        ]
        if etag in known or "*" in known:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await respond(send, 200, card, JSON, headers)

    def _extended_card(self, principal: Principal) -> AgentCard:
        extended = self._documents.extended
        if extended is None:
            raise UnsupportedOperation("this agent has no extended card")
        self.serve.check_authenticated(principal, "the extended card")
        return extended

    # JSON-RPC

    async def _answer_rpc(self, request: HttpRequest, send: Send) -> None:
        name: CallId = None
        operation: Operation | None = None
        body = b""
        wire = _NEW
        try:
            wire = self._wire(request, WIRES)
            request.check_json()
            body = await request.body()
            call = read_call(body)
            name = call.id
            principal = await self._principal(request)
            headers = self._extensions(request)
            operation = _operation(call.method, wire)
            asked = wire.read_request(operation, call.params)
            answer = await self._perform(wire, operation, principal, asked, request)
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is gets an answer
            _note(error)
            name = call_id(body) if name is None else name
            await _send_rpc_error(send, error, name, wire, operation)
            return
        prefix = b'{"jsonrpc":"2.0","id":%b,"result":' % msgspec.json.encode(name)
        if isinstance(answer, TaskStream):
            await self._stream(request, send, wire, answer, (prefix, b"}"), headers)
        else:
            await respond(send, 200, prefix + answer + b"}", JSON, headers)

    # HTTP+JSON

    async def _answer_rest(
        self, request: HttpRequest, route: Route, wire: Wire, send: Send, kind: bytes
    ) -> None:
        principal = await self._principal(request)
        headers = self._extensions(request)
        if route.has_body:
            body = await request.body()
            if body:
                request.check_json()
            asked = wire.read_request(route.operation, body, route.path)
        else:
            asked = wire.read_query(route.operation, route.path, request.query())
        answer = await self._perform(wire, route.operation, principal, asked, request)
        if isinstance(answer, TaskStream):
            await self._stream(request, send, wire, answer, (b"", b""), headers)
        else:
            await respond(send, 200, answer, kind, headers)

    def _extensions(self, request: HttpRequest) -> Headers:
        """Return the header that says which of the extensions asked for are used."""
        asked = request.header(b"a2a-extensions") or request.header(b"x-a2a-extensions")
        if not asked and not self._documents.required_extensions:
            return []
        wanted = {uri.strip() for uri in asked.split(",")}
        for uri in self._documents.required_extensions:
            if uri not in wanted:
                raise ExtensionRequired(f"declare the extension {uri} in the A2A-Extensions header")
        used = sorted(wanted.intersection(self._documents.extensions))
        return [(b"a2a-extensions", ", ".join(used).encode())] if used else []

    async def _perform(
        self,
        wire: Wire,
        operation: Operation,
        principal: Principal,
        asked: Any,
        request: HttpRequest,
    ) -> bytes | TaskStream:
        """Do what was asked and return it as JSON, or the stream that tells it."""
        serve = self.serve
        match operation:
            case Operation.SEND:
                return wire.write_send_result(await serve.send(principal, asked))
            case Operation.STREAM:
                return await serve.stream(principal, asked, after=_last_event(request))
            case Operation.GET:
                return wire.write_task(await serve.get(principal, asked))
            case Operation.LIST:
                page = await serve.listed(principal, asked)
                return wire.write_page(page, asked.query.page_size, asked.include_artifacts)
            case Operation.CANCEL:
                return wire.write_task(await serve.cancel(principal, asked))
            case Operation.SUBSCRIBE:
                return await serve.subscribe(principal, asked, after=_last_event(request))
            case Operation.EXTENDED_CARD:
                return wire.write_card(self._extended_card(principal))
        return await self._perform_push(wire, operation, principal, asked)

    async def _perform_push(
        self, wire: Wire, operation: Operation, principal: Principal, asked: Any
    ) -> bytes:
        serve = self.serve
        match operation:
            case Operation.PUSH_CREATE:
                return wire.write_push(await serve.create_push(principal, asked))
            case Operation.PUSH_GET:
                return wire.write_push(await serve.get_push(principal, asked))
            case Operation.PUSH_LIST:
                return wire.write_push_list(await serve.pushes(principal, asked))
        await serve.delete_push(principal, asked)
        return b"null" if wire is _OLD else b"{}"  # which is how each generation writes nothing

    async def _stream(
        self,
        request: HttpRequest,
        send: Send,
        wire: Wire,
        stream: TaskStream,
        around: tuple[bytes, bytes],
        headers: Headers,
    ) -> None:
        """Send what happens as server-sent events, until it ends or the client has left."""
        before, after = around
        try:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(_stop_when_gone(request, stream))
                head = [*_STREAMING, *headers]
                await send({"type": "http.response.start", "status": 200, "headers": head})
                async with aclosing(stream.items()) as items:
                    async for seq, item in items:
                        if item is None:
                            piece = _PING
                        else:
                            data = wire.write_stream_item(stream.task_id, stream.context_id, item)
                            piece = b"id: %d\ndata: %b%b%b\n\n" % (seq, before, data, after)
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                watch.cancel()
        finally:
            stream.close()


async def _stop_when_gone(request: HttpRequest, stream: TaskStream) -> None:
    await request.gone()
    stream.stop()


async def _send_rpc_error(
    send: Send, error: Exception, name: CallId, wire: Wire, operation: Operation | None
) -> None:
    if isinstance(error, HttpFault):
        told = rpc_error(_as_rpc(error), name, wire.version)
        await respond(send, error.status, told, JSON, error.headers)
        return
    status = fault_of(error).http
    status = status if status in _NEVER_200 else 200
    told = rpc_error(error, name, wire.version)
    if wire is _OLD and operation in _STREAMED and status == 200:
        # Clients of 0.3 that asked for a stream read the error from one.
        await send({"type": "http.response.start", "status": 200, "headers": _STREAMING})
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % told})
        return
    await respond(send, status, told, JSON, _challenge(status))


def _as_rpc(error: HttpFault) -> AccError:
    """Return what JSON-RPC says of a request that HTTP refuses already."""
    return ContentTypeNotSupported(str(error)) if error.status == 415 else InvalidCall(str(error))


def _note(error: Exception) -> None:
    if isinstance(error, HttpFault):
        return
    if not isinstance(error, AccError) or fault_of(error).http >= 500:
        log.error("internal error", exc_info=error)


def _plain(error: HttpFault) -> bytes:
    told = {"code": error.status, "message": str(error)}
    return msgspec.json.encode({"error": told})


def _challenge(status: int) -> Headers:
    if status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return [(b"retry-after", b"5")] if status == 429 else []


def _operation(method: str, wire: Wire) -> Operation:
    operation = wire.methods.get(method)
    if operation is not None:
        return operation
    hint = ""
    if wire is _OLD and method in _NEW.methods:
        hint = "; it is of generation 1.0: send the header A2A-Version: 1.0"
    elif wire is _NEW and method in _OLD.methods:
        hint = "; it is of generation 0.3: send no A2A-Version header, or 0.3"
    raise UnknownMethod(f"there is no method {method[:100]!r}{hint}")


def _asked_version(request: HttpRequest) -> str:
    """Return the generation that a request names; patches do not count, nothing means 0.3."""
    asked = request.header(b"a2a-version")
    if not asked and b"A2A-Version" in request.scope["query_string"]:
        asked = request.query().get("A2A-Version", "")
    return ".".join(asked.split(".")[:2])[:20] or "0.3"


def _routed(request: HttpRequest) -> Route:
    route = find_route(request.method, request.path)
    if isinstance(route, Route):
        return route
    if not route.allowed:
        raise HttpFault(404, "there is nothing at this address")
    allowed = ", ".join(route.allowed)
    raise HttpFault(405, f"use {allowed} here", [(b"allow", allowed.encode())])


def _only(request: HttpRequest, *methods: str) -> None:
    if request.method not in methods:
        allowed = ", ".join(methods)
        raise HttpFault(405, f"use {allowed} here", [(b"allow", allowed.encode())])


def _host_name(request: HttpRequest) -> str:
    host = request.header(b"host").lower()
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]


def _answer_type(request: HttpRequest) -> bytes:
    """Return the media type of answers: the protocol's own for clients that name it."""
    asked = request.headers.get(b"accept", b"") + request.headers.get(b"content-type", b"")
    return A2A_JSON if A2A_JSON in asked else JSON


def _last_event(request: HttpRequest) -> int | None:
    told = request.header(b"last-event-id")
    if not told:
        return None
    if not told.isascii() or not told.isdigit() or len(told) > 15:
        raise InvalidInput("Last-Event-ID: send the id of the last event that came, a number")
    return int(told)
