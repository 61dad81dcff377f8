"""Tasks and all they hold as generation 1.0 writes them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from acc.adapters.a2a.wire.json_fields import (
    decode_base64,
    encode_base64,
    field_error,
    format_timestamp,
    parse_timestamp_or_zero,
    require_text,
)
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
    TaskStatus,
)

STATES = {
    "TASK_STATE_UNSPECIFIED": TaskState.UNKNOWN,
    "TASK_STATE_SUBMITTED": TaskState.SUBMITTED,
    "TASK_STATE_WORKING": TaskState.WORKING,
    "TASK_STATE_COMPLETED": TaskState.COMPLETED,
    "TASK_STATE_FAILED": TaskState.FAILED,
    "TASK_STATE_CANCELED": TaskState.CANCELED,
    "TASK_STATE_INPUT_REQUIRED": TaskState.INPUT_REQUIRED,
    "TASK_STATE_REJECTED": TaskState.REJECTED,
    "TASK_STATE_AUTH_REQUIRED": TaskState.AUTH_REQUIRED,
}
STATE_NAMES = {state: name for name, state in STATES.items()}
ROLES = {"ROLE_USER": Role.USER, "ROLE_AGENT": Role.AGENT}
ROLE_NAMES = {role: name for name, role in ROLES.items()}
#: In protobuf's JSON a name may be written as its number in the definition of the protocol.
NUMBERED_STATES = dict(enumerate(STATES.values()))
NUMBERED_ROLES = dict(enumerate(ROLES.values(), 1))
_ROLES: dict[str | int, Role] = dict([*ROLES.items(), *NUMBERED_ROLES.items()])
_STATES: dict[str | int | None, TaskState] = dict([*STATES.items(), *NUMBERED_STATES.items()])


class Shape(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """An object on the wire, where null is as good as absent."""


class PartShape(Shape):
    """A part."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = UNSET
    filename: str | None = None
    media_type: str | None = None
    metadata: dict[str, Any] | None = None


class MessageShape(Shape):
    """A message."""

    message_id: str | None = None
    context_id: str | None = None
    task_id: str | None = None
    role: str | int | None = None
    parts: list[PartShape] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


class ArtifactShape(Shape):
    """An artifact."""

    artifact_id: str | None = None
    name: str | None = None
    description: str | None = None
    parts: list[PartShape] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class StatusShape(Shape):
    """A task's status."""

    state: str | int | None = None
    message: MessageShape | None = None
    timestamp: str | None = None


class TaskShape(Shape):
    """A task."""

    id: str | None = None
    context_id: str | None = None
    status: StatusShape | None = None
    artifacts: list[ArtifactShape] | None = None
    history: list[MessageShape] | None = None
    metadata: dict[str, Any] | None = None


class StatusUpdateShape(Shape):
    """A move of a task."""

    task_id: str | None = None
    context_id: str | None = None
    status: StatusShape | None = None
    metadata: dict[str, Any] | None = None


class ArtifactUpdateShape(Shape):
    """Something a task has made, or a piece of it."""

    task_id: str | None = None
    context_id: str | None = None
    artifact: ArtifactShape | None = None
    append: bool | None = None
    last_chunk: bool | None = None
    metadata: dict[str, Any] | None = None


class StreamShape(Shape):
    """An item of a stream, or what a message led to."""

    task: TaskShape | None = None
    message: MessageShape | None = None
    status_update: StatusUpdateShape | None = None
    artifact_update: ArtifactUpdateShape | None = None


def part_from(shape: PartShape, where: str, index: int) -> Part:
    """Return a part, which must hold exactly one content."""
    raw, data = shape.raw, shape.data
    held = [shape.text, raw, shape.url].count(None)
    if data is None and held < 3:
        # A client that writes every key says null for what is not there.
        data = UNSET
    if held - (data is not UNSET) != 2:
        raise field_error(f"{where}[{index}]", "must hold exactly one of text, raw, url and data")
    return Part(
        text=shape.text,
        raw=None if raw is None else decode_base64(raw, f"{where}[{index}].raw"),
        url=shape.url,
        data=None if data is UNSET else data,
        is_null=data is None,
        filename=shape.filename or "",
        media_type=shape.media_type or "",
        metadata=shape.metadata or {},
    )


def parts_from(shapes: Sequence[PartShape] | None, where: str) -> tuple[Part, ...]:
    """Return parts."""
    return tuple([part_from(shape, where, index) for index, shape in enumerate(shapes or ())])


def part_shapes(parts: Sequence[Part]) -> list[PartShape]:
    """Return parts for the wire; calls and results of tools stay at home."""
    return [_part_shape(part) for part in parts if part.call is None and part.result is None]


