"""Checking what a person hands in, before it counts: messages, arguments, values."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.runtime.context import PARTS, check_readable
from acc.application.tools.tool import Tool
from acc.domain.errors import InvalidInput
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part
from acc.ports.outbound.system_ports import SchemaValidatorPort

Message = str | Part | Sequence[Part]
#: What a tool raises for arguments that it cannot take.
WRONG_ARGUMENTS = (msgspec.ValidationError, TypeError, ValueError)


def message_parts(message: Message) -> tuple[Part, ...]:
    """Return a message as its parts; one that nothing could store is refused."""
    if isinstance(message, str):
        if not message.strip():
            raise InvalidInput("the message is empty")
        if replace_surrogates(message) is not message:
            raise InvalidInput("the message holds half a character, and so is no Unicode text")
        return (Part(text=message),)
    given = (message,) if isinstance(message, Part) else message
    parts = tuple(given) if isinstance(given, Sequence) else ()
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise InvalidInput("a message is a text, a Part, or a list of Parts")
    check_readable(parts, PARTS, "this message")
    return parts


def checked_answers(
    root: BaseAgent,
    requests: Sequence[InputRequest],
    answers: Iterable[InputAnswer],
    schemas: SchemaValidatorPort,
) -> tuple[InputAnswer, ...]:
    """Return answers that will do for what was asked, or refuse one and name what is wrong.

    Whatever was asked goes on waiting then. A tool that is known only while its agent runs, as one
    of an MCP server, checks its arguments itself, and asks again.
    """
    asked = {request.id: request for request in requests}
    found: list[InputAnswer] = []
    for answer in answers:
        request = asked.get(answer.request_id)
        if request is not None and answer.verdict is ApprovalDecision.APPROVE:
            if answer.arguments is not None:
                _check_edited(root, request, answer.arguments)
            if request.kind is RequestKind.INPUT and request.schema:
                answer = _fitting(request, answer, schemas)
        found.append(answer)
    return tuple(found)


def _fitting(
    request: InputRequest, answer: InputAnswer, schemas: SchemaValidatorPort
) -> InputAnswer:
    """Return an answer whose value fits; words that are JSON of what is asked for are read so."""
    fault = schemas.schema_error(request.schema, answer.value)
    if not fault:
        return answer
    if isinstance(answer.value, str):
        with suppress(msgspec.DecodeError, RecursionError):
            read = msgspec.json.decode(answer.value)
            if not schemas.schema_error(request.schema, read):
                return replace(answer, value=read)
    raise InvalidInput(
        f"the value for {request.id} is not what was asked for: {fault}. It still waits for one"
    )


def _check_edited(root: BaseAgent, request: InputRequest, arguments: Mapping[str, Any]) -> None:
    tool = _tool_of(root, request)
    if tool is None:
        return
    try:
        tool.validate(arguments)
    except WRONG_ARGUMENTS as error:
        raise InvalidInput(
            f"the edited arguments for {tool.name} are wrong: {error}; give all of them as it "
            f"takes them. Nothing was done, and {request.id} still waits"
        ) from None


def _tool_of(root: BaseAgent, request: InputRequest) -> Tool | None:
    if request.kind is not RequestKind.CONFIRMATION or not request.tool:
        return None
    asking = next((one for one in root.walk_all() if one.name == request.agent), None)
    tools = getattr(asking, "own_tools", {})
    found: Tool | None = tools.get(request.tool)
    return found
