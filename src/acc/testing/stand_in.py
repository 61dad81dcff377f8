"""A stand-in for providers: a server on loopback that speaks their HTTP and says what it is told.

`python -m acc.testing.stand_in` runs one until it is stopped, and prints its address.
"""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from acc.testing.replies import Asked, Reply, fitting
from acc.testing.wires import Anthropic, Gemini, OpenAIChat, OpenAIResponses, Wire

Scripted = str | Reply | Callable[[Asked], "str | Reply"]
_WIRES: dict[str, Wire] = {
    "/chat/completions": OpenAIChat(),
    "/responses": OpenAIResponses(),
    "/messages": Anthropic(),
}
_GEMINI = Gemini()
_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}
_MOST_BODY = 64 * 1024 * 1024


class ProviderStandIn:
    """Answers as OpenAI, its imitators, Anthropic and Google do, from a script, and keeps count.

    Each entry of the script answers one request: a text, a Reply, or a function of what was asked.
    After the last it says the plainest thing: a value that fits the schema, or an echo. Use it with
    `async with`, in the running loop, or with `with`, in a thread of its own.
    """

    def __init__(self, *script: Scripted, keep: bool = True) -> None:
        self.script = list(script)
        self.asked: list[Asked] = []
        #: How many requests came, also when they are not kept.
        self.count = 0
        self.open_now = 0
        self.most_open = 0
        self._keep = keep
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port = 0

    @property
    def root(self) -> str:
        """Return the address, as Anthropic's and Google's clients want it."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """Return the address, as OpenAI's client wants it."""
        return f"{self.root}/v1"

    def environment(self, key: str = "stand-in-key") -> dict[str, str]:
        """Return the variables that send the clients of OpenAI, Anthropic and Google here."""
        return {
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.root,
            "ANTHROPIC_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": self.root,
            "GOOGLE_API_KEY": key,
        }

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None  # noqa: S101 - it was entered
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0)

    def __enter__(self) -> Self:
        ready = threading.Event()

        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            self._stopped = asyncio.Event()
            async with self:
                ready.set()
                await self._stopped.wait()

        self._thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
        self._thread.start()
        ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None and self._thread is not None  # noqa: S101 - it was entered
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and tell whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {n.strip().lower(): v.strip() for n, _, v in (x.partition(":") for x in lines)}
        length = int(headers.get("content-length", "0"))
        if length > _MOST_BODY:
            return False
        body = await reader.readexactly(length) if length else b""
        found = _asked(target, headers, body) if method == "POST" else None
        if found is None:
            await _send(writer, 404, {"error": {"message": f"no route {method} {target}"}})
            return True
        wire, asked = found
        self.count += 1
        if self._keep:
            self.asked.append(asked)
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            return await self._answer(writer, wire, asked)
        finally:
            self.open_now -= 1

    async def _answer(self, writer: asyncio.StreamWriter, wire: Wire, asked: Asked) -> bool:
        entry: Scripted = self.script.pop(0) if self.script else _plain(asked)
        made = entry(asked) if callable(entry) else entry
        reply = Reply(text=made) if isinstance(made, str) else made
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.status != 200:
            extra = dict(reply.headers)
            if reply.retry_after is not None:
                extra["Retry-After"] = str(reply.retry_after)
            await _send(writer, reply.status, wire.fault(reply), extra)
            return True
        if asked.stream:
            return await _stream(writer, wire, asked, reply)
        if reply.garbled:
            await _send(writer, 200, '{"choices": [{"message": ')
            return True
        whole = json.dumps(wire.whole(asked, reply), ensure_ascii=False)
        if reply.cut is not None:
            writer.write(_head(200, "application/json", len(whole.encode())))
            writer.write(whole.encode()[: len(whole) // 2])
            await writer.drain()
            return False
        await _send(writer, 200, whole, reply.headers)
        return True


def _plain(asked: Asked) -> Reply:
    """Return a value that fits the schema that was sent, or a plain sentence."""
    schema = _schema(asked)
    if schema is not None:
        return Reply(text=json.dumps(fitting(schema), ensure_ascii=False))
    return Reply(text="This is the stand-in speaking. ここは代役です。")


def _schema(asked: Asked) -> Mapping[str, Any] | None:
    """Return the schema that the answer must fit, wherever the wire keeps it."""
    body = asked.body
    places: tuple[tuple[str, ...], ...] = (
        ("response_format", "json_schema", "schema"),
        ("text", "format", "schema"),
        ("output_config", "format", "schema"),
        ("output_format", "schema"),
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "responseSchema"),
    )
    for path in places:
        place: Any = body
        for step in path:
            place = place.get(step) if isinstance(place, Mapping) else None
        if isinstance(place, Mapping):
            return place
    return None


def _asked(target: str, headers: Mapping[str, str], body: bytes) -> tuple[Wire, Asked] | None:
    path = unquote(urlsplit(target).path)
    try:
        content = json.loads(body)
    except ValueError:
        return None
    key = headers.get("authorization", "").removeprefix("Bearer ")
    key = key or headers.get("x-api-key", "") or headers.get("x-goog-api-key", "")
    model, colon, verb = path.rpartition("/models/")[2].partition(":")
    if colon and verb in ("generateContent", "streamGenerateContent"):
        streams = verb == "streamGenerateContent"
        wire: Wire | None = _GEMINI
    else:
        wire = next((w for end, w in _WIRES.items() if path.endswith(end)), None)
        streams, model = bool(content.get("stream")), str(content.get("model", ""))
    if wire is None:
        return None
    return wire, Asked(
        wire=wire.name, model=model, stream=streams, body=content, key=key, headers=headers
    )


def _head(status: int, kind: str, length: int | None, extra: Mapping[str, str] = {}) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Status')}", f"Content-Type: {kind}"]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    lines += [f"{name}: {value}" for name, value in extra.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _send(
    writer: asyncio.StreamWriter, status: int, body: object, extra: Mapping[str, str] = {}
) -> None:
    written = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    data = written.encode()
    writer.write(_head(status, "application/json", len(data), extra) + data)
    await writer.drain()


async def _stream(writer: asyncio.StreamWriter, wire: Wire, asked: Asked, reply: Reply) -> bool:
    """Send a stream of events, as far as it is to come."""
    writer.write(_head(200, "text/event-stream", None, reply.headers))
    for number, (name, body) in enumerate(wire.pieces(asked, reply)):
        if number == reply.cut:
            await writer.drain()
            writer.transport.abort()
            return False
        if number == reply.stop:
            break
        if number == reply.breaks:
            name, body = wire.breaking(reply)
        if reply.pace:
            await asyncio.sleep(reply.pace)
        data = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        if reply.garbled and number == 1:
            data = '{"choices": [{"delta": '
        event = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
        chunk = event.encode()
        writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        await writer.drain()
        if number == reply.breaks:
            break
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _main() -> None:
    async with ProviderStandIn(keep=False) as server:
        sys.stdout.write(f"{server.root}\n")
        sys.stdout.flush()
        # It ends with whoever started it, whose end of the pipe then closes.
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
