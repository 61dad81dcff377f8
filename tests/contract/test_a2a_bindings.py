"""One suite for the bindings of A2A: equal calls have equal tasks, updates and errors."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from acc import BaseAgent, RunContext, disable_tracing, enable_tracing
from acc.adapters.a2a.client.grpc_transport import GrpcTransport
from acc.adapters.a2a.client.transport import GrpcOptions, HttpTransport, StreamEvent, Transport
from acc.adapters.a2a.server.grpc import GrpcAddress
from acc.adapters.a2a.server.uvicorn import bind, serving
from acc.adapters.a2a.wire.protocol import Operation
from acc.adapters.http.client import guarded_client
from acc.application.a2a.requests import GetRequest, Request, SendRequest, TaskRequest
from acc.bootstrap.a2a import ServeOptions, make_server
from acc.domain.errors import AccError
from acc.domain.value_objects.agent_card import AgentCard, Interface
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import Message, Role, StatusUpdate, Task, TaskState

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
VERSIONS = ("1.0", "0.3")
DATA = {"金額": 12000, "rate": 0.5, "明細": [1, None, True, {"深い": []}]}


@dataclass(kw_only=True, eq=False)
class Desk(BaseAgent):
    """Answers with text, files and data; asks; counts; waits."""

    async def run(self, ctx: RunContext) -> str | None:
        match ctx.message.split():
            case ["files"]:
                await ctx.artifacts.publish("表", Part(data=DATA))
                await ctx.artifacts.publish("note", Part(text="本文", metadata={"n": 1}))
                await ctx.artifacts.publish(
                    "bin", Part(raw=b"\x00\xff", filename="b.bin", media_type="application/x-b")
                )
                return "三つ"
            case ["ask"]:
                answer = await ctx.request_input("何色?")
                return f"answer: {answer.value}"
            case ["count"]:
                for number in range(4):
                    await ctx.artifacts.publish(
                        "numbers", f"{number} ", append=number > 0, last=number == 3
                    )
                    await ctx.progress(f"step {number}")
                return "counted"
            case ["sleep"]:
                await asyncio.sleep(60)
            case ["fail"]:
                raise RuntimeError("secret")
        return f"echo: {ctx.message}"


@dataclass
class Served:
    """The transports of one protocol version by binding."""

    transports: dict[str, Transport]


@asynccontextmanager
async def served(
    version: str, headers: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Served]:
    listener = bind("127.0.0.1", 0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        grpc_port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = make_server(
        Desk(name="desk", description="Answers."),
        ServeOptions(public_url=url, grpc=GrpcAddress(host="127.0.0.1", port=grpc_port)),
    )
    card = AgentCard(name="desk", description="", version="", interfaces=())
    async with serving(server, listener), guarded_client(allow=("127.0.0.1",)) as http:
        transports: dict[str, Transport] = {
            binding: HttpTransport(
                http, Interface(url=url, binding=binding, version=version), headers=dict(headers)
            )
            for binding in BINDINGS[:2]
        }
        target = f"grpc://127.0.0.1:{grpc_port}"
        transports["GRPC"] = GrpcTransport(
            Interface(url=target, binding="GRPC", version=version),
            GrpcOptions(
                headers=dict(headers),
                allow=("127.0.0.1",),
                network=None,
                credentials=None,
                card=card,
            ),
        )
        try:
            yield Served(transports)
        finally:
            await transports["GRPC"].aclose()


@pytest.fixture(params=VERSIONS)
async def transports(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Transport]]:
    async with served(request.param) as running:
        yield running.transports


def user_message(text: str, key: str, **fields: Any) -> Message:
    parts = (Part(text=text),)
    return Message(message_id=f"{key}-{text}", role=Role.USER, parts=parts, **fields)


async def send(transport: Transport, message: Message, *, wait: bool = True) -> Task:
    data = await transport.call(Operation.SEND, SendRequest(message=message, wait=wait), timeout=20)
    result = transport.wire.read_send_result(data)
    assert isinstance(result, Task)
    return result


def comparable(task: Task, binding: str) -> Any:
    """Return a task without what differs between two tasks with equal content."""

    def message(one: Message) -> Message:
        name = one.message_id.removeprefix(f"{binding}-") if one.role is Role.USER else ""
        return replace(one, message_id=name, task_id="", context_id="")

    status = task.status
    return replace(
        task,
        id="",
        context_id="",
        status=replace(
            status, at=0.0, message=None if status.message is None else message(status.message)
        ),
        history=tuple(map(message, task.history)),
    )


@pytest.mark.parametrize("text", ["こんにちは", "files", "ask", "count", "fail"])
async def test_equal_messages_have_equal_tasks(transports: dict[str, Transport], text: str) -> None:
    tasks = []
    for binding, transport in transports.items():
        task = await send(transport, user_message(text, binding))
        data = await transport.call(Operation.GET, GetRequest(id=task.id), timeout=20)
        stored = comparable(transport.wire.read_task(data), binding)
        assert stored == comparable(task, binding)
        tasks.append(stored)
    assert tasks[0] == tasks[1] == tasks[2]


async def test_task_of_one_binding_is_equal_over_the_others(
    transports: dict[str, Transport],
) -> None:
    for binding, transport in transports.items():
        task = await send(transport, user_message("files", binding))
        seen = [
            other.wire.read_task(
                await other.call(Operation.GET, GetRequest(id=task.id), timeout=20)
            )
            for other in transports.values()
        ]
        assert seen[0] == seen[1] == seen[2]
        assert [artifact.name for artifact in seen[0].artifacts] == ["表", "note", "bin", "answer"]
        assert seen[0].artifacts[0].parts[0].data == DATA
        assert seen[0].artifacts[2].parts[0].raw == b"\x00\xff"


async def items_of(
    transport: Transport, operation: Operation, request: Request
) -> list[StreamEvent]:
    stream = transport.stream(operation, request, idle_timeout=20)
    return [event async for event in stream]


async def test_streams_have_equal_items(transports: dict[str, Transport]) -> None:
    streams = []
    for binding, transport in transports.items():
        request = SendRequest(message=user_message("count", binding))
        events = await items_of(transport, Operation.STREAM, request)
        streams.append([simplified(event.item.item, binding) for event in events])
    assert streams[0] == streams[1] == streams[2]
    assert streams[0][-1].status.state is TaskState.COMPLETED


def simplified(item: Any, binding: str) -> Any:
    if isinstance(item, Task):
        return comparable(item, binding)
    if not isinstance(item, StatusUpdate):
        return item
    message = item.status.message
    if message is not None:
        message = replace(message, message_id="", task_id="", context_id="")
    return replace(item, status=replace(item.status, at=0.0, message=message))


async def test_answer_and_cancellation_over_another_binding(
    transports: dict[str, Transport],
) -> None:
    names = list(transports)
    for binding, other in zip(names, names[1:] + names[:1], strict=True):
        asking = await send(transports[binding], user_message("ask", binding))
        assert asking.state is TaskState.INPUT_REQUIRED
        answered = await send(transports[other], user_message("青", binding, task_id=asking.id))
        assert answered.artifacts[-1].parts[0].text == "answer: 青"
        sleeping = await send(transports[binding], user_message("sleep", binding), wait=False)
        canceled = await transports[other].call(
            Operation.CANCEL, TaskRequest(id=sleeping.id), timeout=20
        )
        assert transports[other].wire.read_task(canceled).state is TaskState.CANCELED


async def test_errors_have_equal_types_and_texts(transports: dict[str, Transport]) -> None:
    finished = await send(transports["JSONRPC"], user_message("done", "x"))
    invalid = user_message("later", "y", task_id=finished.id)
    calls: list[tuple[Operation, Request]] = [
        (Operation.GET, GetRequest(id="無い")),
        (Operation.CANCEL, TaskRequest(id="missing")),
        (Operation.CANCEL, TaskRequest(id=finished.id)),
        (Operation.SEND, SendRequest(message=invalid)),
        (Operation.SEND, SendRequest(message=replace(invalid, parts=()))),
    ]
    for operation, request in calls:
        errors = set()
        for transport in transports.values():
            with pytest.raises(AccError) as raised:
                await transport.call(operation, request, timeout=20)
            errors.add((type(raised.value).__name__, str(raised.value)))
        assert len(errors) == 1, errors


@pytest.mark.parametrize("version", VERSIONS)
async def test_incoming_trace_context_is_the_parent_over_every_binding(version: str) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider(shutdown_on_exit=False)
    enable_tracing(tracer_provider=provider, meter_provider=meters)
    trace_id, parent_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    try:
        async with served(version, {"traceparent": f"00-{trace_id}-{parent_id}-01"}) as running:
            for binding, transport in running.transports.items():
                exporter.clear()
                await send(transport, user_message("hello", binding))
                spans = {span.name: span for span in exporter.get_finished_spans()}
                server, run = spans["SendMessage"], spans["invoke_agent desk"]
                assert server.context is not None and server.parent is not None
                assert f"{server.context.trace_id:032x}" == trace_id, binding
                assert f"{server.parent.span_id:016x}" == parent_id, binding
                assert run.parent is not None
                assert run.parent.span_id == server.context.span_id, binding
    finally:
        disable_tracing()
        provider.shutdown()
        meters.shutdown()
