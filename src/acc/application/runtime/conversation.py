"""The conversation of a session as messages, built from recorded events."""

from collections.abc import Iterator, Sequence

from acc.application.memory.messages import unknown_result
from acc.application.tools.tool import TRANSFER_TOOL_NAME
from acc.domain.value_objects.approval import InputRequest, RequestKind
from acc.domain.value_objects.content import (
    RUNTIME_AUTHOR,
    ChatMessage,
    Part,
    ToolCall,
    ToolResult,
    text_part,
)
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.memory import ConversationTurn
from acc.domain.value_objects.run import RunStatus

#: The events that a turn is built from.
TURN_EVENTS = (
    EventKind.MESSAGE,
    EventKind.TOOL_CALLS,
    EventKind.TOOL_RESULT,
    EventKind.INPUT_REQUIRED,
    EventKind.INPUT,
    EventKind.ARTIFACT,
    EventKind.ENDED,
)
#: What a model is told about a turn without an answer. An error's text is not shown: it may quote
#: what a tool or a remote agent returned.
_FAILURES = {
    RunStatus.CANCELED: "This turn was canceled before an answer.",
    RunStatus.REJECTED: "This turn was rejected; there is no answer.",
}
_FAILURE_CODES = {
    "interrupted": "This turn was interrupted before an answer.",
    "forked": "The session was copied before this turn ended; it does not continue in the copy.",
    "budget_exceeded": "This turn exceeded its budget before an answer.",
}


def conversation_turn(events: Sequence[Event]) -> ConversationTurn:
    """Return a turn, given the recorded events of its run up to its end."""
    return ConversationTurn(
        turn_id=events[0].detail["turn"],
        messages=tuple(_messages(events)),
        at=events[0].at,
    )


def interrupted_calls(events: Sequence[Event]) -> list[ToolCall]:
    """Return the calls of an interrupted run that were started and have no recorded result."""
    calls = {call.id: call for message in _messages(events) for call in message.calls}
    unknown = {call.id: unknown_result(call) for call in calls.values()}
    results = [result for message in _messages(events) for result in message.results]
    return [calls[r.call_id] for r in results if r == unknown.get(r.call_id)]


def _messages(events: Sequence[Event]) -> Iterator[ChatMessage]:
    inside_tools: tuple[str, ...] = ()
    questions: dict[str, InputRequest] = {}
    for index, event in enumerate(events):
        if event.kind is EventKind.ENDED:
            continue
        path = event.step.rpartition("#")[0]
        if event.kind is EventKind.MESSAGE and event.author == "user":
            yield ChatMessage(role="user", author="user", parts=event.parts)
        elif f"{path}/".startswith(inside_tools) and inside_tools:
            continue  # part of a tool call, whose result is shown
        elif event.kind is EventKind.TOOL_CALLS:
            calls = event.calls
            for call in calls:  # the paths of what happens inside the calls
                inside_tools += (f"{path}/{call.name}/", f"{path}/{call.name}:")
            yield from _tool_exchange(event, calls, path, events[index + 1 :])
        elif (request := event.request) is not None and request.kind is RequestKind.INPUT:
            questions[request.id] = request
        elif (answer := event.answer) is not None and answer.request_id in questions:
            asked = questions.pop(answer.request_id)
            yield ChatMessage(role="assistant", author=asked.agent, parts=text_part(asked.message))
            value = answer.value if answer.value is not None else answer.reason
            part = Part(text=value) if isinstance(value, str) else Part(data=value)
            yield ChatMessage(role="user", author="user", parts=(part,))
    yield _ending(events)


def _tool_exchange(
    event: Event, calls: Sequence[ToolCall], path: str, later: Sequence[Event]
) -> Iterator[ChatMessage]:
    """Yield the calls of a model response and their results."""
    calls = [call for call in calls if call.name != TRANSFER_TOOL_NAME]
    if not calls:
        return
    parts = tuple(part for part in event.parts if part.call is None or part.call in calls)
    yield ChatMessage(role="assistant", author=event.author, parts=parts)
    results = _results(path, event.author, later)
    for call in calls:
        seq, result = results.get(call.id) or (0, _missing_result(call, path, later))
        yield ChatMessage(role="tool", author=call.name, parts=(Part(result=result),), seq=seq)


def _missing_result(call: ToolCall, path: str, later: Sequence[Event]) -> ToolResult:
    """Return the result of a call that has none: it waited for approval, or was interrupted."""
    prefixes = (f"{path}/{call.name}#", f"{path}/{call.name}:")
    inside = [event for event in later if event.step.startswith(prefixes)]
    approved = {event.answer.request_id for event in later if event.answer is not None}
    waits = any(
        event.request is not None
        and event.request.kind is RequestKind.CONFIRMATION
        and event.request.id not in approved
        and event.request.arguments == call.arguments
        for event in inside
    )
    if not waits:
        return unknown_result(call)
    error = f"{call.name} was not started: nobody approved it"
    return ToolResult(call_id=call.id, name=call.name, content={"error": error}, is_error=True)


def _results(path: str, author: str, later: Sequence[Event]) -> dict[str, tuple[int, ToolResult]]:
    """Return the results, with their numbers, up to the next calls of the same agent."""
    found: dict[str, tuple[int, ToolResult]] = {}
    for event in later:
        if event.kind is EventKind.TOOL_CALLS and event.step.rpartition("#")[0] == path:
            break
        result = event.result
        if result is not None and event.author == author and event.step.startswith(f"{path}/"):
            found.setdefault(result.call_id, (event.seq, result))
    return found


def _ending(events: Sequence[Event]) -> ChatMessage:
    """Return the answer that the user received, or why there is none."""
    end = events[-1]
    answers = [e for e in events if e.kind is EventKind.MESSAGE and e.author != "user"]
    if end.status is not RunStatus.COMPLETED:
        code = str(end.detail.get("code", "failed"))
        text = _FAILURE_CODES.get(code) or _FAILURES.get(end.status or RunStatus.FAILED)
        text = text or f"This turn failed without an answer ({code})."
        return ChatMessage(role="assistant", author=RUNTIME_AUTHOR, parts=text_part(f"({text})"))
    last = answers[-1] if answers else end
    parts = last.parts if last.text == end.text and last.parts else text_part(end.text)
    published = [part for e in events if e.kind is EventKind.ARTIFACT for part in e.parts]
    return ChatMessage(role="assistant", author=last.author, parts=(*parts, *published))
