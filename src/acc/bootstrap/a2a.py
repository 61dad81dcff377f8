"""What a server of agents is made of: runner, stores, cards, tokens, notifications, HTTP."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from acc.application.a2a.card_builder import card_of, extended_card_of
from acc.application.a2a.push import PushDelivery
from acc.application.a2a.requests import ServerLimits
from acc.application.agents.base import BaseAgent
from acc.application.doctor.server import is_loopback
from acc.application.use_cases.diagnose_server import DiagnoseServerUseCase
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.agents import Runner, check_models, make_services, make_stores
from acc.bootstrap.memory import version
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import AgentCard, Interface
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.endpoint import check_remote_url
from acc.domain.value_objects.run import RunConfig
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.auth_ports import NotificationSignerPort, TokenVerifierPort
from acc.ports.outbound.storage_ports import TaskStorePort, UnitOfWork
from acc.ports.outbound.system_ports import ClockPort

if TYPE_CHECKING:
    from acc.adapters.a2a.server.app import A2AServer
    from acc.adapters.a2a.server.asgi import ConnectionLimits


_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How agents are served.

    `store` is "memory" or the path of a SQLite file. `allow` lists hosts and networks that this
    server may call although they are not public. `hosts` are the names it answers to, None for all.
    `open_listing` lets callers without a name list tasks. `sign_card` returns a card with its
    signatures. `public_keys` is the JWK Set of those who sign. `connections` bounds how slow
    clients may be.
    """

    public_url: str = "http://127.0.0.1:8000"
    store: str | Path = "memory"
    verifier: TokenVerifierPort | None = None
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
    generations: Sequence[str] = ("1.0", "0.3")
    knows_repeats: bool = True
    open_listing: bool = False


def make_server(agent: BaseAgent, options: ServeOptions | None = None) -> "A2AServer":
    """Return an ASGI application that serves an agent over A2A."""
    from acc.adapters.a2a.server.app import WIRES, A2AServer, StaticDocuments
    from acc.adapters.a2a.server.openapi import openapi_document
    from acc.adapters.a2a.server.webhook import Webhook
    from acc.adapters.a2a.wire.card_codec import write_public_card
    from acc.adapters.http.client import check_url, guarded_client

    options = options or ServeOptions()
    check_models(agent)
    services = make_services(store=options.store, allow=options.allow)
    runner = Runner(agent, app_name=agent.name, services=services, config=options.config)
    tasks, storage = make_task_store(options.store, services.sessions, services.clock, agent.name)
    serve = ServeA2AUseCase(
        runner,
        tasks=tasks,
        storage=storage,
        limits=options.limits,
        check_url=(lambda url: check_url(url, options.allow)) if options.push else None,
        knows_repeats=options.knows_repeats,
        open_listing=options.open_listing,
    )
    card = card_of(
        agent,
        url=options.public_url,
        version=options.agent_version or version(),
        is_closed=options.verifier is not None,
        can_push=options.push,
    )
    card = replace(card, interfaces=_spoken(card, options.generations))
    sign = options.sign_card or _unsigned
    extended = sign(replace(card, skills=extended_card_of(agent, card)))
    openapi = openapi_document(card)
    card = sign(card)
    public, modern = write_public_card(card), WIRES["1.0"].write_card(card)

    @asynccontextmanager
    async def life() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(runner.aclose)
            stack.push_async_callback(tasks.aclose)
            if options.push:
                client = await stack.enter_async_context(guarded_client(allow=options.allow))
                webhook = Webhook(client, wires=WIRES, signer=options.signer)
                serve.background = [PushDelivery(tasks=tasks, deliver=webhook).run]
            await stack.enter_async_context(serve.open())
            yield

    return A2AServer(
        serve,
        documents=StaticDocuments(
            card=public if "0.3" in options.generations else modern,
            modern_card=modern,
            modified=formatdate(services.clock.now(), usegmt=True).encode(),
            extended=extended if options.verifier is not None else None,
            openapi=openapi,
            keys=json.dumps(options.public_keys).encode() if options.public_keys else b"",
            extensions=tuple(extension.uri for extension in card.extensions),
        ),
        verifier=options.verifier,
        hosts=options.hosts,
        generations=options.generations,
        life=life,
    )


