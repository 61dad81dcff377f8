"""The A2A client and remote agents with `acc serve` and the official server."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from server_process import ALICE, HERE, Server, tokens_file

from acc import (
    InputAnswer,
    ParallelAgent,
    RemoteAgent,
    RemoteFailed,
    Runner,
    RunStatus,
    approve,
    deny,
)
from acc.adapters.a2a.client.client import A2AClient
from acc.adapters.a2a.client.grpc_transport import GrpcTransport
from acc.bootstrap.a2a_client import make_credentials, make_remote
from acc.domain.errors import TaskNotFound, Unauthenticated
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
)

MODES = [
    (version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
]


class SingleInterfaceClient(A2AClient):
    """A client that uses one protocol version and one binding of a card."""

    mode: tuple[str, str]

    def _transports(self, http: Any, card: AgentCard, headers: Any) -> Any:
        interfaces = tuple(i for i in card.interfaces if (i.version, i.binding) == self.mode)
        return super()._transports(http, replace(card, interfaces=interfaces), headers)


def client_of(url: str, mode: tuple[str, str] | None = None, **fields: Any) -> A2AClient:
    endpoint = RemoteEndpoint(url=url, allow=("127.0.0.1",), **fields)
    if mode is None:
        return make_remote(endpoint)
    client = SingleInterfaceClient(
        endpoint, credentials=make_credentials(endpoint, ()), grpc=GrpcTransport
    )
    client.mode = mode
    return client


def message(text: str, message_id: str = "", **fields: Any) -> Message:
    own = message_id or f"m-{time.monotonic_ns()}"
    return Message(message_id=own, role=Role.USER, parts=(Part(text=text),), **fields)


class UpdateLog:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.states: list[TaskState] = []
        self.first = asyncio.Event()

    async def __call__(self, task: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        if isinstance(update, StatusUpdate):
            self.states.append(update.status.state)
        else:
            self.pieces.append(text_of(update.artifact.parts))
            self.first.set()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Server(tmp_path_factory.mktemp("everything"), "--grpc-port", "0") as server:
        yield server.url


@pytest.fixture(scope="module")
def payment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Server(tmp_path_factory.mktemp("payment"), agent="sample_agents:payment") as server:
        yield server.url


@pytest.mark.parametrize("streaming", [None, False], ids=["streamed", "polled"])
@pytest.mark.parametrize("mode", MODES, ids="-".join)
async def test_every_version_and_binding_returns_same_result(
    everything: str, mode: tuple[str, str], streaming: bool | None
) -> None:
    client = client_of(everything, mode, streaming=streaming)
    updates = UpdateLog()
    task = await client.send(message("count 4 0.05"), on_update=updates)
    assert isinstance(task, Task)
    assert [text_of(artifact.parts) for artifact in task.artifacts] == ["1 2 3 4 ", "counted to 4"]
    assert "".join(updates.pieces) == "1 2 3 4 counted to 4"
    assert updates.states[-1] is TaskState.COMPLETED
    waits = await client.send(message("ask which?"))
    assert isinstance(waits, Task)
    assert waits.state is TaskState.INPUT_REQUIRED
    completed = await client.send(message("青", task_id=waits.id), known=waits)
    assert isinstance(completed, Task)
    assert text_of(completed.artifacts[-1].parts) == "you answered 青"
    files = await client.send(message("files"))
    assert isinstance(files, Task)
    assert [artifact.name for artifact in files.artifacts] == [
        *("report.txt", "dot.png", "elsewhere", "table", "answer")
    ]
    assert files.artifacts[1].parts[0].raw == b"\x89PNG\r\n"
    with pytest.raises(TaskNotFound):
        await client.get("nothing")


@pytest.mark.parametrize("mode", MODES, ids="-".join)
async def test_cancelled_send_cancels_the_task(everything: str, mode: tuple[str, str]) -> None:
    client = client_of(everything, mode)
    task_ids: list[str] = []

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(20) as deadline:

            async def on_update(task: Task, update: object) -> None:
                task_ids.append(task.id)
                deadline.reschedule(asyncio.get_running_loop().time() + 0.1)

            await client.send(message("sleep 30"), on_update=on_update)
    assert (await client.get(task_ids[0])).state is TaskState.CANCELED


async def test_repeated_message_returns_same_task(everything: str) -> None:
    client = client_of(everything)
    first = await client.send(message("hello", "same-id"))
    second = await client.send(message("hello", "same-id"))
    assert isinstance(first, Task)
    assert isinstance(second, Task)
    assert first.id == second.id


async def test_missing_token_is_rejected(tmp_path: Path) -> None:
    with Server(tmp_path, "--tokens", str(tokens_file(tmp_path))) as server:
        with pytest.raises(Unauthenticated):
            await client_of(server.url).send(message("hello"))
        task = await client_of(server.url, token=ALICE).send(message("hello"))
    assert isinstance(task, Task)
    assert text_of(task.artifacts[0].parts) == "echo: hello"


@pytest.mark.parametrize("mode", [("1.0", "JSONRPC"), ("1.0", "GRPC")], ids="-".join)
async def test_stream_continues_without_loss_after_server_restart(
    mode: tuple[str, str], tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        grpc_port = probe.getsockname()[1]
    store = ("--store", str(tmp_path / "tasks.db"), "--grpc-port", str(grpc_port))
    updates = UpdateLog()
    with Server(tmp_path, *store) as first:
        port = str(first.port)
        client = client_of(first.url, mode, retries=12)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(client.send(message("count 100 0.1"), on_update=updates))
            await updates.first.wait()
            await asyncio.sleep(0.5)
            first.kill()
            second = _on_port(port, tmp_path, *store)
            await asyncio.to_thread(second.__enter__)
            try:
                task = await sending
            finally:
                second.__exit__(None, None, None)
    assert isinstance(task, Task)
    # The task failed with its server. No event is repeated and none is missing.
    assert task.state is TaskState.FAILED
    numbers = "".join(updates.pieces).split()
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert text_of(task.artifacts[0].parts).split() == numbers
    assert updates.states == [TaskState.WORKING, TaskState.FAILED]


def _on_port(port: str, folder: Path, *options: str) -> Server:
    server = Server(folder, *options)
    position = server._command.index("--port")
    server._command[position + 1] = port
    return server


# Remote agents in trees


def remote(url: str, **fields: Any) -> RemoteAgent:
    options = {"name": "shop", "url": url, "description": "d", "allow": ["127.0.0.1"]}
    return RemoteAgent(**{**options, **fields})


async def test_remote_payment_waits_for_local_approval(payment: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"user_id": "u", "session_id": "s"}
    changed_arguments = {"payee": "Aoba", "amount": 7}
    decisions: list[tuple[Callable[[str], InputAnswer], str]] = [
        (approve, "paid 20000 yen to Aoba"),
        (lambda name: approve(name, arguments=changed_arguments), "paid 7 yen to Aoba"),
        (lambda name: deny(name, "over budget"), "over budget"),
    ]
    for decision, answer in decisions:
        runner = Runner(remote(payment), store=tmp_path / "a.db")
        waiting = await runner.run(message="pay 20000", **keys)
        (request,) = waiting.requests
        assert (request.tool, request.arguments) == ("pay", {"payee": "Aoba", "amount": 20000})
        await runner.aclose()
        restarted = Runner(remote(payment), store=tmp_path / "a.db")
        result = await restarted.resume(answers=[decision(request.id)], **keys)
        assert result.status is RunStatus.COMPLETED
        assert answer in result.text
        await restarted.aclose()


async def test_two_remote_agents_run_concurrently(everything: str) -> None:
    pair = [remote(everything, name=name) for name in ("left", "right")]
    runner = Runner(ParallelAgent(name="root", sub_agents=pair))
    began = time.monotonic()
    result = await runner.run(user_id="u", session_id="s", message="sleep 1")
    assert time.monotonic() - began < 1.9
    assert result.text == "left: awake\nright: awake"


async def test_remote_failure_does_not_contain_secrets(everything: str) -> None:
    with pytest.raises(RemoteFailed, match="the remote task is failed") as error:
        await Runner(remote(everything)).run(user_id="u", session_id="s", message="fail hunter2")
    assert "hunter2" not in str(error.value)


async def test_loopback_address_must_be_allowed(
    everything: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = remote(everything, allow=[])
    with pytest.raises(RemoteFailed, match="ACC_ALLOW"):
        await Runner(closed).run(user_id="u", session_id="s", message="hello")
    monkeypatch.setenv("ACC_ALLOW", "10.0.0.0/8, 127.0.0.1")
    result = await Runner(closed).run(user_id="u", session_id="s", message="hello")
    assert result.text == "echo: hello"


# The official server


@contextmanager
def official(*how: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(HERE / "official_server.py"), str(port), *how]
    process = subprocess.Popen(command)  # noqa: S603 - our own interpreter
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            assert process.poll() is None
            try:
                with urlopen(f"{url}/.well-known/agent-card.json", timeout=1):  # noqa: S310
                    break
            except (URLError, OSError):
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "how",
    [
        *((), ("rest",), ("grpc",), ("0.3",), ("0.3", "rest"), ("0.3", "grpc")),
        *(("status",), ("status", "0.3", "rest")),
    ],
    ids=" ".join,
)
async def test_remote_agent_uses_official_server(how: tuple[str, ...]) -> None:
    with official(*how) as url:
        for mode in (None, "poll"):
            runner = Runner(remote(url, mode=mode))
            for _ in range(2):
                result = await runner.run(user_id="u", session_id="s", message="hi")
                assert result.text == "hello"
