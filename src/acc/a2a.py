"""Serve agents over A2A, and receive and verify their push notifications.

Requires the extra `a2a`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

try:
    from acc.adapters.a2a.client.notifications import NotificationReceiver
    from acc.adapters.a2a.server.app import A2AServer
    from acc.adapters.auth.bearer_tokens import (
        StaticTokens,
        TokenEntry,
        TokenFile,
        new_token,
        token_hash,
    )
    from acc.adapters.auth.certificates import ClientCertificates
    from acc.adapters.auth.jwt_verifier import JwtVerifier, TrustedIssuer, VerifierChain
    from acc.adapters.auth.keys import (
        SigningKey,
        generate_key,
        load_key,
        public_key_set,
        read_key_set,
    )
    from acc.adapters.auth.notification_signatures import (
        HmacSigner,
        JwtSigner,
        NotificationVerifier,
        verify_notification,
    )
    from acc.bootstrap.counters import RateLimiter, UsedIds
except ModuleNotFoundError as error:
    raise ImportError(
        f"acc.a2a requires the package {error.name}; install acc-agents[a2a]"
    ) from error

from acc.application.a2a.card_builder import PROTOCOL_VERSIONS
from acc.application.a2a.requests import ServerLimits
from acc.application.agents.base import BaseAgent
from acc.application.agents.callbacks import Plugin
from acc.application.contracts.node_agents import TreeNode
from acc.application.runtime.type_variables import AnyDepsT
from acc.bootstrap.a2a import (
    ServeOptions,
    card_signer,
    make_grpc_address,
    make_server,
    read_card,
)
from acc.bootstrap.a2a_client import make_receiver, receive_notifications
from acc.domain.value_objects.agent_card import CardConfig, Provider, Skill
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.auth_ports import (
    CertificateVerifierPort,
    NotificationSignerPort,
    TokenVerifierPort,
    UsedIdsPort,
)
from acc.ports.outbound.limit_ports import RateLimiterPort

__all__ = [
    "A2AServer",
    "CardConfig",
    "CertificateVerifierPort",
    "ClientCertificates",
    "HmacSigner",
    "JwtSigner",
    "JwtVerifier",
    "NotificationReceiver",
    "NotificationSignerPort",
    "NotificationVerifier",
    "Principal",
    "Provider",
    "RateLimiter",
    "RateLimiterPort",
    "ServerLimits",
    "SigningKey",
    "Skill",
    "StaticTokens",
    "TokenEntry",
    "TokenFile",
    "TokenVerifierPort",
    "TrustedIssuer",
    "UsedIds",
    "UsedIdsPort",
    "VerifierChain",
    "create_app",
    "generate_key",
    "load_key",
    "make_receiver",
    "new_token",
    "public_key_set",
    "read_card",
    "read_key_set",
    "receive_notifications",
    "token_hash",
    "verify_notification",
]


def create_app(
    agent: BaseAgent[AnyDepsT] | TreeNode,
    *,
    public_url: str = "",
    card: CardConfig | None = None,
    store: str | Path = "memory",
    verifier: TokenVerifierPort | None = None,
    certificates: CertificateVerifierPort | None = None,
    limiter: RateLimiterPort | None = None,
    used_ids: UsedIdsPort | None = None,
    allow: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
    limits: ServerLimits | None = None,
    config: RunConfig | None = None,
    push: bool = True,
    signer: NotificationSignerPort | None = None,
    public_keys: Mapping[str, Any] | None = None,
    card_key: Path | None = None,
    version: str = "",
    protocol_versions: Sequence[str] = PROTOCOL_VERSIONS,
    deduplicate: bool = True,
    anonymous_listing: bool = False,
    cors_origins: Sequence[str] = (),
    deps: AnyDepsT | None = None,
    plugins: Sequence[Plugin[AnyDepsT]] = (),
    engine: str = "in-process",
    ag_ui: bool = False,
    grpc_port: int | None = None,
    grpc_host: str = "127.0.0.1",
    grpc_certificate: Path | None = None,
    grpc_private_key: Path | None = None,
    events_to: str = "",
) -> A2AServer:
    """Return an ASGI application that serves an agent over A2A.

    An application that mounts it must run its `lifespan`.

    Args:
        agent: The root agent, or a node with a contract.
        public_url: The URL under which clients reach the application; the card contains it.
            Default: the URL of `card`, else http://127.0.0.1:8000.
        card: What the card declares about the agent; `read_card` reads it from a file.
        store: "memory", or the path of a SQLite file.
        verifier: Verifies bearer tokens.
        certificates: Identifies callers by client certificates, such as `ClientCertificates`.
            Without it and without `verifier`, every caller is anonymous.
        limiter: Limits requests per caller, such as a `RateLimiter`; without it, there is no limit.
        used_ids: The nonces that were used, if `limits` has a `replay_window`. Default: in `store`,
            so that servers with the same store share them.
        allow: Hosts and networks that may be called although they are not public.
        hosts: Accepted Host headers; None accepts all.
        limits: Limits of requests, tasks and streams.
        config: Limits of each run.
        push: Whether clients may register push notifications.
        signer: Signs push notifications.
        public_keys: The JWK set of the signers, served at /.well-known/jwks.json.
        card_key: File with the private key that signs the card.
        version: Version of the agent in the card; default: the version of acc.
        protocol_versions: The A2A versions that are served.
        deduplicate: Whether a message with a known id returns the existing task.
        anonymous_listing: Whether anonymous callers may list tasks.
        cors_origins: Web origins whose pages may call the application; "*" allows all.
        deps: Dependencies of all runs, as `ctx.deps`.
        plugins: Callbacks for all agents.
        engine: "in-process", or the URL of a Temporal service whose workers execute the tasks.
        ag_ui: Whether front ends can run the agent over AG-UI at /ag-ui.
        grpc_port: The port of the gRPC binding, which starts and stops with the lifespan of the
            application. Without it there is no gRPC. The host of `public_url` is on the card.
        grpc_host: The address that the gRPC binding listens on.
        grpc_certificate: File with the certificate chain of the gRPC binding, for TLS.
        grpc_private_key: File with the private key of the certificate.
        events_to: The URL of the carrier to which events of the agents are sent from the store.
    """
    return make_server(
        agent,
        ServeOptions(
            public_url=public_url,
            card=card,
            store=store,
            verifier=verifier,
            certificates=certificates,
            limiter=limiter,
            used_ids=used_ids,
            allow=allow,
            hosts=hosts,
            limits=limits,
            config=config,
            push=push,
            signer=signer,
            public_keys=public_keys,
            sign_card=None if card_key is None else card_signer(card_key),
            agent_version=version,
            protocol_versions=protocol_versions,
            deduplicate=deduplicate,
            anonymous_listing=anonymous_listing,
            cors_origins=cors_origins,
            deps=deps,
            plugins=plugins,
            engine=engine,
            ag_ui=ag_ui,
            events_to=events_to,
            grpc=None
            if grpc_port is None
            else make_grpc_address(
                grpc_host,
                grpc_port,
                certificate=grpc_certificate,
                private_key=grpc_private_key,
            ),
        ),
    )
