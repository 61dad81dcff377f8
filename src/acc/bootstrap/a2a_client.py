"""Construction of A2A clients, notification receivers, downloads and card inspection."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.bootstrap.settings import allowed_hosts, resolve_token
from acc.domain.value_objects.agent_card import CardReport
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits, RemoteEndpoint
from acc.ports.outbound.remote_ports import IntentCallerPort

if TYPE_CHECKING:
    from acc.adapters.a2a.client.client import A2AClient
    from acc.adapters.a2a.client.notifications import NotificationReceiver
    from acc.adapters.http.addresses import AllowList


def make_remote(endpoint: RemoteEndpoint, *, allow: Sequence[str] = ()) -> "A2AClient":
    """Return the client of a remote agent.

    Non-public addresses are allowed by the endpoint, by `allow`, and by the comma-separated
    environment variable ACC_ALLOW.
    """
    from acc.adapters.a2a.client.client import A2AClient

    return A2AClient(
        endpoint,
        token=resolve_token(endpoint.token),
        allow=(*allow, *allowed_hosts()),
    )


def make_intent_caller(*, allow: Sequence[str] = ()) -> IntentCallerPort:
    """Return the caller of intents; non-public addresses must be in `allow` or ACC_ALLOW."""
    from acc.adapters.a2a.client.intents import HttpIntentCaller

    return HttpIntentCaller(allow=(*allow, *allowed_hosts()), resolve_token=resolve_token)


def make_receiver(
    url: str,
    *,
    secret: str | None = None,
    keys: Mapping[str, Any] | bytes | str | None = None,
) -> "NotificationReceiver":
    """Return an ASGI app that receives the notifications that are sent to a URL.

    If the server signs its notifications, pass the shared `secret` or its public `keys`, a JWK set.
    """
    from acc.adapters.a2a.client.notifications import NotificationReceiver
    from acc.adapters.auth.keys import read_key_set
    from acc.adapters.auth.notification_signatures import NotificationVerifier

    if secret is None and keys is None:
        return NotificationReceiver(url)
    key_set = None if keys is None else read_key_set(keys)
    verifier = NotificationVerifier(secret=secret, keys=key_set, audience=url)
    return NotificationReceiver(url, verifier=verifier)


@asynccontextmanager
async def receive_notifications(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    public_url: str = "",
    secret: str | None = None,
    keys: Mapping[str, Any] | bytes | str | None = None,
) -> AsyncIterator["NotificationReceiver"]:
    """Serve a notification receiver on a local port for the duration of the context.

    `public_url` is the URL under which remote servers reach the port, if it differs. If the server
    signs its notifications, pass the shared `secret` or its public `keys`, a JWK set.
    """
    from acc.adapters.a2a.server.uvicorn import bind, serving

    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    try:
        url = public_url or f"http://{name}:{listening.getsockname()[1]}"
        receiver = make_receiver(url, secret=secret, keys=keys)
        async with serving(receiver, listening):
            yield receiver
    finally:
        listening.close()


async def download_file(url: str, limits: DownloadLimits, *, allow: Sequence[str] = ()) -> Part:
    """Return the file at a URL, which must be public, in `allow`, or in ACC_ALLOW."""
    from acc.adapters.http.download import fetch_file

    return await fetch_file(url, limits, allow=(*allow, *allowed_hosts()))


async def inspect_card(endpoint: RemoteEndpoint, *, key: Path | None = None) -> CardReport:
    """Fetch and validate the card of an endpoint, and its signature if there is a `key`."""
    from acc.adapters.a2a.client import card_validation
    from acc.adapters.auth.card_signatures import CardVerifier
    from acc.adapters.auth.keys import load_key

    verifier = None if key is None else CardVerifier(load_key(key))
    fetched = await make_remote(endpoint).fetch_card()
    return card_validation.inspect_card(fetched.url, fetched.body, verifier=verifier)


def make_allow_list(entries: Sequence[str]) -> "AllowList":
    """Return the addresses that may be called although they are not public."""
    from acc.adapters.http.addresses import AllowList

    return AllowList(entries)


def new_id() -> str:
    """Return a unique message id."""
    from acc.adapters.system.clock import RandomIds

    return RandomIds().new()
