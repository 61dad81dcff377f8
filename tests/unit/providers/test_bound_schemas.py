"""Schemas as OpenAI and Anthropic take them."""

from typing import Any

import msgspec
import pytest

from acc.adapters.chat.turns import unfolded
from acc.adapters.providers.wires.schemas import closed, strict


class Name(msgspec.Struct):
    first: str


class Found(msgspec.Struct):
    count: int
    names: list[Name]
    note: str | None


def test_a_schema_of_ours_is_strict_all_the_way_down() -> None:
    found = strict(unfolded(msgspec.json.schema(Found)))
    assert found is not None
    assert found["additionalProperties"] is False
    assert found["$defs"]["Name"]["additionalProperties"] is False
    assert found["required"] == ["count", "names", "note"]


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "integer", "default": 3},
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": []},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "items": True},
        {"oneOf": [{"type": "string"}]},
        {"type": "string", "format": "uri"},
        {"type": "string", "maxLength": 3},
        {"$ref": "#/$defs/A", "description": "d"},
        True,
    ],
)
def test_what_strict_mode_does_not_know_is_not_strict(inner: Any) -> None:
    schema = {"type": "object", "properties": {"x": inner}, "required": ["x"]}
    assert strict(schema) is None


def test_what_anthropic_does_not_know_is_said_in_words() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 0, "description": "How many."},
            "d": {"type": "string", "format": "date"},
            "e": {"oneOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
        },
    }
    found = closed(schema)
    assert found is not None
    properties = found["properties"]
    assert properties["n"] == {"type": "integer", "description": 'How many. ({"minimum":0})'}
    assert properties["d"] == {"type": "string", "format": "date"}
    assert properties["e"]["anyOf"][0] == {"type": "string", "description": '({"maxLength":2})'}
    assert found["additionalProperties"] is False
    assert schema["properties"]["n"]["minimum"] == 0  # type: ignore[index] # what was given stays


@pytest.mark.parametrize("inner", [{"type": "object"}, True, {"additionalProperties": True}])
def test_what_is_open_cannot_be_closed(inner: Any) -> None:
    shape = {"type": "object", "properties": {}}
    schema = {**shape, **inner} if isinstance(inner, dict) and "type" not in inner else None
    assert closed(schema or {**shape, "properties": {"x": inner}}) is None
