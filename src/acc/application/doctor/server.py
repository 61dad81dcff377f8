"""One visit to a server: what is known of it, and what was asked already.

Checks share what they learn, so that the server is asked as little as possible.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from acc.application.doctor.findings import CheckSkipped
from acc.application.doctor.wire import (
    ENDED,
    HTTP_JSON,
    JSONRPC,
    OLD,
    ONE,
    Ask,
    Interface,
    Op,
    Reply,
    held,
    read_json,
    state_of,
)
from acc.domain.errors import InvalidInput, InvalidResponse, RemoteFailed
from acc.ports.outbound.remote_ports import HttpProbePort, ProbeAnswer, ProbeEvent, ProbeRequest
from acc.ports.outbound.system_ports import IdsPort


class Card:
    """The card of a server, as the JSON that it is."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def is_one(self) -> bool:
        """Tell whether the card is one of generation 1.0, perhaps among others."""
        return isinstance(self.document.get("supportedInterfaces"), list)

    @property
    def is_old(self) -> bool:
        """Tell whether the card can be read by clients of generation 0.3."""
        return isinstance(self.document.get("url"), str)

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Return the interfaces that are declared well enough to be used."""
        found: dict[tuple[str, str, str], Interface] = {}
        for each in (*self._new(), *self._old()):
            found.setdefault((each.url.rstrip("/"), each.binding, each.generation), each)
        return list(found.values())

    def _new(self) -> list[Interface]:
        return [
            Interface(
                url=each["url"],
                binding=_text(each.get("protocolBinding")),
                version=_text(each.get("protocolVersion")),
                tenant=_text(each.get("tenant")),
            )
            for each in objects(self.document.get("supportedInterfaces"))
            if is_url(each.get("url"))
        ]

    def _old(self) -> list[Interface]:
        if not self.is_old:
            return []
        preferred = _text(self.document.get("preferredTransport")) or JSONRPC
        named = [(self.document["url"], preferred)]
        for each in objects(self.document.get("additionalInterfaces")):
            named.append((each.get("url"), _text(each.get("transport"))))
        return [
            Interface(url=url, binding=binding, version=OLD)
            for url, binding in named
            if is_url(url)
        ]

    def can(self, capability: str) -> bool:
        """Tell whether the card declares a capability."""
        capabilities = self.document.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    @property
    def has_extended(self) -> bool:
        """Tell whether the card says that there is an extended one."""
        old = self.document.get("supportsAuthenticatedExtendedCard") is True
        return old or self.can("extendedAgentCard")

    @property
    def schemes(self) -> Mapping[str, str]:
        """Return the declared security schemes by name, each with its kind."""
        declared = self.document.get("securitySchemes")
        if not isinstance(declared, dict):
            return {}
        return {name: _kind(scheme) for name, scheme in declared.items()}

    @property
    def needs_credentials(self) -> bool:
        """Tell whether the card says that callers need credentials."""
        needed = self.document.get("securityRequirements") or self.document.get("security")
        return bool(needed)


_KINDS = {
    "apiKeySecurityScheme": "apiKey",
    "httpAuthSecurityScheme": "http",
    "oauth2SecurityScheme": "oauth2",
    "openIdConnectSecurityScheme": "openIdConnect",
    "mtlsSecurityScheme": "mutualTLS",
}


def _kind(scheme: Any) -> str:
    if not isinstance(scheme, dict):
        return ""
    kind, inner = _text(scheme.get("type")), scheme
    for name, plain in _KINDS.items():
        if isinstance(scheme.get(name), dict):
            kind, inner = plain, scheme[name]
    return f"http {_text(inner.get('scheme')).lower()}" if kind == "http" else kind


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list, and nothing for what is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def is_url(value: Any) -> bool:
    """Tell whether this is an absolute URL of the web."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


MARKER = "acc doctor: please answer with a short greeting"
CARD_PATH = "/.well-known/agent-card.json"
OLD_CARD_PATH = "/.well-known/agent.json"
_CARD_PATHS = (CARD_PATH, OLD_CARD_PATH)
#: What a server answers where it has no card.
MISSING = frozenset({404, 405, 410})
MOST_EVENTS = 500
UNSPOKEN = "the card names no interface that acc speaks"
_PREFERRED = ((JSONRPC, ONE), (HTTP_JSON, ONE), (JSONRPC, OLD), (HTTP_JSON, OLD))
_LOOPBACK = frozenset({"localhost", "::1"})
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to examine, and as whom; tokens are sent to the host of the URL alone."""

    url: str
    token: str = ""
    second_token: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no URL of a server."""
        if not is_url(self.url) or "?" in self.url or "#" in self.url:
            raise InvalidInput(
                f"{self.url!r} is no URL of a server: write for instance https://agents.example.com"
            )

    @property
    def origin(self) -> str:
        """Return the part of the URL that names scheme, host and port."""
        return origin_of(self.url)

    @property
    def is_loopback(self) -> bool:
        """Tell whether the server is on this machine."""
        return is_loopback(self.url)


