"""Agents of acc that tests name as `python:agents_under_test:NAME`."""

import asyncio
import time
from typing import Any

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.agents.router import RouterAgent
from acc.application.agents.workflow import SequentialAgent
from acc.application.tools.function_tool import tool
from acc.bootstrap.memory import acc_memory
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

lone = LlmAgent(name="assistant", memory="acc")
transcript = LlmAgent(name="assistant")
shared_memory = LlmAgent(name="assistant", memory=acc_memory())


def made() -> LlmAgent:
    return LlmAgent(name="assistant", memory=acc_memory())


def none() -> str:
    return "no agent"


def answer(query: str) -> str:
    return f"heard: {query}"


class Echo(BaseAgent):
    def __init__(self) -> None:
        super().__init__(name="echo")

    async def run(self, ctx: Any) -> str:
        return f"echo: {ctx.message}"


class Choosy(Echo):
    async def run(self, ctx: Any) -> str:
        if "bill" in ctx.message:
            ctx.reject("not my job")
        return await super().run(ctx)

    def __post_init__(self) -> None:
        self.name = "choosy"
        super().__post_init__()


class Sleepy(Echo):
    async def run(self, ctx: Any) -> str:
        if "Sleep" in ctx.message:
            time.sleep(1.2)  # noqa: ASYNC251 - which no clock of the loop can end
        return await super().run(ctx)


class Moody:
    """Answers, unless the query tells it not to."""

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self.calls += 1
        if "break" in prompt.query:
            raise ConnectionError("the line is dead")
        if "sleep" in prompt.query:
            await asyncio.sleep(60)
        users = sum(message.role == "user" for message in prompt.earlier)
        return ModelResponse(text=f"{users} earlier, now: {prompt.query}")


mood = Moody()
moody = LlmAgent(name="moody", model=mood)
moody_acc = LlmAgent(name="moody", model=mood, memory="acc")
moody_pair = SequentialAgent(
    name="pair", sub_agents=[Echo(), LlmAgent(name="moody_second", model=mood)]
)


@tool(confirm="May it be sent?")
def send_report(email: str) -> dict[str, Any]:
    """Send the report to an e-mail address."""
    return {"sent": True}


@tool
def find_lead(question: str) -> str:
    """Look up who leads an incident."""
    return "The lead is Mara."


asks_a_person = LlmAgent(name="careful", tools=[send_report])


def tree() -> RouterAgent:
    return RouterAgent(
        name="router",
        intents={"pair": ["who leads the incident", "lead"]},
        sub_agents=[
            SequentialAgent(
                name="pair",
                sub_agents=[
                    LlmAgent(name="clerk", tools=[find_lead]),
                    LlmAgent(name="speaker", memory="acc"),
                ],
            ),
            LlmAgent(name="other", memory="retrieval"),
        ],
        default="other",
    )
