"""Construct A2A servers: runner, stores, cards, signatures, notifications, HTTP."""

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from acc.application.a2a.card_builder import (
    PROTOCOL_VERSIONS,
    ExtendedCards,
    build_card,
    listed_contracts,
    listed_names,
    public_card,
)
from acc.application.a2a.card_checks import check_card, require_valid
from acc.application.a2a.media_modes import served_modes
from acc.application.a2a.quotas import ToolLimits
from acc.application.a2a.requests import ServerLimits
from acc.application.a2a.webhook_retries import PushDelivery
from acc.application.agents.base import BaseAgent
from acc.application.agents.callbacks import Plugin
from acc.application.agents.dependencies import check_deps, required_deps
from acc.application.contracts.intents import Intents
from acc.application.contracts.node_agents import TreeNode
from acc.application.runtime.run import Services
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.a2a_client import missing_a2a
from acc.bootstrap.agents import Runner, check_models, make_services, make_stores
from acc.bootstrap.callers import make_used_ids
from acc.bootstrap.doctor import missing_grpc
from acc.bootstrap.engine import IN_PROCESS, make_engine
from acc.bootstrap.events import check_relay, running_relay
from acc.bootstrap.memory import version
from acc.bootstrap.settings import silence_grpc
from acc.bootstrap.tracing import current_metrics_page
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import AgentCard, CardConfig, CardFinding
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import (
    check_public_url,
    is_loopback_url,
)
from acc.domain.value_objects.run import RunConfig
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.auth_ports import (
    CertificateVerifierPort,
    NotificationSignerPort,
    TokenVerifierPort,
    UsedIdsPort,
)
from acc.ports.outbound.engine_ports import EnginePort
from acc.ports.outbound.limit_ports import RateLimiterPort
from acc.ports.outbound.storage_ports import TaskStorePort, UnitOfWork
from acc.ports.outbound.system_ports import ClockPort

if TYPE_CHECKING:
    from acc.adapters.a2a.server.app import A2AServer
    from acc.adapters.a2a.server.asgi import ConnectionLimits
    from acc.adapters.a2a.server.dispatch import RequestDispatcher
    from acc.adapters.a2a.server.grpc import GrpcAddress, GrpcServer
    from acc.adapters.ag_ui.endpoint import AgUiEndpoint


