"""What tools gave back, in words."""

from typing import Any

import pytest
from model_prompts import ask, called, done, specs

from acc.adapters.embedded_model.schemas import accepts, empty_value, resolve_schema
from acc.adapters.embedded_model.tools import describe_results
from acc.domain.value_objects.content import ToolResult


def look_up(question: str) -> str:
    """Look something up."""
    raise NotImplementedError


def told(content: Any, *, is_error: bool = False, japanese: bool = False) -> list[str]:
    result = ToolResult(call_id="1", name="count", content=content, is_error=is_error)
    return describe_results([result], japanese=japanese)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (None, ["count is done."]),
        ("  ", ["count is done."]),
        (8, ["count: 8"]),
        (True, ["count: true"]),
        (["red", "blue"], ["count: red, blue"]),
        (
            {"ok": False, "tags": ["a", 1], "of": {"x": None}},
            ["ok: false", "tags: a, 1", 'of: {"x": null}'],
        ),
    ],
)
def test_data_is_told_in_short_lines(content: Any, lines: list[str]) -> None:
    assert told(content) == lines


def test_long_values_and_lists_are_cut() -> None:
    assert len(told({"text": "x" * 5_000})[0]) < 500
    assert len(told({str(n): n for n in range(100)})) == 8


def test_errors_are_told_in_both_languages() -> None:
    assert told({"error": "no line"}, is_error=True) == ["count failed: no line"]
    assert told("no line", is_error=True, japanese=True) == [
        "count は完了できませんでした: no line"
    ]
    assert told(None, japanese=True) == ["count は完了しました。"]


async def test_a_greeting_is_not_looked_up_though_the_instruction_names_the_tool() -> None:
    tools, instruction = specs(look_up), "You can use look_up."
    assert called(await ask("Good morning.", tools=tools, instruction=instruction)) is None
    found = called(await ask("Who built the tower?", tools=tools, instruction=instruction))
    assert found == ("look_up", {"question": "Who built the tower?"})


async def test_a_call_that_failed_is_not_followed_by_another() -> None:
    answer = await ask(
        "Who built the tower? Look it up.",
        tools=specs(look_up),
        messages=done("other", {"error": "other failed: gone"}, is_error=True),
    )
    assert answer.text == "Other failed: gone."


def test_schemas_of_other_makers_are_read() -> None:
    assert resolve_schema({"type": ["string", "null"]}, {}) == ({"type": "string"}, True)
    assert resolve_schema(True, {}) == ({}, False)  # type: ignore[arg-type] # JSON schema allows it
    assert empty_value({"type": "array", "items": {"type": "integer"}, "minItems": 2}, {}) == [0, 0]
    nested = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    assert empty_value(nested, {}) == {"a": False}
    assert accepts(nested, {"a": True}, {})
    assert not accepts(nested, {"a": "yes"}, {})
    assert not accepts(nested, {}, {})
    assert accepts({"enum": [1, 2]}, 2, {})
    assert accepts({"type": ["integer", "null"]}, None, {})
    assert not accepts({"type": "array", "items": {"type": "string"}}, [1], {})
