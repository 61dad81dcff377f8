"""Pydantic AI: agents in a row, at once or in a loop are plain Python around `agent.run`."""

import asyncio
from typing import Any

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model

from peers import stub

DISTRIBUTION = "pydantic-ai-slim"


class StubModel(Model[Any]):
    """Answers, or with `tool` asks for the tool every other time."""

    model_name = "stub"
    system = "stub"

    def __init__(self, *, tool: bool = False) -> None:
        super().__init__()
        self._tool = tool
        self._calls = False

    async def request(self, messages: list[ModelMessage], *arguments: Any) -> ModelResponse:
        stub.asked(len(messages))
        self._calls = self._tool and not self._calls
        if self._calls:
            return ModelResponse(parts=[ToolCallPart(stub.TOOL, {"city": stub.CITY})])
        return ModelResponse(parts=[TextPart(stub.ANSWER)])


def _agent() -> Agent[None, str]:
    return Agent(StubModel(), instructions=stub.INSTRUCTION)


async def _run(agent: Agent[None, str], message: str) -> str:
    return (await agent.run(message)).output


def one_turn() -> stub.Turn:
    agent = _agent()
    return lambda: _run(agent, stub.QUESTION)


def tool_turn() -> stub.Turn:
    agent = Agent(StubModel(tool=True), instructions=stub.INSTRUCTION, tools=[stub.weather])
    return lambda: _run(agent, stub.QUESTION)


def sequential() -> stub.Turn:
    agents = [_agent() for _ in range(3)]

    async def turn() -> str:
        text = stub.QUESTION
        for agent in agents:
            text = await _run(agent, text)
        return text

    return turn


def parallel() -> stub.Turn:
    agents = [_agent() for _ in range(3)]

    async def turn() -> str:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run(agent, stub.QUESTION)) for agent in agents]
        return "\n".join(task.result() for task in tasks)

    return turn


def loop() -> stub.Turn:
    agent = _agent()

    async def turn() -> str:
        text = stub.QUESTION
        for _ in range(5):
            text = await _run(agent, text)
        return text

    return turn


def session() -> stub.Talk:
    agent = _agent()
    history: list[ModelMessage] = []

    async def turn(message: str) -> str:
        nonlocal history
        done = await agent.run(message, message_history=history)
        history = done.all_messages()
        return done.output

    return turn
