"""Repeat recorded turns with recorded answers, another model or another memory, and compare."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from acc.application.agents.base import BaseAgent
from acc.application.agents.callbacks import Plugin
from acc.application.agents.remote import RemoteAgent
from acc.application.runtime.context import RunContext
from acc.application.runtime.run import Services
from acc.application.runtime.runner import SessionRunner
from acc.application.tools.tool import BaseTool
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.approval import InputAnswer, InputRequest, deny
from acc.domain.value_objects.base import JsonData, Value, replace
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

_RESPONSES = frozenset({EventKind.MESSAGE, EventKind.DRAFT, EventKind.TOOL_CALLS, EventKind.FAULT})
_MAX_PAUSES = 20


class TurnOutcome(Value, frozen=True, kw_only=True):
    """What happened in a turn. `memory` is the state that the memory showed to the model."""

    status: str
    answer: str
    calls: tuple[str, ...]
    memory: str = ""
    memory_tokens: int | None = None


class TurnComparison(Value, frozen=True, kw_only=True):
    """A recorded turn and its repetition; `stubbed` are tool calls without a recorded result."""

    turn: int
    run_id: str
    message: str
    recorded: TurnOutcome
    replayed: TurnOutcome
    changed: tuple[str, ...]
    stubbed: tuple[str, ...]


class RecordedAnswers(Plugin[Any]):
    """Answers in place of models, tools and remote agents with what a run recorded.

    With `live_model` the models are called. A tool call with recorded name and arguments gets its
    recorded result; another one gets a marked stub, and is listed in `stubbed`. A call that still
    waited for approval waits again.
    """

    def __init__(self, events: Sequence[Event], *, live_model: bool) -> None:
        self.stubbed: list[str] = []
        self._live_model = live_model
        self._responses: dict[str, deque[Event]] = {}
        self._results: dict[str, deque[JsonData]] = {}
        arguments: dict[str, Mapping[str, JsonData]] = {}
        answered = {event.answer.request_id for event in events if event.answer is not None}
        self._unanswered = {
            event.request.tool: event.request
            for event in events
            if event.request is not None and event.request.id not in answered
        }
        for event in events:
            arguments |= {call.id: call.arguments for call in event.calls}
            path = event.step.partition("#")[0]
            if path and event.kind in _RESPONSES:
                self._responses.setdefault(path, deque()).append(event)
            if (result := event.result) is not None:
                key = _call_key(result.name, arguments.get(result.call_id, {}))
                self._results.setdefault(key, deque()).append(result.content)

    def before_agent_callback(self, ctx: RunContext[Any]) -> str | None:
        """Return the recorded answer of a remote agent."""
        if not isinstance(ctx.agent, RemoteAgent):
            return None
        event = self._next(ctx)
        return f"[replay] {ctx.agent.name} has no recorded answer" if event is None else event.text

    def before_model_callback(
        self, ctx: RunContext[Any], prompt: ModelRequest
    ) -> ModelResponse | None:
        """Return the recorded response of a model."""
        if self._live_model:
            return None
        event = self._next(ctx)
        if event is None:
            raise InvalidInput(
                f"{ctx.path}: the run has no further recorded response; the agents differ from "
                "those of the recorded run. Use --model to call a model"
            )
        return ModelResponse(text=event.text, calls=event.calls)

    def before_tool_callback(
        self, tool: BaseTool, arguments: Mapping[str, JsonData], ctx: RunContext[Any]
    ) -> object:
        """Return the recorded result of a tool; those of the runtime are called."""
        if tool.runs_in_debug or (tool.replayable and not ctx.agent.agent_tools):
            return None
        recorded = self._results.get(_call_key(tool.name, arguments))
        if recorded:
            content = recorded[0] if len(recorded) == 1 else recorded.popleft()
            return "" if content is None else content
        if tool.replayable:
            return None
        request = self._unanswered.pop(tool.name, None)
        if request is not None:
            return self._wait(request, ctx)
        self.stubbed.append(_describe(tool.name, arguments))
        return f"[replay] {tool.name} has no recorded result for these arguments"

    async def _wait(self, request: InputRequest, ctx: RunContext[Any]) -> str:
        """Request the recorded confirmation; no answer causes a call of the tool."""
        await ctx.request_input(
            request.message, kind=request.kind, tool=request.tool, arguments=request.arguments
        )
        return f"[replay] {request.tool} has no recorded result"

    def _next(self, ctx: RunContext[Any]) -> Event | None:
        events = self._responses.get(ctx.path)
        return events.popleft() if events else None


class _Switch(Plugin[Any]):
    """Passes each callback to the answers of the current turn."""

    def __init__(self) -> None:
        self.answers = RecordedAnswers((), live_model=False)

    def before_agent_callback(self, ctx: RunContext[Any]) -> str | None:
        return self.answers.before_agent_callback(ctx)

    def before_model_callback(
        self, ctx: RunContext[Any], prompt: ModelRequest
    ) -> ModelResponse | None:
        return self.answers.before_model_callback(ctx, prompt)

    def before_tool_callback(
        self, tool: BaseTool, arguments: Mapping[str, JsonData], ctx: RunContext[Any]
    ) -> object:
        return self.answers.before_tool_callback(tool, arguments, ctx)


async def replay_session(
    events: Sequence[Event],
    agent: BaseAgent,
    services: Services,
    *,
    run_id: str = "",
    live_model: bool = False,
) -> tuple[TurnComparison, ...]:
    """Repeat the turns of a session in a new one, and compare each with its record.

    With `run_id` only that turn is compared, and only it calls models; the turns before it have
    their recorded answers.
    """
    switch = _Switch()
    runner = SessionRunner(agent, app_name="replay", services=services, plugins=[switch])
    comparisons: list[TurnComparison] = []
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    for number, recorded in runs.items():
        first = recorded[0]
        if first.kind is not EventKind.MESSAGE or first.author != "user":
            if first.actions.state_delta:  # written by the application between two turns
                await runner.update_state(dict(first.actions.state_delta))
            continue
        is_selected = run_id in ("", number)
        switch.answers = RecordedAnswers(recorded, live_model=live_model and is_selected)
        replayed = await _run(runner, first, recorded)
        if is_selected:
            comparisons.append(_compare(recorded, replayed, switch.answers.stubbed))
        if number == run_id:
            break
    return tuple(comparisons)


async def _run(
    runner: SessionRunner[Any, Any], first: Event, recorded: Sequence[Event]
) -> TurnOutcome:
    """Run one turn; a person answers as recorded, and denies what was not asked before.

    A recorded run that still waits, or was abandoned while it waited, is left in the same way.
    """
    given = deque(event.answer for event in recorded if event.answer is not None)
    last = _outcome(recorded).status
    seen = len(await runner.events())
    try:
        result = await runner.run(list(first.parts))
        for _ in range(_MAX_PAUSES):
            if result.status is not RunStatus.INPUT_REQUIRED:
                break
            if not given and last == RunStatus.INPUT_REQUIRED:
                break
            if not given and last == RunStatus.CANCELED:
                await runner.abandon()
                break
            answers = [_answer(request.id, given) for request in result.requests]
            result = await runner.resume(answers)
    except AccError as error:
        text = f"[{error.code}] {error}"
        outcome = _outcome(await runner.events(after=seen))
        return replace(outcome, status=RunStatus.FAILED.value, answer=text)
    return _outcome(await runner.events(after=seen))


def _answer(request_id: str, given: "deque[InputAnswer]") -> InputAnswer:
    if not given:
        return deny(request_id, "not answered in the recorded run")
    answer = given.popleft()
    return InputAnswer(
        request_id=request_id,
        verdict=answer.verdict,
        arguments=answer.arguments,
        value=answer.value,
        reason=answer.reason,
    )


def _outcome(events: Sequence[Event]) -> TurnOutcome:
    answers = [e for e in events if e.kind is EventKind.MESSAGE and e.author != "user"]
    ended = next((e for e in reversed(events) if e.kind is EventKind.ENDED), None)
    memory = next((e for e in reversed(events) if e.kind is EventKind.MEMORY), None)
    tokens = None if memory is None else memory.detail.get("tokens")
    failed = ended is not None and ended.status is RunStatus.FAILED
    text = ended.text if ended is not None and failed else answers[-1].text if answers else ""
    return TurnOutcome(
        status="working" if ended is None or ended.status is None else ended.status.value,
        answer=text,
        calls=tuple(_describe(c.name, c.arguments) for e in events for c in e.calls),
        memory="" if memory is None else str(memory.detail.get("ccs", "")),
        memory_tokens=tokens if isinstance(tokens, int) else None,
    )


def _compare(
    recorded: Sequence[Event], replayed: TurnOutcome, stubbed: Sequence[str]
) -> TurnComparison:
    first, before = recorded[0], _outcome(recorded)
    fields = ("status", "answer", "calls", "memory", "memory_tokens")
    turn = first.detail.get("turn", 0)
    return TurnComparison(
        turn=turn if isinstance(turn, int) else 0,
        run_id=first.run_id,
        message=first.text,
        recorded=before,
        replayed=replayed,
        changed=tuple(n for n in fields if getattr(before, n) != getattr(replayed, n)),
        stubbed=tuple(stubbed),
    )


def _call_key(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {msgspec.json.encode(arguments, enc_hook=str, order='deterministic').decode()}"


def _describe(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({msgspec.json.encode(arguments, enc_hook=str).decode()})"
