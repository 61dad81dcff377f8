"""Dispatch requests of all bindings: authenticate, negotiate, perform, respond."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from acc.adapters.a2a.server.asgi import (
    A2A_JSON,
    EVENT_STREAM_HEADERS,
    JSON,
    Headers,
    HttpRequest,
    NegotiatedExtensions,
    Send,
    log_internal_error,
    send_chunks,
    send_events,
    send_response,
)
from acc.adapters.a2a.server.intents import call_intent, call_rpc_intent, encode_run_error
from acc.adapters.a2a.server.routes import STREAMING, find_route
from acc.adapters.a2a.wire.errors import (
    HttpError,
    UnknownMethod,
    encode_http_error,
    encode_rpc_error,
    wire_error_for,
)
from acc.adapters.a2a.wire.json_fields import check_tenant
from acc.adapters.a2a.wire.jsonrpc import (
    RequestId,
    RpcRequest,
    decode_rpc_request,
    find_request_id,
    rpc_result_prefix,
)
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.adapters.a2a.wire.v03 import WIRE_V03
from acc.adapters.a2a.wire.v03_rest import WIRE_V03_REST
from acc.adapters.a2a.wire.v1 import WIRE_V1
from acc.application.a2a.card_builder import ExtendedCards
from acc.application.a2a.executor import trace_id_of
from acc.application.a2a.requests import (
    GetRequest,
    PushCreateRequest,
    PushRequest,
    Request,
    SendRequest,
    TaskRequest,
)
from acc.application.a2a.subscriptions import TaskStream
from acc.application.tracing.a2a_spans import (
    count_refusal,
    describe_request,
    nearest_parent,
    start_server_span,
)
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.errors import (
    AccError,
    ExtensionRequired,
    InsufficientScope,
    Unauthenticated,
    UnsupportedOperation,
    VersionNotSupported,
)
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.principal import ANONYMOUS, Principal, limited_address
from acc.domain.value_objects.task import Task
from acc.ports.outbound.auth_ports import CertificateVerifierPort, TokenVerifierPort
from acc.ports.outbound.limit_ports import RateLimiterPort
from acc.ports.outbound.tracing_ports import SpanPort

RPC_WIRES: Mapping[str, Wire] = {"1.0": WIRE_V1, "0.3": WIRE_V03}
REST_WIRES: Mapping[str, Wire] = {"1.0": WIRE_V1, "0.3": WIRE_V03_REST}
#: The method of each operation in version 1.0, for the access log.
_METHOD_NAMES = {operation: method for method, operation in WIRE_V1.methods.items()}
_MAX_VERSION_LENGTH = 20
_MAX_METHOD_LENGTH = 100
_MAX_LOGGED_ID_LENGTH = 256
RETRY_AFTER_SECONDS = 5
#: A JSON-RPC response has HTTP status 200 even if it contains an error. These are the exceptions,
#: because proxies and clients act on them.
_RPC_ERROR_STATUSES = frozenset({401, 403, 429, 503})
_SEND_OPERATIONS = frozenset({Operation.SEND, Operation.STREAM})


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticDocuments:
    """What a server publishes: cards, OpenAPI document, contracts, JWK set, extensions."""

    card: bytes
    extended_cards: ExtendedCards | None
    openapi: bytes
    contracts: bytes
    last_modified: bytes
    keys: bytes = b""
    extensions: Collection[str] = ()
    required_extensions: Collection[str] = ()


#: The result of a gRPC call (encoded, or a stream), and the extensions of its response.
CallResult = tuple[bytes | TaskStream, NegotiatedExtensions]


class StreamEndpoint(Protocol):
    """Serves the agent over another protocol, with streams as responses."""

    async def open(
        self, principal: Principal, body: bytes, *, trace_parent: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Return server-sent events, or raise AccError; then the run has had no effect."""
        ...


