"""JWT verification against an identity provider on loopback with real keys."""

import asyncio
import hashlib
import hmac
import logging
import time
from typing import Any

import pytest
from forged_tokens import FORGED, NOW, publish_all
from identity_provider import AUDIENCE, IdentityProvider, b64, identity_provider

from acc.adapters.auth.bearer_tokens import StaticTokens, TokenEntry, token_hash
from acc.adapters.auth.jwt_verifier import JwtVerifier, TrustedIssuer, VerifierChain
from acc.adapters.auth.keys import generate_key, public_key_set
from acc.domain.errors import InvalidInput, Unavailable
from acc.domain.value_objects.principal import Principal

LOOPBACK = ("127.0.0.1",)


def verifier(provider: IdentityProvider, **options: Any) -> JwtVerifier:
    fields = {"issuer": provider.url, "audience": AUDIENCE, **options.pop("fields", {})}
    return JwtVerifier([TrustedIssuer(**fields)], allow=LOOPBACK, **options)


async def test_valid_token_returns_caller_and_scopes() -> None:
    async with identity_provider() as provider:
        principal = await verifier(provider).verify(provider.token())
    assert principal == Principal(
        caller="agent://checkout_agent", permissions=frozenset({"agent.invoke", "agent.read"})
    )
    assert provider.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("alg", ["ES256", "EdDSA", "RS256", "PS256"])
async def test_asymmetric_algorithms_are_accepted(alg: str) -> None:
    async with identity_provider() as provider:
        provider.key = generate_key(alg, kid="k")
        token = provider.token(header={"alg": alg})
        assert await verifier(provider).verify(token) is not None
        limited = verifier(provider, fields={"algorithms": ("ES384",)})
        assert await limited.verify(token) is None


@pytest.mark.parametrize("name", FORGED)
async def test_forged_token_is_rejected(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "acc.auth")
    async with identity_provider() as provider:
        publish_all(provider)
        checked = verifier(provider)
        token = FORGED[name](provider)
        assert await checked.verify(provider.token()) is not None
        assert await checked.verify(token) is None
        assert await checked.verify(provider.token()) is not None, "a valid token still works"
    assert [record.levelname for record in caplog.records if record.name == "acc.auth"] == ["INFO"]
    signature = token.rpartition(".")[2]
    assert len(signature) < 20 or signature not in caplog.text


def test_there_are_at_least_sixty_forged_tokens() -> None:
    assert len(FORGED) >= 60


async def test_token_signed_with_published_shared_secret_is_rejected() -> None:
    async with identity_provider() as provider:
        publish_all(provider)
        secret = b"a shared secret that should not be here"
        signed = f"{b64({'alg': 'HS256', 'kid': 'shared'})}.{b64(provider.claims())}"
        mac = b64(hmac.new(secret, signed.encode(), hashlib.sha256).digest())
        assert await verifier(provider).verify(f"{signed}.{mac}") is None


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": None}, {"default"}),
        ({"scope": ""}, set()),
        ({"scope": None, "scp": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": ["a", "b"]}, {"a", "b"}),
    ],
)
async def test_scopes_are_read_from_scope_or_scp(claims: Any, scopes: set[str]) -> None:
    async with identity_provider() as provider:
        checked = verifier(provider, fields={"default_scopes": ("default",)})
        principal = await checked.verify(provider.token(**claims))
    assert principal is not None
    assert principal.permissions == scopes


async def test_new_key_is_fetched_and_removed_key_is_rejected() -> None:
    clock = [time.time()]
    async with identity_provider() as provider:
        checked = verifier(provider, now=lambda: clock[0], min_refresh=10, max_key_age=100)
        old = provider.token(exp=NOW + 3600)
        assert await checked.verify(old) is not None
        provider.key = generate_key("ES256", kid="two")
        clock[0] += 11
        assert await checked.verify(provider.token()) is not None, "rotation without a restart"
        assert provider.requests.count("/keys") == 2
        assert await checked.verify(old) is None, "the key is no longer published"


async def test_unknown_kid_does_not_cause_a_fetch_per_request() -> None:
    async with identity_provider() as provider:
        checked = verifier(provider)
        await checked.verify(provider.token())
        for number in range(50):
            assert await checked.verify(provider.token(header={"kid": f"k{number}"})) is None
        assert provider.requests.count("/keys") == 1


async def test_concurrent_requests_share_one_fetch() -> None:
    async with identity_provider() as provider:
        provider.delay = 0.05
        checked = verifier(provider)
        token = provider.token()
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(checked.verify(token)) for _ in range(20)]
        assert all(job.result() is not None for job in jobs)
        assert provider.requests.count("/keys") == 1


