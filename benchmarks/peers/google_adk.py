"""Google ADK: a runner with services in memory; every turn belongs to a session."""

import warnings
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

from google.adk.agents import LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from peers import stub

DISTRIBUTION = "google-adk"

# Its sequential, parallel and loop agents are deprecated in favour of workflows, but cost less.
warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*Agent is deprecated")

# Without it every answer is met with a line in the log.
USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=9, candidates_token_count=9)


class StubModel(BaseLlm):
    """Answers, or with `tool` asks for the tool every other time."""

    model: str = "stub"
    tool: bool = False
    calls: bool = False

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        stub.asked(len(llm_request.contents))
        self.calls = self.tool and not self.calls
        part = types.Part(text=stub.ANSWER)
        if self.calls:
            part = types.Part.from_function_call(name=stub.TOOL, args={"city": stub.CITY})
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=USAGE)


def _agent(name: str = "agent", *, tool: bool = False) -> LlmAgent:
    return LlmAgent(
        name=name,
        model=StubModel(tool=tool),
        instruction=stub.INSTRUCTION,
        tools=[stub.weather] if tool else [],
    )


async def _run(runner: InMemoryRunner, session_id: str, message: str) -> str:
    content = types.Content(role="user", parts=[types.Part(text=message)])
    text = ""
    async for event in runner.run_async(user_id="user", session_id=session_id, new_message=content):
        if event.content and event.content.parts and event.content.parts[-1].text:
            text = event.content.parts[-1].text
    return text


def _turn(agent: Any) -> stub.Turn:
    runner = InMemoryRunner(agent, app_name="app")
    numbers = count()

    async def turn() -> str:
        name = f"session-{next(numbers)}"
        await runner.session_service.create_session(app_name="app", user_id="user", session_id=name)
        return await _run(runner, name, stub.QUESTION)

    return turn


def one_turn() -> stub.Turn:
    return _turn(_agent())


def tool_turn() -> stub.Turn:
    return _turn(_agent(tool=True))


def sequential() -> stub.Turn:
    return _turn(SequentialAgent(name="all", sub_agents=[_agent(name) for name in "abc"]))


def parallel() -> stub.Turn:
    return _turn(ParallelAgent(name="all", sub_agents=[_agent(name) for name in "abc"]))


def loop() -> stub.Turn:
    return _turn(LoopAgent(name="all", sub_agents=[_agent()], max_iterations=5))


def session() -> stub.Talk:
    runner = InMemoryRunner(_agent(), app_name="app")
    started = False

    async def turn(message: str) -> str:
        nonlocal started
        if not started:
            started = True
            await runner.session_service.create_session(
                app_name="app", user_id="user", session_id="long"
            )
        return await _run(runner, "long", message)

    return turn
