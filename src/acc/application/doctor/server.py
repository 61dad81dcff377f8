"""The server under test, with its card and the responses that several checks share."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from acc.application.doctor.findings import CheckSkipped, InterfaceMissing
from acc.application.doctor.wire import (
    HTTP_JSON,
    INTERRUPTED_STATES,
    JSONRPC,
    TERMINAL_STATES,
    V03,
    V1,
    IntentProbe,
    Interface,
    Op,
    ProbeCall,
    Reply,
    read_json,
    read_payload,
    task_state,
)
from acc.domain.errors import InvalidInput, InvalidResponse, RemoteFailed
from acc.domain.value_objects.contract import INTENTS_EXTENSION
from acc.domain.value_objects.endpoint import is_loopback_url, origin_of
from acc.ports.outbound.remote_ports import HttpProbePort, ProbeEvent, ProbeRequest, ProbeResponse
from acc.ports.outbound.system_ports import IdsPort

_INVALID_PARAMS = -32602


class Card:
    """The card of a server as raw JSON."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def intents(self) -> list[str]:
        """Return the names of the intents whose contracts the card contains."""
        capabilities = self.document.get("capabilities")
        extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        for extension in objects(extensions):
            params = extension.get("params")
            skills = params.get("skills") if isinstance(params, dict) else None
            if extension.get("uri") == INTENTS_EXTENSION and isinstance(skills, dict):
                return list(skills)
        return []

    @property
    def has_v1(self) -> bool:
        """Return True if the card has interfaces in the form of 1.0."""
        return isinstance(self.document.get("supportedInterfaces"), list)

    @property
    def has_v03(self) -> bool:
        """Return True if 0.3 clients can read the card."""
        return isinstance(self.document.get("url"), str)

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Return the declared interfaces that have a valid URL."""
        unique: dict[tuple[str, str, str], Interface] = {}
        for each in (*self._v1_interfaces(), *self._v03_interfaces()):
            unique.setdefault((each.url.rstrip("/"), each.binding, each.protocol_version), each)
        return list(unique.values())

    def _v1_interfaces(self) -> list[Interface]:
        return [
            Interface(
                url=each["url"],
                binding=_text(each.get("protocolBinding")),
                version=_text(each.get("protocolVersion")),
                tenant=_text(each.get("tenant")),
            )
            for each in objects(self.document.get("supportedInterfaces"))
            if is_absolute_url(each.get("url"))
        ]

    def _v03_interfaces(self) -> list[Interface]:
        if not self.has_v03:
            return []
        preferred = _text(self.document.get("preferredTransport")) or JSONRPC
        pairs = [(self.document["url"], preferred)]
        for each in objects(self.document.get("additionalInterfaces")):
            pairs.append((each.get("url"), _text(each.get("transport"))))
        return [
            Interface(url=url, binding=binding, version=V03)
            for url, binding in pairs
            if is_absolute_url(url)
        ]

    def can(self, capability: str) -> bool:
        """Return True if the card declares a capability."""
        capabilities = self.document.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    @property
    def has_extended(self) -> bool:
        """Return True if the card declares an extended card."""
        is_declared_v03 = self.document.get("supportsAuthenticatedExtendedCard") is True
        return is_declared_v03 or self.can("extendedAgentCard")

    @property
    def schemes(self) -> Mapping[str, str]:
        """Return the kinds of the declared security schemes by name."""
        declared = self.document.get("securitySchemes")
        if not isinstance(declared, dict):
            return {}
        return {name: _kind(scheme) for name, scheme in declared.items()}

    @property
    def has_jwt_format(self) -> bool:
        """Return True if a scheme declares that bearer tokens are JWTs."""
        declared = self.document.get("securitySchemes")
        schemes = declared.values() if isinstance(declared, dict) else ()
        inner = [scheme.get("httpAuthSecurityScheme", scheme) for scheme in objects([*schemes])]
        return any(_text(scheme.get("bearerFormat")).upper() == "JWT" for scheme in objects(inner))

    @property
    def needs_credentials(self) -> bool:
        """Return True if the card requires credentials."""
        return bool(self.document.get("securityRequirements") or self.document.get("security"))


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
    """Return the objects of a list; an empty list for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def is_absolute_url(value: Any) -> bool:
    """Return True if a value is an absolute http or https URL."""
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