def _unsigned(card: AgentCard) -> AgentCard:
    return card


def _spoken(card: AgentCard, generations: Sequence[str]) -> tuple[Interface, ...]:
    known = {interface.version for interface in card.interfaces}
    unknown = sorted(set(generations) - known)
    if unknown or not generations:
        named = ", ".join(unknown) or "none"
        raise InvalidInput(f"generations: {named}: there are {' and '.join(sorted(known))}")
    return tuple(held for held in card.interfaces if held.version in generations)


def make_task_store(
    store: str | Path, sessions: Any, clock: ClockPort, app_name: str
) -> tuple[TaskStorePort, UnitOfWork]:
    """Return the task store beside the sessions, and the unit of work over both."""
    from acc.adapters.storage.location import parse_location

    if parse_location(store) is None:
        from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore
        from acc.adapters.storage.unit_of_work import SequentialUnitOfWork

        memory = InMemoryTaskStore(clock=clock, app_name=app_name)
        return memory, SequentialUnitOfWork(sessions=sessions, tasks=memory)
    from acc.adapters.storage.sqlite_tasks import SqliteTaskStore, SqliteUnitOfWork

    tasks = SqliteTaskStore(sessions.database, clock=clock, app_name=app_name)
    return tasks, SqliteUnitOfWork(sessions=sessions, tasks=tasks)


def check_binding(host: str, *, is_closed: bool, unprotected: bool) -> None:
    """Refuse to open a server without tokens to the network, unless told so in so many words."""
    if is_closed or unprotected or host in _LOOPBACK or host.startswith("127."):
        return
    raise InvalidInput(
        f"without --tokens anyone who reaches {host} could use this agent; give --tokens FILE "
        "(make one with `acc token`), or say --unprotected if that is what you want"
    )


def check_public_url(url: str) -> None:
    """Refuse a URL that no client of the card could call."""
    try:
        check_remote_url(url)
    except InvalidInput as error:
        raise InvalidInput(f"--public-url: {error}") from None
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise InvalidInput(f"--public-url: {url!r} has a query or a fragment; leave them out")


def hosts_for(host: str, public_url: str) -> list[str]:
    """Return the names that an open server on loopback answers to."""
    return sorted({*_LOOPBACK, host, urlsplit(public_url).hostname or host})


PushSigning = Literal["hmac", "jwt", "bearer", "none"]


class Signing(NamedTuple):
    """Who signs notifications, once the server's own URL is known, and the keys to publish."""

    signer: Callable[[str], NotificationSignerPort | None]
    public_keys: Mapping[str, Any] | None = None


def push_signing(how: PushSigning | None, key: Path | None) -> Signing:
    """Return how notifications are signed, or raise InvalidInput for what does not fit together.

    Unless it is said, that is a JWT where a key is given, and else an HMAC where the environment
    holds a secret.
    """
    secret = os.environ.get("ACC_PUSH_SECRET", "")
    how = how or ("jwt" if key is not None else "hmac" if secret else "none")
    if how in ("hmac", "none"):
        if key is not None:
            raise InvalidInput(f"--push-key is for --push-signing jwt or bearer, not {how}")
        if how == "none":
            return Signing(lambda _: None)
        from acc.adapters.auth.notification_signatures import HmacSigner

        if not secret:
            raise InvalidInput("--push-signing hmac: set ACC_PUSH_SECRET to the shared secret")
        shared = HmacSigner(secret)
        return Signing(lambda _: shared)
    if key is None:
        raise InvalidInput(f"--push-signing {how}: give the private key with --push-key FILE")
    from acc.adapters.auth.keys import chosen_algorithm, load_key, public_keys
    from acc.adapters.auth.notification_signatures import JwtSigner

    private = load_key(key)
    try:
        chosen_algorithm(private)
    except InvalidInput as fault:
        raise InvalidInput(f"{key}: {fault}") from None
    is_bearer = how == "bearer"
    return Signing(
        lambda url: JwtSigner(private, issuer=url, bearer=is_bearer), public_keys([private])
    )


