"""Arbitrary requests to `/run` and to intents over JSON-RPC: no internal error, no effect."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from arbitrary_intents import anything, executed, summarize
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.a2a import create_app
from acc.contracts import IntentAgent
from acc.domain.value_objects.principal import ANONYMOUS
from acc.domain.value_objects.task import TaskQuery

_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_names = st.sampled_from(["text", "length", "tags", "limit", "txt", "_x", "user:a", "記憶"])
_objects = st.dictionaries(_names | st.text(max_size=5), _json, max_size=4)
_contexts = st.fixed_dictionaries(
    {},
    optional={
        "caller": st.text() | _json,
        "timestamp": st.sampled_from(["2025-07-04T11:00:00Z", "now", 3]),
        "request_id": st.text() | _json,
        "trace_id": st.text() | _json,
        "session_id": st.text() | _json,
        "user_id": st.text() | _json,
        "permissions": st.lists(st.text()) | _json,
        "extra": _json,
    },
)
_payloads = st.fixed_dictionaries(
    {},
    optional={
        "intent": st.sampled_from(["summarize", "anything"]) | st.text() | _json,
        "inputs": _objects | _json,
        "memory": _objects | _json,
        "context": _contexts | _json,
        "unknown": _json,
    },
)
_valid = st.fixed_dictionaries(
    {
        "intent": st.just("summarize"),
        "inputs": st.fixed_dictionaries(
            {"text": st.text()},
            optional={
                "length": st.sampled_from(["short", "long"]),
                "tags": st.lists(st.text(), max_size=3),
                "limit": st.none() | st.integers(-(2**40), 2**40),
            },
        ),
    }
)


@asynccontextmanager
async def open_server() -> AsyncIterator[tuple[Any, httpx.AsyncClient]]:
    agent = IntentAgent(name="desk", intents=[summarize, anything])
    app = create_app(agent, public_url="http://desk")
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
            yield app, client


class Server:
    """A server in a thread of its own, because every example is synchronous."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        async with open_server() as (self._app, self._client):
            self._ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def post(self, path: str, document: Any) -> tuple[httpx.Response, int, int]:
        """Return the response, and how many tasks and executions the request caused."""
        return asyncio.run_coroutine_threadsafe(self._post(path, document), self._loop).result()

    async def _post(self, path: str, document: Any) -> tuple[httpx.Response, int, int]:
        before = await self._count_tasks()
        executed.clear()
        body, headers = msgspec.json.encode(document), {"Content-Type": "application/json"}
        response = await self._client.post(path, content=body, headers=headers)
        return response, await self._count_tasks() - before, len(executed)

    async def _count_tasks(self) -> int:
        tasks = self._app.serve._tasks
        total: int = (await tasks.list_tasks(ANONYMOUS.owner, TaskQuery(page_size=1))).total
        return total


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    opened = Server()
    yield opened
    opened.stop()


@settings(max_examples=200, deadline=None)
@given(payload=_payloads | _json)
def test_run_request_is_answered_or_has_no_effect(server: Server, payload: Any) -> None:
    response, tasks, runs = server.post("/run", payload)
    assert response.status_code in (200, 400, 404), response.text
    if response.status_code != 200:
        assert (tasks, runs) == (0, 0)
        assert response.json()["error"]["code"] == response.status_code
    else:
        assert (tasks, runs) == (1, 1)


@settings(max_examples=200, deadline=None)
@given(params=_payloads | _json, method=st.sampled_from(["summarize", "anything"]))
def test_rpc_request_is_answered_or_has_no_effect(server: Server, params: Any, method: str) -> None:
    request = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
    response, tasks, runs = server.post("/", request)
    assert response.status_code == 200
    document = response.json()
    if "error" in document:
        assert document["error"]["code"] == -32602, document
        assert (tasks, runs) == (0, 0)
    else:
        assert (tasks, runs) == (1, 1)


@settings(max_examples=100, deadline=None)
@given(payload=_valid)
def test_valid_request_is_executed_once(server: Server, payload: Any) -> None:
    response, tasks, runs = server.post("/run", payload)
    assert response.status_code == 200, response.text
    assert response.json() == {"summary": payload["inputs"]["text"][:10]}
    assert (tasks, runs) == (1, 1)


def test_memory_does_not_add_inputs_to_a_call(server: Server) -> None:
    payload = {"intent": "summarize", "inputs": {"text": "a"}, "memory": {"tags": 7, "limit": "x"}}
    response, tasks, runs = server.post("/run", payload)
    assert (response.status_code, tasks, runs) == (200, 1, 1), response.text
