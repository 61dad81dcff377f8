"""What every store of tasks does alike with the messages and updates it is given."""

import struct
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from math import isnan
from typing import NamedTuple
from zlib import crc32

import msgspec

from acc.domain.errors import InvalidInput, LimitExceeded, MoveForbidden
from acc.domain.value_objects.event import Part
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
    applied,
    may_happen,
)
from acc.domain.value_objects.value import changed

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
        if not may_happen(state, update):
            raise MoveForbidden(task_id, state.value, _in_words(update))
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


def folded(task: Task, events: Sequence[TaskEvent]) -> Task:
    """Return a task as it is after events, which the table of moves has allowed already.

    Pieces of artifacts are collected and joined once: an artifact that came in ten thousand pieces
    would otherwise be copied ten thousand times.
    """
    pending: dict[str, _Pieces] = {}
    for event in events:
        update = event.update
        if not isinstance(update, ArtifactUpdate):
            task = applied(task, event)
        elif update.append:
            name = update.artifact.artifact_id
            pieces = pending.get(name)
            if pieces is not None and pieces.take(update.artifact.parts):
                continue
            if pieces is not None:
                task = _flushed(task, pending)
            pending[name] = _Pieces(update)
        else:
            task = applied(_flushed(task, pending), event)
    task = _flushed(task, pending)
    return changed(task, seq=events[-1].seq) if events and task.seq != events[-1].seq else task


class _Pieces:
    """Further pieces of one artifact that can be added to it at once, with the same result."""

    __slots__ = ("first", "parts", "texts")

    def __init__(self, update: ArtifactUpdate) -> None:
        self.first = update
        self.texts: list[str] | None = None
        self.parts: list[Part] = []
        parts = update.artifact.parts
        if _is_text(parts):
            self.texts = [parts[0].text or ""]
        else:
            self.parts.extend(parts)

    def take(self, parts: tuple[Part, ...]) -> bool:
        """Take further parts, unless they must not be joined with those taken before."""
        # Text alone goes on where text ended, and text among other parts does not.
        if _is_text(parts) != (self.texts is not None):
            return False
        if self.texts is not None:
            self.texts.append(parts[0].text or "")
        else:
            self.parts.extend(parts)
        return True

    def update(self) -> ArtifactUpdate:
        """Return the pieces as one."""
        artifact = self.first.artifact
        if self.texts is None:
            return changed(self.first, artifact=changed(artifact, parts=tuple(self.parts)))
        if len(self.texts) == 1:
            return self.first
        whole = changed(artifact.parts[0], text="".join(self.texts))
        return changed(self.first, artifact=changed(artifact, parts=(whole,)))


def _is_text(parts: tuple[Part, ...]) -> bool:
    if len(parts) != 1:
        return False
    (part,) = parts
    return part.text is not None and not part.metadata and not part.filename


def _flushed(task: Task, pending: dict[str, _Pieces]) -> Task:
    """Return the task with all that was collected, in the order in which it first came."""
    for pieces in pending.values():
        task = applied(task, TaskEvent(task.seq, pieces.update()))
    pending.clear()
    return task
