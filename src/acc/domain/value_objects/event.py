"""What happens in a run, as a stream of events: who said, did, wrote or asked for what."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from acc.domain.errors import whole
from acc.domain.value_objects.value import Value


class ToolCall(Value, frozen=True, kw_only=True):
    """A model's wish to have a tool called. `fault` says why the arguments could not be read."""

    id: str
    name: str
    arguments: Mapping[str, Any] = {}
    fault: str = ""


class ToolResult(Value, frozen=True, kw_only=True):
    """What a tool gave back: plain data, or what went wrong."""

    call_id: str
    name: str
    content: Any = None
    is_error: bool = False


#: Of the six things that a part may hold, how many it does not.
_ALL_BUT_ONE = 5


class Part(Value, frozen=True, kw_only=True):
    """A piece of content: exactly one of text, data, raw bytes, a URL, a call or a result.

    Data that is JSON's null is told by `is_null`.
    """

    text: str | None = None
    data: Any = None
    is_null: bool = False
    raw: bytes | None = None
    url: str | None = None
    call: ToolCall | None = None
    result: ToolResult | None = None
    media_type: str = ""
    filename: str = ""
    metadata: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        held = (self.text, self.data, self.raw, self.url, self.call, self.result)
        missing = held.count(None)
        if self.is_null and self.data is None:
            missing -= 1
        if missing != _ALL_BUT_ONE:
            raise ValueError("a part holds exactly one of text, data, raw, url, call and result")

    @staticmethod
    def from_text(text: str) -> "Part":
        """Return a part that holds text."""
        return Part(text=text)


def words(parts: Sequence[Part]) -> str:
    """Return what parts say, their texts together."""
    if len(parts) == 1:
        return parts[0].text or ""
    return "".join(part.text for part in parts if part.text is not None)


def text_part(text: str) -> tuple[Part, ...]:
    """Return text as the parts of a message, in which no character is half."""
    return (Part(text=whole(text)),)


class Usage(Value, frozen=True, kw_only=True):
    """What was spent: model and tool calls, tokens, money, and the size of the memory shown.

    `cached_tokens` are those of the input that a provider had kept, and so charges less for.
    `cost` is in US dollars and covers `priced_calls` of the model calls: a price that nobody told
    is not 0 but missing, and so are the calls it would be for.
    """

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    memory_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    priced_calls: int = 0

    @property
    def is_priced(self) -> bool:
        """Tell whether `cost` covers every model call."""
        return self.priced_calls >= self.llm_calls

    @property
    def is_sound(self) -> bool:
        """Tell whether what a model told of its call can be counted and kept."""
        return (
            type(self.input_tokens or 0) is int
            and type(self.output_tokens or 0) is int
            and type(self.cached_tokens or 0) is int
            and (self.cost is None or isinstance(self.cost, int | float))
        )

    def __add__(self, other: "Usage") -> "Usage":
        cost = self.cost if other.cost is None else other.cost + (self.cost or 0.0)
        return Usage(
            llm_calls=self.llm_calls + other.llm_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            memory_tokens=max(self.memory_tokens, other.memory_tokens),
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=cost,
            priced_calls=self.priced_calls + other.priced_calls,
        )


NO_USAGE = Usage()


class EventKind(StrEnum):
    """What an event tells. The last three are shown as they happen and never stored."""

    MESSAGE = "message"
    DRAFT = "draft"
    TOOL_CALLS = "tool_calls"
    TOOL_RESULT = "tool_result"
    STATE = "state"
    MEMORY = "memory"
    TRANSFER = "transfer"
    ROUTE = "route"
    INPUT_REQUIRED = "input_required"
    INPUT = "input"
    ARTIFACT = "artifact"
    FAULT = "fault"
    ENDED = "ended"
    DELTA = "delta"
    PROGRESS = "progress"
    SNAPSHOT = "snapshot"


PASSING = frozenset({EventKind.DELTA, EventKind.PROGRESS, EventKind.SNAPSHOT})


class RunStatus(StrEnum):
    """Where a run stands. A run that was killed is found as `working` and closed as failed."""

    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    REJECTED = "rejected"


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


class Verdict(StrEnum):
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
    verdict: Verdict = Verdict.APPROVE
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
    return InputAnswer(request_id=request_id, verdict=Verdict.DENY, reason=reason, by=by)


class EventActions(Value, frozen=True, kw_only=True):
    """What an event changes.

    `branch_delta` was written inside a parallel branch and counts only once the branches join.
    """

    state_delta: Mapping[str, Any] = {}
    state_removed: tuple[str, ...] = ()
    branch_delta: Mapping[str, Any] = {}
    branch_removed: tuple[str, ...] = ()
    transfer_to_agent: str = ""
    escalate: bool = False


NO_ACTIONS = EventActions()


class Event(Value, frozen=True, kw_only=True):
    """One thing that happened. `step` names its place in the run, the same when replayed.

    `seq` numbers the stored events of a session from 1 on; events that only pass by have 0.
    """

    kind: EventKind
    run_id: str
    author: str
    seq: int = 0
    step: str = ""
    branch: str = ""
    parts: tuple[Part, ...] = ()
    actions: EventActions = NO_ACTIONS
    usage: Usage | None = None
    request: InputRequest | None = None
    answer: InputAnswer | None = None
    status: RunStatus | None = None
    detail: Mapping[str, Any] = {}
    at: float = 0.0
    request_id: str = ""
    trace_id: str = ""
    caller: str = ""

    @property
    def text(self) -> str:
        """Return the event's words."""
        return words(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls that the event asks for."""
        return tuple(part.call for part in self.parts if part.call is not None)

    @property
    def result(self) -> ToolResult | None:
        """Return the tool result that the event carries."""
        for part in self.parts:
            if part.result is not None:
                return part.result
        return None

    @property
    def partial(self) -> bool:
        """Tell whether the event only passes by and is not on record."""
        return self.kind in PASSING
