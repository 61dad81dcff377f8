"""Requests for input from a person, and the answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RequestKind(StrEnum):
    """What a person, or the world outside, is asked for."""

    CONFIRMATION = "confirmation"
    INPUT = "input"
    OUTCOME = "outcome"
    AUTHORIZATION = "authorization"


_MOST_ASKED = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRequest:
    """A structured question that a run waits on.

    A `confirmation` shows the tool and the arguments it would run with. An `outcome` is the end of
    a long-running tool, which someone outside reports. An `authorization` says which credentials
    are needed; they take a way of their own and never come as the answer.
    """

    id: str
    kind: RequestKind
    agent: str
    message: str
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=dict)
    expires_at: float | None = None

    @property
    def question(self) -> str:
        """Return what a person is asked, with the call that they are to agree to."""
        if not self.tool or self.kind is not RequestKind.CONFIRMATION:
            return self.message
        shown = json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"), default=str)
        cut = f"{shown[:_MOST_ASKED]}…" if len(shown) > _MOST_ASKED else shown
        return f"{self.message} {self.tool} {cut}"


class ApprovalDecision(StrEnum):
    """What a person decided."""

    APPROVE = "approve"
    DENY = "deny"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputAnswer:
    """The answer to a request. `arguments` replace those shown; `value` is free input.

    `message_id` is that of the message that brought it, if it came from afar.
    """

    request_id: str
    verdict: ApprovalDecision = ApprovalDecision.APPROVE
    arguments: Mapping[str, Any] | None = None
    value: Any = None
    reason: str = ""
    by: str = ""
    message_id: str = ""


def approve(
    request_id: str, *, arguments: Mapping[str, Any] | None = None, value: Any = None, by: str = ""
) -> InputAnswer:
    """Return a yes, with other arguments if they are to be edited, or with the value asked for."""
    return InputAnswer(request_id=request_id, arguments=arguments, value=value, by=by)


def deny(request_id: str, reason: str = "", *, by: str = "") -> InputAnswer:
    """Return a no."""
    return InputAnswer(request_id=request_id, verdict=ApprovalDecision.DENY, reason=reason, by=by)
