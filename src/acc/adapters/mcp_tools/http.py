"""The guarded HTTP client, in the form in which the SDK wants its client.

The SDK brings a client library of its own. Its requests go out through ours, so that no address is
called that must not be. A failure is answered as the server's error would be: the SDK gives up a
whole connection for an exception, and with it the calls of others.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client

from acc.domain.errors import AccError, AddressRefused
from acc.domain.value_objects.remote import without_secrets

_FAILED = -32000
_IDLE = 300.0
_QUIET = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How requests go out: a client that is opened for one connection, and its mark of streams."""

    open: Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]
    streaming: Mapping[str, Any]


class HttpServer:
    """A server that runs elsewhere and is called over HTTP."""

    def __init__(self, url: str, *, token: Callable[[], str], door: Door, max_bytes: int) -> None:
        self._url = url
        self._token = token
        self._door = door
        self._max_bytes = max_bytes
        self._sent = ""
        self._transport: _Guarded | None = None

    def last_words(self) -> str:
        """Return why the last request failed, if it did."""
        return "" if self._transport is None else self._transport.fault

    def cleaned(self, text: str) -> str:
        """Return a text without the token."""
        return without_secrets(text, [self._sent])

    def refusal(self) -> AddressRefused | None:
        """Return what kept us from calling the address at all."""
        return None if self._transport is None else self._transport.refusal

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator[Any]:
        """Give the streams to and from the server; such a connection has no end of its own."""
        token = self._sent = self._token()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._door.open())
            self._transport = _Guarded(client, self._door.streaming, self._max_bytes)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            outer = await stack.enter_async_context(
                httpx2.AsyncClient(
                    transport=self._transport,
                    headers=headers,
                    timeout=httpx2.Timeout(_QUIET, read=_IDLE),
                    trust_env=False,
                )
            )
            yield await stack.enter_async_context(
                streamable_http_client(
                    self._url, http_client=outer, max_sse_event_size=self._max_bytes
                )
            )


class _Guarded(httpx2.AsyncBaseTransport):
    """Sends the SDK's requests through the guarded client."""

    def __init__(
        self, client: httpx.AsyncClient, streaming: Mapping[str, Any], max_bytes: int
    ) -> None:
        self._client = client
        self._streaming = streaming
        self._max_bytes = max_bytes
        self.fault = ""
        self.refusal: AddressRefused | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; a stream is given as it comes, any other answer whole."""
        body = await request.aread()
        sent = self._client.build_request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            content=body,
            extensions={**request.extensions, **self._streaming},
        )
        return await self._told(request, self._send(sent))

    async def _told(
        self, request: httpx2.Request, sending: Awaitable[httpx2.Response]
    ) -> httpx2.Response:
        try:
            answer = await sending
        except AddressRefused as error:
            self.refusal = error
            return self._failed(str(error))
        except AccError as error:
            return self._failed(str(error))
        except httpx.HTTPError as error:
            return self._failed(f"it cannot be reached ({type(error).__name__}: {error})")
        if answer.status_code in (401, 403):
            self.fault = f"it answered {answer.status_code}: it wants another token"
        elif answer.status_code >= 400:
            self.fault = f"it answered {answer.status_code}"
        elif request.method == "POST":
            self.fault = ""
        return answer

    async def _send(self, sent: httpx.Request) -> httpx2.Response:
        answer = await self._client.send(sent, stream=True)
        kind = answer.headers.get("content-type", "").lower()
        if kind.startswith("text/event-stream") and answer.status_code < 400:
            return httpx2.Response(
                answer.status_code, headers=answer.headers.raw, stream=_Pieces(answer)
            )
        taken = bytearray()
        try:
            async for piece in answer.aiter_raw():
                taken += piece
                if len(taken) > self._max_bytes:
                    return self._failed(f"it answered with more than {self._max_bytes} bytes")
        finally:
            await answer.aclose()
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, content=bytes(taken))

    def _failed(self, why: str) -> httpx2.Response:
        self.fault = why
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": _FAILED, "message": why}}
        return httpx2.Response(
            503,
            headers={"content-type": "application/json"},
            content=msgspec.json.encode(error),
        )


class _Pieces(httpx2.AsyncByteStream):
    """A stream of events as it comes in; a break is told in the words that the SDK knows."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.aiter_raw():
                yield piece
        except (httpx.HTTPError, AccError) as error:
            raise httpx2.ReadError(f"the stream broke off: {error}") from error

    async def aclose(self) -> None:
        await self._answer.aclose()
