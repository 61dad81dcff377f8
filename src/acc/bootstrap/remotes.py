"""What a call of a remote agent is made of: the guarded HTTP client, the token, the allow-list."""

import os
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.remote import RemoteAddress

if TYPE_CHECKING:
    import httpx

    from acc.adapters.a2a.client import A2AClient

_REDIRECTS = 3


def make_remote(address: RemoteAddress, *, allow: Sequence[str] = ()) -> "A2AClient":
    """Return a client of one remote agent.

    What may be called although it is not public is named by the address, by whoever runs this, and
    by ACC_ALLOW in the environment, separated by commas.
    """
    from acc.adapters.a2a.client import A2AClient, Door
    from acc.adapters.security.guarded_http import STREAMING, Wiring, guarded_client

    allowed = (*address.allow, *allow, *allowed_by_environment())

    @asynccontextmanager
    async def opened() -> AsyncIterator["httpx.AsyncClient"]:
        wiring = Wiring(tls=_tls())
        async with guarded_client(allow=allowed, redirects=_REDIRECTS, wiring=wiring) as client:
            yield client

    door = Door(open=opened, streaming=STREAMING)
    return A2AClient(address, door=door, token=token_of(address.token))


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def allowed_by_environment() -> tuple[str, ...]:
    """Return what ACC_ALLOW lists."""
    return tuple(filter(None, map(str.strip, os.environ.get("ACC_ALLOW", "").split(","))))


def token_of(reference: str) -> str:
    """Return a token, or the one that the environment holds under the name after "env:"."""
    if not reference.startswith("env:"):
        return reference
    name = reference.removeprefix("env:")
    found = os.environ.get(name, "").strip()
    if not found:
        raise InvalidInput(f"the environment holds no token {name!r}; set it, or give the token")
    return found


def typed_loopback(url: str) -> tuple[str, ...]:
    """Return the allow-list entry for a URL of this machine that someone typed at a prompt.

    Who types a URL of their own machine means it. It is that host and port and nothing else, so
    that a redirect, or a card, to another address of this machine is refused all the same.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost" or host.endswith(".localhost")
    if not is_loopback:
        return ()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",)
