"""Requests for input from a person, and the answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from acc.domain.call_options import checked, explain_attributes, explains_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import ExplainedEnum, JsonData


class RequestKind(ExplainedEnum):
    """The kind of an input request."""

    CONFIRMATION = "confirmation"
    INPUT = "input"
    OUTCOME = "outcome"
    AUTHORIZATION = "authorization"


_MAX_ARGUMENTS_LENGTH = 2_000
_REQUEST_HINTS = {
    "approve": "pass acc.approve(request.id) to resume(...)",
    "deny": "pass acc.deny(request.id) to resume(...)",
    "answer": "pass acc.approve(request.id, value=...) to resume(...)",
    "respond": "pass acc.approve(request.id, value=...) to resume(...)",
    "request_id": "id",
    "prompt": "message",
    "tool_name": "tool",
    "args": "arguments",
}


@explain_attributes(_REQUEST_HINTS)
@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """A structured request that a run waits for.

    A `confirmation` shows a tool and the arguments of its call. An `outcome` asks for the result of
    a long-running tool. An `authorization` names the required credentials, which are never part of
    the answer.
    """

    id: str
    kind: RequestKind
    agent: str
    message: str
    tool: str = ""
    arguments: Mapping[str, JsonData] = field(default_factory=dict)
    schema: Mapping[str, JsonData] = field(default_factory=dict)
    expires_at: float | None = None

    @property
    def question(self) -> str:
        """Return the message, with the tool call that a confirmation is about."""
        if not self.tool or self.kind is not RequestKind.CONFIRMATION:
            return self.message
        arguments = json.dumps(
            self.arguments, ensure_ascii=False, separators=(",", ":"), default=str
        )
        if len(arguments) > _MAX_ARGUMENTS_LENGTH:
            arguments = f"{arguments[:_MAX_ARGUMENTS_LENGTH]}…"
        return f"{self.message} {self.tool} {arguments}"


class ApprovalDecision(ExplainedEnum):
    """The decision of a person."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRED = "expired"


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class InputAnswer:
    """The answer to a request. `arguments` replace those of the call; `value` is free input.

    `message_id` is that of the A2A message with the answer, if any.
    """

    request_id: str
    verdict: ApprovalDecision = ApprovalDecision.APPROVE
    arguments: Mapping[str, JsonData] | None = None
    value: JsonData = None
    reason: str = ""
    by: str = ""
    message_id: str = ""


def approve(
    request: str | InputRequest,
    *,
    arguments: Mapping[str, JsonData] | None = None,
    value: JsonData = None,
    by: str = "",
) -> InputAnswer:
    """Return an approval, with edited arguments or with the requested value.

    The request is one of `result.requests`, or its id.
    """
    return InputAnswer(request_id=_request_id(request), arguments=arguments, value=value, by=by)


def deny(request: str | InputRequest, reason: str = "", *, by: str = "") -> InputAnswer:
    """Return a denial of a request, which is one of `result.requests` or its id."""
    return InputAnswer(
        request_id=_request_id(request), verdict=ApprovalDecision.DENY, reason=reason, by=by
    )


if not TYPE_CHECKING:  # the declared options are those above
    approve, deny = checked(approve, {}), checked(deny, {})


def _request_id(request: object) -> str:
    if isinstance(request, InputRequest):
        return request.id
    if not isinstance(request, str):
        raise InvalidInput(
            f"expected a request of result.requests or its id, got {type(request).__name__}"
        )
    return request
