"""Tasks and all they hold as generation 0.3 writes them."""

from collections.abc import Mapping, Sequence
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
from acc.adapters.a2a.wire.v1_types import Shape
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import (
    INTERRUPTED,
    TERMINAL,
    ArtifactUpdate,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
    TaskStatus,
)

STATES: Mapping[str, TaskState] = {state.value: state for state in TaskState}
ROLES: Mapping[str, Role] = {role.value: role for role in Role}
#: Data had to be an object; what was none is wrapped, and marked as the official library does.
WRAPPED = "data_part_compat"


class FileShape(Shape):
    """A file, in its bytes or by reference."""

    bytes_: str | None = msgspec.field(default=None, name="bytes")
    uri: str | None = None
    name: str | None = None
    mime_type: str | None = None


class PartShape(Shape):
    """A part. What text and data have no field for goes into two more, which others ignore."""

    kind: str | None = None
    text: str | None = None
    file: FileShape | None = None
    data: Any = UNSET
    metadata: dict[str, Any] | None = None
    filename: str | None = None
    media_type: str | None = None


class MessageShape(Shape):
    """A message."""

    kind: str | None = None
    message_id: str | None = None
    role: str | None = None
    parts: list[PartShape] | None = None
    context_id: str | None = None
    task_id: str | None = None
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

    state: str | None = None
    message: MessageShape | None = None
    timestamp: str | None = None


class ItemShape(Shape):
    """Anything that a server answers or streams: its kind says which of the fields count."""

    kind: str | None = None
    id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    status: StatusShape | None = None
    final: bool | None = None
    artifact: ArtifactShape | None = None
    append: bool | None = None
    last_chunk: bool | None = None
    artifacts: list[ArtifactShape] | None = None
    history: list[MessageShape] | None = None
    message_id: str | None = None
    role: str | None = None
    parts: list[PartShape] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None

    @property
    def inferred_kind(self) -> str:
        """Return the kind, guessed from what is there if it is not said."""
        if self.kind:
            return self.kind
        if self.artifact is not None:
            return "artifact-update"
        if self.status is None:
            return "message"
        return "task" if self.id else "status-update"


def part_from(shape: PartShape, where: str) -> Part:
    """Return a part, which must hold what its kind says."""
    held = ("text", shape.text), ("file", shape.file), ("data", shape.data)
    present = [kind for kind, content in held if content is not None and content is not UNSET]
    kind = shape.kind or (present[0] if len(present) == 1 else "")
    if kind not in ("text", "file", "data"):
        raise field_error(f"{where}.kind", "is required; use text, file or data")
    if present != [kind]:
        raise field_error(where, f"must hold {kind}, and neither of the other kinds")
    if kind == "file":
        return _file_from(shape, where)
    if kind == "data":
        return _data_from(shape, where)
    return Part(
        text=shape.text,
        media_type=shape.media_type or "",
        filename=shape.filename or "",
        metadata=shape.metadata or {},
    )


def _file_from(shape: PartShape, where: str) -> Part:
    file = shape.file or FileShape()
    if (file.bytes_ is None) == (file.uri is None):
        raise field_error(f"{where}.file", "must hold exactly one of bytes and uri")
    raw = file.bytes_
    return Part(
        raw=None if raw is None else decode_base64(raw, f"{where}.file.bytes"),
        url=file.uri,
        filename=file.name or "",
        media_type=file.mime_type or "",
        metadata=shape.metadata or {},
    )


def _data_from(shape: PartShape, where: str) -> Part:
    if not isinstance(shape.data, dict):
        raise field_error(f"{where}.data", "must be an object")
    data: Any = shape.data
    metadata = shape.metadata or {}
    if metadata.get(WRAPPED) is True and data.keys() == {"value"}:
        data = data["value"]
        metadata = {name: held for name, held in metadata.items() if name != WRAPPED}
    return Part(
        data=data,
        is_null=data is None,
        media_type=shape.media_type or "",
        filename=shape.filename or "",
        metadata=metadata,
    )


def parts_from(shapes: Sequence[PartShape] | None, where: str) -> tuple[Part, ...]:
    """Return parts."""
    return tuple([part_from(shape, f"{where}[{at}]") for at, shape in enumerate(shapes or ())])


