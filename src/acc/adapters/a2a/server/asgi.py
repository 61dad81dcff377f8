"""ASGI requests, responses and server-sent events."""

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from acc.adapters.a2a.wire.errors import HttpError, wire_error_for
from acc.adapters.a2a.wire.protocol import Wire
from acc.application.a2a.extensions import Item, hide_extensions
from acc.application.a2a.requests import ServerLimits
from acc.application.a2a.subscriptions import TaskStream
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.run import trace_of_parent
from acc.ports.outbound.tracing_ports import SpanPort

log = logging.getLogger("acc.serve")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
JSON = b"application/json"
A2A_JSON = b"application/a2a+json"
EVENT_STREAM_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
#: Scope key that the HTTP server sets once it has received the whole body.
BODY_RECEIVED = "acc.body_received"
_JSON_TYPES = (JSON, A2A_JSON)
#: Proxies interpret duplicates of these headers differently.
_SINGLE_HEADERS = frozenset(
    {b"authorization", b"content-length", b"content-type", b"host", b"a2a-version"}
)
_MAX_QUERY_PARAMETERS = 50
_MAX_EVENT_ID_DIGITS = 15
_HEARTBEAT = b": heartbeat\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of a connection: times in seconds, sizes in bytes.

    `head` is the time to receive the headers of a request, and between two requests. `stop` is the
    time to finish responses when the server stops.
    """

    head: float = 15.0
    head_size: int = 64 * 1024
    stop: float = 3.0


class NegotiatedExtensions(NamedTuple):
    """The extensions that a client activated, and the offered ones that it did not."""

    active: Sequence[str]
    hidden: Collection[str]

    @property
    def headers(self) -> Headers:
        """Return the response header that lists the activated extensions."""
        return [(b"a2a-extensions", ", ".join(self.active).encode())] if self.active else []

    def show(self, item: Item) -> Item:
        """Return an item without the content of extensions that are not active."""
        return hide_extensions(item, self.hidden)


class HttpRequest:
    """An HTTP request with validated headers and a bounded body."""

    __slots__ = (
        "_head_error",
        "_receive",
        "caller",
        "headers",
        "limits",
        "method",
        "operation",
        "path",
        "scope",
        "span",
        "span_error",
        "task_id",
        "trace_id",
    )

    def __init__(self, scope: Scope, receive: Receive, limits: ServerLimits) -> None:
        self.scope = scope
        self.limits = limits
        self.method: str = scope["method"]
        # What the access log contains, as far as it is known.
        self.operation = self.caller = self.task_id = self.trace_id = ""
        #: The span of the request, and the class of the error that it ended with.
        self.span: SpanPort | None = None
        self.span_error = ""
        self._receive = receive
        raw = scope.get("raw_path") or scope["path"].encode()
        path: str = raw.decode("ascii", "replace")
        root: str = scope.get("root_path", "")
        self.path = _strip_root(root, path) if root else path
        self._head_error: HttpError | None = None
        pairs: Headers = list(scope["headers"])
        self.headers: dict[bytes, bytes] = dict(pairs)
        if len(self.headers) != len(pairs):
            self._merge_duplicates(pairs)
        if sum(map(len, chain.from_iterable(pairs))) > limits.headers:
            self._head_error = HttpError(431, f"the headers exceed {limits.headers} bytes")

    def _merge_duplicates(self, pairs: Headers) -> None:
        self.headers = {}
        for name, value in pairs:
            previous = self.headers.get(name)
            if previous is not None and name in _SINGLE_HEADERS:
                self._head_error = _occurs_twice(name)
            else:
                self.headers[name] = value if previous is None else previous + b", " + value

    def note_task(self, task_id: str, trace_id: str) -> None:
        """Note the task of a call for the access log, and the trace of its run.

        `trace_id` is what the caller named; the default is that of the task.
        """
        self.task_id = task_id
        self.trace_id = trace_id or self.trace_id or task_id

    def check_head(self, hosts: Iterable[str] | None = None) -> None:
        """Raise HttpError if the headers are invalid, too large or for another host."""
        if self._head_error is not None:
            raise self._head_error
        if b"host" not in self.headers and self.scope.get("http_version") == "1.1":
            raise HttpError(400, "the header Host is missing; send the host and port of the URL")
        # DNS rebinding lets a web page call a server on loopback under another host name.
        if hosts is not None and self._host_name() not in hosts:
            raise HttpError(
                421,
                "the header Host names a host that this server does not serve; use the URL that "
                "the server printed when it started",
            )

    def _host_name(self) -> str:
        host = self.header(b"host").lower()
        if host.startswith("["):
            return host.partition("]")[0].removeprefix("[")
        return host.partition(":")[0]

    def check_method(self, *methods: str) -> None:
        """Raise HttpError 405 if the method is not one of these."""
        if self.method not in methods:
            allowed = ", ".join(methods)
            raise HttpError(
                405, f"method not allowed; use {allowed}", [(b"allow", allowed.encode())]
            )

    def header(self, name: bytes) -> str:
        """Return a header as text, empty if it is absent."""
        return self.headers.get(name, b"").decode("latin-1").strip()

    @property
    def trace_parent(self) -> str:
        """Return the trace context of the request: its span, or a valid traceparent header."""
        if self.span is not None:
            return self.span.traceparent
        value = self.headers.get(b"traceparent")
        if value is None:
            return ""
        parent = value.decode("latin-1").strip()
        return parent if trace_of_parent(parent) else ""

    @property
    def address(self) -> str:
        """Return the address of the peer, empty if it is not known."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def client_certificate(self) -> str:
        """Return the verified certificate of the peer as PEM, empty if there is none."""
        chain = self.scope.get("extensions", {}).get("tls", {}).get("client_cert_chain")
        return chain[0] if chain else ""

    def query(self) -> Mapping[str, str]:
        """Return the query parameters."""
        raw = self.scope["query_string"]
        if not raw:
            return {}
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_QUERY_PARAMETERS
            )
        except ValueError:
            raise InvalidInput(
                f"query: invalid; send at most {_MAX_QUERY_PARAMETERS} percent-encoded parameters"
            ) from None
        return dict(pairs)

    def last_event_id(self) -> int | None:
        """Return the number in Last-Event-ID, None if it is absent."""
        text = self.header(b"last-event-id")
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > _MAX_EVENT_ID_DIGITS:
            raise InvalidInput("Last-Event-ID: must be the id of an event, which is a number")
        return int(text)

    def check_json(self) -> None:
        """Raise HttpError 415 unless the body is declared as JSON."""
        # A web form can be posted across origins without a CORS preflight; JSON cannot.
        kind = self.headers.get(b"content-type", b"")
        if kind not in _JSON_TYPES and kind.partition(b";")[0].strip().lower() not in _JSON_TYPES:
            raise HttpError(415, "the body must have the content type application/json")
        if self.headers.get(b"content-encoding", b"identity") != b"identity":
            raise HttpError(415, "the body must not have a content-encoding")

    async def body(self) -> bytes:
        """Return the body; raise HttpError if it is too large or too slow."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self.limits.body:
            raise self._too_large()
        if BODY_RECEIVED in self.scope:
            return await self._receive_body()
        try:
            async with asyncio.timeout(self.limits.receive):
                return await self._receive_body()
        except TimeoutError:
            raise HttpError(
                408,
                f"the body took longer than {self.limits.receive:g} seconds",
                [(b"connection", b"close")],
            ) from None

    async def _receive_body(self) -> bytes:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise HttpError(400, "the connection was closed before the end of the body")
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.limits.body:
                raise self._too_large()
            chunks.append(chunk)
            if not message.get("more_body"):
                return chunk if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> HttpError:
        return HttpError(
            413, f"the body exceeds {self.limits.body} bytes", [(b"connection", b"close")]
        )

    async def disconnected(self) -> None:
        """Wait until the client disconnects."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _occurs_twice(name: bytes) -> HttpError:
    text = f"the header {name.decode()} occurs twice"
    if name == b"authorization":
        return HttpError(401, text, [(b"www-authenticate", b"Bearer")])
    return HttpError(400, text)


