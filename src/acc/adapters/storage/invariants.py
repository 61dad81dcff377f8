"""Rules that every store applies in the same way, whatever it is built on."""

import struct
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import isnan
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from acc.domain.errors import (
    InvalidInput,
    InvalidTransition,
    LimitExceeded,
    SessionBusy,
    SessionConflict,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    DirectReply,
    Message,
    MessageAdded,
    StatusUpdate,
    Task,
    TaskEvent,
    TaskState,
    Update,
    is_valid_transition,
)
from acc.ports.outbound.storage_ports import BeginTurn, ContentLimit

_USER = "user"
_ENCODER = msgspec.json.Encoder()
_CANONICAL_ENCODER = msgspec.json.Encoder(order="deterministic")
_CURSOR = struct.Struct(">dq")
_SIGNED_CURSOR = struct.Struct(">16sI")
_NOT_ENCODABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


# Sessions


def starts_run(event: Event) -> bool:
    """Return True if an event starts a run and counts a turn: a user's message."""
    return event.kind is EventKind.MESSAGE and event.author == _USER


def opening_events(session: Session, turn: BeginTurn) -> tuple[Event, ...]:
    """Return the numbered events that start a turn, none if the session waits for input.

    If the process of the last run died, its run is closed as failed first. With `waits_for_runs`
    SessionBusy is raised instead, because an engine continues the run.
    """
    message = turn.message
    if session.status is RunStatus.INPUT_REQUIRED:
        return ()
    seq, detail = session.seq + 1, {**message.detail, "turn": session.turns + 1}
    if session.status is not RunStatus.WORKING:
        return (replace(message, seq=seq, detail=detail),)
    if turn.waits_for_runs:
        raise session_busy(session.key, session.run_id)
    ended = Event(
        kind=EventKind.ENDED,
        run_id=session.run_id,
        author=turn.agent,
        seq=seq,
        at=message.at,
        request_id=message.request_id,
        trace_id=message.trace_id,
        caller=message.caller,
        parts=text_part("the process was interrupted"),
        status=RunStatus.FAILED,
        detail={"code": "interrupted"},
    )
    return (ended, replace(message, seq=seq + 1, detail=detail))


def fork_events(events: Sequence[Event], *, at: float, agent: str) -> tuple[Event, ...]:
    """Return the events that end the last of the copied runs, none if it has ended.

    A run that waits for input or still runs belongs to the source alone: its approvals must not
    count twice.
    """
    last = next((e for e in reversed(events) if starts_run(e) or e.kind is EventKind.ENDED), None)
    if last is None or last.status not in (None, RunStatus.INPUT_REQUIRED):
        return ()
    ended = Event(
        kind=EventKind.ENDED,
        run_id=last.run_id,
        author=agent,
        seq=events[-1].seq + 1,
        at=at,
        request_id=last.request_id,
        trace_id=last.trace_id,
        caller=last.caller,
        parts=text_part("the session was copied before this turn ended"),
        status=RunStatus.CANCELED,
        detail={"code": "forked"},
    )
    return (ended,)


def session_busy(key: SessionKey, holder: str | None) -> SessionBusy:
    """Return the error for a session whose lease another run holds."""
    return SessionBusy(
        f"session {key.session_id!r} of user {key.user_id!r} is leased by another run ({holder}); "
        "wait until it ends"
    )


def lease_lost(key: SessionKey, holder: str) -> SessionConflict:
    """Return the error for a write without the lease of the session."""
    return SessionConflict(
        f"session {key.session_id!r} of user {key.user_id!r} is not leased by {holder}: another "
        "process took it over, or it was released or deleted; open it again"
    )


def check_fork(
    source: SessionKey, target: SessionKey, *, has_source: bool, has_target: bool
) -> None:
    """Raise InvalidInput if a session cannot be copied."""
    if source[:2] != target[:2]:
        raise InvalidInput("a session can only be copied to a session of the same user and app")
    if not has_source:
        raise InvalidInput(f"session {source.session_id!r} does not exist")
    if has_target:
        raise InvalidInput(f"session {target.session_id!r} already exists; choose another id")


def session_files(events: Sequence[Event]) -> list[tuple[str, int]]:
    """Return name and version of the files of the session itself that events have stored."""
    return [
        (event.detail["name"], event.detail["version"])
        for event in events
        if event.kind is EventKind.ARTIFACT
        and "version" in event.detail
        and not event.detail["name"].startswith(Scope.USER)
    ]


# Tasks


class Advance(NamedTuple):
    """The events that updates become, and the state they leave the task in.

    `updated_at` is None if none of them is a status.
    """

    events: tuple[TaskEvent, ...]
    state: TaskState
    updated_at: float | None
    is_reply: bool


