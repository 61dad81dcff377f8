"""FrameworkAgent: an agent of another framework as an agent of the own tree."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

import msgspec

from acc.application.agents.base import MAX_NAME_LENGTH, StandardAgent
from acc.application.agents.remote import outgoing_parts
from acc.application.runtime.context import RunContext
from acc.application.runtime.interrupts import RunPaused
from acc.domain.errors import AccError, AgentFailed, InvalidTree
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind
from acc.domain.value_objects.base import JsonData, Value
from acc.domain.value_objects.content import (
    NO_USAGE,
    Part,
    ToolCall,
    ToolResult,
    Usage,
    text_of,
    text_part,
)
from acc.domain.value_objects.event import Event, EventKind

#: Fields of the MEMORY event that ends a call of a framework.
_OUTCOME = "outcome"
_CHECKPOINT = "checkpoint"
#: The checkpoint before a turn that asked, for the case that nobody answers.
_PREVIOUS = "previous"
_FRAMEWORK = "framework"


class FrameworkRequest(Value, frozen=True, kw_only=True):
    """A question of a framework's agent; `key` is the framework's id of it."""

    key: str
    message: str
    kind: RequestKind = RequestKind.INPUT
    tool: str = ""
    arguments: Mapping[str, JsonData] = {}
    schema: Mapping[str, JsonData] = {}


class FrameworkAnswer(NamedTuple):
    """A question of a framework's agent with its answer."""

    request: FrameworkRequest
    answer: InputAnswer


class FrameworkTurn(Value, frozen=True, kw_only=True):
    """What a framework's agent gets for one call.

    `checkpoint` is what the previous call in the session returned, None in the first one. With
    `answers` the call continues one that asked. `session_id` is unique over users and apps.
    """

    message: str
    parts: tuple[Part, ...]
    session_id: str
    user_id: str
    checkpoint: Any = None
    answers: tuple[FrameworkAnswer, ...] = ()
    is_streamed: bool = False
    deps: Any = None


class FrameworkResult(Value, frozen=True, kw_only=True):
    """What a call returns: an answer, or questions; and a checkpoint for the next call."""

    answer: JsonData = ""
    checkpoint: JsonData = None
    requests: tuple[FrameworkRequest, ...] = ()


class _Outcome(Value, frozen=True, kw_only=True):
    """A result as it is recorded, without the checkpoint."""

    answer: JsonData = ""
    requests: tuple[FrameworkRequest, ...] = ()


class _Delta(NamedTuple):
    text: str


