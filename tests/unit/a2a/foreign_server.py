"""A server of someone else's, which does whatever a test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from acc.adapters.a2a.client.client import A2AClient
from acc.bootstrap.a2a_client import make_remote
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.task import Message, Role


@dataclass
class Call:
    """A request that came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def rpc(self) -> Any:
        return json.loads(self.body or b"{}")


Handler = Callable[[Call, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Foreign:
    """The server: where it is, what came in, and what it answers."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    card: Any = None
    card_headers: tuple[str, ...] = ()
    streaming: bool = True
    handlers: list[Handler] = field(default_factory=list)

    def client(self, **fields: Any) -> A2AClient:
        given = {"url": self.url, "allow": ("127.0.0.1",), "retries": 2, "timeout": 10.0}
        return make_remote(RemoteEndpoint(**{**given, **fields}))

    @property
    def methods(self) -> list[str]:
        return [call.rpc["method"] for call in self.calls if call.method == "POST"]

    def own_card(self, *interfaces: Mapping[str, str], **fields: Any) -> dict[str, Any]:
        spoken = interfaces or (
            {"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        )
        return {
            "name": "foreign",
            "description": "d",
            "version": "1",
            "supportedInterfaces": list(spoken),
            "capabilities": {"streaming": self.streaming},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            **fields,
        }


@asynccontextmanager
async def foreign(*handlers: Handler, streaming: bool = True) -> AsyncIterator[Foreign]:
    """Serve; each call but those for the card takes the next handler, the last one stays."""
    here = Foreign(handlers=list(handlers), streaming=streaming)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while call := await _read(reader):
                here.calls.append(call)
                if call.path.startswith("/.well-known") or call.path.endswith(".json"):
                    await _send_card(here, call, writer)
                    continue
                handler = here.handlers.pop(0) if len(here.handlers) > 1 else here.handlers[0]
                await handler(call, writer)
                await writer.drain()
                if writer.is_closing():
                    return
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    here.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    here.card = here.own_card()
    try:
        yield here
    finally:
        server.close()


async def _read(reader: asyncio.StreamReader) -> Call | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Call(method, path, headers, body)


async def _send_card(here: Foreign, call: Call, writer: asyncio.StreamWriter) -> None:
    if callable(here.card):
        await here.card(call, writer)
    else:
        body = here.card if isinstance(here.card, bytes) else json.dumps(here.card).encode()
        await raw(body, *here.card_headers)(call, writer)


def raw(body: bytes, *headers: str, status: str = "200 OK") -> Handler:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(lines).encode() + body)

    return answer


def result(value: Any) -> Handler:
    """Answer a JSON-RPC call."""

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": call.rpc["id"], "result": value}).encode()
        await raw(body, "Content-Type: application/json")(call, writer)

    return answer


def fault(code: int, text: str = "no", status: str = "200 OK") -> Handler:
    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        error = {"code": code, "message": text}
        body = json.dumps({"jsonrpc": "2.0", "id": call.rpc["id"], "error": error}).encode()
        await raw(body, "Content-Type: application/json", status=status)(call, writer)

    return answer


def stream(*items: Any, then: str = "end", ids: bool = False, first: int = 1) -> Handler:
    """Stream items as JSON-RPC results; then end, cut the line, or say no more."""

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for number, item in enumerate(items, start=first):
            told = {"jsonrpc": "2.0", "id": call.rpc.get("id"), "result": item}
            piece = f"id: {number}\n" if ids else ""
            piece += f"data: {json.dumps(told)}\n\n"
            writer.write(b"%x\r\n%b\r\n" % (len(piece.encode()), piece.encode()))
            await writer.drain()
        if then == "end":
            writer.write(b"0\r\n\r\n")
        elif then == "cut":
            writer.close()
        else:
            await asyncio.sleep(60)

    return answer


async def hang_up(call: Call, writer: asyncio.StreamWriter) -> None:
    writer.close()


def message(text: str = "hello", **fields: Any) -> Message:
    given = {"message_id": "m-1", "role": Role.USER, "parts": (Part(text=text),), **fields}
    return Message(**given)


def task(state: str = "COMPLETED", *artifacts: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "t-1",
        "contextId": "c-1",
        "status": {"state": f"TASK_STATE_{state}", **fields},
        "artifacts": list(artifacts),
    }


def artifact(text: str, name: str = "answer") -> dict[str, Any]:
    return {"artifactId": name, "parts": [{"text": text}]}


def moved(state: str) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}"}
    return {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": status}}


def piece(text: str, *, append: bool = False) -> dict[str, Any]:
    told = {"taskId": "t-1", "contextId": "c-1", "artifact": artifact(text), "append": append}
    return {"artifactUpdate": told}
