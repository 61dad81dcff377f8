"""ACC memory as middleware of LangChain agents."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.config import get_config

from acc.application.memory.history import HistoryMemory
from acc.application.memory.messages import content_text
from acc.application.runtime.background_loop import run_in_background
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part


class LangChainMessages:
    """Translates the messages of LangChain; implements MessageCodec."""

    def is_instruction(self, message: BaseMessage) -> bool:
        """Return True for a system message."""
        return isinstance(message, SystemMessage)

    def starts_turn(self, message: BaseMessage) -> bool:
        """Return True for a human message."""
        return isinstance(message, HumanMessage)

    def decode(self, messages: Sequence[BaseMessage]) -> list[ChatMessage]:
        """Return messages of LangChain as ours; system messages are left out."""
        return [
            ChatMessage(role=role, author=author, parts=parts)
            for message in messages
            for role, author, parts in _decode(message)
        ]

    def encode(self, messages: Sequence[ChatMessage]) -> list[BaseMessage]:
        """Return our messages as those of LangChain."""
        return [one for message in messages for one in _encode(message)]


def _decode(message: BaseMessage) -> list[Any]:
    if isinstance(message, ToolMessage):
        result = ToolResult(
            call_id=message.tool_call_id,
            name=message.name or "tool",
            content=str(message.text),
            is_error=message.status == "error",
        )
        return [("tool", result.name, (Part(result=result),))]
    if isinstance(message, HumanMessage):
        return [("user", "user", text_part(_user_text(message)))]
    if not isinstance(message, AIMessage):
        return []
    calls = [
        Part(call=ToolCall(id=call["id"] or "", name=call["name"], arguments=call["args"]))
        for call in message.tool_calls
    ]
    text = text_part(str(message.text)) if str(message.text) or not calls else ()
    return [("assistant", "assistant", (*text, *calls))]


def _user_text(message: HumanMessage) -> str:
    """Return the text of a message; an image or file becomes a note such as `[image]`."""
    if isinstance(message.content, str):
        return message.content
    blocks = [{"text": one} if isinstance(one, str) else one for one in message.content]
    return "\n".join(str(one.get("text") or f"[{one.get('type', 'file')}]") for one in blocks)


def _encode(message: ChatMessage) -> list[BaseMessage]:
    if message.role == "user":
        return [HumanMessage(message.text)]
    if message.role == "assistant":
        calls = [
            {"id": call.id, "name": call.name, "args": dict(call.arguments)}
            for call in message.calls
        ]
        return [AIMessage(message.text, tool_calls=calls)]
    return [
        ToolMessage(
            content_text(result.content),
            tool_call_id=result.call_id,
            name=result.name,
            status="error" if result.is_error else "success",
        )
        for result in message.results
    ]


class AccMiddleware(AgentMiddleware[Any, Any]):
    """Replaces the messages of a model request by a bounded memory."""

    def __init__(self, *, memory: HistoryMemory) -> None:
        super().__init__()
        self._memory = memory
        self._codec = LangChainMessages()

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Call the model with the memory; the state of the agent keeps all messages."""
        session_id = _session_id()
        response = await handler(await self._with_memory(request, session_id))
        await self._note_answer(response, session_id)
        return response

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Call the model with the memory in an agent that runs without `await`."""
        session_id = _session_id()
        selected = self._with_memory(request, session_id)
        response = handler(run_in_background(selected, instead="agent.ainvoke(...)"))
        run_in_background(self._note_answer(response, session_id), instead="agent.ainvoke(...)")
        return response

    async def _with_memory(self, request: ModelRequest, session_id: str) -> ModelRequest:
        messages = await self._memory.select(request.messages, self._codec, session_id=session_id)
        return request.override(messages=messages)

    async def _note_answer(self, response: Any, session_id: str) -> None:
        answer = response.result[-1] if getattr(response, "result", None) else response
        if isinstance(answer, AIMessage) and not answer.tool_calls:
            await self._memory.note_answer(str(answer.text), session_id=session_id)


def _session_id() -> str:
    return str(get_config().get("configurable", {}).get("thread_id") or "")
