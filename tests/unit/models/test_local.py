"""Schemas for small local models."""

import msgspec

from acc.adapters.models.local import bound_schema


class Note(msgspec.Struct):
    title: str
    tags: list[str]
    lines: dict[str, str]
    kind: str | None = None


def test_bound_schema_limits_every_text_and_list() -> None:
    found = bound_schema(msgspec.json.schema(Note))["$defs"]["Note"]["properties"]
    assert found["title"]["maxLength"] == 240
    assert found["tags"]["maxItems"] == 8
    assert found["tags"]["items"]["maxLength"] == 240
    assert found["lines"]["additionalProperties"]["maxLength"] == 240
    assert found["kind"]["anyOf"][0]["maxLength"] == 240


def test_bound_schema_keeps_existing_limits() -> None:
    assert bound_schema({"type": "string", "maxLength": 9}) == {"type": "string", "maxLength": 9}
    assert bound_schema({"type": "array", "minItems": 20})["maxItems"] == 20
