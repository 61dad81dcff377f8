"""Construct A2A servers: runner, stores, cards, signatures, notifications, HTTP."""

import asyncio
import dataclasses
import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from acc.application.a2a.card_builder import (
    PROTOCOL_VERSIONS,
    ExtendedCards,
    build_card,
    listed_contracts,
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
from acc.application.contracts.node_agents import TreeNode
from acc.application.runtime.run import Services
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.agents import Runner, check_models, make_services, make_stores
from acc.bootstrap.doctor import missing_grpc
from acc.bootstrap.engine import IN_PROCESS, make_engine
from acc.bootstrap.memory import version
from acc.bootstrap.settings import silence_grpc
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import AgentCard, CardConfig, CardFinding
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import (
    check_public_url,
    is_loopback_url,
    loopback_allow_entries,
)
from acc.domain.value_objects.run import RunConfig
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.auth_ports import (
    CertificateVerifierPort,
    NotificationSignerPort,
    TokenVerifierPort,
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
    from acc.adapters.auth.tokens import TokenEntry


log = logging.getLogger("acc.serve")
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
    the server. Workers of the `engine` execute the tasks, unless it is "in-process". `grpc` is the
    address of the gRPC server; the card names the host of `public_url`.
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
    cors_origins: Sequence[str] = ()
    engine: str | EnginePort = IN_PROCESS
    grpc: "GrpcAddress | None" = None


def make_server(agent: BaseAgent | TreeNode, options: ServeOptions | None = None) -> "A2AServer":
    """Return an ASGI application that serves an agent over A2A."""
    from acc.adapters.a2a.server.app import A2AServer
    from acc.adapters.a2a.server.dispatch import RPC_WIRES, StaticDocuments
    from acc.adapters.a2a.server.exchange import CorsPolicy
    from acc.adapters.a2a.server.intents import write_contracts
    from acc.adapters.a2a.server.openapi import openapi_document
    from acc.adapters.a2a.server.webhook_request import WebhookSender
    from acc.adapters.a2a.wire.card_codec import write_public_card
    from acc.adapters.http.client import check_url, guarded_client

    agent = agent.as_agent() if isinstance(agent, TreeNode) else agent
    options = options or ServeOptions()
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
    )
    contracts = serve.intents.contracts
    url = _published_url(options)
    every = build_card(
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
    card = public_card(every, contracts, config)
    extensions = tuple(extension.uri for extension in card.extensions)
    sign_card = options.sign_card or (lambda card: card)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(runner.aclose)
            stack.push_async_callback(tasks.aclose)
            if options.limiter is not None:
                stack.push_async_callback(options.limiter.aclose)
            delivery = None
            if can_push:
                client = await stack.enter_async_context(guarded_client(allow=options.allow))
                sender = WebhookSender(
                    client, wires=RPC_WIRES, signer=options.signer, extensions=extensions
                )
                delivery = PushDelivery(tasks=tasks, sender=sender)
            await stack.enter_async_context(serve.open(delivery))
            yield

    return A2AServer(
        serve,
        documents=StaticDocuments(
            card=write_public_card(sign_card(card)),
            extended_cards=ExtendedCards(
                agent, every, contracts=contracts, config=config, sign=sign_card
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


def _make_grpc_address(
    host: str,
    port: int,
    *,
    certificate: Path | None,
    private_key: Path | None,
    client_authority: Path | None,
) -> "GrpcAddress":
    """Return the address of a gRPC server, or raise InvalidInput without the extra `grpc`."""
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
    """Return what is wrong with the card that a file declares for an agent."""
    return check_card(agent, read_card(path), make_services())


def make_task_store(
    store: str | Path, sessions: Any, clock: ClockPort, app_name: str
) -> tuple[TaskStorePort, UnitOfWork]:
    """Return the task store beside the sessions, and the unit of work over both."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if location is None:
        from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore
        from acc.adapters.storage.unit_of_work import SequentialUnitOfWork

        memory = InMemoryTaskStore(clock=clock, app_name=app_name)
        return memory, SequentialUnitOfWork(sessions=sessions, tasks=memory)
    if isinstance(location, PostgresLocation):
        from acc.adapters.storage.postgres_tasks import PostgresTaskStore, PostgresUnitOfWork

        shared = PostgresTaskStore(sessions.database, clock=clock, app_name=app_name)
        return shared, PostgresUnitOfWork(sessions=sessions, tasks=shared)
    from acc.adapters.storage.sqlite_tasks import SqliteTaskStore, SqliteUnitOfWork

    tasks = SqliteTaskStore(sessions.database, clock=clock, app_name=app_name)
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
        """Sign the card as it is sent, and as clients see it that know only the fields of 1.0."""
        unsigned = replace(card, signatures=())
        content = card_content(unsigned)
        forms = [merged_card(unsigned), content, drop_empty(content)]
        unique = [form for index, form in enumerate(forms) if form not in forms[:index]]
        return replace(card, signatures=tuple(sign_card(form, key) for form in unique))

    return sign


def make_verifier(
    *,
    tokens: Path | None = None,
    issuers: Sequence[str] = (),
    audience: Sequence[str] = (),
    default_scopes: Sequence[str] = (),
    allow: Sequence[str] = (),
) -> TokenVerifierPort | None:
    """Return a verifier for a token file and OIDC issuers, None if there is neither.

    An issuer is a URL, or PREFIX=URL. A loopback issuer needs no entry in `allow`.
    """
    from acc.adapters.auth.jwt_verifier import JwtVerifier, TrustedIssuer, VerifierChain
    from acc.adapters.auth.tokens import TokenFile

    verifiers: list[TokenVerifierPort] = []
    if tokens is not None:
        verifiers.append(TokenFile(tokens))
    if issuers:
        trusted = [
            TrustedIssuer(
                issuer=url, prefix=prefix, audience=audience, default_scopes=default_scopes
            )
            for prefix, url in map(split_issuer, issuers)
        ]
        if tokens is not None and not all(issuer.prefix for issuer in trusted):
            raise InvalidInput(
                "with --tokens an issuer needs a prefix, such as --oidc "
                "staff=https://login.example.com, so that its callers differ from those of the file"
            )
        urls = [issuer.issuer for issuer in trusted if is_loopback_url(issuer.issuer)]
        loopback = [entry for url in urls for entry in loopback_allow_entries(url)]
        verifiers.append(JwtVerifier(trusted, allow=(*allow, *loopback)))
    return VerifierChain(verifiers) if len(verifiers) > 1 else next(iter(verifiers), None)


def make_certificates(
    *, proxies: Sequence[str] = (), header: str, permissions: Sequence[str] = ()
) -> CertificateVerifierPort:
    """Return the verifier of client certificates; no permissions mean all."""
    from acc.adapters.auth.certificates import ClientCertificates

    return ClientCertificates(proxies=proxies, header=header, permissions=permissions or None)


def make_limiter(
    rates: Sequence[str],
    *,
    bytes_per_caller: Sequence[str] = (),
    tools: Sequence[str] = (),
    tokens_per_day: int | None = None,
    cost_per_day: float | None = None,
    store: str = "memory",
    on_failure: Literal["allow", "deny"] = "allow",
) -> RateLimiterPort | None:
    """Return a rate limiter, None if there is no limit.

    A rate is like "100/minute", or "INTENT=100/minute" for one intent. Those of tools are like
    "TOOL=100/minute".
    """
    limits = (*rates, *bytes_per_caller, *tools, tokens_per_day, cost_per_day)
    if all(limit is None for limit in limits):
        return None
    from acc.adapters.system.rate_limits import RateLimiter

    intents, per_tool = _rates_by_name(rates), _rates_by_name(tools)
    if "" in per_tool:
        raise InvalidInput(f"a rate of a tool is written TOOL=RATE, got {per_tool[''][0]!r}")
    return RateLimiter(
        intents.pop("", []),
        per_intent=intents,
        per_tool=per_tool,
        bytes_per_caller=bytes_per_caller,
        tokens_per_day=tokens_per_day,
        cost_per_day=cost_per_day,
        store=store,
        on_failure=on_failure,
    )


def _rates_by_name(rates: Sequence[str]) -> dict[str, list[str]]:
    """Return rates that are written RATE or NAME=RATE by their name."""
    by_name: dict[str, list[str]] = {}
    for rate in rates:
        name, _, value = rate.rpartition("=")
        by_name.setdefault(name, []).append(value)
    return by_name


def split_issuer(text: str) -> tuple[str, str]:
    """Return prefix and URL of an issuer that is written as URL or PREFIX=URL."""
    prefix, separator, url = text.partition("=")
    return (prefix, url) if separator and "/" not in prefix else ("", text)


def add_token(
    path: Path,
    *,
    caller: str,
    tenant: str = "",
    permissions: Collection[str] | None = None,
    expires: float | None = None,
) -> str:
    """Append the hash of a new token to a file and return the token."""
    from acc.adapters.auth.tokens import TokenEntry, append_entry, new_token, token_hash

    token = new_token()
    entry = TokenEntry(
        sha256=token_hash(token),
        caller=caller,
        tenant=tenant,
        permissions=permissions,
        expires=expires,
    )
    append_entry(path, entry)
    return token


def read_tokens(path: Path) -> "list[TokenEntry]":
    """Return the entries of a token file."""
    from acc.adapters.auth.tokens import read_entries

    return read_entries(path)


def connection_limits(head_seconds: float) -> "ConnectionLimits":
    """Return connection limits with at most this time for the headers of a request."""
    from acc.adapters.a2a.server.asgi import ConnectionLimits

    return ConnectionLimits(head=min(head_seconds, ConnectionLimits().head))


async def check_store(store: str | Path) -> None:
    """Raise StorageFailed if a store cannot be opened."""
    from acc.adapters.system.clock import SystemClock

    sessions, _ = make_stores(store, SystemClock())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sessions.aclose)
        await sessions.read(SessionKey(app_name="acc", user_id="acc", session_id="start"))


async def check_engine(engine: str | EnginePort, store: str | Path) -> None:
    """Raise Unavailable or InvalidInput if an engine cannot be used."""
    made = make_engine(engine, store)
    if made is not None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(made.aclose)
            await made.connect()


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
    The options are made once the address is known, because port 0 selects a free port.
    """
    from acc.adapters.a2a.server.uvicorn import bind, run, tls_context

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
                grpc=_make_grpc_address(
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
        server = make_server(agent, options)
        stack.pop_all()
    return run(
        server,
        listener,
        limits=options.connections,
        tls=tls,
        on_ready=lambda: on_ready(options),
    )