class RequestDispatcher:
    """Dispatch the requests of all bindings and protocol versions to the use case."""

    def __init__(
        self,
        serve: ServeA2AUseCase,
        *,
        documents: StaticDocuments,
        verifier: TokenVerifierPort | None,
        protocol_versions: Collection[str],
        certificates: CertificateVerifierPort | None = None,
        limiter: RateLimiterPort | None = None,
    ) -> None:
        self.documents = documents
        self._serve = serve
        self._verifier = verifier
        self._certificates = certificates
        self._limiter = limiter
        self._tracer = serve.runner.services.tracer
        self._protocol_versions = tuple(protocol_versions)

    async def handle_rpc(self, request: HttpRequest, send: Send) -> None:
        """Respond to a JSON-RPC request."""
        request_id: RequestId = None
        operation: Operation | None = None
        is_notification = False
        body = b""
        wire: Wire = WIRE_V1
        try:
            version = requested_version(request)
            if version in self._protocol_versions:
                wire = RPC_WIRES[version]
            # Authenticate before the body is read: unknown callers must not use much memory.
            principal = await self.authenticate(request)
            request.check_json()
            body = await request.body()
            await self._count_bytes(principal, body)
            if version not in self._protocol_versions:
                # Not earlier: the error response needs the request id, which is in the body.
                self._check_intent_or_version(body, version)
            call = decode_rpc_request(body)
            request_id = call.id
            request.operation = call.method[:_MAX_METHOD_LENGTH]
            # Only intents have notifications: A2A methods without an id are errors.
            if call.method not in wire.methods and call.method in self._serve.intents:
                is_notification = call.is_notification
                await self._answer_intent(request, send, principal, call)
                return
            extensions = self._negotiate_extensions(request)
            operation = _find_operation(call.method, wire, self._serve.intents.listed)
            params = wire.read_request(operation, call.params)
            result = await self._perform(wire, operation, principal, params, request, extensions)
        except Exception as error:  # noqa: BLE001 - process boundary
            self.record_error(request, error)
            if is_notification:
                await _send_notification_error(send, error)
                return
            if request_id is None:  # not decoded yet, or null
                request_id = find_request_id(body)
            streaming = operation in STREAMING
            await _send_rpc_error(send, error, wire, request_id=request_id, streaming=streaming)
            return
        prefix = rpc_result_prefix(request_id)
        if isinstance(result, TaskStream):
            await send_events(
                request, send, wire, result, prefix=prefix, suffix=b"}", extensions=extensions
            )
        else:
            await send_response(send, 200, prefix + result + b"}", JSON, extensions.headers)

    async def _answer_intent(
        self, request: HttpRequest, send: Send, principal: Principal, call: RpcRequest
    ) -> None:
        """Execute the intent that is the method of a request, and respond.

        A notification (a request without an id) gets a response without a body.
        """
        self._start_span(request, call.method, request.trace_parent)
        answer = await call_rpc_intent(
            self._serve, principal, call, trace_parent=request.trace_parent
        )
        request.note_task(answer.task_id, answer.trace_id)
        if call.is_notification:
            await send_response(send, 204, b"")
        else:
            body = rpc_result_prefix(call.id) + answer.body + b"}"
            await send_response(send, 200, body, JSON, answer.headers)

    async def handle_run(self, request: HttpRequest, send: Send) -> None:
        """Respond to a request that calls an intent at `/run`."""
        try:
            request.check_method("POST")
            principal = await self.authenticate(request)
            request.check_json()
            content = await request.body()
            await self._count_bytes(principal, content)
            self._start_span(request, "run", request.trace_parent)
            answer = await call_intent(
                self._serve, principal, content, trace_parent=request.trace_parent
            )
            request.note_task(answer.task_id, answer.trace_id)
        except Exception as error:  # noqa: BLE001 - process boundary
            await self.send_run_error(request, send, error)
            return
        await send_response(send, 200, answer.body, JSON, answer.headers)

    async def handle_endpoint(
        self, request: HttpRequest, send: Send, endpoint: StreamEndpoint
    ) -> None:
        """Respond with a stream to a request of another protocol, such as AG-UI."""
        try:
            request.check_method("POST")
            principal = await self.authenticate(request)
            self._serve.check_ready()
            request.check_json()
            body = await request.body()
            await self._count_bytes(principal, body)
            self._start_span(request, request.path.strip("/"), request.trace_parent)
            chunks = await endpoint.open(principal, body, trace_parent=request.trace_parent)
        except Exception as error:  # noqa: BLE001 - process boundary
            await self.send_run_error(request, send, error)
            return
        await send_chunks(request, send, chunks, heartbeat=self._serve.limits.heartbeat)

    async def send_run_error(self, request: HttpRequest, send: Send, error: Exception) -> None:
        """Respond with an error to a request at `/run`, or at an endpoint of another protocol."""
        self.record_error(request, error)
        status, body = encode_run_error(error)
        headers = error.headers if isinstance(error, HttpError) else error_headers(status, error)
        await send_response(send, status, body, JSON, headers)

    async def handle_rest(self, request: HttpRequest, send: Send) -> None:
        """Respond to an HTTP+JSON request."""
        wire: Wire = WIRE_V1
        media_type = _response_media_type(request)
        try:
            version = requested_version(request)
            self._check_version(version)
            wire = REST_WIRES[version]
            route = find_route(request)
            request.operation = _METHOD_NAMES[route.operation]
            principal = await self.authenticate(request)
            extensions = self._negotiate_extensions(request)
            if route.has_body:
                body = await request.body()
                await self._count_bytes(principal, body)
                if body:
                    request.check_json()
                params = wire.read_request(route.operation, body, route.path)
            else:
                params = wire.read_query(route.operation, route.path, request.query())
            result = await self._perform(
                wire, route.operation, principal, params, request, extensions
            )
        except Exception as error:  # noqa: BLE001 - process boundary
            self.record_error(request, error)
            await _send_http_error(send, error, wire, media_type)
            return
        if isinstance(result, TaskStream):
            await send_events(request, send, wire, result, extensions=extensions)
        else:
            await send_response(send, 200, result, media_type, extensions.headers)

    async def handle_grpc(
        self,
        request: HttpRequest,
        wire: Wire,
        operation: Operation,
        *,
        receive: Callable[[], Awaitable[bytes]],
        decode: Callable[[bytes], Awaitable[Request]],
    ) -> CallResult:
        """Return the result of a gRPC call; its method determines version and operation.

        `receive` reads the body. It is called after the caller is authenticated.
        """
        request.operation = _METHOD_NAMES[operation]
        version = requested_version(request)
        if version != wire.version:
            raise VersionNotSupported(
                f"A2A version {version} is not supported by this service; send the metadata "
                f"a2a-version: {wire.version}"
            )
        principal = await self.authenticate(request)
        extensions = self._negotiate_extensions(request)
        body = await receive()
        await self._count_bytes(principal, body)
        params = await decode(body)
        result = await self._perform(wire, operation, principal, params, request, extensions)
        return result, extensions

    def record_error(self, request: HttpRequest, error: Exception) -> None:
        """Count an error, record it in the span of its request, and log an internal error."""
        log_internal_error(error)
        request.span_error = count_refusal(self._tracer, error)

    async def authenticate(self, request: HttpRequest, *, is_counted: bool = True) -> Principal:
        """Return the caller of a request.

        Raise Unauthenticated if the credentials are rejected; the error does not contain the
        reason. Raise RateLimited if the request is counted and exceeds the rate limit.
        """
        principal = await self._verify(request)
        if principal.is_anonymous:
            principal = replace(principal, address=limited_address(request.address))
        request.caller = principal.caller
        if self._limiter is not None and is_counted:
            await self._limiter.count_request(_limit_key(principal))
        return principal

    async def _count_bytes(self, principal: Principal, body: bytes) -> None:
        if self._limiter is not None and body:
            await self._limiter.count_bytes(_limit_key(principal), len(body))

    async def _verify(self, request: HttpRequest) -> Principal:
        if self._verifier is None and self._certificates is None:
            return ANONYMOUS
        principal = None
        if b"authorization" in request.headers:
            # Then the certificate is ignored: an invalid token is always an error.
            scheme, _, token = request.header(b"authorization").partition(" ")
            if self._verifier is not None and scheme.lower() == "bearer" and token.strip():
                principal = await self._verifier.verify(token.strip())
        elif self._certificates is not None:
            principal = self._certificates.verify(
                address=request.address,
                headers=request.headers,
                certificate=request.client_certificate,
            )
        if principal is None:
            raise Unauthenticated(f"valid credentials are required: {self._accepted_credentials}")
        return principal

    @property
    def _accepted_credentials(self) -> str:
        """Return the accepted kinds of credentials, as a text for errors."""
        kinds = [] if self._verifier is None else ["Authorization: Bearer TOKEN"]
        return " or ".join(kinds if self._certificates is None else [*kinds, "a TLS certificate"])

    def extended_card(self, principal: Principal, tenant: str = "") -> AgentCard:
        """Return the extended card for an authenticated caller within a tenant."""
        cards = self.documents.extended_cards
        if cards is None:
            raise UnsupportedOperation("this agent has no extended card")
        self._serve.check_authenticated(principal, "the extended card")
        return cards.card_for(principal.within(tenant))

    def _check_intent_or_version(self, body: bytes, version: str) -> None:
        """Check the version, unless the method is an intent: intents have no version."""
        with suppress(AccError):
            if decode_rpc_request(body).method in self._serve.intents:
                return
        self._check_version(version)

    def _check_version(self, version: str) -> None:
        if version not in self._protocol_versions:
            supported = " or ".join(self._protocol_versions)
            raise VersionNotSupported(
                f"A2A version {version} is not supported; send the header A2A-Version: {supported}"
            )

    def _negotiate_extensions(self, request: HttpRequest) -> NegotiatedExtensions:
        """Compare the extensions of a request with those that the server offers and requires."""
        required = self.documents.required_extensions
        headers = request.headers
        if b"a2a-extensions" not in headers and b"x-a2a-extensions" not in headers and not required:
            return NegotiatedExtensions((), self.documents.extensions)
        requested = set(_requested_extensions(request))
        for uri in required:
            if uri not in requested:
                raise ExtensionRequired(
                    f"the extension {uri} is required; add it to the A2A-Extensions header"
                )
        offered = self.documents.extensions
        return NegotiatedExtensions(
            sorted(requested.intersection(offered)), set(offered).difference(requested)
        )

    def _start_operation(
        self, wire: Wire, operation: Operation, params: Any, request: HttpRequest
    ) -> Any:
        """Start the span of a request; return its parameters with the values of HTTP headers."""
        message = params.message if operation in _SEND_OPERATIONS else None
        if self._tracer is not None:
            header = request.trace_parent
            parent = header if message is None else nearest_parent(message.metadata, header)
            span = self._start_span(request, _METHOD_NAMES[operation], parent)
            describe_request(span, version=wire.version, tenant=params.tenant, message=message)
        return params if message is None else _with_headers(params, request)

    def _start_span(self, request: HttpRequest, method: str, parent: str) -> SpanPort | None:
        """Start the span of a request if there is a tracer; the response ends it."""
        if self._tracer is not None:
            request.span = start_server_span(self._tracer, method, parent)
            request.trace_id = request.span.trace_id or request.trace_id
        return request.span

    async def _perform(
        self,
        wire: Wire,
        operation: Operation,
        principal: Principal,
        params: Any,
        request: HttpRequest,
        extensions: NegotiatedExtensions,
    ) -> bytes | TaskStream:
        """Perform an operation and return its encoded result, or its stream."""
        serve = self._serve
        if params.tenant:
            check_tenant(params.tenant)
        params = self._start_operation(wire, operation, params, request)
        request.task_id = _logged_task_id(params)
        match operation:
            case Operation.SEND:
                result = await serve.send(principal, params)
                task_id = result.id if isinstance(result, Task) else result.task_id
                request.note_task(task_id, trace_id_of(params.message, ""))
                return wire.write_send_result(extensions.show(result))
            case Operation.STREAM:
                stream = await serve.stream(principal, params, after=request.last_event_id())
                request.note_task(stream.task_id, trace_id_of(params.message, ""))
                return stream
            case Operation.GET:
                return wire.write_task(extensions.show(await serve.get(principal, params)))
            case Operation.LIST:
                page = await serve.list_tasks(principal, params)
                page = replace(page, tasks=tuple(map(extensions.show, page.tasks)))
                return wire.write_page(page, params.query.page_size, params.include_artifacts)
            case Operation.CANCEL:
                return wire.write_task(extensions.show(await serve.cancel(principal, params)))
            case Operation.SUBSCRIBE:
                return await serve.subscribe(principal, params, after=request.last_event_id())
            case Operation.EXTENDED_CARD:
                return wire.write_card(self.extended_card(principal, params.tenant))
        return await self._perform_push(wire, operation, principal, params)

    async def _perform_push(
        self, wire: Wire, operation: Operation, principal: Principal, params: Any
    ) -> bytes:
        """Perform an operation on push configurations and return its encoded result."""
        serve = self._serve
        match operation:
            case Operation.PUSH_CREATE:
                return wire.write_push(await serve.create_push(principal, params))
            case Operation.PUSH_GET:
                return wire.write_push(await serve.get_push(principal, params))
            case Operation.PUSH_LIST:
                return wire.write_push_list(*await serve.list_push_configs(principal, params))
        await serve.delete_push(principal, params)  # the only operation left
        return wire.write_empty()


