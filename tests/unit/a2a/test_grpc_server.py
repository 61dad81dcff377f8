"""The gRPC binding of a server, called with the official stubs."""

import asyncio
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from a2a.types import a2a_pb2
from google.protobuf import struct_pb2
from grpc_app import (
    V1,
    GrpcApp,
    answer,
    details_of,
    request,
    served_over_grpc,
    write_certificate,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from http_app import served_requests
from server_harness import CommandAgent

from acc import InvalidInput, RemoteAgent, RemoteFailed, Runner
from acc.a2a import RateLimiter, ServerLimits, StaticTokens, TokenEntry, create_app, token_hash
from acc.adapters.a2a.server.grpc import GrpcAddress
from acc.application.a2a.extensions import EVENT_IDS
from acc.bootstrap.a2a import ServeOptions, make_server

Code = grpc.StatusCode


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)


async def rejection(awaitable: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await awaitable
    return raised.value


async def test_card_lists_grpc_interface_of_each_version() -> None:
    async with served_over_grpc() as app:
        listed = [
            one for one in app.card["supportedInterfaces"] if one["protocolBinding"] == "GRPC"
        ]
        assert [(one["url"], one["protocolVersion"]) for one in listed] == [
            (app.target, "1.0"),
            (app.target, "0.3"),
        ]
        # Interfaces of 0.3 have URLs.
        legacy = {"url": f"http://{app.target}", "transport": "GRPC"}
        assert app.card["additionalInterfaces"][-1] == legacy


async def test_only_served_versions_have_a_service() -> None:
    async with served_over_grpc(protocol_versions=("1.0",)) as app:
        assert answer(await app.send("hello")) == "echo: hello"
        legacy = a2a_v0_3_pb2_grpc.A2AServiceStub(app.channel)  # type: ignore[no-untyped-call]
        error = await rejection(legacy.GetTask(a2a_v0_3_pb2.GetTaskRequest(name="tasks/x")))
        assert error.code() is Code.UNIMPLEMENTED


@pytest.mark.parametrize(("host", "is_warned"), [("10.0.0.7", True), ("127.0.0.1", False)])
def test_tokens_without_tls_are_warned_about(
    host: str, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    options = ServeOptions(
        public_url="https://desk.example",
        verifier=StaticTokens(TOKENS),
        grpc=GrpcAddress(host=host, port=50051),
    )
    make_server(CommandAgent(name="desk", description="d"), options)
    warnings = [record for record in caplog.records if "gRPC" in record.getMessage()]
    assert bool(warnings) is is_warned


@pytest.mark.parametrize("version", ["", "0.3", "99.0"])
async def test_service_requires_its_version_in_metadata(version: str) -> None:
    metadata = (("a2a-version", version),) if version else ()
    async with served_over_grpc() as app:
        error = await rejection(app.stub.SendMessage(request("hello"), metadata=metadata))
        assert error.code() is Code.FAILED_PRECONDITION
        assert details_of(error)[0].reason == "VERSION_NOT_SUPPORTED"
        assert app.agent.log == []


async def test_missing_task_has_status_with_reason_and_domain() -> None:
    async with served_over_grpc() as app:
        missing = a2a_pb2.GetTaskRequest(id="無い")
        error = await rejection(app.stub.GetTask(missing, metadata=(V1,)))
        info, _ = details_of(error)
        assert (error.code(), error.details()) == (Code.NOT_FOUND, "task '無い' not found")
        assert (info.reason, info.domain) == ("TASK_NOT_FOUND", "a2a-protocol.org")
        assert dict(info.metadata) == {"taskId": "無い"}


async def test_invalid_field_is_named_in_bad_request() -> None:
    async with served_over_grpc() as app:
        empty = a2a_pb2.SendMessageRequest(
            message=a2a_pb2.Message(message_id="m", role=a2a_pb2.Role.ROLE_USER)
        )
        error = await rejection(app.stub.SendMessage(empty, metadata=(V1,)))
        info, violations = details_of(error)
        assert (error.code(), info.reason) == (Code.INVALID_ARGUMENT, "INVALID_PARAMS")
        assert [one.field for one in violations.field_violations] == ["message.parts"]


# Hostile input


def nested_list(depth: int) -> struct_pb2.Value:
    value = struct_pb2.Value(string_value="bottom")
    for _ in range(depth):
        value = struct_pb2.Value(list_value=struct_pb2.ListValue(values=[value]))
    return value


def nested_object(depth: int) -> struct_pb2.Value:
    value = struct_pb2.Value(string_value="bottom")
    for _ in range(depth):
        value = struct_pb2.Value(struct_value=struct_pb2.Struct(fields={"a": value}))
    return value


def nested_bytes(depth: int) -> bytes:
    """Return a message whose data is nested so deeply that no library would encode it."""
    inner = b"\x1a\x06bottom"
    for _ in range(depth):
        listed = b"\x0a" + varint(len(inner)) + inner  # ListValue.values
        inner = b"\x32" + varint(len(listed)) + listed  # Value.list_value
    part = b"\x22" + varint(len(inner)) + inner  # Part.data
    body = b"\x0a\x01m\x20\x01\x2a" + varint(len(part)) + part  # Message
    return b"\x12" + varint(len(body)) + body  # SendMessageRequest.message


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def with_data(value: struct_pb2.Value) -> bytes:
    sent = request("x")
    sent.message.parts[0].data.CopyFrom(value)
    return sent.SerializeToString()


MANY_PARTS = a2a_pb2.SendMessageRequest(
    message=a2a_pb2.Message(
        message_id="m", role=a2a_pb2.Role.ROLE_USER, parts=[a2a_pb2.Part(text="")] * 200_000
    )
).SerializeToString()
HOSTILE = {
    "garbage": b"\xff\xff\xff\xff\xff",
    "truncated": request("hello").SerializeToString()[:-3],
    "invalid UTF-8": b"\x12\x0b\x0a\x02\xff\xfe\x20\x01\x2a\x03\x0a\x01x",
    "infinity": with_data(struct_pb2.Value(number_value=float("inf"))),
    "not a number": with_data(struct_pb2.Value(number_value=float("nan"))),
    "many parts": MANY_PARTS,
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_hostile_request_is_rejected_without_effect(method: str, name: str) -> None:
    async with served_over_grpc() as app:
        error = await rejection(app.raw(method, HOSTILE[name]))
        assert error.code() is Code.INVALID_ARGUMENT
        assert details_of(error)[0].reason in ("INVALID_PARAMS", "JSON_PARSE")
        assert app.agent.log == []
        page = await app.stub.ListTasks(a2a_pb2.ListTasksRequest(), metadata=(V1,))
        assert page.total_size == 0
        assert answer(await app.send("still here")) == "echo: still here"


async def test_unknown_fields_are_ignored() -> None:
    unknown = b"\xfa\xff\x3f\x05extra"
    async with served_over_grpc() as app:
        data = await app.raw("SendMessage", request("hello").SerializeToString() + unknown)
        assert answer(a2a_pb2.SendMessageResponse.FromString(data).task) == "echo: hello"


@pytest.mark.parametrize("depth", [1, 20, 25])
async def test_nested_data_is_returned_unchanged(depth: int) -> None:
    async with served_over_grpc() as app:
        for kind in (nested_list, nested_object):
            sent = request("x", message_id=kind.__name__)
            sent.message.parts[0].data.CopyFrom(kind(depth))
            task = (await app.stub.SendMessage(sent, metadata=(V1,))).task
            assert task.history[0].parts[0].data == kind(depth)


@pytest.mark.parametrize("depth", [27, 31, 45, 48, 60, 5_000])
async def test_deeply_nested_data_is_rejected_without_effect(depth: int) -> None:
    async with served_over_grpc() as app:
        error = await rejection(app.raw("SendMessage", nested_bytes(depth)))
        assert error.code() is Code.INVALID_ARGUMENT
        assert app.agent.log == []


async def test_task_with_deeply_nested_data_needs_another_binding() -> None:
    data: Any = "bottom"
    for _ in range(60):
        data = [data]
    async with served_over_grpc() as app, served_requests(app.server) as http:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": data}]}
        response = await http.rpc("SendMessage", {"message": message})
        task_id = response.json()["result"]["task"]["id"]
        get = a2a_pb2.GetTaskRequest(id=task_id)
        error = await rejection(app.stub.GetTask(get, metadata=(V1,)))
        assert details_of(error)[0].reason == "UNSUPPORTED_OPERATION"


async def test_oversized_message_is_rejected_without_effect() -> None:
    async with served_over_grpc(limits=ServerLimits(body=100_000)) as app:
        error = await rejection(app.send("x" * 200_000))
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert app.agent.log == []


async def test_oversized_metadata_is_rejected() -> None:
    async with served_over_grpc() as app:
        error = await rejection(app.send("hello", ("x-large", "x" * 100_000)))
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert app.agent.log == []


async def test_compressed_message_is_rejected() -> None:
    async with served_over_grpc() as app:
        error = await rejection(app.send("x" * 50_000, compression=grpc.Compression.Gzip))
        assert error.code() is Code.UNIMPLEMENTED
        assert app.agent.log == []


# Callers, limits and the log


TOKENS = [
    TokenEntry(sha256=token_hash(f"{caller}-token"), caller=caller) for caller in ("ann", "bob")
]


def bearer(token: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {token}")


async def test_tokens_are_required_and_tasks_belong_to_callers() -> None:
    async with served_over_grpc(verifier=StaticTokens(TOKENS)) as app:
        for metadata in ((), (bearer("wrong"),), (bearer("a"), bearer("ann-token"))):
            error = await rejection(app.send("hello", *metadata))
            expected = Code.INVALID_ARGUMENT if len(metadata) == 2 else Code.UNAUTHENTICATED
            assert error.code() is expected
        assert dict(error.trailing_metadata())["www-authenticate"] == "Bearer"
        task = await app.send("hello", bearer("ann-token"))
        get = a2a_pb2.GetTaskRequest(id=task.id)
        own = await app.stub.GetTask(get, metadata=(V1, bearer("ann-token")))
        assert own.id == task.id
        other = await rejection(app.stub.GetTask(get, metadata=(V1, bearer("bob-token"))))
        assert other.code() is Code.NOT_FOUND
        assert app.agent.log == ["hello"]


async def test_rejected_token_names_the_scheme_in_metadata() -> None:
    async with served_over_grpc(verifier=StaticTokens(TOKENS)) as app:
        error = await rejection(app.send("hello"))
        assert dict(error.trailing_metadata())["www-authenticate"] == "Bearer"
        assert details_of(error)[0].reason == "UNAUTHENTICATED"


async def test_rate_limit_has_time_to_wait() -> None:
    async with served_over_grpc(limiter=RateLimiter(["1/hour"])) as app:
        await app.send("one")
        error = await rejection(app.send("two"))
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert int(dict(error.trailing_metadata())["retry-after"]) > 0
        assert details_of(error)[0].reason == "LIMIT_EXCEEDED"
        assert app.agent.log == ["one"]


async def test_access_log_has_method_task_caller_and_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with caplog.at_level(logging.INFO, logger="acc.access"):
        async with served_over_grpc(verifier=StaticTokens(TOKENS)) as app:
            task = await app.send("hello", bearer("ann-token"), ("traceparent", parent))
            await rejection(app.send("hello"))
    sent, rejected = (vars(record) for record in caplog.records if record.name == "acc.access")
    assert sent["path"] == "/lf.a2a.v1.A2AService/SendMessage"
    assert (sent["method"], sent["task_id"], sent["caller"]) == ("SendMessage", task.id, "ann")
    assert (sent["status"], sent["trace_id"]) == (200, "0af7651916cd43dd8448eb211c80319c")
    assert (rejected["status"], rejected["caller"]) == (401, "")


# Streams, deadlines and the end of the server


async def collect(call: Any) -> list[Any]:
    items = []
    while (item := await call.read()) is not grpc.aio.EOF:
        items.append(item)
    return items


async def test_extensions_are_negotiated_in_metadata() -> None:
    async with served_over_grpc() as app:
        call = app.stub.SendStreamingMessage(
            request("count 3"), metadata=(V1, ("a2a-extensions", f"{EVENT_IDS}, urn:unknown"))
        )
        items = await collect(call)
        assert dict(await call.initial_metadata())["a2a-extensions"] == EVENT_IDS
        ids = [getattr(item, item.WhichOneof("payload")).metadata[EVENT_IDS] for item in items]
        assert ids == sorted(set(ids))
        plain = await collect(
            app.stub.SendStreamingMessage(request("count 3", message_id="2"), metadata=(V1,))
        )
        assert not any(item.task.metadata or item.status_update.metadata for item in plain)


async def test_subscription_after_each_event_returns_exactly_the_rest() -> None:
    async with served_over_grpc() as app:
        active = (V1, ("a2a-extensions", EVENT_IDS))
        items = await collect(app.stub.SendStreamingMessage(request("count 4"), metadata=active))
        task_id = items[0].task.id
        for position, item in enumerate(items[:-1]):
            payload = getattr(item, item.WhichOneof("payload"))
            last = str(int(payload.metadata[EVENT_IDS]))
            rest = await collect(
                app.stub.SubscribeToTask(
                    a2a_pb2.SubscribeToTaskRequest(id=task_id),
                    metadata=(*active, ("last-event-id", last)),
                )
            )
            assert rest == items[position + 1 :]


async def test_task_continues_after_deadline() -> None:
    async with served_over_grpc() as app:
        error = await rejection(app.send("wait", timeout=0.3))
        assert error.code() is Code.DEADLINE_EXCEEDED
        app.agent.gate.set()
        async with asyncio.timeout(10):
            page = await app.stub.ListTasks(a2a_pb2.ListTasksRequest(), metadata=(V1,))
            while page.tasks[0].status.state != a2a_pb2.TaskState.TASK_STATE_COMPLETED:
                await asyncio.sleep(0.02)
                page = await app.stub.ListTasks(a2a_pb2.ListTasksRequest(), metadata=(V1,))
        assert app.agent.log == ["wait", "woke"]


async def test_cancelled_stream_releases_its_slot() -> None:
    async with served_over_grpc(limits=ServerLimits(streams=1)) as app:
        for number in range(3):
            call = app.stub.SendStreamingMessage(request(f"wait {number}"), metadata=(V1,))
            await call.read()
            busy = app.stub.SendStreamingMessage(request("second"), metadata=(V1,))
            assert (await rejection(busy.read())).code() is Code.RESOURCE_EXHAUSTED
            call.cancel()
            await until(lambda: not app.server.serve._subscriptions.count)
        app.agent.gate.set()


async def test_health_and_streams_end_when_the_server_stops() -> None:
    async with served_over_grpc(limits=ServerLimits(grace=0.2)) as app:
        health = health_pb2_grpc.HealthStub(app.channel)
        check = health_pb2.HealthCheckRequest(service="lf.a2a.v1.A2AService")
        serving = health_pb2.HealthCheckResponse.SERVING
        assert (await health.Check(check)).status == serving
        call = app.stub.SendStreamingMessage(request("wait"), metadata=(V1,))
        await call.read()
        await app.server.stop()
        assert (await health.Check(check)).status == health_pb2.HealthCheckResponse.NOT_SERVING
        items = await collect(call)
        assert items[-1].status_update.status.state == a2a_pb2.TaskState.TASK_STATE_FAILED
        error = await rejection(app.send("late"))
        assert (error.code(), details_of(error)[0].reason) == (Code.UNAVAILABLE, "UNAVAILABLE")
        assert dict(error.trailing_metadata())["retry-after"]


async def test_reflection_lists_and_describes_services() -> None:
    async with served_over_grpc() as app:
        stub = reflection_pb2_grpc.ServerReflectionStub(app.channel)

        async def requests() -> Any:
            yield reflection_pb2.ServerReflectionRequest(list_services="")
            for symbol in ("lf.a2a.v1.A2AService", "a2a.v1.Task", "grpc.health.v1.Health"):
                yield reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)

        listed, *files = [answer async for answer in stub.ServerReflectionInfo(requests())]
        names = {service.name for service in listed.list_services_response.service}
        assert names >= {"lf.a2a.v1.A2AService", "a2a.v1.A2AService", "grpc.health.v1.Health"}
        assert all(file.file_descriptor_response.file_descriptor_proto for file in files)


# TLS


async def test_tls_uses_the_certificate_of_the_server(tmp_path: Path) -> None:
    chain, key = write_certificate(tmp_path)
    roots = chain.read_bytes()
    async with served_over_grpc(certificate=chain, private_key=key, roots=roots) as app:
        assert answer(await app.send("hello")) == "echo: hello"
        async with grpc.aio.insecure_channel(app.target) as plain:
            unencrypted = GrpcApp(app.server, app.agent, app.target, plain)
            error = await rejection(unencrypted.send("hello", timeout=3))
            assert error.code() in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)


async def test_created_application_serves_grpc_during_its_lifespan() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = create_app(CommandAgent(name="desk", description="d"), grpc_port=port)
    desk = RemoteAgent(name="remote", url=f"grpc://127.0.0.1:{port}", allow=["127.0.0.1"])
    async with app.lifespan(app):
        result = await Runner(desk).run("hello")
        assert result.text == "echo: hello"
    with pytest.raises(RemoteFailed):
        await Runner(desk).run("hello")


@pytest.mark.parametrize("port", [0, 70_000])
def test_created_application_needs_a_port_for_the_card(port: int) -> None:
    with pytest.raises(InvalidInput, match=str(port)):
        create_app(CommandAgent(name="desk", description="d"), grpc_port=port)


async def test_used_port_fails_the_start_of_the_application() -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        app = create_app(CommandAgent(name="desk", description="d"), grpc_port=port)
        with pytest.raises(ExceptionGroup):
            await app({"type": "lifespan"}, receive, send)
    (failed,) = sent
    assert failed["type"] == "lifespan.startup.failed"
    assert f"cannot serve gRPC on 127.0.0.1:{port}" in failed["message"]
