"""A2AClient: renewal of rejected credentials, and refusal of unencrypted connections."""

import pytest
from identity_provider import identity_provider
from remote_server import Call, message, raw, remote_server, stream, task

from acc import ClientCredentials
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
