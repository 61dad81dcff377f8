"""Translate the events of a run to events of AG-UI."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
    UserMessage,
)

from acc.adapters.ag_ui.requests import CONFIRMATION_SCHEMA, AgUiRequest
from acc.domain.value_objects.approval import InputRequest, RequestKind
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus

_PROTOCOL_VERSION = "1.0"
_USER = "user"
#: Keys of the app, which all users share, and of the runtime; they are not sent to a page.
_PRIVATE_PREFIXES = ("_", "app:")
_REASONS = {RequestKind.CONFIRMATION: "confirmation", RequestKind.INPUT: "input_required"}


class AgUiProjection:
    """Translates the events of one run and tracks which messages are open.

    `readable` returns what of a state the caller may read.
    """

    def __init__(
        self,
        request: AgUiRequest,
        state: Mapping[str, Any],
        readable: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        self._request = request
        self._readable = readable
        self._state = _visible(readable(state))
        self._messages = 0
        #: Ids of streamed messages that have not ended, by agent and branch.
        self._open: dict[tuple[str, str], str] = {}
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._requests: list[InputRequest] = []
        self._end: Event | None = None

    def begin(
        self, history: Sequence[Event], pending: Sequence[InputRequest]
    ) -> Iterator[BaseEvent]:
        """Yield the start of a run; the history is sent to clients that do not have it."""
        request = self._request
        for event in history:
            self._note_calls(event)
        self._requests = list(pending)
        yield RunStartedEvent(
            thread_id=request.thread_id, run_id=request.run_id, protocol_version=_PROTOCOL_VERSION
        )
        if history and request.is_first_message:
            messages = list(_messages(history))
            if request.message:  # a snapshot without it would remove it from the page
                text = "".join(part.text or "" for part in request.message)
                messages.append(UserMessage(id=request.message_id, content=text))
            yield MessagesSnapshotEvent(messages=messages)
        yield StateSnapshotEvent(snapshot=dict(self._state))

    def apply(self, event: Event) -> Iterator[BaseEvent]:
        """Yield the AG-UI events for one event of the run."""
        match event.kind:
            case EventKind.DELTA:
                yield from self._delta(event)
            case EventKind.MESSAGE if event.author != _USER:
                yield from self._message(event)
            case EventKind.TOOL_CALLS:
                yield from self._message(event)
                yield from self._tool_calls(event)
            case EventKind.TOOL_RESULT:
                yield from self._tool_result(event)
            case EventKind.FAULT:
                yield from self._close(event)
            case EventKind.INPUT_REQUIRED | EventKind.INPUT:
                self._note_request(event)
            case EventKind.PROGRESS:
                yield CustomEvent(name="acc.progress", value=event.text)
            case EventKind.ARTIFACT:
                yield CustomEvent(name="acc.artifact", value=dict(event.detail))
            case EventKind.ENDED:
                self._end = event
        yield from self._state_delta(event)

    def finish(self) -> Iterator[BaseEvent]:
        """Yield the end of the run."""
        yield from self._close_all()
        status = RunStatus.COMPLETED if self._end is None else self._end.status
        if status is RunStatus.REJECTED:
            text = "" if self._end is None else self._end.text
            yield RunErrorEvent(message=text or "the run was rejected", code="rejected")
            return
        outcome: Any = RunFinishedSuccessOutcome()
        if self._requests:
            outcome = RunFinishedInterruptOutcome(
                interrupts=[self._interrupt(request) for request in self._requests]
            )
        elif status is RunStatus.CANCELED:
            outcome = RunFinishedCancelledOutcome()
        usage = None if self._end is None else self._end.usage
        yield RunFinishedEvent(
            thread_id=self._request.thread_id,
            run_id=self._request.run_id,
            outcome=outcome,
            usage=None
            if usage is None
            else [TokenUsage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)],
        )

    def fail(self, message: str, code: str) -> Iterator[BaseEvent]:
        """Yield the end of a run that failed."""
        yield from self._close_all()
        yield RunErrorEvent(message=message, code=code)

    # Messages and tools

    def _new_id(self) -> str:
        self._messages += 1
        return f"{self._request.run_id}-{self._messages}"

    def _delta(self, event: Event) -> Iterator[BaseEvent]:
        if not event.text:
            return
        key = (event.author, event.branch)
        if key not in self._open:
            self._open[key] = self._new_id()
            yield TextMessageStartEvent(
                message_id=self._open[key], role="assistant", name=event.author
            )
        yield TextMessageContentEvent(message_id=self._open[key], delta=event.text)

    def _message(self, event: Event) -> Iterator[BaseEvent]:
        """Yield the end of a streamed message, or the whole message if it was not streamed."""
        if (event.author, event.branch) not in self._open:
            yield from self._delta(event)
        yield from self._close(event)

    def _close(self, event: Event) -> Iterator[BaseEvent]:
        message_id = self._open.pop((event.author, event.branch), None)
        if message_id is not None:
            yield TextMessageEndEvent(message_id=message_id)

    def _close_all(self) -> Iterator[BaseEvent]:
        for message_id in self._open.values():
            yield TextMessageEndEvent(message_id=message_id)
        self._open.clear()

    def _note_calls(self, event: Event) -> None:
        for call in event.calls:
            self._calls[call.id] = (call.name, call.arguments)
        if event.result is not None:
            self._calls.pop(event.result.call_id, None)

    def _tool_calls(self, event: Event) -> Iterator[BaseEvent]:
        self._note_calls(event)
        for call in event.calls:
            yield ToolCallStartEvent(tool_call_id=call.id, tool_call_name=call.name)
            yield ToolCallArgsEvent(tool_call_id=call.id, delta=_json(call.arguments))
            yield ToolCallEndEvent(tool_call_id=call.id)

    def _tool_result(self, event: Event) -> Iterator[BaseEvent]:
        self._note_calls(event)
        result = event.result
        if result is not None:
            yield ToolCallResultEvent(
                message_id=self._new_id(),
                tool_call_id=result.call_id,
                content=_text(result.content),
                role="tool",
            )

    # State and interrupts

    def _state_delta(self, event: Event) -> Iterator[BaseEvent]:
        changed = _visible(self._readable(event.actions.state_delta))
        removed = [name for name in event.actions.state_removed if name in self._state]
        patch: list[Any] = [
            {"op": "add", "path": _pointer(name), "value": value} for name, value in changed.items()
        ]
        patch += [{"op": "remove", "path": _pointer(name)} for name in removed]
        self._state.update(changed)
        for name in removed:
            del self._state[name]
        if patch:
            yield StateDeltaEvent(delta=patch)

    def _note_request(self, event: Event) -> None:
        answered = "" if event.answer is None else event.answer.request_id
        self._requests = [request for request in self._requests if request.id != answered]
        if event.request is not None:
            self._requests.append(event.request)

    def _interrupt(self, request: InputRequest) -> Interrupt:
        call_id = next(
            (
                call_id
                for call_id, (name, arguments) in self._calls.items()
                if name == request.tool and dict(arguments) == dict(request.arguments)
            ),
            None,
        )
        is_confirmation = request.kind is RequestKind.CONFIRMATION
        reason = _REASONS.get(request.kind, f"acc:{request.kind.value}")
        schema = CONFIRMATION_SCHEMA if is_confirmation else dict(request.schema)
        expires = None
        if request.expires_at is not None:
            expires = datetime.fromtimestamp(request.expires_at, UTC).isoformat()
        metadata: dict[str, Any] = {"agent": request.agent}
        if request.tool:
            metadata |= {"tool": request.tool, "arguments": dict(request.arguments)}
        return Interrupt(
            id=request.id,
            reason="tool_call" if is_confirmation and request.tool else reason,
            message=request.message,
            tool_call_id=call_id,
            response_schema=schema or None,
            expires_at=expires,
            metadata=metadata,
        )


def _messages(history: Sequence[Event]) -> Iterator[Message]:
    """Yield the messages of a conversation."""
    for event in history:
        message_id = f"{event.run_id}-{event.seq}"
        if event.kind is EventKind.MESSAGE and event.author == _USER:
            yield UserMessage(id=message_id, content=event.text)
        elif event.kind in (EventKind.MESSAGE, EventKind.TOOL_CALLS):
            calls = [
                ToolCall(
                    id=call.id,
                    function=FunctionCall(name=call.name, arguments=_json(call.arguments)),
                )
                for call in event.calls
            ]
            yield AssistantMessage(
                id=message_id,
                name=event.author,
                content=event.text or None,
                tool_calls=calls or None,
            )
        elif event.result is not None:
            yield ToolMessage(
                id=message_id,
                tool_call_id=event.result.call_id,
                content=_text(event.result.content),
            )


def _visible(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if not name.startswith(_PRIVATE_PREFIXES)}


def _pointer(name: str) -> str:
    """Return the JSON pointer of a key."""
    return f"/{name.replace('~', '~0').replace('/', '~1')}"


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)
