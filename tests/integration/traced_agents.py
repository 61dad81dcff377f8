"""Agents of three processes that call each other over A2A."""

import os

from acc import Agent, RemoteAgent, SequentialAgent, ToolCall, tool
from acc.testing import ScriptedModel


@tool
def lookup(name: str) -> str:
    """Return a fact."""
    return f"{name} は正常です"


expert = Agent(
    name="expert",
    description="Knows facts.",
    model=ScriptedModel(ToolCall(id="c1", name="lookup", arguments={"name": "db-1"}), "正常です。"),
    tools=[lookup],
)
middle = SequentialAgent(
    name="middle",
    description="Asks the expert.",
    sub_agents=[
        RemoteAgent(name="remote_expert", url=os.environ.get("EXPERT", "http://x.invalid"))
    ],
)
front = SequentialAgent(
    name="front",
    description="Asks the middle.",
    sub_agents=[
        RemoteAgent(name="remote_middle", url=os.environ.get("MIDDLE", "http://x.invalid"))
    ],
)
