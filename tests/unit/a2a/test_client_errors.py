"""A2AClient against broken and hostile servers."""

import asyncio
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from remote_server import (
    Call,
    Handler,
    RemoteServer,
    artifact,
    artifact_update,
    close_connection,
    message,
    raw,
    remote_server,
    result,
    rpc_error,
    status_update,
    stream,
    task,
)

from acc import RemoteAgent, Runner
from acc.adapters.a2a.client import transport
from acc.domain.errors import (
    AccError,
    InvalidInput,
    InvalidResponse,
    PermissionDenied,
    RemoteFailed,
    TaskNotFound,
    Unauthenticated,
)
from acc.domain.value_objects.task import Task, TaskState


def use_version(server: RemoteServer, version: str) -> None:
    """Make the server support one protocol version only."""
    interface = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": version}
    server.card = server.own_card(interface)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("0.3", {}),
        ("0.3", {"kind": "message", "messageId": "m", "role": "agent", "parts": []}),
        ("1.0", {"message": {}}),
        ("1.0", {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}),
    ],
)
async def test_empty_response_fails(version: str, answer: Any, is_stream: bool) -> None:
    handler = stream(answer) if is_stream else result(answer)
    async with remote_server(handler, streaming=is_stream) as server:
        use_version(server, version)
        with pytest.raises(RemoteFailed, match="invalid response") as caught:
            await server.client().send(message())
    assert caught.value.remote_code == "invalid_agent_response"
    assert len(server.methods) == 1


async def test_reply_with_empty_text_is_accepted() -> None:
    answer = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]}}
    async with remote_server(result(answer), streaming=False) as server:
        outcome = await server.client().send(message())
    assert [part.text for part in outcome.parts] == [""]  # type: ignore[union-attr]


async def test_unknown_kind_fails() -> None:
    async with remote_server(result({"kind": "banana"}), streaming=False) as server:
        use_version(server, "0.3")
        with pytest.raises(RemoteFailed, match="kind: must be task or message"):
            await server.client().send(message())


@pytest.mark.parametrize(
    "url", ["/a2a", "", "127.0.0.1:80", "http://127.0.0.1:port", "http://[::1", "ftp://a.example"]
)
async def test_interface_without_absolute_url_is_skipped(url: str) -> None:
    async with remote_server(result({})) as server:
        server.card = server.own_card(
            {"url": url or " ", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        )
        with pytest.raises(RemoteFailed, match="not an absolute http or https URL"):
            await server.client().send(message())
        good = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
        server.card["supportedInterfaces"].append(good)
        server.handlers[:] = [stream({"kind": "message", "parts": [{"kind": "text", "text": "x"}]})]
        assert await server.client().send(message())


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        ("401 Unauthorized", Unauthenticated, "requires a valid token .HTTP status 401"),
        ("403 Forbidden", PermissionDenied, "denied permission to this caller .HTTP status 403"),
    ],
)
async def test_empty_rejection_has_error_message(
    status: str, error: type[Exception], text: str
) -> None:
    async with remote_server(raw(b"", status=status)) as server:
        with pytest.raises(error, match=text):
            await server.client().send(message())


INVALID_RESPONSES: list[tuple[Any, str]] = [
    (raw(b"<html>", "Content-Type: text/html"), "is not JSON-RPC"),
    (result({}), "must contain a task, message"),
    (result({"task": {"id": "t"}}), "invalid response"),
    (rpc_error(-32603, "it broke"), "it broke"),
    (rpc_error(-32601, "unknown"), "does not implement the method"),
    (raw(b"", "Location: https://evil.example/", status="302 Found"), "redirects the call"),
    (raw(b"oops", status="500 Oops"), "HTTP status 500"),
    (raw(b"not gzip", "Content-Encoding: gzip"), "corrupt"),
    (stream(status_update("WORKING"), {"task": {**task(), "id": "other"}}), "different task"),
    (
        stream({"statusUpdate": {"status": {"state": "TASK_STATE_WORKING"}}}),
        "taskId|without a task id",
    ),
    (stream({"nonsense": True}), "must contain a task"),
    (raw(b"data: {]\n\n", "Content-Type: text/event-stream"), "is not JSON-RPC"),
    (raw(b"[" * 100_000, "Content-Type: application/json"), "is not JSON-RPC"),
]


@pytest.mark.parametrize(("response", "text"), INVALID_RESPONSES)
async def test_invalid_response_fails(response: Any, text: str) -> None:
    async with remote_server(response) as server:
        with pytest.raises(RemoteFailed, match=text):
            await server.client(retries=0).send(message())


async def test_unknown_task_raises_not_found() -> None:
    async with remote_server(rpc_error(-32001)) as server:
        with pytest.raises(TaskNotFound, match="'t-9'"):
            await server.client().get("t-9")


