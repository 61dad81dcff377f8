"""The information-flow policy in a run: plan, decide, and observe what agents read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from acc.application.runtime.context import RunContext
from acc.application.runtime.json_types import to_builtins
from acc.application.runtime.model_call import call_model
from acc.application.tools.tool import AgentTool, BaseTool
from acc.domain.flow import FlowLedger
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer, RequestKind
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage, user_message
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.flow import (
    MAX_TRUSTED_FRAGMENTS,
    TRUSTED_METADATA,
    UNDECLARED,
    UNTRUSTED_METADATA,
    FlowMode,
    ToolLabels,
)
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent

_MAX_EARLIER_EVENTS = 1_000
_EARLIER_KINDS = (EventKind.MESSAGE, EventKind.TOOL_CALLS, EventKind.TOOL_RESULT)
#: Another agent that the policy guards itself, and one that it does not.
_GUARDED_AGENT = ToolLabels(effect="none")
_UNGUARDED_AGENT = ToolLabels(effect="write", target=())
PLAN_SCHEMA: Mapping[str, JsonData] = {
    "type": "object",
    "properties": {"tools": {"type": "array", "items": {"type": "string"}}},
    "required": ["tools"],
    "additionalProperties": False,
}
_PLAN_INSTRUCTION = (
    "List the tools that are needed for what the user asks. Use only the words of the user: list a "
    "tool only if they ask for its effect. Do not do the task. Answer with JSON such as "
    '{{"tools": ["name"]}}, or {{"tools": []}} if none is needed.\n\nTools:\n{tools}'
)


class _Plan(msgspec.Struct):
    tools: list[str]


class FlowGuard:
    """Applies the policy to the tool calls of one agent in one run."""

    def __init__(
        self, ctx: RunContext, mode: FlowMode, ledger: FlowLedger, model: LanguageModelPort
    ) -> None:
        self._ctx = ctx
        self._mode = mode
        self._ledger = ledger
        self._model = model
        self._plan: frozenset[str] | None = None

    async def prepare(self, calls: Sequence[ToolCall], tools: Mapping[str, BaseTool]) -> None:
        """Make the plan before the first call of a tool that must be planned."""
        if self._plan is None and any(
            labels.is_write or labels.secret
            for call in calls
            if call.name in tools and (labels := labels_of(tools[call.name], self._ctx))
        ):
            self._plan = await self._make_plan(tools)

    async def _make_plan(self, tools: Mapping[str, BaseTool]) -> frozenset[str]:
        """Return the names of the tools that the words of the user require."""
        scope = self._ctx.fork("flow_plan")
        recorded = scope.next_recorded()
        if recorded is not None:
            scope.run.budget.add_usage(recorded.usage or Usage(llm_calls=1))
            event = await scope.emit(EventKind.FLOW)
            return frozenset(event.detail["plan"])
        offered = {
            name: tool
            for name, tool in tools.items()
            if (labels := labels_of(tool, self._ctx)).is_write or labels.secret
        }
        lines = (f"- {name}: {tool.spec.description}" for name, tool in offered.items())
        words = await _user_words(scope)
        prompt = ModelRequest(
            messages=(user_message("\n\n".join(words)),),
            instruction=_PLAN_INSTRUCTION.format(tools="\n".join(lines)),
            output_schema=PLAN_SCHEMA,
        )
        response, usage = await call_model(scope, self._model, prompt, stream=False)
        error = ""
        try:
            names = msgspec.json.decode(response.text, type=_Plan).tools
        except msgspec.MsgspecError as problem:
            names, error = [], f"the plan is not valid, so every tool is asked about: {problem}"
        plan = [name for name in offered if name in names]
        detail = {"plan": plan, "reason": error or "the words of the user"}
        await scope.emit(EventKind.FLOW, usage=usage, detail=detail)
        return frozenset(plan)

    async def decide(
        self, scope: RunContext, tool: BaseTool, arguments: Mapping[str, Any]
    ) -> str | InputAnswer:
        """Return a question for a person, a refusal, or an empty string if a call is allowed.

        The decision is recorded with its reasons.
        """
        labels = labels_of(tool, scope)
        if not labels.is_checked:
            return ""
        values = to_builtins(dict(arguments))
        violations = self._ledger.check(
            tool.name, labels, values, self._plan or (), _fields_of(tool)
        )
        decision = "allow"
        if violations:
            decision = "ask" if self._mode == "ask" else "refuse"
        event = await scope.fork("flow").emit(
            EventKind.FLOW,
            detail={
                "tool": tool.name,
                "decision": decision,
                "reasons": [v.reason for v in violations] or [self._reason_to_allow(labels)],
                "violations": [violation.as_data() for violation in violations],
            },
        )
        reasons = "; ".join(event.detail["reasons"])
        if event.detail["decision"] == "ask":
            return f"May {tool.name} be called? {reasons}."
        if event.detail["decision"] == "refuse":
            reason = f"the information-flow policy refuses this call: {reasons}"
            return InputAnswer(request_id="", verdict=ApprovalDecision.DENY, reason=reason)
        return ""

    def _reason_to_allow(self, labels: ToolLabels) -> str:
        if not self._ledger.is_tainted:
            return "no untrusted result has been read"
        planned = "planned, and " if labels.is_write or labels.secret else ""
        return f"{planned}its values are from trusted text or from records that were looked up"

    def approve(self, tool: BaseTool, arguments: Mapping[str, Any]) -> None:
        """Accept the values that a person approved for a tool."""
        self._ledger.approve(tool.name, to_builtins(dict(arguments)))

    def observe(
        self, tool: BaseTool | None, arguments: Mapping[str, JsonData], result: ToolResult
    ) -> None:
        """Add the result of a call to what the agents of the run have read."""
        labels = UNDECLARED if tool is None else labels_of(tool, self._ctx)
        self._ledger.observe(result.name, labels, arguments, result.content, _fields_of(tool))
        if result.files:
            self._ledger.distrust()


def labels_of(tool: BaseTool, ctx: RunContext) -> ToolLabels:
    """Return the labels of a tool; an agent as a tool guards its own tools, unless it is off."""
    if tool.labels is not None:
        return tool.labels
    if isinstance(tool, AgentTool):
        root = ctx.run.request.root
        modes = [flow_mode(agent, root) for agent in tool.agent.walk_all()]
        guarded = all(hasattr(agent, "own_tools") for agent in _workers(tool.agent))
        return _GUARDED_AGENT if guarded and "off" not in modes else _UNGUARDED_AGENT
    return UNDECLARED


def _fields_of(tool: BaseTool | None) -> frozenset[str]:
    """Return the names of parameters, and of fields in them, that a tool declares."""
    return frozenset() if tool is None else frozenset(_property_names(tool.spec.parameters))


def _property_names(schema: object) -> Iterator[str]:
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            yield from properties
        schema = tuple(schema.values())
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from _property_names(part)


def _workers(agent: "BaseAgent") -> list["BaseAgent"]:
    """Return the agents of a tree that do work themselves."""
    return [found for found in agent.walk_all() if not found.sub_agents]


def flow_mode(agent: "BaseAgent", root: "BaseAgent") -> FlowMode:
    """Return the mode of an agent: its own, else that of an ancestor, else that of the root."""
    found: BaseAgent | None = agent
    while found is not None:
        if found.flow is not None:
            return found.flow
        found = found.parent
    return root.flow or "off"


async def start_flow_guard(
    ctx: RunContext, model: LanguageModelPort, tools: Mapping[str, BaseTool]
) -> FlowGuard | None:
    """Return the guard of an agent, or None if its mode is off."""
    mode = flow_mode(ctx.agent, ctx.run.request.root)
    if mode == "off":
        return None
    run, agent = ctx.run, ctx.agent
    if run.flow is None:
        run.flow = await _new_ledger(ctx, tools)
    ledger = run.flow
    instructions: tuple[object, ...] = (
        getattr(agent, "instruction", ""),
        run.request.root.global_instruction,
    )
    for instruction in instructions:
        if isinstance(instruction, str):
            ledger.trust(instruction)
        if not isinstance(instruction, str) or "{" in instruction:
            ledger.distrust()  # it contains values of the state, which anybody may have written
    has_native_tools = bool(getattr(agent, "native_tools", ()))
    if ctx.current_branch.thread or has_native_tools:
        ledger.distrust()  # messages of other agents, and results that only the provider sees
    return FlowGuard(ctx, mode, ledger, model)


async def _new_ledger(ctx: RunContext, tools: Mapping[str, BaseTool]) -> FlowLedger:
    """Return the ledger of a run, with the words of the user and the earlier turns."""
    ledger = FlowLedger()
    run = ctx.run
    for words in await _user_words(ctx):
        ledger.trust(words)
    await _observe_earlier_turns(ledger, ctx, tools)
    if any(_is_untrusted(part) for part in run.request.message):
        ledger.distrust()
    for event in run.journal.steps.values():
        request = event.request
        answer = None if request is None else run.journal.answers.get(request.id)
        if request is None or answer is None:
            continue
        if request.kind is RequestKind.INPUT:
            ledger.trust(_text(answer.value))
        elif (
            request.kind is RequestKind.CONFIRMATION and answer.verdict is ApprovalDecision.APPROVE
        ):
            given = request.arguments if answer.arguments is None else answer.arguments
            ledger.approve(request.tool, given)
    return ledger


async def _observe_earlier_turns(
    ledger: FlowLedger, ctx: RunContext, tools: Mapping[str, BaseTool]
) -> None:
    calls: dict[str, ToolCall] = {}
    earlier = await _earlier_events(ctx)
    if len(earlier) >= _MAX_EARLIER_EVENTS:
        ledger.distrust()  # an older result that is not read again may be untrusted
    for event in earlier:
        calls |= {call.id: call for call in event.calls}
        if (result := event.result) is not None:
            call, tool = calls.get(result.call_id), tools.get(result.name)
            labels = UNDECLARED if tool is None else labels_of(tool, ctx)
            arguments = call.arguments if call else {}
            ledger.observe(result.name, labels, arguments, result.content, _fields_of(tool))
        if _is_untrusted_event(event, reader=ctx.agent.name):
            ledger.distrust()


async def _user_words(ctx: RunContext) -> list[str]:
    """Return the messages of the user in this session, the last one last."""
    messages = [e.parts for e in await _earlier_events(ctx) if _is_user_message(e)]
    parts = [part for message in (*messages, ctx.run.request.message) for part in message]
    return [text for part in parts for text in _trusted_texts(part) if text]


async def _earlier_events(ctx: RunContext) -> Sequence[Event]:
    request = ctx.run.request
    if request.first_seq <= 1:
        return ()
    events = await ctx.services.sessions.events(
        request.key,
        before=request.first_seq,
        kinds=_EARLIER_KINDS,
        newest_first=True,
        limit=_MAX_EARLIER_EVENTS,
    )
    return tuple(reversed(events))


def _is_user_message(event: Event) -> bool:
    return event.kind is EventKind.MESSAGE and event.author == "user"


def _is_untrusted_event(event: Event, *, reader: str) -> bool:
    """Return True for messages of other agents, and for files and marked parts."""
    if event.result is not None:
        return bool(event.result.files)
    if event.kind is not EventKind.MESSAGE:
        return False
    return event.author not in ("user", reader) or any(map(_is_untrusted, event.parts))


def _is_untrusted(part: Part) -> bool:
    """Return True for files, and for parts that a calling agent marked."""
    is_file = part.raw is not None or part.url is not None
    return is_file or bool(part.metadata.get(UNTRUSTED_METADATA))


def _trusted_texts(part: Part) -> Sequence[str]:
    """Return the text of the user in a part; of a marked part, what its author says is trusted."""
    if not _is_untrusted(part):
        return (_text(part.text or part.data),)
    given, text = part.metadata.get(TRUSTED_METADATA), _text(part.text or part.data)
    fragments = given[:MAX_TRUSTED_FRAGMENTS] if isinstance(given, list | tuple) else ()
    return [one for one in fragments if isinstance(one, str) and one and one in text]


def _text(value: JsonData) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
