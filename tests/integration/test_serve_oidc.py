"""`acc serve --oidc` in a process of its own with an identity provider on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from identity_provider import AUDIENCE, identity_provider
from server_process import ALICE, Server, tokens_file

from acc.cli import execute as run

SEND = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "SendMessage",
    "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
}


@asynccontextmanager
async def running_server(server: Server) -> AsyncIterator[Server]:
    """Start and stop a server while the event loop continues to run."""
    await asyncio.to_thread(server.__enter__)
    try:
        yield server
    finally:
        server.__exit__(None, None, None)


async def post(url: str, token: str) -> httpx.Response:
    headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(url, json=SEND, headers=headers)


async def test_served_agent_accepts_tokens_of_issuer(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        server = Server(tmp_path, "--oidc", provider.url, "--audience", AUDIENCE)
        async with running_server(server) as running:
            assert (await post(running.url, provider.token())).status_code == 200
            assert (await post(running.url, provider.token(aud="other"))).status_code == 401
            assert (await post(running.url, provider.token(scope="agent.read"))).status_code == 403
            async with httpx.AsyncClient(trust_env=False) as http:
                card = (await http.get(f"{running.url}/.well-known/agent-card.json")).json()
        scheme = card["securitySchemes"]["oidc"]["openIdConnectSecurityScheme"]
        url = f"{provider.url}/.well-known/openid-configuration"
        assert scheme["openIdConnectUrl"] == url


async def test_static_tokens_and_issuer_together(tmp_path: Path) -> None:
    tokens = str(tokens_file(tmp_path))
    async with identity_provider() as provider:
        options = ("--oidc", f"staff={provider.url}", "--audience", AUDIENCE, "--tokens", tokens)
        server = Server(tmp_path, *options)
        async with running_server(server) as running:
            assert (await post(running.url, provider.token())).status_code == 200
            assert (await post(running.url, ALICE)).status_code == 200
            assert (await post(running.url, "acc_unknown")).status_code == 401


def test_contradicting_options_are_rejected(tmp_path: Path) -> None:
    tokens = str(tokens_file(tmp_path))
    issuer = "https://login.example.com"
    for options in (
        ["--oidc", issuer],
        ["--audience", AUDIENCE],
        ["--oidc", "http://login.example.com", "--audience", AUDIENCE],
        ["--oidc", issuer, "--audience", AUDIENCE, "--tokens", tokens],
        ["--oidc", issuer, "--oidc", "https://b.example", "--audience", AUDIENCE],
    ):
        arguments = ["serve", "tests/integration/sample_agents.py:everything", "--port", "0"]
        assert run([*arguments, *options]) == 2, options
