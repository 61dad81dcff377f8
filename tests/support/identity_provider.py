"""An identity provider on loopback: discovery, keys, and tokens signed with real keys."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from joserfc import jws

from acc.adapters.auth.keys import (
    SignatureRegistry,
    SigningKey,
    choose_algorithm,
    generate_key,
    public_key_set,
)

AUDIENCE = "https://agent.example"


def b64(data: bytes | Mapping[str, Any]) -> str:
    """Return base64url without padding."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def sign(header: Mapping[str, Any], claims: Mapping[str, Any] | bytes, key: SigningKey) -> str:
    """Return a compact JWS with exactly this header and content."""
    content = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    algorithms = [str(header.get("alg") or choose_algorithm(key))]
    return jws.serialize_compact(dict(header), content, key, registry=SignatureRegistry(algorithms))


@dataclass
class IdentityProvider:
    """Keys, published documents and received requests of the provider."""

    url: str = ""
    key: SigningKey = field(default_factory=lambda: generate_key("ES256", kid="one"))
    published: list[SigningKey] = field(default_factory=list)
    documents: dict[str, Any] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    is_broken: bool = False
    token_seconds: float = 3600.0
    delay: float = 0.0

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return the claims of a valid token; a value of None removes a claim."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "agent://checkout_agent",
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + 300,
            "scope": "agent.invoke agent.read",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self,
        *,
        key: SigningKey | None = None,
        header: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """Return a signed token with changed claims and a changed header."""
        key = key or self.key
        head = {"alg": choose_algorithm(key), "kid": key.kid, "typ": "at+jwt", **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return sign(head, self.claims(**changes), key)

    def respond(self, method: str, path: str, form: Mapping[str, str]) -> tuple[int, Any]:
        """Return status and document of a request."""
        if self.is_broken:
            return 500, {}
        if path in self.documents:
            return 200, self.documents[path]
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return 200, public_key_set(self.published or [self.key])
        if path == "/token" and method == "POST":
            self.forms.append(dict(form))
            token = self.token(sub=form.get("client_id"), jti=str(len(self.forms)))
            answer = {"access_token": token, "token_type": "Bearer"}
            return 200, {**answer, "expires_in": self.token_seconds}
        return 404, {}


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    """Serve an identity provider on a free local port."""
    provider = IdentityProvider()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            length = next(
                (
                    int(line.partition(":")[2])
                    for line in head.splitlines()
                    if line.lower().startswith("content-length:")
                ),
                0,
            )
            body = (await reader.readexactly(length)).decode()
            provider.requests.append(path)
            provider.headers.append(head)
            await asyncio.sleep(provider.delay)
            form = {name: values[0] for name, values in parse_qs(body).items()}
            status, document = provider.respond(method, path, form)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            writer.write(
                b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                % (status, len(content))
                + content
            )
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
