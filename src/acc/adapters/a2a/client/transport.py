"""Calls over one interface of a remote agent."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from urllib.parse import quote

import httpx2
import msgspec

from acc.adapters.a2a.wire.errors import error_from_http, error_from_rpc
from acc.adapters.a2a.wire.jsonrpc import decode_rpc_response, encode_rpc_request
from acc.adapters.a2a.wire.protocol import Operation, StreamResponse, Wire, params_to_query
from acc.adapters.a2a.wire.v03 import WIRE_V03
from acc.adapters.a2a.wire.v03_rest import WIRE_V03_REST
from acc.adapters.a2a.wire.v1 import WIRE_V1
from acc.adapters.http.client import (
    MAX_STREAM_EXTENSION,
    STREAMING,
    NetworkOptions,
    event_source,
)
from acc.adapters.http.retry import retry_after_seconds
from acc.application.a2a.requests import Request
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.agent_card import GRPC, HTTP_JSON, JSONRPC, AgentCard, Interface
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import origin_of
from acc.ports.outbound.auth_ports import CredentialsPort

MAX_EVENT_BYTES = 16 * 1024 * 1024
MAX_STREAM_BYTES = 256 * 1024 * 1024
MAX_RETRY_AFTER_SECONDS = 60.0
RETRYABLE_STATUS = frozenset({429, 502, 503, 504})
_MAX_ERROR_BYTES = 64 * 1024
_CONNECT_TIMEOUT_SECONDS = 10.0
#: The server does not implement the protocol, or this operation, at this URL.
_NOT_IMPLEMENTED_STATUS = frozenset({404, 405, 501})
_METHOD_NOT_FOUND = -32601
#: Values of credentials that are hidden in errors; shorter ones occur in other words.
_MAX_SECRETS = 64
_MIN_SECRET_LENGTH = 6
_WIRES: Mapping[tuple[str, str], Wire] = {
    ("1", JSONRPC): WIRE_V1,
    ("1", HTTP_JSON): WIRE_V1,
    ("0", JSONRPC): WIRE_V03,
    ("0", HTTP_JSON): WIRE_V03_REST,
    ("1", GRPC): WIRE_V1,
    ("0", GRPC): WIRE_V03_REST,
}


class CallFailed(RemoteFailed):
    """A call that did not complete; `retry_after` is the wait that the server asked for."""

    def __init__(self, message: str, *, retryable: bool, retry_after: float | None = None) -> None:
        super().__init__(message, remote_code="unreachable", retryable=retryable)
        self.retry_after = retry_after


class Unreachable(CallFailed):
    """A call that did not reach an implementation, so that it had no effect."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An item of a stream, with the id of its event if it has one."""

    id: str
    item: StreamResponse


def wire_for(interface: Interface) -> Wire | None:
    """Return the wire format of an interface, or None if it is not supported."""
    return _WIRES.get((interface.version.partition(".")[0], interface.binding.upper()))


