"""Agents of three processes that call each other over A2A and MCP."""

import os
import sys

from acc import Agent, McpToolset, RemoteAgent, SequentialAgent, ToolCall, tool
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
_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_BSP_SCHEDULE_DELAY", "PYTHONPATH")
asker = Agent(
    name="asker",
    description="Asks the expert over MCP.",
    model=ScriptedModel(
        ToolCall(id="c1", name="expert", arguments={"message": "db-1は?"}), "正常です。"
    ),
    tools=[
        McpToolset(
            command=[sys.executable, "-m", "acc", "mcp", "traced_agents:expert"],
            env={name: os.environ.get(name, "") for name in _VARIABLES},
        )
    ],
)
