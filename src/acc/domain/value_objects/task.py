"""A task as the world outside sees it: its states, its moves, and what happens to it."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from acc.domain.value_objects.base import Value, replace
from acc.domain.value_objects.content import Part


class TaskState(StrEnum):
    """Where a task stands."""

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
#: Nothing happens until the client does something.
INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})
#: A server has it in hand.
ACTIVE = frozenset({TaskState.SUBMITTED, TaskState.WORKING})

_ENDS = TERMINAL
_FROM_WORK = _ENDS | INTERRUPTED | {TaskState.WORKING}

#: The table of moves. What is not in it cannot happen.
MOVES: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.SUBMITTED: _FROM_WORK,
    TaskState.WORKING: _FROM_WORK,
    TaskState.INPUT_REQUIRED: _FROM_WORK,
    TaskState.AUTH_REQUIRED: _FROM_WORK,
    TaskState.UNKNOWN: _FROM_WORK,
    **dict.fromkeys(TERMINAL, frozenset[TaskState]()),
}


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    AGENT = "agent"


class Message(Value, frozen=True, kw_only=True):
    """One turn of the talk between a client and an agent."""

    message_id: str
    role: Role
    parts: tuple[Part, ...]
    context_id: str = ""
    task_id: str = ""
    reference_task_ids: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


class TaskArtifact(Value, frozen=True, kw_only=True):
    """Something that a task has made."""

    artifact_id: str
    parts: tuple[Part, ...]
    name: str = ""
    description: str = ""
    extensions: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = {}


class TaskStatus(Value, frozen=True, kw_only=True):
    """Where a task stands, since when, and what there is to say about it."""

    state: TaskState
    at: float = 0.0
    message: Message | None = None


class StatusUpdate(Value, frozen=True, kw_only=True, tag="status"):
    """The task has moved; the metadata becomes the task's too."""

    status: TaskStatus
    metadata: Mapping[str, Any] = {}


class ArtifactUpdate(Value, frozen=True, kw_only=True, tag="artifact"):
    """The task has made something, or a further piece of it."""

    artifact: TaskArtifact
    append: bool = False
    last_chunk: bool = False
    metadata: Mapping[str, Any] = {}


class MessageAdded(Value, frozen=True, kw_only=True, tag="message"):
    """Someone said something that belongs to the task's history; it is not shown in streams."""

    message: Message


class DirectReply(Value, frozen=True, kw_only=True, tag="reply"):
    """The agent answered at once with a message, and there is no task to speak of."""

    message: Message


Update = StatusUpdate | ArtifactUpdate | MessageAdded | DirectReply


class TaskEvent(NamedTuple):
    """An update with its number, from 1 on and without a gap within its task."""

    seq: int
    update: Update


class Task(Value, frozen=True, kw_only=True):
    """A unit of work as it stands after event `seq`.

    One that was answered directly has a `reply`; for the world outside it never was a task.
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
        """Return where the task stands."""
        return self.status.state

    @property
    def is_over(self) -> bool:
        """Tell whether nothing can happen to the task any more."""
        return self.status.state in TERMINAL


_DONE_DIRECTLY = TaskStatus(state=TaskState.COMPLETED)


def is_valid_transition(task_state: TaskState, update: Update) -> bool:
    """Tell whether a task in some state can take an update."""
    if isinstance(update, StatusUpdate):
        return update.status.state in MOVES[task_state]
    if isinstance(update, DirectReply):
        return task_state is TaskState.SUBMITTED
    return task_state not in TERMINAL


def apply_event(task: Task, event: TaskEvent) -> Task:
    """Return a task as it is after an event, which the table of moves has allowed already."""
    seq, update = event
    if isinstance(update, ArtifactUpdate):
        return replace(task, artifacts=_with_artifact(task.artifacts, update), seq=seq)
    said = [task.status.message] if task.status.message is not None else []
    if isinstance(update, MessageAdded):
        said.append(update.message)
    task = _moved(task, event)
    is_said = said and not isinstance(update, DirectReply)
    return replace(task, history=(*task.history, *said)) if is_said else task


def _moved(task: Task, event: TaskEvent) -> Task:
    """Return where a task stands after an event."""
    seq, update = event
    if isinstance(update, ArtifactUpdate):
        return replace(task, seq=seq)
    if isinstance(update, DirectReply):
        return replace(task, status=_DONE_DIRECTLY, reply=update.message, seq=seq)
    if isinstance(update, MessageAdded):
        return replace(task, status=replace(task.status, message=None), seq=seq)
    metadata = {**task.metadata, **update.metadata} if update.metadata else task.metadata
    return replace(task, status=update.status, metadata=metadata, seq=seq)


def _with_artifact(
    artifacts: tuple[TaskArtifact, ...], update: ArtifactUpdate
) -> tuple[TaskArtifact, ...]:
    made = update.artifact
    for place, held in enumerate(artifacts):
        if held.artifact_id == made.artifact_id:
            if update.append:
                made = replace(held, parts=_joined(held.parts, made.parts))
            return (*artifacts[:place], made, *artifacts[place + 1 :])
    return (*artifacts, made)


def _joined(parts: tuple[Part, ...], further: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return parts with further ones; plain text goes on where plain text ended."""
    if len(further) == 1 and parts and _is_plain(parts[-1]) and _is_plain(further[0]):
        whole = Part(text=f"{parts[-1].text}{further[0].text}", media_type=parts[-1].media_type)
        return (*parts[:-1], whole)
    return (*parts, *further)


