"""What both bindings share: who calls, in which generation, with which extensions."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from acc.adapters.a2a.server.asgi import Headers, HttpError, HttpRequest
from acc.adapters.a2a.wire.errors import wire_error_for
from acc.adapters.a2a.wire.json_fields import check_tenant
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.adapters.a2a.wire.v03 import WireV03
from acc.adapters.a2a.wire.v03_rest import WireV03Rest
from acc.adapters.a2a.wire.v1 import WireV1
from acc.application.a2a.requests import owner_of
from acc.application.a2a.subscriptions import TaskStream
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.domain.errors import (
    AccError,
    ExtensionRequired,
    InvalidInput,
    Unauthenticated,
    UnsupportedOperation,
    VersionNotSupported,
)
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.principal import ANONYMOUS, Principal
from acc.ports.outbound.auth_ports import TokenVerifierPort

log = logging.getLogger("acc.serve")
WIRES: Mapping[str, Wire] = {"1.0": WireV1(), "0.3": WireV03()}
REST_WIRES: Mapping[str, Wire] = {**WIRES, "0.3": WireV03Rest()}
NEW, OLD = WIRES["1.0"], WIRES["0.3"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticDocuments:
    """What is served as it stands: the cards, the description of the HTTP+JSON side, the keys."""

    card: bytes
    modern_card: bytes
    extended: AgentCard | None
    openapi: bytes
    modified: bytes
    keys: bytes = b""
    extensions: Collection[str] = ()
    required_extensions: Collection[str] = ()


class RequestDispatcher:
    """Finds out who calls and how they speak, and does what they ask for."""

    def __init__(
        self,
        serve: ServeA2AUseCase,
        *,
        documents: StaticDocuments,
        verifier: TokenVerifierPort | None,
        protocol_versions: Collection[str],
    ) -> None:
        self.serve = serve
        self.documents = documents
        self._verifier = verifier
        self._generations = tuple(protocol_versions)

    def wire(self, request: HttpRequest, wires: Mapping[str, Wire]) -> Wire:
        """Return the generation that a request is in; VersionNotSupported if it is not ours."""
        version = asked_version(request)
        if version not in self._generations:
            spoken = " or ".join(self._generations)
            raise VersionNotSupported(
                f"A2A version {version} is not spoken here; send the header A2A-Version: {spoken}"
            )
        return wires[version]

    async def principal(self, request: HttpRequest) -> Principal:
        """Return who calls; a token that is not good is refused in the words for none."""
        if self._verifier is None:
            return ANONYMOUS
        scheme, _, token = request.header(b"authorization").partition(" ")
        principal = None
        if scheme.lower() == "bearer" and token.strip():
            principal = await self._verifier.verify(token.strip())
        if principal is None:
            raise Unauthenticated("send good credentials as Authorization: Bearer TOKEN")
        return principal

    def extensions(self, request: HttpRequest) -> Headers:
        """Return the header that says which of the extensions asked for are used."""
        told = request.headers
        names_none = b"a2a-extensions" not in told and b"x-a2a-extensions" not in told
        if names_none and not self.documents.required_extensions:
            return []
        asked = request.header(b"a2a-extensions") or request.header(b"x-a2a-extensions")
        wanted = {uri.strip() for uri in asked.split(",")}
        for uri in self.documents.required_extensions:
            if uri not in wanted:
                raise ExtensionRequired(f"declare the extension {uri} in the A2A-Extensions header")
        used = sorted(wanted.intersection(self.documents.extensions))
        return [(b"a2a-extensions", ", ".join(used).encode())] if used else []

    def extended_card(self, principal: Principal, tenant: str = "") -> AgentCard:
        """Return the card for those who are known, and may ask for it within the tenant."""
        extended = self.documents.extended
        if extended is None:
            raise UnsupportedOperation("this agent has no extended card")
        self.serve.check_authenticated(principal, "the extended card")
        owner_of(principal, tenant)
        return extended

    async def perform(
        self,
        wire: Wire,
        operation: Operation,
        principal: Principal,
        asked: Any,
        request: HttpRequest,
    ) -> bytes | TaskStream:
        """Do what was asked and return it as JSON, or the stream that tells it."""
        serve = self.serve
        if asked.tenant:
            check_tenant(asked.tenant)
        match operation:
            case Operation.SEND:
                return wire.write_send_result(await serve.send(principal, asked))
            case Operation.STREAM:
                return await serve.stream(principal, asked, after=_last_event(request))
            case Operation.GET:
                return wire.write_task(await serve.get(principal, asked))
            case Operation.LIST:
                page = await serve.listed(principal, asked)
                return wire.write_page(page, asked.query.page_size, asked.include_artifacts)
            case Operation.CANCEL:
                return wire.write_task(await serve.cancel(principal, asked))
            case Operation.SUBSCRIBE:
                return await serve.subscribe(principal, asked, after=_last_event(request))
            case Operation.EXTENDED_CARD:
                return wire.write_card(self.extended_card(principal, asked.tenant))
        return await self._perform_push(wire, operation, principal, asked)

    async def _perform_push(
        self, wire: Wire, operation: Operation, principal: Principal, asked: Any
    ) -> bytes:
        serve = self.serve
        match operation:
            case Operation.PUSH_CREATE:
                return wire.write_push(await serve.create_push(principal, asked))
            case Operation.PUSH_GET:
                return wire.write_push(await serve.get_push(principal, asked))
            case Operation.PUSH_LIST:
                return wire.write_push_list(*await serve.pushes(principal, asked))
        await serve.delete_push(principal, asked)
        return wire.write_empty()


def asked_version(request: HttpRequest) -> str:
    """Return the generation that a request names; patches do not count, nothing means 0.3."""
    asked = request.header(b"a2a-version")
    if asked in WIRES:
        return asked
    if not asked and b"A2A-Version" in request.scope["query_string"]:
        asked = request.query().get("A2A-Version", "")
    return ".".join(asked.split(".")[:2])[:20] or "0.3"


def note(error: BaseException) -> None:
    """Log an error that is ours and not the caller's."""
    if isinstance(error, HttpError):
        return
    if not isinstance(error, AccError) or wire_error_for(error).http_status >= 500:
        log.error("internal error", exc_info=error)


def challenge(status: int) -> Headers:
    """Return the headers that tell a client how to do better."""
    if status == 401:
        return [(b"www-authenticate", b"Bearer")]
    return [(b"retry-after", b"5")] if status == 429 else []


def _last_event(request: HttpRequest) -> int | None:
    told = request.header(b"last-event-id")
    if not told:
        return None
    if not told.isascii() or not told.isdigit() or len(told) > 15:
        raise InvalidInput("Last-Event-ID: send the id of the last event that came, a number")
    return int(told)
