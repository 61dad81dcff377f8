"""The types of protocol version 1.0 and their mapping to domain values.

Each type has the name of the protocol definition with the prefix `Wire`. The OpenAPI document is
generated from them. Every field is optional because null and absent mean the same; required fields
are checked by the mapping. Constraints are in `extra_json_schema`: they document what the server
enforces, but responses of remote servers are decoded without them.
"""

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta

from acc.adapters.a2a.wire.json_fields import (
    MAX_INT,
    IntegerField,
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
#: Protobuf JSON allows the number of an enum value in place of its name.
NUMBERED_STATES = dict(enumerate(STATES.values()))
NUMBERED_ROLES = dict(enumerate(ROLES.values(), 1))
_ROLES: dict[str | int, Role] = dict([*ROLES.items(), *NUMBERED_ROLES.items()])
_STATES: dict[str | int | None, TaskState] = dict([*STATES.items(), *NUMBERED_STATES.items()])

Id: TypeAlias = Annotated[str | None, Meta(extra_json_schema={"maxLength": 256})]
RequiredId: TypeAlias = Annotated[
    str | None, Meta(extra_json_schema={"minLength": 1, "maxLength": 256})
]
Base64: TypeAlias = Annotated[
    str | None,
    Meta(extra_json_schema={"contentEncoding": "base64", "pattern": r"^[A-Za-z0-9+/_-]*={0,2}$"}),
]
Timestamp: TypeAlias = Annotated[str | None, Meta(extra_json_schema={"format": "date-time"})]
RoleField: TypeAlias = Annotated[
    str | int | None, Meta(extra_json_schema={"enum": [*ROLES, *NUMBERED_ROLES]})
]
StateField: TypeAlias = Annotated[
    str | int | None, Meta(extra_json_schema={"enum": [*STATES, *NUMBERED_STATES]})
]
Count: TypeAlias = Annotated[
    IntegerField,
    Meta(
        extra_json_schema={
            "minimum": 0,
            "maximum": MAX_INT,
            "multipleOf": 1,
            "pattern": r"^([0-9]{1,9}(\.0{1,10})?([eE][+-]?0{1,2})?)?$",
        }
    ),
]
#: A value that is sent in an HTTP header.
HeaderValue: TypeAlias = Annotated[
    str | None,
    Meta(extra_json_schema={"pattern": "^([!-~]([ -~]*[!-~])?)?$", "maxLength": 8000}),
]
AuthScheme: TypeAlias = Annotated[
    str | None, Meta(extra_json_schema={"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]{0,64}$"})
]
PushUrl: TypeAlias = Annotated[
    str | None, Meta(extra_json_schema={"minLength": 1, "format": "uri"})
]


class WireStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """An object on the wire; null and absent mean the same."""


class WirePart(WireStruct):
    """Contains exactly one of text, raw, url and data."""

    text: str | None = None
    raw: Base64 = None
    url: str | None = None
    data: Any = UNSET
    filename: str | None = None
    media_type: str | None = None
    metadata: dict[str, Any] | None = None


class WireMessage(WireStruct):
    """A message of a user or an agent."""

    message_id: RequiredId = None
    context_id: Id = None
    task_id: Id = None
    role: RoleField = None
    parts: list[WirePart] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None
    reference_task_ids: list[str] | None = None


class WireArtifact(WireStruct):
    """An output of a task."""

    artifact_id: RequiredId = None
    name: str | None = None
    description: str | None = None
    parts: list[WirePart] | None = None
    metadata: dict[str, Any] | None = None
    extensions: list[str] | None = None


class WireTaskStatus(WireStruct):
    """The status of a task."""

    state: StateField = None
    message: WireMessage | None = None
    timestamp: Timestamp = None


class WireTask(WireStruct):
    """A task."""

    id: RequiredId = None
    context_id: str | None = None
    status: WireTaskStatus | None = None
    artifacts: list[WireArtifact] | None = None
    history: list[WireMessage] | None = None
    metadata: dict[str, Any] | None = None


class WireTaskStatusUpdateEvent(WireStruct):
    """A change of the status of a task."""

    task_id: RequiredId = None
    context_id: str | None = None
    status: WireTaskStatus | None = None
    metadata: dict[str, Any] | None = None


class WireTaskArtifactUpdateEvent(WireStruct):
    """An artifact of a task, or a chunk of it."""

    task_id: RequiredId = None
    context_id: str | None = None
    artifact: WireArtifact | None = None
    append: bool | None = None
    last_chunk: bool | None = None
    metadata: dict[str, Any] | None = None


class WireSendMessageResponse(WireStruct):
    """Contains a task or a message."""

    task: WireTask | None = None
    message: WireMessage | None = None


class WireStreamResponse(WireSendMessageResponse):
    """Contains a task, a message, a status update or an artifact update."""

    status_update: WireTaskStatusUpdateEvent | None = None
    artifact_update: WireTaskArtifactUpdateEvent | None = None


class WireAuthenticationInfo(WireStruct):
    """How to authenticate to the receiver of notifications."""

    scheme: AuthScheme = None
    credentials: HeaderValue = None


class WireTaskPushNotificationConfig(WireStruct):
    """A push configuration of a task."""

    tenant: str | None = None
    id: Id = None
    task_id: str | None = None
    url: PushUrl = None
    token: HeaderValue = None
    authentication: WireAuthenticationInfo | None = None


class WireListTaskPushNotificationConfigsResponse(WireStruct):
    """A page of push configurations."""

    configs: list[WireTaskPushNotificationConfig] | None = None
    next_page_token: str | None = None


class WireListTasksResponse(WireStruct):
    """A page of tasks."""

    tasks: list[WireTask] | None = None
    next_page_token: str | None = None
    page_size: Count = None
    total_size: Count = None


class WireSendMessageConfiguration(WireStruct):
    """Options of SendMessage."""

    accepted_output_modes: list[str] | None = None
    task_push_notification_config: WireTaskPushNotificationConfig | None = None
    history_length: Count = None
    return_immediately: bool | None = None


class WireSendMessageRequest(WireStruct):
    """The params of SendMessage and SendStreamingMessage."""

    tenant: str | None = None
    message: WireMessage | None = None
    configuration: WireSendMessageConfiguration | None = None
    metadata: dict[str, Any] | None = None


class WireGetTaskRequest(WireStruct):
    """The params of GetTask."""

    tenant: str | None = None
    id: str | None = None
    history_length: Count = None


class WireListTasksRequest(WireStruct):
    """The params of ListTasks."""

    tenant: str | None = None
    context_id: str | None = None
    status: str | int | None = None
    page_size: Count = None
    page_token: str | None = None
    history_length: Count = None
    status_timestamp_after: str | None = None
    include_artifacts: bool | None = None


class WireTaskRequest(WireStruct):
    """The params of CancelTask and SubscribeToTask."""

    tenant: str | None = None
    id: str | None = None
    metadata: dict[str, Any] | None = None


class WirePushRequest(WireStruct):
    """The params of the operations that get, list or delete push configurations."""

    tenant: str | None = None
    task_id: str | None = None
    id: str | None = None
    page_size: Count = None
    page_token: str | None = None


class WireCardRequest(WireStruct):
    """The params of GetExtendedAgentCard."""

    tenant: str | None = None


def from_wire_parts(wire_parts: Sequence[WirePart] | None, where: str) -> tuple[Part, ...]:
    """Return the parts of a message or artifact; `where` is the path of the field."""
    return tuple(
        [_from_wire_part(part, f"{where}[{index}]") for index, part in enumerate(wire_parts or ())]
    )


def _from_wire_part(part: WirePart, where: str) -> Part:
    raw, data = part.raw, part.data
    absent = [part.text, raw, part.url].count(None)
    if data is None and absent < 3:
        # A client that writes every field sends null for the absent ones.
        data = UNSET
    if absent - (data is not UNSET) != 2:
        raise field_error(where, "must contain exactly one of text, raw, url and data")
    return Part(
        text=part.text,
        raw=None if raw is None else decode_base64(raw, f"{where}.raw"),
        url=part.url,
        data=None if data is UNSET else data,
        is_null=data is None,
        filename=part.filename or "",
        media_type=part.media_type or "",
        metadata=part.metadata or {},
    )


def to_wire_parts(parts: Sequence[Part]) -> list[WirePart]:
    """Return parts for the wire, without tool calls and tool results."""
    return [
        WirePart(
            text=part.text,
            raw=None if part.raw is None else encode_base64(part.raw),
            url=part.url,
            data=None if part.is_null else (UNSET if part.data is None else part.data),
            filename=part.filename or None,
            media_type=part.media_type or None,
            metadata=dict(part.metadata) if part.metadata else None,
        )
        for part in parts
        if part.call is None and part.result is None
    ]


def from_wire_message(message: WireMessage, where: str, *, strict: bool = False) -> Message:
    """Return a message; `strict` checks the fields that the protocol requires."""
    role = _ROLES.get(message.role or "")
    if strict:
        require_text(message.message_id, f"{where}.messageId")
        if role is None:
            raise field_error(f"{where}.role", "is required; use ROLE_USER or ROLE_AGENT")
        if not message.parts:
            raise field_error(f"{where}.parts", "must contain at least one part")
    return Message(
        message_id=message.message_id or "",
        role=role or Role.AGENT,
        parts=from_wire_parts(message.parts, f"{where}.parts"),
        context_id=message.context_id or "",
        task_id=message.task_id or "",
        reference_task_ids=tuple(message.reference_task_ids or ()),
        extensions=tuple(message.extensions or ()),
        metadata=message.metadata or {},
    )


def to_wire_message(message: Message) -> WireMessage:
    """Return a message for the wire."""
    return WireMessage(
        message_id=message.message_id,
        context_id=message.context_id or None,
        task_id=message.task_id or None,
        role=ROLE_NAMES[message.role],
        parts=to_wire_parts(message.parts),
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


def from_wire_status(status: WireTaskStatus | None, where: str) -> TaskStatus:
    """Return a status; an unrecognised state becomes UNKNOWN."""
    if status is None:
        raise field_error(where, "is required")
    message = status.message
    return TaskStatus(
        state=_STATES.get(status.state, TaskState.UNKNOWN),
        at=parse_timestamp_or_zero(status.timestamp),
        message=None if message is None else from_wire_message(message, f"{where}.message"),
    )


def to_wire_status(status: TaskStatus) -> WireTaskStatus:
    """Return a status for the wire."""
    return WireTaskStatus(
        state=STATE_NAMES[status.state],
        message=None if status.message is None else to_wire_message(status.message),
        timestamp=format_timestamp(status.at),
    )


def from_wire_task(task: WireTask, where: str = "") -> Task:
    """Return a task; `where` is the path of the field with a trailing dot."""
    return Task(
        id=require_text(task.id, f"{where}id"),
        context_id=task.context_id or "",
        status=from_wire_status(task.status, f"{where}status"),
        artifacts=tuple(
            from_wire_artifact(artifact, f"{where}artifacts[{index}]")
            for index, artifact in enumerate(task.artifacts or ())
        ),
        history=tuple(
            from_wire_message(message, f"{where}history[{index}]")
            for index, message in enumerate(task.history or ())
        ),
        metadata=task.metadata or {},
    )


def to_wire_task(task: Task) -> WireTask:
    """Return a task for the wire."""
    return WireTask(
        id=task.id,
        context_id=task.context_id or None,
        status=to_wire_status(task.status),
        artifacts=[to_wire_artifact(artifact) for artifact in task.artifacts] or None,
        history=[to_wire_message(message) for message in task.history] or None,
        metadata=dict(task.metadata) if task.metadata else None,
    )


def from_wire_status_update(event: WireTaskStatusUpdateEvent, where: str) -> StatusUpdate:
    """Return a status update."""
    return StatusUpdate(
        status=from_wire_status(event.status, f"{where}.status"), metadata=event.metadata or {}
    )


def from_wire_artifact_update(event: WireTaskArtifactUpdateEvent, where: str) -> ArtifactUpdate:
    """Return an artifact update."""
    if event.artifact is None:
        raise field_error(f"{where}.artifact", "is required")
    return ArtifactUpdate(
        artifact=from_wire_artifact(event.artifact, f"{where}.artifact"),
        append=bool(event.append),
        last_chunk=bool(event.last_chunk),
        metadata=event.metadata or {},
    )
