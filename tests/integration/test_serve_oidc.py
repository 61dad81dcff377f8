"""`acc serve --oidc` in a process of its own with an identity provider on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
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


async def test_two_servers_of_one_store_share_used_tokens_nonces_and_rates(tmp_path: Path) -> None:
    options = ["--store", str(tmp_path / "acc.db"), "--audience", AUDIENCE]
    options += ["--single-use-tokens", "--replay-window", "60"]
    options += ["--rate-limit", "4/hour", "--rate-limit-store", "store"]
    async with identity_provider() as provider:

        def server() -> Server:
            return Server(tmp_path, "--oidc", provider.url, *options, agent="intent_agents:desk")

        async def call(url: str, token: str, nonce: str) -> int:
            now = datetime.now(UTC).isoformat()
            data = {"intent": "summarize_text", "inputs": {"text": "abc"}}
            data["context"] = {"timestamp": now, "nonce": nonce}
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(trust_env=False) as http:
                return (await http.post(f"{url}/run", json=data, headers=headers)).status_code

        async with running_server(server()) as one, running_server(server()) as two:
            first = provider.token(jti="1")
            assert await call(one.url, first, "n-1") == 200
            assert await call(two.url, first, "n-2") == 401  # the token was used
            assert await call(two.url, provider.token(jti="2"), "n-1") == 400  # the nonce was used
            assert await call(two.url, provider.token(jti="3"), "n-3") == 200
            assert await call(one.url, provider.token(jti="4"), "n-4") == 200
            assert await call(two.url, provider.token(jti="5"), "n-5") == 429


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
        ["--single-use-tokens"],
        ["--oidc", "http://login.example.com", "--audience", AUDIENCE],
        ["--oidc", issuer, "--audience", AUDIENCE, "--tokens", tokens],
        ["--oidc", issuer, "--oidc", "https://b.example", "--audience", AUDIENCE],
    ):
        arguments = ["serve", "tests/integration/sample_agents.py:everything", "--port", "0"]
        assert run([*arguments, *options]) == 2, options
