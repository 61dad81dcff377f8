"""Credentials of RemoteAgent: OAuth2 client credentials, signed JWTs, API keys, Basic."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from identity_provider import IdentityProvider, identity_provider

from acc import ApiKey, BasicAuth, ClientCredentials, RemoteAgent, SignedJwt
from acc.a2a import JwtVerifier, TrustedIssuer, generate_key, public_key_set
from acc.bootstrap.a2a_client import make_credentials
from acc.domain.errors import InvalidInput, InvalidTree, RemoteFailed, Unauthenticated
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import RemoteEndpoint

AGENT = "https://agent.example"
SECRET = "s3cret-value"


def card(**schemes: Any) -> AgentCard:
    return AgentCard(
        name="a", description="d", version="1", interfaces=(), security_schemes=schemes
    )


def credentials(auth: Any, url: str = AGENT, **fields: Any) -> Any:
    endpoint = RemoteEndpoint(url=url, auth=auth, **fields)
    return make_credentials(endpoint, allow=("127.0.0.1",))


def oauth(provider: IdentityProvider, **fields: Any) -> Any:
    auth = ClientCredentials(
        client_id="router",
        client_secret=SECRET,
        **{"token_url": f"{provider.url}/token", **fields},
    )
    return credentials(auth)


async def test_client_credentials_are_fetched_once_and_cached() -> None:
    async with identity_provider() as provider:
        client = oauth(provider, scopes=("agent.invoke",), audience=AGENT)
        first = await client.headers(None)
        assert first == await client.headers(None)
        assert provider.forms == [
            {
                "grant_type": "client_credentials",
                "scope": "agent.invoke",
                "audience": AGENT,
                "client_id": "router",
                "client_secret": SECRET,
            }
        ]


async def test_concurrent_calls_share_one_request() -> None:
    async with identity_provider() as provider:
        provider.delay = 0.05
        client = oauth(provider)
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(client.headers(None)) for _ in range(10)]
        assert len({job.result()["Authorization"] for job in jobs}) == 1
        assert len(provider.forms) == 1


async def test_token_is_renewed_before_it_expires_and_after_rejection() -> None:
    async with identity_provider() as provider:
        clock = [0.0]
        client = oauth(provider)
        client._now = lambda: clock[0]
        provider.token_seconds = 100
        first = await client.headers(None)
        clock[0] = 89
        assert await client.headers(None) == first
        clock[0] = 91
        second = await client.headers(None)
        assert second != first
        assert await client.headers(None, refresh=True) != second
        assert len(provider.forms) == 3


async def test_token_endpoint_of_card_must_have_the_origin_of_the_agent() -> None:
    async with identity_provider() as provider:
        auth = ClientCredentials(client_id="router", client_secret=SECRET)
        flows = {"clientCredentials": {"tokenUrl": f"{provider.url}/token", "scopes": {}}}
        scheme = {"type": "oauth2", "flows": flows}
        with pytest.raises(Unauthenticated, match="another origin"):
            await credentials(auth).headers(card(oauth=scheme))
        with pytest.raises(Unauthenticated, match="no token endpoint"):
            await credentials(auth).headers(card())
        assert provider.forms == []
        assert "Authorization" in await credentials(auth, provider.url).headers(card(oauth=scheme))


@pytest.mark.parametrize(
    "document",
    [
        b"no JSON",
        [],
        {},
        {"access_token": 1},
        {"access_token": "a b"},
        {"access_token": "", "token_type": "Bearer"},
        {"access_token": "a", "token_type": "mac"},
        {"access_token": "a", "expires_in": -1},
        {"access_token": "a", "expires_in": "soon"},
    ],
)
async def test_invalid_token_response_is_rejected_without_secret(document: Any) -> None:
    async with identity_provider() as provider:
        provider.documents["/token"] = document
        with pytest.raises(RemoteFailed) as caught:
            await oauth(provider).headers(None)
        assert SECRET not in str(caught.value)


async def test_rejected_client_is_unauthenticated_without_secret() -> None:
    async with identity_provider() as provider:
        provider.is_broken = True
        with pytest.raises(Unauthenticated) as caught:
            await oauth(provider).headers(None)
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(ClientCredentials(client_id="a", client_secret=SECRET))


async def test_unencrypted_token_endpoint_is_refused() -> None:
    auth = ClientCredentials(
        client_id="a", client_secret=SECRET, token_url="http://login.example/token"
    )
    with pytest.raises(RemoteFailed) as caught:
        await credentials(auth).headers(None)
    assert caught.value.remote_code == "insecure_url"


async def test_signed_jwt_is_accepted_once_by_a_verifier(tmp_path: Path) -> None:
    key = generate_key("ES256", kid="router-1")
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key.as_dict(private=True)), encoding="utf-8")
    client = credentials(SignedJwt(key=file, issuer="agent://router"))
    issuer = TrustedIssuer(
        issuer="agent://router", audience=AGENT, keys=public_key_set([key]), single_use=True
    )
    verifier = JwtVerifier([issuer])
    for _ in range(2):
        token = (await client.headers(None))["Authorization"].removeprefix("Bearer ")
        principal = await verifier.verify(token)
        assert principal is not None
        assert principal.caller == "agent://router"
        assert await verifier.verify(token) is None, "replayed"


async def test_api_key_is_sent_in_the_header_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", "k-1")
    client = credentials(ApiKey(value="env:AGENT_KEY"))
    scheme = {"type": "apiKey", "in": "header", "name": "X-Agent-Key"}
    assert await client.headers(card(key=scheme)) == {"X-Agent-Key": "k-1"}
    assert await client.headers(card()) == {"X-API-Key": "k-1"}


def api_key(name: str, location: str = "header") -> dict[str, str]:
    return {"type": "apiKey", "in": location, "name": name}


async def test_api_key_is_sent_in_the_cookie_of_the_card() -> None:
    client = credentials(ApiKey(value="k-1"))
    assert await client.headers(card(key=api_key("session", "cookie"))) == {"Cookie": "session=k-1"}


@pytest.mark.parametrize(
    "scheme",
    [
        api_key("key", "query"),
        api_key("Host"),
        api_key("Transfer-Encoding"),
        api_key("a: b"),
        api_key("a=b; c", "cookie"),
    ],
    ids=str,
)
async def test_place_where_no_api_key_can_be_sent_is_an_error_that_names_it(scheme: Any) -> None:
    with pytest.raises(Unauthenticated) as caught:
        await credentials(ApiKey(value="k-1-secret")).headers(card(key=scheme))
    assert scheme["name"] in str(caught.value)
    assert "k-1-secret" not in str(caught.value)


@pytest.mark.parametrize("wrap", [lambda auth: auth, lambda auth: [auth]], ids=["one", "list"])
async def test_api_key_is_sent_for_the_required_scheme(wrap: Any) -> None:
    client = credentials(wrap(ApiKey(value="k-1")))
    offered = card(old=api_key("X-Old"), new=api_key("X-New"), mtls={"type": "mutualTLS"})
    required = replace(offered, security=({"new": ()},))
    assert await client.headers(required) == {"X-New": "k-1"}


async def test_credentials_of_a_list_are_those_of_the_requirement_that_is_met() -> None:
    client = credentials([ApiKey(value="k-1")])
    offered = card(old=api_key("X-Old"), new=api_key("X-New"), mtls={"type": "mutualTLS"})
    required = replace(offered, security=({"mtls": (), "old": ()}, {"new": ()}))
    assert await client.headers(required) == {"X-New": "k-1"}


async def test_basic_is_encoded_as_utf_8() -> None:
    headers = await credentials(BasicAuth(user="鈴木", password="p:w")).headers(card())
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == "鈴木:p:w".encode()


@pytest.mark.parametrize("auth", ["token", ("a", "b"), object()])
def test_unknown_auth_is_rejected(auth: Any) -> None:
    with pytest.raises(InvalidTree):
        RemoteAgent(name="r", url=AGENT, auth=auth)


def test_token_and_auth_exclude_each_other() -> None:
    with pytest.raises(InvalidInput):
        RemoteEndpoint(url=AGENT, token="t", auth=ApiKey(value="k"))


SCHEMES = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Desk-Key"},
    "basic": {"type": "http", "scheme": "Basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "mtls": {"type": "mutualTLS"},
}
BASIC = f"Basic {base64.b64encode(b'desk:pw').decode()}"


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ([{"key": ()}], {"X-Desk-Key": "k-1"}),
        ([{"basic": ()}], {"Authorization": BASIC}),
        ([{"bearer": ()}, {"basic": ()}, {"key": ()}], {"Authorization": BASIC}),
        ([{"mtls": ()}, {"key": (), "basic": ()}], {"X-Desk-Key": "k-1", "Authorization": BASIC}),
        ([{"key": (), "mtls": ()}, {"basic": ()}], {"Authorization": BASIC}),
        ([], {}),
    ],
)
async def test_card_decides_which_credentials_are_sent(requirements: Any, expected: Any) -> None:
    chosen = credentials([ApiKey(value="k-1"), BasicAuth(user="desk", password="pw")])
    required = replace(card(**SCHEMES), security=tuple(requirements))
    assert await chosen.headers(required) == expected
    assert await chosen.headers(None) == {}


async def test_requirement_without_credentials_is_an_error_that_names_it() -> None:
    chosen = credentials([ApiKey(value="k-1-secret")])
    required = replace(card(**SCHEMES), security=({"mtls": ()}, {"bearer": (), "key": ()}))
    with pytest.raises(Unauthenticated) as caught:
        await chosen.headers(required)
    assert "mutualTLS or http bearer and apiKey" in str(caught.value)
    assert "ApiKey" in str(caught.value)
    assert "k-1-secret" not in str(caught.value)


@pytest.mark.parametrize("auth", [[], ["token"], "token"])
def test_invalid_lists_of_credentials_are_rejected(auth: Any) -> None:
    with pytest.raises(InvalidInput):
        RemoteEndpoint(url=AGENT, auth=auth)
