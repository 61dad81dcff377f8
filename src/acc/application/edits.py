"""Checking the arguments that a person puts in the place of a model's, before they count."""

from collections.abc import Iterable, Sequence

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.agents.tool import Tool
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import InputAnswer, InputRequest, RequestKind, Verdict

#: What a tool raises for arguments that it cannot take.
WRONG_ARGUMENTS = (msgspec.ValidationError, TypeError, ValueError)


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
