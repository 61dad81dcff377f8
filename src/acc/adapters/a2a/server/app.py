"""The ASGI application that serves agents over A2A: both versions and bindings on one URL."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from acc.adapters.a2a.server.asgi import (
    JSON,
    HttpRequest,
    Receive,
    Scope,
    Send,
    send_response,
)
from acc.adapters.a2a.server.dispatch import (
    RETRY_AFTER_SECONDS,
    RPC_WIRES,
    RequestDispatcher,
    StaticDocuments,
    StreamEndpoint,
    send_early_error,
)
from acc.adapters.a2a.server.http_exchange import CorsPolicy, HttpExchange
from acc.adapters.a2a.wire.json_fields import encode
from acc.adapters.a2a.wire.v03 import WIRE_V03
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.circuit_breaker import list_circuits
from acc.domain.value_objects.principal import READ_SCOPE
from acc.ports.outbound.auth_ports import CertificateVerifierPort, TokenVerifierPort
from acc.ports.outbound.limit_ports import RateLimiterPort
from acc.ports.outbound.tracing_ports import MetricsPagePort

if TYPE_CHECKING:
    from acc.adapters.a2a.server.grpc import GrpcServer

_ROOT_PATHS = ("", "/")
_CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_KEYS_PATH = "/.well-known/jwks.json"
_OPENAPI_PATH = "/openapi.json"
_CONTRACTS_PATH = "/contracts"
_RUN_PATH = "/run"
_HEALTH_PATHS = ("/health", "/health/live")
_STATUS_PATH = "/status"
_METRICS_PATH = "/metrics"
_READY_PATHS = ("/ready", "/health/ready")
#: The extended card of versions before 0.3.
_LEGACY_EXTENDED_CARD_PATH = "/agent/authenticatedExtendedCard"
_MAX_AGE_SECONDS = 300


class A2AServer:
    """ASGI application over the use case.

    Without a verifier of tokens or certificates every caller is anonymous. `hosts` are the host
    names that the server accepts; None accepts all. `cors` names the web origins whose pages may
    call it. `lifespan` replaces the context in which the server runs. `make_grpc` returns the
    server of the gRPC binding. `metrics_page` is published for callers that may read.
    `endpoints` serve the agent over other protocols, by path.
    """

    def __init__(
        self,
        serve: ServeA2AUseCase,
        *,
        documents: StaticDocuments,
        verifier: TokenVerifierPort | None = None,
        certificates: CertificateVerifierPort | None = None,
        limiter: RateLimiterPort | None = None,
        hosts: Collection[str] | None = None,
        cors: CorsPolicy | None = None,
        protocol_versions: Collection[str] = tuple(RPC_WIRES),
        lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
        make_grpc: Callable[[RequestDispatcher], "GrpcServer"] | None = None,
        metrics_page: MetricsPagePort | None = None,
        endpoints: Mapping[str, StreamEndpoint] | None = None,
    ) -> None:
        self.serve = serve
        self._dispatcher = RequestDispatcher(
            serve,
            documents=documents,
            verifier=verifier,
            certificates=certificates,
            limiter=limiter,
            protocol_versions=protocol_versions,
        )
        self._documents = documents
        self._limiter = limiter
        self._hosts = hosts
        self._cors = cors
        self._metrics_page = metrics_page
        self._endpoints = endpoints or {}
        self._open = lifespan or serve.open
        self._grpc = None if make_grpc is None else make_grpc(self._dispatcher)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await receive()
            has_started = False
            try:
                async with self._lifespan():
                    has_started = True
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
            except Exception as error:
                # Without this message servers continue as if there were no lifespan.
                if not has_started:
                    cause: BaseException = error
                    while isinstance(cause, BaseExceptionGroup):
                        cause = cause.exceptions[0]
                    await send({"type": "lifespan.startup.failed", "message": str(cause)})
                raise
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    def lifespan(self, app: object = None) -> AbstractAsyncContextManager[Any]:
        """Return the lifespan, for an application that mounts this one."""
        return self._lifespan()

    @asynccontextmanager
    async def _lifespan(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._open())
            if self._grpc is not None:
                await stack.enter_async_context(self._grpc.open())
                # The calls end when the tasks and streams do.
                stack.push_async_callback(self.stop)
            yield

    async def stop(self) -> None:
        """Accept no more tasks and end the streams, before the connections are closed."""
        if self._grpc is not None:
            await self._grpc.drain()
        await self.serve.stop()

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive, self.serve.limits)
        send = HttpExchange(request, send, self._cors).send
        if self._cors is not None and self._cors.is_preflight(request):
            await self._cors.send_preflight(request, send)
            return
        is_rpc = request.method == "POST" and request.path in _ROOT_PATHS
        try:
            request.check_head(self._hosts)
            if not is_rpc and await self._send_document(request, send):
                return
        except Exception as error:  # noqa: BLE001 - process boundary
            if self._is_run(request):
                await self._dispatcher.send_run_error(request, send, error)
                return
            self._dispatcher.record_error(request, error)
            await send_early_error(request, send, error, is_rpc=is_rpc)
            return
        try:
            if is_rpc:
                await self._dispatcher.handle_rpc(request, send)
            elif (endpoint := self._endpoints.get(request.path)) is not None:
                await self._dispatcher.handle_endpoint(request, send, endpoint)
            elif self._is_run(request):
                await self._dispatcher.handle_run(request, send)
            else:
                await self._dispatcher.handle_rest(request, send)
        finally:
            if request.span is not None:
                request.span.end(request.span_error)

    def _is_run(self, request: HttpRequest) -> bool:
        return request.path == _RUN_PATH and bool(self.serve.intents.names)

    async def _send_document(self, request: HttpRequest, send: Send) -> bool:
        """Send the document at the path; return False if there is none."""
        documents, path = self._documents, request.path
        if path in _ROOT_PATHS:
            request.check_method("POST")
        elif path in _CARD_PATHS:
            last_modified = (b"last-modified", documents.last_modified)
            await _send_cacheable(request, send, documents.card, last_modified)
        elif path == _OPENAPI_PATH:
            await _send_cacheable(request, send, documents.openapi)
        elif path == _CONTRACTS_PATH:
            await _send_cacheable(request, send, documents.contracts)
        elif path == _KEYS_PATH and documents.keys:
            await _send_cacheable(request, send, documents.keys)
        elif path in _HEALTH_PATHS:
            request.check_method("GET", "HEAD")
            await send_response(send, 200, b'{"status":"ok"}')
        elif path in _READY_PATHS:
            request.check_method("GET", "HEAD")
            await _send_readiness(send, is_ready=self.serve.is_ready)
        else:
            return await self._send_private_document(request, send)
        return True

    async def _send_private_document(self, request: HttpRequest, send: Send) -> bool:
        """Send the document at the path to an authenticated caller; return False without one."""
        path, page = request.path, self._metrics_page
        if path == _METRICS_PATH and page is None:
            return False
        if path not in (_STATUS_PATH, _METRICS_PATH, _LEGACY_EXTENDED_CARD_PATH):
            return False
        request.check_method("GET", "HEAD")
        # Metrics must be readable while the rate limit rejects callers.
        is_counted = path != _METRICS_PATH
        principal = await self._dispatcher.authenticate(request, is_counted=is_counted)
        if path == _LEGACY_EXTENDED_CARD_PATH:
            card = WIRE_V03.write_card(self._dispatcher.extended_card(principal))
            await send_response(send, 200, card)
            return True
        principal.require(READ_SCOPE)
        if path == _METRICS_PATH and page is not None:
            metrics, media_type = page.read(request.header(b"accept"))
            await send_response(send, 200, metrics, media_type.encode())
        else:
            await send_response(send, 200, self._write_status())
        return True

    def _write_status(self) -> bytes:
        """Return the limits, and the circuits that have failures or are not closed."""
        circuits = [
            {
                "name": circuit.name,
                "state": circuit.state.value,
                "failures": circuit.failures,
                "nextAttempt": circuit.next_attempt
                and datetime.fromtimestamp(circuit.next_attempt, UTC).isoformat(timespec="seconds"),
            }
            for circuit in list_circuits()
        ]
        limits = [] if self._limiter is None else list(self._limiter.describe())
        return encode({"circuits": circuits, "rateLimits": limits})


async def _send_readiness(send: Send, *, is_ready: bool) -> None:
    if is_ready:
        await send_response(send, 200, b'{"status":"ready"}')
        return
    retry = [(b"retry-after", str(RETRY_AFTER_SECONDS).encode())]
    await send_response(send, 503, b'{"status":"stopping"}', headers=retry)


async def _send_cacheable(
    request: HttpRequest, send: Send, document: bytes, *headers: tuple[bytes, bytes]
) -> None:
    """Send a document with its ETag, or 304 if the client has it."""
    request.check_method("GET", "HEAD")
    etag = f'"{sha256(document).hexdigest()[:32]}"'
    cache_control = f"public, max-age={_MAX_AGE_SECONDS}".encode()
    head = [(b"etag", etag.encode()), (b"cache-control", cache_control), *headers]
    known = [tag.strip().removeprefix("W/") for tag in request.header(b"if-none-match").split(",")]
    if etag in known or "*" in known:
        await send({"type": "http.response.start", "status": 304, "headers": head})
        await send({"type": "http.response.body", "body": b""})
        return
    await send_response(send, 200, document, JSON, head)
