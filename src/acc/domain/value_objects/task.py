"""A2A tasks: states, transitions, updates and queries."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from acc.domain.value_objects.base import Value, replace
from acc.domain.value_objects.content import Part


class TaskState(StrEnum):
    """The state of a task."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


TERMINAL = frozenset(
    {TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED}
)
#: The task waits for its client.
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
#: A server works on the task.
ACTIVE = frozenset({TaskState.SUBMITTED, TaskState.WORKING})

_NEXT_STATES = TERMINAL | INTERRUPTED | {TaskState.WORKING}

#: The allowed transitions.
TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.SUBMITTED: _NEXT_STATES,
    TaskState.WORKING: _NEXT_STATES,
    TaskState.INPUT_REQUIRED: _NEXT_STATES,
    TaskState.AUTH_REQUIRED: _NEXT_STATES,
    TaskState.UNKNOWN: _NEXT_STATES,
    **dict.fromkeys(TERMINAL, frozenset[TaskState]()),
}


class Role(StrEnum):
    """The sender of a message."""

    USER = "user"
    AGENT = "agent"


class Message(Value, frozen=True, kw_only=True):
    """A message between a client and an agent."""

    message_id: str
    role: Role
    parts: tuple[Part, ...]
    context_id: str = ""
    task_id: str = ""
    reference_task_ids: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


class TaskArtifact(Value, frozen=True, kw_only=True):
    """A result of a task."""

    artifact_id: str
    parts: tuple[Part, ...]
    name: str = ""
    description: str = ""
    extensions: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


class TaskStatus(Value, frozen=True, kw_only=True):
    """The state of a task, since when, and a message about it."""

    state: TaskState
    at: float = 0.0
    message: Message | None = None


class StatusUpdate(Value, frozen=True, kw_only=True, tag="status"):
    """A new status; its metadata is added to that of the task."""

    status: TaskStatus
    metadata: Mapping[str, Any] = {}


class ArtifactUpdate(Value, frozen=True, kw_only=True, tag="artifact"):
    """A new artifact, or a chunk of one."""

    artifact: TaskArtifact
    append: bool = False
    last_chunk: bool = False
    metadata: Mapping[str, Any] = {}


class MessageAdded(Value, frozen=True, kw_only=True, tag="message"):
    """A message of the task's history; it is not part of streams."""

    message: Message


class DirectReply(Value, frozen=True, kw_only=True, tag="reply"):
    """A message of the agent that replaces the task."""

    message: Message


Update = StatusUpdate | ArtifactUpdate | MessageAdded | DirectReply


class TaskEvent(NamedTuple):
    """An update with its number in the task, from 1 without gaps."""

    seq: int
    update: Update


class Task(Value, frozen=True, kw_only=True):
    """A task after event `seq`.

    A task with a direct `reply` is not visible to clients.
    """

    id: str
    context_id: str
    status: TaskStatus
    artifacts: tuple[TaskArtifact, ...] = ()
    history: tuple[Message, ...] = ()
    metadata: Mapping[str, Any] = {}
    seq: int = 0
    reply: Message | None = None

    @property
    def state(self) -> TaskState:
        """Return the state of the task."""
        return self.status.state

    @property
    def is_terminal(self) -> bool:
        """Return True if the task has ended."""
        return self.status.state in TERMINAL


_REPLIED = TaskStatus(state=TaskState.COMPLETED)


def is_valid_transition(task_state: TaskState, update: Update) -> bool:
    """Return True if an update is allowed in a state."""
    if isinstance(update, StatusUpdate):
        return update.status.state in TRANSITIONS[task_state]
    if isinstance(update, DirectReply):
        return task_state is TaskState.SUBMITTED
    return task_state not in TERMINAL


def apply_event(task: Task, event: TaskEvent) -> Task:
    """Return a task after an event that is a valid transition."""
    seq, update = event
    if isinstance(update, ArtifactUpdate):
        return replace(task, artifacts=_with_artifact(task.artifacts, update), seq=seq)
    messages = [task.status.message] if task.status.message is not None else []
    if isinstance(update, MessageAdded):
        messages.append(update.message)
    task = _with_status(task, event)
    if not messages or isinstance(update, DirectReply):
        return task
    return replace(task, history=(*task.history, *messages))


def _with_status(task: Task, event: TaskEvent) -> Task:
    """Return a task with the status after an event; artifacts and history are unchanged."""
    seq, update = event
    if isinstance(update, ArtifactUpdate):
        return replace(task, seq=seq)
    if isinstance(update, DirectReply):
        return replace(task, status=_REPLIED, reply=update.message, seq=seq)
    if isinstance(update, MessageAdded):
        return replace(task, status=replace(task.status, message=None), seq=seq)
    metadata = {**task.metadata, **update.metadata} if update.metadata else task.metadata
    return replace(task, status=update.status, metadata=metadata, seq=seq)


def _with_artifact(
    artifacts: tuple[TaskArtifact, ...], update: ArtifactUpdate
) -> tuple[TaskArtifact, ...]:
    new = update.artifact
    for index, old in enumerate(artifacts):
        if old.artifact_id == new.artifact_id:
            if update.append:
                new = replace(old, parts=_append_parts(old.parts, new.parts))
            return (*artifacts[:index], new, *artifacts[index + 1 :])
    return (*artifacts, new)