def _with_headers(params: SendRequest, request: HttpRequest) -> SendRequest:
    """Return a request with the extensions and the trace of its HTTP headers."""
    if INTENTS_EXTENSION in params.message.metadata:
        params = replace(params, extensions=_requested_extensions(request))
    parent = request.trace_parent
    return replace(params, trace_parent=parent) if parent else params


def _logged_task_id(params: Any) -> str:
    """Return the task id of a request for the access log, or an empty string."""
    if isinstance(params, GetRequest | TaskRequest):
        return params.id[:_MAX_LOGGED_ID_LENGTH]
    if isinstance(params, PushRequest):
        return params.task_id[:_MAX_LOGGED_ID_LENGTH]
    return params.config.task_id if isinstance(params, PushCreateRequest) else ""


def _requested_extensions(request: HttpRequest) -> tuple[str, ...]:
    """Return the extensions that the client activates."""
    value = request.header(b"a2a-extensions") or request.header(b"x-a2a-extensions")
    return tuple(uri.strip() for uri in value.split(","))


def requested_version(request: HttpRequest) -> str:
    """Return the requested protocol version as MAJOR.MINOR; the default is 0.3."""
    version = request.header(b"a2a-version")
    if version in RPC_WIRES:
        return version
    if not version and b"A2A-Version" in request.scope["query_string"]:
        version = request.query().get("A2A-Version", "")
    return ".".join(version.split(".")[:2])[:_MAX_VERSION_LENGTH] or "0.3"


