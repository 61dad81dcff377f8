"""Credentials for remote agents as headers: API keys, Basic, OAuth2 client credentials, JWTs."""

import asyncio
import base64
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx2
from joserfc import jws

from acc.adapters.auth.keys import SignatureRegistry, choose_algorithm, load_key
from acc.adapters.http.client import NetworkOptions, guarded_client
from acc.domain.errors import InvalidResponse, RemoteFailed, Unauthenticated
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.credentials import (
    ApiKey,
    BasicAuth,
    ClientCredentials,
    MutualTls,
    RemoteAuth,
    SignedJwt,
)
from acc.domain.value_objects.endpoint import is_loopback_url, is_sendable, origin_of
from acc.ports.outbound.auth_ports import CredentialsPort

_MAX_TOKEN_BYTES = 64 * 1024
_TOKEN_TIMEOUT_SECONDS = 10.0
_DEFAULT_LIFETIME_SECONDS = 300.0
#: A token is renewed before this share of its lifetime is left, so that it is valid on arrival.
_RENEWAL_SHARE = 0.1
_MAX_RENEWAL_SECONDS = 60.0
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
#: Headers with which a card could change the meaning of the request.
_RESERVED_HEADERS = frozenset(
    {"connection", "content-length", "content-type", "cookie", "host", "te", "transfer-encoding"}
)
_NOT_IN_COOKIES = frozenset('";,\\')


class BearerCredentials:
    """A fixed bearer token; implements CredentialsPort."""

    can_refresh = False

    def __init__(self, token: str) -> None:
        self._token = token

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the Authorization header."""
        return {"Authorization": f"Bearer {self._token}"}


class ApiKeyCredentials:
    """An API key in the header or cookie that the card names; implements CredentialsPort."""

    can_refresh = False

    def __init__(self, auth: ApiKey, value: str) -> None:
        self._header = auth.header
        self._value = value

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the header with the key, or raise Unauthenticated if the card allows none."""
        schemes = _schemes(card, "apiKey")
        for scheme in schemes:
            name, location = str(scheme.get("name", "")), scheme.get("in")
            if not _FIELD_NAME.fullmatch(name):
                continue
            if location == "header" and name.lower() not in _RESERVED_HEADERS:
                return {name: self._value}
            if location == "cookie" and not _NOT_IN_COOKIES.intersection(self._value):
                return {"Cookie": f"{name}={self._value}"}
        if not schemes:
            return {self._header: self._value}
        wanted = " or ".join(f"{one.get('in')} {one.get('name')!r}" for one in schemes)
        raise Unauthenticated(
            f"the card requires the API key in {wanted[:200]}; it can be sent only in a header "
            "without another meaning, or in a cookie, because URLs are logged"
        )


class BasicCredentials:
    """User and password; implements CredentialsPort."""

    can_refresh = False

    def __init__(self, auth: BasicAuth, password: str) -> None:
        pair = f"{auth.user}:{password}".encode()
        self._value = f"Basic {base64.b64encode(pair).decode()}"

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the Authorization header."""
        return {"Authorization": self._value}


class SignedJwtCredentials:
    """A new JWT for each request; implements CredentialsPort."""

    can_refresh = False

    def __init__(
        self, auth: SignedJwt, *, audience: str, now: Callable[[], float] = time.time
    ) -> None:
        self._auth = auth
        self._audience = auth.audience or audience
        self._key = load_key(auth.key)
        self._algorithm = choose_algorithm(self._key)
        self._now = now

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the Authorization header with a JWT that was not used before."""
        auth, now = self._auth, int(self._now())
        claims = {
            "iss": auth.issuer,
            "sub": auth.subject or auth.issuer,
            "aud": self._audience,
            "iat": now,
            "exp": now + int(auth.lifetime),
            "jti": secrets.token_urlsafe(16),
            "scope": " ".join(auth.scopes),
        }
        header = {"alg": self._algorithm, "kid": str(self._key.kid), "typ": "JWT"}
        token = jws.serialize_compact(
            header,
            json.dumps(claims).encode(),
            self._key,
            registry=SignatureRegistry([self._algorithm]),
        )
        return {"Authorization": f"Bearer {token}"}


class CertificateCredentials:
    """A client certificate, which the TLS connection presents; implements CredentialsPort."""

    can_refresh = False

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return no header."""
        return {}


class CredentialChoice:
    """Several credentials, of which the card decides; implements CredentialsPort.

    The first security requirement of the card whose schemes all have credentials is met. A card
    without requirements gets none, and the card itself is requested without credentials.
    """

    def __init__(self, options: Sequence[tuple[RemoteAuth, CredentialsPort]]) -> None:
        self._options = tuple(options)

    @property
    def can_refresh(self) -> bool:
        """Return True if one of the credentials can be replaced by new ones."""
        return any(credentials.can_refresh for _, credentials in self._options)

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the headers that meet a security requirement of the card."""
        if card is None or not card.security:
            return {}
        for requirement in card.security:
            chosen = [self._find(card.security_schemes.get(name, {})) for name in requirement]
            if all(one is not None for one in chosen):
                headers: dict[str, str] = {}
                card = replace(card, security=(requirement,))
                for one in chosen:
                    if one is not None:
                        headers |= await one.headers(card, refresh=refresh and one.can_refresh)
                return headers
        wanted = " or ".join(
            " and ".join(_describe_scheme(card.security_schemes.get(name, {})) for name in one)
            for one in card.security
        )
        given = ", ".join(type(auth).__name__ for auth, _ in self._options)
        raise Unauthenticated(
            f"agent {card.name!r} requires {wanted}, but there are only: {given}; add credentials "
            "of that kind to auth"
        )

    def _find(self, scheme: Mapping[str, Any]) -> CredentialsPort | None:
        """Return the first credentials for a security scheme."""
        for auth, credentials in self._options:
            if isinstance(auth, _AUTH_OF_SCHEME.get(_describe_scheme(scheme), ())):
                return credentials
        return None


