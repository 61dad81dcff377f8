"""ScriptedModel and the helpers for its scripts."""

from typing import Any

import pytest

from acc import Agent, ModelRequest, Runner
from acc.testing import ScriptedModel, call, last_result


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def test_scripted_model_uses_last_tool_result() -> None:
    asks = [call("double", number=2), call("double", number=21)]
    model = ScriptedModel(asks, lambda prompt: f"It is {last_result(prompt)}.")
    agent = Agent(name="a", model=model, tools=[double])
    result = await Runner(agent).run(user_id="u", session_id="s", message="21?")
    assert result.text == "It is 42."


async def test_scripted_model_accepts_async_function() -> None:
    async def answer(prompt: ModelRequest) -> str:
        return f"heard {prompt.query}"

    model = ScriptedModel(answer)
    assert (await model.complete(ModelRequest.of("you"))).text == "heard you"


@pytest.mark.parametrize("odd", [5, None, ["words"], {"text": "words"}, object()])
async def test_scripted_model_rejects_invalid_entries(odd: Any) -> None:
    with pytest.raises(TypeError, match=r"scripted response must be .* got "):
        ScriptedModel("fine", odd)
    model = ScriptedModel(lambda prompt: odd)
    with pytest.raises(TypeError, match=r"scripted response must be .* got "):
        await model.complete(ModelRequest.of("?"))


def test_last_result_fails_without_tool_call() -> None:
    with pytest.raises(AssertionError, match="no tool result"):
        last_result(ModelRequest.of("?"))
