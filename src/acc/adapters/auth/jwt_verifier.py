"""Verification of JWT access tokens of OIDC issuers: keys, signature, audience, times, scopes."""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from joserfc import jws
from joserfc.errors import JoseError

from acc.adapters.auth.keys import (
    SignatureRegistry,
    SigningKey,
    find_key,
    read_key_set,
    supported_algorithms,
)
from acc.adapters.http.client import NetworkOptions, guarded_client
from acc.application.a2a.replay_protection import InMemoryUsedIds
from acc.domain.errors import (
    AccError,
    InvalidInput,
    InvalidResponse,
    Unauthenticated,
    Unavailable,
)
from acc.domain.value_objects.endpoint import check_remote_url, is_loopback_url, origin_of
from acc.domain.value_objects.principal import Principal
from acc.ports.outbound.auth_ports import TokenVerifierPort, UsedIdsPort

log = logging.getLogger("acc.auth")
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
DISCOVERY_PATH = "/.well-known/openid-configuration"
MAX_TOKEN_LENGTH = 16 * 1024
_MAX_CALLER_LENGTH = 256
_MAX_SCOPES = 256
_MAX_DOCUMENT_BYTES = 512 * 1024
_FETCH_TIMEOUT_SECONDS = 5.0
_RETRY_AFTER_SECONDS = 5.0
#: The signer must not choose the key, or how the token is to be read.
_REFUSED_HEADERS = ("jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc")
_TYPES = frozenset({"", "jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_SIGNING_PARTS = 3
_MAX_TIME = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedIssuer:
    """An issuer of JWTs whose signature is trusted.

    `audience` is the URL or URLs of this server; a token for another audience is rejected. The keys
    are found through OIDC discovery, or at `jwks_url`, or they are the JWK set `keys`. The caller
    is the claim `caller_claim`, within `prefix` if there is one: issuers of one server need
    different prefixes, so that callers of two issuers never share tasks. A token without
    a scope claim has `default_scopes`. With `single_use` a token needs a `jti` and is accepted
    once, as for JWTs that an agent signs for each request.
    """

    issuer: str
    audience: str | Sequence[str]
    jwks_url: str = ""
    keys: Mapping[str, Any] | None = None
    algorithms: Sequence[str] = ALGORITHMS
    prefix: str = ""
    caller_claim: str = "sub"
    tenant_claim: str = ""
    default_scopes: Sequence[str] = ()
    single_use: bool = False
    leeway: float = 60.0

    def __post_init__(self) -> None:
        """Raise InvalidInput for an issuer that cannot be verified safely."""
        audience = (self.audience,) if isinstance(self.audience, str) else tuple(self.audience)
        object.__setattr__(self, "audience", audience)
        if not audience or not all(audience):
            raise InvalidInput(
                f"issuer {self.issuer!r}: audience must not be empty; use the URL of this server"
            )
        unknown = sorted(set(self.algorithms).difference(ALGORITHMS))
        if unknown or not self.algorithms or isinstance(self.algorithms, str):
            raise InvalidInput(
                f"issuer {self.issuer!r}: algorithms must be a selection of "
                f"{', '.join(ALGORITHMS)}, got {', '.join(unknown) or self.algorithms!r}"
            )
        if "/" in self.prefix or not self.prefix.isprintable():
            raise InvalidInput(f"prefix must be printable and without '/', got {self.prefix!r}")
        if not 0 <= self.leeway <= 600:
            raise InvalidInput(f"leeway must be between 0 and 600 seconds, got {self.leeway!r}")
        if not self.issuer:
            raise InvalidInput("issuer must not be empty")
        if self.keys is None:
            _check_key_url(self.jwks_url or self.issuer)


class JwtVerifier:
    """Verifies the JWTs of trusted issuers; implements TokenVerifierPort.

    Keys are fetched through the guarded HTTP client when they are first needed. They are fetched
    again after `max_key_age` seconds, and when a token names an unknown key, then at most every
    `min_refresh` seconds. While an issuer is unreachable its keys stay valid for `max_stale`
    seconds. `used_ids` has the `jti` of tokens for single use; servers that share it accept such a
    token once in all. By default each process has its own. The reason of a rejection is logged,
    without the token.
    """

    def __init__(
        self,
        issuers: Sequence[TrustedIssuer],
        *,
        allow: Sequence[str] = (),
        network: NetworkOptions | None = None,
        max_key_age: float = 600.0,
        min_refresh: float = 10.0,
        max_stale: float = 3600.0,
        used_ids: UsedIdsPort | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not issuers:
            raise InvalidInput("a JwtVerifier needs at least one issuer")
        for attribute in ("issuer", "prefix"):
            values = [getattr(issuer, attribute) for issuer in issuers]
            if len(set(values)) < len(values) or (len(values) > 1 and not all(values)):
                raise InvalidInput(
                    f"each of several issuers needs a different {attribute}, got {values!r}"
                )
        self._now = now
        self._issuers = {
            issuer.issuer: (
                issuer,
                _StaticKeys(read_key_set(issuer.keys))
                if issuer.keys is not None
                else IssuerKeys(
                    issuer.issuer,
                    issuer.jwks_url,
                    allow=allow,
                    network=network,
                    max_age=max_key_age,
                    min_refresh=min_refresh,
                    max_stale=max_stale,
                    now=now,
                ),
            )
            for issuer in issuers
        }
        self._used_ids = used_ids or InMemoryUsedIds()

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or None if the token is invalid.

        Raises Unavailable if the keys of its issuer cannot be fetched.
        """
        try:
            return await self._principal(token)
        except Unauthenticated as error:
            log.info("a token was rejected: %s", error)
            return None

    async def _principal(self, token: str) -> Principal:
        header, claims = _parse(token)
        entry = self._issuers.get(_text(claims, "iss"))
        if entry is None:
            raise Unauthenticated("its issuer is not trusted")
        issuer, keys = entry
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
            raise Unauthenticated("its algorithm is not allowed")
        key = await keys.find(header.get("kid"))
        _check_signature(token, key, algorithm)
        self._check_claims(issuer, claims)
        principal = _principal_of(issuer, claims)
        if issuer.single_use:
            await self._reject_replay(issuer, claims)
        return principal

    def _check_claims(self, issuer: TrustedIssuer, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(one, str) and one in issuer.audience for one in audiences):
            raise Unauthenticated("its audience is another server")
        now, leeway = self._now(), issuer.leeway
        expires = _timestamp(claims, "exp")
        if expires is None:
            raise Unauthenticated("it has no claim 'exp'")
        if now >= expires + leeway:
            raise Unauthenticated("it has expired")
        for name in ("nbf", "iat"):
            begins = _timestamp(claims, name)
            if begins is not None and begins > now + leeway:
                raise Unauthenticated(f"its claim {name!r} is in the future")

    async def _reject_replay(self, issuer: TrustedIssuer, claims: Mapping[str, Any]) -> None:
        """Raise Unauthenticated if the token was used before."""
        token_id, until = _text(claims, "jti"), float(claims["exp"]) + issuer.leeway
        if not await self._used_ids.claim(
            f"jti of {issuer.issuer}", token_id, now=self._now(), until=until
        ):
            raise Unauthenticated("it was replayed: its 'jti' was used before")


class _StaticKeys:
    """Keys that are given instead of fetched."""

    def __init__(self, keys: Mapping[str, SigningKey]) -> None:
        self._keys = keys

    async def find(self, kid: object) -> SigningKey:
        """Return the key with a kid, or raise Unauthenticated."""
        return find_key(self._keys, kid)


class IssuerKeys:
    """Fetches and caches the public keys of one issuer."""

    def __init__(
        self,
        issuer: str,
        jwks_url: str = "",
        *,
        allow: Sequence[str] = (),
        network: NetworkOptions | None = None,
        max_age: float = 600.0,
        min_refresh: float = 10.0,
        max_stale: float = 3600.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._allow = allow
        self._network = network
        self._max_age = max_age
        self._min_refresh = min_refresh
        self._max_stale = max_stale
        self._now = now
        self._keys: Mapping[str, SigningKey] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._lock = asyncio.Lock()

    async def find(self, kid: object) -> SigningKey:
        """Return the key with a kid, after a fetch if it is unknown or the keys are old."""
        if not isinstance(kid, str) or not kid:
            raise Unauthenticated("it has no 'kid'")
        if self._needs_fetch(kid):
            async with self._lock:
                if self._needs_fetch(kid):  # another request may have fetched meanwhile
                    await self._fetch()
        if self._now() - self._fetched_at > self._max_age + self._max_stale:
            raise Unavailable(
                f"the keys of {origin_of(self._issuer)} cannot be fetched at present",
                retry_after=_RETRY_AFTER_SECONDS,
            )
        return find_key(self._keys, kid)

    def _needs_fetch(self, kid: str) -> bool:
        now = self._now()
        if now - self._tried_at < self._min_refresh:
            return False
        return kid not in self._keys or now - self._fetched_at > self._max_age

    async def _fetch(self) -> None:
        try:
            async with guarded_client(
                allow=self._allow,
                timeout=_FETCH_TIMEOUT_SECONDS,
                max_bytes=_MAX_DOCUMENT_BYTES,
                network=self._network,
            ) as http:
                url = self._jwks_url or await self._discover(http)
                keys = read_key_set(await _get(http, url))
        except (httpx2.HTTPError, AccError) as error:
            log.warning("cannot fetch the keys of %s: %s", origin_of(self._issuer), error)
        else:
            self._keys, self._fetched_at = keys, self._now()
        finally:
            # After the fetch, so that requests that wait for it do not take it for a recent one.
            self._tried_at = self._now()

    async def _discover(self, http: httpx2.AsyncClient) -> str:
        """Return the URL of the keys according to the discovery document of the issuer."""
        document = _json_object(await _get(http, self._issuer.rstrip("/") + DISCOVERY_PATH))
        if document.get("issuer") != self._issuer:
            raise InvalidResponse(
                f"the discovery document is of another issuer; expected {self._issuer!r}, exactly"
            )
        url = document.get("jwks_uri")
        if not isinstance(url, str):
            raise InvalidResponse("the discovery document has no jwks_uri")
        _check_key_url(url)
        return url


class VerifierChain:
    """Asks several verifiers in order; implements TokenVerifierPort."""

    def __init__(self, verifiers: Sequence[TokenVerifierPort]) -> None:
        self._verifiers = tuple(verifiers)

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of the first verifier that accepts a token."""
        for verifier in self._verifiers:
            principal = await verifier.verify(token)
            if principal is not None:
                return principal
        return None


def _check_key_url(url: str) -> None:
    """Raise InvalidInput unless keys can be fetched safely: https, or http on loopback."""
    check_remote_url(url)
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback_url(url):
        raise InvalidInput(f"{url!r} must be an https URL: its keys decide who is trusted")
    if parts.fragment:
        raise InvalidInput(f"{url!r} must not have a fragment")


async def _get(http: httpx2.AsyncClient, url: str) -> bytes:
    response = await http.get(url, headers={"Accept": "application/json"})
    if response.status_code != 200:
        raise InvalidResponse(f"{origin_of(url)} answered with status {response.status_code}")
    return response.content


def _parse(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return header and claims of a token, which are not verified yet."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise Unauthenticated(f"it is longer than {MAX_TOKEN_LENGTH} characters")
    if not token.isascii() or token.count(".") != _SIGNING_PARTS - 1:
        raise Unauthenticated("it is not a signed JWT")
    try:
        parsed = jws.extract_compact(token.encode(), registry=SignatureRegistry(ALGORITHMS))
        header = parsed.headers()
        claims = _json_object(parsed.payload)
    except (JoseError, ValueError, TypeError, KeyError, RecursionError, AccError) as error:
        raise Unauthenticated(f"it is malformed ({type(error).__name__})") from None
    for name in _REFUSED_HEADERS:
        if name in header:
            raise Unauthenticated(f"its header contains {name!r}")
    kind = header.get("typ", "")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise Unauthenticated("its 'typ' is not an access token")
    return header, claims


def _check_signature(token: str, key: SigningKey, algorithm: str) -> None:
    published = key.as_dict(private=False)
    allowed = set(supported_algorithms(key))
    if isinstance(published.get("alg"), str):
        allowed &= {str(published["alg"])}
    if algorithm not in allowed or published.get("use", "sig") != "sig":
        raise Unauthenticated("its algorithm does not fit the key")
    try:
        jws.deserialize_compact(token, key, registry=SignatureRegistry([algorithm]))
    except (JoseError, ValueError, TypeError) as error:
        raise Unauthenticated(f"its signature is invalid ({type(error).__name__})") from None


def _principal_of(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> Principal:
    caller = _text(claims, issuer.caller_claim)
    tenant = _text(claims, issuer.tenant_claim) if issuer.tenant_claim else ""
    if issuer.prefix:
        caller = f"{issuer.prefix}/{caller}"
    return Principal(caller=caller, tenant=tenant, permissions=_scopes(issuer, claims))


def _scopes(issuer: TrustedIssuer, claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes in `scope` (RFC 9068) or `scp`: a string or a list of strings."""
    for name in ("scope", "scp"):
        value = claims.get(name)
        if value is None:
            continue
        names = value.split() if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise Unauthenticated(f"its claim {name!r} is not a list of scopes")
        if len(names) > _MAX_SCOPES:
            raise Unauthenticated(f"it has more than {_MAX_SCOPES} scopes")
        return frozenset(names)
    return frozenset(issuer.default_scopes)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise Unauthenticated(f"it has no claim {name!r}")
    if len(value) > _MAX_CALLER_LENGTH or not value.isprintable():
        raise Unauthenticated(f"its claim {name!r} is too long or not printable")
    return value


def _timestamp(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_TIME:
        raise Unauthenticated(f"its claim {name!r} is not a time")
    return float(value)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name is repeated")
    return document


def _json_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object, or raise InvalidResponse; readers differ in repeated names."""
    try:
        document = json.loads(data.decode(), object_pairs_hook=_unique_names)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise InvalidResponse("it is not a JSON object")
    return document