class FrameworkEvents:
    """Receives what happens inside a call; all methods may be called from any thread.

    `model_started` and `tool_started` raise BudgetExceeded if the run may not go on.
    """

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._records: asyncio.Queue[_Delta | ToolCall | ToolResult | None] = asyncio.Queue()
        self._open_calls: dict[str, ToolCall] = {}
        self._scopes: dict[str, RunContext] = {}
        self._unreported_calls = 0
        self.usage = NO_USAGE
        #: Tokens that the model got besides the message of the turn; None if nobody measured it.
        self.memory_tokens: int | None = None
        #: The error that a method raised, which a framework may have wrapped.
        self.error: AccError | None = None

    def model_started(self, earlier: Sequence[str] | None = None) -> None:
        """Check the budget before a model call; `earlier` are the texts before the message."""
        budget = self._ctx.run.budget
        try:
            budget.check_model_call(self._ctx.path)
        except AccError as error:
            self.error = error
            raise
        budget.pending_model_calls += 1
        self._unreported_calls += 1
        if earlier is not None and self.memory_tokens is None:
            count = self._ctx.services.tokens().count
            self.memory_tokens = sum(map(count, earlier))

    def model_ended(
        self, *, input_tokens: int = 0, output_tokens: int = 0, cached: int = 0
    ) -> None:
        """Count a model call, after `model_started`, with the tokens that were reported."""
        usage = Usage(
            llm_calls=1,
            input_tokens=input_tokens or 0,
            output_tokens=output_tokens or 0,
            cached_tokens=cached or 0,
            memory_tokens=self.memory_tokens or 0,
        )
        if self._unreported_calls:
            self._unreported_calls -= 1
            self._ctx.run.budget.pending_model_calls -= 1
        self._ctx.run.budget.add_usage(usage)
        self.usage = self.usage + usage

    def delta(self, text: str) -> None:
        """Show a piece of text while it is generated."""
        if text:
            self._post(_Delta(text))

    def tool_started(self, call_id: str, name: str, arguments: object) -> None:
        """Record a tool call; a call that is started again is recorded once."""
        if call_id in self._open_calls:
            return
        try:
            self._ctx.run.budget.check_tool_calls(1, self._ctx.path)
        except AccError as error:
            self.error = error
            raise
        data = _json_data(arguments)
        call = ToolCall(
            id=call_id,
            name=replace_surrogates(name),
            arguments=data if isinstance(data, dict) else {"input": data},
        )
        self._open_calls[call_id] = call
        self._post(call)

    def tool_ended(self, call_id: str, content: object, *, is_error: bool = False) -> None:
        """Record the result of a call that was started."""
        call = self._open_calls.pop(call_id, None)
        if call is None:
            return
        result = ToolResult(
            call_id=call_id, name=call.name, content=_json_data(content), is_error=is_error
        )
        self._post(result)

    def close(self) -> None:
        """End the records; calls without a result wait for input."""
        for call_id in tuple(self._open_calls):
            self.tool_ended(call_id, "no result yet: the call waits for input")
        self._post(None)

    def _post(self, record: "_Delta | ToolCall | ToolResult | None") -> None:
        try:
            is_own_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own_loop = False
        if is_own_loop:
            self._records.put_nowait(record)
        else:
            self._loop.call_soon_threadsafe(self._records.put_nowait, record)

    async def record_all(self) -> None:
        """Record as events what is reported, until `close`."""
        ctx = self._ctx
        while (record := await self._records.get()) is not None:
            if isinstance(record, _Delta):
                if ctx.run.recorder.wants_deltas:
                    await ctx.emit(EventKind.DELTA, parts=text_part(record.text))
            elif isinstance(record, ToolCall):
                await ctx.emit(EventKind.TOOL_CALLS, parts=(Part(call=record),))
                # The scope of a result is that of a tool of our own.
                self._scopes[record.id] = ctx.fork(record.name)
            else:
                scope = self._scopes.pop(record.call_id)
                ctx.run.budget.add_tool_call()
                await scope.emit(EventKind.TOOL_RESULT, parts=(Part(result=record),))

    def release(self) -> None:
        """Release the budget of model calls that never ended."""
        self._ctx.run.budget.pending_model_calls -= self._unreported_calls
        self._unreported_calls = 0


