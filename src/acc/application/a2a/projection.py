"""Project the events of a run to updates of its task."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from acc.application.agents.output import strip_code_fence
from acc.application.runtime.result import RunResult
from acc.domain.contract_errors import InvalidInputs, InvalidOutputs
from acc.domain.errors import AccError, BudgetExceeded, InvalidInput, NoRoute
from acc.domain.value_objects.approval import InputRequest, RequestKind
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.content import Part, Usage, text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import StoredArtifact
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    DirectReply,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
    TaskStatus,
    Update,
)
from acc.ports.outbound.system_ports import ClockPort, IdsPort

#: Extension of the data part with the input requests of a paused run.
INPUT_REQUEST = "urn:acc:a2a:input-request:v1"
#: Extension with the size of the memory that the agent was shown.
MEMORY_FOOTPRINT = "urn:acc:a2a:memory-footprint:v1"
ANSWER = "answer"
#: Artifact names that would collide with the answer; they get another id.
_RESERVED_NAME = re.compile(rf"{ANSWER}(-file)*")
_FLUSH_SECONDS = 0.05
_FLUSH_LENGTH = 2048
#: Errors whose message is written for the client. Others may quote internal data.
_PUBLIC_ERRORS = (BudgetExceeded, InvalidInputs, InvalidOutputs, NoRoute)
_FAILED = "the agent could not finish this task"
_INTERRUPTED_STATES = {RequestKind.AUTHORIZATION: TaskState.AUTH_REQUIRED}


class ProjectionOptions(Value, frozen=True, kw_only=True):
    """How a client wants to see a task.

    `deltas` streams the answer in chunks. `as_data` sends it as JSON data. `may_reply` allows a
    direct reply in place of a task. `footprint` reports the size of the memory.
    """

    deltas: bool = False
    as_data: bool = False
    may_reply: bool = False
    footprint: bool = False


class TaskProjection:
    """Turns the events of one run into updates of its task; it stores and sends nothing.

    The final answer is an artifact. Earlier messages and progress are messages with the state
    working. Tool calls are not shown.
    """

    def __init__(
        self, task: Task, options: ProjectionOptions, *, clock: ClockPort, ids: IdsPort
    ) -> None:
        self.options = options
        self._task_id = task.id
        self._context_id = task.context_id
        self._clock = clock
        self._ids = ids
        self._is_working = task.state is TaskState.WORKING
        #: Whether the task has an answer already, which a new one replaces.
        self._has_answer = any(made.artifact_id == ANSWER for made in task.artifacts)
        self._has_started = False
        self._has_replied = False
        self._has_ended = False
        #: The last message, which is the answer unless another message follows.
        self._last_message: Event | None = None
        self._is_streaming = False
        self._sent = ""
        self._unsent = ""
        self._last_delta = ""
        self._flushed_at = 0.0

    def opening(self) -> list[Update]:
        """Return the updates to store with the message of the run; this changes nothing."""
        if self._is_working or self.options.may_reply:
            return []
        return [self._status(TaskState.WORKING)]

    def start(self) -> None:
        """Note that the run has started and the updates of `opening` are stored."""
        self._has_started = True
        self._is_working = self._is_working or not self.options.may_reply

    def apply(self, event: Event, file: StoredArtifact | None = None) -> list[Update]:
        """Return the updates for an event; `file` is the content of a saved artifact."""
        self._has_started = True
        if self._has_replied:
            return []
        updates = self._updates(event, file)
        if not updates or self._is_working or isinstance(updates[0], DirectReply):
            return updates
        self._is_working = True
        return [self._status(TaskState.WORKING), *updates]

    def end(self, result: RunResult) -> list[Update]:
        """Return the updates for the result of a run, except for those of its last event."""
        if self._has_replied:
            return []
        if result.status is RunStatus.INPUT_REQUIRED:
            status = input_required(
                result.requests,
                at=self._clock.now(),
                message_id=self._ids.new(),
                context_id=self._context_id,
                task_id=self._task_id,
            )
            return [*self._flush_message(), status]
        if result.status is RunStatus.REJECTED:
            rejected = self._status(TaskState.REJECTED, text_part(result.text))
            return [*self._flush_message(), rejected]
        return [] if self._has_ended else self._complete(result.text, result.usage)

    def fail(self, error: BaseException) -> list[Update]:
        """Return the updates for an error that ended a run."""
        code = error.code if isinstance(error, AccError) else "internal"
        # An invalid message is detected before the run starts.
        is_public = isinstance(error, _PUBLIC_ERRORS) or (
            isinstance(error, InvalidInput) and not self._has_started
        )
        parts = text_part(f"{error if is_public else _FAILED} ({code})")
        failed = self._status(TaskState.FAILED, parts, metadata={"code": code})
        return [*self._flush_message(), failed]

    def _updates(self, event: Event, file: StoredArtifact | None) -> list[Update]:
        match event.kind:
            case EventKind.MESSAGE if event.author != "user":
                return self._message(event)
            case EventKind.DELTA if not event.branch and not self.options.as_data:
                return self._delta(event)
            case EventKind.PROGRESS:
                return [self._status(TaskState.WORKING, event.parts)]
            case EventKind.ARTIFACT:
                return [_artifact(event, event.parts or _file_parts(event, file))]
            case EventKind.TOOL_CALLS:
                self._is_streaming = False
            case EventKind.ENDED if event.status is RunStatus.COMPLETED:
                self._has_ended = True
                return self._complete(event.text, event.usage)
        return []

    def _message(self, event: Event) -> list[Update]:
        self._is_streaming = False
        if self.options.may_reply and not self._is_working and event.detail.get("direct"):
            self._has_replied = True
            return [DirectReply(message=self._agent_message(event.parts))]
        updates = self._flush_message()  # another message follows it, so it is not the answer
        self._last_message = event
        return updates

    def _flush_message(self, answer: str | None = None) -> list[Update]:
        """Return the last message as an update, unless it is the answer."""
        message, self._last_message = self._last_message, None
        if message is None or message.text == answer:
            return []
        return [self._status(TaskState.WORKING, message.parts, agent=message.author)]

    def _delta(self, event: Event) -> list[Update]:
        if not self._is_streaming:
            self._is_streaming = True
            self._sent = self._unsent = self._last_delta = ""
            self._flushed_at = event.at
        # The last delta is sent with the next one, because it may be the final chunk.
        self._unsent += self._last_delta
        self._last_delta = event.text
        is_due = event.at - self._flushed_at >= _FLUSH_SECONDS
        if not self._unsent or not (is_due or len(self._unsent) >= _FLUSH_LENGTH):
            return []
        self._flushed_at = event.at
        update = _answer(text_part(self._unsent), append=bool(self._sent), last=False)
        self._has_answer = True
        self._sent += self._unsent
        self._unsent = ""
        return [update]

    def _complete(self, text: str, usage: Usage | None) -> list[Update]:
        metadata: dict[str, Any] = {}
        if self.options.footprint and usage is not None:
            metadata[MEMORY_FOOTPRINT] = {"tokens": usage.memory_tokens}
        updates = self._flush_message(text)
        if text or self._has_answer:
            updates.append(self._final_answer(text))
        return [*updates, self._status(TaskState.COMPLETED, metadata=metadata)]

    def _final_answer(self, text: str) -> ArtifactUpdate:
        rest = self._unsent + self._last_delta
        if self._sent and self._sent + rest == text:
            return _answer(text_part(rest), append=True, last=True)
        parts = text_part(text)
        if self.options.as_data:
            try:
                data = msgspec.json.decode(strip_code_fence(text))
                parts = (Part(data=data, is_null=data is None, media_type="application/json"),)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass  # not JSON, so it is sent as text
        return _answer(parts, append=False, last=True)

    def _status(
        self,
        state: TaskState,
        parts: tuple[Part, ...] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        agent: str = "",
    ) -> StatusUpdate:
        message = self._agent_message(parts, agent) if parts else None
        status = TaskStatus(state=state, at=self._clock.now(), message=message)
        return StatusUpdate(status=status, metadata=metadata or {})

    def _agent_message(self, parts: tuple[Part, ...], agent: str = "") -> Message:
        return Message(
            message_id=self._ids.new(),
            role=Role.AGENT,
            parts=parts,
            context_id=self._context_id,
            task_id=self._task_id,
            metadata={"agent": agent} if agent else {},
        )


def is_saved_file(event: Event) -> bool:
    """Return True if an event refers to a saved artifact, whose content must be loaded."""
    return event.kind is EventKind.ARTIFACT and not event.parts


def input_required(
    requests: Sequence[InputRequest],
    *,
    at: float,
    message_id: str,
    context_id: str,
    task_id: str,
    hint: str = "",
) -> StatusUpdate:
    """Return the status of a task that waits for input, with its requests as text and data."""
    states = {_INTERRUPTED_STATES.get(r.kind, TaskState.INPUT_REQUIRED) for r in requests}
    state = states.pop() if len(states) == 1 else TaskState.INPUT_REQUIRED
    questions = "\n".join(request.question for request in requests)
    message = Message(
        message_id=message_id,
        role=Role.AGENT,
        parts=(
            Part(text=f"{hint}\n{questions}" if hint else questions),
            Part(
                data={"requests": [_request_data(request) for request in requests]},
                media_type="application/json",
                metadata={"extension": INPUT_REQUEST},
            ),
        ),
        context_id=context_id,
        task_id=task_id,
        extensions=(INPUT_REQUEST,),
    )
    return StatusUpdate(status=TaskStatus(state=state, at=at, message=message))


def _request_data(request: InputRequest) -> dict[str, Any]:
    data: dict[str, Any] = {
        "requestId": request.id,
        "kind": request.kind.value,
        "message": request.message,
    }
    if request.tool:
        data |= {"tool": request.tool, "arguments": dict(request.arguments)}
    if request.schema:
        data["schema"] = dict(request.schema)
    if request.expires_at is not None:
        data["expiresAt"] = request.expires_at
    return data


def _answer(parts: tuple[Part, ...], *, append: bool, last: bool) -> ArtifactUpdate:
    artifact = TaskArtifact(artifact_id=ANSWER, name=ANSWER, parts=parts)
    return ArtifactUpdate(artifact=artifact, append=append, last_chunk=last)


def _artifact(event: Event, parts: tuple[Part, ...]) -> ArtifactUpdate:
    detail = event.detail
    name = str(detail["name"])
    artifact_id = f"{name}-file" if _RESERVED_NAME.fullmatch(name) else name
    return ArtifactUpdate(
        artifact=TaskArtifact(
            artifact_id=artifact_id,
            name=name,
            description=str(detail.get("description", "")),
            parts=parts,
        ),
        append=bool(detail.get("append")),
        last_chunk=bool(detail.get("last", True)),
    )


def _file_parts(event: Event, file: StoredArtifact | None) -> tuple[Part, ...]:
    """Return the content of a saved artifact: text as text, anything else as bytes."""
    name, media_type = str(event.detail["name"]), str(event.detail["media_type"])
    data = b"" if file is None else file.data
    base_type = media_type.partition(";")[0].strip()
    if base_type.startswith("text/"):
        try:
            return (Part(text=data.decode(), media_type=base_type, filename=name),)
        except UnicodeDecodeError:
            base_type = media_type  # its parameters may name the encoding
    return (Part(raw=data, media_type=base_type, filename=name),)