log = logging.getLogger("acc.serve")
_AG_UI_PATH = "/ag-ui"
DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Options of a server.

    `public_url` is the URL on the card; by default that of `card`, else the local address. `store`
    is "memory", the path of a SQLite file, or a PostgreSQL URL. `allow` lists hosts and networks
    that this server may call although they are not public. `hosts` are the host names that it
    accepts; None accepts all. `sign_card` returns a card with its signatures. `public_keys` is the
    JWK set of the signers. `connections` limits slow clients. With `anonymous_listing` anonymous
    callers may list tasks. Without `deduplicate` a repeated message is a new message. `issuers` are
    the OIDC issuers that the card names. `cors_origins` are the web origins whose pages may call
    the server. `used_ids` stores the nonces of requests; by default they are in `store`. Workers of
    the `engine` execute the tasks, unless it is "in-process". `grpc` is the address of the gRPC
    server; the card names the host of `public_url`. With `ag_ui`, front ends can run the agent over
    AG-UI at `/ag-ui`. Events that agents publish are sent to `events_to`, the URL of a carrier.
    """

    public_url: str = ""
    card: CardConfig | None = None
    store: str | Path = "memory"
    verifier: TokenVerifierPort | None = None
    certificates: CertificateVerifierPort | None = None
    allow: Sequence[str] = ()
    hosts: Sequence[str] | None = None
    limits: ServerLimits | None = None
    connections: "ConnectionLimits | None" = None
    config: RunConfig | None = None
    signer: NotificationSignerPort | None = None
    push: bool = True
    sign_card: Callable[[AgentCard], AgentCard] | None = None
    public_keys: Mapping[str, Any] | None = None
    agent_version: str = ""
    protocol_versions: Sequence[str] = PROTOCOL_VERSIONS
    deduplicate: bool = True
    anonymous_listing: bool = False
    deps: object = None
    plugins: Sequence[Plugin] = ()
    issuers: Sequence[str] = ()
    limiter: RateLimiterPort | None = None
    used_ids: UsedIdsPort | None = None
    cors_origins: Sequence[str] = ()
    engine: str | EnginePort = IN_PROCESS
    grpc: "GrpcAddress | None" = None
    ag_ui: bool = False
    events_to: str = ""


def make_server(agent: BaseAgent | TreeNode, options: ServeOptions | None = None) -> "A2AServer":
    """Return an ASGI application that serves an agent over A2A."""
    from acc.adapters.a2a.server.app import A2AServer
    from acc.adapters.a2a.server.dispatch import RPC_WIRES, StaticDocuments
    from acc.adapters.a2a.server.http_exchange import CorsPolicy
    from acc.adapters.a2a.server.intents import write_contracts
    from acc.adapters.a2a.server.openapi import openapi_document
    from acc.adapters.a2a.server.webhook_request import WebhookSender
    from acc.adapters.a2a.wire.card_codec import write_public_card
    from acc.adapters.http.client import check_url, guarded_client

    agent = agent.as_agent() if isinstance(agent, TreeNode) else agent
    options = _validate(options or ServeOptions())
    requires_auth = options.verifier is not None or options.certificates is not None
    check_models(agent)
    services = make_services(store=options.store, allow=options.allow)
    runner = _make_runner(agent, options, services)
    tasks, storage = make_task_store(options.store, services.sessions, services.clock, agent.name)
    config = options.card or CardConfig()
    can_push = options.push and config.push_notifications is not False
    require_valid(
        check_card(agent, config, services, requires_auth=requires_auth, can_push=can_push)
    )
    used_ids = _used_ids(options)
    serve = ServeA2AUseCase(
        runner,
        tasks=tasks,
        storage=storage,
        limits=options.limits,
        check_url=(lambda url: check_url(url, options.allow)) if can_push else None,
        deduplicate=options.deduplicate,
        anonymous_listing=options.anonymous_listing,
        limiter=options.limiter,
        modes=served_modes(agent, services, config),
        skills=config.skills,
        listed_intents=listed_names(Intents(agent).names, config),
        used_ids=used_ids,
    )
    contracts = serve.intents.contracts
    url = _published_url(options)
    full_card = build_card(
        agent,
        url=url,
        version=options.agent_version or version(),
        requires_auth=options.verifier is not None,
        mutual_tls=options.certificates is not None,
        can_push=can_push,
        modes=served_modes(agent, services),
        protocol_versions=options.protocol_versions,
        contracts=contracts,
        issuers=options.issuers,
        config=config,
        grpc_target=_grpc_target(options, url),
    )
    card = public_card(full_card, contracts, config)
    extensions = tuple(extension.uri for extension in card.extensions)
    sign_card = options.sign_card or (lambda card: card)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(runner.aclose)
            stack.push_async_callback(tasks.aclose)
            for counter in (options.limiter, used_ids):
                if counter is not None:
                    stack.push_async_callback(counter.aclose)
            await stack.enter_async_context(running_relay(runner, options.events_to))
            delivery = None
            if can_push:
                sender = WebhookSender(
                    await stack.enter_async_context(guarded_client(allow=options.allow)),
                    wires=RPC_WIRES,
                    signer=options.signer,
                    extensions=extensions,
                    tracer=services.tracer,
                )
                delivery = PushDelivery(tasks=tasks, sender=sender, tracer=services.tracer)
            await stack.enter_async_context(serve.open(delivery))
            yield

    return A2AServer(
        serve,
        documents=StaticDocuments(
            card=write_public_card(sign_card(card)),
            extended_cards=ExtendedCards(
                agent, full_card, contracts=contracts, config=config, sign=sign_card
            )
            if card.extended_card
            else None,
            openapi=openapi_document(card, listed_contracts(contracts, card.skills)),
            contracts=write_contracts(
                card.name, card.version, listed_contracts(contracts, card.skills)
            ),
            last_modified=formatdate(services.clock.now(), usegmt=True).encode(),
            keys=json.dumps(options.public_keys).encode() if options.public_keys else b"",
            extensions=extensions,
        ),
        verifier=options.verifier,
        certificates=options.certificates,
        limiter=options.limiter,
        hosts=options.hosts,
        cors=CorsPolicy(options.cors_origins) if options.cors_origins else None,
        protocol_versions=options.protocol_versions,
        lifespan=lifespan,
        make_grpc=_grpc_factory(options, serve.limits),
        metrics_page=current_metrics_page(),
        endpoints={_AG_UI_PATH: _make_ag_ui(serve, options)} if options.ag_ui else None,
    )


def _validate(options: ServeOptions) -> ServeOptions:
    """Return the options, or raise InvalidInput if one has a wrong type."""
    for name, value, is_valid, expected in (
        ("limits", options.limits, isinstance(options.limits, ServerLimits), "ServerLimits(...)"),
        ("card", options.card, isinstance(options.card, CardConfig), "a CardConfig or read_card()"),
        ("hosts", options.hosts, not isinstance(options.hosts, str), "a list of host names"),
        ("allow", options.allow, not isinstance(options.allow, str), "a list of hosts"),
        ("verifier", options.verifier, hasattr(options.verifier, "verify"), "a token verifier"),
        ("limiter", options.limiter, hasattr(options.limiter, "count_request"), "a RateLimiter"),
        ("used_ids", options.used_ids, hasattr(options.used_ids, "claim"), "UsedIds(...)"),
    ):
        if value is not None and not is_valid:
            # The value may be a token.
            raise InvalidInput(f"{name} must be {expected}, got {type(value).__name__}")
    return options


def _used_ids(options: ServeOptions) -> UsedIdsPort | None:
    """Return the nonces of requests; servers with the same store share them."""
    if options.used_ids is None and options.limits and options.limits.replay_window is not None:
        return make_used_ids(options.store)
    return options.used_ids


def _make_ag_ui(serve: ServeA2AUseCase, options: ServeOptions) -> "AgUiEndpoint":
    try:
        from acc.adapters.ag_ui.endpoint import AgUiEndpoint
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"AG-UI needs {error.name}; install it: pip install 'acc-agents[ag-ui]'"
        ) from None
    return AgUiEndpoint(
        serve.runner,
        admission=serve.admission,
        max_runs=serve.limits.streams,
        limiter=options.limiter,
    )


def _grpc_factory(
    options: ServeOptions, limits: ServerLimits
) -> "Callable[[RequestDispatcher], GrpcServer] | None":
    address = options.grpc
    if address is None:
        return None
    from acc.adapters.a2a.server.grpc import GrpcServer

    return lambda dispatcher: GrpcServer(
        dispatcher, address=address, limits=limits, protocol_versions=options.protocol_versions
    )


def _grpc_target(options: ServeOptions, url: str) -> str:
    """Return HOST:PORT of the gRPC server on the card with this URL, empty without one."""
    if options.grpc is None:
        return ""
    host = urlsplit(url).hostname or options.grpc.host
    is_local = is_loopback_url(url) or is_loopback_url(f"grpc://{options.grpc.target}")
    if options.verifier is not None and options.grpc.certificate is None and not is_local:
        log.warning(
            "the gRPC server at %s does not encrypt tokens; use TLS (--tls-cert), or a proxy with "
            "TLS in front of it",
            options.grpc.target,
        )
    return f"[{host}]:{options.grpc.port}" if ":" in host else f"{host}:{options.grpc.port}"


def make_grpc_address(
    host: str,
    port: int,
    *,
    certificate: Path | None = None,
    private_key: Path | None = None,
    client_authority: Path | None = None,
) -> "GrpcAddress":
    """Return the address of a gRPC server, or raise InvalidInput without the extra `grpc`."""
    if type(port) is not int or not 0 < port < 65536:
        raise InvalidInput(f"the port of gRPC must be a number from 1 to 65535, got {port!r}")
    if not isinstance(host, str) or not host:
        raise InvalidInput(f"the host of gRPC must be an address such as 127.0.0.1, got {host!r}")
    silence_grpc()
    try:
        from acc.adapters.a2a.server.grpc import GrpcAddress
    except ModuleNotFoundError as error:
        raise missing_grpc(error) from None

    return GrpcAddress(
        host=host,
        port=port,
        certificate=certificate,
        private_key=private_key,
        client_authority=client_authority,
    )


def _make_runner(agent: BaseAgent, options: ServeOptions, services: Services) -> Runner:
    engine = make_engine(options.engine, options.store)
    check_relay(options.store, options.events_to)
    if engine is None:  # otherwise the workers have the dependencies
        check_deps(required_deps(agent), options.deps)
    return Runner(
        agent,
        app_name=agent.name,
        services=services,
        config=options.config,
        deps=options.deps,
        plugins=options.plugins
        if options.limiter is None
        else (ToolLimits(options.limiter), *options.plugins),
        engine=engine or IN_PROCESS,
    )


def _published_url(options: ServeOptions) -> str:
    """Return the URL on the card, or raise InvalidInput if clients cannot call it."""
    declared = "" if options.card is None else options.card.url
    url = options.public_url or declared or DEFAULT_URL
    check_public_url(url)
    if options.verifier is not None and url.startswith("http:") and not is_loopback_url(url):
        log.warning(
            "callers send their tokens to %s without encryption; use TLS (--tls-cert), or a proxy "
            "with TLS and --public-url https://...",
            url,
        )
    return url


def read_card(path: Path) -> CardConfig:
    """Return the card that a JSON or TOML file declares, or raise InvalidInput."""
    from acc.adapters.a2a.server.card_file import read_card_file

    return read_card_file(path)


def check_card_file(agent: BaseAgent, path: Path) -> list[CardFinding]:
    """Return the findings about the card that a file declares for an agent."""
    return check_card(agent, read_card(path), make_services())


def make_task_store(
    store: str | Path, sessions: Any, clock: ClockPort, app_name: str
) -> tuple[TaskStorePort, UnitOfWork]:
    """Return the task store beside the sessions, and the unit of work over both."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if location is None:
        from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore, SequentialUnitOfWork

        memory = InMemoryTaskStore(clock=clock, app_name=app_name, lease=sessions.lease)
        return memory, SequentialUnitOfWork(sessions=sessions, tasks=memory)
    if isinstance(location, PostgresLocation):
        from acc.adapters.storage.postgres_tasks import PostgresTaskStore, PostgresUnitOfWork

        shared = PostgresTaskStore(
            sessions.database, clock=clock, app_name=app_name, lease=sessions.lease
        )
        return shared, PostgresUnitOfWork(sessions=sessions, tasks=shared)
    from acc.adapters.storage.sqlite_tasks import SqliteTaskStore, SqliteUnitOfWork

    tasks = SqliteTaskStore(sessions.database, clock=clock, app_name=app_name, lease=sessions.lease)
    return tasks, SqliteUnitOfWork(sessions=sessions, tasks=tasks)


