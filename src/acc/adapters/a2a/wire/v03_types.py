"""The content types of protocol version 0.3 and their mapping to domain values."""

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
from acc.adapters.a2a.wire.v1_types import WireStruct
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
#: Data must be an object in 0.3. Other values are wrapped and marked as in the official SDK.
WRAPPED_VALUE = "data_part_compat"


class WireFile(WireStruct):
    """A file: its bytes or its URI."""

    bytes_: str | None = msgspec.field(default=None, name="bytes")
    uri: str | None = None
    name: str | None = None
    mime_type: str | None = None


class WirePart(WireStruct):
    """A part. `filename` and `media_type` of text and data are our extension of 0.3."""

    kind: str | None = None
    text: str | None = None
    file: WireFile | None = None
    data: Any = UNSET
    metadata: dict[str, Any] | None = None
    filename: str | None = None
    media_type: str | None = None


class WireMessage(WireStruct):
    """A message of a user or an agent."""

    kind: str | None = None
    message_id: str | None = None
    role: str | None = None
    parts: list[WirePart] | None = None
    context_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


class WireArtifact(WireStruct):
    """An output of a task."""

    artifact_id: str | None = None
    name: str | None = None
    description: str | None = None
    parts: list[WirePart] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class WireStatus(WireStruct):
    """The status of a task."""

    state: str | None = None
    message: WireMessage | None = None
    timestamp: str | None = None


class WireItem(WireStruct):
    """A response or stream item; `kind` selects the fields that are used."""

    kind: str | None = None
    id: str | None = None
    task_id: str | None = None
    context_id: str | None = None
    status: WireStatus | None = None
    final: bool | None = None
    artifact: WireArtifact | None = None
    append: bool | None = None
    last_chunk: bool | None = None
    artifacts: list[WireArtifact] | None = None
    history: list[WireMessage] | None = None
    message_id: str | None = None
    role: str | None = None
    parts: list[WirePart] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None

    @property
    def inferred_kind(self) -> str:
        """Return the kind; if it is absent, infer it from the other fields."""
        if self.kind:
            return self.kind
        if self.artifact is not None:
            return "artifact-update"
        if self.status is None:
            return "message"
        return "task" if self.id else "status-update"


def _from_wire_part(wire_part: WirePart, where: str) -> Part:
    """Return a part, which must contain the content of its kind."""
    contents = ("text", wire_part.text), ("file", wire_part.file), ("data", wire_part.data)
    present = [kind for kind, value in contents if value is not None and value is not UNSET]
    kind = wire_part.kind or (present[0] if len(present) == 1 else "")
    if kind not in ("text", "file", "data"):
        raise field_error(f"{where}.kind", "is required; use text, file or data")
    if present != [kind]:
        raise field_error(where, f"must contain {kind} and no other kind of content")
    if kind == "file":
        return _from_wire_file(wire_part, where)
    if kind == "data":
        return _from_wire_data(wire_part, where)
    return Part(
        text=wire_part.text,
        media_type=wire_part.media_type or "",
        filename=wire_part.filename or "",
        metadata=wire_part.metadata or {},
    )


def _from_wire_file(wire_part: WirePart, where: str) -> Part:
    file = wire_part.file or WireFile()
    if (file.bytes_ is None) == (file.uri is None):
        raise field_error(f"{where}.file", "must contain exactly one of bytes and uri")
    raw = file.bytes_
    return Part(
        raw=None if raw is None else decode_base64(raw, f"{where}.file.bytes"),
        url=file.uri,
        filename=file.name or "",
        media_type=file.mime_type or "",
        metadata=wire_part.metadata or {},
    )


def _from_wire_data(wire_part: WirePart, where: str) -> Part:
    if not isinstance(wire_part.data, dict):
        raise field_error(f"{where}.data", "must be an object")
    data: Any = wire_part.data
    metadata = wire_part.metadata or {}
    if metadata.get(WRAPPED_VALUE) is True and data.keys() == {"value"}:
        data = data["value"]
        metadata = {name: value for name, value in metadata.items() if name != WRAPPED_VALUE}
    return Part(
        data=data,
        is_null=data is None,
        media_type=wire_part.media_type or "",
        filename=wire_part.filename or "",
        metadata=metadata,
    )


def from_wire_parts(wire_parts: Sequence[WirePart] | None, where: str) -> tuple[Part, ...]:
    """Return the parts of a message or artifact; `where` is the path of the field."""
    return tuple(
        [
            _from_wire_part(wire_part, f"{where}[{index}]")
            for index, wire_part in enumerate(wire_parts or ())
        ]
    )


def to_wire_parts(parts: Sequence[Part]) -> list[WirePart]:
    """Return parts for the wire, without tool calls and tool results."""
    return [_to_wire_part(part) for part in parts if part.call is None and part.result is None]


def _to_wire_part(part: Part) -> WirePart:
    metadata = dict(part.metadata) if part.metadata else None
    if part.text is not None:
        return WirePart(
            kind="text",
            text=part.text,
            metadata=metadata,
            filename=part.filename or None,
            media_type=part.media_type or None,
        )
    if part.raw is not None or part.url is not None:
        file = WireFile(
            bytes_=None if part.raw is None else encode_base64(part.raw),
            uri=part.url,
            name=part.filename or None,
            mime_type=part.media_type or None,
        )
        return WirePart(kind="file", file=file, metadata=metadata)
    data = part.data
    if not isinstance(data, Mapping):
        data = {"value": data}
        metadata = {**(metadata or {}), WRAPPED_VALUE: True}
    return WirePart(
        kind="data",
        data=data,
        metadata=metadata,
        filename=part.filename or None,
        media_type=part.media_type or None,
    )


