"""An agent of ADK with a scripted model."""

from collections.abc import AsyncGenerator
from typing import Any

import script
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types
from recording import Sent

USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=script.INPUT_TOKENS, candidates_token_count=script.OUTPUT_TOKENS
)


def as_sent(content: types.Content) -> Sent:
    """Return a content as the suites know it."""
    parts: Any = content.parts or []
    texts = [part.text for part in parts if part.text]
    calls = [part.function_call for part in parts if part.function_call]
    results = [part.function_response for part in parts if part.function_response]
    texts += [str(call.args) for call in calls]
    texts += [str(one.response.get("result", one.response)) for one in results]
    role = "tool" if results else "user" if content.role == "user" else "assistant"
    ids = tuple(call.id or call.name for call in calls)
    return Sent(role, " ".join(texts), ids, tuple(one.id or one.name for one in results))


class ScriptedModel(BaseLlm):
    """Answers as the script says, and keeps the requests that it got."""

    model: str = "scripted"
    requests: list[Any] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = list(llm_request.contents)
        self.requests.append(contents)
        answer = script.reply([script.Message(m.role, m.text) for m in map(as_sent, contents)])
        if isinstance(answer, str):
            part = types.Part(text=answer)
            for number, word in enumerate(answer.split(" ") if stream else ()):
                piece = types.Part(text=f" {word}" if number else word)
                content = types.Content(role="model", parts=[piece])
                yield LlmResponse(content=content, partial=True)
        else:
            part = types.Part.from_function_call(name=answer.name, args=answer.arguments)
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, usage_metadata=USAGE)


def broken() -> dict[str, str]:
    """Fail."""
    try:
        return {"result": script.broken()}
    except RuntimeError as error:
        return {"error": str(error)}


def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def build_agent() -> tuple[Any, ScriptedModel]:
    """Return an agent and its model."""
    model = ScriptedModel(requests=[])
    tools = [script.add, broken, FunctionTool(delete, require_confirmation=True)]
    agent = LlmAgent(name="desk", model=model, tools=tools, instruction="You are a helpful desk.")
    return agent, model


def make_agent(name: str) -> Any:
    """Return the agent as an agent of acc."""
    from acc.frameworks import AdkAgent

    return AdkAgent(build_agent()[0], name=name)


agent = build_agent()[0]


class MemoryConversation:
    """A conversation of an agent of ADK with ACC memory, or without it for comparison."""

    def __init__(
        self,
        store: str = "memory",
        *,
        session_id: str = "a",
        has_memory: bool = True,
        **options: Any,
    ) -> None:
        from acc.frameworks.google_adk import AccPlugin

        self.plugin = AccPlugin(store=store, **options)
        root, self._model = build_agent()
        plugins = [self.plugin] if has_memory else []
        self._runner = InMemoryRunner(app=App(name="app", root_agent=root, plugins=plugins))
        self._session: Any = None
        self._session_id = session_id

    async def send(self, text: str) -> str:
        service = self._runner.session_service
        ids = {"user_id": "user", "session_id": self._session_id}
        if self._session is None:
            self._session = await service.create_session(app_name="app", **ids)
        message = types.Content(role="user", parts=[types.Part(text=text)])
        answer = ""
        async for event in self._runner.run_async(**ids, new_message=message):
            if event.is_final_response() and event.content:
                answer = event.content.parts[0].text or ""
        return answer

    async def history(self) -> list[str]:
        """Return the texts of the user's messages that the framework stores."""
        session = await self._runner.session_service.get_session(
            app_name="app", user_id="user", session_id=self._session_id
        )
        return [e.content.parts[0].text for e in session.events if e.author == "user"]

    @property
    def requests(self) -> list[list[Sent]]:
        return [[as_sent(content) for content in request] for request in self._model.requests]

    def forget_requests(self) -> None:
        self._model.requests.clear()

    async def close(self) -> None:
        await self.plugin._memory.aclose()
