"""Trace context in requests of this process to others, received over HTTP."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from threading import Thread
from typing import Any

import httpx2
import pytest
from telemetry import Telemetry

from acc import Agent, Runner, disable_tracing
from acc.a2a import create_app
from acc.contracts import ToolNode
from acc.testing import ScriptedModel

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Receiver:
    """An HTTP server that accepts everything and keeps the headers."""

    def __init__(self) -> None:
        self.headers: Queue[dict[str, str]] = Queue()
        received = self.headers

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                received.put({name.lower(): value for name, value in self.headers.items()})
                body = b'{"summary": "ok"}'
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                with suppress(ConnectionError):  # clients need not read the response
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Do not write to stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    async def next(self) -> dict[str, str]:
        return await asyncio.to_thread(self.headers.get, timeout=20)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


class RelayNode(ToolNode):
    """Asks another agent."""

    url = ""

    async def run(self, inputs: Any, memory: Any, context: Any) -> dict[str, Any]:
        return await self.call_agent_async(
            url=f"{self.url}/run",
            payload={"intent": "summarize", "inputs": {}},
            allow=["127.0.0.1"],
        )


def relay(receiver: Receiver) -> Runner:
    node = RelayNode()
    node.url = receiver.url
    return Runner(node.as_agent())


async def test_call_agent_sends_the_span_of_its_request(
    telemetry: Telemetry, receiver: Receiver
) -> None:
    await relay(receiver).run("要約して")
    sent = (await receiver.next())["traceparent"]
    spans = telemetry.spans()
    own, node = spans["summarize"], spans["invoke_agent relay"]
    assert own.context is not None
    assert own.parent is not None
    assert node.context is not None
    assert sent.startswith(f"00-{own.context.trace_id:032x}-{own.context.span_id:016x}-")
    assert own.parent.span_id == node.context.span_id


async def test_call_agent_without_tracing_sends_no_invented_parent(receiver: Receiver) -> None:
    disable_tracing()
    await relay(receiver).run("要約して")
    assert "traceparent" not in await receiver.next()


async def _send(receiver: Receiver, headers: dict[str, str]) -> dict[str, str]:
    """Send a message with a push configuration; return the headers of the first notification."""
    agent = Agent(name="desk", model=ScriptedModel("発送済みです。", repeat=True))
    app = create_app(agent, allow=["127.0.0.1"])
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {
            "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "注文は?"}]},
            "configuration": {"taskPushNotificationConfig": {"url": receiver.url, "id": "p1"}},
        },
    }
    head = {"A2A-Version": "1.0", "Content-Type": "application/json", **headers}
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        response = await http.post("/", content=json.dumps(body), headers=head)
        assert response.status_code == 200, response.text
        assert "result" in response.json(), response.text
        return await receiver.next()


async def test_push_notification_continues_the_trace_of_the_message(
    telemetry: Telemetry, receiver: Receiver
) -> None:
    sent = (await _send(receiver, {"traceparent": PARENT}))["traceparent"]
    notifications = [one for one in telemetry.finished() if one.name == "PushNotification"]
    (own,) = [
        one
        for one in notifications
        if one.context is not None and f"{one.context.span_id:016x}" == sent.split("-")[2]
    ]
    assert sent.split("-")[1] == PARENT.split("-")[1]
    server = telemetry.spans()["SendMessage"]
    assert server.context is not None
    assert own.parent is not None
    assert own.parent.span_id == server.context.span_id


async def test_push_notification_without_tracing_has_the_context_of_the_caller(
    receiver: Receiver,
) -> None:
    disable_tracing()
    assert (await _send(receiver, {"traceparent": PARENT}))["traceparent"] == PARENT


async def test_push_notification_has_no_invented_parent(receiver: Receiver) -> None:
    disable_tracing()
    assert "traceparent" not in await _send(receiver, {})
