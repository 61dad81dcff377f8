"""Assertions about trajectories, and recorded models."""

from pathlib import Path
from typing import Any

import pytest

from acc import Agent, InvalidInput, Runner, RunResult, ToolCall, tool
from acc.testing import ScriptedModel
from acc.testing.trajectories import RecordedModel, agents_of, assert_tool_calls, tool_calls


@tool
def look(city: str, unit: str = "C") -> str:
    """Look."""
    return f"{city} 20{unit}"


def call(number: int, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name="look", arguments=arguments)


async def run() -> RunResult[Any]:
    model = ScriptedModel(call(1, city="東京"), call(2, city="大阪", unit="F"), "終わり")
    return await Runner(Agent(name="guide", model=model, tools=[look])).run("天気")


async def test_expected_calls_are_accepted() -> None:
    result = await run()
    assert tool_calls(result)[0] == ("look", {"city": "東京"})
    assert agents_of(result) == ["guide"]
    assert_tool_calls(result, "look", ("look", {"city": "大阪"}))
    assert_tool_calls(result, ("look", {"unit": "F"}), order="in_order")
    assert_tool_calls(result, ("look", {"city": "大阪"}), "look", order="any_order")


@pytest.mark.parametrize(
    ("expected", "order"),
    [
        (["look"], "exact"),
        (["look", "look", "look"], "in_order"),
        ([("look", {"city": "大阪"}), ("look", {"city": "東京"})], "in_order"),
        ([("look", {"city": "京都"})], "any_order"),
        ([("look", {"unit": None})], "any_order"),
    ],
)
async def test_other_calls_are_rejected(expected: list[Any], order: Any) -> None:
    result = await run()
    with pytest.raises(AssertionError, match="expected tool calls"):
        assert_tool_calls(result, *expected, order=order)


async def test_model_is_recorded_once_and_replayed_without_it(tmp_path: Path) -> None:
    path = tmp_path / "calls" / "weather.jsonl"

    def runner(model: ScriptedModel | None) -> Runner[Any, Any]:
        return Runner(Agent(name="guide", model=RecordedModel(path, model), tools=[look]))

    first = await runner(ScriptedModel(call(1, city="東京"), "20度です")).run("天気は?")
    again = await runner(None).run("天気は?")
    assert again.text == first.text == "20度です"
    assert tool_calls(again) == tool_calls(first)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    with pytest.raises(InvalidInput, match="has no response to this request"):
        await runner(None).run("明日は?")


@pytest.mark.parametrize("line", [b"garbage{", b"{}", b'{"key": "\xff"}'])
def test_a_damaged_recording_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "weather.jsonl"
    path.write_bytes(b"\n" + line + b"\n")
    with pytest.raises(InvalidInput, match=r"weather\.jsonl: line 2 is not a recorded response"):
        RecordedModel(path)