def advance(task_id: str, state: TaskState, seq: int, updates: Sequence[Update]) -> Advance:
    """Number updates that follow event `seq`; InvalidTransition if one is not allowed."""
    events = []
    updated_at, is_reply = None, False
    for update in updates:
        if not is_valid_transition(state, update):
            raise InvalidTransition(task_id, state.value, _describe(update))
        seq += 1
        events.append(TaskEvent(seq, update))
        if isinstance(update, StatusUpdate):
            state, updated_at = update.status.state, update.status.at
        elif isinstance(update, DirectReply):
            state, is_reply = TaskState.COMPLETED, True
    return Advance(tuple(events), state, updated_at, is_reply)


def _describe(update: Update) -> str:
    if isinstance(update, StatusUpdate):
        return update.status.state.value
    if isinstance(update, ArtifactUpdate):
        return "an artifact"
    return "a message" if isinstance(update, MessageAdded) else "a direct reply"


def check_active(count: int, limit: int | None) -> None:
    """Raise LimitExceeded if an owner has reached the limit of active tasks."""
    if limit is not None and count >= limit:
        raise LimitExceeded(f"a caller may have at most {limit} active tasks; wait until one ends")


def message_size(message: Message) -> int:
    """Return the bytes of a message; files count with their decoded size."""
    size = _json_size(message.metadata)
    for name in (*message.reference_task_ids, *message.extensions):
        size += _text_size(name)
    for part in message.parts:
        if part.text is not None:
            size += _text_size(part.text)
        elif part.raw is not None:
            size += len(part.raw)
        elif part.url is not None:
            size += _text_size(part.url)
        elif part.data is not None:
            size += len(msgspec.json.encode(part.data))
        size += _json_size(part.metadata) + _text_size(part.filename) + _text_size(part.media_type)
    return size


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _json_size(data: Mapping[str, Any]) -> int:
    return len(msgspec.json.encode(data)) if data else 0


def check_content(tasks: int, size: int, limit: ContentLimit | None) -> None:
    """Raise LimitExceeded if an account would have more tasks or bytes than its limit."""
    if limit is None:
        return
    if tasks > limit.tasks:
        raise LimitExceeded(
            f"a caller may have at most {limit.tasks} stored tasks; the server "
            "deletes finished tasks after its retention time"
        )
    if size > limit.bytes:
        raise LimitExceeded(
            f"the tasks of a caller may contain at most {limit.bytes} bytes of messages; the "
            "server deletes finished tasks after its retention time"
        )


def check_push_configs(count: int, limit: int | None) -> None:
    """Raise LimitExceeded if a task has reached the limit of push configurations."""
    if limit is not None and count >= limit:
        raise LimitExceeded(
            f"a task may have at most {limit} push configurations; delete one first"
        )


def is_notified(update: Update) -> bool:
    """Return True if an update is delivered to push configurations."""
    if isinstance(update, ArtifactUpdate):
        return update.last_chunk
    return isinstance(update, StatusUpdate)


# Repeated messages


def message_digest(message: Message, task_id: str, key: str) -> bytes:
    """Return the digest that identifies a repeated message: its id, parts and target.

    `task_id` is the task that the client sent it to, empty if it was to start one. A `key`
    replaces the id.
    """
    try:
        content = (key or message.message_id, task_id, message.parts)
        return sha256(_CANONICAL_ENCODER.encode(content)).digest()
    except _NOT_ENCODABLE as error:
        raise InvalidInput(f"message {message.message_id!r} cannot be stored: {error}") from error


def names_other_context(known: Task, message: Message) -> bool:
    """Return True if a repeated message names another context than that of its task."""
    return message.context_id not in ("", known.context_id)


def digest_in_context(digest: bytes, context_id: str) -> bytes:
    """Return the digest of a message that was sent to another context before."""
    return sha256(digest + context_id.encode("utf-8", "surrogatepass")).digest()


# Page tokens


def page_token(updated_at: float, revision: int) -> str:
    """Return a token for the position where a page ends; it needs no escaping in a URL."""
    cursor = _CURSOR.pack(updated_at, revision)
    return urlsafe_b64encode(_SIGNED_CURSOR.pack(cursor, crc32(cursor))).rstrip(b"=").decode()


def parse_page_token(token: str) -> tuple[float, int]:
    """Return the arguments of `page_token`; InvalidInput if the token is not valid."""
    try:
        padded = b64decode(f"{token}=", altchars=b"-_", validate=True)
        cursor, checksum = _SIGNED_CURSOR.unpack(padded)
        updated_at, revision = _CURSOR.unpack(cursor)
    except (ValueError, struct.error):
        checksum, cursor, updated_at, revision = -1, b"", 0.0, 0
    if checksum != crc32(cursor) or isnan(updated_at):
        raise InvalidInput("pageToken: not a token of this server; omit it to get the first page")
    return updated_at, revision


# Encoding


def encode(value: object, what: str) -> bytes:
    """Return a value as JSON; InvalidInput, naming `what`, if that is not possible."""
    try:
        return _ENCODER.encode(value)
    except _NOT_ENCODABLE as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from error


def encode_readable(value: object, what: str, decoder: "msgspec.json.Decoder[Any]") -> bytes:
    """Return a value as JSON that the decoder accepts, so that no record becomes unreadable."""
    body = encode(value, what)
    try:
        decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from error
    return body
