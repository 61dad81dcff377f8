"""Telling the world outside what happens in a run: events of the run in, updates of a task out."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from acc.application.agents.llm import strip_code_fence
from acc.application.runtime.context import RunResult
from acc.application.runtime.run import Foreseen
from acc.domain.errors import AccError, BudgetExceeded, InvalidInput, NoRoute
from acc.domain.value_objects.approval import InputRequest, RequestKind
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
    TaskArtifact,
    TaskState,
    TaskStatus,
    Update,
)
from acc.ports.outbound.system_ports import ClockPort, IdsPort

#: What a paused run asks comes as data under this extension.
INPUT_REQUEST = "urn:acc:a2a:input-request:v1"
#: How large the memory was that the agent was shown.
MEMORY_FOOTPRINT = "urn:acc:a2a:memory-footprint:v1"
ANSWER = "answer"
#: Names that stand back for the answer; each has an id that no other name can have.
_LIKE_ANSWER = re.compile(rf"{ANSWER}(-file)*")
_BEGINNING = frozenset({EventKind.MESSAGE, EventKind.INPUT})
#: What is told when it is heard, and not along with what is put on record.
_HEARD = frozenset({EventKind.DELTA, EventKind.PROGRESS, EventKind.ARTIFACT})
_FLUSH_AFTER = 0.05
_FLUSH_AT = 2048
#: Errors whose words were written for who asked. Others may quote what is no business of theirs.
_PUBLIC = (BudgetExceeded, NoRoute)
_FAILED = "the agent could not finish this task"
_INTERRUPTED_BY = {
    RequestKind.AUTHORIZATION: TaskState.AUTH_REQUIRED,
}


class Desk(Protocol):
    """Where the updates of one task go, and where its files are."""

    async def store(self, updates: Sequence[Update]) -> None:
        """Store updates and tell them to those who follow the task."""
        ...

    def along(self, updates: Sequence[Update]) -> Foreseen:
        """Return updates that are to be stored along with a run's events, and told then."""
        ...

    async def load(self, name: str, version: int) -> StoredArtifact | None:
        """Return a file that the run keeps."""
        ...


