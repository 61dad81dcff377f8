"""Validate messages and answers before they are stored."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from acc.domain.errors import InvalidInput, NothingPending
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part, is_text_type
from acc.ports.outbound.system_ports import SchemaValidatorPort

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent

#: A list of texts alone is rejected: it may be meant as several messages.
Message = str | Part | Sequence[Part | str]
_BINARY_TYPES = ("image/", "audio/", "video/")
_ANSWER_FORM = "approve(request.id), approve(request.id, value=...) or deny(request.id)"
_ANSWERS_DECODER = msgspec.json.Decoder(tuple[InputAnswer, ...])
PARTS_DECODER = msgspec.json.Decoder(tuple[Part, ...])
#: What the validation of a tool raises for invalid arguments.
INVALID_ARGUMENTS = (msgspec.ValidationError, TypeError, ValueError)


def message_parts(message: Message) -> tuple[Part, ...]:
    """Return the parts of a message; InvalidInput if it cannot be stored."""
    if isinstance(message, str):
        if not message.strip():
            raise InvalidInput("the message is empty; pass a text or at least one part")
        if replace_surrogates(message) is not message:
            raise InvalidInput(
                "the message contains an unpaired surrogate, which is not valid text; remove or "
                "replace it"
            )
        return (Part(text=message),)
    items = (message,) if isinstance(message, Part) else message
    listed = tuple(items) if isinstance(items, Sequence) else ()
    is_valid = all(isinstance(part, Part | str) for part in listed)
    if not is_valid or not any(isinstance(part, Part) for part in listed):
        raise InvalidInput(
            'a message must be a str such as "hello", a Part, or a list of Parts and texts, got '
            f"{_describe_message(message)}"
        )
    parts = tuple(Part(text=part) if isinstance(part, str) else part for part in listed)
    for part in parts:
        kind = part.media_type
        if kind and "/" not in kind:
            raise InvalidInput(
                f"{kind!r} is not a media type: write TYPE/SUBTYPE, such as image/png"
            )
        if part.url is not None and _is_local(part.url):
            raise InvalidInput(
                f"{part.url!r} is not an address on the web: for a file on this machine pass "
                "raw=Path(...).read_bytes() in place of url"
            )
        if part.text is not None and kind.startswith(_BINARY_TYPES) and not is_text_type(kind):
            raise InvalidInput(
                f"a text cannot have the type {kind}: for a file on this machine pass "
                "raw=Path(...).read_bytes() in place of text, for an address on the web url=..."
            )
    check_storable(parts, PARTS_DECODER, "this message")
    return parts


def _is_local(url: str) -> bool:
    """Return True for a path or a `file:` URL; the scheme of a path is a drive letter at most."""
    scheme = url.partition(":")[0] if ":" in url else ""
    return len(scheme) < 2 or scheme.lower() == "file" or "/" in scheme


def _describe_message(message: object) -> str:
    """Return the type of an invalid message; dictionaries are messages of other libraries."""
    items: Sequence[object] = [message]
    if isinstance(message, Sequence) and not isinstance(message, str | bytes):
        items = message
    wrong = [item for item in items if not isinstance(item, str | Part)]
    if not items:
        return "an empty list"
    if not wrong:
        return "a list of str: join them, or call run for each"
    if isinstance(wrong[0], Mapping):
        return "a dict: pass the text alone; earlier messages are in the session"
    kind = "None" if wrong[0] is None else type(wrong[0]).__name__
    if isinstance(wrong[0], bytes | PurePath):
        return f'{kind}: for a file pass Part(raw=content, media_type="image/png")'
    return kind


def as_answers(answers: InputAnswer | Iterable[InputAnswer]) -> tuple[InputAnswer, ...]:
    """Return one or several answers as a tuple."""
    if isinstance(answers, InputAnswer):
        return (answers,)
    if not isinstance(answers, Iterable):
        raise InvalidInput(f"answers must be a list of {_ANSWER_FORM}")
    return tuple(answers)


def collect_answers(
    root: "BaseAgent",
    pending: Sequence[InputRequest],
    answers: Sequence[InputAnswer],
    *,
    now: float,
    schemas: SchemaValidatorPort,
) -> dict[str, InputAnswer]:
    """Return the valid answers by request; an expired request gets the answer `expired`."""
    if not all(isinstance(answer, InputAnswer) for answer in answers):
        raise InvalidInput(f"an answer must be {_ANSWER_FORM}")
    check_storable(answers, _ANSWERS_DECODER, "this answer")
    known = {request.id for request in pending}
    given: dict[str, InputAnswer] = {}
    for answer in answers:
        if answer.request_id in given:
            raise NothingPending(f"request {answer.request_id!r} is answered twice")
        if answer.request_id not in known:
            ids = ", ".join(request.id for request in pending) or (
                "none; resume() without answers continues an interrupted run"
            )
            raise NothingPending(
                f"request {answer.request_id!r} is not pending; pending requests: {ids}"
            )
        given[answer.request_id] = answer
    for request in pending:
        if request.expires_at is not None and now >= request.expires_at:
            given[request.id] = InputAnswer(request_id=request.id, verdict=ApprovalDecision.EXPIRED)
    valid = validate_answers(root, pending, given.values(), schemas)
    return {answer.request_id: answer for answer in valid}


def validate_answers(
    root: "BaseAgent",
    requests: Sequence[InputRequest],
    answers: Iterable[InputAnswer],
    schemas: SchemaValidatorPort,
) -> tuple[InputAnswer, ...]:
    """Return answers that match their requests; InvalidInput, and no change, otherwise.

    Arguments of tools that are only known while an agent runs, such as those of an MCP server, are
    validated by the run, which requests them again.
    """
    by_id = {request.id: request for request in requests}
    valid: list[InputAnswer] = []
    for answer in answers:
        request = by_id.get(answer.request_id)
        if request is not None and answer.verdict is ApprovalDecision.APPROVE:
            if request.kind is RequestKind.CONFIRMATION and answer.value is not None:
                raise InvalidInput(
                    f"request {request.id!r} is a confirmation, which takes no value; approve it "
                    "without a value, or with changed arguments. The request is still pending"
                )
            if answer.arguments is not None:
                _check_arguments(root, request, answer.arguments)
            if request.kind is RequestKind.INPUT and request.schema:
                answer = _match_schema(request, answer, schemas)
        valid.append(answer)
    return tuple(valid)


def check_storable(value: object, decoder: "msgspec.json.Decoder[Any]", what: str) -> None:
    """Raise InvalidInput for a value that could not be read from the store again."""
    try:
        decoder.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from None


def _match_schema(
    request: InputRequest, answer: InputAnswer, schemas: SchemaValidatorPort
) -> InputAnswer:
    """Return an answer whose value matches the schema; a str may be JSON that matches."""
    error = schemas.schema_error(request.schema, answer.value)
    if not error:
        return answer
    if isinstance(answer.value, str):
        with suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(answer.value)
            if not schemas.schema_error(request.schema, value):
                return replace(answer, value=value)
    raise InvalidInput(
        f"the value for request {request.id!r} does not match its schema: {error}. "
        "The request is still pending"
    )


def _check_arguments(
    root: "BaseAgent", request: InputRequest, arguments: Mapping[str, Any]
) -> None:
    """Raise InvalidInput if edited arguments are not valid for the tool of a confirmation."""
    if request.kind is not RequestKind.CONFIRMATION or not request.tool:
        return
    agent = next((one for one in root.walk_all() if one.name == request.agent), None)
    tool = getattr(agent, "own_tools", {}).get(request.tool)
    if tool is None:
        return
    try:
        tool.validate(arguments)
    except INVALID_ARGUMENTS as error:
        raise InvalidInput(
            f"the edited arguments for {tool.name} are invalid: {error}; pass all arguments of the "
            f"tool. Request {request.id!r} is still pending"
        ) from None
