"""Content of remote tasks: answers as text and attachments, requests for input, answers to them."""

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

_MAX_REQUESTS = 32
_MAX_MESSAGE_LENGTH = 10_000
_KINDS = {kind.value: kind for kind in RequestKind}
_CONTINUE = "continue"
#: Id of the artifact with the attachments of the last status message.
_STATUS_ID = "status"
#: Codes of an HTTP+JSON error without a more specific reason.
_GENERIC_CODES = frozenset({"400", "404", "INVALID_ARGUMENT", "NOT_FOUND", "CONTEXT_NOT_FOUND"})
_UNKNOWN_CONTEXT = re.compile(
    r"context[ _-]?ids?\b"
    r"|\b(unknown|no such|expired) context\b(?! (window|length|size))"
    r"|\bcontext\b(?! (window|length|size)).{0,200}\b(not found|unknown|not exist|expired)\b",
    re.IGNORECASE | re.DOTALL,
)


class RemoteInputRequest(NamedTuple):
    """A request for input of a remote task; `id` is empty if the server sent only text."""

    id: str
    kind: RequestKind
    message: str
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    expires_at: float | None = None

    def to_record(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        return {**self._asdict(), "kind": self.kind.value}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "RemoteInputRequest":
        """Return the request of JSON data."""
        return RemoteInputRequest(**{**record, "kind": RequestKind(record["kind"])})


def is_unknown_context(message: Message, error: AccError) -> bool:
    """Return True if a server rejected a message because it does not know its context.

    Always False for a message to a task: a new context would not contain that task.
    """
    if message.task_id or not message.context_id:
        return False
    is_rejection = isinstance(error, InvalidInput | NotFound) or (
        isinstance(error, RemoteFailed) and error.remote_code in _GENERIC_CODES
    )
    text = str(error)
    return is_rejection and (
        message.context_id in text or _UNKNOWN_CONTEXT.search(text) is not None
    )


def status_text(task: Task) -> str:
    """Return the status message of a task: its text, or its data if it has no text."""
    parts = _status_parts(task)
    return text_of(parts) or _format_parts(parts)


def answer_artifact(task: Task) -> TaskArtifact | None:
    """Return the artifact that is the answer as text, if there is one.

    This is the artifact "answer", or else the only one with plain text if it has nothing else.
    """
    for artifact in task.artifacts:
        if artifact.artifact_id == ANSWER:
            return artifact
    texts = [one for one in task.artifacts if any(map(is_plain_text, one.parts))]
    return texts[0] if len(texts) == 1 and all(map(is_plain_text, texts[0].parts)) else None


def answer_text(task: Task, answer: TaskArtifact | None) -> str:
    """Return the answer of a task as text; data are formatted as JSON.

    Without an answer artifact, this is the status message with the texts of all artifacts.
    """
    status = _status_parts(task)
    if answer is not None:
        return _format_parts(answer.parts) or message_text(status)
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    if not text_of(status):
        return "\n".join(filter(None, map(_format_part, parts))) or _format_parts(status)
    texts = [message_text(status), *(part.text or "" for part in parts if is_plain_text(part))]
    return "\n".join(dict.fromkeys(filter(None, texts)))


def message_text(parts: Sequence[Part]) -> str:
    """Return a message as text; a text with a file name counts if there is nothing else."""
    return _format_parts(parts) or text_of(parts)


def attachments(result: Task | Message, answer: TaskArtifact | None = None) -> list[TaskArtifact]:
    """Return what a result has besides its text, as artifacts: files, links and data.

    From the answer artifact and from messages, these are the parts that are not plain text. An
    answer artifact that consists of data only is left out: its text contains all of it.
    """
    if isinstance(result, Message):
        return _non_text(TaskArtifact(artifact_id=ANSWER, name=ANSWER, parts=result.parts))
    artifacts: list[TaskArtifact] = []
    for artifact in result.artifacts:
        if artifact is not answer:
            artifacts.append(artifact)
        elif not all(map(_is_data, artifact.parts)):
            artifacts += _non_text(artifact)
    if result.state is TaskState.COMPLETED:
        parts = _status_parts(result)
        artifacts += _non_text(TaskArtifact(artifact_id=_STATUS_ID, name=ANSWER, parts=parts))
    return artifacts


def is_plain_text(part: Part) -> bool:
    """Return True if a part is text, and not a file or data."""
    return part.text is not None and not part.filename


def input_requests(task: Task) -> list[RemoteInputRequest]:
    """Return the structured requests of a waiting task, or its status message as one request."""
    parts = _status_parts(task)
    structured = [
        request
        for part in parts
        if part.metadata.get("extension") == INPUT_REQUEST and isinstance(part.data, Mapping)
        for entry in _request_entries(part.data)
        if (request := _parse_request(entry)) is not None
    ]
    if structured:
        return structured[:_MAX_REQUESTS]
    needs_credentials = task.state is TaskState.AUTH_REQUIRED
    data = [part.data for part in parts if isinstance(part.data, Mapping)]
    text = text_of(parts)[:_MAX_MESSAGE_LENGTH]
    return [
        RemoteInputRequest(
            id="",
            kind=RequestKind.AUTHORIZATION if needs_credentials else RequestKind.INPUT,
            message=text or "the remote agent needs input, but sent no question",
            arguments=dict(data[0]) if data else None,
        )
    ]


def format_answers(
    answers: Sequence[tuple[RemoteInputRequest, InputAnswer]],
) -> tuple[Part, ...]:
    """Return the parts of the message that answers the requests of a remote task."""
    structured = [_answer_data(request, answer) for request, answer in answers if request.id]
    if structured:
        data = {"answers": structured}
        return (
            Part(data=data, media_type="application/json", metadata={"extension": INPUT_REQUEST}),
        )
    request, answer = answers[0]
    if answer.verdict is not ApprovalDecision.APPROVE:
        return text_part(answer.reason or "no")
    value = answer.value if answer.value is not None else answer.arguments
    if request.kind is RequestKind.AUTHORIZATION or value is None:
        return text_part(_CONTINUE)  # credentials are never sent in a message
    if isinstance(value, str):
        return text_part(value)
    return (Part(data=value, media_type="application/json"),)


def _status_parts(task: Task) -> tuple[Part, ...]:
    message = task.status.message
    return () if message is None else message.parts


def _non_text(artifact: TaskArtifact) -> list[TaskArtifact]:
    parts = tuple(part for part in artifact.parts if not is_plain_text(part))
    return [replace(artifact, parts=parts)] if parts else []


def _is_data(part: Part) -> bool:
    return part.data is not None or part.is_null


def _format_parts(parts: Sequence[Part]) -> str:
    """Return parts as text: texts are concatenated, data are on separate lines."""
    result = ""
    previous_is_data = False
    for part in parts:
        text = _format_part(part)
        if not text:
            continue
        if result and (previous_is_data or _is_data(part)) and not result.endswith("\n"):
            result += "\n"
        result += text
        previous_is_data = _is_data(part)
    return result


def _format_part(part: Part) -> str:
    if _is_data(part):
        return msgspec.json.encode(part.data).decode()
    return "" if part.filename else part.text or ""


def _request_entries(data: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    entries = data.get("requests")
    if not isinstance(entries, list):
        return ()
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _parse_request(entry: Mapping[str, Any]) -> RemoteInputRequest | None:
    request_id, kind = entry.get("requestId"), _KINDS.get(str(entry.get("kind")))
    if not isinstance(request_id, str) or not request_id or kind is None:
        return None
    expires = entry.get("expiresAt")
    is_time = isinstance(expires, int | float) and not isinstance(expires, bool)
    return RemoteInputRequest(
        id=request_id,
        kind=kind,
        message=str(entry.get("message", ""))[:_MAX_MESSAGE_LENGTH],
        tool=str(entry.get("tool", "")),
        arguments=_mapping_or_none(entry.get("arguments")),
        schema=_mapping_or_none(entry.get("schema")),
        expires_at=expires if is_time else None,
    )


def _mapping_or_none(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None


def _answer_data(request: RemoteInputRequest, answer: InputAnswer) -> dict[str, Any]:
    is_approved = answer.verdict is ApprovalDecision.APPROVE
    data: dict[str, Any] = {
        "requestId": request.id,
        "verdict": "approve" if is_approved else "deny",
    }
    if not is_approved:
        data["reason"] = answer.reason or answer.verdict.value
        return data
    if answer.arguments is not None:
        data["arguments"] = dict(answer.arguments)
    if answer.value is not None and request.kind is not RequestKind.AUTHORIZATION:
        data["value"] = answer.value
    return data