class TaskProjection:
    """Follows one run and tells its task's story as updates, which are stored as they come.

    An answer is an artifact, streamed in pieces where they are wanted; what agents said on the way
    to it, and their progress, are messages of a task at work. Calls of tools stay inside.
    """

    def __init__(
        self,
        *,
        task_id: str,
        context_id: str,
        desk: Desk,
        clock: ClockPort,
        ids: IdsPort,
    ) -> None:
        self.task_id = task_id
        self.context_id = context_id
        self.wants_pieces = False
        #: Whether the answer is to be sent as data, and may be sent as a message alone.
        self.as_data = False
        self.may_reply = False
        self.wants_footprint = False
        self.is_working = False
        #: Whether there is an answer already, which is not the last word then.
        self.has_answered = False
        #: Whether the answer was told when the run ended.
        self.has_ended = False
        self._has_begun = False
        self._has_foretold = False
        self._has_replied = False
        self._desk = desk
        self._clock = clock
        self._ids = ids
        self._said: Event | None = None
        self._pieces = ""
        self._newest = ""
        self._told = ""
        self._is_streaming = False
        self._flushed_at = 0.0

    async def hear(self, event: Event) -> None:
        """Tell what an event means to the world outside, if it means anything."""
        self._has_begun = True
        if self._has_foretold:
            # Not before: what is refused is to be told when the run begins elsewhere.
            self.is_working, self._has_foretold = True, False
        if self._has_replied or event.kind not in _HEARD:
            return
        updates: list[Update] = []
        match event.kind:
            case EventKind.DELTA if not event.branch and not self.as_data:
                updates = self._piece(event)
            case EventKind.PROGRESS:
                updates = [self._status(TaskState.WORKING, event.parts)]
            case EventKind.ARTIFACT if _is_file(event):
                updates = [self._artifact(event, await self._file(event.detail))]
        if updates:
            updates = self._at_work(updates)
            self.is_working = True
            await self._desk.store(updates)

    def foresee(self, events: Sequence[Event]) -> Foreseen | None:
        """Return what events that are about to be stored mean to the world outside."""
        updates: list[Update] = []
        begins = False
        if not self._has_replied:
            for event in events:
                begins = begins or event.kind in _BEGINNING and event.author == "user"
                updates += self._updates(event)
        if updates or (begins and not self.may_reply and not self.is_working):
            self._has_foretold = not self._has_replied
            return self._desk.along(self._at_work(updates))
        return None

    def _at_work(self, updates: list[Update]) -> list[Update]:
        """Return updates of a task that is at work when they come."""
        if self.is_working or (updates and isinstance(updates[0], DirectReply)):
            return updates
        return [self._status(TaskState.WORKING), *updates]

    def _updates(self, event: Event) -> list[Update]:
        match event.kind:
            case EventKind.MESSAGE if event.author != "user":
                return self._message(event)
            case EventKind.ARTIFACT if not _is_file(event):
                return [self._artifact(event, event.parts)]
            case EventKind.TOOL_CALLS:
                self._is_streaming = False
            case EventKind.ENDED if event.status is RunStatus.COMPLETED:
                self.has_ended = True
                return self._completing(event.text, event.usage)
        return []

    def _message(self, event: Event) -> list[Update]:
        self._is_streaming = False
        if self.may_reply and not self.is_working and event.detail.get("direct"):
            self._has_replied = True
            return [DirectReply(message=self._from_agent(event.parts))]
        # Another spoke after it, so it was not the last word.
        updates = self._unsaid()
        self._said = event
        return updates

    def _unsaid(self, answer: str | None = None) -> list[Update]:
        """Return what was said last as a message, unless it is the answer."""
        said, self._said = self._said, None
        if said is None or said.text == answer:
            return []
        return [self._status(TaskState.WORKING, said.parts, said_by=said.author)]

    def _piece(self, event: Event) -> list[Update]:
        if not self._is_streaming:
            self._is_streaming = True
            self._pieces = self._newest = self._told = ""
            self._flushed_at = event.at
        # The newest piece is held back, for it may turn out to be the last one.
        self._pieces += self._newest
        self._newest = event.text
        late = event.at - self._flushed_at >= _FLUSH_AFTER
        if not self._pieces or not (late or len(self._pieces) >= _FLUSH_AT):
            return []
        self._flushed_at = event.at
        update = self._answer(text_part(self._pieces), append=bool(self._told), last=False)
        self.has_answered = True
        self._told += self._pieces
        self._pieces = ""
        return [update]

    def _artifact(self, event: Event, parts: tuple[Part, ...]) -> ArtifactUpdate:
        detail = event.detail
        name = str(detail["name"])
        append, last = bool(detail.get("append")), detail.get("last", True)
        own = f"{name}-file" if _LIKE_ANSWER.fullmatch(name) else name
        artifact = TaskArtifact(artifact_id=own, name=name, parts=parts)
        return ArtifactUpdate(artifact=artifact, append=append, last_chunk=bool(last))

    async def _file(self, detail: Mapping[str, Any]) -> tuple[Part, ...]:
        name = str(detail["name"])
        media_type = str(detail["media_type"])
        kept = await self._desk.load(name, detail["version"])
        data = b"" if kept is None else kept.data
        plain = media_type.partition(";")[0].strip()
        if plain.startswith("text/"):
            try:
                return (Part(text=data.decode(), media_type=plain, filename=name),)
            except UnicodeDecodeError:
                plain = media_type  # which may say what it is written in
        return (Part(raw=data, media_type=plain, filename=name),)

    def ending(self, result: RunResult) -> list[Update]:
        """Return the updates that a run ends its task, or its part of the task, with."""
        if result.status is RunStatus.INPUT_REQUIRED:
            return [*self._unsaid(), self._asking(result.requests)]
        if result.status is RunStatus.REJECTED:
            return [*self._unsaid(), self._status(TaskState.REJECTED, text_part(result.text))]
        return [] if self.has_ended else self._completing(result.text, result.usage)

    def _completing(self, text: str, usage: Usage | None) -> list[Update]:
        metadata: dict[str, Any] = {}
        if self.wants_footprint and usage is not None:
            metadata[MEMORY_FOOTPRINT] = {"tokens": usage.memory_tokens}
        updates = self._unsaid(text)
        if text or self.has_answered:
            updates.append(self._whole_answer(text))
        return [*updates, self._status(TaskState.COMPLETED, metadata=metadata)]

    def failing(self, error: BaseException) -> list[Update]:
        """Return the update that a run which failed ends its task with."""
        code = error.code if isinstance(error, AccError) else "internal"
        told = _FAILED
        # What is wrong with the message itself shows before anything happens.
        if isinstance(error, _PUBLIC) or (isinstance(error, InvalidInput) and not self._has_begun):
            told = str(error)
        failed = text_part(f"{told} ({code})")
        return [*self._unsaid(), self._status(TaskState.FAILED, failed, metadata={"code": code})]

    def _whole_answer(self, text: str) -> ArtifactUpdate:
        if self._told and self._told + self._pieces + self._newest == text:
            rest = text_part(self._pieces + self._newest)
            return self._answer(rest, append=True, last=True)
        return self._answer(self._as_parts(text), append=False, last=True)

    def _as_parts(self, text: str) -> tuple[Part, ...]:
        if self.as_data:
            try:
                data = msgspec.json.decode(strip_code_fence(text))
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return text_part(text)
            return (Part(data=data, is_null=data is None, media_type="application/json"),)
        return text_part(text)

    def _answer(self, parts: tuple[Part, ...], *, append: bool, last: bool) -> ArtifactUpdate:
        artifact = TaskArtifact(artifact_id=ANSWER, name=ANSWER, parts=parts)
        return ArtifactUpdate(artifact=artifact, append=append, last_chunk=last)

    def _asking(self, requests: Sequence[InputRequest]) -> StatusUpdate:
        return asking(requests, message=self._from_agent, at=self._clock.now())

    def _status(
        self,
        state: TaskState,
        parts: tuple[Part, ...] = (),
        *,
        metadata: Mapping[str, Any] | None = None,
        said_by: str = "",
    ) -> StatusUpdate:
        said = self._from_agent(parts, said_by) if parts else None
        status = TaskStatus(state=state, at=self._clock.now(), message=said)
        return StatusUpdate(status=status, metadata=metadata or {})

    def _from_agent(self, parts: tuple[Part, ...], said_by: str = "") -> Message:
        return Message(
            message_id=self._ids.new(),
            role=Role.AGENT,
            parts=parts,
            context_id=self.context_id,
            task_id=self.task_id,
            metadata={"agent": said_by} if said_by else {},
        )


def _is_file(event: Event) -> bool:
    """Tell whether an artifact is a file, which is to be loaded before it can be told."""
    return not event.parts


def asking(
    requests: Sequence[InputRequest],
    *,
    message: Callable[[tuple[Part, ...]], Message],
    at: float,
    hint: str = "",
) -> StatusUpdate:
    """Return the status of a task whose run waits: what it asks, in words and as data."""
    waits_for = {_INTERRUPTED_BY.get(r.kind, TaskState.INPUT_REQUIRED) for r in requests}
    state = waits_for.pop() if len(waits_for) == 1 else TaskState.INPUT_REQUIRED
    told = "\n".join(request.question for request in requests)
    data = {"requests": [_as_data(request) for request in requests]}
    parts = (
        Part(text=f"{hint}\n{told}" if hint else told),
        Part(data=data, media_type="application/json", metadata={"extension": INPUT_REQUEST}),
    )
    return StatusUpdate(status=TaskStatus(state=state, at=at, message=message(parts)))


def _as_data(request: InputRequest) -> dict[str, Any]:
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
