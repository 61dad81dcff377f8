"""Construction of A2A clients, notification receivers, downloads and card inspection."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from acc.application.agents.remote import RemoteAgent as A2ARemoteAgent
from acc.application.agents.remote import provenance_marks
from acc.application.contracts.claims import outgoing_context
from acc.application.contracts.idempotency import IntentOutputs
from acc.application.contracts.remote_intents import call_remote_intent, contracts_on_card
from acc.application.runtime.context import RunContext
from acc.application.runtime.json_types import encode_json
from acc.bootstrap.circuits import shared_circuits
from acc.bootstrap.schemas import LazySchemaValidator
from acc.bootstrap.settings import (
    allowed_hosts,
    resolve_reference,
    resolve_token,
    silence_grpc,
)
from acc.bootstrap.tracing import current_tracer
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import CardReport, Interface
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.contract import IntentContract
from acc.domain.value_objects.credentials import (
    ApiKey,
    BasicAuth,
    ClientCredentials,
    ClientTls,
    MutualTls,
    RemoteAuth,
    SignedJwt,
)
from acc.domain.value_objects.endpoint import (
    DownloadLimits,
    RemoteEndpoint,
    is_grpc_url,
    origin_of,
)
from acc.ports.outbound.auth_ports import CredentialsPort
from acc.ports.outbound.remote_ports import IntentCallerPort

if TYPE_CHECKING:
    from acc.adapters.a2a.client.client import A2AClient
    from acc.adapters.a2a.client.notifications import NotificationReceiver
    from acc.adapters.a2a.client.transport import GrpcOptions, Transport
    from acc.adapters.http.addresses import AllowList
    from acc.adapters.http.client import NetworkOptions


def make_remote(endpoint: RemoteEndpoint, *, allow: Sequence[str] = ()) -> "A2AClient":
    """Return the client of a remote agent.

    Non-public addresses are allowed by the endpoint, by `allow`, and by the comma-separated
    environment variable ACC_ALLOW.
    """
    try:
        from acc.adapters.a2a.client.client import A2AClient
    except ModuleNotFoundError as error:
        raise missing_a2a(error) from None

    allowed = (*allow, *allowed_hosts())
    if is_grpc_url(endpoint.url):
        silence_grpc()
    return A2AClient(
        endpoint,
        credentials=make_credentials(endpoint, allowed),
        allow=allowed,
        network=_client_network(endpoint),
        circuits=shared_circuits(),
        tracer=current_tracer(),
        grpc=_make_grpc_transport if _has_grpc() else None,
    )


def missing_a2a(error: ModuleNotFoundError) -> InvalidInput:
    """Return the error for a missing package of the extra `a2a`."""
    return InvalidInput(
        f"A2A needs the package {error.name}; install it: pip install 'acc-agents[a2a]'"
    )


@cache
def _has_grpc() -> bool:
    """Return True if the packages of the extra `grpc` are installed."""
    return find_spec("grpc") is not None


def _make_grpc_transport(interface: Interface, options: "GrpcOptions") -> "Transport":
    from acc.adapters.a2a.client.grpc_transport import GrpcTransport

    return GrpcTransport(interface, options)


def _client_network(endpoint: RemoteEndpoint) -> "NetworkOptions | None":
    """Return the network options of an endpoint that has files for TLS, else None."""
    options = endpoint.auth if isinstance(endpoint.auth, Sequence) else (endpoint.auth,)
    tls = endpoint.tls
    for auth in options:
        if tls is None and isinstance(auth, MutualTls):
            tls = ClientTls(cert=auth.cert, key=auth.key, ca=auth.ca)
    if tls is None:
        return None
    return make_client_network(tls, {endpoint.origin, *map(origin_of, endpoint.trust)})


def make_client_network(
    tls: ClientTls | None, origins: Collection[str], *, idle_connections: int = 20
) -> "NetworkOptions":
    """Return network options with files for TLS, which are used with these origins only."""
    from acc.adapters.auth.certificates import client_tls_context
    from acc.adapters.http.client import NetworkOptions

    if tls is None:
        return NetworkOptions(idle_connections=idle_connections)
    return NetworkOptions(
        client_tls=client_tls_context(tls.cert, tls.key, tls.ca),
        client_tls_origins=origins,
        client_files=None if tls.cert is None else (tls.cert, tls.key),
        idle_connections=idle_connections,
    )


def make_credentials(endpoint: RemoteEndpoint, allow: Sequence[str]) -> CredentialsPort | None:
    """Return the credentials of an endpoint, None if it has none."""
    from acc.adapters.auth import credentials

    if endpoint.auth is None:
        token = resolve_token(endpoint.token)
        return credentials.BearerCredentials(token) if token else None
    if isinstance(endpoint.auth, Sequence):
        made = [(auth, _make_one(auth, endpoint, allow)) for auth in endpoint.auth]
        return credentials.CredentialChoice(made)
    return _make_one(endpoint.auth, endpoint, allow)


def _make_one(
    chosen: RemoteAuth, endpoint: RemoteEndpoint, allow: Sequence[str]
) -> CredentialsPort:
    from acc.adapters.auth import credentials

    match chosen:
        case ApiKey() as auth:
            return credentials.ApiKeyCredentials(auth, resolve_token(auth.value))
        case BasicAuth() as auth:
            return credentials.BasicCredentials(auth, resolve_reference(auth.password))
        case MutualTls():
            return credentials.CertificateCredentials()
        case SignedJwt() as auth:
            return credentials.SignedJwtCredentials(auth, audience=endpoint.origin)
        case ClientCredentials() as auth:
            return credentials.OAuthClient(
                auth,
                resolve_reference(auth.client_secret),
                origin=endpoint.origin,
                allow=(*endpoint.allow, *allow),
                insecure=endpoint.insecure,
            )


@dataclass(kw_only=True, eq=False)
class RemoteAgent(A2ARemoteAgent):
    """An agent of another server, called over A2A. It can be used wherever an agent can.

    `url` is the URL of its card or its base URL. `token` is a bearer token, or "env:NAME" for an
    environment variable; it is sent to the origin of `url` and to the origins in `trust` only.
    Addresses that are not public must be in `allow`, or in the environment variable ACC_ALLOW.

    If the remote task needs input, the run pauses with the same request, and the answer is sent to
    that task, whichever process resumes. A session uses one remote context. A message that may not
    have arrived is sent again with the same id, `retries` times.

    `auth` presents other credentials than a token, or a list of which the security requirements of
    the card decide: `ClientCredentials`, `SignedJwt`, `ApiKey`, `BasicAuth` or
    `MutualTls`. Credentials are sent over https or to loopback only, unless `insecure` is True.

    After `max_failures` messages in a row that got no answer, messages fail at once, with the time
    of the next attempt, for `recovery` seconds; then one message is the probe. 0 turns that off.

    `mode` selects how the task is followed: "stream", "poll", or "push" for a server that sends
    notifications to `receiver`. The default is what the card offers.
    """

    _clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    async def call(
        self,
        intent: str,
        inputs: Mapping[str, JsonData],
        *,
        context: Mapping[str, JsonData] | None = None,
        ctx: RunContext | None = None,
    ) -> IntentOutputs:
        """Call an intent and return its outputs, which say whether they were repeated.

        Inputs that violate the contract on the card raise InvalidInputs, and nothing is sent.
        `context` are claims such as `user_id`. Inside a run, pass its context as `ctx`, so that the
        ids of the run and its permissions are sent.
        """
        claims = dict(context or {})
        message_id, marks = new_id(), {}
        if ctx is not None:
            run = outgoing_context(ctx, has_credentials=bool(self.token or self.auth))
            if "request_id" not in claims:  # the id of the run, which may make several calls
                run["idempotency_key"] = message_id
            claims = {**run, **claims}
            marks = provenance_marks(ctx, encode_json(inputs))
        return await call_remote_intent(
            self._client() if ctx is None else self.port(ctx),
            intent,
            inputs,
            schemas=LazySchemaValidator(),
            message_id=message_id,
            context=claims,
            marks=marks,
        )

    async def contracts(self) -> tuple[IntentContract, ...]:
        """Return the contracts on the card of the agent."""
        return tuple(contracts_on_card(await self._client().card()).values())

    def _client(self) -> "A2AClient":
        """Return the client of calls outside of runs: its token, card and circuit are kept.

        Each event loop has one of its own.
        """
        loop, endpoint = asyncio.get_running_loop(), self.endpoint
        known: tuple[RemoteEndpoint, A2AClient] | None = self._clients.get(loop)
        if known is None or known[0] != endpoint:
            known = self._clients[loop] = (endpoint, make_remote(endpoint))
        return known[1]


def make_intent_caller(*, allow: Sequence[str] = ()) -> IntentCallerPort:
    """Return the caller of intents; non-public addresses must be in `allow` or ACC_ALLOW."""
    from acc.adapters.a2a.client.intents import HttpIntentCaller

    return HttpIntentCaller(
        allow=(*allow, *allowed_hosts()),
        resolve_token=resolve_token,
        tracer=current_tracer(),
        circuits=shared_circuits(),
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


async def inspect_card(endpoint: RemoteEndpoint, *, key: Path | None = None) -> CardReport:
    """Fetch and validate the card of an endpoint, and its signature if there is a `key`."""
    try:
        from acc.adapters.a2a.client import card_validation
        from acc.adapters.auth.card_signatures import CardVerifier
        from acc.adapters.auth.keys import load_key
    except ModuleNotFoundError as error:
        raise missing_a2a(error) from None

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