async def send_early_error(
    request: HttpRequest, send: Send, error: Exception, *, is_rpc: bool
) -> None:
    """Respond with an error to a request that failed before its version was checked."""
    try:
        wire = REST_WIRES.get(requested_version(request), WIRE_V1)
    except AccError:
        wire = WIRE_V1
    if is_rpc:
        await _send_rpc_error(send, error, wire)
    else:
        await _send_http_error(send, error, wire, _response_media_type(request))


async def _send_rpc_error(
    send: Send,
    error: BaseException,
    wire: Wire,
    *,
    request_id: RequestId = None,
    streaming: bool = False,
) -> None:
    body = encode_rpc_error(error, request_id, wire.version)
    if isinstance(error, HttpError):
        await send_response(send, error.status, body, JSON, error.headers)
        return
    error_status = wire_error_for(error).http_status
    status = error_status if error_status in _RPC_ERROR_STATUSES else 200
    if wire is WIRE_V03 and streaming and status == 200:
        # Clients of 0.3 expect the error of a streaming method in a stream.
        await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM_HEADERS})
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % body})
        return
    await send_response(send, status, body, JSON, error_headers(status, error))


async def _send_notification_error(send: Send, error: BaseException) -> None:
    """Respond to a notification with a status only; JSON-RPC forbids a body.

    The status shows whether the client must authenticate or send fewer requests.
    """
    error_status = wire_error_for(error).http_status
    status = error_status if error_status in _RPC_ERROR_STATUSES else 204
    await send_response(send, status, b"", headers=error_headers(status, error))


