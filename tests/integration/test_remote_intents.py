"""Calls of intents of other processes: `call_agent`, `RemoteAgent.call` and the commands."""

import ast
import asyncio
import gc
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from seed_nodes import SummarizeTextNode, SummaryRouterNode
from server_process import Server

from acc import BaseAgent, Grant, Part, RemoteAgent, RunContext, Runner
from acc.a2a import (
    CardConfig,
    ServerLimits,
    StaticTokens,
    TokenEntry,
    create_app,
    token_hash,
)
from acc.adapters.a2a.server.uvicorn import bind, serving
from acc.cli import execute as run
from acc.contracts import (
    IntentAgent,
    InvalidInputs,
    UnknownIntent,
    intent,
    run_agent,
    run_agent_async,
)
from acc.domain.errors import (
    AccError,
    AddressRefused,
    InvalidInput,
    NotFound,
    PermissionDenied,
    RemoteFailed,
)

LOOPBACK = ("127.0.0.1",)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with Server(folder, agent="intent_agents:desk") as started:
        yield started


class LocalRouterNode(SummaryRouterNode):
    """The router of section 4.2 with the addresses of a local server."""

    server_url = ""

    def call_agent(self, *, url: str, payload: Any, **options: Any) -> dict[str, Any]:
        return super().call_agent(
            url=f"{self.server_url}/run", payload=payload, allow=LOOPBACK, **options
        )


@pytest.mark.parametrize(
    ("kind", "prefix"), [("legal", "legal"), ("science", "science"), ("news", "general")]
)
def test_section_4_2_router_reaches_the_server(server: Server, kind: str, prefix: str) -> None:
    node = LocalRouterNode()
    node.server_url = server.url
    context = {"caller": "agent://front", "trace_id": "t-1"}
    alone = node.run({"doc_type": kind, "text": "本文"}, {}, context)
    assert alone == {"summary": f"{prefix}: 本文 (agent://front, )"}
    payload = {"inputs": {"doc_type": kind, "text": "x"}, "context": context}
    in_run = run_agent(node, payload)
    assert in_run == {"summary": f"{prefix}: x (agent://local_router, agent://front)"}


def open_connections(server: Server) -> list[socket.socket]:
    """Return the sockets of this process that are connected to a server."""
    gc.collect()  # an unclosed socket that nobody uses is a warning, which fails the test
    found = [one for one in gc.get_objects() if isinstance(one, socket.socket)]
    connected = []
    for one in found:
        with suppress(OSError):  # closed, or not connected
            if one.getpeername()[1:2] == (server.port,):
                connected.append(one)
    return connected


async def call_remote(server: Server, intent: str) -> None:
    remote = RemoteAgent(name="desk", url=server.url, allow=LOOPBACK)
    with suppress(AccError):
        await remote.call(intent, {"text": "a", "length": "long"})
    with suppress(AccError):
        await Runner(remote).run(Part(data={"text": "a"}))


def call_node(server: Server, path: str, inputs: Any, **options: Any) -> None:
    payload = {"intent": "summarize_text", "inputs": inputs}
    with suppress(AccError):
        SummarizeTextNode().call_agent(
            url=f"{server.url}{path}", payload=payload, **{"allow": LOOPBACK, **options}
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda server: call_node(server, "/run", {"text": "a", "length": "long"}),
        lambda server: call_node(server, "/", {"text": "a", "length": "long"}),
        lambda server: call_node(server, "/run", {}),
        lambda server: call_node(server, "/missing", {}),
        lambda server: call_node(server, "/run", {"text": "a"}, allow=()),
        lambda server: call_node(server, "/run", {"text": "a"}, timeout=0.0001),
        lambda server: asyncio.run(call_remote(server, "summarize_text")),
        lambda server: asyncio.run(call_remote(server, "sing")),
    ],
    ids=["run", "rpc", "invalid", "missing", "refused", "timeout", "remote", "unknown"],
)
def test_connections_are_closed_after_the_call(server: Server, call: Any) -> None:
    for _ in range(2):
        call(server)
    assert open_connections(server) == []


