"""HTTP probe of `acc doctor`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from acc.adapters.http.client import STREAMING, event_source
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import (
    ProbeEvent,
    ProbeRequest,
    ProbeResponse,
    ProbeStream,
)

MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_EVENT_BYTES = 16 * 1024 * 1024


class HttpProbe:
    """Sends requests unchanged through a guarded client; implements HttpProbePort.

    `bare_client` is a client without the client certificate.
    """

    def __init__(self, client: httpx2.AsyncClient, bare_client: httpx2.AsyncClient) -> None:
        self._client = client
        self._bare_client = bare_client

    async def exchange(self, request: ProbeRequest) -> ProbeResponse:
        """Return the complete response to a request."""
        client = self._client if request.has_certificate else self._bare_client
        try:
            response = await client.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body or None,
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _failed(error) from error
        return _probe_response(response, response.content)

    @asynccontextmanager
    async def stream(self, request: ProbeRequest) -> AsyncIterator[ProbeStream]:
        """Yield the response to a request while it is being received."""
        try:
            async with self._client.stream(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body or None,
                extensions=STREAMING,
            ) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    yield ProbeStream(response=_probe_response(response), events=_events(response))
                else:
                    body = await _read_limited(response)
                    yield ProbeStream(response=_probe_response(response, body), events=_no_events())
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _failed(error) from error


def _failed(error: Exception) -> RemoteFailed:
    if isinstance(error, httpx2.TimeoutException):
        return RemoteFailed("the server did not respond in time", retryable=True)
    if isinstance(error, httpx2.ConnectError):
        return RemoteFailed(f"the server cannot be reached: {error}", retryable=True)
    return RemoteFailed(f"the connection failed: {type(error).__name__}", retryable=True)


def _probe_response(response: httpx2.Response, body: bytes = b"") -> ProbeResponse:
    return ProbeResponse(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=body,
    )


async def _read_limited(response: httpx2.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_TEXT_BYTES:
            break
    return body


async def _no_events() -> AsyncIterator[ProbeEvent]:
    events: tuple[ProbeEvent, ...] = ()
    for event in events:
        yield event


async def _events(response: httpx2.Response) -> AsyncIterator[ProbeEvent]:
    last_id = ""
    async for event in event_source(response, max_event_bytes=MAX_EVENT_BYTES):
        # httpx2 repeats the last id for an event without one, as browsers do.
        own_id = event.id if event.id != last_id else ""
        last_id = event.id
        if event.data:
            yield ProbeEvent(data=event.data, id=own_id)
