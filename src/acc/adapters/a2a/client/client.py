"""A2A client: both protocol versions, all bindings."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import httpx2

from acc.adapters.a2a.client.follower import TaskAssembler, TaskFollower, cancel_task, get_task
from acc.adapters.a2a.client.transport import (
    RETRYABLE_STATUS,
    CallFailed,
    GrpcOptions,
    HttpTransport,
    MakeGrpcTransport,
    PresentCredentials,
    Transport,
    map_transport_errors,
    wire_for,
)
from acc.adapters.a2a.wire.card_codec import read_card
from acc.adapters.http.client import NetworkOptions, guarded_client
from acc.application.a2a.extensions import EVENT_IDS
from acc.application.a2a.projection import INPUT_REQUEST, MEMORY_FOOTPRINT
from acc.application.a2a.requests import SendRequest
from acc.application.runtime.circuits import circuit_call
from acc.application.tracing.a2a_spans import describe_reply, note_streaming, trace_send
from acc.application.tracing.circuits import report_circuits
from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.errors import (
    AccError,
    ExtensionRequired,
    InvalidInput,
    PermissionDenied,
    RemoteFailed,
    Unauthenticated,
)
from acc.domain.value_objects.agent_card import GRPC, AgentCard, Extension, Interface
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.endpoint import (
    RemoteEndpoint,
    is_grpc_url,
    is_loopback_url,
    origin_of,
    to_grpc_url,
)
from acc.domain.value_objects.run import trace_of_parent
from acc.domain.value_objects.task import ACTIVE, Message, PushConfig, Task
from acc.ports.outbound.auth_ports import CredentialsPort
from acc.ports.outbound.limit_ports import CircuitStorePort
from acc.ports.outbound.remote_ports import OnUpdate
from acc.ports.outbound.tracing_ports import SpanPort, TracerPort

_WELL_KNOWN_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})")
_DEFAULT_CARD_AGE_SECONDS = 300.0
_CARD_TIMEOUT_SECONDS = 20.0
_CANCEL_TIMEOUT_SECONDS = 5.0
_MAX_REDIRECTS = 3
_MAX_WAKE_EVENTS = 1024
_SUPPORTED_EXTENSIONS = frozenset({EVENT_IDS, INPUT_REQUEST, INTENTS_EXTENSION, MEMORY_FOOTPRINT})


class _TimedOut(RemoteFailed):
    """A message whose task did not finish in time."""


class A2AClient:
    """Client of one remote agent; implements RemoteAgentPort.

    Connections are opened for one message and its task, and closed afterwards; the card is cached.
    The token is sent to the origin of the endpoint and to its trusted origins only. A card can name
    other URLs: they are called through the same address policy, but without the token. Otherwise a
    modified card could collect tokens, and host names do not show which hosts belong together.
    """

    def __init__(
        self,
        endpoint: RemoteEndpoint,
        *,
        credentials: CredentialsPort | None = None,
        allow: Sequence[str] = (),
        network: NetworkOptions | None = None,
        tracer: TracerPort | None = None,
        circuits: CircuitStorePort | None = None,
        grpc: MakeGrpcTransport | None = None,
    ) -> None:
        """Create the client; without `grpc`, gRPC interfaces are not used."""
        self._tracer = tracer
        self._circuits = circuits
        self._grpc = grpc
        self._endpoint = endpoint
        self._credentials = credentials
        self._allow = (*endpoint.allow, *allow)
        self._network = network
        self._cards = CardSource(endpoint.url, credentials=credentials, insecure=endpoint.insecure)
        self._wake: dict[str, asyncio.Event] = {}
        self.breaker = CircuitBreaker(
            endpoint.origin,
            failures=endpoint.max_failures,
            reset=endpoint.recovery,
            on_change=report_circuits(lambda: tracer),
        )

    async def card(self) -> AgentCard:
        """Return the agent's card."""
        async with self._open_http() as http:
            return await self._find_card(http)

    async def fetch_card(self) -> "FetchedCard":
        """Return the card as the server sent it, valid or not."""
        async with self._open_http() as http:
            fetched = await self._cards.fetch(http)
        assert fetched is not None  # noqa: S101 - without a known card there is no 304
        return fetched

    async def send(
        self,
        message: Message,
        *,
        on_update: OnUpdate | None = None,
        known: Task | None = None,
        push: PushConfig | None = None,
        follow_seconds: float | None = None,
    ) -> Task | Message:
        """Send a message and return the task once it ended or needs input, or the reply."""
        async with circuit_call(self.breaker, (CallFailed, _TimedOut), self._circuits):
            with trace_send(self._tracer, message, self._endpoint.url) as (message, span):
                assembler = TaskAssembler(on_update, known)
                result = await self._send(message, assembler, push, span, follow_seconds)
                describe_reply(span, result)
                return result

    async def _send(
        self,
        message: Message,
        assembler: TaskAssembler,
        push: PushConfig | None,
        span: SpanPort | None,
        follow_seconds: float | None,
    ) -> Task | Message:
        headers, trace_id = _trace_headers(message), _trace_id(message)
        opened = self._follow(assembler, headers, trace_id, follow_seconds=follow_seconds)
        async with opened as (follower, card):
            push = push if card.push_notifications else None
            message = _for_card(message, card)
            # A server that returns immediately may return a waiting task from before the message.
            request = SendRequest(
                message=message, wait=bool(message.task_id), push=push, history_length=0
            )
            if push is None and card.streaming and self._endpoint.streaming is not False:
                note_streaming(span)
                await follower.stream(request)
            else:
                await follower.poll(request, has_push=push is not None)
            return await follower.result()

    async def follow(self, task_id: str, *, on_update: OnUpdate | None = None) -> Task | Message:
        """Wait for an existing task and return it once it ended or needs input."""
        assembler = TaskAssembler(on_update)
        async with self._follow(assembler, {}) as (follower, _):
            assembler.start_from(await follower.call(partial(get_task, task_id=task_id)))
            await follower.poll(None)
            return await follower.result()

    async def get(self, task_id: str) -> Task:
        """Return the current state of a task."""
        async with self._open(TaskAssembler(), {}) as (follower, _):
            return await follower.call(partial(get_task, task_id=task_id))

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task."""
        async with self._open(TaskAssembler(), {}) as (follower, _):
            return await follower.call(partial(cancel_task, task_id=task_id))

    def notify(self, task_id: str) -> None:
        """Wake up the call that waits for a task; it may not know the id of the task yet."""
        self._wake_event(task_id).set()

    def _wake_event(self, task_id: str) -> asyncio.Event:
        if task_id not in self._wake and len(self._wake) >= _MAX_WAKE_EVENTS:
            del self._wake[next(iter(self._wake))]
        return self._wake.setdefault(task_id, asyncio.Event())

    async def _wait_for_notification(self, task_id: str, seconds: float) -> None:
        event = self._wake_event(task_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
        event.clear()

    @asynccontextmanager
    async def _follow(
        self,
        assembler: TaskAssembler,
        headers: Mapping[str, str],
        trace_id: str = "",
        *,
        follow_seconds: float | None = None,
    ) -> AsyncIterator[tuple[TaskFollower, AgentCard]]:
        """Yield a follower with the timeout of the endpoint; leaving it early cancels the task."""
        seconds = self._endpoint.timeout
        deadline = asyncio.timeout(seconds)
        try:
            follower = self._open(assembler, headers, trace_id, follow_seconds=follow_seconds)
            async with deadline, follower as opened:
                yield opened
        except TimeoutError:
            effect = await self._cancel_abandoned(assembler)
            if not deadline.expired():
                raise
            raise _TimedOut(
                f"{self._endpoint.origin} did not finish within {seconds:g} seconds{effect}",
                remote_code="timed_out",
            ) from None
        except CallFailed:
            raise  # the server cannot be reached, so neither can the task be cancelled
        except BaseException:
            await self._cancel_abandoned(assembler)
            raise
        finally:
            if assembler.task is not None:
                self._wake.pop(assembler.task.id, None)

    async def _cancel_abandoned(self, assembler: TaskAssembler) -> str:
        """Cancel a task whose result is not needed any more; return the outcome as text."""
        task = assembler.task
        if task is None or task.state not in ACTIVE:
            return ""
        with suppress(AccError, TimeoutError):
            async with asyncio.timeout(_CANCEL_TIMEOUT_SECONDS):
                await self.cancel(task.id)
                return f"; its task {task.id} was canceled"
        return f"; its task {task.id} could not be canceled and may still run"

    @asynccontextmanager
    async def _open(
        self,
        assembler: TaskAssembler,
        headers: Mapping[str, str],
        trace_id: str = "",
        *,
        follow_seconds: float | None = None,
    ) -> AsyncIterator[tuple[TaskFollower, AgentCard]]:
        async with self._open_http() as http:
            card = await self._find_card(http)
            transports = self._transports(http, card, headers)
            follower = TaskFollower(
                transports,
                assembler,
                retries=self._endpoint.retries,
                wait=self._wait_for_notification,
                trace_id=trace_id,
                follow_seconds=follow_seconds,
            )
            try:
                yield follower, card
            finally:
                for transport in transports:
                    await transport.aclose()

    async def _find_card(self, http: httpx2.AsyncClient) -> AgentCard:
        """Return the card; for the address of a gRPC server, one that names this server."""
        if not is_grpc_url(self._endpoint.url):
            return await self._cards.get(http)
        if self._grpc is None:
            raise InvalidInput("gRPC requires further packages; install acc-agents[a2a,grpc]")
        return _card_of_grpc_server(self._endpoint)

    def _open_http(self) -> httpx2.AsyncClient:
        return guarded_client(allow=self._allow, redirects=_MAX_REDIRECTS, network=self._network)

    def _transports(
        self, http: httpx2.AsyncClient, card: AgentCard, headers: Mapping[str, str]
    ) -> list[Transport]:
        is_encrypted_card = urlsplit(self._endpoint.url).scheme in ("https", "grpcs")
        interfaces = choose_interfaces(
            card, encrypted=is_encrypted_card, has_grpc=self._grpc is not None
        )
        all_headers = {**headers, **_extension_headers(card)}
        if self._credentials is not None:
            trusted = {self._endpoint.origin, *map(origin_of, self._endpoint.trust)}
            usable = [one for one in interfaces if origin_of(one.url) in trusted]
            if not usable:
                origins = ", ".join(dict.fromkeys(origin_of(one.url) for one in interfaces))
                raise RemoteFailed(
                    f"the card at {self._endpoint.origin} refers to {origins}, and the token is "
                    f"only sent to {self._endpoint.origin}; use that URL, or add the origin to "
                    "`trust`",
                    remote_code="untrusted_origin",
                )
            interfaces = [one for one in usable if self._endpoint.insecure or is_encrypted(one.url)]
            if not interfaces:
                raise _insecure(origin_of(usable[0].url))
        auth = None if self._credentials is None else PresentCredentials(self._credentials, card)
        grpc_options = GrpcOptions(
            headers=all_headers,
            allow=self._allow,
            network=self._network,
            credentials=self._credentials,
            card=card,
        )
        return [
            self._grpc(interface, grpc_options)
            if self._grpc is not None and _is_grpc(interface)
            else HttpTransport(http, interface, headers=all_headers, auth=auth)
            for interface in interfaces
        ]


def _card_of_grpc_server(endpoint: RemoteEndpoint) -> AgentCard:
    """Return a card for a server whose own card is not known; both versions are tried."""
    return AgentCard(
        name=endpoint.origin,
        description="",
        version="",
        interfaces=tuple(
            Interface(url=endpoint.url, binding=GRPC, version=version) for version in ("1.0", "0.3")
        ),
        extensions=tuple(Extension(uri=uri) for uri in sorted(_SUPPORTED_EXTENSIONS)),
    )


def _is_grpc(interface: Interface) -> bool:
    return interface.binding.upper() == GRPC


def choose_interfaces(
    card: AgentCard, *, encrypted: bool, has_grpc: bool = True
) -> Sequence[Interface]:
    """Return the supported interfaces, the newer protocol version first, else in card order.

    Those of gRPC have a URL with the scheme grpc or grpcs; `encrypted` says which of them belongs
    to an address without a scheme. Raise RemoteFailed if there is no interface.
    """
    supported = [
        interface
        for interface in card.interfaces
        if wire_for(interface) is not None and (has_grpc or not _is_grpc(interface))
    ]
    callable_ = [
        replace(interface, url=url)
        for interface in supported
        if (url := _callable_url(interface, encrypted=encrypted))
    ]
    if supported and not callable_:
        raise RemoteFailed(
            f"the card of {card.name!r} has the interface URL {supported[0].url!r}, which is not "
            "an absolute http or https URL, or HOST:PORT of a gRPC server; the operator of the "
            "agent must correct the card",
            remote_code="no_interface",
        )
    if not callable_:
        listed = ", ".join(f"{one.binding} {one.version}" for one in card.interfaces) or "none"
        raise RemoteFailed(
            f"the card of {card.name!r} has no supported interface (listed: {listed}); supported "
            "are JSONRPC, HTTP+JSON and, with the extra grpc, GRPC of versions 1.0 and 0.3",
            remote_code="no_interface",
        )
    return sorted(callable_, key=lambda interface: not interface.version.startswith("1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedCard:
    """A card as the server sent it, and the URL after redirects."""

    url: str
    body: bytes
    etag: str
    max_age: float


class CardSource:
    """Fetches and caches the card of one agent.

    The token is sent only if the server does not return the card without it, and only to the
    origin of the given URL: a redirect to another origin is followed without the token.
    """

    def __init__(
        self,
        url: str,
        *,
        credentials: CredentialsPort | None = None,
        insecure: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._urls = card_urls(url)
        self._credentials = credentials
        self._insecure = insecure
        self._clock = clock
        self._cached: tuple[AgentCard, FetchedCard] | None = None
        self._fresh_until = 0.0

    async def get(self, http: httpx2.AsyncClient) -> AgentCard:
        """Return the card; a stale one is revalidated, and reused if the server is unreachable."""
        if self._cached is None:
            fetched = await self.fetch(http)
            assert fetched is not None  # noqa: S101 - without a known card there is no 304
            self._cached = read_card(fetched.body), fetched
        elif self._clock() < self._fresh_until:
            return self._cached[0]
        else:
            try:
                fetched = await self.fetch(http, known=self._cached[1])
            except CallFailed:
                return self._cached[0]
            if fetched is not None:
                self._cached = read_card(fetched.body), fetched
        card, latest = self._cached
        self._fresh_until = self._clock() + latest.max_age
        return card

    async def fetch(
        self, http: httpx2.AsyncClient, *, known: FetchedCard | None = None
    ) -> FetchedCard | None:
        """Return the card as the server sends it, or None if `known` is still current."""
        urls = self._urls if known is None else (known.url,)
        missing: list[str] = []
        for url in urls:
            response = await self._request(http, url, known)
            if response.status_code == 304 and known is not None:
                return None
            if response.is_success:
                return FetchedCard(
                    url=str(response.url),
                    body=response.content,
                    etag=response.headers.get("etag", ""),
                    max_age=_max_age(response.headers.get("cache-control", "").lower()),
                )
            if response.status_code not in (404, 405, 410):
                raise _card_error(response.status_code, origin_of(url))
            missing.append(urlsplit(url).path)
        if known is not None:  # the card was moved: search all places
            return await self.fetch(http)
        raise RemoteFailed(
            f"{origin_of(self._urls[0])} has no agent card at {' or '.join(missing)}; use the base "
            "URL of the agent, or the URL of the card itself",
            remote_code="no_card",
        )

    async def _request(
        self, http: httpx2.AsyncClient, url: str, known: FetchedCard | None
    ) -> httpx2.Response:
        headers = {"Accept": "application/json"}
        if known is not None and known.etag:
            headers["If-None-Match"] = known.etag
        response = await _get(http, url, headers)
        is_own_origin = origin_of(url) == origin_of(self._urls[0])
        if response.status_code in (401, 403) and self._credentials and is_own_origin:
            if not (self._insecure or is_encrypted(url)):
                raise _insecure(origin_of(url))
            headers |= await self._credentials.headers(None)
            response = await _get(http, url, headers)
        return response


def is_encrypted(url: str) -> bool:
    """Return True if credentials can be sent to a URL: with TLS, or on this machine."""
    return url.lower().startswith(("https://", "grpcs://")) or is_loopback_url(url)


def _insecure(origin: str) -> RemoteFailed:
    return RemoteFailed(
        f"credentials are not sent to {origin} without encryption; use TLS, or allow it with "
        "insecure=True",
        remote_code="insecure_url",
    )


def card_urls(url: str) -> tuple[str, ...]:
    """Return the possible URLs of the card of the agent at a URL, the most likely one first."""
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return (urlunsplit(parts._replace(fragment="")),)
    base = parts._replace(query="", fragment="")
    return tuple(
        urlunsplit(base._replace(path=f"{parts.path.rstrip('/')}{path}"))
        for path in _WELL_KNOWN_PATHS
    )


async def _get(http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> httpx2.Response:
    with map_transport_errors(origin_of(url)):
        return await http.get(
            url, headers=headers, timeout=_CARD_TIMEOUT_SECONDS, follow_redirects=True
        )


def _max_age(cache_control: str) -> float:
    if "no-store" in cache_control or "no-cache" in cache_control:
        return 0.0
    match = _MAX_AGE.search(cache_control)
    return float(match[1]) if match else _DEFAULT_CARD_AGE_SECONDS


def _card_error(status: int, origin: str) -> Exception:
    if status == 401:
        return Unauthenticated(f"{origin} requires a valid token to return its card")
    if status == 403:
        return PermissionDenied(f"{origin} does not return its card to this caller")
    message = f"{origin} answered the request for its card with status {status}"
    if status in RETRYABLE_STATUS:
        return CallFailed(message, retryable=True)
    return RemoteFailed(message, remote_code=str(status))


def _extension_headers(card: AgentCard) -> dict[str, str]:
    for extension in card.extensions:
        if extension.required and extension.uri not in _SUPPORTED_EXTENSIONS:
            raise ExtensionRequired(
                f"{card.name!r} requires the extension {extension.uri}, which this client does "
                "not support; the agent cannot be called"
            )
    offered = {extension.uri for extension in card.extensions}
    used = ", ".join(sorted(offered & _SUPPORTED_EXTENSIONS))
    return {"A2A-Extensions": used, "X-A2A-Extensions": used} if used else {}


def _for_card(message: Message, card: AgentCard) -> Message:
    """Return a message without the metadata of an extension that the agent does not offer."""
    offered = {extension.uri for extension in card.extensions}
    if INTENTS_EXTENSION in offered or INTENTS_EXTENSION not in message.metadata:
        return message
    metadata = {k: v for k, v in message.metadata.items() if k != INTENTS_EXTENSION}
    return replace(message, metadata=metadata)


def _callable_url(interface: Interface, *, encrypted: bool) -> str:
    """Return the URL of an interface that can be called, or an empty string."""
    if _is_grpc(interface):
        return to_grpc_url(interface.url, encrypted=encrypted)
    try:
        parts = urlsplit(interface.url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return ""
    return interface.url if is_url else ""


def _trace_headers(message: Message) -> dict[str, str]:
    """Return the W3C traceparent header of a message that belongs to a trace."""
    parent = message.metadata.get("traceparent")
    if isinstance(parent, str) and trace_of_parent(parent):
        return {"traceparent": parent}
    return {}


def _trace_id(message: Message) -> str:
    """Return the id of the trace that a message belongs to, for the log."""
    parent, own = message.metadata.get("traceparent"), message.metadata.get("traceId")
    trace_id = trace_of_parent(parent) if isinstance(parent, str) else ""
    return trace_id or (own if isinstance(own, str) else "")
