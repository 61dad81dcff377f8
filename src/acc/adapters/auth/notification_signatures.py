"""Signing push notifications, and the receiver's check of them.

With a shared secret a notification carries three headers:

    X-Agent-Signature             hex HMAC-SHA256 of the body
    X-Agent-Timestamp             seconds since the epoch, as text
    X-Agent-Signature-Timestamped hex HMAC-SHA256 of "v1:" + timestamp + ":" + the body

The first alone can be checked in three lines of any language, and stays good for ever; the
others limit how long a notification that somebody overheard can be sent again.

With a key pair it carries a JWT in X-A2A-Notification-Jwt, and if wanted as a bearer token too:
`iss`, `aud` (the URL that is notified), `iat`, `exp`, `jti` and `request_body_sha256`.
"""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from joserfc import jws, jwt
from joserfc.errors import JoseError

from acc.adapters.auth.keys import (
    Keys,
    Signatures,
    SigningKey,
    algorithms_of,
    chosen_algorithm,
    key_named,
)
from acc.domain.errors import InvalidInput, Unauthenticated

SIGNATURE_HEADER = "X-Agent-Signature"
TIMESTAMP_HEADER = "X-Agent-Timestamp"
TIMESTAMPED_HEADER = "X-Agent-Signature-Timestamped"
JWT_HEADER = "X-A2A-Notification-Jwt"
BEARER_HEADER = "Authorization"
MAX_AGE = 300.0
_CLOCKS_DIFFER = 60.0
_MIN_SECRET = 16
_MAX_REMEMBERED = 100_000
_TIMESTAMP = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


class HmacSigner:
    """Signs with a secret that the receiver knows too."""

    def __init__(self, secret: str | bytes, *, now: Callable[[], float] = time.time) -> None:
        self._secret = _secret_bytes(secret)
        self._now = now

    def headers(self, body: bytes, *, audience: str) -> Mapping[str, str]:
        """Return the headers to send with a body; ask again for each attempt to send it."""
        timestamp = f"{self._now():.6f}"
        return {
            SIGNATURE_HEADER: _mac(self._secret, body),
            TIMESTAMP_HEADER: timestamp,
            TIMESTAMPED_HEADER: _mac(self._secret, _timestamped(timestamp, body)),
        }


