"""The A2A client over gRPC: selection by card, credentials, TLS, lost streams, errors."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from grpc_app import GrpcApp, free_port, served_over_grpc, write_certificate

from acc.a2a import RateLimiter, ServerLimits, StaticTokens, TokenEntry, token_hash
from acc.adapters.a2a.client.client import A2AClient, choose_interfaces
from acc.adapters.a2a.client.grpc_transport import GrpcTransport
from acc.adapters.a2a.client.transport import CallFailed, GrpcOptions, MakeGrpcTransport
from acc.adapters.a2a.wire.protocol import Operation
from acc.adapters.auth.certificates import ClientCertificates
from acc.adapters.http.client import NetworkOptions
from acc.application.a2a.requests import (
    CardRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    SendRequest,
)
from acc.bootstrap.a2a_client import make_credentials, make_remote
from acc.domain.errors import (
    AddressRefused,
    InvalidInput,
    RemoteFailed,
    TaskNotFound,
    Unauthenticated,
)
from acc.domain.value_objects.agent_card import AgentCard, Interface
from acc.domain.value_objects.content import Part, text_of
from acc.domain.value_objects.credentials import MutualTls
from acc.domain.value_objects.endpoint import RemoteEndpoint, to_grpc_url
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskQuery,
    TaskState,
)

TOKENS = [TokenEntry(sha256=token_hash("ann-token"), caller="ann")]


def client_of(
    url: str,
    network: NetworkOptions | None = None,
    grpc: MakeGrpcTransport | None = GrpcTransport,
    **fields: Any,
) -> A2AClient:
    endpoint = RemoteEndpoint(**{"url": url, "allow": ("127.0.0.1",), "retries": 2, **fields})
    return A2AClient(
        endpoint, credentials=make_credentials(endpoint, ()), network=network, grpc=grpc
    )


def message(text: str, message_id: str = "m", **fields: Any) -> Message:
    return Message(message_id=message_id, role=Role.USER, parts=(Part(text=text),), **fields)


async def ask(client: A2AClient, text: str = "hello") -> str:
    task = await client.send(message(text))
    assert isinstance(task, Task)
    return text_of(task.artifacts[-1].parts)


async def test_address_of_a_grpc_server_needs_no_card() -> None:
    async with served_over_grpc() as app:
        assert await ask(client_of(f"grpc://{app.target}"), "こんにちは") == "echo: こんにちは"


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_parts_are_stored_and_returned_unchanged(version: str) -> None:
    data: dict[str, Any] = {
        "金額": 12000,
        "rate": 0.5,
        "none": None,
        "list": [1, True, "x", {}],
        "empty": {},
    }
    parts = (
        Part(text="見て"),
        Part(raw="表の中身".encode(), filename="表.txt", media_type="text/plain"),
        Part(url="https://example.com/a.txt", filename="a.txt", media_type="text/plain"),
        Part(data=data, metadata={"n": 3}),
    )
    sent = Message(message_id="m", role=Role.USER, parts=parts, metadata={"k": [1, 2.5]})
    async with served_over_grpc(protocol_versions=(version,)) as app:
        task = await client_of(f"grpc://{app.target}").send(sent)
        assert isinstance(task, Task)
        stored = await app.server.serve._tasks.read(task.id)
    assert stored is not None
    assert stored.history[0].parts == parts
    assert stored.history[0].metadata == {"k": [1, 2.5]}
    returned = stored.history[0].parts[3].data
    assert isinstance(returned, dict)
    assert type(returned["金額"]) is int


async def test_server_of_0_3_only_is_called_with_0_3() -> None:
    async with served_over_grpc(protocol_versions=("0.3",)) as app:
        assert await ask(client_of(f"grpc://{app.target}")) == "echo: hello"


def card(*interfaces: tuple[str, str, str]) -> AgentCard:
    return AgentCard(
        name="desk",
        description="d",
        version="1",
        interfaces=tuple(
            Interface(url=url, binding=binding, version=version)
            for url, binding, version in interfaces
        ),
    )


def test_interfaces_are_chosen_by_version_and_order_of_the_card() -> None:
    described = card(
        ("https://desk.example", "JSONRPC", "0.3"),
        ("desk.example:443", "GRPC", "1.0"),
        ("https://desk.example", "HTTP+JSON", "1.0"),
    )
    chosen = choose_interfaces(described, encrypted=True)
    assert [(one.binding, one.url) for one in chosen] == [
        ("GRPC", "grpcs://desk.example:443"),
        ("HTTP+JSON", "https://desk.example"),
        ("JSONRPC", "https://desk.example"),
    ]
    with pytest.raises(RemoteFailed, match="HOST:PORT"):
        choose_interfaces(card(("ftp://desk.example:1", "GRPC", "1.0")), encrypted=True)


async def test_grpc_without_its_packages_is_not_used() -> None:
    with pytest.raises(InvalidInput, match="grpc"):
        await ask(client_of("grpc://127.0.0.1:1", grpc=None))
    described = card(("desk.example:1", "GRPC", "1.0"), ("https://desk.example", "JSONRPC", "1.0"))
    (chosen,) = choose_interfaces(described, encrypted=True, has_grpc=False)
    assert chosen.binding == "JSONRPC"


@pytest.mark.parametrize(
    ("address", "encrypted", "expected"),
    [
        ("desk.example:50051", True, "grpcs://desk.example:50051"),
        ("desk.example:50051", False, "grpc://desk.example:50051"),
        ("[::1]:50051", False, "grpc://[::1]:50051"),
        ("https://desk.example/a2a/grpc", False, "grpcs://desk.example:443"),
        ("http://desk.example:80", True, "grpc://desk.example:80"),
        ("grpc://desk.example:1", True, "grpc://desk.example:1"),
        ("ftp://desk.example:1", True, ""),
        ("user:secret@desk.example:1", True, ""),
        ("desk.example:0", True, ""),
        ("desk.example:99999", True, ""),
        ("", True, ""),
    ],
)
def test_addresses_of_cards_become_urls(address: str, encrypted: bool, expected: str) -> None:
    assert to_grpc_url(address, encrypted=encrypted) == expected


@pytest.mark.parametrize(
    "url", ["grpc://h:1/path", "grpc://h:1?a=b", "grpc://u:p@h:1", "grpc://:1"]
)
def test_invalid_addresses_are_rejected(url: str) -> None:
    with pytest.raises(InvalidInput):
        RemoteEndpoint(url=url)


# Credentials and addresses


async def test_token_is_sent_to_loopback_and_to_trusted_origins_only() -> None:
    async with served_over_grpc(verifier=StaticTokens(TOKENS)) as app:
        assert await ask(client_of(f"grpc://{app.target}", token="ann-token")) == "echo: hello"
        with pytest.raises(Unauthenticated):
            await ask(client_of(f"grpc://{app.target}"))
        described = card((app.target, "GRPC", "1.0"))
        elsewhere = client_of("http://127.0.0.1:1", token="ann-token")
        with pytest.raises(RemoteFailed) as untrusted:
            elsewhere._transports(None, described, {})  # type: ignore[arg-type]
        assert untrusted.value.remote_code == "untrusted_origin"
        trusted = client_of(
            "http://127.0.0.1:1", token="ann-token", trust=(f"grpc://{app.target}",)
        )
        (transport,) = trusted._transports(None, described, {})  # type: ignore[arg-type]
        assert isinstance(transport, GrpcTransport)


@pytest.mark.parametrize("insecure", [False, True])
def test_token_needs_tls_for_other_machines(insecure: bool) -> None:
    client = client_of("grpc://desk.example:1", token="t", insecure=insecure)
    described = card(("grpc://desk.example:1", "GRPC", "1.0"))
    if insecure:
        assert client._transports(None, described, {})  # type: ignore[arg-type]
        return
    with pytest.raises(RemoteFailed) as refused:
        client._transports(None, described, {})  # type: ignore[arg-type]
    assert refused.value.remote_code == "insecure_url"


async def test_private_address_must_be_allowed() -> None:
    async with served_over_grpc() as app:
        with pytest.raises(AddressRefused):
            await ask(client_of(f"grpc://{app.target}", allow=()))
        assert app.agent.log == []


async def test_resolved_address_is_the_one_that_is_called() -> None:
    async with served_over_grpc() as app:
        port = app.target.rpartition(":")[2]

        async def resolve(host: str, _: int) -> list[str]:
            return ["127.0.0.1"] if host == "desk.example" else []

        network = NetworkOptions(resolve=resolve)
        url = f"grpc://desk.example:{port}"
        assert await ask(client_of(url, network, allow=("127.0.0.1",))) == "echo: hello"
        with pytest.raises(AddressRefused):
            await ask(client_of(url, network, allow=()))


async def test_certificate_is_verified(tmp_path: Path) -> None:
    chain, key = write_certificate(tmp_path)
    trusted = NetworkOptions(tls=ssl.create_default_context(cafile=str(chain)))
    async with served_over_grpc(
        certificate=chain, private_key=key, verifier=StaticTokens(TOKENS)
    ) as app:
        url = f"grpcs://{app.target}"
        assert await ask(client_of(url, trusted, token="ann-token")) == "echo: hello"
        with pytest.raises(RemoteFailed) as failed:
            await ask(client_of(url, token="ann-token", retries=0))
        assert failed.value.remote_code == "unreachable"
        assert app.agent.log == ["hello"]


async def test_client_certificate_names_the_caller(tmp_path: Path) -> None:
    chain, key = write_certificate(tmp_path)
    async with served_over_grpc(
        certificate=chain,
        private_key=key,
        client_authority=chain,
        certificates=ClientCertificates(),
    ) as app:
        url = f"grpcs://{app.target}"
        own = RemoteEndpoint(
            url=url, allow=("127.0.0.1",), auth=MutualTls(cert=chain, key=key, ca=chain)
        )
        task = await make_remote(own).send(message("hello"))
        assert isinstance(task, Task)
        stored = await app.server.serve._tasks.read(
            task.id, owner=Principal(caller="127.0.0.1").owner
        )
        assert stored is not None
        trusted = NetworkOptions(tls=ssl.create_default_context(cafile=str(chain)))
        with pytest.raises(RemoteFailed):
            await ask(client_of(url, trusted, retries=0))
        assert app.agent.log == ["hello"]


# Lost streams and errors


class CutStream(GrpcTransport):
    """A transport whose streams are cut after each item."""

    cuts = 0

    async def stream(self, *args: Any, **fields: Any) -> Any:
        async for event in super().stream(*args, **fields):
            yield event
            type(self).cuts += 1
            raise CallFailed("the stream was cut", retryable=True)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_stream_that_is_cut_after_each_item_loses_nothing(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.adapters.a2a.client.follower.FIRST_RETRY_SECONDS", 0.01)
    pieces: list[str] = []
    states: list[TaskState] = []

    async def on_update(_: Task, update: StatusUpdate | ArtifactUpdate) -> None:
        if isinstance(update, StatusUpdate):
            states.append(update.status.state)
        else:
            pieces.append(text_of(update.artifact.parts))

    CutStream.cuts = 0
    async with served_over_grpc(protocol_versions=(version,)) as app:
        client = client_of(f"grpc://{app.target}", grpc=CutStream)
        task = await client.send(message("count 5"), on_update=on_update)
    assert isinstance(task, Task)
    assert CutStream.cuts > 5
    assert "".join(pieces) == "0 1 2 3 4 counted to 5"
    assert states == [TaskState.WORKING, TaskState.COMPLETED]
    assert not task.metadata


async def test_unreachable_server_is_retried_and_then_reported() -> None:
    client = client_of(f"grpc://127.0.0.1:{free_port()}", retries=1)
    with pytest.raises(RemoteFailed) as failed:
        await ask(client)
    assert failed.value.remote_code == "unreachable"
    assert failed.value.retryable


async def test_server_that_starts_late_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr("grpc_app.free_port", lambda: port)
    client = client_of(f"grpc://127.0.0.1:{port}", retries=12)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(ask(client))
        await asyncio.sleep(0.3)
        async with served_over_grpc():
            assert await asking == "echo: hello"


async def test_rate_limit_waits_as_the_server_asks() -> None:
    async with served_over_grpc(limiter=RateLimiter(["1/second"])) as app:
        client = client_of(f"grpc://{app.target}", retries=5)
        first, second = await client.send(message("a", "1")), await client.send(message("b", "2"))
        assert isinstance(first, Task)
        assert isinstance(second, Task)
    assert app.agent.log == ["a", "b"]


async def test_oversized_message_is_not_retried() -> None:
    async with served_over_grpc(limits=ServerLimits(body=50_000)) as app:
        with pytest.raises(RemoteFailed) as failed:
            await ask(client_of(f"grpc://{app.target}"), "x" * 100_000)
        assert not failed.value.retryable
        assert app.agent.log == []


async def test_missing_task_is_reported_as_such() -> None:
    for version in ("1.0", "0.3"):
        async with served_over_grpc(protocol_versions=(version,)) as app:
            with pytest.raises(TaskNotFound):
                await client_of(f"grpc://{app.target}").get("nothing")


# All methods


def transport_of(app: GrpcApp, version: str) -> GrpcTransport:
    url = f"grpc://{app.target}"
    return GrpcTransport(
        Interface(url=url, binding="GRPC", version=version),
        GrpcOptions(
            headers={},
            allow=("127.0.0.1",),
            network=None,
            credentials=make_credentials(RemoteEndpoint(url=url, token="ann-token"), ()),
            card=card((url, "GRPC", version)),
        ),
    )


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_every_method_has_the_result_of_the_use_case(version: str) -> None:
    async with served_over_grpc(verifier=StaticTokens(TOKENS), allow=("127.0.0.1",)) as app:
        transport, wire = transport_of(app, version), transport_of(app, version).wire

        async def call(operation: Operation, request: Any) -> bytes:
            return await transport.call(operation, request, timeout=10)

        sent = wire.read_send_result(
            await call(Operation.SEND, SendRequest(message=message("wait"), wait=False))
        )
        assert isinstance(sent, Task)
        config = PushConfig(id="one", task_id=sent.id, url="http://127.0.0.1:9/hook", token="t")
        created = wire.read_push(
            await call(Operation.PUSH_CREATE, PushCreateRequest(config=config))
        )
        assert (created.id, created.task_id, created.url) == ("one", sent.id, config.url)
        one = PushRequest(task_id=sent.id, id="one")
        assert wire.read_push(await call(Operation.PUSH_GET, one)) == created
        listing = PushRequest(task_id=sent.id)
        page = wire.read_push_list(await call(Operation.PUSH_LIST, listing))
        assert page.configs == (created,)
        await call(Operation.PUSH_DELETE, one)
        assert not wire.read_push_list(await call(Operation.PUSH_LIST, listing)).configs
        described = wire.read_card(await call(Operation.EXTENDED_CARD, CardRequest()))
        assert described.name == "desk"
        assert described.security == ({"bearer": ()},)
        if version == "1.0":
            listed = wire.read_page(
                await call(Operation.LIST, ListRequest(query=TaskQuery(page_size=5)))
            )
            assert [task.id for task in listed.tasks] == [sent.id]
        app.agent.gate.set()
        await transport.aclose()


def test_grpc_is_imported_on_use_only() -> None:
    program = (
        "import sys, acc.a2a, acc.bootstrap.a2a_client, acc.adapters.a2a.client.client;"
        "print([name for name in sys.modules if name.startswith(('grpc', 'google.protobuf'))])"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
