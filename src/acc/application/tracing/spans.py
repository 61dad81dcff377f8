"""Spans of runs, agents, model calls, tools, memories and approvals.

Spans are started with an explicit parent and ended explicitly. They are never the current span
while a run may be interrupted, except inside the call of a tool.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from acc.application.tracing import conventions as names
from acc.domain.errors import AccError
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ChatMessage, Part, Usage
from acc.domain.value_objects.endpoint import redact_secrets
from acc.domain.value_objects.run import trace_of_parent
from acc.ports.outbound.memory_ports import WindowMemoryPort
from acc.ports.outbound.tracing_ports import Attributes, AttributeValue, SpanKind

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent
    from acc.application.runtime.context import RunContext
    from acc.application.runtime.run import Run, RunRequest
    from acc.domain.value_objects.approval import InputAnswer
    from acc.domain.value_objects.content import ToolCall, ToolResult
    from acc.domain.value_objects.event import Event
    from acc.domain.value_objects.memory import TurnTrace
    from acc.domain.value_objects.run import CallContext
    from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
    from acc.ports.outbound.tracing_ports import SpanPort, TracerPort

#: Key of the W3C trace context in the metadata of messages and in the details of events.
TRACE_PARENT = "traceparent"
_PAUSED = "RunPaused"


def error_type(error: BaseException) -> str:
    """Return the class of an error: the code of our own, or the name of its type."""
    return error.code if isinstance(error, AccError) else type(error).__name__


def end_span(span: "SpanPort", error: BaseException | None = None) -> None:
    """End a span; a run that waits for a person is not an error."""
    is_error = error is not None and type(error).__name__ != _PAUSED
    span.end(error_type(error) if is_error and error is not None else "")


def span_id_of(span: "SpanPort | None") -> str:
    """Return the id of a span for log records, empty if there is none."""
    return "" if span is None else "".join(span.traceparent.split("-")[2:3])


# Runs and agents


class RunSpan:
    """A block with the span of a run, which is also that of its first agent.

    It is a class, because a generator costs more.
    """

    __slots__ = ("_agent", "_span", "_started", "_tracer")

    def __init__(
        self, tracer: "TracerPort | None", agent: "BaseAgent", *, parent: str, link: str = ""
    ) -> None:
        self._tracer = tracer
        self._agent = agent
        self._span: SpanPort | None = None
        if tracer is not None:
            self._started = time.perf_counter()
            self._span = tracer.start_span(
                _agent_span_name(agent),
                attributes=_agent_attributes(agent),
                parent=parent,
                link=link,
            )

    def __enter__(self) -> "SpanPort | None":
        return self._span

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if self._tracer is None or self._span is None:
            return
        error = "" if problem is None else error_type(problem)
        self._span.end(error)
        labels: dict[str, AttributeValue] = {names.GEN_AI_AGENT_NAME: self._agent.name}
        if error:
            labels[names.ERROR_TYPE] = error
        seconds = time.perf_counter() - self._started
        self._tracer.observe(names.METRIC_RUN_DURATION, seconds, labels)


def describe_run(span: "SpanPort", request: "RunRequest", *, has_context: bool) -> "RunRequest":
    """Add the ids of a run to its span; without a context of the caller, they share the trace."""
    if not has_context and span.trace_id:
        request = replace(request, call=replace(request.call, trace_id=span.trace_id))
    call = request.call
    attributes: dict[str, AttributeValue] = {
        names.ACC_RUN_ID: request.run_id,
        names.GEN_AI_CONVERSATION_ID: request.key.session_id,
        names.OPENINFERENCE_SESSION: request.key.session_id,
        names.ACC_CALLER: call.caller,
    }
    if call.request_id != request.run_id:
        attributes[names.ACC_REQUEST_ID] = call.request_id
    if call.trace_id != span.trace_id:
        attributes[names.ACC_TRACE_ID] = call.trace_id
    span.set_attributes(attributes)
    return request


def describe_first_agent(run: "Run", agent: "BaseAgent") -> None:
    """Name the span of a run after the agent that has the conversation."""
    if run.span is not None and agent is not run.request.root:
        run.span.rename(_agent_span_name(agent))
        run.span.set_attributes(_agent_attributes(agent))


def describe_result(run: "Run", status: str, text: str) -> None:
    """Add the outcome of a run to its span."""
    span, tracer = run.span, run.services.tracer
    if span is None or tracer is None:
        return
    attributes: dict[str, AttributeValue] = {names.ACC_RUN_STATUS: status}
    usage = run.budget.usage
    attributes |= _usage_attributes(usage)
    if tracer.captures_content:
        query = ChatMessage(role="user", parts=run.request.message)
        attributes[names.GEN_AI_INPUT_MESSAGES] = _messages((query,))
        attributes[names.GEN_AI_OUTPUT_MESSAGES] = _messages(
            (ChatMessage(role="assistant", parts=(Part(text=text),)),)
        )
    span.set_attributes(attributes)


def start_agent(ctx: "RunContext") -> "SpanPort | None":
    """Start the span of an agent inside a run; the first one has that of the run."""
    tracer = ctx.services.tracer
    if tracer is None or ctx.path == ctx.run.span_path:
        return None
    agent = ctx.agent
    span = tracer.start_span(
        _agent_span_name(agent), attributes=_agent_attributes(agent), parent=ctx.span
    )
    ctx.span = span
    return span


def _is_workflow(agent: "BaseAgent") -> bool:
    return bool(agent.sub_agents) and not hasattr(agent, "instruction")


def _agent_span_name(agent: "BaseAgent") -> str:
    operation = names.INVOKE_WORKFLOW if _is_workflow(agent) else names.INVOKE_AGENT
    return f"{operation} {agent.name}"


def _agent_attributes(agent: "BaseAgent") -> Attributes:
    if _is_workflow(agent):
        return {
            names.GEN_AI_OPERATION_NAME: names.INVOKE_WORKFLOW,
            names.GEN_AI_WORKFLOW_NAME: agent.name,
            names.OPENINFERENCE_SPAN_KIND: names.KIND_CHAIN,
        }
    return {
        names.GEN_AI_OPERATION_NAME: names.INVOKE_AGENT,
        names.GEN_AI_AGENT_NAME: agent.name,
        names.OPENINFERENCE_SPAN_KIND: names.KIND_AGENT,
    }


def parent_of(call: "CallContext | None") -> str:
    """Return the W3C traceparent that a call context contains, else an empty string."""
    parent = call.metadata.get(TRACE_PARENT) if call is not None and call.metadata else None
    return parent if isinstance(parent, str) and trace_of_parent(parent) else ""


def outgoing_parent(ctx: "RunContext") -> str:
    """Return the traceparent for a request to another process, empty if there is none.

    Without tracing it is the one that the run was called with.
    """
    return parent_of(ctx.call) if ctx.span is None else ctx.span.traceparent


def original_span(first: "Event") -> str:
    """Return the traceparent of the span that started a recorded run, if it was traced."""
    parent = first.detail.get(TRACE_PARENT)
    return parent if isinstance(parent, str) else ""


# Model calls


class ChatSpan:
    """The span of one model call, with its metrics."""

    __slots__ = ("_first", "_labels", "_span", "_started", "_tracer")

    def __init__(
        self, tracer: "TracerPort", ctx: "RunContext", prompt: "ModelRequest", *, stream: bool
    ) -> None:
        self._tracer = tracer
        provider, model = _model_name(getattr(ctx.agent, "model", ""))
        self._labels: Attributes = {
            names.GEN_AI_OPERATION_NAME: names.CHAT,
            names.GEN_AI_PROVIDER_NAME: provider,
            names.GEN_AI_REQUEST_MODEL: model,
        }
        attributes: dict[str, AttributeValue] = {
            **self._labels,
            names.GEN_AI_AGENT_NAME: ctx.agent.name,
            names.OPENINFERENCE_SPAN_KIND: names.KIND_LLM,
        }
        if stream:
            attributes[names.GEN_AI_REQUEST_STREAM] = True
        if prompt.output_schema is not None:
            attributes[names.GEN_AI_OUTPUT_TYPE] = "json"
        if tracer.captures_content:
            if prompt.instruction:
                parts = [{"type": "text", "content": prompt.instruction}]
                attributes[names.GEN_AI_SYSTEM_INSTRUCTIONS] = _json(parts)
            attributes[names.GEN_AI_INPUT_MESSAGES] = _messages(prompt.messages)
        self._span = tracer.start_span(
            f"{names.CHAT} {model}", attributes=attributes, kind=SpanKind.CLIENT, parent=ctx.span
        )
        self._started = time.perf_counter()
        self._first = 0.0

    def add_chunk(self) -> None:
        """Note the time of the first chunk of a streamed response."""
        if not self._first:
            self._first = time.perf_counter() - self._started

    def end(
        self,
        answer: "ModelResponse | None",
        usage: Usage | None,
        error: str,
    ) -> None:
        """End the span and record the metrics of the call."""
        tracer, labels = self._tracer, self._labels
        seconds = time.perf_counter() - self._started
        attributes: dict[str, AttributeValue] = {}
        if usage is not None:
            attributes = _usage_attributes(usage)
            for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if tokens:
                    tracer.observe(
                        names.METRIC_TOKEN_USAGE, tokens, {**labels, names.GEN_AI_TOKEN_TYPE: kind}
                    )
        if self._first:
            attributes[names.GEN_AI_TIME_TO_FIRST_CHUNK] = self._first
            tracer.observe(names.METRIC_TIME_TO_FIRST_CHUNK, self._first, labels)
        if answer is not None and tracer.captures_content:
            parts = (*((Part(text=answer.text),) if answer.text else ()),)
            parts += tuple(Part(call=call) for call in answer.calls)
            message = ChatMessage(role="assistant", parts=parts)
            attributes[names.GEN_AI_OUTPUT_MESSAGES] = _messages((message,))
        if attributes:
            self._span.set_attributes(attributes)
        self._span.end(error)
        if error:
            labels = {**labels, names.ERROR_TYPE: error}
        tracer.observe(names.METRIC_OPERATION_DURATION, seconds, labels)


def _model_name(model: object) -> tuple[str, str]:
    """Return the provider and the name of a model."""
    if isinstance(model, str):
        provider, _, name = model.rpartition(":")
        return (provider.partition(":")[0] or "acc", name) if name else ("acc", model or "none")
    return "acc", str(getattr(model, "name", "") or type(model).__name__)


def _usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    if usage.input_tokens or usage.output_tokens:
        attributes[names.GEN_AI_INPUT_TOKENS] = usage.input_tokens
        attributes[names.GEN_AI_OUTPUT_TOKENS] = usage.output_tokens
    if usage.cached_tokens:
        attributes[names.GEN_AI_CACHED_TOKENS] = usage.cached_tokens
    if usage.cost is not None:
        attributes[names.ACC_COST] = usage.cost
    return attributes


# Tools


class ToolSpan:
    """The span of one tool call, with its metrics."""

    __slots__ = ("_active", "_labels", "_outer", "_scope", "_started", "_tracer", "result", "span")

    def __init__(
        self, tracer: "TracerPort", scope: "RunContext", call: "ToolCall", operation: str
    ) -> None:
        self._tracer = tracer
        self._labels: Attributes = {names.GEN_AI_TOOL_NAME: call.name}
        attributes: dict[str, AttributeValue] = {
            names.GEN_AI_OPERATION_NAME: operation,
            names.GEN_AI_TOOL_NAME: call.name,
            names.GEN_AI_TOOL_CALL_ID: call.id,
            names.GEN_AI_TOOL_TYPE: "function",
            names.GEN_AI_AGENT_NAME: scope.agent.name,
            names.OPENINFERENCE_SPAN_KIND: names.KIND_TOOL,
        }
        if tracer.captures_content:
            attributes[names.GEN_AI_TOOL_CALL_ARGUMENTS] = _json(call.arguments)
        name = call.name
        if operation == names.PLAN:
            name = scope.agent.name
            attributes[names.ACC_PLAN_STEPS] = len(call.arguments.get("steps", ()))
        self._scope = scope
        self._outer = scope.span
        self.span = scope.span = tracer.start_span(
            f"{operation} {name}", attributes=attributes, parent=scope.span
        )
        self._active = self.span.activate()
        self._started = time.perf_counter()
        #: The result, as soon as there is one.
        self.result: ToolResult | None = None

    def __enter__(self) -> "ToolSpan":
        self._active.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._active.__exit__(None, None, None)
        self._scope.span = self._outer
        result = self.result
        seconds = time.perf_counter() - self._started
        code = ""
        if error is not None and type(error).__name__ != _PAUSED:
            code = error_type(error)
        elif result is not None and result.is_error:
            code = "tool_error"
        if result is not None and self._tracer.captures_content:
            content = _json(result.content)
            self.span.set_attributes({names.GEN_AI_TOOL_CALL_RESULT: content})
        self.span.end(code)
        labels = self._labels
        if code:
            labels = {**labels, names.ERROR_TYPE: code}
            self._tracer.count(names.METRIC_TOOL_ERRORS, labels)
        self._tracer.observe(names.METRIC_TOOL_DURATION, seconds, labels)


def trace_tool(scope: "RunContext", call: "ToolCall", operation: str) -> "ToolSpan | _Untraced":
    """Return a block with the span of a tool call, which is current inside, if runs are traced."""
    tracer = scope.services.tracer
    return _UNTRACED if tracer is None else ToolSpan(tracer, scope, call, operation)


class _Untraced:
    """A block without a span."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        pass


