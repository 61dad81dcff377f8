"""Agents of Microsoft's Agent Framework as agents of acc, and ACC memory as their provider."""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_framework import (
    AgentSession,
    BaseAgent,
    ChatContext,
    ChatMiddleware,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    FunctionMiddleware,
    Message,
)

from acc.application.agents.framework import (
    FrameworkAgent,
    FrameworkEvents,
    FrameworkRequest,
    FrameworkResult,
    FrameworkTurn,
    agent_name,
)
from acc.application.memory.history import HistoryMemory
from acc.application.memory.messages import content_text, part_text
from acc.domain.errors import InvalidTree
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part


class AgentFrameworkMessages:
    """Translates the messages of the Agent Framework; implements MessageCodec."""

    def is_instruction(self, message: Message) -> bool:
        """Return True for a system message."""
        return str(message.role) == "system"

    def starts_turn(self, message: Message) -> bool:
        """Return True for a text of the user."""
        return str(message.role) == "user" and bool(message.text)

    def decode(self, messages: Sequence[Message]) -> list[ChatMessage]:
        """Return messages of the framework as ours; system messages are left out."""
        return [one for message in messages for one in _decode(message)]

    def encode(self, messages: Sequence[ChatMessage]) -> list[Message]:
        """Return our messages as those of the framework."""
        return [Message(message.role, list(_encode(message))) for message in messages]


def _decode(message: Message) -> Iterator[ChatMessage]:
    results = [one for one in message.contents if one.type == "function_result"]
    for content in results:
        result = ToolResult(
            call_id=content.call_id,
            name="tool",
            content=content.exception or _result_text(content.result),
            is_error=content.exception is not None,
        )
        yield ChatMessage(role="tool", author="tool", parts=(Part(result=result),))
    role = str(message.role)
    calls = [
        Part(call=ToolCall(id=one.call_id, name=one.name, arguments=one.parse_arguments() or {}))
        for one in message.contents
        if one.type == "function_call"
    ]
    if role in ("user", "assistant") and (message.text or calls):
        text = text_part(str(message.text)) if message.text else ()
        known: Any = role
        yield ChatMessage(role=known, author=role, parts=(*text, *calls))


def _result_text(result: Any) -> str:
    if isinstance(result, list):
        return "\n".join(str(getattr(one, "text", one)) for one in result)
    return content_text(result)


def _encode(message: ChatMessage) -> Iterator[Content]:
    for part in message.parts:
        if part.call is not None:
            yield Content.from_function_call(
                part.call.id, part.call.name, arguments=json.dumps(part.call.arguments, default=str)
            )
        elif part.result is not None:
            yield Content.from_function_result(
                part.result.call_id, result=content_text(part.result.content)
            )
        else:
            yield Content.from_text(part_text(part))


class _MemoryMiddleware(ChatMiddleware):
    """Replaces the messages of one model call."""

    def __init__(self, memory: HistoryMemory, session_id: str) -> None:
        self._memory = memory
        self._session_id = session_id

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        context.messages = await self._memory.select(
            context.messages, AgentFrameworkMessages(), session_id=self._session_id
        )
        await call_next()


class AccContextProvider(ContextProvider):
    """Replaces the messages of model calls by a bounded memory."""

    def __init__(self, *, memory: HistoryMemory) -> None:
        super().__init__("acc_memory")
        self._memory = memory

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: Any, state: dict[str, Any]
    ) -> None:
        """Put the memory into the model calls of a run; its history is not changed."""
        middleware = _MemoryMiddleware(self._memory, session.session_id)
        context.extend_middleware(self.source_id, [middleware])


