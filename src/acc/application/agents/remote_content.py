"""Reading what a remote task answers or asks, and writing what it is answered."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from acc.application.a2a.projection import ANSWER, INPUT_REQUEST
from acc.domain.errors import AccError, InvalidInput, NotFound, RemoteFailed
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer, RequestKind
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.task import Message, Task, TaskArtifact, TaskState

_MOST_REQUESTS = 32
_MOST_MESSAGE = 10_000
_KINDS = {kind.value: kind for kind in RequestKind}
_GO_ON = "continue"
#: The id of what a task's last status brought along; its name is that of the answer.
_STATUS = "status"
#: How a server says over HTTP that something is wrong or missing, where it gives no reason.
_REFUSALS = frozenset({"400", "404", "INVALID_ARGUMENT", "NOT_FOUND", "CONTEXT_NOT_FOUND"})
_NO_CONTEXT = re.compile(
    r"context[ _-]?ids?\b"
    r"|\b(unknown|no such|expired) context\b(?! (window|length|size))"
    r"|\bcontext\b(?! (window|length|size)).{0,200}\b(not found|unknown|not exist|expired)\b",
    re.IGNORECASE | re.DOTALL,
)


class Asked(NamedTuple):
    """Something that a remote task asks; `id` is the server's, empty if it asked in words."""

    id: str
    kind: RequestKind
    message: str
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    expires_at: float | None = None

    def as_detail(self) -> dict[str, Any]:
        """Return it as plain data, to be put on record."""
        return {**self._asdict(), "kind": self.kind.value}

    @staticmethod
    def from_detail(detail: Mapping[str, Any]) -> "Asked":
        """Return what is on record."""
        return Asked(**{**detail, "kind": RequestKind(detail["kind"])})


def is_context_refused(message: Message, error: AccError) -> bool:
    """Tell whether a server refused a message because it does not know its conversation.

    A message to a task is never meant: another conversation would not have that task.
    """
    if message.task_id or not message.context_id:
        return False
    is_refusal = isinstance(error, InvalidInput | NotFound) or (
        isinstance(error, RemoteFailed) and error.remote_code in _REFUSALS
    )
    said = str(error)
    return is_refusal and (message.context_id in said or _NO_CONTEXT.search(said) is not None)


def status_text(task: Task) -> str:
    """Return what a task's status says: its words, or its data where it has no words."""
    parts = _status_parts(task)
    return text_of(parts) or _told(parts)


def _status_parts(task: Task) -> tuple[Part, ...]:
    said = task.status.message
    return () if said is None else said.parts


def answer_artifact(task: Task) -> TaskArtifact | None:
    """Return the artifact that is the answer in words, if there is one.

    That is the one called "answer", or else the only one that holds text and is no file.
    """
    for made in task.artifacts:
        if made.artifact_id == ANSWER:
            return made
    spoken = [made for made in task.artifacts if made.parts and all(map(is_speech, made.parts))]
    return spoken[0] if len(spoken) == 1 else None


def answer_text(task: Task, answer: TaskArtifact | None) -> str:
    """Return the answer of a task in words; data stand for themselves, as JSON."""
    status = _status_parts(task)
    if answer is not None:
        return _told(answer.parts) or parts_text(status)
    if text_of(status):
        return parts_text(status)
    texts = [_as_text(part) for made in task.artifacts for part in made.parts]
    return "\n".join(filter(None, texts)) or _told(status)


def parts_text(parts: Sequence[Part]) -> str:
    """Return in words what a message answers; a text with a file's name counts if it is alone."""
    return _told(parts) or text_of(parts)


def beside_text(found: Task | Message, answer: TaskArtifact | None = None) -> list[TaskArtifact]:
    """Return what an answer brings besides its text, as artifacts: files, links and data.

    Of the artifact that is the answer, and of messages, that is what is not speech. An artifact
    called "answer" that is data alone is left out: the text is all of it.
    """
    if isinstance(found, Message):
        return _unspoken(TaskArtifact(artifact_id=ANSWER, name=ANSWER, parts=found.parts))
    made: list[TaskArtifact] = []
    for one in found.artifacts:
        if one is not answer:
            made.append(one)
        elif not all(map(_is_data, one.parts)):
            made += _unspoken(one)
    if found.state is TaskState.COMPLETED:
        parts = _status_parts(found)
        made += _unspoken(TaskArtifact(artifact_id=_STATUS, name=ANSWER, parts=parts))
    return made


