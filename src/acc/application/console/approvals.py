"""The inbox of requests that runs wait for, bound to what they ask."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from acc.application.runtime.replay import pending_requests
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort, StoreCatalogPort

_SESSIONS_PER_PAGE = 50
#: The events of a run that say what it waits for.
_ASKING = (EventKind.INPUT_REQUIRED, EventKind.INPUT, EventKind.ENDED)


class StaleApproval(AccError):
    """The request was answered, expired, or asks something else than the page showed."""

    code = "stale_approval"


class PendingRequest(NamedTuple):
    """A request that a session waits for; `digest` identifies what it asks."""

    key: SessionKey
    request: InputRequest
    digest: str


def request_digest(key: SessionKey, request: InputRequest) -> str:
    """Return a hash of a request: its session, run, tool, arguments and schema."""
    content = msgspec.json.encode([list(key), msgspec.to_builtins(request)], order="sorted")
    return hashlib.sha256(content).hexdigest()


async def pending_in(store: SessionStorePort, session: Session) -> tuple[PendingRequest, ...]:
    """Return the requests that a session waits for."""
    if session.status is not RunStatus.INPUT_REQUIRED:
        return ()
    # A run may have thousands of other events, and pages ask every second.
    events = await store.events(session.key, run_id=session.run_id, kinds=_ASKING)
    return tuple(
        PendingRequest(session.key, request, request_digest(session.key, request))
        for request in pending_requests(events)
    )


async def inbox(store: SessionStorePort, catalog: StoreCatalogPort) -> tuple[PendingRequest, ...]:
    """Return the pending requests of all sessions, of the most recently used first."""
    found = await catalog.list_sessions(status=RunStatus.INPUT_REQUIRED, limit=_SESSIONS_PER_PAGE)
    return tuple([p for session in found.sessions for p in await pending_in(store, session)])


async def find_pending(
    store: SessionStorePort, key: SessionKey, request_id: str, digest: str
) -> InputRequest:
    """Return a pending request, or raise StaleApproval if it is not what the page showed."""
    session = await store.read(key)
    pending = () if session is None else await pending_in(store, session)
    found = next((one for one in pending if one.request.id == request_id), None)
    if found is None:
        raise StaleApproval("this request is no longer pending: it was answered or canceled")
    if found.digest != digest:
        raise StaleApproval("this request has changed since the page was loaded; reload and check")
    return found.request


def make_answer(
    request: InputRequest, decision: str, *, arguments: str, value: str, reason: str
) -> InputAnswer:
    """Return the answer to a request from the fields of a form.

    `arguments` is a JSON object that replaces the arguments of the call if it differs from them.
    """
    if decision not in (ApprovalDecision.APPROVE, ApprovalDecision.DENY):
        raise InvalidInput(f"decision must be approve or deny, got {decision!r}")
    verdict = ApprovalDecision(decision)
    if verdict is ApprovalDecision.DENY:
        return InputAnswer(request_id=request.id, verdict=verdict, reason=reason, by="console")
    edited = _edited_arguments(request, arguments)
    answer: JsonData = None
    if request.kind in (RequestKind.INPUT, RequestKind.OUTCOME):
        if not value.strip():
            raise InvalidInput("the answer is empty; enter a value")
        answer = value
        if request.kind is RequestKind.OUTCOME:
            answer = _as_json(value)
    return InputAnswer(request_id=request.id, arguments=edited, value=answer, by="console")


def _edited_arguments(request: InputRequest, text: str) -> Mapping[str, JsonData] | None:
    if request.kind is not RequestKind.CONFIRMATION or not text.strip():
        return None
    try:
        arguments = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise InvalidInput("the arguments must be a JSON object")
    return None if arguments == dict(request.arguments) else arguments


def _as_json(text: str) -> JsonData:
    try:
        value: JsonData = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value