@dataclass(kw_only=True, eq=False)
class AgentFrameworkAgent(FrameworkAgent):
    """An agent of Microsoft's Agent Framework as an agent of acc, anywhere in an agent tree.

    Tools with `approval_mode="always_require"` pause the run. `name` is by default that of the
    agent. Model calls and tool calls are reported by agents whose `run` takes `middleware`.
    """

    framework = "agent-framework"

    agent: Any = field(default=None, kw_only=False)
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.agent, BaseAgent):
            raise InvalidTree(
                "AgentFrameworkAgent needs an agent of the Agent Framework, such as "
                f"agent_framework.Agent(...), got {type(self.agent).__name__}"
            )
        self.name = self.name or agent_name(self.agent.name, "agent")
        super().__post_init__()

    async def invoke(self, turn: FrameworkTurn, events: FrameworkEvents) -> FrameworkResult:
        """Run the agent until it answers or asks."""
        stored = turn.checkpoint or {}
        session = AgentSession(session_id=turn.session_id)
        if stored:
            session = AgentSession.from_dict(stored["session"])
        options: dict[str, Any] = {"session": session}
        # Workflows and classes of the developer have no middleware, so they report only answers.
        if "middleware" in inspect.signature(self.agent.run).parameters:
            options["middleware"] = [_ModelRecorder(events), _ToolRecorder(events)]
        message = _message(turn, stored)
        if turn.is_streamed:
            stream = self.agent.run(message, stream=True, **options)
            async for update in stream:
                events.delta(update.text)
            response = await stream.get_final_response()
        else:
            response = await self.agent.run(message, **options)
        asked = list(response.user_input_requests)
        checkpoint = {
            "session": json.loads(json.dumps(session.to_dict(), default=str)),
            "asked": [json.loads(json.dumps(one.to_dict(), default=str)) for one in asked],
        }
        return FrameworkResult(
            answer="" if asked else response.text if response.value is None else response.value,
            checkpoint=checkpoint,
            requests=tuple(map(_request, asked)),
        )


class _ModelRecorder(ChatMiddleware):
    """Reports model calls of a run."""

    def __init__(self, events: FrameworkEvents) -> None:
        self._events = events

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        codec, sent = AgentFrameworkMessages(), list(context.messages)
        starts = [index for index, one in enumerate(sent) if codec.starts_turn(one)]
        earlier = sent[: starts[-1]] if starts else sent
        texts = [part_text(p) for message in codec.decode(earlier) for p in message.parts]
        texts += [str(one.text) for one in earlier if codec.is_instruction(one)]
        self._events.model_started([str(context.options.get("instructions") or ""), *texts])
        if context.stream:
            context.stream_result_hooks.append(self._count)
        await call_next()
        if not context.stream:
            self._count(context.result)

    def _count(self, response: Any) -> Any:
        usage = getattr(response, "usage_details", None) or {}
        self._events.model_ended(
            input_tokens=usage.get("input_token_count") or 0,
            output_tokens=usage.get("output_token_count") or 0,
        )
        return response


class _ToolRecorder(FunctionMiddleware):
    """Reports tool calls of a run."""

    def __init__(self, events: FrameworkEvents) -> None:
        self._events = events
        self._number = 0

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        self._number += 1
        call_id = str(context.metadata.get("call_id") or f"call-{self._number}")
        self._events.tool_started(call_id, context.function.name, context.arguments)
        try:
            await call_next()
        except Exception as error:
            self._events.tool_ended(call_id, str(error), is_error=True)
            raise
        self._events.tool_ended(call_id, _result_text(context.result))


def _request(content: Content) -> FrameworkRequest:
    call = content.function_call
    return FrameworkRequest(
        key=content.id or call.call_id,
        kind=RequestKind.CONFIRMATION,
        message=f"May {call.name!r} be called?",
        tool=call.name,
        arguments=call.parse_arguments() or {},
    )


def _message(turn: FrameworkTurn, stored: Any) -> Any:
    if not turn.answers:
        return turn.message
    asked = {one["id"]: Content.from_dict(one) for one in stored["asked"]}
    responses = [
        asked[given.request.key].to_function_approval_response(
            given.answer.verdict is ApprovalDecision.APPROVE
        )
        for given in turn.answers
    ]
    return Message("user", responses)