def _unspoken(made: TaskArtifact) -> list[TaskArtifact]:
    parts = tuple(part for part in made.parts if not is_speech(part))
    return [replace(made, parts=parts)] if parts else []


def is_speech(part: Part) -> bool:
    """Tell whether a part is something said, and neither a file nor data."""
    return part.text is not None and not part.filename


def _is_data(part: Part) -> bool:
    return part.data is not None or part.is_null


def _told(parts: Sequence[Part]) -> str:
    """Return parts in words: texts as they follow each other, data on lines of their own."""
    told = ""
    was_data = False
    for part in parts:
        text = _as_text(part)
        if text and told and (was_data or _is_data(part)) and not told.endswith("\n"):
            told += "\n"
        if text:
            told += text
            was_data = _is_data(part)
    return told


def _as_text(part: Part) -> str:
    if _is_data(part):
        return msgspec.json.encode(part.data).decode()
    return "" if part.filename else part.text or ""


def asked_in(task: Task) -> list[Asked]:
    """Return what a task that waits asks: its structured requests, or its words as one."""
    parts = _status_parts(task)
    found = [
        asked
        for part in parts
        if part.metadata.get("extension") == INPUT_REQUEST and isinstance(part.data, Mapping)
        for entry in _entries(part.data)
        if (asked := _structured(entry)) is not None
    ]
    if found:
        return found[:_MOST_REQUESTS]
    needs_login = task.state is TaskState.AUTH_REQUIRED
    kind = RequestKind.AUTHORIZATION if needs_login else RequestKind.INPUT
    data = [part.data for part in parts if isinstance(part.data, Mapping)]
    text = text_of(parts)[:_MOST_MESSAGE] or "the remote agent waits and does not say for what"
    return [Asked(id="", kind=kind, message=text, arguments=dict(data[0]) if data else None)]


def _entries(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    listed = data.get("requests")
    if not isinstance(listed, list):
        return ()
    return [entry for entry in listed if isinstance(entry, Mapping)]


def _structured(entry: Mapping[str, Any]) -> Asked | None:
    name, kind = entry.get("requestId"), _KINDS.get(str(entry.get("kind")))
    if not isinstance(name, str) or not name or kind is None:
        return None
    expires = entry.get("expiresAt")
    is_time = isinstance(expires, int | float) and not isinstance(expires, bool)
    return Asked(
        id=name,
        kind=kind,
        message=str(entry.get("message", ""))[:_MOST_MESSAGE],
        tool=str(entry.get("tool", "")),
        arguments=_mapping(entry.get("arguments")),
        schema=_mapping(entry.get("schema")),
        expires_at=expires if is_time else None,
    )


def _mapping(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


def answer_parts(answers: Sequence[tuple[Asked, InputAnswer]]) -> tuple[Part, ...]:
    """Return the message that answers what a remote task asked."""
    structured = [_as_data(asked, answer) for asked, answer in answers if asked.id]
    if structured:
        data = {"answers": structured}
        return (
            Part(data=data, media_type="application/json", metadata={"extension": INPUT_REQUEST}),
        )
    asked, answer = answers[0]
    if answer.verdict is not ApprovalDecision.APPROVE:
        return text_part(answer.reason or "no")
    value = answer.value if answer.value is not None else answer.arguments
    if asked.kind is RequestKind.AUTHORIZATION or value is None:
        return text_part(_GO_ON)  # credentials take a way of their own
    if isinstance(value, str):
        return text_part(value)
    return (Part(data=value, media_type="application/json"),)


def _as_data(asked: Asked, answer: InputAnswer) -> dict[str, Any]:
    is_yes = answer.verdict is ApprovalDecision.APPROVE
    data: dict[str, Any] = {"requestId": asked.id, "verdict": "approve" if is_yes else "deny"}
    if is_yes and answer.arguments is not None:
        data["arguments"] = dict(answer.arguments)
    if is_yes and answer.value is not None and asked.kind is not RequestKind.AUTHORIZATION:
        data["value"] = answer.value
    reason = answer.reason or ("" if is_yes else answer.verdict.value)
    if reason and not is_yes:
        data["reason"] = reason
    return data
