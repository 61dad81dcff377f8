"""Planners of an agent."""

from typing import Any

import pytest

from acc import Agent, InvalidTree, ModelRequest, ModelSettings, NativeThinking, PlanFirst, Runner
from acc.testing import ScriptedModel, call


def lookup(city: str) -> str:
    """Look up the weather."""
    return f"rain in {city}"


def offered(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


async def test_tools_are_offered_only_after_a_plan_and_the_plan_is_an_event() -> None:
    model = ScriptedModel(
        call("write_plan", steps=["look up 京都", "answer"]), call("lookup", city="京都"), "Rain."
    )
    result = await Runner(
        Agent(name="a", model=model, tools=[lookup], planner=PlanFirst(), instruction="Be brief.")
    ).run("Weather?")
    assert result.text == "Rain."
    assert [offered(request) for request in model.requests] == [
        ["write_plan"],
        ["write_plan", "lookup"],
        ["write_plan", "lookup"],
    ]
    assert model.requests[0].instruction.startswith("Be brief.\n\nIf you need tools")
    plans = [e.result.content for e in result.events if e.result and e.result.name == "write_plan"]
    assert plans == [{"plan": ["1. look up 京都", "2. answer"], "revision": 0}]


async def test_call_before_a_plan_is_rejected() -> None:
    model = ScriptedModel(
        call("lookup", city="Kyoto"), call("write_plan", steps=["look up"]), "Done."
    )
    result = await Runner(Agent(name="a", model=model, tools=[lookup], planner=PlanFirst())).run(
        "Weather?"
    )
    first = next(e.result for e in result.events if e.result)
    assert first.is_error
    assert "write_plan" in str(first.content)


async def test_model_may_answer_without_a_plan_and_every_turn_needs_its_own() -> None:
    model = ScriptedModel("Hello.", call("write_plan", steps=["x"]), "Done.", "Bye.")
    runner = Runner(Agent(name="a", model=model, tools=[lookup], planner=PlanFirst()))
    for message in ("hi", "weather?", "bye"):
        await runner.run(message)
    assert [offered(request) for request in model.requests] == [
        ["write_plan"],
        ["write_plan"],
        ["write_plan", "lookup"],
        ["write_plan"],
    ]


async def test_plan_may_be_revised_within_its_bound() -> None:
    plans = [call("write_plan", steps=[f"step {n}"]) for n in range(3)]
    model = ScriptedModel(*plans, "Done.")
    agent = Agent(name="a", model=model, tools=[lookup], planner=PlanFirst(max_revisions=1))
    result = await Runner(agent).run("x")
    results = [event.result for event in result.events if event.result]
    assert [one.is_error for one in results] == [False, False, True]
    assert results[1].content["revision"] == 1
    assert "revised 1 times" in str(results[2].content)


@pytest.mark.parametrize("steps", [[], [" "], ["x"] * 13])
async def test_plan_without_usable_steps_is_rejected(steps: list[str]) -> None:
    model = ScriptedModel(call("write_plan", steps=steps), "Done.")
    result = await Runner(Agent(name="a", model=model, planner=PlanFirst())).run("x")
    assert next(event.result for event in result.events if event.result).is_error


async def test_native_thinking_is_a_model_setting() -> None:
    model = ScriptedModel("ok")
    settings = ModelSettings(temperature=0)
    agent = Agent(name="a", model=model, model_settings=settings, planner=NativeThinking("high"))
    await Runner(agent).run("x")
    assert model.requests[0].settings == ModelSettings(temperature=0, thinking="high")


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"planner": PlanFirst}, r"planner must be PlanFirst\(\) or NativeThinking\(\)"),
        ({"planner": "plan"}, r"PlanFirst\(\)"),
        (
            {"planner": NativeThinking("low"), "model_settings": ModelSettings(thinking="high")},
            "contradicts.*remove one",
        ),
        ({"code_executor": "python"}, r"such as SandboxedCodeExecutor\(\)"),
    ],
)
def test_wrong_planner_or_executor_is_rejected(options: Any, advice: str) -> None:
    with pytest.raises(InvalidTree, match=advice):
        Agent(name="a", **options)
