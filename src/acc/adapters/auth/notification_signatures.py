"""Signatures of push notifications: HMAC with a shared secret, or JWT with a key pair.

With a shared secret, a notification has three headers:

    X-Agent-Signature             hex HMAC-SHA256 of the body
    X-Agent-Timestamp             seconds since the epoch, as text
    X-Agent-Signature-Timestamped hex HMAC-SHA256 of "v1:" + timestamp + ":" + the body

The first is easy to verify in any language, but never expires. The others limit how long an
intercepted notification can be replayed.

With a key pair, it has a JWT in X-A2A-Notification-Jwt, and optionally as a bearer token too. Its
claims are `iss`, `aud` (the URL of the receiver), `iat`, `exp`, `jti` and `request_body_sha256`.
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
    SignatureRegistry,
    SigningKey,
    choose_algorithm,
    find_key,
    supported_algorithms,
)
from acc.domain.errors import InvalidInput, Unauthenticated

SIGNATURE_HEADER = "X-Agent-Signature"
TIMESTAMP_HEADER = "X-Agent-Timestamp"
TIMESTAMPED_HEADER = "X-Agent-Signature-Timestamped"
JWT_HEADER = "X-A2A-Notification-Jwt"
BEARER_HEADER = "Authorization"
MAX_AGE_SECONDS = 300.0
_MAX_CLOCK_SKEW_SECONDS = 60.0
_MIN_SECRET_BYTES = 16
_MAX_SEEN_IDS = 100_000
_TIMESTAMP = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


class HmacSigner:
    """Signs with a secret that is shared with the receiver; implements NotificationSignerPort."""

    def __init__(self, secret: str | bytes, *, now: Callable[[], float] = time.time) -> None:
        self._secret = _secret_bytes(secret)
        self._now = now

    def headers(self, body: bytes, *, audience: str) -> Mapping[str, str]:
        """Return the signature headers of a body; call it again for each delivery attempt."""
        timestamp = f"{self._now():.6f}"
        return {
            SIGNATURE_HEADER: _mac(self._secret, body),
            TIMESTAMP_HEADER: timestamp,
            TIMESTAMPED_HEADER: _mac(self._secret, _timestamped(timestamp, body)),
        }


class JwtSigner:
    """Signs with a private key whose public key is published; implements NotificationSignerPort.

    The JWT is sent in its own header, since the receiver can require other credentials in
    `Authorization`. With `bearer` it is sent in `Authorization` as well.
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
        self._alg = choose_algorithm(key)
        self._kid = kid or key.kid or ""
        if not self._kid:
            raise InvalidInput("the key has no kid; pass kid=…, by which receivers find the key")
        if not issuer:
            raise InvalidInput("issuer must not be empty; use the URL of the agent")
        self._issuer = issuer
        self._bearer = bearer
        self._now = now

    def headers(self, body: bytes, *, audience: str) -> Mapping[str, str]:
        """Return the signature headers of a body; call it again for each delivery attempt."""
        issued = int(self._now())
        claims = {
            "iss": self._issuer,
            "aud": audience,
            "iat": issued,
            "exp": issued + int(MAX_AGE_SECONDS),
            "jti": secrets.token_urlsafe(16),
            "request_body_sha256": hashlib.sha256(body).hexdigest(),
        }
        token = jwt.encode(
            {"alg": self._alg, "kid": self._kid},
            claims,
            self._key,
            registry=SignatureRegistry([self._alg]),
        )
        return {JWT_HEADER: token} | ({BEARER_HEADER: f"Bearer {token}"} if self._bearer else {})


class _Proof(NamedTuple):
    """Unique id of a verified signature, and the time at which it expires."""

    id: str
    expires: float


