"""Settings and native tools of the model calls of one agent."""

from copy import deepcopy
from typing import Any

import pytest
from agent_support import turn

from acc import Agent, InvalidInput, InvalidTree, ModelFailed, ModelSettings, SequentialAgent
from acc.testing import ScriptedModel

ANY: Any = ModelSettings


async def test_each_agent_sends_its_own_settings() -> None:
    model = ScriptedModel("ok", repeat=True)
    exact = Agent(name="exact", model=model, model_settings=ModelSettings(temperature=0, seed=7))
    await turn(SequentialAgent(name="s", sub_agents=[exact, Agent(name="free", model=model)]))
    sent = [request.settings for request in model.requests]
    assert sent == [ModelSettings(temperature=0, seed=7), None]


async def test_embedded_model_ignores_settings() -> None:
    plain = Agent(name="a", model="embedded")
    settings = ModelSettings(temperature=2, max_tokens=1, top_p=0.1, seed=1, thinking="high")
    changed = Agent(name="a", model="embedded", model_settings=settings)
    message = "The meeting is at 9. When is the meeting?"
    assert (await turn(changed, message)).text == (await turn(plain, message)).text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"temperature": -1}, "temperature must be a number from 0 to 2, got -1"),
        ({"temperature": "hot"}, "temperature must be a number from 0 to 2, got 'hot'"),
        ({"temperature": float("nan")}, "temperature must be a number from 0 to 2, got nan"),
        ({"top_p": 1.5}, "top_p must be a number from 0 to 1, got 1.5"),
        ({"max_tokens": 0}, "max_tokens must be an integer of at least 1, got 0"),
        ({"max_tokens": True}, "max_tokens must be an integer of at least 1, got True"),
        ({"seed": 1.5}, "seed must be an integer of at least 0, got 1.5"),
        ({"thinking": "hard"}, "thinking must be one of on, off, minimal"),
        ({"max_output_tokens": 5}, "'max_output_tokens': use max_tokens="),
        ({"reasoning_effort": "low"}, "'reasoning_effort': use thinking="),
    ],
)
def test_invalid_setting_is_rejected_with_what_is_expected(
    settings: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        ANY(**settings)
    assert expected in str(caught.value)


def test_settings_of_another_type_are_rejected_when_the_agent_is_built() -> None:
    settings: Any = {"temperature": 0}
    with pytest.raises(InvalidTree, match=r"model_settings must be ModelSettings\(\.\.\.\)"):
        Agent(name="a", model_settings=settings)


def test_settings_can_be_copied() -> None:
    settings = ModelSettings(temperature=0.5, thinking="low")
    assert deepcopy(settings) == settings


async def test_native_tools_are_part_of_the_request() -> None:
    model = ScriptedModel("ok")
    await turn(Agent(name="a", model=model, native_tools=["web_search"]))
    assert model.requests[0].native_tools == ("web_search",)


async def test_embedded_model_rejects_native_tools() -> None:
    agent = Agent(name="a", model="embedded", native_tools=["code_execution"])
    with pytest.raises(ModelFailed, match="no native tool code_execution") as caught:
        await turn(agent)
    assert caught.value.reason == "not_possible"


@pytest.mark.parametrize("native_tools", ["web_search", ["search"], 3, [[]]])
def test_unknown_native_tool_is_rejected_when_the_agent_is_built(native_tools: Any) -> None:
    with pytest.raises(InvalidTree, match='native_tools must be a list of "web_search" or "code_'):
        Agent(name="a", native_tools=native_tools)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("anthropic:claude-sonnet-4-5", ModelSettings(temperature=0, thinking="on")),
        ("anthropic:claude-sonnet-4-5?thinking=low", ModelSettings(temperature=0.5)),
        ("anthropic:claude-sonnet-4-5?thinking=on&temperature=0", None),
    ],
)
def test_anthropic_thinking_with_a_temperature_is_rejected_when_the_agent_is_built(
    name: str, settings: ModelSettings | None
) -> None:
    with pytest.raises(InvalidTree, match="do not accept a temperature together with thinking"):
        Agent(name="a", model=name, model_settings=settings)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("anthropic:claude-sonnet-4-5", ModelSettings(temperature=1, thinking="on")),
        ("anthropic:claude-sonnet-4-5?thinking=on", ModelSettings(temperature=0, thinking="off")),
        ("openai:gpt-5.2", ModelSettings(temperature=0, thinking="on")),
    ],
)
def test_settings_that_a_provider_may_accept_are_not_rejected(
    name: str, settings: ModelSettings
) -> None:
    assert Agent(name="a", model=name, model_settings=settings).model == name
