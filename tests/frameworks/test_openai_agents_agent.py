"""OpenAIAgentsAgent: what only agents of the SDK have, with the real OpenAI Agents SDK."""

from dataclasses import dataclass
from pathlib import Path

import scripted_openai_agents as scripted

import acc
from acc.frameworks import OpenAIAgentsAgent

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
