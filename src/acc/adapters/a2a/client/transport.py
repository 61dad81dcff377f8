"""Speaking with a server through one of the interfaces that its card lists."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from acc.adapters.a2a.client.sse import EventReader, ServerEvent
from acc.adapters.a2a.wire.errors import error_from_http, error_from_rpc
from acc.adapters.a2a.wire.jsonrpc import decode_rpc_response, encode_rpc_request
from acc.adapters.a2a.wire.protocol import Operation, StreamResponse, Wire, params_to_query
from acc.adapters.a2a.wire.v03 import WIRE_V03
from acc.adapters.a2a.wire.v03_rest import WIRE_V03_REST
from acc.adapters.a2a.wire.v1 import WIRE_V1
from acc.application.a2a.requests import Request
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.agent_card import HTTP_JSON, JSONRPC, Interface
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import origin_of

MAX_EVENT = 16 * 1024 * 1024
MAX_STREAM = 256 * 1024 * 1024
_MAX_FAULT = 64 * 1024
_CONNECT = 10.0
_LONGEST_WAIT = 60.0
#: Somebody on the way there is busy or gone for a moment.
_RETRYABLE = frozenset({429, 502, 503, 504})
#: What is spoken at this address is something else.
_NOT_HERE = frozenset({404, 405, 501})
_METHOD_NOT_FOUND = -32601
_WIRES: Mapping[tuple[str, str], Wire] = {
    ("1", JSONRPC): WIRE_V1,
    ("1", HTTP_JSON): WIRE_V1,
    ("0", JSONRPC): WIRE_V03,
    ("0", HTTP_JSON): WIRE_V03_REST,
}
Take = Callable[[ServerEvent, StreamResponse], Awaitable[bool]]


class CallFailed(RemoteFailed):
    """Report a call that did not come through; `wait` is what the server asks for."""

    def __init__(self, message: str, *, retryable: bool, wait: float | None = None) -> None:
        super().__init__(message, remote_code="unreachable", retryable=retryable)
        self.wait = wait


class Unreachable(CallFailed):
    """Report an interface at which nobody could be spoken to, so that nothing has happened."""


def wire_for(interface: Interface) -> Wire | None:
    """Return how an interface is spoken, None if it is not spoken here."""
    return _WIRES.get((interface.version.partition(".")[0], interface.binding.upper()))


class Transport:
    """One interface of a remote agent, through an HTTP client that guards where calls go."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        interface: Interface,
        *,
        headers: Mapping[str, str],
        streaming: Mapping[str, Any],
    ) -> None:
        wire = wire_for(interface)
        assert wire is not None  # noqa: S101 - others are not chosen
        self.interface = interface
        self.wire = wire
        self.is_rpc = interface.binding.upper() == JSONRPC
        self._place = origin_of(interface.url)
        self._http = http
        self._streaming = streaming
        self._ids = count(1)
        self._headers = {**headers, "A2A-Version": wire.version}

    async def ask(self, operation: Operation, request: Request, *, seconds: float) -> bytes:
        """Return the result of a call as JSON."""
        call_id = next(self._ids)
        asked = self._request(operation, request, call_id, seconds=seconds)
        with _Told(self._place):
            response = await self._http.send(asked, follow_redirects=False)
        body = response.content
        if not response.is_success:
            raise self._failure(response, body, request)
        return self._result(body, request, call_id) if self.is_rpc else body

    async def stream(
        self,
        operation: Operation,
        request: Request,
        take: Take,
        *,
        idle: float,
        after: str = "",
    ) -> None:
        """Hand on what a server streams until `take` has enough or the stream ends.

        A stream that is cut off, or silent for `idle` seconds, raises CallFailed.
        """
        call_id = next(self._ids)
        asked = self._request(operation, request, call_id, seconds=idle, is_stream=True)
        if after:
            asked.headers["Last-Event-ID"] = after
        async with self._opened(asked) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if not response.is_success or kind != "text/event-stream":
                body = await self._whole(response, request)
                result = self._result(body, request, call_id) if self.is_rpc else body
                await take(ServerEvent("", body), self._item(result))
                return
            async with aclosing(self._events(response)) as events:
                async for event in events:
                    data = event.data
                    result = self._result(data, request, call_id) if self.is_rpc else data
                    if not await take(event, self._item(result, request)):
                        return

    @asynccontextmanager
    async def _opened(self, asked: httpx.Request) -> AsyncIterator[httpx.Response]:
        with _Told(self._place):
            response = await self._http.send(asked, stream=True, follow_redirects=False)
        try:
            yield response
        finally:
            with _Told(self._place):
                await response.aclose()

    async def _events(self, response: httpx.Response) -> AsyncGenerator[ServerEvent, None]:
        reader = EventReader(max_bytes=MAX_EVENT)
        taken = 0
        pieces = response.aiter_raw()
        while True:
            with _Told(self._place, was_reached=True):
                piece = await anext(pieces, None)
            if piece is None:
                return
            taken += len(piece)
            if taken > MAX_STREAM:
                raise RemoteFailed(f"{self._place} streamed more than {MAX_STREAM} bytes")
            for event in reader.feed(piece):
                yield event

    async def _whole(self, response: httpx.Response, request: Request) -> bytes:
        """Return a body that is no stream; where it tells of a fault, raise that."""
        limit = MAX_EVENT if response.is_success else _MAX_FAULT
        body = bytearray()
        with _Told(self._place, was_reached=True):
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > limit:
                    raise RemoteFailed(f"{self._place} answered with more than {limit} bytes")
        if not response.is_success:
            raise self._failure(response, bytes(body), request)
        return bytes(body)

    def _request(
        self,
        operation: Operation,
        request: Request,
        call_id: int,
        *,
        seconds: float,
        is_stream: bool = False,
    ) -> httpx.Request:
        if self.interface.tenant:
            request = replace(request, tenant=self.interface.tenant)
        params = self.wire.write_request(operation, request)
        headers = dict(self._headers)
        headers["Accept"] = "text/event-stream" if is_stream else "application/json"
        options: dict[str, Any] = {
            "timeout": httpx.Timeout(seconds, connect=min(_CONNECT, seconds)),
            "extensions": self._streaming if is_stream else {},
        }
        if self.is_rpc:
            headers["Content-Type"] = "application/json"
            body = encode_rpc_request(self.wire.method_names[operation], call_id, params)
            return self._http.build_request(
                "POST", self.interface.url, content=body, headers=headers, **options
            )
        verb, path, named = _route(operation, request)
        version = "/v1" if self.wire.version == "0.3" else ""
        tenant = f"/{quote(self.interface.tenant, safe='')}" if self.interface.tenant else ""
        url = f"{self.interface.url.rstrip('/')}{version}{tenant}{path}"
        if verb == "GET":
            query = params_to_query(params, (*named, "tenant", "metadata"))
            return self._http.build_request("GET", url, params=query, headers=headers, **options)
        headers["Content-Type"] = "application/json"
        if not is_stream:
            headers["Accept"] = "application/a2a+json, application/json"
        return self._http.build_request(verb, url, content=params, headers=headers, **options)

    def _result(self, body: bytes, request: Request, call_id: int) -> bytes:
        answer = decode_rpc_response(body, call_id)
        if answer.error is None:
            return answer.result
        code = answer.error.get("code") if isinstance(answer.error, Mapping) else None
        if code == _METHOD_NOT_FOUND:
            raise Unreachable(f"{self._place} knows no such method", retryable=False)
        raise error_from_rpc(answer.error, task_id=_task_of(request))

    def _item(self, data: bytes, request: Request | None = None) -> StreamResponse:
        try:
            return self.wire.read_stream_item(data)
        except RemoteFailed:
            fault = None if self.is_rpc else _fault_in(data)
            if fault is None:
                raise
            code = fault.get("code")
            status = code if isinstance(code, int) and 400 <= code < 600 else 500
            task_id = "" if request is None else _task_of(request)
            raise error_from_http(status, data, task_id=task_id) from None

    def _failure(self, response: httpx.Response, body: bytes, request: Request) -> Exception:
        status = response.status_code
        if response.is_redirect:
            return RemoteFailed(
                f"{self._place} redirects calls elsewhere, which are not followed; its card must "
                "name the address that answers",
                remote_code=str(status),
            )
        if status in _RETRYABLE:
            said = str(error_from_http(status, body))
            wait = _wait_of(response.headers.get("retry-after", ""))
            return CallFailed(f"{self._place}: {said}", retryable=True, wait=wait)
        error = error_from_http(status, body, task_id=_task_of(request))
        if status in _NOT_HERE and type(error) is RemoteFailed:
            return Unreachable(f"{self._place}: {error}", retryable=False)
        return error