class PresentedSecrets:
    """The credentials that were sent, which errors must not contain if the remote repeats them."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._values: deque[str] = deque(maxlen=_MAX_SECRETS)
        self.note(headers or {})

    def note(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return headers with credentials after their values are noted."""
        for header in headers.values():
            # After the scheme of Authorization, or the name of a cookie.
            for value in (header, header.partition(" ")[2], header.partition("=")[2]):
                if len(value) >= _MIN_SECRET_LENGTH and value not in self._values:
                    self._values.append(value)
        return headers

    def hide(self, text: str) -> str:
        """Return the text of an error without credentials."""
        for value in self._values:
            text = text.replace(value, "***")
        return text

    def hide_in(self, body: bytes) -> bytes:
        """Return the body of an error without credentials."""
        return self.hide(body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


class PresentCredentials(httpx2.Auth):
    """Adds credentials to each request; rejected ones are refreshed once, then sent again."""

    def __init__(self, credentials: CredentialsPort, card: AgentCard) -> None:
        self._credentials = credentials
        self._card = card
        self.secrets = PresentedSecrets()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with credentials, twice if necessary."""
        request.headers.update(self.secrets.note(await self._credentials.headers(self._card)))
        response = yield request
        if response.status_code == 401 and self._credentials.can_refresh:
            # The request had no effect. The token may have been revoked before it expired.
            headers = await self._credentials.headers(self._card, refresh=True)
            request.headers.update(self.secrets.note(headers))
            yield request


class Transport(Protocol):
    """One interface of a remote agent."""

    interface: Interface
    wire: Wire

    async def call(self, operation: Operation, request: Request, *, timeout: float) -> bytes:  # noqa: ASYNC109 - a limit of the request
        """Return the result of a call as JSON."""
        ...

    def stream(
        self,
        operation: Operation,
        request: Request,
        *,
        idle_timeout: float,
        last_event_id: str = "",
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the items of a stream; close the generator to end the stream early.

        A stream that is cut off, or silent for `idle_timeout` seconds, raises CallFailed.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of this interface."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcOptions:
    """Options of a gRPC transport; `credentials` are those for the agent of `card`."""

    headers: Mapping[str, str]
    allow: Sequence[str]
    network: NetworkOptions | None
    credentials: CredentialsPort | None
    card: AgentCard


class MakeGrpcTransport(Protocol):
    """Creates the transport of a gRPC interface."""

    def __call__(self, interface: Interface, options: GrpcOptions, /) -> Transport:
        """Return the transport, which is not connected yet."""
        ...


class HttpTransport:
    """A JSON-RPC or HTTP+JSON interface, called through a guarded HTTP client."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        interface: Interface,
        *,
        headers: Mapping[str, str],
        auth: PresentCredentials | None = None,
    ) -> None:
        wire = wire_for(interface)
        assert wire is not None  # noqa: S101 - callers choose supported interfaces
        self.interface = interface
        self.wire = wire
        self.is_rpc = interface.binding.upper() == JSONRPC
        self._origin = origin_of(interface.url)
        self._http = http
        self._auth = auth
        self._ids = count(1)
        self._headers = {**headers, "A2A-Version": wire.version}

    async def call(self, operation: Operation, request: Request, *, timeout: float) -> bytes:  # noqa: ASYNC109 - a limit of the HTTP request
        """Return the result of a call as JSON."""
        call_id = next(self._ids)
        http_request = self._build_request(operation, request, call_id, timeout=timeout)
        with map_transport_errors(self._origin):
            response = await self._http.send(http_request, auth=self._auth, follow_redirects=False)
        body = response.content
        if not response.is_success:
            raise self._error_from_response(response, body, request)
        return self._result(body, request, call_id) if self.is_rpc else body

    async def aclose(self) -> None:
        """Do nothing; the connections belong to the HTTP client."""

    async def stream(
        self,
        operation: Operation,
        request: Request,
        *,
        idle_timeout: float,
        last_event_id: str = "",
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the items of a stream."""
        call_id = next(self._ids)
        http_request = self._build_request(
            operation, request, call_id, timeout=idle_timeout, is_stream=True
        )
        if last_event_id:
            http_request.headers["Last-Event-ID"] = last_event_id
        async with self._open(http_request) as response:
            content_type = response.headers.get("content-type", "").partition(";")[0]
            if not response.is_success or content_type.strip().lower() != "text/event-stream":
                body = await self._read(response, request)
                result = self._result(body, request, call_id) if self.is_rpc else body
                yield StreamEvent("", self._parse_item(result))
                return
            async with aclosing(self._events(response)) as events:
                async for event in events:
                    data = event.data.encode()
                    result = self._result(data, request, call_id) if self.is_rpc else data
                    yield StreamEvent(event.id, self._parse_item(result, request))

    @asynccontextmanager
    async def _open(self, http_request: httpx2.Request) -> AsyncIterator[httpx2.Response]:
        with map_transport_errors(self._origin):
            response = await self._http.send(
                http_request, auth=self._auth, stream=True, follow_redirects=False
            )
        try:
            yield response
        finally:
            with map_transport_errors(self._origin):
                await response.aclose()

    async def _events(
        self, response: httpx2.Response
    ) -> AsyncGenerator[httpx2.ServerSentEvent, None]:
        events = aiter(event_source(response, max_event_bytes=MAX_EVENT_BYTES))
        while True:
            with map_transport_errors(self._origin, is_connected=True):
                event = await anext(events, None)
            if event is None:
                return
            if event.data:
                yield event

    async def _read(self, response: httpx2.Response, request: Request) -> bytes:
        """Return the body of a response that is not a stream, or raise its error."""
        limit = MAX_EVENT_BYTES if response.is_success else _MAX_ERROR_BYTES
        body = bytearray()
        with map_transport_errors(self._origin, is_connected=True):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > limit:
                    raise RemoteFailed(f"{self._origin} sent more than {limit} bytes")
        if not response.is_success:
            raise self._error_from_response(response, bytes(body), request)
        return bytes(body)

    def _build_request(
        self,
        operation: Operation,
        request: Request,
        call_id: int,
        *,
        timeout: float,
        is_stream: bool = False,
    ) -> httpx2.Request:
        if self.interface.tenant:
            request = replace(request, tenant=self.interface.tenant)
        params = self.wire.write_request(operation, request)
        headers = dict(self._headers)
        headers["Accept"] = "text/event-stream" if is_stream else "application/json"
        method, url, query, content = "POST", self.interface.url, None, None
        if self.is_rpc:
            headers["Content-Type"] = "application/json"
            content = encode_rpc_request(self.wire.method_names[operation], call_id, params)
        else:
            method, path, path_params = _route(operation, request)
            version = "/v1" if self.wire.version == "0.3" else ""
            tenant = f"/{quote(self.interface.tenant, safe='')}" if self.interface.tenant else ""
            url = f"{self.interface.url.rstrip('/')}{version}{tenant}{path}"
            if method == "GET":
                query = params_to_query(params, (*path_params, "tenant", "metadata"))
            else:
                headers["Content-Type"] = "application/json"
                if not is_stream:
                    headers["Accept"] = "application/a2a+json, application/json"
                content = params
        return self._http.build_request(
            method,
            url,
            params=query,
            content=content,
            headers=headers,
            timeout=httpx2.Timeout(timeout, connect=min(_CONNECT_TIMEOUT_SECONDS, timeout)),
            extensions={**STREAMING, MAX_STREAM_EXTENSION: MAX_STREAM_BYTES} if is_stream else {},
        )

    def _result(self, body: bytes, request: Request, call_id: int) -> bytes:
        answer = decode_rpc_response(body, call_id)
        if answer.error is None:
            return answer.result
        code = answer.error.get("code") if isinstance(answer.error, Mapping) else None
        if code == _METHOD_NOT_FOUND:
            raise Unreachable(f"{self._origin} does not implement the method", retryable=False)
        error = msgspec.json.decode(self._hide_secrets(msgspec.json.encode(answer.error)))
        raise error_from_rpc(error, task_id=task_id_of(request))

    def _hide_secrets(self, body: bytes) -> bytes:
        return body if self._auth is None else self._auth.secrets.hide_in(body)

    def _parse_item(self, data: bytes, request: Request | None = None) -> StreamResponse:
        try:
            return self.wire.read_stream_item(data)
        except RemoteFailed:
            error = None if self.is_rpc else _error_object(data)
            if error is None:
                raise
            code = error.get("code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            task_id = "" if request is None else task_id_of(request)
            raise error_from_http(status, self._hide_secrets(data), task_id=task_id) from None

    def _error_from_response(
        self, response: httpx2.Response, body: bytes, request: Request
    ) -> Exception:
        status, body = response.status_code, self._hide_secrets(body)
        if response.is_redirect:
            return RemoteFailed(
                f"{self._origin} redirects the call, and redirects are not followed; the card must "
                "contain the URL that answers",
                remote_code=str(status),
            )
        if status in RETRYABLE_STATUS:
            return unanswered(self._origin, response, body)
        error = error_from_http(status, body, task_id=task_id_of(request))
        if status in _NOT_IMPLEMENTED_STATUS and type(error) is RemoteFailed:
            return Unreachable(f"{self._origin}: {error}", retryable=False)
        return error


def unanswered(origin: str, response: httpx2.Response, body: bytes) -> CallFailed:
    """Return the error for a response that says that the agent does not answer at present."""
    wait = retry_after_seconds(response.headers)
    return CallFailed(
        f"{origin}: {error_from_http(response.status_code, body)}",
        retryable=True,
        retry_after=None if wait is None else min(wait, MAX_RETRY_AFTER_SECONDS),
    )


@contextmanager
def map_transport_errors(origin: str, *, is_connected: bool = False) -> Iterator[None]:
    """Map httpx2 errors to RemoteFailed; the messages never contain what was sent."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise Unreachable(
            f"{origin} cannot be reached: {_reason(error)}", retryable=True
        ) from error
    except httpx2.TimeoutException as error:
        raise CallFailed(f"{origin} did not respond in time", retryable=True) from error
    except httpx2.LocalProtocolError:  # its message contains the header
        raise RemoteFailed(
            f"the request to {origin} has a header that cannot be sent; tokens and other header "
            "values must be printable ASCII",
            remote_code="unsendable",
        ) from None
    except httpx2.TooManyRedirects as error:
        raise RemoteFailed(f"{origin} redirects too often") from error
    except httpx2.SSEError as error:
        raise RemoteFailed(
            f"{origin} sent an event of more than {MAX_EVENT_BYTES} bytes", remote_code="too_large"
        ) from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        problem = "was interrupted" if is_connected else "failed"
        hint = ""
        if isinstance(error, httpx2.RemoteProtocolError) and not is_connected:
            hint = f"; if it is a gRPC server, use grpc://{origin.partition('://')[2]}"
        raise CallFailed(
            f"the connection to {origin} {problem}: {_reason(error)}{hint}", retryable=True
        ) from error
    except httpx2.InvalidURL as error:
        raise RemoteFailed(f"{origin} is not a valid URL") from error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _route(operation: Operation, request: Any) -> tuple[str, str, tuple[str, ...]]:
    """Return method, path and path parameters of an operation over HTTP+JSON."""
    task = quote(getattr(request, "id", ""), safe="")
    match operation:
        case Operation.SEND:
            return "POST", "/message:send", ()
        case Operation.STREAM:
            return "POST", "/message:stream", ()
        case Operation.GET:
            return "GET", f"/tasks/{task}", ("id",)
        case Operation.CANCEL:
            return "POST", f"/tasks/{task}:cancel", ("id",)
        case Operation.SUBSCRIBE:
            return "GET", f"/tasks/{task}:subscribe", ("id",)
    raise NotImplementedError(operation)


def task_id_of(request: Any) -> str:
    """Return the task that a request names, empty if there is none."""
    message = getattr(request, "message", None)
    return str(getattr(request, "id", "") if message is None else message.task_id)


def _error_object(data: bytes) -> Mapping[str, Any] | None:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    error = document.get("error") if isinstance(document, Mapping) else None
    return error if isinstance(error, Mapping) else None
