"""Served agents with dependencies, plugins, output types and tools that ask."""

from dataclasses import dataclass
from typing import Any

import pytest
from server_harness import read_stream, send_request

from acc import Agent, InvalidInput, Plugin, RunContext, ToolContext, tool
from acc.a2a import create_app
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.principal import ANONYMOUS
from acc.domain.value_objects.task import ArtifactUpdate, Task, TaskState
from acc.testing import ScriptedModel, call


@dataclass
class Deps:
    key: str


@dataclass
class Weather:
    city: str


@tool
async def read_key(ctx: ToolContext[Deps]) -> str:
    """Read the key."""
    return ctx.deps.key


async def send(app: Any, text: str, **options: Any) -> Task:
    answer = await app.serve.send(ANONYMOUS, send_request(text, wait=True, **options))
    assert isinstance(answer, Task)
    return answer


async def test_served_agent_gets_deps_and_plugins_of_the_application() -> None:
    class Shout(Plugin):
        def after_agent_callback(self, ctx: RunContext, text: str) -> str:
            return text.upper()

    model = ScriptedModel(call("read_key"), lambda prompt: "the key is here")
    agent = Agent[Deps, str](name="desk", model=model, tools=[read_key])
    app = create_app(agent, deps=Deps("k-1"), plugins=[Shout()], push=False)
    async with app.serve.open():
        task = await send(app, "go")
    assert [part.text for part in task.artifacts[0].parts] == ["THE KEY IS HERE"]


def test_application_without_the_required_deps_is_rejected() -> None:
    agent = Agent[Deps, str](name="desk", model=ScriptedModel(), tools=[read_key])
    with pytest.raises(InvalidInput, match="needs deps of type Deps; the run has none"):
        create_app(agent)


@pytest.mark.parametrize("modes", [(), ("text/plain",)])
async def test_rejected_output_is_not_sent_to_clients(modes: tuple[str, ...]) -> None:
    long = "x" * 4_000
    model = ScriptedModel(f'{{"city": ["{long}"]}}', '{"city": "Kyoto"}')
    app = create_app(Agent(name="desk", model=model, output_type=Weather), push=False)
    request = send_request("go", accepted_output_modes=modes)
    async with app.serve.open():
        items = await read_stream(await app.serve.stream(ANONYMOUS, request))
    updates = [each.item for each in items]
    artifacts = [update.artifact for update in updates if isinstance(update, ArtifactUpdate)]
    answers = [part.text or part.data for artifact in artifacts for part in artifact.parts]
    assert answers == ([{"city": "Kyoto"}] if not modes else ['{"city": "Kyoto"}'])


async def test_tool_that_asks_makes_the_task_input_required() -> None:
    booked: list[Any] = []

    @tool
    async def book(ctx: ToolContext) -> str:
        """Book."""
        answer = await ctx.ask("Which hotel?", schema={"type": "string"})
        booked.append(answer.value)
        return "booked"

    agent = Agent(name="desk", model=ScriptedModel(call("book"), "done"), tools=[book])
    app = create_app(agent, push=False)
    async with app.serve.open():
        asked = await send(app, "go")
        assert asked.status.state is TaskState.INPUT_REQUIRED
        assert asked.status.message is not None
        assert "Which hotel?" in str(asked.status.message.parts)
        done = await send(app, "Ryokan", task=asked)
    assert done.status.state is TaskState.COMPLETED
    assert booked == ["Ryokan"]
    assert Part(text="done") in done.artifacts[0].parts


@pytest.mark.parametrize("data", [{"amount": 42, "items": [1, None, True]}, ["金額", 42], 7])
async def test_data_part_of_a_caller_reaches_the_model(data: object) -> None:
    model = ScriptedModel("Noted.", "Again.")
    app = create_app(Agent(name="a", model=model, memory="transcript"), push=False)
    async with app.serve.open():
        parts = (Part(text="Check this."), Part(data=data))
        task = await app.serve.send(ANONYMOUS, send_request(parts, wait=True))
        assert isinstance(task, Task)
        await send(app, "And now?", context=task.context_id)
    assert model.requests[0].messages[-1].parts == parts
    assert parts in [message.parts for message in model.requests[1].earlier]