_UNTRACED = _Untraced()


def count_invalid_call(tracer: "TracerPort") -> None:
    """Count a call of an unknown tool or with invalid arguments; names of models are not labels."""
    tracer.count(names.METRIC_TOOL_ERRORS, {names.ERROR_TYPE: "invalid_call"})


# Memory


@contextmanager
def trace_memory(ctx: "RunContext", memory: object, operation: str) -> "Iterator[SpanPort | None]":
    """Start and end the span of a memory operation, if runs are traced.

    A transcript only repeats the newest messages, which is not an operation.
    """
    tracer = ctx.services.tracer
    if tracer is None or isinstance(memory, WindowMemoryPort):
        yield None
        return
    span = tracer.start_span(
        f"{operation} {ctx.agent.name}",
        attributes={
            names.GEN_AI_OPERATION_NAME: operation,
            names.GEN_AI_AGENT_NAME: ctx.agent.name,
            names.OPENINFERENCE_SPAN_KIND: names.KIND_RETRIEVER,
        },
        parent=ctx.span,
    )
    try:
        yield span
    except BaseException as error:
        end_span(span, error)
        raise
    span.end()


def describe_view(
    ctx: "RunContext", span: "SpanPort", *, before: int, after: int, trace: "TurnTrace | None"
) -> None:
    """Add the size of a view and what is not in it to the span of a memory operation."""
    tracer = ctx.services.tracer
    attributes: dict[str, AttributeValue] = {
        names.ACC_MEMORY_TOKENS_BEFORE: before,
        names.ACC_MEMORY_TOKENS_AFTER: after,
    }
    labels = {names.GEN_AI_AGENT_NAME: ctx.agent.name}
    if trace is not None:
        reasons = Counter(rejection.reason.value for rejection in trace.rejected)
        attributes[names.ACC_MEMORY_RECALLED] = len(trace.recalled)
        attributes[names.ACC_MEMORY_DROPPED] = len(trace.dropped)
        attributes[names.ACC_MEMORY_REJECTED] = [
            f"{reason}={count}" for reason, count in sorted(reasons.items())
        ]
        for reason, count in reasons.items():
            if tracer is not None:
                marks = {**labels, names.ACC_MEMORY_REJECTION_REASON: reason}
                tracer.count(names.METRIC_MEMORY_REJECTIONS, marks, count)
    span.set_attributes(attributes)
    if tracer is not None:
        tracer.observe(names.METRIC_MEMORY_TOKENS, after, labels)


