"""Agents of pydantic-ai as agents of acc, and ACC memory as their capability."""

from collections.abc import AsyncIterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import (
    CachePoint,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryPromptPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from acc.application.agents.framework import (
    FrameworkAgent,
    FrameworkEvents,
    FrameworkRequest,
    FrameworkResult,
    FrameworkTurn,
    agent_name,
)
from acc.application.memory.history import HistoryMemory
from acc.application.memory.messages import part_text
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part

_USER_PARTS = (UserPromptPart,)
_RESULT_PARTS = (ToolReturnPart, RetryPromptPart)


class PydanticMessages:
    """Translates the messages of pydantic-ai; implements MessageCodec."""

    def is_instruction(self, message: ModelMessage) -> bool:
        """Return True for a request of system prompts, as `split_requests` returns them."""
        return isinstance(message, ModelRequest) and _has(message, (SystemPromptPart,))

    def starts_turn(self, message: ModelMessage) -> bool:
        """Return True for a request with a prompt of the user."""
        return isinstance(message, ModelRequest) and _has(message, _USER_PARTS)

    def decode(self, messages: Sequence[ModelMessage]) -> list[ChatMessage]:
        """Return messages of pydantic-ai as ours; system prompts are left out."""
        return [one for message in messages for one in _decode(message)]

    def encode(self, messages: Sequence[ChatMessage]) -> list[ModelMessage]:
        """Return our messages as those of pydantic-ai; results of one response stay together."""
        encoded: list[ModelMessage] = []
        is_after_result = False
        for message in messages:
            if message.role == "assistant":
                encoded.append(ModelResponse(parts=list(_response_parts(message))))
            elif message.role == "user":
                encoded.append(ModelRequest(parts=[UserPromptPart(_text(message))]))
            else:
                parts = [_result_part(result) for result in message.results]
                if is_after_result:
                    parts = [*encoded.pop().parts, *parts]
                encoded.append(ModelRequest(parts=parts))
            is_after_result = message.role == "tool"
        return encoded


def split_requests(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return messages in which system prompts, results and prompts are requests of their own."""
    separate: list[ModelMessage] = []
    for message in messages:
        if not isinstance(message, ModelRequest) or len(set(map(_kind, message.parts))) <= 1:
            separate.append(message)
            continue
        for kind in ("system", "result", "user"):
            parts = [part for part in message.parts if _kind(part) == kind]
            if parts:
                separate.append(replace(message, parts=parts))
    return separate


def _kind(part: Any) -> str:
    if isinstance(part, SystemPromptPart):
        return "system"
    return "result" if isinstance(part, _RESULT_PARTS) else "user"


def _has(message: ModelRequest, kinds: tuple[type[Any], ...]) -> bool:
    return any(isinstance(part, kinds) for part in message.parts)


def _decode(message: ModelMessage) -> Iterator[ChatMessage]:
    if isinstance(message, ModelResponse):
        texts = [part.content for part in message.parts if isinstance(part, TextPart)]
        calls = [
            Part(call=ToolCall(id=p.tool_call_id, name=p.tool_name, arguments=p.args_as_dict()))
            for p in message.parts
            if isinstance(p, ToolCallPart)
        ]
        text = "".join(texts)
        parts = (*(text_part(text) if text or not calls else ()), *calls)
        yield ChatMessage(role="assistant", author="assistant", parts=parts)
        return
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            yield ChatMessage(role="user", author="user", parts=text_part(_prompt_text(part)))
        elif isinstance(part, ToolReturnPart) or (
            isinstance(part, RetryPromptPart) and part.tool_name
        ):
            result = ToolResult(
                call_id=part.tool_call_id,
                name=part.tool_name or "tool",
                content=part.model_response()
                if isinstance(part, RetryPromptPart)
                else part.model_response_str(),
                is_error=isinstance(part, RetryPromptPart),
            )
            yield ChatMessage(role="tool", author=result.name, parts=(Part(result=result),))


def _prompt_text(part: UserPromptPart) -> str:
    """Return the text of a prompt; an image or file becomes a note such as `[image-url]`."""
    if isinstance(part.content, str):
        return part.content
    texts = [
        item.content if isinstance(item, TextContent) else item
        for item in part.content
        if not isinstance(item, CachePoint)
    ]
    return "\n".join(
        one if isinstance(one, str) else f"[{getattr(one, 'kind', 'content')}]" for one in texts
    )


def _text(message: ChatMessage) -> str:
    return "\n".join(map(part_text, message.parts))


def _response_parts(message: ChatMessage) -> Iterator[Any]:
    if message.text or not message.calls:
        yield TextPart(message.text)
    for call in message.calls:
        yield ToolCallPart(call.name, dict(call.arguments), tool_call_id=call.id)


def _result_part(result: ToolResult) -> Any:
    return ToolReturnPart(result.name, result.content, tool_call_id=result.call_id)


@dataclass
class AccCapability(AbstractCapability[Any]):
    """Replaces the messages of a model request by a bounded memory."""

    memory: HistoryMemory

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the memory; the history of the run is not changed."""
        messages = await self.memory.select(
            split_requests(request_context.messages),
            PydanticMessages(),
            session_id=ctx.conversation_id or "",
        )
        return replace(request_context, messages=messages)

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        """Note the answer of the turn."""
        if not any(isinstance(part, ToolCallPart) for part in response.parts):
            text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
            await self.memory.note_answer(text, session_id=ctx.conversation_id or "")
        return response


@dataclass(kw_only=True, eq=False)
class PydanticAIAgent(FrameworkAgent):
    """An agent of pydantic-ai as an agent of acc, anywhere in an agent tree.

    Tools that require approval pause the run; so do external tools, whose result is the value of
    the answer. `deps` of the run are those of the agent. `name` is by default that of the agent.
    """

    framework = "pydantic-ai"

    agent: Any = field(default=None, kw_only=False)
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, AbstractAgent):
            raise InvalidTree(
                "PydanticAIAgent needs an agent of pydantic-ai, such as pydantic_ai.Agent(...), "
                f"got {type(self.agent).__name__}"
            )
        self.name = self.name or agent_name(self.agent.name, "agent")
        super().__post_init__()

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        """Run the agent until it answers or asks."""
        history = turn.checkpoint
        result = await self.agent.run(
            None if turn.answers else turn.message,
            output_type=self._output_type(),
            message_history=ModelMessagesTypeAdapter.validate_python(history) if history else None,
            deferred_tool_results=_results(turn) if turn.answers else None,
            conversation_id=turn.session_id,
            deps=turn.deps,
            capabilities=[_Recorder(events)],
            event_stream_handler=_Stream(events).handle if turn.is_streamed else None,
        )
        output = result.output
        asked = isinstance(output, DeferredToolRequests)
        return FrameworkResult(
            answer="" if asked else output,
            checkpoint=ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json"),
            requests=tuple(_requests(output)) if asked else (),
        )

    def _output_type(self) -> Any:
        """Return the output type that lets tools ask; None for that of the agent.

        pydantic-ai rejects another output type for an agent with output validators. Its tools can
        ask if its own output type contains `DeferredToolRequests`.
        """
        inner = self.agent
        while isinstance(inner, WrapperAgent):
            inner = inner.wrapped
        # There is no public way to find out.
        if getattr(inner, "_output_validators", None):
            return None
        return [self.agent.output_type, DeferredToolRequests]


class _Stream:
    def __init__(self, events: FrameworkEvents) -> None:
        self._events = events

    async def handle(self, ctx: RunContext[Any], stream: AsyncIterable[Any]) -> None:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                self._events.delta(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                self._events.delta(event.delta.content_delta)


@dataclass
class _Recorder(AbstractCapability[Any]):
    """Reports model calls and tool calls of an agent."""

    events: FrameworkEvents

    def get_ordering(self) -> Any:
        return None

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        sent = split_requests(request_context.messages)
        codec = PydanticMessages()
        starts = [index for index, message in enumerate(sent) if codec.starts_turn(message)]
        earlier = sent[: starts[-1]] if starts else sent
        texts = [part_text(p) for message in codec.decode(earlier) for p in message.parts]
        parameters = request_context.model_request_parameters
        texts += [part.content for part in parameters.instruction_parts or ()]
        self.events.model_started(texts)
        return request_context

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        usage = response.usage
        self.events.model_ended(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached=usage.cache_read_tokens,
        )
        return response

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        self.events.tool_started(call.tool_call_id, call.tool_name, args)
        try:
            result = await handler(args)
        except (ApprovalRequired, CallDeferred):
            raise
        except Exception as error:
            self.events.tool_ended(call.tool_call_id, str(error), is_error=True)
            raise
        self.events.tool_ended(call.tool_call_id, result)
        return result


def _requests(asked: DeferredToolRequests) -> Iterator[FrameworkRequest]:
    for kind, calls in (
        (RequestKind.CONFIRMATION, asked.approvals),
        (RequestKind.OUTCOME, asked.calls),
    ):
        for call in calls:
            is_approval = kind is RequestKind.CONFIRMATION
            yield FrameworkRequest(
                key=call.tool_call_id,
                kind=kind,
                message=f"May {call.tool_name!r} be called?"
                if is_approval
                else f"What is the result of {call.tool_name!r}?",
                tool=call.tool_name,
                arguments=call.args_as_dict(),
            )


def _results(turn: FrameworkTurn) -> DeferredToolResults:
    results = DeferredToolResults()
    for request, answer in turn.answers:
        approved = answer.verdict is ApprovalDecision.APPROVE
        if request.kind is RequestKind.OUTCOME:
            results.calls[request.key] = answer.value if approved else {"error": answer.reason}
        elif approved:
            arguments = None if answer.arguments is None else dict(answer.arguments)
            results.approvals[request.key] = ToolApproved(override_args=arguments)
        else:
            results.approvals[request.key] = ToolDenied(answer.reason or answer.verdict.value)
    return results
