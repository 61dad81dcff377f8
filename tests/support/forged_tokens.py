"""Tokens that no server may accept, as functions of an identity provider."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

from identity_provider import IdentityProvider, b64, sign

from acc.adapters.auth.keys import generate_key, public_key_set

OTHER_KEY = generate_key("ES256", kid="one")
RSA_KEY = generate_key("RS256", kid="rsa")
NOW = int(time.time())


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


def repeated(provider: IdentityProvider, name: str, value: Any) -> str:
    """Return a signed token that contains a claim twice; the first one is the valid one."""
    content = json.dumps(provider.claims())[:-1] + f', "{name}": {json.dumps(value)}}}'
    return sign({"alg": "ES256", "kid": "one", "typ": "at+jwt"}, content.encode(), provider.key)


def signed_text(provider: IdentityProvider, header: str) -> str:
    """Return a token whose header is exactly this text, with the signature of the provider."""
    claims = b64(provider.claims())
    signed = f"{b64(header.encode())}.{claims}"
    token = sign({"alg": "ES256", "kid": "one"}, provider.claims(), provider.key)
    return f"{signed}.{token.rpartition('.')[2]}"


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
    "alg NONE": lambda p: raw({"alg": "NONE", "kid": "one"}, p.claims()),
    "alg none with a space": lambda p: raw({"alg": "none ", "kid": "one"}, p.claims()),
    "alg none in full-width letters": lambda p: raw({"alg": "ｎｏｎｅ"}, p.claims()),
    "alg in lower case": lambda p: raw({"alg": "es256", "kid": "one"}, p.claims(), bytes(64)),
    "alg false": lambda p: raw({"alg": False, "kid": "one"}, p.claims()),
    "duplicate subject": lambda p: repeated(p, "sub", "admin"),
    "duplicate expiry": lambda p: repeated(p, "exp", NOW + 9999),
    "duplicate scope": lambda p: repeated(p, "scope", "admin"),
    "duplicate alg": lambda p: signed_text(p, '{"alg":"none","kid":"one","alg":"ES256"}'),
    "standard base64 alphabet": lambda p: p.token(sub="agent://???>>>").replace("_", "/") + "+/",
    "padded": lambda p: p.token() + "==",
    "padded header": lambda p: p.token().replace(".", "=.", 1),
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
