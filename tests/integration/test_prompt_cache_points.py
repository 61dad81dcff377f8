"""Cache points in the requests of a provider that uses them, as the official client sends them."""

from collections.abc import Mapping
from typing import Any

import pytest
from provider_models import environment, model_of

from acc import Agent, Runner, tool
from acc.testing.providers import ProviderServer, say, use


@tool
def stock(article: str) -> dict[str, int]:
    """Return how many pieces of an article there are."""
    return {"pieces": 30}


def cache_points(body: Mapping[str, Any]) -> list[str]:
    """Return the places of a request that are marked as the end of a cached prefix."""
    found: list[str] = []
    if "cache_control" in body:
        found.append("request")
    for field in ("tools", "system"):
        blocks = body.get(field)
        if isinstance(blocks, list) and any("cache_control" in block for block in blocks):
            found.append(field)
    for number, message in enumerate(body["messages"]):
        content = message["content"]
        if isinstance(content, list) and any("cache_control" in block for block in content):
            found.append(f"message {number}")
    return found


async def test_turn_with_a_tool_marks_the_prefix_that_the_next_call_repeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ProviderServer() as server:
        with environment(server, monkeypatch):
            server.script = [use("stock", article="tea"), say("30"), say("Yes.")]
            model = model_of("anthropic", server)
            agent = Agent(
                name="clerk", model=model, instruction="Be short.", tools=[stock], memory="acc"
            )
            runner = Runner(agent)
            await runner.run(user_id="u", session_id="s", message="How much tea is there?")
            await runner.run(user_id="u", session_id="s", message="Is it enough?")
            await runner.aclose()
            await model.aclose()
        bodies = [request.body for request in server.requests]
    # The first one ends after the tools, the second after the instruction; that of the request
    # moves along with the newest message.
    assert [cache_points(body) for body in bodies] == [["request", "tools", "system"]] * 3
    first, second, _ = bodies
    assert (second["tools"], second["system"]) == (first["tools"], first["system"])
    assert second["messages"][: len(first["messages"])] == first["messages"]