def hmac_signer(secret: str) -> NotificationSignerPort:
    """Return a signer of notifications with a shared secret."""
    from acc.adapters.auth.notification_signatures import HmacSigner

    return HmacSigner(secret)


def jwt_signer(
    key_file: Path, *, issuer: str, bearer: bool
) -> tuple[NotificationSignerPort, Mapping[str, Any]]:
    """Return a signer of notifications with a private key, and its public JWK set."""
    from acc.adapters.auth.keys import load_key, public_key_set
    from acc.adapters.auth.notification_signatures import JwtSigner

    key = load_key(key_file)
    return JwtSigner(key, issuer=issuer, bearer=bearer), public_key_set([key])


def card_signer(key_file: Path) -> Callable[[AgentCard], AgentCard]:
    """Return a function that signs cards with the private key of a file."""
    from acc.adapters.a2a.wire.card_codec import card_content, merged_card
    from acc.adapters.auth.card_signatures import drop_empty, sign_card
    from acc.adapters.auth.keys import load_key

    key = load_key(key_file)

    def sign(card: AgentCard) -> AgentCard:
        """Sign the card as it is sent, and its content with only the fields of 1.0."""
        unsigned = replace(card, signatures=())
        content = card_content(unsigned)
        forms = [merged_card(unsigned), content, drop_empty(content)]
        unique = [form for index, form in enumerate(forms) if form not in forms[:index]]
        return replace(card, signatures=tuple(sign_card(form, key) for form in unique))

    return sign