def _strip_root(root: str, path: str) -> str:
    """Return a raw path below the path that the application is mounted at."""
    if path.startswith(root):
        return path.removeprefix(root)
    if not unquote(path).startswith(root):
        return path
    rest = path.split("/", root.count("/") + 1)[root.count("/") + 1 :]
    return f"/{rest[0]}" if rest else ""


async def send_response(
    send: Send,
    status: int,
    body: bytes,
    kind: bytes = JSON,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send a complete response."""
    head = [*headers]
    if status != 204:  # has no content, and must not have its headers
        head = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *head]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_events(
    request: HttpRequest,
    send: Send,
    wire: Wire,
    stream: TaskStream,
    *,
    prefix: bytes = b"",
    suffix: bytes = b"",
    extensions: NegotiatedExtensions,
) -> None:
    """Send a stream as server-sent events until it ends or the client disconnects."""
    try:
        request.task_id = stream.task_id
        head = [*EVENT_STREAM_HEADERS, *extensions.headers]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(_stop_on_disconnect(request, stream))
            async with aclosing(stream.items()) as items:
                async for seq, item in items:
                    chunk = _HEARTBEAT
                    if item is not None:
                        shown = extensions.show(item)
                        data = wire.write_stream_item(stream.task_id, stream.context_id, shown)
                        chunk = b"id: %d\ndata: %b%b%b\n\n" % (seq, prefix, data, suffix)
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            watcher.cancel()
    except* Exception as group_error:  # noqa: BLE001 - process boundary; the client reconnects
        for error in group_error.exceptions:
            log_internal_error(error)
    finally:
        stream.close()
    await send({"type": "http.response.body", "body": b""})


async def send_chunks(
    request: HttpRequest, send: Send, chunks: AsyncGenerator[bytes, None], *, heartbeat: float
) -> None:
    """Send server-sent events until they end; close their source if the client disconnects.

    After `heartbeat` seconds without an event a comment is sent, so that proxies keep the
    connection.
    """
    loop = asyncio.get_running_loop()
    next_heartbeat = loop.time() + heartbeat

    async def send_chunk(chunk: bytes) -> None:
        nonlocal next_heartbeat
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        next_heartbeat = loop.time() + heartbeat

    async def forward() -> None:
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk:
                    await send_chunk(chunk)

    async def send_heartbeats() -> None:
        while True:
            await asyncio.sleep(next_heartbeat - loop.time())
            if loop.time() >= next_heartbeat:
                await send_chunk(_HEARTBEAT)

    async def watch(sender: asyncio.Task[None]) -> None:
        await request.disconnected()
        sender.cancel()

    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})
    async with asyncio.TaskGroup() as group:
        sender = group.create_task(forward())
        watchers = group.create_task(watch(sender)), group.create_task(send_heartbeats())
        try:
            await asyncio.wait([sender])
        finally:
            for watcher in watchers:
                watcher.cancel()
    await send({"type": "http.response.body", "body": b""})


async def _stop_on_disconnect(request: HttpRequest, stream: TaskStream) -> None:
    await request.disconnected()
    stream.stop()


def log_internal_error(error: BaseException) -> None:
    """Log an error unless the caller caused it; one of acc explains itself without a traceback."""
    if isinstance(error, HttpError):
        return
    if not isinstance(error, AccError):
        log.error("internal error", exc_info=error)
    elif wire_error_for(error).http_status == 500:
        log.error("internal error: %s", error)