async def test_error_in_http_stream_is_raised() -> None:
    error = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "too many"}}
    body = f"data: {json.dumps(error)}\n\n".encode()
    async with remote_server(raw(body, "Content-Type: text/event-stream")) as server:
        server.card = server.own_card(
            {"url": server.url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
        )
        with pytest.raises(AccError, match="too many"):
            await server.client(retries=0).send(message())


async def test_event_beyond_limit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_EVENT_BYTES", 10_000)

    async def endless(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async with remote_server(endless) as server:
        with pytest.raises(RemoteFailed, match="an event of more than 10000 bytes"):
            await server.client().send(message())


async def test_stream_beyond_limit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_STREAM_BYTES", 10_000)

    async def endless(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while True:
            writer.write(b": still here\n\n" * 100)
            await asyncio.sleep(0)
            await writer.drain()

    async with remote_server(endless) as server:
        with pytest.raises(RemoteFailed, match="more than 10000 bytes"):
            await server.client().send(message())


async def test_error_body_beyond_limit_fails() -> None:
    async def endless(call: Call, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Oops\r\n\r\n")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()

    async with remote_server(endless) as server:
        with pytest.raises(RemoteFailed, match="sent more than"):
            await server.client().send(message())


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"no json", "is not valid JSON"),
        (b"[]", "must be an object"),
        (b"{}", "name: is required"),
        (b'{"name": "x"}', "url: is required"),
        (b'{"name": "x", "supportedInterfaces": [{"url": 3}]}', "must be a string"),
    ],
)
async def test_invalid_card_fails(body: bytes, text: str) -> None:
    async with remote_server(close_connection) as server:
        server.card = body
        with pytest.raises(RemoteFailed, match=text):
            await server.client().send(message())


@pytest.mark.parametrize("status", ["500 Oops", "503 Busy"])
async def test_card_with_server_error_fails(status: str) -> None:
    async with remote_server(close_connection) as server:
        server.card = raw(b"", status=status)
        with pytest.raises(RemoteFailed, match=f"with status {status[:3]}"):
            await server.client().card()


async def test_card_redirect_loop_fails() -> None:
    async with remote_server(close_connection) as server:
        server.card = raw(b"", "Location: /.well-known/again.json", status="302 Found")
        with pytest.raises(RemoteFailed, match="redirects too often"):
            await server.client().card()


GZIP = "Content-Encoding: gzip"
STREAM = (GZIP, "Content-Type: text/event-stream")


def compressed(*items: Any, headers: tuple[str, ...] = (GZIP,)) -> Any:
    """Answer a JSON-RPC call with one item, or with several events, each compressed by itself."""

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        items_ = [{"jsonrpc": "2.0", "id": call.rpc["id"], "result": item} for item in items]
        lead, end = ("data: ", "\n\n") if headers is STREAM else ("", "")
        chunks = [gzip.compress(f"{lead}{json.dumps(one)}{end}".encode()) for one in items_]
        await raw(b"".join(chunks), *headers)(call, writer)

    return answer


async def test_compressed_responses_and_streams_are_read() -> None:
    begun = {"task": task("WORKING")}
    events = compressed(
        begun,
        artifact_update("it "),
        artifact_update("is", append=True),
        status_update("COMPLETED"),
        headers=STREAM,
    )
    whole = compressed({"task": task("COMPLETED", artifact("it is"))})
    for handler, streaming in ((events, True), (whole, False)):
        async with remote_server(handler, streaming=streaming) as here:
            here.card = gzip.compress(json.dumps(here.own_card()).encode())
            here.card_headers = (GZIP,)
            outcome = await here.client().send(message())
            assert isinstance(outcome, Task)
            assert outcome.state is TaskState.COMPLETED
            agent = RemoteAgent(name="far", url=here.url, allow=("127.0.0.1",))
            done = await Runner(agent).run(user_id="u", session_id="s", message="x")
            assert done.text == "it is"


async def test_unknown_encoding_fails_without_retry() -> None:
    async with remote_server(raw(b"x", "Content-Encoding: zstd")) as here:
        with pytest.raises(InvalidResponse, match="Content-Encoding zstd"):
            await here.client().send(message())
        assert len(here.methods) == 1


def with_other_id(handler: Handler) -> Handler:
    """Respond with the id of another call."""

    async def answer(call: Call, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({**call.rpc, "id": 99}).encode()
        await handler(replace(call, body=body), writer)

    return answer


@pytest.mark.parametrize(
    "answer", [result({"task": task()}), stream({"task": task()}), rpc_error(-32602)]
)
async def test_response_to_other_call_fails(answer: Handler) -> None:
    async with remote_server(with_other_id(answer)) as server:
        with pytest.raises(RemoteFailed, match="id of another request"):
            await server.client(retries=0).send(message())


async def test_error_without_id_is_accepted() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "unreadable"}}
    answer = raw(json.dumps(error).encode(), "Content-Type: application/json")
    async with remote_server(answer) as server:
        with pytest.raises(InvalidInput, match="unreadable"):
            await server.client(retries=0).send(message())
