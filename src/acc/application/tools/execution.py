"""Execution of the tool calls of one model response: validate, confirm, invoke, record."""

import asyncio
import logging
import math
import traceback
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acc.application.agents.callbacks import callbacks_of, first_result, maybe_await
from acc.application.memory.messages import unknown_outcome, unknown_result
from acc.application.runtime.context import RunContext
from acc.application.runtime.inputs import INVALID_ARGUMENTS
from acc.application.runtime.interrupts import (
    RUN_LEVEL_ERRORS,
    RunPaused,
    RunRejected,
    is_control_flow,
    paused_in_group,
)
from acc.application.tools.flow_guard import FlowGuard
from acc.application.tools.function_tool import display_arguments
from acc.application.tools.results import (
    MAX_ERROR_LENGTH,
    denied_result,
    error_result,
    is_stubbed,
    make_result,
    reported_result,
    stub_of,
    with_edit,
)
from acc.application.tools.tool import BaseTool, ToolContext
from acc.application.tracing.spans import count_invalid_call, span_id_of, trace_tool
from acc.domain.call_options import check_awaitable
from acc.domain.errors import AccError, BudgetExceeded, ModelRetry, ToolFailed
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import (
    ApprovalDecision,
    InputAnswer,
    InputRequest,
    RequestKind,
)
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, text_part
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventActions, EventKind
from acc.domain.value_objects.run import RunConfig

log = logging.getLogger("acc.run")


@dataclass(slots=True, kw_only=True)
class ToolOutcome:
    """The outcome of one call.

    `invalid_call`: the model called an unknown tool or passed invalid arguments. `executed`: the
    tool was invoked, and the call counts against the budget. `seq` is that of the recorded result.
    """

    result: ToolResult
    seq: int = 0
    escalate: bool = False
    invalid_call: bool = False
    executed: bool = False
    is_stub: bool = False

    @property
    def error(self) -> str:
        """Return the error of the tool, or an empty string; a denied call is not an error."""
        content = self.result.content
        is_error = self.result.is_error and isinstance(content, Mapping)
        return str(content.get("error", "")) if is_error else ""


class ToolRetries:
    """Counts for each tool of an agent how often it failed in a row, and enforces the bound.

    Calls of one model response count once, because the model could not react between them.
    """

    def __init__(self, config: RunConfig) -> None:
        self._default = config.max_tool_retries
        self._failures: dict[str, int] = {}

    def __getitem__(self, tool: str) -> int:
        return self._failures.get(tool, 0)

    def count(self, tools: Mapping[str, BaseTool], outcomes: Sequence[ToolOutcome]) -> None:
        """Count the outcomes of one response; ToolFailed if a tool failed too often."""
        errors: dict[str, str] = {}
        for outcome in outcomes:
            if error := outcome.error:
                errors.setdefault(outcome.result.name, error)
        for outcome in outcomes:
            if not outcome.error:
                errors.pop(outcome.result.name, None)
                self._failures.pop(outcome.result.name, None)
        for name, error in errors.items():
            failures = self._failures[name] = self[name] + 1
            retries = tools[name].retries if name in tools else None
            if failures > (self._default if retries is None else retries):
                raise ToolFailed(name, error, failures)


@dataclass(slots=True)
class _ReadyCall:
    """A tool with validated arguments, and the approval, if one was required."""

    tool: BaseTool
    arguments: dict[str, Any]
    approval: InputAnswer | None = None


