"""A loopback server that speaks the HTTP APIs of providers and replies from a script.

It speaks chat completions and Responses (OpenAI), Messages (Anthropic) and generateContent
(Google). `python -m acc.testing.providers` runs one until its standard input closes, and prints
its address.
"""

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from acc.testing.provider_apis import (
    ChatCompletions,
    GenerateContent,
    Messages,
    ProviderApi,
    ProviderRequest,
    Reply,
    Responses,
)

__all__ = ["ProviderRequest", "ProviderServer", "Reply", "example_for", "fail", "say", "use"]

ScriptedReply = str | Reply | Callable[[ProviderRequest], "str | Reply"]
_APIS: dict[str, ProviderApi] = {
    "/chat/completions": ChatCompletions(),
    "/responses": Responses(),
    "/messages": Messages(),
}
_GOOGLE = GenerateContent()
_MAX_BODY_BYTES = 64 * 1024 * 1024
_PHRASES = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests"}


def say(text: str) -> Reply:
    """Return a reply with text; for more than text construct a `Reply`."""
    return Reply(text=text)


def use(name: str, /, **arguments: Any) -> Reply:
    """Return a reply that asks for a tool call."""
    return Reply(calls=((name, arguments),))


def fail(
    status: int,
    message: str = "",
    *,
    code: str = "",
    param: str | None = None,
    retry_after: float | str | None = None,
) -> Reply:
    """Return an error reply."""
    reply = Reply(status=status, error_code=code, error_param=param, retry_after=retry_after)
    return replace(reply, message=message) if message else reply


def example_for(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """Return the simplest value that matches a JSON schema."""
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for step in str(schema["$ref"]).removeprefix("#/").split("/"):
            target = target[step]
        return example_for(target, root)
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return example_for(schema[name][0], root)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: example_for(inner, root) for name, inner in properties.items()}
    if kind == "array":
        return [example_for(schema.get("items", {}), root)] * int(schema.get("minItems", 0))
    constants: dict[str, Any] = {"boolean": True, "null": None}
    number = schema.get("minimum", 0)
    return constants.get(kind, number if kind in ("integer", "number") else "ok")


