"""A remote A2A server whose responses are scripted by a test."""

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
    """A received request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def rpc(self) -> Any:
        return json.loads(self.body or b"{}")


Handler = Callable[[Call, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RemoteServer:
    """URL, received calls and scripted responses of the server."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    card: Any = None
    card_headers: tuple[str, ...] = ()
    streaming: bool = True
    handlers: list[Handler] = field(default_factory=list)

    def client(self, **fields: Any) -> A2AClient:
        defaults = {"url": self.url, "allow": ("127.0.0.1",), "retries": 2, "timeout": 10.0}
        return make_remote(RemoteEndpoint(**{**defaults, **fields}))

    @property
    def methods(self) -> list[str]:
        return [call.rpc["method"] for call in self.calls if call.method == "POST"]

    def own_card(self, *interfaces: Mapping[str, str], **fields: Any) -> dict[str, Any]:
        listed = interfaces or (
            {"url": self.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        )
        return {
            "name": "remote",
            "description": "d",
            "version": "1",
            "supportedInterfaces": list(listed),
            "capabilities": {"streaming": self.streaming},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            **fields,
        }


@asynccontextmanager
async def remote_server(*handlers: Handler, streaming: bool = True) -> AsyncIterator[RemoteServer]:
    """Serve: each call except card requests takes the next handler; the last one is repeated."""
    remote = RemoteServer(handlers=list(handlers), streaming=streaming)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while call := await _read(reader):
                remote.calls.append(call)
                if call.path.startswith("/.well-known") or call.path.endswith(".json"):
                    await _send_card(remote, call, writer)
                    continue
                handler = remote.handlers.pop(0) if len(remote.handlers) > 1 else remote.handlers[0]
                await handler(call, writer)
                await writer.drain()
                if writer.is_closing():
                    return
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    remote.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    remote.card = remote.own_card()
    try:
        yield remote
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


async def _send_card(remote: RemoteServer, call: Call, writer: asyncio.StreamWriter) -> None:
    if callable(remote.card):
        await remote.card(call, writer)
    else:
        body = remote.card if isinstance(remote.card, bytes) else json.dumps(remote.card).encode()
        await raw(body, *remote.card_headers)(call, writer)


def raw(body: bytes, *headers: str, status: str = "200 OK") -> Handler:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(lines).encode() + body)

    return handler


def result(value: Any) -> Handler:
    """Answer a JSON-RPC call."""

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": call.rpc["id"], "result": value}).encode()
        await raw(body, "Content-Type: application/json")(call, writer)

    return handler


def rpc_error(code: int, text: str = "no", status: str = "200 OK") -> Handler:
    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        error = {"code": code, "message": text}
        body = json.dumps({"jsonrpc": "2.0", "id": call.rpc["id"], "error": error}).encode()
        await raw(body, "Content-Type: application/json", status=status)(call, writer)

    return handler


def stream(*items: Any, then: str = "end", ids: bool = False, first: int = 1) -> Handler:
    """Stream items as JSON-RPC results; then end, close the connection, or stay silent."""

    async def handler(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for number, item in enumerate(items, start=first):
            envelope = {"jsonrpc": "2.0", "id": call.rpc.get("id"), "result": item}
            event = f"id: {number}\n" if ids else ""
            event += f"data: {json.dumps(envelope)}\n\n"
            writer.write(b"%x\r\n%b\r\n" % (len(event.encode()), event.encode()))
            await writer.drain()
        if then == "end":
            writer.write(b"0\r\n\r\n")
        elif then == "cut":
            writer.close()
        else:
            await asyncio.sleep(60)

    return handler


async def close_connection(call: Call, writer: asyncio.StreamWriter) -> None:
    writer.close()


def message(text: str = "hello", **fields: Any) -> Message:
    values = {"message_id": "m-1", "role": Role.USER, "parts": (Part(text=text),), **fields}
    return Message(**values)


def task(state: str = "COMPLETED", *artifacts: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "t-1",
        "contextId": "c-1",
        "status": {"state": f"TASK_STATE_{state}", **fields},
        "artifacts": list(artifacts),
    }


def artifact(text: str, name: str = "answer") -> dict[str, Any]:
    return {"artifactId": name, "parts": [{"text": text}]}


def status_update(state: str) -> dict[str, Any]:
    status = {"state": f"TASK_STATE_{state}"}
    return {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": status}}


def artifact_update(text: str, *, append: bool = False) -> dict[str, Any]:
    update = {"taskId": "t-1", "contextId": "c-1", "artifact": artifact(text), "append": append}
    return {"artifactUpdate": update}
