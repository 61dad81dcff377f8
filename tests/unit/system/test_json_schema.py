"""Validation with JSON schemas."""

import time
from typing import Any

import pytest

from acc.adapters.system.json_schema import JsonSchemaValidator


@pytest.mark.parametrize(
    ("schema", "arguments", "fault"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, ""),
        ({"properties": {"数": {"type": "integer"}}}, {"数": "三"}, "数: '三' is not of type"),
        ({"required": ["a"]}, {}, "'a' is a required property"),
        ({"type": "nonsense"}, {"a": 1}, ""),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, {"a": 1}, ""),
        ({"properties": {"a": {"$ref": "#/$defs/no"}}}, {"a": 1}, ""),
        ({"$ref": "#"}, {"a": 1}, ""),
        (
            {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
            {"a": "x"},
            "a: 'x' is not of type 'integer'",
        ),
        ({"additionalProperties": False}, {"b": 1}, "'b' was unexpected"),
    ],
)
def test_schema_error_describes_invalid_values(schema: Any, arguments: Any, fault: str) -> None:
    found = JsonSchemaValidator().schema_error(schema, arguments)
    assert fault in found and bool(found) == bool(fault)


def test_schema_patterns_are_ignored() -> None:
    start = time.monotonic()
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"^(a+)+$": {}}}
    assert JsonSchemaValidator().schema_error(schema, {"a": "a" * 40 + "!"}) == ""
    assert time.monotonic() - start < 5
