"""Content of extensions is sent only to clients that activated them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from acc import Agent, BaseAgent, RunContext
from acc.a2a import create_app
from acc.application.a2a.extensions import hide_extensions
from acc.application.a2a.projection import INPUT_REQUEST, MEMORY_FOOTPRINT
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import Message, Role
from acc.testing import ScriptedModel

EXTENSIONS = {"A2A-Extensions": f"{INPUT_REQUEST}, {MEMORY_FOOTPRINT}"}


class AskingAgent(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        return str((await ctx.request_input("Which colour?")).value)


@asynccontextmanager
async def serve(agent: BaseAgent, version: str) -> AsyncIterator[httpx2.AsyncClient]:
    server = create_app(agent, public_url="http://test", anonymous_listing=True)
    headers = {"A2A-Version": version}
    transport = httpx2.ASGITransport(server)
    async with (
        server.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://test", headers=headers) as http,
    ):
        yield http


@pytest.fixture(params=["1.0", "0.3"])
async def asking(request: pytest.FixtureRequest) -> AsyncIterator[httpx2.AsyncClient]:
    async with serve(AskingAgent(name="asking"), request.param) as http:
        yield http


def rpc(http: httpx2.AsyncClient, operation: str, **params: Any) -> dict[str, Any]:
    names = {
        "send": ("SendMessage", "message/send"),
        "stream": ("SendStreamingMessage", "message/stream"),
        "get": ("GetTask", "tasks/get"),
        "list": ("ListTasks", "tasks/list"),
        "cancel": ("CancelTask", "tasks/cancel"),
    }
    method = names[operation][http.headers["A2A-Version"] == "0.3"]
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message(http: httpx2.AsyncClient, text: str) -> dict[str, Any]:
    if http.headers["A2A-Version"] == "1.0":
        return {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": text, "role": "user", "parts": parts}


def documents(text: str) -> list[str]:
    """Return the JSON documents of a response, which may be a stream."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data")]
    return lines or [text]


async def test_requests_are_data_only_for_clients_that_activated_the_extension(
    asking: httpx2.AsyncClient,
) -> None:
    for headers, is_visible in (({}, False), (EXTENSIONS, True)):
        task_id = ""
        for operation in ("send", "stream"):
            body = rpc(asking, operation, message=message(asking, f"{operation} {is_visible}"))
            response = await asking.post("/", json=body, headers=headers)
            received = documents(response.text)
            first, last = received[0], received[-1]
            assert "Which colour?" in last
            assert (INPUT_REQUEST in last) is is_visible
            result = json.loads(first)["result"]
            task_id = result.get("task", result)["id"]
        for body in (
            rpc(asking, "get", id=task_id),
            rpc(asking, "list"),
            rpc(asking, "cancel", id=task_id),
        ):
            response = await asking.post("/", json=body, headers=headers)
            assert task_id in response.text
            assert (INPUT_REQUEST in response.text) is is_visible


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_memory_footprint_is_metadata_only_with_the_extension(version: str) -> None:
    agent = Agent(name="remembering", model=ScriptedModel("a", repeat=True), memory="transcript")
    async with serve(agent, version) as http:
        for headers, is_visible in (({}, False), (EXTENSIONS, True)):
            body = rpc(http, "send", message=message(http, str(is_visible)))
            response = await http.post("/", json=body, headers=headers)
            assert (MEMORY_FOOTPRINT in response.text) is is_visible
            assert ("a2a-extensions" in response.headers) is is_visible


def test_message_of_a_user_is_unchanged() -> None:
    part = Part(data={"answers": []}, metadata={"extension": INPUT_REQUEST})
    sent = Message(message_id="m", role=Role.USER, parts=(part,))
    assert hide_extensions(sent, {INPUT_REQUEST}) == sent
    received = Message(message_id="m", role=Role.AGENT, parts=(part, Part(text="?")))
    assert hide_extensions(received, {INPUT_REQUEST}).parts == (Part(text="?"),)
