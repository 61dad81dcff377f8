"""Coordinator, agents as tools, shared state: as in the ADK sample `travel-concierge`.

A callback of the root loads a profile into the state, and a tool stores what the user says. The
instructions read those keys. `docs/adk.md` lists what changes in a port.

Run it: python examples/adk_trip_assistant.py
"""

import asyncio
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from acc import Agent, AgentTool, RunContext, Runner, ToolContext
from acc.testing import ScriptedModel, call

PROFILE_KEY = "user_profile"
PROFILE: Mapping[str, Any] = {PROFILE_KEY: {"seat": "window"}, "origin": "Osaka", "destination": ""}


@dataclass
class Trip:
    """The result of the itinerary agent."""

    origin: str
    destination: str
    nights: int


def memorize(key: str, value: str, tool_context: ToolContext) -> dict[str, str]:
    """Store one piece of information under its name."""
    tool_context.state[key] = value
    return {"status": f"stored {key}"}


def set_defaults(values: Mapping[str, Any], state: MutableMapping[str, Any]) -> None:
    """Write values for keys that the state does not have."""
    for key, value in values.items():
        state.setdefault(key, value)


def load_profile(ctx: RunContext) -> None:
    """Prepare the state before the first instruction is rendered."""
    set_defaults(PROFILE, ctx.state)


itinerary = Agent(
    name="itinerary",
    description="Creates the itinerary as structured data",
    model=ScriptedModel('{"origin": "Osaka", "destination": "Sapporo", "nights": 3}'),
    instruction="Create the itinerary from {origin} to {destination}.",
    output_schema=Trip,
    output_key="itinerary",
)
planner = Agent(
    name="planner",
    description="Plans trips: destination, dates and itinerary",
    model=ScriptedModel(
        call("memorize", key="destination", value="Sapporo"),
        call("itinerary", request="3 nights"),
        "Osaka to Sapporo, 3 nights, window seat.",
    ),
    instruction="Plan the trip of this user: {user_profile}. Destination so far: {destination}",
    tools=[memorize, AgentTool(agent=itinerary)],
)
in_trip = Agent(
    name="in_trip",
    description="Helps during the trip",
    model=ScriptedModel("Your train leaves at nine."),
    instruction="Itinerary: {itinerary?}",
)
root_agent = Agent(
    name="trip_assistant",
    model=ScriptedModel(call("transfer_to_agent", agent_name="planner")),
    instruction="Hand over to the agent for the phase of the trip. Profile: {user_profile}",
    sub_agents=[planner, in_trip],
    before_agent_callback=load_profile,
)


async def main() -> None:
    """Plan one trip."""
    result = await Runner(root_agent).run("Three nights in Sapporo, please.")
    print(result.text)
    assert result.state["destination"] == "Sapporo"
    assert result.state["itinerary"] == {"origin": "Osaka", "destination": "Sapporo", "nights": 3}
    assert result.text == "Osaka to Sapporo, 3 nights, window seat."


if __name__ == "__main__":
    asyncio.run(main())
