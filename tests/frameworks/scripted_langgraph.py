"""A LangGraph graph with a cycle and a scripted chat model."""

from collections.abc import Callable, Iterator
from typing import Any

import script
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from recording import Sent

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


class MemoryConversation:
    """A conversation of a LangChain agent with ACC memory, or without it for comparison."""

    def __init__(
        self,
        store: str = "memory",
        *,
        session_id: str = "a",
        has_memory: bool = True,
        **options: Any,
    ) -> None:
        from langchain.agents import create_agent

        from acc.frameworks.langchain import AccMemory

        self.model = ScriptedChatModel(requests=[])
        self.memory = AccMemory(store=store, **options)
        self._agent = create_agent(
            self.model,
            tools=TOOLS,
            system_prompt="You are a helpful desk.",
            middleware=[self.memory] if has_memory else [],
            checkpointer=InMemorySaver(),
        )
        self._config: Any = {"configurable": {"thread_id": session_id}}

    async def send(self, text: str) -> str:
        state = await self._agent.ainvoke({"messages": [("user", text)]}, self._config)
        return str(state["messages"][-1].text)

    async def history(self) -> list[str]:
        """Return the texts of the user's messages that the framework stores."""
        state = await self._agent.aget_state(self._config)
        return [str(one.text) for one in state.values["messages"] if one.type == "human"]

    @property
    def requests(self) -> list[list[Sent]]:
        return [
            [
                Sent(
                    ROLES[message.type],
                    f"{message.text} {getattr(message, 'tool_calls', '') or ''}",
                    tuple(call["id"] for call in getattr(message, "tool_calls", ())),
                    (message.tool_call_id,) if message.type == "tool" else (),
                )
                for message in request
            ]
            for request in self.model.requests
        ]

    def forget_requests(self) -> None:
        self.model.requests.clear()

    async def close(self) -> None:
        await self.memory._memory.aclose()
