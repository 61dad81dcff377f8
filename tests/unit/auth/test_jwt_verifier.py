"""JWT verification against an identity provider on loopback with real keys."""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from identity_provider import AUDIENCE, IdentityProvider, b64, identity_provider, sign

from acc.adapters.auth.jwt_verifier import JwtVerifier, TrustedIssuer, VerifierChain
from acc.adapters.auth.keys import generate_key, public_key_set
from acc.adapters.auth.tokens import StaticTokens, TokenEntry, token_hash
from acc.domain.errors import InvalidInput, Unavailable
from acc.domain.value_objects.principal import Principal

LOOPBACK = ("127.0.0.1",)
OTHER_KEY = generate_key("ES256", kid="one")
RSA_KEY = generate_key("RS256", kid="rsa")
NOW = int(time.time())


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


def raw(header: Any, claims: Any, signature: bytes = b"") -> str:
    return f"{b64(header)}.{b64(claims)}.{b64(signature)}"


def hs_confusion(provider: IdentityProvider, secret: bytes) -> str:
    """Return a token whose HMAC secret is the public key."""
    signed = f"{b64({'alg': 'HS256', 'kid': 'rsa'})}.{b64(provider.claims())}"
    return f"{signed}.{b64(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def tampered(token: str, **changes: Any) -> str:
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    return f"{head}.{b64({**claims, **changes})}.{signature}"


def flipped(token: str) -> str:
    head, body, signature = token.split(".")
    data = bytearray(base64.urlsafe_b64decode(signature + "=="))
    data[0] ^= 1
    return f"{head}.{body}.{b64(bytes(data))}"