class ProviderServer:
    """Replies as OpenAI, compatible servers, Anthropic and Google do, and records requests.

    Each entry of the script answers one request: a text, a Reply, or a function of the request.
    After the last one it replies with a value that matches the schema of the request, or with a
    fixed sentence. Use it with `async with` in the running event loop, or with `with` in a thread.
    """

    def __init__(self, *script: ScriptedReply, record: bool = True) -> None:
        self.script = list(script)
        self.requests: list[ProviderRequest] = []
        #: The number of requests, also if they are not recorded.
        self.count = 0
        self.open_requests = 0
        self.max_open_requests = 0
        self._record = record
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._port = 0

    @property
    def root(self) -> str:
        """Return the base URL for the clients of Anthropic and Google."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        """Return the base URL for the client of OpenAI."""
        return f"{self.root}/v1"

    def environment(self, key: str = "test-server-key") -> dict[str, str]:
        """Return the variables that direct the clients of OpenAI, Anthropic and Google here."""
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
        assert self._loop and self._thread and self._stopped  # noqa: S101 - it was entered
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
        """Answer one request, and return True if the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {n.strip().lower(): v.strip() for n, _, v in (x.partition(":") for x in lines)}
        length = int(headers.get("content-length", "0"))
        if length > _MAX_BODY_BYTES:
            return False
        body = await reader.readexactly(length) if length else b""
        found = _parse_request(target, headers, body) if method == "POST" else None
        if found is None:
            await _send(writer, 404, {"error": {"message": f"no route {method} {target}"}})
            return True
        api, request = found
        self.count += 1
        if self._record:
            self.requests.append(request)
        self.open_requests += 1
        self.max_open_requests = max(self.max_open_requests, self.open_requests)
        try:
            return await self._reply(writer, api, request)
        finally:
            self.open_requests -= 1

    async def _reply(
        self, writer: asyncio.StreamWriter, api: ProviderApi, request: ProviderRequest
    ) -> bool:
        entry: ScriptedReply = self.script.pop(0) if self.script else _default_reply(request)
        made = entry(request) if callable(entry) else entry
        reply = Reply(text=made) if isinstance(made, str) else made
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.status != 200:
            headers = dict(reply.headers)
            if reply.retry_after is not None:
                headers["Retry-After"] = str(reply.retry_after)
            await _send(writer, reply.status, api.error(reply), headers)
            return True
        if request.stream:
            return await _stream(writer, api, request, reply)
        if reply.invalid_json:
            await _send(writer, 200, '{"choices": [{"message": ')
            return True
        response = json.dumps(api.response(request, reply), ensure_ascii=False)
        if reply.cut_after is not None:
            writer.write(_head(200, "application/json", len(response.encode())))
            writer.write(response.encode()[: len(response) // 2])
            await writer.drain()
            return False
        await _send(writer, 200, response, reply.headers)
        return True


def _default_reply(request: ProviderRequest) -> Reply:
    schema = _requested_schema(request)
    if schema is not None:
        return Reply(text=json.dumps(example_for(schema), ensure_ascii=False))
    return Reply(text="This is the test server. ここはテストサーバーです。")


def _requested_schema(request: ProviderRequest) -> Mapping[str, Any] | None:
    """Return the schema of the answer, wherever the API has it."""
    paths: tuple[tuple[str, ...], ...] = (
        ("response_format", "json_schema", "schema"),
        ("text", "format", "schema"),
        ("output_config", "format", "schema"),
        ("output_format", "schema"),
        ("generationConfig", "responseJsonSchema"),
        ("generationConfig", "responseSchema"),
    )
    for path in paths:
        found: Any = request.body
        for step in path:
            found = found.get(step) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None


def _parse_request(
    target: str, headers: Mapping[str, str], body: bytes
) -> tuple[ProviderApi, ProviderRequest] | None:
    path = unquote(urlsplit(target).path)
    try:
        content = json.loads(body)
    except ValueError:
        return None
    key = headers.get("authorization", "").removeprefix("Bearer ")
    key = key or headers.get("x-api-key", "") or headers.get("x-goog-api-key", "")
    model, colon, verb = path.rpartition("/models/")[2].partition(":")
    if colon and verb in ("generateContent", "streamGenerateContent"):
        api: ProviderApi | None = _GOOGLE
        stream = verb == "streamGenerateContent"
    else:
        api = next((found for end, found in _APIS.items() if path.endswith(end)), None)
        stream, model = bool(content.get("stream")), str(content.get("model", ""))
    if api is None:
        return None
    return api, ProviderRequest(
        api=api.name, model=model, stream=stream, body=content, key=key, headers=headers
    )


def _head(
    status: int, content_type: str, length: int | None, headers: Mapping[str, str] | None = None
) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Status')}"]
    lines.append(f"Content-Type: {content_type}")
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: object,
    headers: Mapping[str, str] | None = None,
) -> None:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    data = text.encode()
    writer.write(_head(status, "application/json", len(data), headers) + data)
    await writer.drain()


async def _stream(
    writer: asyncio.StreamWriter, api: ProviderApi, request: ProviderRequest, reply: Reply
) -> bool:
    writer.write(_head(200, "text/event-stream", None, reply.headers))
    for number, (name, body) in enumerate(api.events(request, reply)):
        if number == reply.cut_after:
            await writer.drain()
            writer.transport.abort()
            return False
        if number == reply.end_after:
            break
        if number == reply.error_after:
            name, body = api.error_event(reply)
        if reply.event_delay:
            await asyncio.sleep(reply.event_delay)
        data = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
        if reply.invalid_json and number == 1:
            data = '{"choices": [{"delta": '
        event = ((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode()
        writer.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        await writer.drain()
        if number == reply.error_after:
            break
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _main() -> None:
    async with ProviderServer(record=False) as server:
        sys.stdout.write(f"{server.root}\n")
        sys.stdout.flush()
        # It ends with the process that started it, which closes the pipe.
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