class ToolExecutor:
    """Executes the tool calls of one model response.

    `available_names` are the tools that the model could have called. `is_replay` means that the
    calls were recorded before the run was resumed, so that they may have been started.
    """

    def __init__(
        self,
        ctx: RunContext,
        tools: Mapping[str, BaseTool],
        *,
        available_names: Collection[str],
        retries: ToolRetries,
        is_replay: bool,
        guard: FlowGuard | None = None,
    ) -> None:
        self._ctx = ctx
        self._tools = tools
        self._available_names = available_names
        self._retries = retries
        self._is_replay = is_replay
        self._guard = guard

    async def run(self, calls: Sequence[ToolCall]) -> list[ToolOutcome]:
        """Execute the calls concurrently and return the outcomes in the order of the calls.

        If a call waits for a person, the other calls are completed first. In a replay, completed
        calls come first, in the order of completion, so that other calls find what they wrote.
        """
        # An unknown name must not be used in a path: it could be that of another call.
        names = [call.name if self._is_known(call.name) else "tool" for call in calls]
        scopes = [self._ctx.fork(name) for name in names]
        if len(calls) == 1:
            return [await self._execute(scopes[0], calls[0])]
        if not any(scope.next_recorded() for scope in scopes):  # recorded calls passed this check
            known = sum(call.name in self._tools for call in calls)
            await self._check_budget(known, *zip(scopes, calls, strict=True))
        batch = _Batch()
        completed = _completed_indexes(scopes) if self._is_replay else []
        remaining = [index for index in range(len(calls)) if index not in completed]
        concurrent = [index for index in remaining if self._may_run_concurrently(calls[index])]
        for index in completed:
            await batch.collect(index, self._execute(scopes[index], calls[index]))
        try:
            async with asyncio.TaskGroup() as group:
                for index in concurrent:
                    work = self._execute(scopes[index], calls[index])
                    group.create_task(batch.collect(index, work))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        for index in remaining:
            if index not in concurrent:
                await batch.collect(index, self._execute(scopes[index], calls[index]))
        return batch.outcomes()

    async def _check_budget(self, count: int, *calls: tuple[RunContext, ToolCall]) -> None:
        """Raise BudgetExceeded if the calls are too many; later turns see that none was started."""
        try:
            self._ctx.run.budget.check_tool_calls(count, self._ctx.path)
        except BudgetExceeded as error:
            for scope, call in calls:
                result = error_result(call, f"{call.name} was not started: {error}")
                await self._record(scope, ToolOutcome(result=result))
            raise

    def _is_known(self, name: str) -> bool:
        """Return True if the tool exists, or existed when recorded calls were made."""
        return name in self._tools or (self._is_replay and _has_recorded_call(self._ctx, name))

    def _may_run_concurrently(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or tool.parallel

    async def _execute(self, scope: RunContext, call: ToolCall) -> ToolOutcome:
        tool = self._tools.get(call.name)
        recorded = scope.recorded()
        result = recorded[-1].result if recorded else None
        if result is not None and (tool is None or not tool.replayable or result.is_error):
            return await _replay_result(scope, recorded, result, tool)
        validated = self._validate(scope, call, tool)
        if isinstance(validated, ToolOutcome):
            return await self._abandon(scope, call, validated)
        # A stub needs no confirmation, but the policy decides about it as about the tool.
        stubbed = is_stubbed(scope, validated.tool) and not (recorded and self._guard is None)
        confirmed: _ReadyCall | ToolOutcome = validated
        if not stubbed or self._guard is not None:
            first = recorded[0] if recorded else None
            confirmed = await self._confirm(scope, call, validated, first, stubbed=stubbed)
        if isinstance(confirmed, ToolOutcome):
            return await self._record(scope, confirmed)
        if self._guard is not None and confirmed.approval is not None:
            self._guard.approve(confirmed.tool, confirmed.arguments)
        if stubbed:
            content = await stub_of(scope, confirmed.tool, confirmed.arguments)
            outcome = ToolOutcome(result=make_result(call, content), is_stub=True)
            return await self._record(scope, outcome)
        return await self._record(scope, await self._invoke(scope, call, confirmed))

    def _validate(
        self, scope: RunContext, call: ToolCall, tool: BaseTool | None
    ) -> _ReadyCall | ToolOutcome:
        """Return the converted arguments, or an error outcome if the call is not possible."""
        if tool is None:
            names = ", ".join(sorted(self._available_names)) or "none"
            error = f"tool {call.name!r} does not exist; available tools: {names}"
        elif call.fault:
            error = f"the arguments of {call.name} could not be decoded: {call.fault}"
        else:
            try:
                arguments = _validated(scope, tool, call.arguments)
            except INVALID_ARGUMENTS as problem:
                error = f"invalid arguments for {tool.name}: {problem}"
            else:
                if not tool.requires or scope.call.allows(tool.requires):
                    return _ReadyCall(tool, arguments)
                error = f"{tool.name} requires the permission {tool.requires!r}; the call lacks it"
                return ToolOutcome(result=error_result(call, error))
        return ToolOutcome(result=error_result(call, error), invalid_call=True)

    async def _confirm(
        self,
        scope: RunContext,
        call: ToolCall,
        ready: _ReadyCall,
        recorded: Event | None,
        *,
        stubbed: bool,
    ) -> _ReadyCall | ToolOutcome:
        """Call the before callback, then request approval if the policy or the tool requires it.

        Return an outcome if the callback provides the result or the call is denied. A person is
        asked again with the error if the entered, or no longer the displayed, arguments are valid.
        """
        tool, arguments = ready.tool, ready.arguments
        if recorded is None:
            before = () if stubbed else callbacks_of(scope, "before_tool_callback")
            if before:
                content = await first_result(before, tool, arguments, scope)
                if content is not None:
                    return ToolOutcome(result=make_result(call, content))
            question = await self._question(scope, ready, stubbed=stubbed)
            if isinstance(question, InputAnswer):
                return ToolOutcome(result=denied_result(call, question))
        else:
            earlier = recorded.request
            is_confirmation = earlier is not None and earlier.kind is RequestKind.CONFIRMATION
            question = earlier.message if earlier is not None and is_confirmation else ""
        if not question:
            return ready
        displayed = display_arguments(tool, arguments)
        error = ""
        while True:
            request, answer = await scope.ask_with_request(
                error + question,
                kind=RequestKind.CONFIRMATION,
                tool=tool.name,
                arguments=displayed,
                schema=tool.spec.parameters,
                expires_after=tool.confirm_expires,
            )
            if answer.verdict is not ApprovalDecision.APPROVE:
                return ToolOutcome(result=denied_result(call, answer))
            edited = answer.arguments
            if edited is None and request.arguments == displayed:
                return _ReadyCall(tool, arguments, answer)
            try:
                given = request.arguments if edited is None else edited
                approved = _validated(scope, tool, given)
                return _ReadyCall(tool, approved, answer)
            except INVALID_ARGUMENTS as problem:
                which = "displayed" if edited is None else "edited"
                error = f"The {which} arguments for {tool.name} are invalid: {problem}.\n"
                error = error[:MAX_ERROR_LENGTH]

    async def _question(
        self, scope: RunContext, ready: _ReadyCall, *, stubbed: bool
    ) -> str | InputAnswer:
        """Return the question to ask before a call, if any, or the refusal of the policy."""
        if self._guard is not None:
            decided = await self._guard.decide(scope, ready.tool, ready.arguments)
            if decided:
                return decided
        return "" if stubbed else await _confirmation_question(ready.tool, ready.arguments)

    async def _invoke(self, scope: RunContext, call: ToolCall, ready: _ReadyCall) -> ToolOutcome:
        """Invoke the tool unless it may have been started before the run was resumed."""
        tool, arguments = ready.tool, ready.arguments
        if scope.next_recorded() is None:
            await self._check_budget(1, (scope, call))
        scope.run.budget.add_tool_call()
        if not tool.replayable:
            if await self._was_started(scope, ready):
                await scope.emit(EventKind.PROGRESS, parts=text_part(unknown_outcome(call.name)))
                return ToolOutcome(result=unknown_result(call), executed=True)
            scope.run.keep_segment(scope.path)
        tool_context = ToolContext(
            scope, call.id, tool_name=tool.name, retry_count=self._retries[tool.name]
        )
        if log.isEnabledFor(logging.INFO):
            log.info("tool called", extra=_log_fields(scope, tool))
        pending = await _pending_outcome(scope)
        if pending is not None:
            result = make_result(call, pending.arguments.get("ticket"))
        else:
            with trace_tool(scope, call, tool.operation) as traced:
                result = await _invoke_with_timeout(scope, call, tool, arguments, tool_context)
                if traced is not None:
                    traced.result = result
        if (tool.long_running or pending is not None) and not result.is_error:
            outcome = await scope.request_input(
                f"{tool.name} was started. Report its outcome when it is done.",
                kind=RequestKind.OUTCOME,
                tool=tool.name,
                arguments={"ticket": result.content},
            )
            result = reported_result(call, outcome)
        for after in callbacks_of(scope, "after_tool_callback"):
            content = await maybe_await(after, tool, arguments, scope, result)
            if content is not None:
                result = make_result(call, content)
        result = with_edit(result, ready.approval)
        return ToolOutcome(result=result, escalate=tool_context.actions.escalate, executed=True)

    async def _was_started(self, scope: RunContext, ready: _ReadyCall) -> bool:
        """Return True if the call was started earlier; else record the start of an approved one."""
        approval = ready.approval
        is_replay = self._is_replay
        if approval is not None:
            is_replay = approval.request_id not in scope.run.journal.new_answers
        may_repeat = ready.tool.idempotent
        if is_replay and not may_repeat and await _earlier_start(scope, approval):
            return True
        if approval is not None:
            recorded = scope.next_recorded()
            if recorded is None or "started" in recorded.detail:
                await scope.emit(EventKind.STATE, detail={"started": ready.tool.name})
        return False

    async def _record(self, scope: RunContext, outcome: ToolOutcome) -> ToolOutcome:
        """Record the result as an event."""
        detail = None
        if not outcome.executed:
            if outcome.invalid_call and (tracer := scope.services.tracer) is not None:
                count_invalid_call(tracer)
            detail = {"executed": False, "invalid_call": outcome.invalid_call}
            if outcome.is_stub:
                detail["stub"] = True
        event = await scope.emit(
            EventKind.TOOL_RESULT,
            parts=(Part(result=outcome.result),),
            actions=EventActions(escalate=True) if outcome.escalate else NO_ACTIONS,
            detail=detail,
        )
        outcome.seq = event.seq
        return outcome

    async def _abandon(
        self, scope: RunContext, call: ToolCall, outcome: ToolOutcome
    ) -> ToolOutcome:
        """Record the outcome of a call that is not possible, or no longer.

        Recorded requests are answered first. If the tool was started when the call was still
        possible, the result is the reported outcome, or unknown.
        """
        recorded = scope.recorded()
        if recorded:
            outcome = ToolOutcome(result=outcome.result)
        for event in recorded:
            await scope.emit(event.kind)
            if "started" in event.detail:
                outcome = ToolOutcome(result=unknown_result(call), executed=True)
            if (request := event.request) is None:
                continue
            if (answer := scope.run.journal.answers.get(request.id)) is None:
                raise RunPaused([request])
            if request.kind is RequestKind.OUTCOME:
                outcome = ToolOutcome(result=reported_result(call, answer), executed=True)
        if outcome.executed:
            scope.run.budget.add_tool_call()
        if self._is_replay:
            scope.skip_recorded_children()
        return await self._record(scope, outcome)


class _Batch:
    """Collects the outcomes of concurrent calls; a pause waits for the other calls."""

    def __init__(self) -> None:
        self._outcomes: dict[int, ToolOutcome] = {}
        self._pauses: list[RunPaused] = []
        self._rejections: list[RunRejected] = []

    async def collect(self, index: int, work: Coroutine[Any, Any, ToolOutcome]) -> None:
        try:
            self._outcomes[index] = await work
        except RunPaused as pause:
            self._pauses.append(pause)
        except RunRejected as rejection:
            self._rejections.append(rejection)

    def outcomes(self) -> list[ToolOutcome]:
        if self._rejections:
            raise self._rejections[0]
        if self._pauses:
            raise RunPaused.join(self._pauses)
        return [self._outcomes[index] for index in sorted(self._outcomes)]


async def _invoke_with_timeout(
    scope: RunContext,
    call: ToolCall,
    tool: BaseTool,
    arguments: dict[str, Any],
    tool_context: ToolContext,
) -> ToolResult:
    """Invoke the tool; an error of the tool becomes an error result for the model."""
    limit = tool.timeout if tool.timeout is not None else scope.config.tool_timeout
    try:
        async with asyncio.timeout(None if limit == math.inf else limit) as deadline:
            pending = tool.invoke(arguments, tool_context)
            content = await check_awaitable(pending, tool, "invoke(self, arguments, ctx)")
        # Reached if the tool suppressed its cancellation; Python 3.11 does not trace this frame.
        if deadline.expired():  # pragma: no cover
            return _timeout_result(call, tool, limit)
        await tool_context.save_staged_artifacts()
    except RUN_LEVEL_ERRORS:
        raise
    except BaseException as error:
        if is_control_flow(error):
            raise
        if (pause := paused_in_group(error)) is not None:
            raise pause from None
        is_timeout = isinstance(error, TimeoutError) and deadline.expired()
        failure = _timeout_result(call, tool, limit) if is_timeout else _failure_result(call, error)
        return await _handle_error(scope, call, tool, arguments, error, failure)
    finally:
        tool_context.close()
    return make_result(call, content)


async def _handle_error(
    scope: RunContext,
    call: ToolCall,
    tool: BaseTool,
    arguments: dict[str, Any],
    error: BaseException,
    failure: ToolResult,
) -> ToolResult:
    """Log an error of a tool and return its result, or that of an error callback."""
    is_expected = isinstance(error, AccError | ModelRetry | TimeoutError)
    level = logging.INFO if is_expected else logging.ERROR
    if log.isEnabledFor(level):
        trace = replace_surrogates("".join(traceback.format_exception(error)).rstrip())
        log.log(level, "tool %s failed\n%s", tool.name, trace, extra=_log_fields(scope, tool))
    handlers = callbacks_of(scope, "on_tool_error_callback")
    if handlers and isinstance(error, Exception) and not isinstance(error, ModelRetry):
        content = await first_result(handlers, tool, arguments, scope, error)
        if content is not None:
            return make_result(call, content)
    if scope.config.raise_tool_errors and not is_expected:
        raise ToolFailed(tool.name, f"{type(error).__name__}: {error}", 1) from error
    return failure


def _validated(scope: RunContext, tool: BaseTool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the converted arguments; without a `validate` method the schema decides."""
    if type(tool).validate is BaseTool.validate:
        error = scope.services.schemas.schema_error(tool.spec.parameters, arguments)
        if error:
            raise ValueError(error)
    return tool.validate(arguments)


async def _confirmation_question(tool: BaseTool, arguments: Mapping[str, Any]) -> str:
    """Return the question for the person who approves the call, or an empty string."""
    confirm = tool.confirm
    if callable(confirm):
        try:
            confirm = await maybe_await(confirm, arguments)
        except Exception:
            # Request approval: a failing predicate must not permit a call.
            log.exception("confirm predicate of %s failed, requesting approval", tool.name)
            confirm = True
    if isinstance(confirm, str):
        return confirm
    return f"May {tool.name} be called?" if confirm else ""


async def _replay_result(
    scope: RunContext, recorded: Sequence[Event], result: ToolResult, tool: BaseTool | None
) -> ToolOutcome:
    """Return the recorded outcome of a call without invoking the tool."""
    last = recorded[-1]
    executed = bool(last.detail.get("executed", True))
    if executed:
        scope.run.budget.add_tool_call()
    for event in recorded:
        if event is last and (tool is None or tool.replayable):
            scope.skip_recorded_children()
        await scope.emit(event.kind)
    return ToolOutcome(
        result=result,
        seq=last.seq,
        escalate=last.actions.escalate,
        invalid_call=bool(last.detail.get("invalid_call")),
        executed=executed,
    )


async def _earlier_start(scope: RunContext, approval: InputAnswer | None) -> bool:
    """Return True if the tool was started before, or if that cannot be excluded.

    The start of an approved call is recorded. Other calls are started unrecorded.
    """
    recorded = scope.recorded()
    if not recorded:
        return approval is None
    if recorded[-1].request is not None:
        return False
    for event in recorded:
        await scope.emit(event.kind)
    return True


async def _pending_outcome(scope: RunContext) -> InputRequest | None:
    """Return the recorded request for the outcome of a long-running tool, if any."""
    recorded = scope.recorded()
    request = recorded[-1].request if recorded else None
    if request is None or request.kind is not RequestKind.OUTCOME:
        return None
    for event in recorded[:-1]:
        await scope.emit(event.kind)
    return request


def _completed_indexes(scopes: Sequence[RunContext]) -> list[int]:
    """Return the indexes of calls with a recorded result, in the order of completion."""
    last = {index: scope.recorded()[-1:] for index, scope in enumerate(scopes)}
    completed = {index: e.seq for index, es in last.items() for e in es if e.result is not None}
    return sorted(completed, key=completed.__getitem__)


def _has_recorded_call(ctx: RunContext, name: str) -> bool:
    """Return True if the journal has a call of this agent to an existing tool of this name."""
    prefixes = (f"{ctx.path}/{name}#", f"{ctx.path}/{name}:")
    return any(
        event.step.startswith(prefixes)
        for event in ctx.run.journal.steps.values()
        if (event.result is not None and event.result.name == name)
        or (event.request is not None and event.request.tool == name)
    )


def _failure_result(call: ToolCall, error: BaseException) -> ToolResult:
    if isinstance(error, ModelRetry):
        return error_result(call, str(error) or f"call {call.name} again")
    return error_result(call, f"{call.name} failed: {type(error).__name__}: {error}")


def _timeout_result(call: ToolCall, tool: BaseTool, limit: float | None) -> ToolResult:
    source = "RunConfig(tool_timeout=...)" if tool.timeout is None else "timeout of the tool"
    return error_result(
        call,
        f"tool {call.name} did not finish within its limit of {limit:g} seconds and was canceled; "
        f"its effects are unknown (the developer can change the limit: {source})",
    )


def _log_fields(scope: RunContext, tool: BaseTool) -> dict[str, str]:
    """Return the identifiers for a log record; arguments and results are never logged."""
    return {
        "trace_id": scope.call.trace_id,
        "span_id": span_id_of(scope.span),
        "request_id": scope.call.request_id,
        "run_id": scope.run_id,
        "caller": scope.call.caller,
        "agent": scope.agent.name,
        "path": scope.path,
        "branch": scope.branch,
        "tool": tool.name,
    }