async def _send_http_error(send: Send, error: BaseException, wire: Wire, media_type: bytes) -> None:
    status = wire_error_for(error).http_status
    headers = error.headers if isinstance(error, HttpError) else error_headers(status, error)
    await send_response(send, status, encode_http_error(error, wire.version), media_type, headers)


def _limit_key(principal: Principal) -> str:
    """Return whose requests are counted: an account, or the address of an anonymous caller."""
    if principal.is_anonymous:
        return f"address/{principal.address}"
    return f"account/{principal.account.user_id}"


def error_headers(status: int, error: BaseException) -> Headers:
    """Return the headers that ask a client to authenticate, or to retry later."""
    if status == 401:
        return [(b"www-authenticate", b"Bearer")]
    if isinstance(error, InsufficientScope):
        challenge = f'Bearer error="insufficient_scope", scope="{error.scope}"'
        return [(b"www-authenticate", challenge.encode())]
    if status in (429, 503):
        seconds = getattr(error, "retry_after", RETRY_AFTER_SECONDS)
        return [(b"retry-after", str(max(1, ceil(seconds))).encode())]
    return []


def _find_operation(method: str, wire: Wire, intents: Sequence[str]) -> Operation:
    """Return the operation of a method, or raise UnknownMethod."""
    operation = wire.methods.get(method)
    if operation is not None:
        return operation
    hint = ""
    if wire is WIRE_V03 and method in WIRE_V1.methods:
        hint = "; it exists in version 1.0: send the header A2A-Version: 1.0"
    elif wire is WIRE_V1 and method in WIRE_V03.methods:
        hint = "; it exists in version 0.3: send A2A-Version: 0.3, or omit the header"
    elif intents:
        hint = f"; the intents of this agent are: {', '.join(intents)}"
    raise UnknownMethod(f"method {method[:_MAX_METHOD_LENGTH]!r} does not exist{hint}")


def _response_media_type(request: HttpRequest) -> bytes:
    """Return the media type application/a2a+json if the client uses it, else JSON."""
    types = request.headers.get(b"accept", b"") + request.headers.get(b"content-type", b"")
    return A2A_JSON if A2A_JSON in types else JSON