@dataclass(kw_only=True, eq=False)
class FrameworkAgent(StandardAgent[Any, Any]):
    """Base class of agents of other frameworks; a subclass defines `invoke`.

    What the framework remembers is stored with the session, so the next turn and a resumed run
    continue after a restart too. A turn that fails leaves it as it was before.
    """

    #: The name of the framework in references and records.
    framework: ClassVar[str] = ""

    def check(self) -> None:
        """Raise InvalidTree if the agent has sub-agents."""
        if self.sub_agents:
            raise InvalidTree(
                f"agent {self.name!r} is an agent of {self.framework} and has no sub-agents; put "
                "it beside them in a SequentialAgent, or make it a tool"
            )

    def isolated(self) -> "FrameworkAgent":
        """Return the agent without a store of its own, so that episodes share nothing."""
        return self

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        """Run the framework's agent and report what happens."""
        raise NotImplementedError

    async def _run(self, ctx: RunContext) -> Any:
        """Return the answer of the framework's agent; recorded calls are not repeated."""
        parts = outgoing_parts(ctx)
        answers: tuple[FrameworkAnswer, ...] = ()
        checkpoint: Any = None
        previous: Any = None
        while True:
            scope = ctx.fork(_FRAMEWORK)
            event = await _replay(ctx, scope)
            if event is None:
                if not answers:
                    checkpoint = previous = await self._stored_checkpoint(ctx)
                turn = FrameworkTurn(
                    message=text_of(parts),
                    parts=parts,
                    session_id=_session_id(ctx),
                    user_id=ctx.user_id,
                    checkpoint=checkpoint,
                    answers=answers,
                    is_streamed=ctx.run.recorder.wants_deltas,
                    deps=ctx.run.deps,
                )
                event = await self._call(ctx, scope, turn, previous)
            outcome = msgspec.convert(event.detail[_OUTCOME], _Outcome)
            checkpoint, previous = event.detail[_CHECKPOINT], event.detail.get(_PREVIOUS)
            if not outcome.requests:
                return outcome.answer
            answers = await _request_inputs(ctx, outcome.requests)

    async def _call(
        self, ctx: RunContext, scope: RunContext, turn: FrameworkTurn, previous: Any
    ) -> Event:
        """Run the framework's agent, and record its events and its result."""
        events = FrameworkEvents(scope)
        result: FrameworkResult | None = None
        failure: BaseException | None = None

        async def invoke() -> None:
            nonlocal result, failure
            try:
                result = await self.invoke(turn, events)
            except Exception as error:  # noqa: BLE001 - code of others; raised below
                failure = events.error or error
            finally:
                events.close()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(invoke())
            try:
                await events.record_all()
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group
                failure = error
                task.cancel()
        events.release()
        if failure is not None:
            raise failure
        assert result is not None  # noqa: S101 - without a failure there is a result
        return await self._record(ctx, result, events, previous)

    async def _record(
        self, ctx: RunContext, result: FrameworkResult, events: FrameworkEvents, previous: Any
    ) -> Event:
        limit = ctx.config.max_answer_characters
        answer = result.answer
        if isinstance(answer, str):
            answer = replace_surrogates(answer)
            if len(answer) > limit:
                raise AgentFailed(self.name, f"the answer exceeds {limit} characters")
        outcome = _Outcome(answer=_json_data(answer), requests=result.requests)
        detail: dict[str, Any] = {
            _FRAMEWORK: self.framework,
            _OUTCOME: msgspec.to_builtins(outcome),
            _CHECKPOINT: result.checkpoint,
        }
        if result.requests:
            detail[_PREVIOUS] = previous
        if events.memory_tokens is not None:
            detail["tokens"] = events.memory_tokens
        usage = events.usage if events.usage.llm_calls else None
        return await ctx.emit(EventKind.MEMORY, usage=usage, detail=detail)

    async def _stored_checkpoint(self, ctx: RunContext) -> Any:
        key = ctx.run.request.key
        newest = await ctx.services.sessions.newest(key, kind=EventKind.MEMORY, author=self.name)
        if newest is None or newest.detail.get(_FRAMEWORK) != self.framework:
            return None
        is_paused = bool(newest.detail[_OUTCOME].get("requests"))
        return newest.detail[_PREVIOUS if is_paused else _CHECKPOINT]


async def _replay(ctx: RunContext, scope: RunContext) -> Event | None:
    """Return the recorded end of a call after replaying its events; None if it has to be made.

    A call that was interrupted is not made again if it had started tools.
    """
    if ctx.next_recorded() is not None:
        await scope.skip_recorded()
        event = await ctx.emit(EventKind.MEMORY)
        ctx.run.budget.count_recorded(event)
        return event
    if scope.recorded():
        raise AgentFailed(
            ctx.agent.name,
            "the run was interrupted after tools of the agent were started; their outcome is "
            "unknown, so they are not started again. Send the message again to start anew",
        )
    return None


async def _request_inputs(
    ctx: RunContext, requests: Sequence[FrameworkRequest]
) -> tuple[FrameworkAnswer, ...]:
    """Return the answers to all requests; pause the run until they exist."""
    answers: list[FrameworkAnswer] = []
    pending: list[InputRequest] = []
    for request in requests:
        try:
            answer = await ctx.fork("asked").request_input(
                request.message,
                kind=request.kind,
                tool=request.tool,
                arguments=request.arguments,
                schema=request.schema,
            )
        except RunPaused as pause:
            pending += pause.requests
        else:
            answers.append(FrameworkAnswer(request, answer))
    if pending:
        raise RunPaused(pending)
    return tuple(answers)


def agent_name(given: object, default: str) -> str:
    """Return a name that is valid for an agent of acc, similar to a given one."""
    name = re.sub(r"\W+", "_", str(given or "")).strip("_")[:MAX_NAME_LENGTH]
    return name if name.isidentifier() and name != "user" else default


def _session_id(ctx: RunContext) -> str:
    """Return an id that no other session, user or agent has; it does not contain their names."""
    return sha256("\n".join((*ctx.run.request.key, ctx.agent.name)).encode()).hexdigest()[:32]


def _json_data(value: object) -> Any:
    """Return a value as JSON data; what JSON does not know becomes text."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return replace_surrogates(str(value))


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)