async def test_keys_stay_valid_while_issuer_is_unreachable_for_a_limited_time() -> None:
    clock = [time.time()]
    async with identity_provider() as provider:
        checked = verifier(provider, now=lambda: clock[0], max_key_age=100, max_stale=200)
        assert await checked.verify(provider.token(exp=NOW + 9999)) is not None
        provider.is_broken = True
        clock[0] += 250
        assert await checked.verify(provider.token(exp=NOW + 9999)) is not None
        clock[0] += 100
        with pytest.raises(Unavailable) as caught:
            await checked.verify(provider.token(exp=NOW + 9999))
        assert caught.value.retry_after > 0


async def test_unreachable_issuer_at_start_is_unavailable() -> None:
    async with identity_provider() as provider:
        provider.is_broken = True
        with pytest.raises(Unavailable):
            await verifier(provider).verify(provider.token())


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://attacker.example", "jwks_uri": "https://attacker.example/keys"},
        {"jwks_uri": "https://attacker.example/keys"},
        [],
        b"not JSON",
    ],
)
async def test_invalid_discovery_document_is_refused(document: Any) -> None:
    async with identity_provider() as provider:
        provider.documents["/.well-known/openid-configuration"] = document
        with pytest.raises(Unavailable):
            await verifier(provider).verify(provider.token())


@pytest.mark.parametrize("url", ["http://169.254.169.254/keys", "https://10.0.0.1/keys", "x"])
async def test_key_url_of_discovery_document_is_guarded(url: str) -> None:
    async with identity_provider() as provider:
        document = {"issuer": provider.url, "jwks_uri": url}
        provider.documents["/.well-known/openid-configuration"] = document
        with pytest.raises(Unavailable):
            await verifier(provider).verify(provider.token())
        assert "/keys" not in provider.requests


async def test_loopback_issuer_is_refused_without_allow() -> None:
    async with identity_provider() as provider:
        checked = JwtVerifier([TrustedIssuer(issuer=provider.url, audience=AUDIENCE)])
        with pytest.raises(Unavailable):
            await checked.verify(provider.token())
        assert provider.requests == []


async def test_callers_of_several_issuers_differ() -> None:
    async with identity_provider() as one, identity_provider() as two:
        checked = JwtVerifier(
            [
                TrustedIssuer(issuer=one.url, audience=AUDIENCE, prefix="staff"),
                TrustedIssuer(issuer=two.url, audience=AUDIENCE, prefix="partner"),
            ],
            allow=LOOPBACK,
        )
        first, second = await checked.verify(one.token()), await checked.verify(two.token())
        forged = two.token(iss=one.url)
        assert first is not None
        assert second is not None
        assert first.caller == "staff/agent://checkout_agent"
        assert second.caller == "partner/agent://checkout_agent"
        assert await checked.verify(forged) is None


async def test_single_use_token_is_accepted_once() -> None:
    key = generate_key("ES256", kid="agent")
    issuer = TrustedIssuer(
        issuer="agent://router", audience=AUDIENCE, keys=public_key_set([key]), single_use=True
    )
    provider = IdentityProvider(url="agent://router", key=key)
    checked = JwtVerifier([issuer])
    token = provider.token(jti="1")
    assert await checked.verify(token) is not None
    assert await checked.verify(token) is None
    assert await checked.verify(provider.token(jti="2")) is not None
    assert await checked.verify(provider.token()) is None, "without jti"


async def test_tenant_claim_is_required_if_configured() -> None:
    async with identity_provider() as provider:
        checked = verifier(provider, fields={"tenant_claim": "org"})
        principal = await checked.verify(provider.token(org="acme"))
        assert principal is not None
        assert principal.tenant == "acme"
        assert await checked.verify(provider.token()) is None


async def test_chain_accepts_static_tokens_and_jwts() -> None:
    async with identity_provider() as provider:
        static = StaticTokens([TokenEntry(sha256=token_hash("acc_one"), caller="billing")])
        chain = VerifierChain([static, verifier(provider)])
        assert (await chain.verify("acc_one") or Principal(caller="")).caller == "billing"
        assert await chain.verify(provider.token()) is not None
        assert await chain.verify("acc_two") is None


@pytest.mark.parametrize(
    "fields",
    [
        {"audience": ""},
        {"audience": ()},
        {"issuer": "http://login.example.com"},
        {"issuer": "not a url"},
        {"issuer": ""},
        {"algorithms": ("HS256",)},
        {"algorithms": ("none",)},
        {"algorithms": ()},
        {"prefix": "a/b"},
        {"leeway": -1},
        {"jwks_url": "http://keys.example.com"},
    ],
)
def test_unsafe_issuer_is_rejected(fields: Any) -> None:
    with pytest.raises(InvalidInput):
        TrustedIssuer(**{"issuer": "https://login.example.com", "audience": AUDIENCE, **fields})


def test_several_issuers_need_different_prefixes() -> None:
    one = TrustedIssuer(issuer="https://a.example", audience=AUDIENCE)
    two = TrustedIssuer(issuer="https://b.example", audience=AUDIENCE, prefix="b")
    for issuers in ([], [one, two], [two, two]):
        with pytest.raises(InvalidInput):
            JwtVerifier(issuers)
