"""Raw HTTP servers on the loopback interface, and a scripted resolver."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpcore2

Responder = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class HttpServer:
    """Records the request heads and connections of a server."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def http_server(
    responder: Responder, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpServer]:
    record = HttpServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        record.connections += 1
        try:
            while head := await _head(reader):
                record.requests.append(head)
                await responder(head, writer)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    record.port = server.sockets[0].getsockname()[1]
    try:
        yield record
    finally:
        server.close()


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return ""


def respond(text: str, *headers: str, status: str = "200 OK") -> Responder:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(text.encode())}", *headers, "", text]

    async def responder(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(lines).encode())

    return responder


def redirect(location: Callable[[], str], status: str = "307 Temporary Redirect") -> Responder:
    async def responder(head: str, writer: asyncio.StreamWriter) -> None:
        await respond("", f"Location: {location()}", status=status)(head, writer)

    return responder


class FakeResolver:
    """Resolver that returns the scripted answers of a name in turn; the last one is repeated."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.queries: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.queries.append(host)
        if host not in self._answers:
            raise OSError(f"no such name: {host}")
        answers = self._answers[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class LoopbackBackend(httpcore2.AsyncNetworkBackend):
    """Records the addresses of connections, and connects to the loopback interface instead."""

    def __init__(self, port: int, unresponsive: Sequence[str] = ()) -> None:
        self._port = port
        self._unresponsive = unresponsive
        self._inner = httpcore2.AnyIOBackend()
        self.connected: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.connected.append(host)
        if host in self._unresponsive:
            await asyncio.sleep(timeout or 0)
            raise httpcore2.ConnectTimeout("no response")
        return await self._inner.connect_tcp("127.0.0.1", self._port, timeout)
