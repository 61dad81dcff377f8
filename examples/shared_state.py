"""Agents that share results in the session state (section 10.1).

The tool of one agent writes entities and a confidence; the tool of the next agent reads them. A
prefix sets the scope of a key: `user:` for all sessions of a user, `app:` for all users, `temp:`
for this run only. The example shows which keys another session and another user can read.

Run it: python examples/shared_state.py
"""

import asyncio
import re
from typing import Any

from acc import Agent, ModelRequest, Runner, SequentialAgent, ToolCall, ToolContext
from acc.testing import ScriptedModel, call, last_result


def extract_data(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Write the names in a text to the state."""
    entities = re.findall(r"\b[A-Z]\w+ [A-Z]\w+", text)
    state = tool_context.state
    state["extracted_entities"] = entities
    state["confidence_score"] = 0.9 if entities else 0.1
    state["user:seen"] = [*state.get("user:seen", []), *entities]
    state["app:documents"] = state.get("app:documents", 0) + 1
    state["temp:characters"] = len(text)
    return {"status": "extracted", "entity_count": len(entities)}


def analyze_entities(tool_context: ToolContext) -> str:
    """Return the entities and the confidence in the state."""
    entities = tool_context.state.get("extracted_entities", [])
    confidence = tool_context.state.get("confidence_score", 0.0)
    return f"{', '.join(entities)} ({confidence:.0%} sure)"


def extract(prompt: ModelRequest) -> ToolCall | str:
    """Return the response of the model: call the tool with the message."""
    return "Extracted." if prompt.following else call("extract_data", text=prompt.query)


def analyze(prompt: ModelRequest) -> ToolCall | str:
    """Return the response of the model: call the tool, then return its result."""
    called = prompt.following[-1].role == "tool"
    return str(last_result(prompt)) if called else call("analyze_entities")


extractor = Agent(
    name="extractor",
    model=ScriptedModel(extract, repeat=True),
    tools=[extract_data],
)
analyst = Agent(
    name="analyst",
    model=ScriptedModel(analyze, repeat=True),
    instruction="Analyze {extracted_entities}.",
    tools=[analyze_entities],
    output_key="analysis",
)
pipeline = SequentialAgent(name="pipeline", sub_agents=[extractor, analyst])


async def main() -> None:
    """Send three documents of two users in three sessions."""
    runner = Runner(pipeline)
    for user, session, text in (
        ("aiko", "monday", "Mara Lindqvist met Zoe Adler."),
        ("aiko", "tuesday", "Yesterday, Ken Sato called."),
        ("bert", "monday", "Nothing happened."),
    ):
        result = await runner.run(user_id=user, session_id=session, message=text)
        print(f"{user}, {session}: {result.text}")
        print(f"  {dict(await runner.state(user_id=user, session_id=session))}")

    aiko = await runner.state(user_id="aiko", session_id="tuesday")
    bert = await runner.state(user_id="bert", session_id="monday")
    assert aiko["extracted_entities"] == ["Ken Sato"], "keys without a prefix belong to one session"
    assert aiko["user:seen"] == ["Mara Lindqvist", "Zoe Adler", "Ken Sato"]
    assert bert["user:seen"] == [], "users are isolated"
    assert bert["app:documents"] == 3
    assert not any(key.startswith("temp:") for key in (*aiko, *bert))


if __name__ == "__main__":
    asyncio.run(main())
