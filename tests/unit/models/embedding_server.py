"""A loopback server that implements the embeddings API of OpenAI."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Reply = tuple[int, dict[str, str], bytes]
Answer = Callable[[dict[str, Any]], Reply]


def vector_of(text: str, size: int = 4) -> list[float]:
    """Return a vector that depends only on the text and is not of unit length."""
    return [float(1 + sum(map(ord, text[place::size]))) for place in range(size)]


def good(body: dict[str, Any], *, size: int = 4) -> Reply:
    """Answer with valid vectors in reverse order, which the API permits."""
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, size)}
        for index, text in enumerate(body["input"])
    ]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    answer = {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}
    return 200, {}, json.dumps(answer).encode()


def refusal(status: int, message: str = "no", **headers: str) -> Answer:
    """Answer with an error in the shape that providers use."""
    error = {"message": message, "type": "x", "param": None, "code": None}
    body = json.dumps({"error": error}).encode()
    return lambda _: (status, {key.replace("_", "-"): v for key, v in headers.items()}, body)


def raw(body: bytes, **headers: str) -> Answer:
    """Answer with the given bytes."""
    return lambda _: (200, {key.replace("_", "-"): value for key, value in headers.items()}, body)


@dataclass
class Server:
    """Records requests and returns the scripted answers, then valid ones."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                first, *lines = head.strip().split("\r\n")
                fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
                body = json.loads(await reader.readexactly(int(fields["content-length"])))
                assert first == "POST /v1/embeddings HTTP/1.1"
                self.asked.append(body)
                self.headers.append(fields)
                status, extra, data = (self.answers.pop(0) if self.answers else good)(body)
                length = extra.pop("content-length", str(len(data)))
                header_lines = "".join(f"{key}: {value}\r\n" for key, value in extra.items())
                start = f"HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n{header_lines}\r\n"
                writer.write(start.encode() + data)
                await writer.drain()
                if int(length) != len(data):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[Server]:
    """Serve on a free port of loopback."""
    server = Server(answers=list(answers))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    async with listener:
        yield server