class _Told:
    """Tells what goes wrong on the way as errors of ours, without what was sent."""

    def __init__(self, place: str, *, was_reached: bool = False) -> None:
        self._place = place
        self._was_reached = was_reached

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            raise Unreachable(
                f"{self._place} cannot be reached: {_reason(error)}", retryable=True
            ) from error
        if isinstance(error, httpx.TimeoutException):
            raise CallFailed(f"{self._place} did not answer in time", retryable=True) from error
        if isinstance(error, httpx.LocalProtocolError):
            raise unsendable(self._place) from None
        if isinstance(error, httpx.HTTPError | httpx.StreamError):
            done = "broke off" if self._was_reached else "did not come through"
            raise CallFailed(
                f"the connection to {self._place} {done}: {_reason(error)}", retryable=True
            ) from error
        if isinstance(error, httpx.InvalidURL):
            raise RemoteFailed(f"{self._place} is no address that can be called") from error


def unsendable(place: str) -> RemoteFailed:
    """Return the error for a request that no HTTP can carry; its text would tell what was sent."""
    return RemoteFailed(
        f"the request to {place} has a header that cannot be sent", remote_code="unsendable"
    )


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _route(operation: Operation, request: Any) -> tuple[str, str, tuple[str, ...]]:
    """Return method, path and the names that stand in the path of an operation over HTTP."""
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


def _task_of(request: Any) -> str:
    message = getattr(request, "message", None)
    return str(getattr(request, "id", "") if message is None else message.task_id)


def _fault_in(data: bytes) -> Mapping[str, Any] | None:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fault = document.get("error") if isinstance(document, Mapping) else None
    return fault if isinstance(fault, Mapping) else None


def _wait_of(text: str) -> float | None:
    """Return how long a server asks to be left alone, within reason."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), _LONGEST_WAIT)
    try:
        until = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None
    return min(max(until - time.time(), 0.0), _LONGEST_WAIT)