def _is_plain(part: Part) -> bool:
    return part.text is not None and not part.metadata and not part.filename


def apply_events(task: Task, events: Iterable[TaskEvent]) -> Task:
    """Return a task as it is after events, one after another, at a cost that is that of the events.

    Messages and the pieces of artifacts are collected and joined once: what came in ten thousand
    pieces would otherwise be copied ten thousand times.
    """
    status, metadata, reply, seq = task.status, task.metadata, task.reply, task.seq
    said: list[Message] = []
    made: _Made = {}
    for seq, update in events:  # noqa: B007 - the last one counts
        if isinstance(update, ArtifactUpdate):
            _collect(made, task.artifacts, update)
        elif isinstance(update, DirectReply):
            status, reply = _DONE_DIRECTLY, update.message
        else:
            if status.message is not None:
                said.append(status.message)  # what was said with a status that is left behind
            if isinstance(update, MessageAdded):
                said.append(update.message)
                status = replace(status, message=None)
            else:
                status = update.status
                metadata = {**metadata, **update.metadata} if update.metadata else metadata
    return replace(
        task,
        status=status,
        metadata=metadata,
        reply=reply,
        history=(*task.history, *said) if said else task.history,
        artifacts=_with_all(task.artifacts, made) if made else task.artifacts,
        seq=seq,
    )


def _collect(made: "_Made", artifacts: tuple[TaskArtifact, ...], update: ArtifactUpdate) -> None:
    name = update.artifact.artifact_id
    if not update.append:
        made[name] = update.artifact
        return
    held = made.get(name)
    if not isinstance(held, _Pieces):
        known = (one for one in artifacts if one.artifact_id == name)
        held = made[name] = _Pieces(held or next(known, None))
    held.add(update.artifact)


class _Pieces:
    """An artifact to which pieces are added, so that the whole is made only once."""

    __slots__ = ("_artifact", "_parts", "_texts")

    def __init__(self, artifact: TaskArtifact | None) -> None:
        self._artifact = artifact
        self._parts = [] if artifact is None else list(artifact.parts)
        #: What goes on where the last part, a plain text, ended.
        self._texts: list[str] = []

    def add(self, piece: TaskArtifact) -> None:
        """Add a piece; that of an artifact which is not there yet is the first."""
        parts, further = self._parts, piece.parts
        if self._artifact is None:
            self._artifact = piece
        if len(further) == 1 and parts and _is_plain(parts[-1]) and _is_plain(further[0]):
            self._texts.append(further[0].text or "")
        else:
            self._join()
            parts.extend(further)

    def whole(self) -> TaskArtifact:
        """Return the artifact with all its pieces."""
        assert self._artifact is not None  # noqa: S101 - one that is missing gets a piece at once
        self._join()
        return replace(self._artifact, parts=tuple(self._parts))

    def _join(self) -> None:
        if self._texts:
            last = self._parts[-1]
            text = "".join([last.text or "", *self._texts])
            self._parts[-1] = Part(text=text, media_type=last.media_type)
            self._texts.clear()


#: Artifacts that were made by events, by their ids.
_Made: TypeAlias = dict[str, TaskArtifact | _Pieces]


def _with_all(artifacts: tuple[TaskArtifact, ...], made: _Made) -> tuple[TaskArtifact, ...]:
    """Return artifacts with those that were made: in their places, or after all others."""
    found = [made.pop(held.artifact_id, held) for held in artifacts]
    found += made.values()
    return tuple([one.whole() if isinstance(one, _Pieces) else one for one in found])


class TaskBuilder:
    """A task that events are added to one by one, and that is put together when it is asked for."""

    __slots__ = ("_events", "_head", "_known", "_seen")

    def __init__(self, task: Task) -> None:
        self._known = task
        self._events: list[TaskEvent] = []
        self._head = task
        self._seen = 0

    def add(self, event: TaskEvent) -> None:
        """Add an event, which the table of moves has allowed already."""
        self._events.append(event)

    @property
    def head(self) -> Task:
        """Return where the task stands; its artifacts and its history may lack what came last."""
        for event in self._events[self._seen :]:
            self._head = _moved(self._head, event)
        self._seen = len(self._events)
        return self._head

    def whole(self) -> Task:
        """Return the task with all that was added."""
        if self._events:
            self._head = self._known = apply_events(self._known, self._events)
            self._events, self._seen = [], 0
        return self._known


class PushConfig(Value, frozen=True, kw_only=True):
    """Where and how a client wants to be told of a task. `generation` is the wire it speaks."""

    id: str
    task_id: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""
    protocol_version: str = "1.0"


class PushPage(NamedTuple):
    """Push configurations of a task, the oldest first, and where to go on."""

    configs: tuple[PushConfig, ...]
    next_page_token: str


class TaskQuery(Value, frozen=True, kw_only=True):
    """Which of their tasks a caller wants listed; `page_token` is where the last page ended."""

    context_id: str = ""
    state: TaskState | None = None
    since: float | None = None
    page_size: int = 50
    page_token: str = ""


class TaskPage(Value, frozen=True, kw_only=True):
    """Tasks, the last moved first, and where to go on."""

    tasks: tuple[Task, ...]
    next_page_token: str
    total: int