def origin_of(url: str) -> str:
    """Return the part of a URL that names scheme, host and port, in one spelling."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}"


def is_loopback(url: str) -> bool:
    """Tell whether a URL is of this machine by its very words."""
    host = urlsplit(url).hostname or ""
    return host in _LOOPBACK or host.startswith("127.")


def card_in(answer: ProbeAnswer) -> Card | None:
    """Return the card that an answer holds, if it holds one."""
    document = read_json(answer.body) if answer.status == 200 else None
    return Card(document) if isinstance(document, dict) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTranscript:
    """What a stream told until it ended, or until enough of it was seen."""

    reply: Reply
    events: Sequence[ProbeEvent] = ()
    items: Sequence[Mapping[str, Any]] = ()
    ended: bool = False

    @property
    def is_stream(self) -> bool:
        """Tell whether the answer was a stream at all."""
        kind = self.reply.headers.get("content-type", "")
        return self.reply.status == 200 and kind.startswith("text/event-stream")

    @property
    def task_id(self) -> str:
        """Return the id of the task that the stream is about, empty if it names none."""
        for item in self.items:
            for kind, name in (("task", "id"), ("statusUpdate", "taskId")):
                if isinstance(item.get(kind), dict) and isinstance(item[kind].get(name), str):
                    return str(item[kind][name])
        return ""


@dataclass(kw_only=True)
class ServerUnderTest:
    """What is known of a server so far."""

    probe: HttpProbePort
    target: Target
    ids: IdsPort
    pause: Pause = asyncio.sleep
    cards: dict[str, ProbeAnswer] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    card: Card | None = None
    card_url: str = ""
    _first: Reply | RemoteFailed | None = None
    _told: StreamTranscript | RemoteFailed | None = None
    _to_cancel: dict[str, str | None] = field(default_factory=dict)
    first_message: Mapping[str, Any] = field(default_factory=dict)

    # The card

    async def read_card(self) -> None:
        """Look for the card where clients do; RemoteFailed if there is no server at all.

        The card of the root will do for a path that has none. One that is there and broken is not
        looked for elsewhere: what is there is another agent's.
        """
        named, root = self._card_urls()
        for url in named:
            await self._read_card_at(url)
        if self.card is None and not all(map(self._has_none_at, named)):
            return
        for url in root:
            await self._read_card_at(url)

    def _has_none_at(self, url: str) -> bool:
        return url in self.cards and self.cards[url].status in MISSING

    async def _read_card_at(self, url: str) -> None:
        try:
            answer = await self.fetch(url)
            if answer.status in (401, 403) and self.target.token:
                answer = await self.fetch(url, self.bearer())
        except InvalidResponse as error:
            self.unreadable[url] = str(error)
            return
        self.cards[url] = answer
        card = card_in(answer)
        if card is not None and self.card is None:
            self.card, self.card_url = card, url

    def _card_urls(self) -> tuple[list[str], list[str]]:
        """Return where the card of the agent that was named may be, and where the root's is."""
        parts = urlsplit(self.target.url)
        root = f"{parts.scheme}://{parts.netloc}"
        base = root + parts.path.rstrip("/")
        for path in _CARD_PATHS:
            base = base.removesuffix(path)
        is_card = base.endswith(".json")
        named = [base] if is_card else [base + path for path in _CARD_PATHS]
        return named, [root + path for path in _CARD_PATHS if root + path not in named]

    @property
    def stand_in(self) -> str:
        """Return the root if the card is the root's, and not that of the agent that was named."""
        named, _ = self._card_urls()
        if not self.card_url or self.card_url in named:
            return ""
        parts = urlsplit(self.card_url)
        return f"{parts.scheme}://{parts.netloc}"

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> ProbeAnswer:
        """Return what a GET of a URL gives."""
        asked = {"Accept": "application/json", **(headers or {})}
        return await self.probe.exchange(ProbeRequest(method="GET", url=url, headers=asked))

    @property
    def known_card(self) -> Card:
        """Return the card; CannotTell if there is none."""
        if self.card is None:
            raise CheckSkipped("the server has no card that can be read")
        return self.card

    # Whom to speak to

    @property
    def interfaces(self) -> list[Interface]:
        """Return the interfaces that can be spoken to at the host of the URL, the best first.

        A card that names another host only is taken to mean this one: the token is for this one.
        """
        spoken = [each for each in self.known_card.interfaces if each.is_spoken]
        here = [each for each in spoken if origin_of(each.url) == self.target.origin]
        found = here or [self._brought_here(each) for each in spoken]
        return sorted(found, key=lambda each: _PREFERRED.index((each.binding, each.generation)))

    def _brought_here(self, interface: Interface) -> Interface:
        parts = urlsplit(self.target.url)
        path = urlsplit(interface.url).path
        return Interface(
            url=f"{parts.scheme}://{parts.netloc}{path}",
            binding=interface.binding,
            version=interface.version,
            tenant=interface.tenant,
        )

    @property
    def main(self) -> Interface:
        """Return the interface that the checks use."""
        found = self.interfaces
        if not found:
            raise CheckSkipped(UNSPOKEN)
        return found[0]

    def bearer(self, token: str | None = None) -> dict[str, str]:
        """Return the header with a token, the caller's own if none is given."""
        chosen = self.target.token if token is None else token
        return {"Authorization": f"Bearer {chosen}"} if chosen else {}

    # Asking

    async def ask(
        self,
        ask: Ask,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        over: Interface | None = None,
    ) -> Reply:
        """Return what the server answers."""
        interface = over or self.main
        request = interface.request(ask, {**self.bearer(token), **(headers or {})})
        reply = interface.read(await self.probe.exchange(request))
        self._remember(held(reply.result).get("task"), token)
        return reply

    async def exchange(self, request: ProbeRequest) -> Reply:
        """Return what the main interface answers to a request that was made by hand."""
        return self.main.read(await self.probe.exchange(request))

    def message(self, *, context: str = "", task: str = "") -> dict[str, Any]:
        """Return a message that any agent can answer in a few words."""
        message_id = f"acc-doctor-{self.ids.new()}"
        return self.main.message(message_id, MARKER, context=context, task=task)

    async def stream(
        self,
        ask: Ask,
        *,
        headers: Mapping[str, str] | None = None,
        most: int = MOST_EVENTS,
    ) -> StreamTranscript:
        """Return what a stream tells, of at most so many events."""
        interface = self.main
        request = interface.request(ask, {**self.bearer(), **(headers or {})})
        events: list[ProbeEvent] = []
        ended = True
        async with AsyncExitStack() as stack:
            stream = await stack.enter_async_context(self.probe.stream(request))
            async for event in stream.events:
                events.append(event)
                if len(events) >= most:
                    ended = False
                    break
        items = [interface.item(event.data) for event in events]
        for item in items:
            self._remember(item.get("task"))
        reply = interface.read(stream.answer)
        return StreamTranscript(reply=reply, events=events, items=items, ended=ended)

    # What several checks need

    async def first(self) -> Reply:
        """Return the answer to the first message, which is sent once.

        That it cannot be read is told to the check that asks first; the others have nothing to see.
        """
        if self._first is None:
            self.first_message = self.message()
            try:
                self._first = await self.ask(Ask(op=Op.SEND, message=self.first_message))
            except InvalidResponse as error:
                self._first = error
                raise
            except RemoteFailed as error:
                self._first = error
        if isinstance(self._first, RemoteFailed):
            raise CheckSkipped(f"no answer to a message ({self._first}); see the check send")
        return self._first

    async def task(self) -> Mapping[str, Any]:
        """Return the task that the first message made."""
        reply = await self.first()
        if reply.is_unauthenticated and not self.target.token:
            raise CheckSkipped("the server wants credentials; give them with --token-env")
        if reply.is_refusal:
            raise CheckSkipped(f"the first message was refused: {reply.told}; see the check send")
        task = held(reply.result).get("task")
        if not isinstance(task, dict) or not isinstance(task.get("id"), str):
            raise CheckSkipped("the agent answers without making a task")
        return task

    async def ended_task(self) -> Mapping[str, Any]:
        """Return the first task if it is over, which it is for most agents."""
        task = await self.task()
        if state_of(task) not in ENDED:
            raise CheckSkipped(f"the agent's task is {state_of(task) or 'in no known state'}")
        return task

    async def told(self) -> StreamTranscript:
        """Return what the one stream told that is read to its end."""
        if self._told is None:
            try:
                self._told = await self.stream(Ask(op=Op.STREAM, message=self.message()))
            except InvalidResponse as error:
                self._told = error
                raise
            except RemoteFailed as error:
                self._told = error
        if isinstance(self._told, RemoteFailed):
            raise CheckSkipped(f"no stream came ({self._told}); see the check stream")
        return self._told

    async def settled(self, task_id: str, *, tries: int = 10) -> str:
        """Return the state of a task once it is over or waits, or after a while."""
        state = ""
        for turn in range(tries):
            if turn:
                await self.pause(min(0.1 * 2**turn, 1.0))
            task = held((await self.ask(Ask(op=Op.GET, task=task_id))).result).get("task")
            state = state_of(task)
            if state not in ("submitted", "working"):
                break
        return state

    # Leaving

    def _remember(self, task: Any, token: str | None = None) -> None:
        if isinstance(task, dict) and isinstance(task.get("id"), str):
            if state_of(task) not in ENDED:
                self._to_cancel.setdefault(task["id"], token)
            else:
                self._to_cancel.pop(task["id"], None)

    async def leave(self) -> None:
        """Cancel what still runs or waits because of this visit."""
        for task_id, token in list(self._to_cancel.items()):
            try:
                await self.ask(Ask(op=Op.CANCEL, task=task_id), token=token)
            except RemoteFailed:
                continue
        self._to_cancel.clear()
