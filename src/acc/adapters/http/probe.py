"""Looking at a server from outside over HTTP."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import ProbeAnswer, ProbeEvent, ProbeRequest, ProbeStream

_MOST_TEXT = 4 * 1024 * 1024


class HttpProbe:
    """Sends requests as they are, through the client that it is given.

    `streaming` are the extensions of a request whose answer has no end that could be foreseen.
    """

    def __init__(
        self, client: httpx.AsyncClient, *, streaming: Mapping[str, Any] | None = None
    ) -> None:
        self._client = client
        self._streaming = dict(streaming or {})

    async def exchange(self, request: ProbeRequest) -> ProbeAnswer:
        """Return the whole answer to a request."""
        try:
            response = await self._client.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body or None,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _failed(error) from error
        return _answer(response, response.content)

    @asynccontextmanager
    async def stream(self, request: ProbeRequest) -> AsyncIterator[ProbeStream]:
        """Return the answer to a request while it is still coming."""
        try:
            async with self._client.stream(
                request.method,
                request.url,
                headers=dict(request.headers),
                content=request.body or None,
                extensions=self._streaming,
            ) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    yield ProbeStream(answer=_answer(response), events=_events(response))
                else:
                    body = await _some_of(response)
                    yield ProbeStream(answer=_answer(response, body), events=_none())
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _failed(error) from error


def _failed(error: Exception) -> RemoteFailed:
    if isinstance(error, httpx.TimeoutException):
        return RemoteFailed("it did not answer in time", retryable=True)
    if isinstance(error, httpx.ConnectError):
        return RemoteFailed(f"it cannot be reached: {error}", retryable=True)
    return RemoteFailed(f"the connection broke: {type(error).__name__}", retryable=True)


def _answer(response: httpx.Response, body: bytes = b"") -> ProbeAnswer:
    return ProbeAnswer(
        status=response.status_code,
        headers={name.lower(): value for name, value in response.headers.items()},
        body=body,
    )


async def _some_of(response: httpx.Response) -> bytes:
    taken = b""
    async for piece in response.aiter_bytes():
        taken += piece
        if len(taken) > _MOST_TEXT:
            break
    return taken


async def _none() -> AsyncIterator[ProbeEvent]:
    nothing: tuple[ProbeEvent, ...] = ()
    for event in nothing:
        yield event


async def _events(response: httpx.Response) -> AsyncIterator[ProbeEvent]:
    name = ""
    data: list[str] = []
    async for line in response.aiter_lines():
        if not line:
            if data:
                yield ProbeEvent(data="\n".join(data), id=name)
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "id":
            name = value
