"""Tokens for single use (section 12.1): one token is accepted once by all servers together."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_app import served
from identity_provider import IdentityProvider
from server_harness import CommandAgent
from valkey_server import shared_valkey

from acc.a2a import (
    A2AServer,
    JwtVerifier,
    TrustedIssuer,
    UsedIds,
    create_app,
    generate_key,
    public_key_set,
)

AUDIENCE = "https://desk.example.com"


@pytest.fixture(scope="module")
def router() -> Iterator[IdentityProvider]:
    """An agent that signs its own tokens."""
    yield IdentityProvider(url="agent://router", key=generate_key("ES256", kid="agent"))


def server(router: IdentityProvider, agent: CommandAgent, ids: UsedIds) -> A2AServer:
    issuer = TrustedIssuer(
        issuer="agent://router",
        audience=AUDIENCE,
        keys=public_key_set([router.key]),
        single_use=True,
        default_scopes=["agent.invoke", "agent.read"],
    )
    return create_app(agent, verifier=JwtVerifier([issuer], used_ids=ids), used_ids=ids)


@pytest.mark.parametrize("place", ["valkey", "sqlite"])
async def test_token_presented_to_two_servers_is_accepted_once(
    place: str, router: IdentityProvider, tmp_path: Path
) -> None:
    store: Any = shared_valkey() if place == "valkey" else tmp_path / "acc.db"
    one, two = CommandAgent(name="desk"), CommandAgent(name="desk")
    async with (
        served(server(router, one, UsedIds(store))) as first,
        served(server(router, two, UsedIds(store))) as second,
    ):
        token = router.token(aud=AUDIENCE, jti=f"{place}-1")
        assert (await first.send("pay", token)).status_code == 200
        replayed = await second.send("pay", token)
        assert replayed.status_code == 401
        assert (await first.send("pay", token)).status_code == 401
        fresh = router.token(aud=AUDIENCE, jti=f"{place}-2")
        assert (await second.send("check", fresh)).status_code == 200
    assert (one.log, two.log) == (["pay"], ["check"])


async def test_token_is_rejected_while_the_store_does_not_respond(
    router: IdentityProvider,
) -> None:
    agent = CommandAgent(name="desk")
    async with served(server(router, agent, UsedIds("valkey://127.0.0.1:1"))) as client:
        response = await client.send("pay", router.token(aud=AUDIENCE, jti="1"))
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert agent.log == []
