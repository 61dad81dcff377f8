"""OpenAIAgentsAgent: what only agents of the SDK have, with the real OpenAI Agents SDK."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scripted_openai_agents as scripted

import acc
from acc.frameworks import OpenAIAgentsAgent
from acc.frameworks.openai_agents import AccMemory

SECRET = "a-connection-with-a-password"


@dataclass
class Shop:
    """Dependencies that JSON does not know."""

    connection: str
    deleted: list[str]


async def test_approved_tool_gets_the_dependencies_which_are_not_stored(tmp_path: Path) -> None:
    @scripted.sdk.function_tool(needs_approval=True)
    def delete(context: scripted.sdk.RunContextWrapper[Shop], name: str) -> str:
        """Delete a file."""
        context.context.deleted.append(name)
        return f"deleted {name}"

    def agent() -> acc.BaseAgent:
        desk = scripted.sdk.Agent(name="desk", model=scripted.ScriptedModel(), tools=[delete])
        return OpenAIAgentsAgent(desk)

    store, shop = tmp_path / "sessions.db", Shop(SECRET, [])
    runner = acc.Runner(agent(), store=store, deps=shop)
    paused = await runner.run("delete a.txt")
    await runner.services.aclose()
    assert SECRET not in str([event.detail for event in paused.events])
    runner = acc.Runner(agent(), store=store, deps=shop)
    result = await runner.resume(acc.approve(paused.requests[0]))
    assert (result.text, shop.deleted) == ("tool said deleted a.txt", ["a.txt"])
    await runner.services.aclose()


async def test_memory_has_a_note_of_an_image() -> None:
    class Model(scripted.ScriptedModel):
        async def get_response(
            self, system_instructions: Any, input: Any, *arguments: Any, **options: Any
        ) -> Any:
            self.requests.append(list(input))
            question = [{"role": "user", "content": "hello"}]
            return await scripted.ScriptedModel().get_response(system_instructions, question)

    model = Model()
    agent = scripted.sdk.Agent(name="desk", model=model)
    config = scripted.sdk.RunConfig(call_model_input_filter=AccMemory(session_id="a"))
    image = {"type": "input_image", "image_url": "https://example.com/lamp.png", "detail": "low"}
    given: list[Any] = [{"role": "user", "content": [image]}]
    result = await scripted.sdk.Runner.run(agent, given, run_config=config)
    given = [*result.to_input_list(), {"role": "user", "content": "What was it?"}]
    await scripted.sdk.Runner.run(agent, given, run_config=config)
    sent = [one["content"] for one in model.requests[-1] if one.get("role") == "user"]
    assert sent == ["[input_image]", "What was it?"]
