"""Events of a run."""

from collections.abc import Mapping

from acc.domain.call_options import explain_attributes
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.base import ExplainedEnum, ExplainedMeta, JsonData, Value
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage, text_of
from acc.domain.value_objects.run import RunStatus


class EventKind(ExplainedEnum):
    """The kind of an event. The last four are shown and never stored."""

    MESSAGE = "message"
    DRAFT = "draft"
    TOOL_CALLS = "tool_calls"
    TOOL_RESULT = "tool_result"
    STATE = "state"
    MEMORY = "memory"
    MODEL_REQUEST = "model_request"
    TRANSFER = "transfer"
    ROUTE = "route"
    DELEGATION = "delegation"
    INPUT_REQUIRED = "input_required"
    INPUT = "input"
    ARTIFACT = "artifact"
    FLOW = "flow"
    FAULT = "fault"
    ENDED = "ended"
    REWOUND = "rewound"
    DELTA = "delta"
    PARTIAL_OUTPUT = "partial_output"
    PROGRESS = "progress"
    SNAPSHOT = "snapshot"


TRANSIENT = frozenset(
    {EventKind.DELTA, EventKind.PARTIAL_OUTPUT, EventKind.PROGRESS, EventKind.SNAPSHOT}
)


class EventActions(Value, frozen=True, kw_only=True):
    """State changes, published events and control flow of an event.

    `branch_delta` and `branch_published` were written inside a parallel branch and take effect when
    the branches join.
    """

    state_delta: Mapping[str, JsonData] = {}
    state_removed: tuple[str, ...] = ()
    branch_delta: Mapping[str, JsonData] = {}
    branch_removed: tuple[str, ...] = ()
    transfer_to_agent: str = ""
    escalate: bool = False
    published: tuple[CloudEvent, ...] = ()
    branch_published: tuple[CloudEvent, ...] = ()


NO_ACTIONS = EventActions()


#: Attributes by the names that other libraries have for them.
_ATTRIBUTE_HINTS = {
    "content": "use .text, or .parts for data and files",
    "message": "use .text, or .parts for data and files",
    "data": "use .text, or .parts for data and files",
    "output": "use .partial_output, or .output of the result of the run",
    "delta": "use .text of events whose kind is delta",
    "type": "kind",
    "name": "author",
    "role": "author",
    "partial": "kind is delta for pieces of text",
    "tool_calls": "calls",
    "function_calls": "calls",
    "get_function_calls": "calls",
    "get_function_responses": "result",
    "tool_result": "result",
    "is_final_response": "compare .kind with ended",
    "timestamp": "at",
    "invocation_id": "run_id",
    "id": "seq",
}


@explain_attributes(_ATTRIBUTE_HINTS)
class Event(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """One event of a run. `step` identifies it within the run, also in a replay.

    `seq` is the number of a stored event in its session, from 1; it is 0 for events that are not
    stored.
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
    detail: Mapping[str, JsonData] = {}
    at: float = 0.0
    request_id: str = ""
    trace_id: str = ""
    caller: str = ""

    @property
    def text(self) -> str:
        """Return the text of the event."""
        return text_of(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the event."""
        return tuple(part.call for part in self.parts if part.call is not None)

    @property
    def result(self) -> ToolResult | None:
        """Return the tool result of the event."""
        for part in self.parts:
            if part.result is not None:
                return part.result
        return None

    @property
    def partial_output(self) -> JsonData:
        """Return the JSON data of a partial output, which may still be rejected; else None."""
        if self.kind is not EventKind.PARTIAL_OUTPUT:
            return None
        return self.parts[0].data

    @property
    def partial(self) -> bool:
        """Return True if the event is shown and not stored."""
        return self.kind in TRANSIENT
