"""Read requests of AG-UI: a message, answers to interrupts, or a request for the history."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ag_ui.core import DataSource, FileSource, ResumeEntry, RunAgentInput, TextPart, UserMessage
from pydantic import ValidationError

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.session import MAX_ID_LENGTH

_MAX_REPORTED_ERRORS = 5
#: Schema of the answer to a confirmation: a decision, and optionally edited arguments.
CONFIRMATION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object"},
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgUiRequest:
    """A valid request. Without a message and answers it asks for the history of the thread."""

    thread_id: str
    run_id: str
    message: tuple[Part, ...]
    message_id: str
    resume: tuple[ResumeEntry, ...]
    is_first_message: bool


def read_request(body: bytes) -> AgUiRequest:
    """Return the request in a body; InvalidInput names the invalid fields."""
    try:
        request = RunAgentInput.model_validate_json(body)
    except ValidationError as error:
        # The values are not repeated, because they may be secret.
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        ]
        more = len(problems) - _MAX_REPORTED_ERRORS
        text = "; ".join(problems[:_MAX_REPORTED_ERRORS]) + (f"; {more} more" if more > 0 else "")
        raise InvalidInput(f"the body is not a RunAgentInput of AG-UI: {text}") from None
    for name, value in (("threadId", request.thread_id), ("runId", request.run_id)):
        if not value or len(value) > MAX_ID_LENGTH or not value.isprintable():
            raise InvalidInput(f"{name} must be printable and have 1 to {MAX_ID_LENGTH} characters")
    resume = tuple(request.resume or ())
    last = request.messages[-1] if request.messages else None
    message: tuple[Part, ...] = ()
    if last is not None and not resume:
        if not isinstance(last, UserMessage):
            raise InvalidInput(
                f"the last message has the role {last.role!r}; expected a message of the user, or "
                "`resume` with answers to the interrupts of the thread"
            )
        message = _read_content(last)
    return AgUiRequest(
        thread_id=request.thread_id,
        run_id=request.run_id,
        message=message,
        message_id=last.id if message and last is not None else "",
        resume=resume,
        is_first_message=len(request.messages) <= 1,
    )


def _read_content(message: UserMessage) -> tuple[Part, ...]:
    if isinstance(message.content, str):
        parts: tuple[Part, ...] = (Part(text=message.content),)
    else:
        parts = tuple(_read_part(part) for part in message.content)
    if not any(part.text is None or part.text.strip() for part in parts):
        raise InvalidInput("the message of the user is empty; send text or files")
    return parts


def _read_part(part: Any) -> Part:
    if isinstance(part, TextPart):
        return Part(text=part.text)
    source = part.source
    if isinstance(source, FileSource):
        raise InvalidInput(
            "a file that is stored at a provider cannot be read; send it as `data` or as `url`"
        )
    if not isinstance(source, DataSource):
        return Part(url=source.value, media_type=source.mime_type or "")
    try:
        raw = base64.b64decode(source.value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("the value of a data source must be base64") from None
    return Part(raw=raw, media_type=source.mime_type)


def read_answers(
    resume: Sequence[ResumeEntry], pending: Sequence[InputRequest], *, by: str
) -> list[InputAnswer]:
    """Return the answers to pending requests; InvalidInput if one is not valid for its request."""
    by_id = {request.id: request for request in pending}
    answers: dict[str, InputAnswer] = {}
    for entry in resume:
        request = by_id.get(entry.interrupt_id)
        if request is None:
            open_ids = ", ".join(by_id) or "none"
            raise InvalidInput(
                f"interrupt {entry.interrupt_id!r} is not open in this thread; open: {open_ids}"
            )
        if request.id in answers:
            raise InvalidInput(f"interrupt {request.id!r} is answered twice")
        answers[request.id] = _read_answer(entry, request, by)
    return list(answers.values())


def _read_answer(entry: ResumeEntry, request: InputRequest, by: str) -> InputAnswer:
    payload = entry.payload
    if entry.status == "cancelled":
        return InputAnswer(
            request_id=request.id, verdict=ApprovalDecision.DENY, reason="cancelled", by=by
        )
    if request.kind is RequestKind.AUTHORIZATION:
        return InputAnswer(request_id=request.id, by=by)
    if request.kind is not RequestKind.CONFIRMATION:
        return InputAnswer(request_id=request.id, value=payload, by=by)
    decision = {"approved": payload} if isinstance(payload, bool) else payload
    if not isinstance(decision, dict) or not isinstance(decision.get("approved"), bool):
        raise InvalidInput(
            f"interrupt {request.id!r}: the payload must be an object with `approved`, true or "
            "false, and optionally `editedArgs` and `reason`"
        )
    edited, reason = decision.get("editedArgs"), decision.get("reason", "")
    if edited is not None and not isinstance(edited, dict):
        raise InvalidInput(f"interrupt {request.id!r}: `editedArgs` must be an object")
    is_approved = decision["approved"]
    return InputAnswer(
        request_id=request.id,
        verdict=ApprovalDecision.APPROVE if is_approved else ApprovalDecision.DENY,
        arguments=edited if is_approved else None,
        reason=str(reason),
        by=by,
    )
