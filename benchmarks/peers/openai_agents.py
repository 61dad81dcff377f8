"""OpenAI Agents SDK: agents in a row, at once or in a loop are plain Python around its runner."""

import asyncio
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from peers import stub

DISTRIBUTION = "openai-agents"

# Not by an import statement: to a type checker the name is that of a benchmark of ours.
sdk: Any = import_module("agents")
Agent, ModelResponse, Runner, Usage = sdk.Agent, sdk.ModelResponse, sdk.Runner, sdk.Usage


class StubModel(sdk.Model):
    """Answers, or with `tool` asks for the tool every other time."""

    def __init__(self, *, tool: bool = False) -> None:
        self._tool = tool
        self._calls = False
        self._number = 0

    async def get_response(
        self, system_instructions: Any, input: Any, *arguments: Any, **named: Any
    ) -> Any:
        stub.asked(len(input))
        self._calls = self._tool and not self._calls
        return ModelResponse(
            output=[self._call() if self._calls else _message()], usage=Usage(), response_id=None
        )

    def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def _call(self) -> ResponseFunctionToolCall:
        self._number += 1
        return ResponseFunctionToolCall(
            call_id=f"call-{self._number}",
            type="function_call",
            name=stub.TOOL,
            arguments=f'{{"city": "{stub.CITY}"}}',
        )


def _message() -> ResponseOutputMessage:
    text = ResponseOutputText(text=stub.ANSWER, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="message", type="message", role="assistant", status="completed", content=[text]
    )


def _agent(name: str = "agent") -> Any:
    return Agent(name=name, model=StubModel(), instructions=stub.INSTRUCTION)


async def _run(agent: Any, message: str) -> str:
    return str((await Runner.run(agent, message)).final_output)


def one_turn() -> stub.Turn:
    agent = _agent()
    return lambda: _run(agent, stub.QUESTION)


def tool_turn() -> stub.Turn:
    agent = Agent(
        name="agent",
        model=StubModel(tool=True),
        instructions=stub.INSTRUCTION,
        tools=[sdk.function_tool(stub.weather)],
    )
    return lambda: _run(agent, stub.QUESTION)


def sequential() -> stub.Turn:
    agents = [_agent(name) for name in "abc"]

    async def turn() -> str:
        text = stub.QUESTION
        for agent in agents:
            text = await _run(agent, text)
        return text

    return turn


def parallel() -> stub.Turn:
    agents = [_agent(name) for name in "abc"]

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
    history: list[Any] = []

    async def turn(message: str) -> str:
        nonlocal history
        done = await Runner.run(agent, [*history, {"role": "user", "content": message}])
        history = done.to_input_list()
        return str(done.final_output)

    return turn