class JwtSigner:
    """Signs with a private key, whose public half the receiver gets from us.

    The token has a header of its own, since the receiver may ask for credentials of its own in
    `Authorization`; with `bearer` it is there too, for receivers that look for it there.
    """

    def __init__(
        self,
        key: SigningKey,
        kid: str = "",
        issuer: str = "",
        *,
        bearer: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._key = key
        self._alg = chosen_algorithm(key)
        self._kid = kid or key.kid or ""
        if not self._kid:
            raise InvalidInput("the key has no name; give one with kid=…, by which others find it")
        if not issuer:
            raise InvalidInput("issuer: must not be empty; the agent's own URL is a good one")
        self._issuer = issuer
        self._bearer = bearer
        self._now = now

    def headers(self, body: bytes, *, audience: str) -> Mapping[str, str]:
        """Return the headers to send with a body to an address; ask again for each attempt."""
        issued = int(self._now())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": issued,
            "exp": issued + int(MAX_AGE),
            "jti": secrets.token_urlsafe(16),
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        token = jwt.encode(
            {"alg": self._alg, "kid": self._kid},
            claims,
            self._key,
            registry=Signatures([self._alg]),
        )
        return {JWT_HEADER: token} | ({BEARER_HEADER: f"Bearer {token}"} if self._bearer else {})


class _Proof(NamedTuple):
    """What shows that a notification is genuine: one of its kind, until a moment."""

    id: str
    until: float


class NotificationVerifier:
    """Checks the notifications that one receiver gets, each of which it takes once.

    Give the `secret` that is shared with the sender, or the sender's public `keys` together with
    the `audience`: the URL that was registered. `max_age` of None takes notifications of any age
    that carry X-Agent-Signature alone, and with it those that somebody sends again.
    """

    def __init__(
        self,
        *,
        secret: str | bytes | None = None,
        keys: Keys | None = None,
        audience: str = "",
        max_age: float | None = MAX_AGE,
        now: Callable[[], float] = time.time,
    ) -> None:
        if secret is None and keys is None:
            raise InvalidInput("give secret=… or keys=…: without one, nothing can be verified")
        if keys is not None and not audience:
            raise InvalidInput("with keys=…, give audience=… too: the URL that was registered")
        self._secret = None if secret is None else _secret_bytes(secret)
        self._keys = keys
        self._audience = audience
        self._max_age = max_age
        self._now = now
        self._seen: OrderedDict[str, float] = OrderedDict()

    def verify(self, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return a notification, or raise Unauthenticated if it is not genuine, old or repeated."""
        if not isinstance(body, bytes | bytearray):
            raise InvalidInput(
                f"body must be the bytes that came in, not {type(body).__name__}: they are signed"
            )
        proof = self._proof(body, _lowered(headers))
        if self._max_age is not None:
            self._remember(proof)
        return _read(body)

    def _proof(self, body: bytes, headers: Mapping[str, str]) -> _Proof:
        token = _token(headers)
        if self._keys is not None and token:
            return self._jwt_proof(body, token, self._keys)
        if self._secret is not None:
            return self._hmac_proof(body, headers, self._secret)
        raise Unauthenticated(f"the notification is not signed: it has no {JWT_HEADER}")

    def _hmac_proof(self, body: bytes, headers: Mapping[str, str], secret: bytes) -> _Proof:
        signature = _header(headers, SIGNATURE_HEADER)
        _compare(signature, _mac(secret, body), SIGNATURE_HEADER)
        if self._max_age is None:
            return _Proof(signature, 0.0)
        timestamp = _header(headers, TIMESTAMP_HEADER)
        if not _TIMESTAMP.fullmatch(timestamp):
            raise Unauthenticated(f"{TIMESTAMP_HEADER} is not a time")
        timestamped = _header(headers, TIMESTAMPED_HEADER)
        _compare(timestamped, _mac(secret, _timestamped(timestamp, body)), TIMESTAMPED_HEADER)
        self._check_age(float(timestamp))
        return _Proof(timestamped, float(timestamp) + self._max_age)

    def _jwt_proof(self, body: bytes, token: str, keys: Keys) -> _Proof:
        claims = _claims(token, keys)
        _compare(_text(claims, "aud"), self._audience, "the JWT's audience")
        digest = hashlib.sha256(body).hexdigest()
        _compare(_text(claims, "request_body_sha256"), digest, "the JWT's digest of the body")
        issued, until = _moment(claims, "iat"), _moment(claims, "exp")
        self._check_age(issued)
        if until + _CLOCKS_DIFFER < self._now():
            raise Unauthenticated("the JWT has expired")
        return _Proof(_text(claims, "jti"), until + _CLOCKS_DIFFER)

    def _check_age(self, made: float) -> None:
        age = self._now() - made
        if self._max_age is not None and age > self._max_age:
            raise Unauthenticated(
                f"the notification is {age:.0f} s old, and {self._max_age:g} s are allowed; "
                "it may have been sent again by somebody else"
            )
        if age < -_CLOCKS_DIFFER:
            raise Unauthenticated(
                f"the notification is from {-age:.0f} s in the future: compare the clocks"
            )

    def _remember(self, proof: _Proof) -> None:
        now = self._now()
        while self._seen and (
            next(iter(self._seen.values())) < now or len(self._seen) >= _MAX_REMEMBERED
        ):
            self._seen.popitem(last=False)
        if proof.id in self._seen:
            raise Unauthenticated("the notification came before: somebody has sent it again")
        self._seen[proof.id] = proof.until


def verify_notification(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secret: str | bytes | None = None,
    keys: Keys | None = None,
    audience: str = "",
    max_age: float | None = MAX_AGE,
) -> dict[str, Any]:
    """Return a notification, or raise Unauthenticated if it is not genuine or too old.

    It remembers nothing: within `max_age`, only a NotificationVerifier notices a repeated one.
    """
    verifier = NotificationVerifier(secret=secret, keys=keys, audience=audience, max_age=max_age)
    return verifier.verify(body, headers)


def _secret_bytes(secret: str | bytes) -> bytes:
    held = secret.encode() if isinstance(secret, str) else bytes(secret)
    if len(held) < _MIN_SECRET:
        raise InvalidInput(
            f"the secret is shorter than {_MIN_SECRET} bytes, and could be guessed; "
            "secrets.token_urlsafe(32) makes a good one"
        )
    return held


def _mac(secret: bytes, content: bytes) -> str:
    return hmac.new(secret, content, hashlib.sha256).hexdigest()


def _timestamped(timestamp: str, body: bytes) -> bytes:
    # No JSON begins so: the signature of a body can never pass for that of a timestamped one.
    return b"v1:" + timestamp.encode() + b":" + body


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    items = getattr(headers, "items", None)
    if not callable(items):
        raise InvalidInput(
            f"headers must map names to values, not be a {type(headers).__name__}; dict(…) makes a "
            "mapping of pairs"
        )
    found: dict[str, str] = {}
    for name, value in items():
        if isinstance(name, bytes) or isinstance(value, bytes):
            raise InvalidInput("the names and values of headers must be texts, not bytes")
        if not isinstance(name, str) or not isinstance(value, str):
            continue  # nothing that is signed here, and a signature would be missing
        if found.setdefault(name.lower(), value) != value:
            raise Unauthenticated(f"the notification has two headers {name!r} that differ")
    return found


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name.lower(), "").strip()
    if not value:
        raise Unauthenticated(f"the notification is not signed: it has no {name}")
    return value


def _token(headers: Mapping[str, str]) -> str:
    own = headers.get(JWT_HEADER.lower(), "").strip()
    scheme, _, bearer = headers.get(BEARER_HEADER.lower(), "").strip().partition(" ")
    # A bearer token without dots is the receiver's own credential.
    return own or (bearer.strip() if scheme.lower() == "bearer" and bearer.count(".") == 2 else "")


def _compare(given: str, expected: str, what: str) -> None:
    if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise Unauthenticated(f"{what} does not fit the notification")


def _claims(token: str, keys: Keys) -> dict[str, Any]:
    try:
        kid = jws.extract_compact(token.encode()).headers().get("kid")
        key = key_named(keys, kid)
        return dict(jwt.decode(token, key, registry=Signatures(algorithms_of(key))).claims)
    except (JoseError, ValueError, RecursionError) as fault:
        raise Unauthenticated(f"the notification's JWT is not good: {fault}") from None


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise Unauthenticated(f"the notification's JWT lacks {name!r}")
    return value


def _moment(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(f"the notification's JWT lacks {name!r}")
    return float(value)


def _read(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InvalidInput("the notification is genuine, and its body is not a JSON object")
    return content
