"""What every session store does alike with the events it is given."""

import struct
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
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
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import SessionKey
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

_USER = "user"


def starts_run(event: Event) -> bool:
    """Tell whether an event starts a run and counts a turn: a message of the user."""
    return event.kind is EventKind.MESSAGE and event.author == _USER


def continues(seq: int, events: Sequence[Event]) -> bool:
    """Tell whether events go on, without a gap, where a session that is at `seq` ends."""
    for event in events:
        seq += 1
        if event.seq != seq:
            return False
    return True


def busy(key: SessionKey, holder: str | None) -> SessionBusy:
    """Return the error for a session that another run holds."""
    return SessionBusy(
        f"session {key.session_id!r} of user {key.user_id!r} is held by another run ({holder}); "
        "wait until it ends"
    )


def out_of_order(key: SessionKey, seq: int, events: Sequence[Event]) -> SessionConflict:
    """Return the error for events whose numbers do not continue the session's."""
    numbers = ", ".join(str(event.seq) for event in events[:5])
    return SessionConflict(
        f"session {key.session_id!r} of user {key.user_id!r} ends with event {seq}, "
        f"so it cannot be continued with {numbers}"
    )


def not_held(key: SessionKey, holder: str) -> SessionConflict:
    """Return the error for someone who does not, or no longer, hold the session."""
    return SessionConflict(
        f"session {key.session_id!r} of user {key.user_id!r} is not held by {holder}: another "
        "process took it over, or it was released or deleted; open it again"
    )


_WITHOUT_ORDER = msgspec.json.Encoder(order="deterministic")
_CURSOR = struct.Struct(">dq")
_CHECKED = struct.Struct(">16sI")


class Advance(NamedTuple):
    """What updates come to: their events, and where they leave the task.

    `moved_at` is None if none of them told a status.
    """

    events: tuple[TaskEvent, ...]
    state: TaskState
    moved_at: float | None
    is_reply: bool


def advanced(task_id: str, state: TaskState, seq: int, updates: Sequence[Update]) -> Advance:
    """Number updates that follow event `seq`; MoveForbidden if one of them cannot happen."""
    events = []
    moved_at, is_reply = None, False
    for update in updates:
        if not is_valid_transition(state, update):
            raise InvalidTransition(task_id, state.value, _in_words(update))
        seq += 1
        events.append(TaskEvent(seq, update))
        if isinstance(update, StatusUpdate):
            state, moved_at = update.status.state, update.status.at
        elif isinstance(update, DirectReply):
            state, is_reply = TaskState.COMPLETED, True
    return Advance(tuple(events), state, moved_at, is_reply)


def _in_words(update: Update) -> str:
    if isinstance(update, StatusUpdate):
        return update.status.state.value
    if isinstance(update, ArtifactUpdate):
        return "an artifact"
    return "a message" if isinstance(update, MessageAdded) else "a direct reply"


def check_active(count: int, most: int | None) -> None:
    """Refuse a further task of an owner who has as many at work as one may have."""
    if most is not None and count >= most:
        raise LimitExceeded(f"at most {most} tasks of one caller at a time; wait for some to end")


def check_pushes(count: int, most: int | None) -> None:
    """Refuse a further configuration of a task that has as many as one may have."""
    if most is not None and count >= most:
        raise LimitExceeded(f"at most {most} push configurations of one task")


def is_told(update: Update) -> bool:
    """Tell whether an update goes to those who want to be told of a task."""
    if isinstance(update, ArtifactUpdate):
        return update.last_chunk
    return isinstance(update, StatusUpdate)


def digest_of(message: Message, task_id: str, key: str) -> bytes:
    """Return what a message that comes again is known by: its id, its parts, and where it goes.

    `task_id` is the task that the client sent it to, empty if it was to start one.
    """
    try:
        what = (key or message.message_id, task_id, message.parts)
        return sha256(_WITHOUT_ORDER.encode(what)).digest()
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"message {message.message_id!r} cannot be stored: {error}") from error


def is_of_another_context(known: Task, message: Message) -> bool:
    """Tell whether a message that led to a task before now goes to another context than that."""
    return message.context_id not in ("", known.context_id)


def digest_within(digest: bytes, context_id: str) -> bytes:
    """Return what a message is known by that came to another context before."""
    return sha256(digest + context_id.encode("utf-8", "surrogatepass")).digest()


def page_token(moved_at: float, move: int) -> str:
    """Return where a page ends, as a word that goes into a URL as it is."""
    place = _CURSOR.pack(moved_at, move)
    return urlsafe_b64encode(_CHECKED.pack(place, crc32(place))).rstrip(b"=").decode()


def place_of(token: str) -> tuple[float, int]:
    """Return what `page_token` was given; InvalidInput if the token is none of ours."""
    try:
        place, checksum = _CHECKED.unpack(b64decode(f"{token}=", altchars=b"-_", validate=True))
        moved_at, move = _CURSOR.unpack(place)
    except (ValueError, struct.error):
        checksum, place, moved_at, move = -1, b"", 0.0, 0
    if checksum != crc32(place) or isnan(moved_at):
        raise InvalidInput("pageToken: it is none that we gave out; leave it out to start anew")
    return moved_at, move


_ENCODER = msgspec.json.Encoder()


def encoded(value: object, what: str) -> bytes:
    """Return a value as JSON; InvalidInput, naming what it is, if there is no JSON for it."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from error


def readable(value: object, what: str, decoder: "msgspec.json.Decoder[Any]") -> bytes:
    """Return a value as JSON that can be read again: what cannot would make the rest unusable."""
    body = encoded(value, what)
    try:
        decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from error
    return body