MARKER = "acc doctor: please answer with a short greeting"
CARD_PATH = "/.well-known/agent-card.json"
LEGACY_CARD_PATH = "/.well-known/agent.json"
_CARD_PATHS = (CARD_PATH, LEGACY_CARD_PATH)
NOT_FOUND_STATUS = frozenset({404, 405, 410})
MAX_EVENTS = 500
#: A stream should end when its task ends; while the task waits for input, it may stay open.
_STREAM_END_SECONDS = 2.0
NO_INTERFACE = "the card has no interface that acc supports"
_PREFERRED = ((JSONRPC, V1), (HTTP_JSON, V1), (JSONRPC, V03), (HTTP_JSON, V03))
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """URL and credentials of a test; they are sent to the origin of the URL only.

    `call` is sent instead of a short text.
    """

    url: str
    token: str = ""
    second_token: str = ""
    has_certificate: bool = False
    call: IntentProbe | None = None

    @property
    def has_credentials(self) -> bool:
        """Return True if the requests of the test are not anonymous."""
        return bool(self.token) or self.has_certificate

    def __post_init__(self) -> None:
        """Raise InvalidInput unless the URL is absolute and has no query or fragment."""
        if not is_absolute_url(self.url) or "?" in self.url or "#" in self.url:
            raise InvalidInput(
                f"{self.url!r} is not the URL of a server such as https://agents.example.com"
            )

    @property
    def origin(self) -> str:
        """Return scheme, host and port of the URL."""
        return origin_of(self.url)

    @property
    def is_loopback(self) -> bool:
        """Return True if the server runs on this machine."""
        return is_loopback_url(self.url)


def parse_card(response: ProbeResponse) -> Card | None:
    """Return the card in a response, or None."""
    document = read_json(response.body) if response.status == 200 else None
    return Card(document) if isinstance(document, dict) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTranscript:
    """The events of a stream until its end, or until the limit of events.

    `stayed_open` is True if the stream did not end although its task did.
    """

    reply: Reply
    events: Sequence[ProbeEvent] = ()
    items: Sequence[Mapping[str, Any]] = ()
    ended: bool = False
    stayed_open: bool = False

    @property
    def is_stream(self) -> bool:
        """Return True if the response is an event stream."""
        kind = self.reply.headers.get("content-type", "")
        return self.reply.status == 200 and kind.startswith("text/event-stream")

    @property
    def error_code(self) -> int | None:
        """Return the code of the error that the server responded with, in 0.3 as an event."""
        error = self.items[0].get("error") if self.items else None
        code = error.get("code") if isinstance(error, dict) else self.reply.code
        return code if isinstance(code, int) else None

    @property
    def task_id(self) -> str:
        """Return the id of the task of the stream, or an empty string."""
        for item in self.items:
            for kind, name in (("task", "id"), ("statusUpdate", "taskId")):
                if isinstance(item.get(kind), dict) and isinstance(item[kind].get(name), str):
                    return str(item[kind][name])
        return ""


