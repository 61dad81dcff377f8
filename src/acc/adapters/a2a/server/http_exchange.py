"""The common parts of all HTTP responses: CORS headers, trace headers and the access log."""

import logging
import time
from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from acc.adapters.a2a.server.asgi import Headers, HttpRequest, Send
from acc.application.tracing.spans import span_id_of
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.run import trace_of_parent

access_log = logging.getLogger("acc.access")
_PREFLIGHT_SECONDS = 600
_METHODS = b"GET, HEAD, POST, DELETE"
_REQUEST_HEADERS = (
    b"authorization, content-type, a2a-version, a2a-extensions, last-event-id, traceparent"
)
_EXPOSED_HEADERS = (
    b"a2a-extensions, etag, idempotency-replayed, retry-after, traceresponse, www-authenticate"
)


class CorsPolicy:
    """The web origins whose pages may call the server; "*" allows all of them.

    Cookies are not used, so that credentials of the browser are never allowed.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        for origin in origins:
            parts = urlsplit(origin)
            is_origin = parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}"
            if origin != "*" and is_origin != origin:
                raise InvalidInput(
                    f"{origin!r} is not an origin such as https://app.example.com, or *"
                )
        self._origins = frozenset(origins)

    def is_preflight(self, request: HttpRequest) -> bool:
        """Return True if a browser asks whether it may send a request."""
        return request.method == "OPTIONS" and b"access-control-request-method" in request.headers

    async def send_preflight(self, request: HttpRequest, send: Send) -> None:
        """Respond to a preflight request: 204, or 403 for another origin."""
        head: Headers = [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", str(_PREFLIGHT_SECONDS).encode()),
        ]
        allowed = self._allowed(request)
        status, head = (204, head) if allowed else (403, [(b"content-length", b"0")])
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": b""})

    def headers(self, request: HttpRequest) -> Headers:
        """Return the headers of a response to a request of a page."""
        vary: Headers = [] if "*" in self._origins else [(b"vary", b"Origin")]
        allowed = self._allowed(request)
        if not allowed:
            return vary
        return [
            (b"access-control-allow-origin", allowed),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            *vary,
        ]

    def _allowed(self, request: HttpRequest) -> bytes:
        origin = request.header(b"origin")
        if not origin:
            return b""
        if "*" in self._origins:
            return b"*"
        return origin.encode("latin-1") if origin in self._origins else b""


class HttpExchange:
    """An HTTP request with its response."""

    __slots__ = ("_started", "_extra", "_is_logged", "_request", "_send", "_status")

    def __init__(self, request: HttpRequest, send: Send, cors: CorsPolicy | None) -> None:
        self._request = request
        self._send = send
        self._status = 0
        self._extra: Headers = [] if cors is None else cors.headers(request)
        parent = request.trace_parent
        if parent:
            request.trace_id = trace_of_parent(parent)
            self._extra.append((b"traceresponse", parent.encode()))
        self._is_logged = access_log.isEnabledFor(logging.INFO)
        self._started = time.perf_counter() if self._is_logged else 0.0

    @property
    def send(self) -> Send:
        """Return the function that sends the response."""
        return self._forward if self._extra or self._is_logged else self._send

    async def _forward(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if self._extra:
                message = {**message, "headers": [*message["headers"], *self._extra]}
        await self._send(message)
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if is_last and self._is_logged:
            log_access(self._request, self._status, self._started)


def log_access(request: HttpRequest, status: int, started: float) -> None:
    """Log a request; `started` is its time of `time.perf_counter`."""
    milliseconds = round((time.perf_counter() - started) * 1000, 1)
    access_log.info(
        "%s %s %d",
        request.method,
        request.path,
        status,
        extra={
            "method": request.operation or request.method,
            "path": request.path,
            "task_id": request.task_id,
            "caller": request.caller,
            "status": status,
            "duration_ms": milliseconds,
            "trace_id": request.trace_id,
            "span_id": span_id_of(request.span),
            "code": request.span_error,
        },
    )