def connection_limits(head_seconds: float) -> "ConnectionLimits":
    """Return connection limits with at most this time for the headers of a request."""
    from acc.adapters.a2a.server.asgi import ConnectionLimits

    return ConnectionLimits(head=min(head_seconds, ConnectionLimits().head))


async def check_store(store: str | Path) -> None:
    """Raise StorageFailed if a store cannot be opened, or not be written."""
    from acc.adapters.system.clock import SystemClock

    sessions, _ = make_stores(store, SystemClock())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sessions.aclose)
        # This locks for writing and keeps every session, because all were used since then.
        key = SessionKey(app_name="acc", user_id="acc", session_id="start")
        await sessions.delete_unused({key}, since=0.0)


async def check_shared_counters(options: ServeOptions) -> None:
    """Raise StorageFailed if counters are unusable; warn if they do not respond now."""
    shared = [counters for counters in (options.limiter, options.used_ids) if counters is not None]
    if shared:
        from acc.bootstrap.counters import check_counters

        for counters in shared:
            await check_counters(counters)


async def check_engine(engine: str | EnginePort, store: str | Path) -> None:
    """Raise Unavailable or InvalidInput if an engine cannot be used."""
    port = make_engine(engine, store)
    if port is not None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(port.aclose)
            await port.connect()


