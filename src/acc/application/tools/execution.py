"""Carrying out the tool calls of one answer: checked, allowed, confirmed, bounded, on record."""

import asyncio
import logging
import math
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from acc.application.agents.base import Callback, called
from acc.application.runtime.context import RunContext
from acc.application.runtime.inputs import INVALID_ARGUMENTS
from acc.application.runtime.interrupts import (
    RUN_LEVEL_ERRORS,
    RunPaused,
    RunRejected,
    is_control_flow,
)
from acc.application.runtime.state import to_json_data
from acc.application.tools.tool import Tool, ToolContext, as_shown, model_as_data
from acc.domain.errors import StateNotStorable
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventActions, EventKind

log = logging.getLogger("acc.run")
_MOST_FAULT = 2_000


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How one call ended. `at_fault` means the model asked for something that cannot be.

    `ran` tells whether the tool was called at all, and so counts.
    """

    result: ToolResult
    escalate: bool = False
    at_fault: bool = False
    ran: bool = False


class _Batch:
    """Collects how calls end that run at the same time; a pause waits for the others."""

    def __init__(self) -> None:
        self._found: dict[int, Outcome] = {}
        self._requests: list[InputRequest] = []
        self._rejected: list[RunRejected] = []

    async def one(self, place: int, work: Coroutine[Any, Any, Outcome]) -> None:
        try:
            self._found[place] = await work
        except RunPaused as pause:
            self._requests += pause.requests
        except RunRejected as rejection:
            self._rejected.append(rejection)

    def outcomes(self) -> list[Outcome]:
        if self._rejected:
            raise self._rejected[0]
        if self._requests:
            raise RunPaused(self._requests)
        return [self._found[place] for place in sorted(self._found)]


class ToolCalls:
    """Carries out the calls of one agent's model; `offered` is what it could have called."""

    def __init__(
        self,
        ctx: RunContext,
        tools: Mapping[str, Tool],
        *,
        offered: Collection[str],
        before: Callback | None,
        after: Callback | None,
    ) -> None:
        self._ctx = ctx
        self._tools = tools
        self._offered = offered
        self._before = before
        self._after = after
        self._again = False

    async def run(self, calls: Sequence[ToolCall], *, again: bool) -> list[Outcome]:
        """Return the outcomes in the order of the calls, which run at the same time.

        Where one of them waits for a person, the others are finished first. `again` tells that the
        calls are on record already, and so may have been begun; those that ended come first, in the
        order in which they did, so that a further one finds all that they wrote.
        """
        self._again = again
        # A name that the model made up must not pass for the step of another call.
        names = [call.name if self._is_known(call.name) else "tool" for call in calls]
        scopes = [self._ctx.fork(name) for name in names]
        if len(calls) == 1:
            return [await self._call(scopes[0], calls[0])]
        if not any(scope.next_recorded() for scope in scopes):  # else they were let through before
            known = sum(call.name in self._tools for call in calls)
            self._ctx.run.budget.check_tool_calls(known, self._ctx.path)
        batch = _Batch()
        ended = _ended(scopes) if again else []
        for place in ended:
            await batch.one(place, self._call(scopes[place], calls[place]))
        left = [place for place in range(len(calls)) if place not in ended]
        together = [place for place in left if self._may_run_beside(calls[place])]
        try:
            async with asyncio.TaskGroup() as group:
                for place in together:
                    group.create_task(batch.one(place, self._call(scopes[place], calls[place])))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        for place in left:
            if place not in together:
                await batch.one(place, self._call(scopes[place], calls[place]))
        return batch.outcomes()

    def _is_known(self, name: str) -> bool:
        """Tell whether there is such a tool, or was when calls that are on record were made."""
        return name in self._tools or (self._again and _was_called(self._ctx, name))

    def _may_run_beside(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.parallel

    async def _call(self, scope: RunContext, call: ToolCall) -> Outcome:
        tool = self._tools.get(call.name)
        recorded = scope.recorded()
        result = recorded[-1].result if recorded else None
        if result is not None and (tool is None or not tool.replayable or result.is_error):
            inner = tool is None or tool.replayable
            return await _replayed(scope, recorded, result, inner=inner)
        fault = self._fault(call, tool)
        if tool is None or fault:
            return await self._give_up(scope, call, fault, at_fault=True)
        try:
            arguments = tool.checked(call.arguments)
        except INVALID_ARGUMENTS as error:
            said = f"wrong arguments for {tool.name}: {error}"
            return await self._give_up(scope, call, said, at_fault=True)
        if tool.requires and not scope.call.allows(tool.requires):
            said = f"{tool.name} needs the permission {tool.requires!r}, which this call lacks"
            return await self._give_up(scope, call, said)
        return await self._close(scope, await self._carry_out(scope, call, tool, arguments))

    async def _give_up(
        self, scope: RunContext, call: ToolCall, said: str, *, at_fault: bool = False
    ) -> Outcome:
        """Close a call that cannot be made, or no longer: its person is heard out all the same.

        What was started when it could be is over once its outcome is handed in.
        """
        recorded = scope.recorded()
        outcome = Outcome(result=_error(call, said), at_fault=at_fault and not recorded)
        for event in recorded:
            await scope.emit(event.kind)
            if "begun" in event.detail:
                outcome = Outcome(result=_error(call, _unknown(call.name, "was")), ran=True)
            if (request := event.request) is None:
                continue
            if (answer := scope.run.journal.answers.get(request.id)) is None:
                raise RunPaused([request])
            if request.kind is RequestKind.OUTCOME:
                outcome = Outcome(result=_reported(call, answer), ran=True)
        if outcome.ran:
            scope.run.budget.add_tool_call()
        if self._again:
            scope.skip_recorded_children()
        return await self._close(scope, outcome)

    def _fault(self, call: ToolCall, tool: Tool | None) -> str:
        if tool is None:
            known = ", ".join(sorted(self._offered)) or "none"
            return f"there is no tool {call.name!r}; the tools are: {known}"
        return f"the arguments of {call.name} could not be read: {call.fault}" if call.fault else ""

    async def _carry_out(
        self, scope: RunContext, call: ToolCall, tool: Tool, arguments: dict[str, Any]
    ) -> Outcome:
        if self._before is not None and scope.next_recorded() is None:
            found = await called(self._before, tool, arguments, scope)
            if found is not None:
                return Outcome(result=_plain_result(call, found))
        again = self._again
        answer: InputAnswer | None = None
        question = await self._question(scope, tool, arguments)
        if question:
            answer, approved = await self._approved(scope, tool, arguments, question)
            if approved is None:
                return Outcome(result=_refused(call, answer))
            again = answer.request_id not in scope.run.journal.new_answers
            arguments = approved
        if scope.next_recorded() is None:
            scope.run.budget.check_tool_calls(1, scope.path)
            scope.run.budget.add_tool_call()
        else:
            scope.run.budget.add_tool_call()
        if again and not tool.replayable and (begun := await _begun(scope, answer)):
            return Outcome(result=_error(call, _unknown(tool.name, begun)), ran=True)
        if answer is not None and not tool.replayable and scope.next_recorded() is None:
            await scope.emit(EventKind.STATE, detail={"begun": tool.name})
        return await self._invoke(scope, call, tool, arguments)

    async def _question(self, scope: RunContext, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """Return what a person is to be asked first, or nothing."""
        recorded = scope.next_recorded()
        if recorded is not None:
            request = recorded.request
            asked = request is not None and request.kind is RequestKind.CONFIRMATION
            return request.message if request is not None and asked else ""
        return await _confirmation(tool, arguments)

    async def _approved(
        self, scope: RunContext, tool: Tool, arguments: Mapping[str, Any], question: str
    ) -> tuple[InputAnswer, dict[str, Any] | None]:
        """Return a person's answer and what is to run, None after a no.

        Who edits the arguments so that the tool cannot take them is told why and asked again, as
        is who was shown what it took before the program changed.
        """
        wrong = ""
        shown = as_shown(tool, arguments)
        while True:
            request, answer = await self._ask(scope, tool, shown, wrong + question)
            if answer.verdict is not ApprovalDecision.APPROVE:
                return answer, None
            edited = answer.arguments
            if edited is None and request.arguments == shown:
                return answer, dict(arguments)
            try:
                return answer, tool.checked(request.arguments if edited is None else edited)
            except INVALID_ARGUMENTS as error:
                which = "arguments that were shown" if edited is None else "edited arguments"
                wrong = f"The {which} for {tool.name} are wrong: {error}.\n"[:_MOST_FAULT]

    async def _ask(
        self, scope: RunContext, tool: Tool, shown: Mapping[str, Any], question: str
    ) -> tuple[InputRequest, InputAnswer]:
        """Return what a person was shown and the answer; what was shown is what will run."""
        return await scope.ask(
            question,
            kind=RequestKind.CONFIRMATION,
            tool=tool.name,
            arguments=shown,
            schema=tool.spec.parameters,
            expires_after=tool.confirm_expires,
        )

    async def _invoke(
        self, scope: RunContext, call: ToolCall, tool: Tool, arguments: Mapping[str, Any]
    ) -> Outcome:
        tool_context = ToolContext(scope, call.id)
        if log.isEnabledFor(logging.INFO):
            log.info("tool called", extra=_told(scope, tool))
        request = await _started(scope)
        if request is not None:
            result = _plain_result(call, request.arguments.get("ticket"))
        else:
            result = await _guarded(scope, call, tool, arguments, tool_context)
        if (tool.long_running or request is not None) and not result.is_error:
            result = await self._outcome(scope, call, tool, result)
        if self._after is not None:
            found = await called(self._after, tool, arguments, scope, result)
            if found is not None:
                result = _plain_result(call, found)
        return Outcome(result=result, escalate=tool_context.actions.escalate, ran=True)

    async def _outcome(
        self, scope: RunContext, call: ToolCall, tool: Tool, ticket: ToolResult
    ) -> ToolResult:
        """Wait for someone outside to report how a long-running tool ended."""
        answer = await scope.request_input(
            f"{tool.name} has been started; hand in its outcome when it is done.",
            kind=RequestKind.OUTCOME,
            tool=tool.name,
            arguments={"ticket": ticket.content},
        )
        return _reported(call, answer)

    async def _close(self, scope: RunContext, outcome: Outcome) -> Outcome:
        await scope.emit(
            EventKind.TOOL_RESULT,
            parts=(Part(result=outcome.result),),
            actions=EventActions(escalate=True) if outcome.escalate else NO_ACTIONS,
            detail=None if outcome.ran else {"ran": False, "at_fault": outcome.at_fault},
        )
        return outcome


def _ended(scopes: Sequence[RunContext]) -> list[int]:
    """Return which calls have a result on record, in the order in which they ended."""
    last = {place: scope.recorded()[-1:] for place, scope in enumerate(scopes)}
    ended = {place: e.seq for place, events in last.items() for e in events if e.result is not None}
    return sorted(ended, key=ended.__getitem__)


async def _replayed(
    scope: RunContext, recorded: Sequence[Event], result: ToolResult, *, inner: bool
) -> Outcome:
    """Return how a call ended in an earlier process, without calling again."""
    last = recorded[-1]
    ran = bool(last.detail.get("ran", True))
    if ran:
        scope.run.budget.add_tool_call()
    for event in recorded:
        if event is last and inner:
            scope.skip_recorded_children()
        await scope.emit(event.kind)
    return Outcome(
        result=result,
        escalate=last.actions.escalate,
        at_fault=bool(last.detail.get("at_fault")),
        ran=ran,
    )


async def _begun(scope: RunContext, answer: InputAnswer | None) -> str:
    """Tell how sure it is that a process that died has called the tool already: never twice."""
    recorded = scope.recorded()
    if not recorded:
        # A call that a person allowed records its start, so it has not begun.
        return "may have been" if answer is None else ""
    if recorded[-1].request is not None:
        return ""
    for event in recorded:
        await scope.emit(event.kind)
    return "was"


async def _started(scope: RunContext) -> InputRequest | None:
    """Return the request for the outcome of a long-running tool that was started earlier."""
    recorded = scope.recorded()
    request = recorded[-1].request if recorded else None
    if request is None or request.kind is not RequestKind.OUTCOME:
        return None
    for event in recorded[:-1]:
        await scope.emit(event.kind)
    return request


def _was_called(ctx: RunContext, name: str) -> bool:
    """Tell whether it is on record that an agent called a tool of that name, and had it."""
    places = (f"{ctx.path}/{name}#", f"{ctx.path}/{name}:")
    return any(
        event.step.startswith(places)
        for event in ctx.run.journal.steps.values()
        if (event.result is not None and event.result.name == name)
        or (event.request is not None and event.request.tool == name)
    )


async def _confirmation(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the words to ask a person with; a predicate may give them, or just say yes."""
    needed = tool.confirm
    if callable(needed):
        try:
            needed = await called(needed, arguments)
        except Exception:
            # A predicate that cannot decide must not wave a payment through.
            log.exception("the confirmation predicate of %s failed; a person is asked", tool.name)
            needed = True
    if isinstance(needed, str):
        return needed
    return f"May {tool.name} be called?" if needed else ""


def _told(scope: RunContext, tool: Tool) -> dict[str, str]:
    """Return what a log line tells of a call: where and whose it is, never its content."""
    return {
        "trace_id": scope.call.trace_id,
        "request_id": scope.call.request_id,
        "run_id": scope.run_id,
        "caller": scope.call.caller,
        "agent": scope.agent.name,
        "path": scope.path,
        "branch": scope.branch,
        "tool": tool.name,
    }


async def _guarded(
    scope: RunContext,
    call: ToolCall,
    tool: Tool,
    arguments: Mapping[str, Any],
    tool_context: ToolContext,
) -> ToolResult:
    """Call the tool; whatever goes wrong in it is told to the model."""
    limit = tool.timeout if tool.timeout is not None else scope.config.tool_timeout
    try:
        async with asyncio.timeout(None if limit == math.inf else limit) as bound:
            found = await tool.invoke(scope, tool_context, arguments)
        # The tool swallowed its cancellation, after which Python 3.11 traces no line of this frame.
        if bound.expired():  # pragma: no cover
            return _error(call, _too_slow(tool, limit))
        await tool_context.settle()
    except RUN_LEVEL_ERRORS:
        raise
    except BaseException as error:
        if is_control_flow(error):
            raise
        log.info("tool failed", exc_info=True, extra=_told(scope, tool))
        if isinstance(error, TimeoutError) and bound.expired():
            return _error(call, _too_slow(tool, limit))
        return _error(call, f"{tool.name} failed: {type(error).__name__}: {error}")
    finally:
        tool_context.close()
    return _plain_result(call, found)


def _unknown(name: str, begun: str) -> str:
    return f"{name}: it {begun} begun earlier, and how it ended is not known"


def _too_slow(tool: Tool, limit: float | None) -> str:
    return f"{tool.name} did not finish within {limit:g} seconds"


def _reported(call: ToolCall, answer: InputAnswer) -> ToolResult:
    """Return the outcome that was handed in for what a long-running tool has started."""
    if answer.verdict is not ApprovalDecision.APPROVE:
        return _refused(call, answer)
    return _plain_result(call, answer.value)


def _plain_result(call: ToolCall, content: Any) -> ToolResult:
    """Return a result as plain data; what is none is told as an error."""
    try:
        if not isinstance(content, str | int | bool | None):
            content = msgspec.to_builtins(content, enc_hook=model_as_data)
        content = to_json_data(content, call.name)
        msgspec.json.encode(content)  # half a character, say, has no place in a record
    except (TypeError, ValueError, StateNotStorable, RecursionError) as error:
        return _error(call, f"{call.name} returned something that cannot be kept: {error}")
    return ToolResult(call_id=call.id, name=call.name, content=content)


def _error(call: ToolCall, text: str) -> ToolResult:
    content = {"error": replace_surrogates(text[:_MOST_FAULT])}
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=True)


def _refused(call: ToolCall, answer: InputAnswer) -> ToolResult:
    status = "expired" if answer.verdict is ApprovalDecision.EXPIRED else "denied"
    content = {"status": status, "reason": answer.reason or f"a person has {status} this call"}
    if status == "expired":
        content["reason"] = answer.reason or "nobody approved it in time"
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=True)
