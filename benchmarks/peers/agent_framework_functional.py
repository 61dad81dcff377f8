"""Microsoft Agent Framework with its functional workflows, which it still calls experimental."""

import asyncio
import warnings
from typing import Any

from agent_framework import Agent, workflow

from peers import stub
from peers.agent_framework_core import DISTRIBUTION, StubClient, one_turn, session, tool_turn

__all__ = ["DISTRIBUTION", "loop", "one_turn", "parallel", "sequential", "session", "tool_turn"]

warnings.filterwarnings("ignore", message=".*experimental")


def _agent() -> Agent[Any]:
    return Agent(StubClient(), instructions=stub.INSTRUCTION)


async def _run(agent: Agent[Any], message: str) -> str:
    return str((await agent.run(message)).text)


def _turn(definition: Any) -> stub.Turn:
    built = definition.build()

    async def turn() -> str:
        return str((await built.run(stub.QUESTION)).get_outputs()[-1])

    return turn


def sequential() -> stub.Turn:
    agents = [_agent() for _ in range(3)]

    @workflow
    async def in_a_row(message: str) -> str:
        for agent in agents:
            message = await _run(agent, message)
        return message

    return _turn(in_a_row)


def parallel() -> stub.Turn:
    agents = [_agent() for _ in range(3)]

    @workflow
    async def at_once(message: str) -> str:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run(agent, message)) for agent in agents]
        return "\n".join(task.result() for task in tasks)

    return _turn(at_once)


def loop() -> stub.Turn:
    agent = _agent()

    @workflow
    async def again(message: str) -> str:
        for _ in range(5):
            message = await _run(agent, message)
        return message

    return _turn(again)
