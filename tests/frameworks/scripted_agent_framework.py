"""An agent of Microsoft's Agent Framework with a scripted client."""

from collections.abc import AsyncIterator
from typing import Any

import script
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)
from recording import Sent


def as_sent(message: Message) -> Sent:
    """Return a message as the suites know it."""
    calls = [one for one in message.contents if one.type == "function_call"]
    results = [one for one in message.contents if one.type == "function_result"]
    texts = [str(message.text), *(str(call.arguments) for call in calls)]
    for one in results:
        found = one.exception or one.result
        parts = found if isinstance(found, list) else [found]
        texts += [str(getattr(part, "text", part)) for part in parts]
    ids = tuple(call.call_id for call in calls)
    text = " ".join(filter(None, texts))
    return Sent(str(message.role), text, ids, tuple(one.call_id for one in results))


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers as the script says, and keeps the requests that it got."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[Message]] = []

    def _reply(self, messages: Any) -> Content:
        self.requests.append(list(messages))
        sent = [one for one in map(as_sent, messages) if one.role != "system"]
        answer = script.reply([script.Message(one.role, one.text) for one in sent])
        if isinstance(answer, str):
            return Content.from_text(answer)
        return Content.from_function_call(
            f"call-{len(messages)}", answer.name, arguments=answer.arguments
        )

    def _inner_get_response(
        self, *, messages: Any, stream: bool, options: Any, **named: Any
    ) -> Any:
        if stream:
            return ResponseStream(self._stream(messages), finalizer=ChatResponse.from_updates)
        return self._respond(messages)

    async def _respond(self, messages: Any) -> ChatResponse[Any]:
        message = Message(role="assistant", contents=[self._reply(messages)])
        usage: Any = {
            "input_token_count": script.INPUT_TOKENS,
            "output_token_count": script.OUTPUT_TOKENS,
        }
        return ChatResponse(messages=[message], usage_details=usage)

    async def _stream(self, messages: Any) -> AsyncIterator[ChatResponseUpdate]:
        content = self._reply(messages)
        if content.type != "text":
            yield ChatResponseUpdate(role="assistant", contents=[content])
            return
        for number, word in enumerate(str(content.text).split(" ")):
            piece = Content.from_text(f" {word}" if number else word)
            yield ChatResponseUpdate(role="assistant", contents=[piece])


@tool(approval_mode="always_require")
def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def build_agent(**options: Any) -> tuple[Any, ScriptedClient]:
    """Return an agent and its client."""
    client = ScriptedClient()
    agent = Agent(
        client,
        "You are a helpful desk.",
        name="desk",
        tools=[script.add, script.broken, delete],
        **options,
    )
    return agent, client


def make_agent(name: str) -> Any:
    """Return the agent as an agent of acc."""
    from acc.frameworks import AgentFrameworkAgent

    return AgentFrameworkAgent(build_agent()[0], name=name)


agent = build_agent()[0]


class MemoryConversation:
    """A conversation of an agent of the framework with ACC memory, or without it for comparison."""

    def __init__(
        self,
        store: str = "memory",
        *,
        session_id: str = "a",
        has_memory: bool = True,
        **options: Any,
    ) -> None:
        from agent_framework import InMemoryHistoryProvider

        from acc.frameworks.agent_framework import AccProvider

        self.provider = AccProvider(store=store, **options)
        providers = [InMemoryHistoryProvider(), *([self.provider] if has_memory else [])]
        self._agent, self._client = build_agent(context_providers=providers)
        self._session = AgentSession(session_id=session_id)

    async def send(self, text: str) -> str:
        return str((await self._agent.run(text, session=self._session)).text)

    async def history(self) -> list[str]:
        """Return the texts of the user's messages that the framework stores."""
        stored = self._session.state["in_memory"]["messages"]
        return [str(one.text) for one in stored if str(one.role) == "user"]

    @property
    def requests(self) -> list[list[Sent]]:
        return [[as_sent(one) for one in request] for request in self._client.requests]

    def forget_requests(self) -> None:
        self._client.requests.clear()

    async def close(self) -> None:
        await self.provider._memory.aclose()


client = build_agent()[1]
