"""A LangGraph graph with a cycle and a scripted chat model."""

from collections.abc import Callable, Iterator
from typing import Any

import script
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


class ScriptedChatModel(BaseChatModel):
    """Answers as the script says, and keeps the requests that it got."""

    requests: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(list(messages))
        texts = [script.Message(ROLES[message.type], message.text) for message in messages]
        usage = UsageMetadata(
            input_tokens=script.INPUT_TOKENS,
            output_tokens=script.OUTPUT_TOKENS,
            total_tokens=script.INPUT_TOKENS + script.OUTPUT_TOKENS,
        )
        answer = script.reply(texts)
        if isinstance(answer, str):
            return AIMessage(answer, usage_metadata=usage)
        call = {"name": answer.name, "args": answer.arguments, "id": f"call-{len(messages)}"}
        return AIMessage("", tool_calls=[call], usage_metadata=usage)

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _stream(
        self, messages: list[BaseMessage], *arguments: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._reply(messages)
        words = message.text.split(" ")
        for index, word in enumerate(words):
            is_last = index == len(words) - 1
            chunk = AIMessageChunk(
                word if is_last else f"{word} ",
                tool_calls=message.tool_calls if is_last else [],
                usage_metadata=message.usage_metadata if is_last else None,
            )
            yield ChatGenerationChunk(message=chunk)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return script.add(a, b)


@tool
def broken() -> str:
    """Fail."""
    return script.broken()


@tool
def delete(name: str) -> str:
    """Delete a file, if a person agrees."""
    agreed = interrupt({"question": f"Delete {name}?"})
    return f"deleted {name}" if agreed else f"kept {name}"


TOOLS = [add, broken, delete]


def build_graph(model: BaseChatModel | None = None) -> StateGraph[Any, Any, Any, Any]:
    """Return a graph in which model and tools alternate until there is an answer."""
    chat_model = model or ScriptedChatModel()

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await chat_model.ainvoke(state["messages"])]}

    def route(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    builder = StateGraph(MessagesState)
    builder.add_node("model", ask)
    builder.add_node("tools", ToolNode(TOOLS, handle_tool_errors=True))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", route)
    builder.add_edge("tools", "model")
    return builder


def make_agent(name: str) -> Any:
    """Return the graph as an agent of acc."""
    from acc.frameworks import LangGraphAgent

    return LangGraphAgent(build_graph().compile(), name=name)


graph = build_graph().compile()
Factory = Callable[[str], Any]
