"""Checking what a person hands in, before it counts: a message, or arguments for a model's."""

from collections.abc import Iterable, Sequence

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.agents.tool import Tool
from acc.application.context import PARTS, check_readable
from acc.domain.errors import InvalidInput, whole
from acc.domain.value_objects.event import InputAnswer, InputRequest, Part, RequestKind, Verdict

Message = str | Part | Sequence[Part]

#: What a tool raises for arguments that it cannot take.
WRONG_ARGUMENTS = (msgspec.ValidationError, TypeError, ValueError)


def message_parts(message: Message) -> tuple[Part, ...]:
    """Return a message as its parts; one that nothing could store is refused."""
    if isinstance(message, str):
        if not message.strip():
            raise InvalidInput("the message is empty")
        if whole(message) is not message:
            raise InvalidInput("the message holds half a character, and so is no Unicode text")
        return (Part(text=message),)
    given = (message,) if isinstance(message, Part) else message
    parts = tuple(given) if isinstance(given, Sequence) else ()
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise InvalidInput("a message is a text, a Part, or a list of Parts")
    check_readable(parts, PARTS, "this message")
    return parts


def check_edits(
    root: BaseAgent, requests: Sequence[InputRequest], answers: Iterable[InputAnswer]
) -> None:
    """Refuse answers whose edited arguments their tool could not take, naming what is wrong.

    Whatever was asked goes on waiting then. A tool that is known only while its agent runs, as one
    of an MCP server, checks them itself, and asks again.
    """
    asked = {request.id: request for request in requests}
    for answer in answers:
        request = asked.get(answer.request_id)
        if request is None or answer.arguments is None or answer.verdict is not Verdict.APPROVE:
            continue
        tool = _tool_of(root, request)
        if tool is None:
            continue
        try:
            tool.checked(answer.arguments)
        except WRONG_ARGUMENTS as error:
            raise InvalidInput(
                f"the edited arguments for {tool.name} are wrong: {error}; give all of them as it "
                f"takes them. Nothing was done, and {request.id} still waits"
            ) from None


def _tool_of(root: BaseAgent, request: InputRequest) -> Tool | None:
    if request.kind is not RequestKind.CONFIRMATION or not request.tool:
        return None
    asking = next((one for one in root.everyone() if one.name == request.agent), None)
    tools = getattr(asking, "own_tools", {})
    found: Tool | None = tools.get(request.tool)
    return found