def card_signer(path: Path | None) -> Callable[[AgentCard], AgentCard] | None:
    """Return who signs cards with the private key of a file."""
    if path is None:
        return None
    from acc.adapters.a2a.wire.card_codec import card_content, merged_card
    from acc.adapters.auth.card_signatures import load_key, sign, without_empty

    key = load_key(path)

    def signed(card: AgentCard) -> AgentCard:
        """Sign a card as it is sent, and as those see it who know the fields of 1.0 only."""
        bare = replace(card, signatures=())
        content = card_content(bare)
        forms: list[dict[str, Any]] = []
        for form in (merged_card(bare), content, without_empty(content)):
            if form not in forms:
                forms.append(form)
        return replace(card, signatures=tuple(sign(form, key) for form in forms))

    return signed


def verifier_for(tokens: Path | None) -> TokenVerifierPort | None:
    """Return who checks callers, from a file of tokens."""
    if tokens is None:
        return None
    from acc.adapters.auth.tokens import StaticTokens

    return StaticTokens.from_file(tokens)


def connection_limits(seconds: float) -> "ConnectionLimits":
    """Return how slow clients may be that take this long to send the head of a request."""
    from acc.adapters.a2a.server.asgi import ConnectionLimits

    return ConnectionLimits(head=min(seconds, ConnectionLimits().head))


async def check_store(store: str | Path) -> None:
    """Refuse a store that cannot be opened, before anyone is told that the server is there."""
    from acc.adapters.system.clock import SystemClock

    sessions, _ = make_stores(store, SystemClock())
    try:
        await sessions.read(SessionKey(app_name="acc", user_id="acc", session_id="start"))
    finally:
        await sessions.aclose()


def serve_forever(
    agent: BaseAgent,
    options: Callable[[str], ServeOptions],
    *,
    host: str,
    port: int,
    on_ready: Callable[[ServeOptions], None],
) -> bool:
    """Listen and serve until a signal comes; return whether the server could start.

    The options are made once the address is known, which a port of 0 leaves to the machine.
    """
    from acc.adapters.a2a.server.uvicorn import bind, run

    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    try:
        chosen = options(f"http://{name}:{listening.getsockname()[1]}")
        asyncio.run(check_store(chosen.store))
        server = make_server(agent, chosen)
    except BaseException:
        listening.close()
        raise
    return run(server, listening, limits=chosen.connections, on_ready=lambda: on_ready(chosen))


@asynccontextmanager
async def examiner(
    url: str, *, allow: Sequence[str] = (), patience: float = 30.0
) -> AsyncIterator[DiagnoseServerUseCase]:
    """Return what examines servers, waiting so many seconds for each answer.

    A loopback URL that the user typed may be called.
    """
    from acc.adapters.http.client import STREAMING, guarded_client
    from acc.adapters.http.probe import HttpProbe
    from acc.adapters.system.clock import RandomIds

    allowed = [*allow, *_own(url)]
    async with guarded_client(allow=allowed, timeout=patience) as client:
        yield DiagnoseServerUseCase(HttpProbe(client, streaming=STREAMING), ids=RandomIds())


def _own(url: str) -> list[str]:
    """Return the host and port of a loopback URL as an entry of the allow-list."""
    if not is_loopback(url):
        return []
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return [f"{name}:{parts.port or (443 if parts.scheme == 'https' else 80)}"]