class NotificationVerifier:
    """Verifies the notifications of one receiver and rejects replays.

    Pass the `secret` that is shared with the sender, or the sender's public `keys` together with
    the `audience`: the registered URL. With a `max_age` of None, notifications of any age that have
    only X-Agent-Signature are accepted, including replays.
    """

    def __init__(
        self,
        *,
        secret: str | bytes | None = None,
        keys: Keys | None = None,
        audience: str = "",
        max_age: float | None = MAX_AGE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        if secret is None and keys is None:
            raise InvalidInput("secret or keys is required to verify notifications")
        if keys is not None and not audience:
            raise InvalidInput("keys requires audience: the registered URL of the receiver")
        self._secret = None if secret is None else _secret_bytes(secret)
        self._keys = keys
        self._audience = audience
        self._max_age = max_age
        self._now = now
        self._seen: OrderedDict[str, float] = OrderedDict()

    def verify(self, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the content, or raise Unauthenticated if it is forged, expired or replayed."""
        if not isinstance(body, bytes | bytearray):
            raise InvalidInput(f"body must be the received bytes, got {type(body).__name__}")
        proof = self._proof(body, _lower_names(headers))
        if self._max_age is not None:
            self._reject_replay(proof)
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
            raise Unauthenticated(f"{TIMESTAMP_HEADER} is not a number of seconds")
        timestamped = _header(headers, TIMESTAMPED_HEADER)
        _compare(timestamped, _mac(secret, _timestamped(timestamp, body)), TIMESTAMPED_HEADER)
        self._check_age(float(timestamp))
        return _Proof(timestamped, float(timestamp) + self._max_age)

    def _jwt_proof(self, body: bytes, token: str, keys: Keys) -> _Proof:
        claims = _claims(token, keys)
        _compare(_text(claims, "aud"), self._audience, "the JWT's audience")
        digest = hashlib.sha256(body).hexdigest()
        _compare(_text(claims, "request_body_sha256"), digest, "the JWT's digest of the body")
        issued, expires = _timestamp(claims, "iat"), _timestamp(claims, "exp")
        self._check_age(issued)
        if expires + _MAX_CLOCK_SKEW_SECONDS < self._now():
            raise Unauthenticated("the JWT has expired")
        return _Proof(_text(claims, "jti"), expires + _MAX_CLOCK_SKEW_SECONDS)

    def _check_age(self, issued: float) -> None:
        age = self._now() - issued
        if self._max_age is not None and age > self._max_age:
            raise Unauthenticated(
                f"the notification is {age:.0f} s old, and the limit is {self._max_age:g} s; it "
                "may have been replayed"
            )
        if age < -_MAX_CLOCK_SKEW_SECONDS:
            raise Unauthenticated(
                f"the notification is dated {-age:.0f} s in the future; check the clocks"
            )

    def _reject_replay(self, proof: _Proof) -> None:
        now = self._now()
        while self._seen and (
            next(iter(self._seen.values())) < now or len(self._seen) >= _MAX_SEEN_IDS
        ):
            self._seen.popitem(last=False)
        if proof.id in self._seen:
            raise Unauthenticated("the notification was replayed: its signature was used before")
        self._seen[proof.id] = proof.expires


def verify_notification(
    body: bytes,
    headers: Mapping[str, str],
    *,
    secret: str | bytes | None = None,
    keys: Keys | None = None,
    audience: str = "",
    max_age: float | None = MAX_AGE_SECONDS,
) -> dict[str, Any]:
    """Return the content of a notification, or raise Unauthenticated if it is forged or expired.

    This function has no state: within `max_age`, only a NotificationVerifier detects replays.
    """
    verifier = NotificationVerifier(secret=secret, keys=keys, audience=audience, max_age=max_age)
    return verifier.verify(body, headers)


def _secret_bytes(secret: str | bytes) -> bytes:
    key = secret.encode() if isinstance(secret, str) else bytes(secret)
    if len(key) < _MIN_SECRET_BYTES:
        raise InvalidInput(
            f"the secret must have at least {_MIN_SECRET_BYTES} bytes; secrets.token_urlsafe(32) "
            "generates one"
        )
    return key


def _mac(secret: bytes, content: bytes) -> str:
    return hmac.new(secret, content, hashlib.sha256).hexdigest()


def _timestamped(timestamp: str, body: bytes) -> bytes:
    # No JSON starts like this, so the signature of a body is never valid for a timestamped one.
    return b"v1:" + timestamp.encode() + b":" + body


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    items = getattr(headers, "items", None)
    if not callable(items):
        raise InvalidInput(
            f"headers must be a mapping, got {type(headers).__name__}; dict(…) converts pairs"
        )
    lower: dict[str, str] = {}
    for name, value in items():
        if isinstance(name, bytes) or isinstance(value, bytes):
            raise InvalidInput("names and values of headers must be str, got bytes")
        if not isinstance(name, str) or not isinstance(value, str):
            continue  # signature headers are strings; a missing one is rejected later
        if lower.setdefault(name.lower(), value) != value:
            raise Unauthenticated(f"the notification has two different headers {name!r}")
    return lower


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name.lower(), "").strip()
    if not value:
        raise Unauthenticated(f"the notification is not signed: it has no {name}")
    return value


def _token(headers: Mapping[str, str]) -> str:
    own = headers.get(JWT_HEADER.lower(), "").strip()
    scheme, _, bearer = headers.get(BEARER_HEADER.lower(), "").strip().partition(" ")
    # A bearer token without dots is a credential of the receiver, not a JWT.
    return own or (bearer.strip() if scheme.lower() == "bearer" and bearer.count(".") == 2 else "")


def _compare(actual: str, expected: str, what: str) -> None:
    if not hmac.compare_digest(actual.encode("utf-8", "replace"), expected.encode()):
        raise Unauthenticated(f"{what} does not match the notification")


def _claims(token: str, keys: Keys) -> dict[str, Any]:
    try:
        kid = jws.extract_compact(token.encode()).headers().get("kid")
        key = find_key(keys, kid)
        return dict(
            jwt.decode(token, key, registry=SignatureRegistry(supported_algorithms(key))).claims
        )
    except (JoseError, ValueError, RecursionError) as error:
        raise Unauthenticated(f"the JWT of the notification is invalid: {error}") from None


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise Unauthenticated(f"the JWT of the notification has no claim {name!r}")
    return value


def _timestamp(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(f"the JWT of the notification has no claim {name!r}")
    return float(value)


def _read(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InvalidInput("the signature is valid, but the body is not a JSON object")
    return content