def _append_parts(parts: tuple[Part, ...], further: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return parts with further ones; plain text is appended to plain text."""
    if len(further) == 1 and parts and _is_plain(parts[-1]) and _is_plain(further[0]):
        joined = Part(text=f"{parts[-1].text}{further[0].text}", media_type=parts[-1].media_type)
        return (*parts[:-1], joined)
    return (*parts, *further)


def _is_plain(part: Part) -> bool:
    return part.text is not None and not part.metadata and not part.filename


def apply_events(task: Task, events: Iterable[TaskEvent]) -> Task:
    """Return a task after events, in linear time.

    Messages and chunks of artifacts are collected and joined once, because joining each chunk
    would copy the artifact each time.
    """
    status, metadata, reply, seq = task.status, task.metadata, task.reply, task.seq
    messages: list[Message] = []
    changed: _Changed = {}
    for seq, update in events:  # noqa: B007 - the last one counts
        if isinstance(update, ArtifactUpdate):
            _collect(changed, task.artifacts, update)
        elif isinstance(update, DirectReply):
            status, reply = _REPLIED, update.message
        else:
            if status.message is not None:
                messages.append(status.message)  # the message of a replaced status
            if isinstance(update, MessageAdded):
                messages.append(update.message)
                status = replace(status, message=None)
            else:
                status = update.status
                metadata = {**metadata, **update.metadata} if update.metadata else metadata
    return replace(
        task,
        status=status,
        metadata=metadata,
        reply=reply,
        history=(*task.history, *messages) if messages else task.history,
        artifacts=_with_changes(task.artifacts, changed) if changed else task.artifacts,
        seq=seq,
    )


def _collect(
    changed: "_Changed", artifacts: tuple[TaskArtifact, ...], update: ArtifactUpdate
) -> None:
    name = update.artifact.artifact_id
    if not update.append:
        changed[name] = update.artifact
        return
    chunks = changed.get(name)
    if not isinstance(chunks, _Chunks):
        known = (artifact for artifact in artifacts if artifact.artifact_id == name)
        chunks = changed[name] = _Chunks(chunks or next(known, None))
    chunks.add(update.artifact)


class _Chunks:
    """An artifact whose chunks are joined once."""

    __slots__ = ("_artifact", "_parts", "_texts")

    def __init__(self, artifact: TaskArtifact | None) -> None:
        self._artifact = artifact
        self._parts = [] if artifact is None else list(artifact.parts)
        #: Texts to append to the last part, which is plain text.
        self._texts: list[str] = []

    def add(self, chunk: TaskArtifact) -> None:
        """Add a chunk; the first one of a new artifact is the artifact."""
        parts, further = self._parts, chunk.parts
        if self._artifact is None:
            self._artifact = chunk
        if len(further) == 1 and parts and _is_plain(parts[-1]) and _is_plain(further[0]):
            self._texts.append(further[0].text or "")
        else:
            self._join_texts()
            parts.extend(further)

    def join(self) -> TaskArtifact:
        """Return the artifact with all its chunks."""
        assert self._artifact is not None  # noqa: S101 - a chunk is added after creation
        self._join_texts()
        return replace(self._artifact, parts=tuple(self._parts))

    def _join_texts(self) -> None:
        if self._texts:
            last = self._parts[-1]
            text = "".join([last.text or "", *self._texts])
            self._parts[-1] = Part(text=text, media_type=last.media_type)
            self._texts.clear()


#: New or changed artifacts by id.
_Changed: TypeAlias = dict[str, TaskArtifact | _Chunks]


def _with_changes(
    artifacts: tuple[TaskArtifact, ...], changed: _Changed
) -> tuple[TaskArtifact, ...]:
    """Return artifacts with changed ones replaced and new ones at the end."""
    result = [changed.pop(artifact.artifact_id, artifact) for artifact in artifacts]
    result += changed.values()
    return tuple([item.join() if isinstance(item, _Chunks) else item for item in result])


class TaskBuilder:
    """Collects the events of a task and applies them on demand."""

    __slots__ = ("_applied", "_events", "_head", "_task")

    def __init__(self, task: Task) -> None:
        self._task = task
        self._events: list[TaskEvent] = []
        self._head = task
        self._applied = 0

    def add(self, event: TaskEvent) -> None:
        """Add an event that is a valid transition."""
        self._events.append(event)

    @property
    def head(self) -> Task:
        """Return the task with its current status; artifacts and history may be older."""
        for event in self._events[self._applied :]:
            self._head = _with_status(self._head, event)
        self._applied = len(self._events)
        return self._head

    def build(self) -> Task:
        """Return the task after all events."""
        if self._events:
            self._head = self._task = apply_events(self._task, self._events)
            self._events, self._applied = [], 0
        return self._task


class PushConfig(Value, frozen=True, kw_only=True):
    """Where a client receives notifications of a task, in which protocol version."""

    id: str
    task_id: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""
    protocol_version: str = "1.0"


class PushPage(NamedTuple):
    """A page of push configurations, oldest first."""

    configs: tuple[PushConfig, ...]
    next_page_token: str


class TaskQuery(Value, frozen=True, kw_only=True):
    """A query for tasks of a caller; `page_token` is that of the previous page."""

    context_id: str = ""
    state: TaskState | None = None
    since: float | None = None
    page_size: int = 50
    page_token: str = ""


class TaskPage(Value, frozen=True, kw_only=True):
    """A page of tasks, most recently updated first."""

    tasks: tuple[Task, ...]
    next_page_token: str
    total: int
