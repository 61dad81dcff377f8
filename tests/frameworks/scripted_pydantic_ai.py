"""An agent of pydantic-ai with a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

import script
from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage
from recording import Sent

RESULT_KINDS = ("tool-return", "retry-prompt")


def as_texts(messages: list[ModelMessage]) -> list[script.Message]:
    """Return the messages that the model gets as the script knows them."""
    texts: list[script.Message] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                texts.append(script.Message("user", str(part.content)))
            elif isinstance(part, ToolReturnPart):
                texts.append(script.Message("tool", part.model_response_str()))
            elif part.part_kind == "retry-prompt":
                texts.append(script.Message("tool", str(part.content)))
            elif isinstance(part, TextPart):
                texts.append(script.Message("assistant", part.content))
    return texts


class Scripted:
    """Answers as the script says, and keeps the requests that it got."""

    def __init__(self) -> None:
        self.requests: list[list[ModelMessage]] = []

    def reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        answer = script.reply(as_texts(messages))
        part: Any = (
            TextPart(answer)
            if isinstance(answer, str)
            else ToolCallPart(answer.name, answer.arguments, f"call-{len(messages)}")
        )
        usage = RequestUsage(input_tokens=script.INPUT_TOKENS, output_tokens=script.OUTPUT_TOKENS)
        return ModelResponse(parts=[part], usage=usage)

    async def stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        (part,) = self.reply(messages, info).parts
        if isinstance(part, TextPart):
            for index, word in enumerate(part.content.split(" ")):
                yield f" {word}" if index else word
        elif isinstance(part, ToolCallPart):
            yield {
                0: DeltaToolCall(
                    name=part.tool_name,
                    json_args=part.args_as_json_str(),
                    tool_call_id=part.tool_call_id,
                )
            }


def broken() -> str:
    """Fail."""
    try:
        return script.broken()
    except RuntimeError as error:
        raise ModelRetry(str(error)) from error


def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def build_agent(**options: Any) -> tuple[Agent[Any, str], Scripted]:
    """Return an agent and its model."""
    scripted = Scripted()
    agent = Agent(
        FunctionModel(scripted.reply, stream_function=scripted.stream),
        name="desk",
        tools=[script.add, broken, Tool(delete, requires_approval=True)],
        **options,
    )
    return agent, scripted


def make_agent(name: str) -> Any:
    """Return the agent as an agent of acc."""
    from acc.frameworks import PydanticAIAgent

    return PydanticAIAgent(build_agent()[0], name=name)


agent = build_agent()[0]


class MemoryConversation:
    """A conversation of an agent of pydantic-ai with ACC memory, or without it for comparison."""

    def __init__(
        self,
        store: str = "memory",
        *,
        session_id: str = "a",
        has_memory: bool = True,
        **options: Any,
    ) -> None:
        from acc.frameworks.pydantic_ai import AccMemory

        self.acc_memory = AccMemory(store=store, **options)
        self._agent, self._scripted = build_agent(
            capabilities=[self.acc_memory] if has_memory else [],
            system_prompt="You are a helpful desk.",
        )
        self._history: list[ModelMessage] = []
        self._session_id = session_id

    async def send(self, text: str) -> str:
        result = await self._agent.run(
            text, message_history=self._history, conversation_id=self._session_id
        )
        self._history = result.all_messages()
        return result.output

    async def history(self) -> list[str]:
        """Return the texts of the user's messages that the framework stores."""
        return [m.text for m in as_texts(self._history) if m.role == "user"]

    @property
    def requests(self) -> list[list[Sent]]:
        return [[as_sent(message) for message in request] for request in self._scripted.requests]

    def forget_requests(self) -> None:
        self._scripted.requests.clear()

    async def close(self) -> None:
        await self.acc_memory.memory.aclose()


def as_sent(message: ModelMessage) -> Sent:
    """Return a message with the ids of its calls and results."""
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    parts: list[Any] = list(message.parts)
    results = [part.tool_call_id for part in parts if part.part_kind in RESULT_KINDS]
    texts = [str(getattr(part, "content", getattr(part, "args", ""))) for part in message.parts]
    role = "assistant" if isinstance(message, ModelResponse) else "user"
    kinds = {part.part_kind for part in message.parts}
    role = "system" if kinds == {"system-prompt"} else role
    return Sent(role, " ".join(texts), tuple(call.tool_call_id for call in calls), tuple(results))