def describe_size(span: "SpanPort", *, before: int, after: int) -> None:
    """Add the size of the view before a turn and with it to the span of a memory operation."""
    span.set_attributes(
        {names.ACC_MEMORY_TOKENS_BEFORE: before, names.ACC_MEMORY_TOKENS_AFTER: after}
    )


def note_compaction(ctx: "RunContext", *, before: int, after: int) -> None:
    """Note on the span of an agent that its conversation was shortened."""
    if ctx.span is not None:
        attributes = {
            names.ACC_MEMORY_TOKENS_BEFORE: before,
            names.ACC_MEMORY_TOKENS_AFTER: after,
        }
        ctx.span.add_event(names.GEN_AI_CONVERSATION_COMPACTED, attributes)


# Approvals


def note_answers(
    tracer: "TracerPort",
    span: "SpanPort",
    answers: "Mapping[str, InputAnswer]",
    events: "Sequence[Event]",
    now: float,
) -> None:
    """Note the decisions of people on the span of the resumed run, with how long it waited."""
    for event in events:
        request = event.request
        answer = None if request is None else answers.get(request.id)
        if request is None or answer is None:
            continue
        wait = max(now - event.at, 0.0)
        attributes: dict[str, AttributeValue] = {
            names.ACC_APPROVAL_REQUEST_ID: request.id,
            names.ACC_APPROVAL_DECISION: answer.verdict.value,
            names.ACC_APPROVAL_WAIT_SECONDS: wait,
            names.GEN_AI_AGENT_NAME: request.agent,
        }
        if request.tool:
            attributes[names.GEN_AI_TOOL_NAME] = request.tool
        span.add_event(names.ACC_APPROVAL, attributes)
        labels = {names.ACC_APPROVAL_DECISION: answer.verdict.value}
        tracer.observe(names.METRIC_APPROVAL_WAIT, wait, labels)


# Content


def _messages(messages: Sequence[ChatMessage]) -> str:
    """Return messages as JSON in the form of the conventions, without secrets."""
    return _json(
        [
            {"role": message.role, "parts": [_part(part) for part in message.parts]}
            for message in messages
        ]
    )


def _part(part: Part) -> dict[str, Any]:
    if part.call is not None:
        call = part.call
        return {
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }
    if part.result is not None:
        result = part.result
        return {"type": "tool_call_response", "id": result.call_id, "response": result.content}
    if part.text is not None:
        return {"type": "text", "content": part.text}
    if part.data is not None or part.is_null:
        return {"type": "text", "content": msgspec.json.encode(part.data).decode()}
    size = 0 if part.raw is None else len(part.raw)
    return {"type": "file", "media_type": part.media_type, "url": part.url or "", "bytes": size}


def _json(value: object) -> str:
    return redact_secrets(msgspec.json.encode(value, enc_hook=str).decode())