def serve_forever(
    agent: BaseAgent,
    make_options: Callable[[str], ServeOptions],
    *,
    host: str,
    port: int,
    on_ready: Callable[[ServeOptions], None],
    grpc_port: int | None = None,
    certificate: Path | None = None,
    private_key: Path | None = None,
    client_authority: Path | None = None,
) -> bool:
    """Serve until a signal is received; return True if the server started.

    With a certificate chain and its private key, both PEM files, the server uses TLS. Clients may
    then present certificates of `client_authority`.
    `make_options` is called when the address is known, because port 0 selects a free port.
    """
    try:
        from acc.adapters.a2a.server.uvicorn import bind, run, tls_context
    except ModuleNotFoundError as error:
        raise missing_a2a(error) from None

    tls = None if certificate is None else tls_context(certificate, private_key, client_authority)
    listener = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    with ExitStack() as stack:
        stack.callback(listener.close)
        options = make_options(
            f"{'http' if tls is None else 'https'}://{name}:{listener.getsockname()[1]}"
        )
        if grpc_port is not None:
            # The socket reserves the port until the server listens there.
            reserved = stack.enter_context(bind(host, grpc_port, option="--grpc-port"))
            options = dataclasses.replace(
                options,
                grpc=make_grpc_address(
                    host,
                    reserved.getsockname()[1],
                    certificate=certificate,
                    private_key=private_key,
                    # Callers with a token have no certificate.
                    client_authority=client_authority if options.verifier is None else None,
                ),
            )
        asyncio.run(check_store(options.store))
        asyncio.run(check_engine(options.engine, options.store))
        asyncio.run(check_shared_counters(options))
        server = make_server(agent, options)
        stack.pop_all()
    return run(
        server,
        listener,
        limits=options.connections,
        tls=tls,
        on_ready=lambda: on_ready(options),
    )
