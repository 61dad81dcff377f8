"""A2AClient: renewal of rejected credentials, and refusal of unencrypted connections."""

import asyncio
import json
from typing import Any

import pytest
from identity_provider import identity_provider
from remote_server import Call, message, raw, remote_server, rpc_error, stream, task

from acc import AccError, ClientCredentials
from acc.adapters.a2a.client.intents import HttpIntentCaller
from acc.domain.errors import RemoteFailed, Unauthenticated

ANSWER = {"artifactId": "a", "parts": [{"text": "done"}]}
REJECTED = raw(b"", status="401 Unauthorized")


def tokens(calls: list[Call]) -> list[str]:
    return [call.headers["authorization"] for call in calls if call.method == "POST"]


async def test_rejected_token_is_renewed_once() -> None:
    async with identity_provider() as provider, remote_server(REJECTED) as server:
        server.handlers[:] = [REJECTED, stream({"task": task("COMPLETED", ANSWER)})]
        auth = ClientCredentials(
            client_id="c", client_secret="s3cret", token_url=f"{provider.url}/token"
        )
        client = server.client(auth=auth)
        await client.send(message())
        assert len(provider.forms) == 2
        assert len(set(tokens(server.calls))) == 2
        await client.send(message())
        assert len(provider.forms) == 2


async def test_second_rejection_is_raised() -> None:
    async with identity_provider() as provider, remote_server(REJECTED) as server:
        auth = ClientCredentials(
            client_id="c", client_secret="s3cret", token_url=f"{provider.url}/token"
        )
        with pytest.raises(Unauthenticated) as caught:
            await server.client(auth=auth).send(message())
        assert len(tokens(server.calls)) == 2
        assert "s3cret" not in str(caught.value)


async def repeat_token(call: Call, writer: asyncio.StreamWriter) -> None:
    text = f"denied: {call.headers['authorization']}"
    await rpc_error(-32000, text)(call, writer)


async def repeat_token_in_body(call: Call, writer: asyncio.StreamWriter) -> None:
    error = {"error": {"code": 400, "message": f"denied: {call.headers['authorization']}"}}
    await raw(json.dumps(error).encode(), status="400 Bad Request")(call, writer)


async def repeat_token_as_unavailable(call: Call, writer: asyncio.StreamWriter) -> None:
    error = {"error": {"code": 503, "message": f"denied: {call.headers['authorization']}"}}
    await raw(json.dumps(error).encode(), status="503 Service Unavailable")(call, writer)


REPEATERS = (repeat_token, repeat_token_in_body, repeat_token_as_unavailable)


@pytest.mark.parametrize("repeat", REPEATERS)
async def test_credentials_that_a_server_repeats_are_not_in_the_error(repeat: Any) -> None:
    async with identity_provider() as provider, remote_server(repeat) as server:
        auth = ClientCredentials(
            client_id="c", client_secret="s3cret", token_url=f"{provider.url}/token"
        )
        with pytest.raises(AccError, match="denied: [*]{3}") as caught:
            await server.client(auth=auth, retries=0).send(message())
        token = tokens(server.calls)[0].partition(" ")[2]
        assert len(token) > 20
        assert token not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "repeat"),
    [*(("/", one) for one in REPEATERS), *(("/run", one) for one in REPEATERS[1:])],
)
async def test_token_of_a_call_that_a_server_repeats_is_not_in_the_error(
    path: str, repeat: Any
) -> None:
    caller = HttpIntentCaller(allow=["127.0.0.1"], resolve_token=str)
    async with remote_server(repeat) as server:
        with pytest.raises(AccError, match="denied: [*]{3}") as caught:
            await caller.call(f"{server.url}{path}", {"intent": "ask"}, token="s3cret-token")
    assert "s3cret" not in str(caught.value)


async def test_token_is_not_sent_unencrypted() -> None:
    async with remote_server(stream({"task": task("COMPLETED", ANSWER)})) as server:
        url = "http://agent.example/rpc"
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(interface)
        client = server.client(token="s3cret", trust=("http://agent.example",))
        with pytest.raises(RemoteFailed) as caught:
            await client.send(message())
        assert caught.value.remote_code == "insecure_url"
        assert tokens(server.calls) == []
