"""Requests and responses of ASGI, as far as a server of agents needs them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl, unquote

from acc.adapters.a2a.wire.errors import HttpError
from acc.application.a2a.requests import ServerLimits
from acc.domain.errors import InvalidInput

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
JSON = b"application/json"
A2A_JSON = b"application/a2a+json"
_JSON_TYPES = (JSON, A2A_JSON)
#: Headers of which a second one would be read differently by whoever stands in between.
_ONCE = frozenset({b"authorization", b"content-length", b"content-type", b"host", b"a2a-version"})
#: Set in the scope by a server that has the whole body already.
BODY_RECEIVED = "acc.body_has_come"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How long a connection may take, in seconds, and how large the head of a request may be.

    `head` is the time for a whole head, and for who waits between two requests; `stop` is the time
    for answers that are being sent when the server is stopped.
    """

    head: float = 15.0
    head_size: int = 64 * 1024
    stop: float = 3.0


class HttpRequest:
    """One request, its headers checked and its body bounded in size and time."""

    __slots__ = ("_head_fault", "_receive", "headers", "limits", "method", "path", "scope")

    def __init__(self, scope: Scope, receive: Receive, limits: ServerLimits) -> None:
        self.scope = scope
        self.limits = limits
        self.method: str = scope["method"]
        self._receive = receive
        raw = scope.get("raw_path") or scope["path"].encode()
        path: str = raw.decode("ascii", "replace")
        root: str = scope.get("root_path", "")
        self.path = _under(root, path) if root else path
        self._head_fault: HttpError | None = None
        pairs: Headers = list(scope["headers"])
        self.headers: dict[bytes, bytes] = dict(pairs)
        if len(self.headers) != len(pairs):
            self._join(pairs)
        if sum(map(len, chain.from_iterable(pairs))) > limits.headers:
            self._head_fault = HttpError(431, f"the headers exceed {limits.headers} bytes")

    def _join(self, pairs: Headers) -> None:
        """Put headers that came more than once together, where they may."""
        self.headers = {}
        for name, value in pairs:
            held = self.headers.get(name)
            if held is not None and name in _ONCE:
                self._head_fault = HttpError(400, f"the header {name.decode()} came twice")
            else:
                self.headers[name] = value if held is None else held + b", " + value

    def check_head(self) -> None:
        """Refuse a head that others could read differently, or that is too large."""
        if self._head_fault is not None:
            raise self._head_fault
        if b"host" not in self.headers and self.scope.get("http_version") == "1.1":
            raise HttpError(400, "the header host is missing")

    def only(self, *methods: str) -> None:
        """Refuse methods other than these."""
        if self.method not in methods:
            allowed = ", ".join(methods)
            raise HttpError(405, f"use {allowed} here", [(b"allow", allowed.encode())])

    def header(self, name: bytes) -> str:
        """Return a header as text, empty if it did not come."""
        return self.headers.get(name, b"").decode("latin-1").strip()

    def query(self) -> Mapping[str, str]:
        """Return the query's parameters."""
        raw = self.scope["query_string"]
        if not raw:
            return {}
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, max_num_fields=50)
        except ValueError:
            raise InvalidInput("query: it cannot be read; at most 50 parameters, encoded") from None
        return dict(pairs)

    def check_json(self) -> None:
        """Refuse a body that does not say it is JSON, as a form of a web page would be."""
        kind = self.headers.get(b"content-type", b"")
        if kind not in _JSON_TYPES and kind.partition(b";")[0].strip().lower() not in _JSON_TYPES:
            raise HttpError(415, "send the body as application/json")
        if self.headers.get(b"content-encoding", b"identity") != b"identity":
            raise HttpError(415, "send the body without content-encoding")

    async def body(self) -> bytes:
        """Return the body, at most as large and slow as it may be."""
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self.limits.body:
            raise self._too_large()
        if BODY_RECEIVED in self.scope:
            return await self._whole_body()
        try:
            async with asyncio.timeout(self.limits.receive):
                return await self._whole_body()
        except TimeoutError:
            raise HttpError(
                408,
                f"the body took longer than {self.limits.receive:g} seconds",
                [(b"connection", b"close")],
            ) from None

    async def _whole_body(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise HttpError(400, "the connection was closed within the body")
            piece = message.get("body", b"")
            size += len(piece)
            if size > self.limits.body:
                raise self._too_large()
            pieces.append(piece)
            if not message.get("more_body"):
                return piece if len(pieces) == 1 else b"".join(pieces)

    def _too_large(self) -> HttpError:
        return HttpError(
            413, f"the body is larger than {self.limits.body} bytes", [(b"connection", b"close")]
        )

    async def gone(self) -> None:
        """Wait until the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _under(root: str, path: str) -> str:
    """Return a path, as it was sent, below the one that the application is mounted under."""
    if path.startswith(root):
        return path.removeprefix(root)
    if not unquote(path).startswith(root):
        return path
    rest = path.split("/", root.count("/") + 1)[root.count("/") + 1 :]
    return f"/{rest[0]}" if rest else ""


async def respond(
    send: Send,
    status: int,
    body: bytes,
    kind: bytes = JSON,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send a whole response."""
    head = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
