"""The result of a run."""

from collections.abc import Mapping
from typing import Generic

import msgspec

from acc.application.runtime.type_variables import AnyOutputT
from acc.domain.call_options import explain_attributes, explain_operations
from acc.domain.errors import OutputUnavailable
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.base import ExplainedMeta, JsonData, Value
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus

#: Attributes by the names that other libraries have for them.
_ATTRIBUTE_HINTS = {
    "content": "text",
    "final_output": "output",
    "message": "text",
    "messages": "events",
    "new_messages": "events",
    "all_messages": "events",
    "to_input_list": "earlier messages are in the session: call run(message) again",
    "history": "events",
    "last_agent": "answered_by",
    "agent": "answered_by",
    "success": "use .status",
    "error": "a failed run raises its error",
    "response": "text",
    "answer": "text",
    "parsed": "output",
    "value": "output",
    "structured_output": "output",
    "output_text": "text",
    "data": "output",
    "pending": "requests",
    "interrupts": "requests",
    "cost": "use .usage.cost",
    "tokens": "use .usage.input_tokens and .usage.output_tokens",
}


@explain_operations({"__getitem__": "have attributes, such as .text, .output and .events"})
@explain_attributes(_ATTRIBUTE_HINTS)
class RunResult(Value, Generic[AnyOutputT], frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """The outcome of a run: its answer, events, state and usage.

    `text` is the answer as text, `output` as a value of the agent's output type.
    """

    run_id: str
    status: RunStatus
    text: str
    events: tuple[Event, ...]
    state: Mapping[str, JsonData]
    usage: Usage
    requests: tuple[InputRequest, ...] = ()
    #: The output, or the error if there is none.
    output_or_error: object = msgspec.UNSET

    def __repr__(self) -> str:
        """Return a short text for notebooks: the events are counted."""
        shown: dict[str, object] = {
            "status": self.status.value,
            "text": self.text,
            "state": self.state,
        }
        if self.requests:
            shown["requests"] = self.requests
        fields = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"RunResult({fields}, events=<{len(self.events)} events>, run_id={self.run_id!r})"

    @property
    def output(self) -> AnyOutputT:
        """Return the answer as a value of the agent's output type.

        Raises OutputUnavailable if the run did not complete, for example because it waits for
        input, or if an agent of another output type answered after a transfer.
        """
        if self.status is not RunStatus.COMPLETED:
            raise OutputUnavailable(
                f"the run has no output: its status is {self.status.value}"
                + ("; resume it with answers to its requests" if self.requests else "")
            )
        if isinstance(self.output_or_error, OutputUnavailable):
            raise self.output_or_error
        output: AnyOutputT = self.output_or_error  # type: ignore[assignment]
        return output

    @property
    def answered_by(self) -> str:
        """Return the name of the agent of the last message."""
        authors = (e.author for e in reversed(self.events) if e.kind is EventKind.MESSAGE)
        return next((author for author in authors if author != "user"), "")