Forge = Callable[[IdentityProvider], str]
CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {"exp": NOW - 120},
    "expired long ago": {"exp": 1},
    "no exp": {"exp": None},
    "exp as text": {"exp": str(NOW + 300)},
    "exp true": {"exp": True},
    "exp list": {"exp": [NOW + 300]},
    "exp negative": {"exp": -1},
    "exp huge": {"exp": 1e300},
    "exp object": {"exp": {"at": NOW + 300}},
    "future iat": {"iat": NOW + 3600},
    "iat as text": {"iat": str(NOW)},
    "iat true": {"iat": True},
    "future nbf": {"nbf": NOW + 3600},
    "nbf as text": {"nbf": "now"},
    "wrong audience": {"aud": "https://other.example"},
    "no audience": {"aud": None},
    "empty audience": {"aud": ""},
    "empty list of audiences": {"aud": []},
    "list of wrong audiences": {"aud": ["https://other.example", "https://agent.example/"]},
    "audience as prefix": {"aud": "https://agent.example.attacker.example"},
    "audience as object": {"aud": {"https://agent.example": 1}},
    "nested audience": {"aud": [["https://agent.example"]]},
    "audience in upper case": {"aud": "HTTPS://AGENT.EXAMPLE"},
    "audience as number": {"aud": 1},
    "wrong issuer": {"iss": "https://attacker.example"},
    "no issuer": {"iss": None},
    "issuer as list": {"iss": ["https://attacker.example"]},
    "issuer as number": {"iss": 7},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "blank subject": {"sub": " \t"},
    "subject as number": {"sub": 42},
    "subject as list": {"sub": ["agent://checkout_agent"]},
    "subject too long": {"sub": "x" * 300},
    "subject with line break": {"sub": "a\nlog: admin"},
    "subject with NUL": {"sub": "a\0b"},
    "scope as number": {"scope": 1},
    "scope as object": {"scope": {"agent.invoke": True}},
    "scope list of numbers": {"scope": [1]},
    "too many scopes": {"scope": " ".join(map(str, range(300)))},
}
HEADERS: dict[str, dict[str, Any]] = {
    "unknown kid": {"kid": "two"},
    "no kid": {"kid": None},
    "empty kid": {"kid": ""},
    "kid as path": {"kid": "../../../../dev/null"},
    "kid as SQL": {"kid": "one' OR '1'='1"},
    "jku": {"jku": "https://attacker.example/keys"},
    "x5u": {"x5u": "https://attacker.example/cert"},
    "embedded jwk": {"jwk": public_key_set([OTHER_KEY])["keys"][0]},
    "embedded x5c": {"x5c": ["MIIB"]},
    "crit": {"crit": ["kid"]},
    "zip": {"zip": "DEF"},
    "typ of a logout token": {"typ": "logout+jwt"},
    "typ of a proof": {"typ": "dpop+jwt"},
}
FORGED: dict[str, Forge] = {
    "empty": lambda p: "",
    "one word": lambda p: "token",
    "only dots": lambda p: "..",
    "two parts": lambda p: p.token().rpartition(".")[0],
    "four parts": lambda p: p.token() + ".x",
    "five parts as in JWE": lambda p: p.token() + ".x.y",
    "oversized": lambda p: p.token(padding="x" * 20_000),
    "oversized signature": lambda p: p.token() + "A" * 20_000,
    "alg none": lambda p: raw({"alg": "none"}, p.claims()),
    "alg none with kid": lambda p: raw({"alg": "none", "kid": "one"}, p.claims()),
    "alg None": lambda p: raw({"alg": "None", "kid": "one"}, p.claims()),
    "alg nOnE": lambda p: raw({"alg": "nOnE", "kid": "one"}, p.claims()),
    "alg empty": lambda p: raw({"alg": "", "kid": "one"}, p.claims()),
    "alg missing": lambda p: raw({"kid": "one"}, p.claims()),
    "alg null": lambda p: raw({"alg": None, "kid": "one"}, p.claims()),
    "alg as list": lambda p: raw({"alg": ["ES256"], "kid": "one"}, p.claims()),
    "alg none, signature of a valid token": lambda p: (
        f"{b64({'alg': 'none', 'kid': 'one'})}.{p.token().partition('.')[2]}"
    ),
    "alg of another key type": lambda p: (
        f"{b64({'alg': 'RS256', 'kid': 'one'})}.{p.token().partition('.')[2]}"
    ),
    "HS256 with the public PEM": lambda p: hs_confusion(p, RSA_KEY.as_pem(private=False)),
    "HS256 with the public JWK": lambda p: hs_confusion(
        p, json.dumps(public_key_set([RSA_KEY])["keys"][0]).encode()
    ),
    "HS256 with an empty secret": lambda p: hs_confusion(p, b""),
    "signature of another key": lambda p: p.token(key=OTHER_KEY),
    "flipped signature": lambda p: flipped(p.token()),
    "no signature": lambda p: p.token().rpartition(".")[0] + ".",
    "all-zero signature": lambda p: raw({"alg": "ES256", "kid": "one"}, p.claims(), bytes(64)),
    "tampered subject": lambda p: tampered(p.token(), sub="admin"),
    "tampered scope": lambda p: tampered(p.token(), scope="admin"),
    "tampered expiry": lambda p: tampered(p.token(exp=NOW - 999), exp=NOW + 999),
    "content is a list": lambda p: sign({"alg": "ES256", "kid": "one"}, b"[]", p.key),
    "content is text": lambda p: sign({"alg": "ES256", "kid": "one"}, b"hello", p.key),
    "content is not UTF-8": lambda p: sign({"alg": "ES256", "kid": "one"}, b"\xff\xfe", p.key),
    "content is nested deeply": lambda p: sign(
        {"alg": "ES256", "kid": "one"}, b"[" * 3000 + b"]" * 3000, p.key
    ),
    "header is a list": lambda p: f"{b64(b'[]')}.{p.token().partition('.')[2]}",
    "header is not base64": lambda p: f"!!.{p.token().partition('.')[2]}",
    "with spaces": lambda p: p.token().replace(".", " . "),
    "with a line break": lambda p: p.token().replace(".", ".\n", 1),
    "in full-width letters": lambda p: p.token().replace("e", "\uff45"),
    "kid as list": lambda p: raw({"alg": "ES256", "kid": ["one"]}, p.claims(), bytes(64)),
    "kid as object": lambda p: raw({"alg": "ES256", "kid": {"a": 1}}, p.claims(), bytes(64)),
    "b64 false": lambda p: raw({"alg": "ES256", "kid": "one", "b64": False}, p.claims(), bytes(64)),
    "typ as number": lambda p: raw({"alg": "ES256", "kid": "one", "typ": 1}, p.claims(), bytes(64)),
    "kid of an encryption key": lambda p: p.token(header={"kid": "enc"}),
    "kid of a key for another algorithm": lambda p: p.token(
        key=RSA_KEY, header={"alg": "RS256", "kid": "rsa-pss"}
    ),
}


def with_claims(changes: dict[str, Any]) -> Forge:
    return lambda provider: provider.token(**changes)


def with_header(header: dict[str, Any]) -> Forge:
    return lambda provider: provider.token(header=header)


FORGED |= {name: with_claims(changes) for name, changes in CLAIMS.items()}
FORGED |= {name: with_header(header) for name, header in HEADERS.items()}


def publish_all(provider: IdentityProvider) -> None:
    """Publish the provider's key, an RSA key, and keys with a restricted use."""
    documents = public_key_set([provider.key, RSA_KEY])["keys"]
    documents.append({**documents[0], "kid": "enc", "use": "enc"})
    documents.append({**documents[1], "kid": "rsa-pss", "alg": "PS256"})
    secret = b64(b"a shared secret that should not be here")
    documents.append({"kty": "oct", "kid": "shared", "k": secret})
    provider.documents["/keys"] = {"keys": documents}


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
