"""Construction of A2A clients, notification receivers, downloads and card inspection."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.application.agents.remote import check_access
from acc.bootstrap.settings import (
    REFERENCE_PREFIX,
    agent_token_reference,
    agent_token_variable,
    allowed_hosts,
    resolve_reference,
)
from acc.domain.errors import (
    AccError,
    AddressRefused,
    InvalidInput,
    PermissionDenied,
    RemoteFailed,
    Unauthenticated,
)
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import (
    DownloadLimits,
    RemoteEndpoint,
    is_sendable,
    loopback_allow_entries,
)
from acc.domain.value_objects.evaluation_run import AgentChoice

if TYPE_CHECKING:
    from acc.adapters.a2a.client.card_validation import CardReport
    from acc.adapters.a2a.client.client import A2AClient
    from acc.adapters.a2a.client.notifications import NotificationReceiver

_EVALUATION_TIMEOUT_SECONDS = 3600.0


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


async def inspect_card(endpoint: RemoteEndpoint, *, key: Path | None = None) -> "CardReport":
    """Fetch and validate the card of an endpoint, and its signature if there is a `key`."""
    from acc.adapters.a2a.client import card_validation
    from acc.adapters.auth.card_signatures import CardVerifier
    from acc.adapters.auth.keys import load_key

    verifier = None if key is None else CardVerifier(load_key(key))
    fetched = await make_remote(endpoint).fetch_card()
    return card_validation.inspect_card(fetched.url, fetched.body, verifier=verifier)


def evaluated_endpoint(name: str, url: str) -> RemoteEndpoint:
    """Return the endpoint of an agent under evaluation.

    Its token is in the environment variable ACC_TOKEN_<NAME>, or in ACC_TOKEN.
    """
    return RemoteEndpoint(
        url=url,
        token=agent_token_reference(name),
        allow=loopback_allow_entries(url),
        timeout=_EVALUATION_TIMEOUT_SECONDS,
    )


def check_remote_agents(agents: Sequence[AgentChoice], *, allow: Sequence[str] = ()) -> None:
    """Raise an AccError before the first turn if a remote agent cannot be called."""
    for agent in agents:
        if agent.kind.startswith("a2a:"):
            asyncio.run(_check_remote_agent(agent.name, agent.kind.removeprefix("a2a:"), allow))


async def _check_remote_agent(name: str, url: str, allow: Sequence[str]) -> None:
    endpoint = evaluated_endpoint(name, url)
    try:
        await check_access(make_remote(endpoint, allow=allow))
    except AddressRefused as error:
        text = f"agent {name!r}: {error.naming('--allow here')}"
        raise AddressRefused(text, detail=error.detail) from None
    except (Unauthenticated, PermissionDenied) as error:
        variable = agent_token_variable(name)
        raise type(error)(f"agent {name!r}: {error}; set its token in {variable}") from None
    except AccError as error:
        raise RemoteFailed(
            f"agent {name!r}: {error}; `acc card {endpoint.origin}` shows what answers there"
        ) from None


def check_allow_list(entries: Sequence[str]) -> None:
    """Raise InvalidInput for an invalid entry of --allow."""
    if not entries:
        return
    from acc.adapters.http.addresses import AllowList

    try:
        AllowList(entries)
    except InvalidInput as error:
        raise InvalidInput(f"--allow: {error}") from None


def resolve_token(reference: str) -> str:
    """Return a bearer token, from the environment for "env:NAME"; the error hides its value."""
    token = resolve_reference(reference)
    if not is_sendable(token):
        is_reference = reference.startswith(REFERENCE_PREFIX)
        name = reference.removeprefix(REFERENCE_PREFIX)
        source = f"the environment variable {name}" if is_reference else "token"
        raise InvalidInput(f"{source} must contain printable ASCII without spaces")
    return token


def new_id() -> str:
    """Return a unique message id."""
    from acc.adapters.system.clock import RandomIds

    return RandomIds().new()