def _part_shape(part: Part) -> PartShape:
    return PartShape(
        text=part.text,
        raw=None if part.raw is None else encode_base64(part.raw),
        url=part.url,
        data=None if part.is_null else (UNSET if part.data is None else part.data),
        filename=part.filename or None,
        media_type=part.media_type or None,
        metadata=dict(part.metadata) if part.metadata else None,
    )


def message_from(shape: MessageShape, where: str, *, strict: bool = False) -> Message:
    """Return a message; a strict reader wants all that the protocol requires to be there."""
    role = _ROLES.get(shape.role or "")
    if strict:
        require_text(shape.message_id, f"{where}.messageId")
        if role is None:
            raise field_error(f"{where}.role", "is required; use ROLE_USER or ROLE_AGENT")
        if not shape.parts:
            raise field_error(f"{where}.parts", "must hold at least one part")
    return Message(
        message_id=shape.message_id or "",
        role=role or Role.AGENT,
        parts=parts_from(shape.parts, f"{where}.parts"),
        context_id=shape.context_id or "",
        task_id=shape.task_id or "",
        reference_task_ids=tuple(shape.reference_task_ids or ()),
        extensions=tuple(shape.extensions or ()),
        metadata=shape.metadata or {},
    )


def message_shape(message: Message) -> MessageShape:
    """Return a message for the wire."""
    return MessageShape(
        message_id=message.message_id,
        context_id=message.context_id or None,
        task_id=message.task_id or None,
        role=ROLE_NAMES[message.role],
        parts=part_shapes(message.parts),
        metadata=dict(message.metadata) if message.metadata else None,
        extensions=list(message.extensions) or None,
        reference_task_ids=list(message.reference_task_ids) or None,
    )


def artifact_from(shape: ArtifactShape, where: str) -> TaskArtifact:
    """Return an artifact."""
    return TaskArtifact(
        artifact_id=require_text(shape.artifact_id, f"{where}.artifactId"),
        parts=parts_from(shape.parts, f"{where}.parts"),
        name=shape.name or "",
        description=shape.description or "",
        extensions=tuple(shape.extensions or ()),
        metadata=shape.metadata or {},
    )


def artifact_shape(artifact: TaskArtifact) -> ArtifactShape:
    """Return an artifact for the wire."""
    return ArtifactShape(
        artifact_id=artifact.artifact_id,
        name=artifact.name or None,
        description=artifact.description or None,
        parts=part_shapes(artifact.parts),
        metadata=dict(artifact.metadata) if artifact.metadata else None,
        extensions=list(artifact.extensions) or None,
    )


def status_from(shape: StatusShape | None, where: str) -> TaskStatus:
    """Return a status; a state that we do not know is unknown."""
    if shape is None:
        raise field_error(where, "is required")
    said = shape.message
    return TaskStatus(
        state=_STATES.get(shape.state, TaskState.UNKNOWN),
        at=parse_timestamp_or_zero(shape.timestamp),
        message=None if said is None else message_from(said, f"{where}.message"),
    )


def status_shape(status: TaskStatus) -> StatusShape:
    """Return a status for the wire."""
    return StatusShape(
        state=STATE_NAMES[status.state],
        message=None if status.message is None else message_shape(status.message),
        timestamp=format_timestamp(status.at),
    )


def task_from(shape: TaskShape, where: str = "") -> Task:
    """Return a task; `where` is the path to it, with a dot at its end."""
    return Task(
        id=require_text(shape.id, f"{where}id"),
        context_id=shape.context_id or "",
        status=status_from(shape.status, f"{where}status"),
        artifacts=tuple(
            artifact_from(made, f"{where}artifacts[{index}]")
            for index, made in enumerate(shape.artifacts or ())
        ),
        history=tuple(
            message_from(said, f"{where}history[{index}]")
            for index, said in enumerate(shape.history or ())
        ),
        metadata=shape.metadata or {},
    )


def task_shape(task: Task) -> TaskShape:
    """Return a task for the wire."""
    return TaskShape(
        id=task.id,
        context_id=task.context_id or None,
        status=status_shape(task.status),
        artifacts=[artifact_shape(artifact) for artifact in task.artifacts] or None,
        history=[message_shape(message) for message in task.history] or None,
        metadata=dict(task.metadata) if task.metadata else None,
    )


def status_update_from(shape: StatusUpdateShape, where: str) -> StatusUpdate:
    """Return a move of a task."""
    return StatusUpdate(
        status=status_from(shape.status, f"{where}.status"), metadata=shape.metadata or {}
    )


def artifact_update_from(shape: ArtifactUpdateShape, where: str) -> ArtifactUpdate:
    """Return something a task has made."""
    if shape.artifact is None:
        raise field_error(f"{where}.artifact", "is required")
    return ArtifactUpdate(
        artifact=artifact_from(shape.artifact, f"{where}.artifact"),
        append=bool(shape.append),
        last_chunk=bool(shape.last_chunk),
        metadata=shape.metadata or {},
    )
