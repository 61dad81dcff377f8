"""Real servers on the loopback, and names that stand for what a test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpcore

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """A server that notes what it is sent."""

    port: int = 0
    heads: list[str] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def site(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    here = Site()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here.connections += 1
        try:
            while head := await _head(reader):
                here.heads.append(head)
                await answer(head, writer)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()


async def _head(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return ""


def says(text: str, *headers: str, status: str = "200 OK") -> Answer:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(text.encode())}", *headers, "", text]

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(lines).encode())

    return answer


def leads_to(place: Callable[[], str], status: str = "307 Temporary Redirect") -> Answer:
    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        await says("", f"Location: {place()}", status=status)(head, writer)

    return answer


class Names:
    """A resolver whose answers for a name follow one another; the last one stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._answers:
            raise OSError(f"no such name: {host}")
        answers = self._answers[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class Detour(httpcore.AsyncNetworkBackend):
    """Notes where it is asked to connect to, and goes to the loopback instead."""

    def __init__(self, port: int, deaf: Sequence[str] = ()) -> None:
        self._port = port
        self._deaf = deaf
        self._inner = httpcore.AnyIOBackend()
        self.dialled: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        self.dialled.append(host)
        if host in self._deaf:
            await asyncio.sleep(timeout or 0)
            raise httpcore.ConnectTimeout("nobody answers")
        return await self._inner.connect_tcp("127.0.0.1", self._port, timeout)
