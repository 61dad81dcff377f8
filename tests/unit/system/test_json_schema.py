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


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "value", "fields"),
    [
        ({**obj(n={"type": "integer"}), "patternProperties": {"^x": {}}}, {"n": "s"}, ["n"]),
        ({**obj(), "patternProperties": {"^x": {}}, "additionalProperties": False}, {"x": 1}, []),
        (obj(a={"oneOf": [{"pattern": "^a"}, {"pattern": "^b"}]}), {"a": "a"}, []),
        (
            obj(a={"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]}),
            {"a": 1},
            ["a"],
        ),
        (obj(a={"type": "string", "not": {"pattern": "^a"}}), {"a": "b"}, []),
        (obj(a={"type": "string", "not": {"pattern": "^a"}}), {"a": 1}, ["a"]),
        (obj(a={"if": {"pattern": "^a"}, "then": {"minLength": 9}}), {"a": "b"}, []),
        (obj(pattern={"type": "integer"}), {"pattern": "s"}, ["pattern"]),
        ({**obj(a={"type": "integer"}), "additionalProperties": False}, {"b": 1}, ["b"]),
        (
            obj(a={"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^a"}),
            {"a": "b"},
            [],
        ),
        ({"type": "object", "pattern": "(", "required": ["a"]}, {}, ["a"]),
    ],
)
def test_schemas_of_others_are_checked_without_their_patterns(
    schema: Any, value: Any, fields: list[str]
) -> None:
    found = JsonSchemaValidator().violations(schema, value)
    assert [one.field for one in found] == fields
    assert bool(JsonSchemaValidator().schema_error(schema, value)) == bool(fields)


def test_patterns_of_trusted_schemas_are_checked() -> None:
    schema = obj(a={"type": "string", "pattern": "^a"})
    found = JsonSchemaValidator().violations(schema, {"a": "b"}, is_trusted=True)
    assert [(one.field, one.rule) for one in found] == [("a", "pattern")]


@pytest.mark.parametrize(
    "dialect", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}]
)
def test_references_that_grow_exponentially_end_early(dialect: dict[str, str]) -> None:
    steps = {f"s{n}": {"anyOf": [{**dialect, "$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    schema = {**obj(a={"$ref": "#/$defs/s0"}), "$defs": {**steps, "s40": {"type": "integer"}}}
    start = time.process_time()
    assert JsonSchemaValidator().violations(schema, {"a": "text"}) == ()
    assert JsonSchemaValidator().schema_error(schema, {"a": "text"}) == ""
    assert time.process_time() - start < 30


def test_names_of_fields_are_not_matched_with_patterns_of_others() -> None:
    schema = {**obj(), "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}
    start = time.process_time()
    assert JsonSchemaValidator().violations(schema, {"a" * 40 + "!": 1}) == ()
    assert time.process_time() - start < 5