def test_connections_of_an_agent_that_runs_in_process_are_closed(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        assert open_connections(server) == [connection]
    node = LocalRouterNode()
    node.server_url = server.url
    run_agent(node, {"inputs": {"doc_type": "legal", "text": "x"}})
    assert open_connections(server) == []


def test_call_agent_uses_json_rpc_for_other_urls(server: Server) -> None:
    payload = {"intent": "summarize_text", "inputs": {"text": "abc", "length": "long"}}
    node = SummarizeTextNode()
    assert node.call_agent(url=server.url, payload=payload, allow=LOOPBACK) == {"summary": "abc"}


@pytest.mark.parametrize("path", ["/run", "/"])
def test_errors_of_the_called_agent_are_raised(server: Server, path: str) -> None:
    node = SummarizeTextNode()
    url = f"{server.url}{path}"
    with pytest.raises(InvalidInput, match="text"):
        node.call_agent(url=url, payload={"intent": "summarize_text", "inputs": {}}, allow=LOOPBACK)
    with pytest.raises((NotFound, RemoteFailed), match="sing"):
        node.call_agent(url=url, payload={"intent": "sing", "inputs": {}}, allow=LOOPBACK)


def test_private_addresses_are_refused_unless_allowed(server: Server) -> None:
    with pytest.raises(AddressRefused):
        SummarizeTextNode().call_agent(url=f"{server.url}/run", payload={"intent": "x"})


async def test_remote_agent_calls_an_intent(server: Server) -> None:
    remote = RemoteAgent(name="desk", url=server.url, allow=LOOPBACK)
    assert await remote.call("summarize_text", {"text": "要約", "length": "long"}) == {
        "summary": "要約"
    }
    names = [contract.name for contract in await remote.contracts()]
    assert names[0] == "summarize_text"


async def test_remote_agent_repeats_a_request_and_calls_once_per_call_of_a_run() -> None:
    numbers: list[int] = []

    @intent
    def draw(inputs: dict[str, Any]) -> dict[str, Any]:
        """Draw a number."""
        numbers.append(len(numbers))
        return {"number": numbers[-1]}

    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = create_app(draw, public_url=url, limits=ServerLimits(replay_window=60))
    remote = RemoteAgent(name="desk", url=url, allow=LOOPBACK)

    class Twice(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return str([(await remote.call("draw", {}, ctx=ctx))["number"] for _ in range(2)])

    async with serving(app, listener), app.lifespan():
        context = {"request_id": "r-1"}
        first, again = [await remote.call("draw", {}, context=context) for _ in range(2)]
        assert (first, first.repeated) == ({"number": 0}, False)
        assert (again, again.repeated, again.task_id) == (first, True, first.task_id)
        result = await Runner(Twice(name="twice")).run(user_id="ann", session_id="s", message="go")
    assert result.text == "[1, 2]"


async def test_remote_agent_refuses_bad_inputs_before_sending() -> None:
    requests: list[str] = []
    app = create_app(SummarizeTextNode(), public_url="http://127.0.0.1:9")

    async def record(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            requests.append(f"{scope['method']} {scope['path']}")
        await app(scope, receive, send)

    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with serving(record, listener):
        remote = RemoteAgent(name="desk", url=url, allow=LOOPBACK)
        with pytest.raises(InvalidInputs) as caught:
            await remote.call("summarize_text", {"txt": "a"})
        assert {one.field for one in caught.value.violations} == {"text", "txt"}
        with pytest.raises(UnknownIntent, match="summarize_text"):
            await remote.call("sing", {})
    assert set(requests) == {"GET /.well-known/agent-card.json"}


async def test_intent_that_only_the_extended_card_lists_is_called() -> None:
    @intent
    def quote(text: str) -> str:
        """Quote a price."""
        return text

    @intent(permissions=["approve"])
    def approve(number: int) -> dict[str, int]:
        """Approve an invoice."""
        return {"approved": number}

    scopes = {"boss": ["agent.invoke", "approve"], "clerk": ["agent.invoke"]}
    verifier = StaticTokens(
        [
            TokenEntry(sha256=token_hash(f"acc_{name}"), caller=name, permissions=permissions)
            for name, permissions in scopes.items()
        ]
    )
    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    desk = IntentAgent(name="desk", intents=[quote, approve])
    card = CardConfig(public=("*", "!approve"))
    app = create_app(desk, public_url=url, verifier=verifier, card=card)
    async with serving(app, listener), app.lifespan():
        boss, clerk = (
            RemoteAgent(name="desk", url=url, token=f"acc_{name}", allow=["127.0.0.1"])
            for name in ("boss", "clerk")
        )
        assert await boss.call("approve", {"number": 7}) == {"approved": 7}
        with pytest.raises(AccError, match="must be an integer"):
            await boss.call("approve", {"number": "seven"})
        with pytest.raises(PermissionDenied):
            await clerk.call("approve", {"number": 7})
        with pytest.raises(AccError, match="is unknown; this agent has: quote"):
            await boss.call("unknown", {})
        payload = {"intent": "approve", "inputs": {"number": 7}}
        for path in ("/run", "/"):
            with pytest.raises(PermissionDenied):
                await SummarizeTextNode().call_agent_async(
                    url=f"{url}{path}", payload=payload, token="acc_clerk", allow=LOOPBACK
                )


async def test_agent_without_contracts_receives_the_inputs_as_data(tmp_path: Path) -> None:
    with Server(tmp_path, agent="intent_agents:plain") as server:
        remote = RemoteAgent(name="plain", url=server.url, allow=LOOPBACK)
        outputs = await remote.call("anything", {"a": 1})
        assert outputs["text"].startswith("plain [{'a': 1}]")


async def test_remote_agent_in_a_tree_sends_the_context_of_the_run(server: Server) -> None:
    remote = RemoteAgent(name="desk", url=server.url, allow=LOOPBACK)
    runner = Runner(remote)
    # The message names no intent, and the server has several.
    with pytest.raises(RemoteFailed, match="names no intent; this agent has: summarize_text"):
        await runner.run(user_id="ann", session_id="s", message=Part(data={"text": "a"}))


async def test_command_calls_an_intent(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["call", server.url, "--intent", "summarize_text", "--input", "text=12"]
    status = await asyncio.to_thread(run, [*arguments, "--input", "length=long"])
    assert (status, json.loads(capsys.readouterr().out)) == (0, {"summary": "12"})


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--intent", "summarize_text"], "text"),
        (["--intent", "sing"], "sing"),
        (["--intent", "summarize_text", "--input", "text"], "NAME=VALUE"),
        (["--intent", "summarize_text", "--input", "text=a", "--input", "text=b"], "twice"),
        (["--input", "text=a"], "--intent"),
        (["hello", "--intent", "summarize_text"], "--intent"),
        (["--intent", "summarize_text", "--data", "[1]"], "--data"),
    ],
)
def test_command_refuses_invalid_inputs(
    server: Server, capsys: pytest.CaptureFixture[str], options: list[str], advice: str
) -> None:
    assert run(["call", server.url, *options]) in (1, 2)
    assert advice in capsys.readouterr().err


def test_contracts_are_shown_compared_and_made_a_client(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["contracts", "show", server.url]) == 0
    shown = capsys.readouterr().out
    file = tmp_path / "contracts.json"
    file.write_text(shown, encoding="utf-8")
    document = json.loads(shown)
    assert document["agent"] == "desk"
    assert document["contracts"][0]["inputSchema"]["required"] == ["text"]

    assert run(["contracts", "diff", str(file), server.url]) == 0
    assert "equal" in capsys.readouterr().out
    del document["contracts"][1]
    document["contracts"][0]["inputSchema"]["required"] = ["text", "length"]
    older = tmp_path / "other.json"
    older.write_text(json.dumps(document), encoding="utf-8")
    assert run(["contracts", "diff", str(file), str(older)]) == 1
    assert "breaking" in capsys.readouterr().out
    assert run(["contracts", "diff", str(older), str(file), "--json"]) == 0
    kinds = {change["kind"] for change in json.loads(capsys.readouterr().out)}
    assert kinds == {"compatible"}

    stub = tmp_path / "desk_client.py"
    assert run(["contracts", "stub", server.url, "--out", str(stub)]) == 0
    ast.parse(stub.read_text("utf-8"))
    missing = tmp_path / "no" / "client.py"
    assert run(["contracts", "stub", server.url, "--out", str(missing)]) == 1
    assert f"cannot write {missing}" in capsys.readouterr().err
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio\n"
        "from acc import RemoteAgent\n"
        "from desk_client import DeskClient\n"
        f'remote = RemoteAgent(name="desk", url="{server.url}", allow=["127.0.0.1"])\n'
        "outputs = asyncio.run(DeskClient(remote).summarize_text(text='abc', length='long'))\n"
        "summary: str = outputs['summary']\n"
        "print(summary)\n",
        encoding="utf-8",
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "abc\n"
    checked = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", str(program), str(stub)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("content", ["", "[]", '{"agent": "a"}', '{"agent":"a","contracts":[3]}'])
def test_invalid_contract_files_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "contracts.json"
    file.write_text(content, encoding="utf-8")
    assert run(["contracts", "show", str(file)]) == 2
    assert "contracts.json" in capsys.readouterr().err


async def test_context_of_the_caller_is_forwarded_with_remote_calls() -> None:
    """A custom agent passes `ctx`, so that ids and granted permissions reach the next hop."""
    seen: list[dict[str, Any]] = []

    @intent
    def look(inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
        """Record the context."""
        seen.append(context)
        return {}

    listener = bind("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    remote = RemoteAgent(name="worker", url=url, allow=LOOPBACK)

    class Front(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return json.dumps(await remote.call("look", {}, ctx=ctx))

    callers = {"agent://desk": Grant(permissions=("read:docs", "pay"))}
    front = Front(name="front", input_schema={"type": "object"}, callers=callers)
    app = create_app(look, public_url=url)
    async with serving(app, listener):
        context = {
            "caller": "agent://desk",
            "request_id": "r-1",
            "trace_id": "t-1",
            "user_id": "u-1",
            "permissions": ["read:docs", "write:docs"],
        }
        await run_agent_async(front, {"inputs": {}, "context": context})
    assert seen[0].pop("timestamp")
    assert seen == [
        {
            "caller": "agent://front",
            "on_behalf_of": "agent://desk",
            "request_id": "r-1",
            "trace_id": "t-1",
            "user_id": "u-1",
            "permissions": ["read:docs"],
        }
    ]


def test_serve_shows_a_call_of_an_intent(tmp_path: Path) -> None:
    with Server(tmp_path, agent="intent_agents:desk") as process:
        stdout = process._process.stdout
        assert stdout is not None
        lines = [stdout.readline().decode() for _ in range(3)]
    assert "--intent summarize_text --input text=VALUE" in lines[-1]