@dataclass(kw_only=True)
class ServerUnderTest:
    """The server under test and the responses so far."""

    probe: HttpProbePort
    target: Target
    ids: IdsPort
    pause: Pause = asyncio.sleep
    cards: dict[str, ProbeResponse] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    card: Card | None = None
    card_url: str = ""
    _first_reply: Reply | RemoteFailed | None = None
    _transcript: StreamTranscript | RemoteFailed | None = None
    _to_cancel: dict[str, str | None] = field(default_factory=dict)
    first_message: Mapping[str, Any] = field(default_factory=dict)
    #: The names of all headers that the server has sent.
    header_names: set[str] = field(default_factory=set)

    # The card

    async def read_card(self) -> None:
        """Find the card where clients look for it; raise RemoteFailed without a server.

        If the URL has a path without a card, the card of the root is used. If that card exists but
        is invalid, the card of the root is not used: it belongs to another agent.
        """
        own, root = self._card_urls()
        for url in own:
            await self._read_card_at(url)
        if self.card is None and not all(map(self._is_missing, own)):
            return
        for url in root:
            await self._read_card_at(url)

    def _is_missing(self, url: str) -> bool:
        return url in self.cards and self.cards[url].status in NOT_FOUND_STATUS

    async def _read_card_at(self, url: str) -> None:
        try:
            response = await self.fetch(url)
            if response.status in (401, 403) and self.target.has_credentials:
                response = await self.fetch(url, anonymous=False)
        except InvalidResponse as error:
            self.unreadable[url] = str(error)
            return
        self.cards[url] = response
        card = parse_card(response)
        if card is not None and self.card is None:
            self.card, self.card_url = card, url

    def _card_urls(self) -> tuple[list[str], list[str]]:
        """Return the possible URLs of the card, and those of the card of the root."""
        parts = urlsplit(self.target.url)
        root = f"{parts.scheme}://{parts.netloc}"
        base = root + parts.path.rstrip("/")
        for path in _CARD_PATHS:
            base = base.removesuffix(path)
        is_card = base.endswith(".json")
        own = [base] if is_card else [base + path for path in _CARD_PATHS]
        return own, [root + path for path in _CARD_PATHS if root + path not in own]

    @property
    def fallback_url(self) -> str:
        """Return the root URL if its card is used because the target has none, else ""."""
        own, _ = self._card_urls()
        if not self.card_url or self.card_url in own:
            return ""
        parts = urlsplit(self.card_url)
        return f"{parts.scheme}://{parts.netloc}"

    async def fetch(
        self, url: str, headers: Mapping[str, str] | None = None, *, anonymous: bool = True
    ) -> ProbeResponse:
        """Return the response to a GET request, by default without credentials."""
        headers = {
            "Accept": "application/json",
            **({} if anonymous else self.bearer()),
            **(headers or {}),
        }
        return await self._exchange(
            ProbeRequest(method="GET", url=url, headers=headers, has_certificate=not anonymous)
        )

    @property
    def require_card(self) -> Card:
        """Return the card, or raise CheckSkipped."""
        if self.card is None:
            raise CheckSkipped("the server has no valid card")
        return self.card

    # Interfaces

    @property
    def interfaces(self) -> list[Interface]:
        """Return the supported interfaces at the origin of the target, the best first.

        If the card names only other hosts, the host of the target is used instead, since the token
        is sent to it only.
        """
        supported = [each for each in self.require_card.interfaces if each.is_supported]
        own = [each for each in supported if origin_of(each.url) == self.target.origin]
        usable = own or [self._at_target_host(each) for each in supported]
        return sorted(
            usable, key=lambda each: _PREFERRED.index((each.binding, each.protocol_version))
        )

    def _at_target_host(self, interface: Interface) -> Interface:
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
        """Return the interface that the checks use, or raise CheckSkipped."""
        interfaces = self.interfaces
        if not interfaces:
            raise CheckSkipped(NO_INTERFACE)
        return interfaces[0]

    def bearer(self, token: str | None = None) -> dict[str, str]:
        """Return the Authorization header of a token, by default that of the target."""
        token = self.target.token if token is None else token
        return {"Authorization": f"Bearer {token}"} if token else {}

    # Requests

    async def call(
        self,
        call: ProbeCall,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        interface: Interface | None = None,
    ) -> Reply:
        """Return the reply to a call; with another `token`, without the client certificate."""
        interface = interface or self.main
        request = interface.request(call, {**self.bearer(token), **(headers or {})})
        request = replace(request, has_certificate=token is None)
        reply = _found(interface, interface.read(await self._exchange(request)))
        self._track_task(read_payload(reply.result).get("task"), token)
        return reply

    async def exchange(self, request: ProbeRequest) -> Reply:
        """Return the reply of the main interface to a raw request."""
        return _found(self.main, self.main.read(await self._exchange(request)))

    async def _exchange(self, request: ProbeRequest) -> ProbeResponse:
        response = await self.probe.exchange(request)
        self._note_headers(response)
        return response

    def _note_headers(self, response: ProbeResponse) -> None:
        self.header_names.update(response.headers)

    def message(self, *, context: str = "", task: str = "") -> dict[str, Any]:
        """Return a message that every agent can answer briefly."""
        message_id = f"acc-doctor-{self.ids.new()}"
        call = None if task else self.target.call
        return self.main.message(message_id, MARKER, call=call, context=context, task=task)

    def check_accepts_text(self, code: int | None) -> None:
        """Raise CheckSkipped if an agent rejects a text because it takes calls of intents only."""
        names = self.require_card.intents
        if code == _INVALID_PARAMS and names and self.target.call is None:
            raise CheckSkipped(
                f"the agent takes calls of its intents ({', '.join(names)}), not any text; repeat "
                "with --intent NAME --data JSON"
            )

    async def stream(
        self,
        call: ProbeCall,
        *,
        headers: Mapping[str, str] | None = None,
        max_events: int = MAX_EVENTS,
    ) -> StreamTranscript:
        """Return the transcript of a stream, with at most `max_events` events."""
        interface = self.main
        request = interface.request(call, {**self.bearer(), **(headers or {})})
        events: list[ProbeEvent] = []
        items: list[dict[str, Any]] = []
        ended, stayed_open, state = True, False, ""
        async with AsyncExitStack() as stack:
            stream = await stack.enter_async_context(self.probe.stream(request))
            try:
                async with asyncio.timeout(None) as deadline:
                    async for event in stream.events:
                        events.append(event)
                        items.append(interface.item(event.data))
                        if len(events) >= max_events:
                            ended = False
                            break
                        item = items[-1]
                        state = task_state(item.get("statusUpdate") or item.get("task")) or state
                        is_settled = state in TERMINAL_STATES | INTERRUPTED_STATES
                        end = asyncio.get_running_loop().time() + _STREAM_END_SECONDS
                        deadline.reschedule(end if is_settled else None)
            except TimeoutError:
                stayed_open = state in TERMINAL_STATES
        for item in items:
            self._track_task(item.get("task"))
        self._note_headers(stream.response)
        reply = interface.read(stream.response)
        return StreamTranscript(
            reply=reply, events=events, items=items, ended=ended, stayed_open=stayed_open
        )

    # Shared responses

    async def first_reply(self) -> Reply:
        """Return the reply to the first message, which is sent once.

        An unreadable reply is an error of the first check that needs it; later checks are skipped.
        """
        if self._first_reply is None:
            self.first_message = self.message()
            try:
                self._first_reply = await self.call(
                    ProbeCall(op=Op.SEND, message=self.first_message)
                )
            except InvalidResponse as error:
                self._first_reply = error
                raise
            except RemoteFailed as error:
                self._first_reply = error
        if isinstance(self._first_reply, RemoteFailed):
            raise CheckSkipped(
                f"the first message got no reply ({self._first_reply}); see the check send"
            )
        return self._first_reply

    async def task(self) -> Mapping[str, Any]:
        """Return the task of the first message, or raise CheckSkipped."""
        reply = await self.first_reply()
        if reply.is_unauthenticated and not self.target.has_credentials:
            raise CheckSkipped(
                "the server requires credentials; pass them with --token-env or --tls-cert"
            )
        if reply.is_error:
            raise CheckSkipped(
                f"the first message was rejected: {reply.summary}; see the check send"
            )
        task = read_payload(reply.result).get("task")
        if not isinstance(task, dict) or not isinstance(task.get("id"), str):
            raise CheckSkipped("the agent replies without a task")
        return task

    async def ended_task(self) -> Mapping[str, Any]:
        """Return the first task if it has ended, or raise CheckSkipped."""
        task = await self.task()
        if task_state(task) not in TERMINAL_STATES:
            raise CheckSkipped(f"the task is {task_state(task) or 'in an unknown state'}")
        return task

    async def transcript(self) -> StreamTranscript:
        """Return the transcript of the one stream that is read to its end."""
        if self._transcript is None:
            try:
                self._transcript = await self.stream(
                    ProbeCall(op=Op.STREAM, message=self.message())
                )
            except InvalidResponse as error:
                self._transcript = error
                raise
            except RemoteFailed as error:
                self._transcript = error
        if isinstance(self._transcript, RemoteFailed):
            raise CheckSkipped(f"there was no stream ({self._transcript}); see the check stream")
        return self._transcript

    async def wait_for_state(self, task_id: str, *, attempts: int = 10) -> str:
        """Return the state of a task that ended or needs input, or after `attempts` polls."""
        state = ""
        for attempt in range(attempts):
            if attempt:
                await self.pause(min(0.1 * 2**attempt, 1.0))
            task = read_payload((await self.call(ProbeCall(op=Op.GET, task=task_id))).result).get(
                "task"
            )
            state = task_state(task)
            if state not in ("submitted", "working"):
                break
        return state

    # Cleanup

    def _track_task(self, task: Any, token: str | None = None) -> None:
        if isinstance(task, dict) and isinstance(task.get("id"), str):
            if task_state(task) not in TERMINAL_STATES:
                self._to_cancel.setdefault(task["id"], token)
            else:
                self._to_cancel.pop(task["id"], None)

    async def close(self) -> None:
        """Cancel the tasks of this test that have not ended."""
        for task_id, token in list(self._to_cancel.items()):
            try:
                await self.call(ProbeCall(op=Op.CANCEL, task=task_id), token=token)
            except RemoteFailed:
                continue
        self._to_cancel.clear()


def _found(interface: Interface, reply: Reply) -> Reply:
    """Return a reply, or raise InterfaceMissing; JSON-RPC answers errors with a code."""
    if interface.binding == JSONRPC and reply.status == 404 and reply.code is None:
        raise InterfaceMissing(
            f"{interface.url} gives HTTP 404: the path of the interface on the card does not exist "
            "there; pass the URL under which the agent is reached"
        )
    return reply
