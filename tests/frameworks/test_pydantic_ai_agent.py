"""PydanticAIAgent: what only agents of pydantic-ai have, with the real pydantic-ai."""

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ImageUrl, ModelRetry
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

import acc
from acc.frameworks import PydanticAIAgent
from acc.frameworks.pydantic_ai import AccMemory


class City(BaseModel):
    name: str


@pytest.mark.parametrize("is_wrapped", [False, True])
async def test_output_validators_of_the_agent_are_used(is_wrapped: bool) -> None:
    names = iter(["oslo", "Oslo"])

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        (tool,) = info.output_tools
        return ModelResponse(parts=[ToolCallPart(tool.name, {"name": next(names)})])

    agent = Agent(FunctionModel(reply), output_type=City)

    @agent.output_validator
    def check(city: City) -> City:
        if city.name.islower():
            raise ModelRetry("write names with a capital letter")
        return city

    target = WrapperAgent(agent) if is_wrapped else agent
    result = await acc.Runner(PydanticAIAgent(target, name="desk")).run("Which city?")
    assert result.output == {"name": "Oslo"}


async def test_agent_with_validators_asks_if_its_output_type_allows_it() -> None:
    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            (tool,) = info.output_tools
            return ModelResponse(parts=[ToolCallPart(tool.name, {"name": str(last.content)})])
        return ModelResponse(parts=[ToolCallPart("move", {"to": "Oslo"})])

    agent: Agent[None, City | DeferredToolRequests] = Agent(
        FunctionModel(reply), output_type=[City, DeferredToolRequests]
    )
    agent.output_validator(lambda output: output)

    @agent.tool_plain(requires_approval=True)
    def move(to: str) -> str:
        return to

    runner = acc.Runner(PydanticAIAgent(agent, name="desk"))
    paused = await runner.run("Move.")
    result = await runner.resume(acc.approve(paused.requests[0]))
    assert result.output == {"name": "Oslo"}


async def test_memory_has_a_note_of_an_image() -> None:
    requests: list[list[ModelMessage]] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(messages)
        return ModelResponse(parts=[TextPart("A lamp.")])

    agent = Agent(FunctionModel(reply), capabilities=[AccMemory()])
    seen = await agent.run([ImageUrl("https://example.com/lamp.png")])
    await agent.run("What was it?", message_history=seen.all_messages())
    parts = [part for one in requests[-1] for part in one.parts]
    sent = [part.content for part in parts if isinstance(part, UserPromptPart)]
    assert sent == ["[image-url]", "What was it?"]
