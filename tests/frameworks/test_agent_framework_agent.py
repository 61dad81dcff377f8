"""AgentFrameworkAgent: what only its agents have, with the real Agent Framework."""

from typing import Any

import scripted_agent_framework as scripted
from agent_framework import (
    Agent,
    AgentResponse,
    AgentSession,
    BaseAgent,
    Content,
    Message,
    WorkflowBuilder,
)
from pydantic import BaseModel

import acc
from acc.frameworks import AgentFrameworkAgent


class City(BaseModel):
    name: str


class CityClient(scripted.ScriptedClient):
    def _reply(self, messages: Any) -> Content:
        return Content.from_text('{"name": "Oslo"}')


class Echo(BaseAgent):
    """An agent that has no middleware."""

    async def run(
        self, messages: Any = None, *, session: AgentSession | None = None
    ) -> AgentResponse[Any]:
        return AgentResponse(messages=[Message("assistant", [f"echo {messages}"])])


async def test_structured_answer_is_data() -> None:
    agent: Any = Agent(CityClient(), "Name a city.", default_options={"response_format": City})
    result = await acc.Runner(AgentFrameworkAgent(agent, name="desk")).run("Which city?")
    assert result.output == {"name": "Oslo"}


async def test_agent_without_middleware_answers() -> None:
    assert (await acc.Runner(AgentFrameworkAgent(Echo(), name="echo")).run("hi")).text == "echo hi"


async def test_workflow_answers_and_continues_the_conversation() -> None:
    first, _ = scripted.build_agent()
    second = Agent(scripted.ScriptedClient(), "You check answers.", name="check")
    workflow = WorkflowBuilder(start_executor=first).add_edge(first, second).build()
    runner = acc.Runner(AgentFrameworkAgent(workflow.as_agent("flow")))
    assert (await runner.run("hello")).text.startswith("answer 1 to: hello")
    assert "hello again" in (await runner.run("hello again")).text