def part_shapes(parts: Sequence[Part]) -> list[PartShape]:
    """Return parts for the wire; calls and results of tools stay at home."""
    return [_part_shape(part) for part in parts if part.call is None and part.result is None]


def _part_shape(part: Part) -> PartShape:
    metadata = dict(part.metadata) if part.metadata else None
    if part.text is not None:
        return PartShape(
            kind="text",
            text=part.text,
            metadata=metadata,
            filename=part.filename or None,
            media_type=part.media_type or None,
        )
    if part.raw is not None or part.url is not None:
        file = FileShape(
            bytes_=None if part.raw is None else encode_base64(part.raw),
            uri=part.url,
            name=part.filename or None,
            mime_type=part.media_type or None,
        )
        return PartShape(kind="file", file=file, metadata=metadata)
    data = part.data
    if not isinstance(data, Mapping):
        data = {"value": data}
        metadata = {**(metadata or {}), WRAPPED: True}
    return PartShape(
        kind="data",
        data=data,
        metadata=metadata,
        filename=part.filename or None,
        media_type=part.media_type or None,
    )


def message_from(shape: MessageShape | ItemShape, where: str, *, strict: bool = False) -> Message:
    """Return a message; a strict reader wants all that the protocol requires to be there."""
    role = ROLES.get(shape.role or "")
    if strict:
        require_text(shape.message_id, f"{where}messageId")
        if role is None:
            raise field_error(f"{where}role", "is required; use user or agent")
        if not shape.parts:
            raise field_error(f"{where}parts", "must hold at least one part")
        for place, part in enumerate(shape.parts):
            if not part.kind:
                raise field_error(
                    f"{where}parts[{place}].kind", "is required; use text, file or data"
                )
    return Message(
        message_id=shape.message_id or "",
        role=role or Role.AGENT,
        parts=parts_from(shape.parts, f"{where}parts"),
        context_id=shape.context_id or "",
        task_id=shape.task_id or "",
        reference_task_ids=tuple(shape.reference_task_ids or ()),
        extensions=tuple(shape.extensions or ()),
        metadata=shape.metadata or {},
    )


def message_shape(message: Message) -> MessageShape:
    """Return a message for the wire."""
    return MessageShape(
        kind="message",
        message_id=message.message_id,
        role=message.role.value,
        parts=part_shapes(message.parts),
        context_id=message.context_id or None,
        task_id=message.task_id or None,
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
        state=STATES.get(shape.state or "", TaskState.UNKNOWN),
        at=parse_timestamp_or_zero(shape.timestamp),
        message=None if said is None else message_from(said, f"{where}.message."),
    )


def status_shape(status: TaskStatus) -> StatusShape:
    """Return a status for the wire."""
    return StatusShape(
        state=status.state.value,
        message=None if status.message is None else message_shape(status.message),
        timestamp=format_timestamp(status.at),
    )


def task_from(shape: ItemShape, where: str = "") -> Task:
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
            message_from(said, f"{where}history[{index}].")
            for index, said in enumerate(shape.history or ())
        ),
        metadata=shape.metadata or {},
    )


def task_shape(task: Task) -> ItemShape:
    """Return a task for the wire."""
    return ItemShape(
        kind="task",
        id=task.id,
        context_id=task.context_id,
        status=status_shape(task.status),
        artifacts=[artifact_shape(artifact) for artifact in task.artifacts] or None,
        history=[message_shape(message) for message in task.history] or None,
        metadata=dict(task.metadata) if task.metadata else None,
    )


def update_shape(task_id: str, context_id: str, update: StatusUpdate | ArtifactUpdate) -> ItemShape:
    """Return what happened to a task, for the wire; `final` if nothing follows by itself."""
    shape = ItemShape(
        task_id=task_id,
        context_id=context_id,
        metadata=dict(update.metadata) if update.metadata else None,
    )
    if isinstance(update, StatusUpdate):
        shape.kind = "status-update"
        shape.status = status_shape(update.status)
        shape.final = update.status.state in TERMINAL | INTERRUPTED
        return shape
    shape.kind = "artifact-update"
    shape.artifact = artifact_shape(update.artifact)
    shape.append = update.append or None
    shape.last_chunk = update.last_chunk or None
    return shape
