"""What a script can answer with, and what a loop answers when it is left."""

from typing import Any

import pytest

from acc import Agent, LoopAgent, Prompt, Runner, exit_loop
from acc.testing import ScriptedModel, call, last_result


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def test_a_script_answers_with_what_its_tool_gave_back() -> None:
    asks = [call("double", number=2), call("double", number=21)]
    model = ScriptedModel(asks, lambda prompt: f"It is {last_result(prompt)}.")
    agent = Agent(name="a", model=model, tools=[double])
    result = await Runner(agent).run(user_id="u", session_id="s", message="21?")
    assert result.text == "It is 42."


async def test_a_script_may_answer_by_an_async_function() -> None:
    async def answer(prompt: Prompt) -> str:
        return f"heard {prompt.query}"

    model = ScriptedModel(answer)
    assert (await model.complete(Prompt(query="you"))).text == "heard you"


@pytest.mark.parametrize("odd", [5, None, ["words"], {"text": "words"}, object()])
async def test_a_script_that_is_no_answer_is_refused_with_what_is_wanted(odd: Any) -> None:
    with pytest.raises(TypeError, match=r"a script answers with text, call.*, not "):
        ScriptedModel("fine", odd)
    model = ScriptedModel(lambda prompt: odd)
    with pytest.raises(TypeError, match=r"a script answers with text, call.*, not "):
        await model.complete(Prompt(query="?"))


def test_a_script_is_told_when_no_tool_has_been_called() -> None:
    with pytest.raises(AssertionError, match="no tool has been called"):
        last_result(Prompt(query="?"))


async def test_a_loop_that_is_left_without_words_answers_with_the_last_ones() -> None:
    writer = Agent(name="writer", model=ScriptedModel("draft 1", "draft 2"))
    critic = Agent(name="critic", model=ScriptedModel("more", call("exit_loop")), tools=[exit_loop])
    loop = LoopAgent(name="loop", sub_agents=[writer, critic], max_iterations=3)
    result = await Runner(loop).run(user_id="u", session_id="s", message="write")
    assert result.text == "draft 2"