#: Which credentials meet a security scheme.
_AUTH_OF_SCHEME: Mapping[str, tuple[type, ...]] = {
    "apiKey": (ApiKey,),
    "http basic": (BasicAuth,),
    "http bearer": (SignedJwt, ClientCredentials),
    "oauth2": (ClientCredentials,),
    "openIdConnect": (ClientCredentials,),
    "mutualTLS": (MutualTls,),
}


def _describe_scheme(scheme: Mapping[str, Any]) -> str:
    kind = str(scheme.get("type", "an undeclared scheme"))
    return f"http {str(scheme.get('scheme', '')).lower()}" if kind == "http" else kind


class OAuthClient:
    """OAuth2 client credentials; implements CredentialsPort.

    The token is fetched when it is first needed, by one request for all callers, and renewed before
    it expires. `origin` is the origin of the agent: a token endpoint that only the card names gets
    the secret if it has this origin.
    """

    can_refresh = True

    def __init__(
        self,
        auth: ClientCredentials,
        secret: str,
        *,
        origin: str,
        allow: Sequence[str] = (),
        insecure: bool = False,
        network: NetworkOptions | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._auth = auth
        self._secret = secret
        self._origin = origin
        self._allow = allow
        self._insecure = insecure
        self._network = network
        self._now = now
        self._token = ""
        self._renew_at = 0.0
        self._lock = asyncio.Lock()

    async def headers(self, card: AgentCard | None, *, refresh: bool = False) -> Mapping[str, str]:
        """Return the Authorization header; `refresh` discards a token that was rejected."""
        rejected = self._token if refresh else None
        async with self._lock:
            # Another call may have replaced the rejected token while this one waited.
            if self._now() >= self._renew_at or self._token == rejected:
                self._token, lifetime = await self._fetch(self._token_url(card))
                margin = min(lifetime * _RENEWAL_SHARE, _MAX_RENEWAL_SECONDS)
                self._renew_at = self._now() + lifetime - margin
            return {"Authorization": f"Bearer {self._token}"}

    def _token_url(self, card: AgentCard | None) -> str:
        url = self._auth.token_url
        if not url:
            for scheme in _schemes(card, "oauth2"):
                flow = scheme.get("flows", {}).get("clientCredentials") or {}
                url = url or str(flow.get("tokenUrl") or "")
            if not url:
                raise Unauthenticated(
                    f"the card of {self._origin} names no token endpoint for client credentials; "
                    "set ClientCredentials(token_url=...)"
                )
            if origin_of(url) != self._origin:
                raise Unauthenticated(
                    f"the card of {self._origin} names the token endpoint {origin_of(url)} of "
                    "another origin; if it is right, set ClientCredentials(token_url=...)"
                )
        check_transport(url, insecure=self._insecure)
        return url

    async def _fetch(self, url: str) -> tuple[str, float]:
        form = {"grant_type": "client_credentials"}
        if self._auth.scopes:
            form["scope"] = " ".join(self._auth.scopes)
        if self._auth.audience:
            form["audience"] = self._auth.audience
        form |= {"client_id": self._auth.client_id, "client_secret": self._secret}
        origin = origin_of(url)
        try:
            async with guarded_client(
                allow=self._allow,
                timeout=_TOKEN_TIMEOUT_SECONDS,
                max_bytes=_MAX_TOKEN_BYTES,
                network=self._network,
            ) as http:
                response = await http.post(url, data=form, headers={"Accept": "application/json"})
        except httpx2.HTTPError as error:
            raise RemoteFailed(
                f"the token endpoint {origin} failed: {type(error).__name__}",
                remote_code="token_endpoint",
                retryable=True,
            ) from None
        if response.status_code != 200:
            # The body may repeat what was sent.
            raise Unauthenticated(
                f"the token endpoint {origin} answered with status {response.status_code}; check "
                "client_id, client_secret and scopes"
            )
        return _read_token(response.content, origin)


def check_transport(url: str, *, insecure: bool) -> None:
    """Raise RemoteFailed if credentials would be sent unencrypted to another machine."""
    if url.lower().startswith("https://") or is_loopback_url(url) or insecure:
        return
    raise RemoteFailed(
        f"credentials are not sent to {origin_of(url)} without encryption; use https, or allow it "
        "with insecure=True",
        remote_code="insecure_url",
    )


def _read_token(body: bytes, origin: str) -> tuple[str, float]:
    try:
        document: Any = json.loads(body)
        token, kind = document["access_token"], document.get("token_type", "Bearer")
        lifetime = document.get("expires_in", _DEFAULT_LIFETIME_SECONDS)
        is_valid = is_sendable(token) and bool(token) and kind.lower() == "bearer"
        seconds = float(lifetime)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_valid, token, seconds = False, "", 0.0
    if not is_valid or not 0 < seconds < float("inf"):
        raise InvalidResponse(f"the token endpoint {origin} did not return a bearer token")
    return token, seconds


def _schemes(card: AgentCard | None, kind: str) -> list[Mapping[str, Any]]:
    """Return the security schemes of a type: those that the card requires, or else all."""
    if card is None:
        return []
    schemes = card.security_schemes
    required = [schemes[name] for one in card.security for name in one if name in schemes]
    found = [scheme for scheme in required if scheme.get("type") == kind]
    return found or [scheme for scheme in schemes.values() if scheme.get("type") == kind]