def from_wire_message(
    message: WireMessage | WireItem, where: str, *, strict: bool = False
) -> Message:
    """Return a message; `strict` checks the fields that the protocol requires.

    `where` is the path of the message with a trailing dot.
    """
    role = ROLES.get(message.role or "")
    if strict:
        require_text(message.message_id, f"{where}messageId")
        if role is None:
            raise field_error(f"{where}role", "is required; use user or agent")
        if not message.parts:
            raise field_error(f"{where}parts", "must contain at least one part")
        for index, part in enumerate(message.parts):
            if not part.kind:
                raise field_error(
                    f"{where}parts[{index}].kind", "is required; use text, file or data"
                )
    return Message(
        message_id=message.message_id or "",
        role=role or Role.AGENT,
        parts=from_wire_parts(message.parts, f"{where}parts"),
        context_id=message.context_id or "",
        task_id=message.task_id or "",
        reference_task_ids=tuple(message.reference_task_ids or ()),
        extensions=tuple(message.extensions or ()),
        metadata=message.metadata or {},
    )


def to_wire_message(message: Message) -> WireMessage:
    """Return a message for the wire."""
    return WireMessage(
        kind="message",
        message_id=message.message_id,
        role=message.role.value,
        parts=to_wire_parts(message.parts),
        context_id=message.context_id or None,
        task_id=message.task_id or None,
        metadata=dict(message.metadata) if message.metadata else None,
        extensions=list(message.extensions) or None,
        reference_task_ids=list(message.reference_task_ids) or None,
    )


def from_wire_artifact(artifact: WireArtifact, where: str) -> TaskArtifact:
    """Return an artifact."""
    return TaskArtifact(
        artifact_id=require_text(artifact.artifact_id, f"{where}.artifactId"),
        parts=from_wire_parts(artifact.parts, f"{where}.parts"),
        name=artifact.name or "",
        description=artifact.description or "",
        extensions=tuple(artifact.extensions or ()),
        metadata=artifact.metadata or {},
    )


def to_wire_artifact(artifact: TaskArtifact) -> WireArtifact:
    """Return an artifact for the wire."""
    return WireArtifact(
        artifact_id=artifact.artifact_id,
        name=artifact.name or None,
        description=artifact.description or None,
        parts=to_wire_parts(artifact.parts),
        metadata=dict(artifact.metadata) if artifact.metadata else None,
        extensions=list(artifact.extensions) or None,
    )


def from_wire_status(status: WireStatus | None, where: str) -> TaskStatus:
    """Return a status; an unrecognised state becomes UNKNOWN."""
    if status is None:
        raise field_error(where, "is required")
    message = status.message
    return TaskStatus(
        state=STATES.get(status.state or "", TaskState.UNKNOWN),
        at=parse_timestamp_or_zero(status.timestamp),
        message=None if message is None else from_wire_message(message, f"{where}.message."),
    )


def to_wire_status(status: TaskStatus) -> WireStatus:
    """Return a status for the wire."""
    return WireStatus(
        state=status.state.value,
        message=None if status.message is None else to_wire_message(status.message),
        timestamp=format_timestamp(status.at),
    )


def from_wire_task(item: WireItem, where: str = "") -> Task:
    """Return a task; `where` is the path of the task with a trailing dot."""
    return Task(
        id=require_text(item.id, f"{where}id"),
        context_id=item.context_id or "",
        status=from_wire_status(item.status, f"{where}status"),
        artifacts=tuple(
            from_wire_artifact(artifact, f"{where}artifacts[{index}]")
            for index, artifact in enumerate(item.artifacts or ())
        ),
        history=tuple(
            from_wire_message(message, f"{where}history[{index}].")
            for index, message in enumerate(item.history or ())
        ),
        metadata=item.metadata or {},
    )


def to_wire_task(task: Task) -> WireItem:
    """Return a task for the wire."""
    return WireItem(
        kind="task",
        id=task.id,
        context_id=task.context_id,
        status=to_wire_status(task.status),
        artifacts=[to_wire_artifact(artifact) for artifact in task.artifacts] or None,
        history=[to_wire_message(message) for message in task.history] or None,
        metadata=dict(task.metadata) if task.metadata else None,
    )


def to_wire_update(
    task_id: str, context_id: str, update: StatusUpdate | ArtifactUpdate
) -> WireItem:
    """Return an update for the wire; `final` marks the end of a stream."""
    item = WireItem(
        task_id=task_id,
        context_id=context_id,
        metadata=dict(update.metadata) if update.metadata else None,
    )
    if isinstance(update, StatusUpdate):
        item.kind = "status-update"
        item.status = to_wire_status(update.status)
        item.final = update.status.state in TERMINAL | INTERRUPTED
        return item
    item.kind = "artifact-update"
    item.artifact = to_wire_artifact(update.artifact)
    item.append = update.append or None
    item.last_chunk = update.last_chunk or None
    return item
