"""The parts of JSON schema that are needed to fill a schema from text."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_MAX_DEPTH = 4


def resolve_schema(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """Return a schema without references and alternatives, and whether null is valid."""
    schema = schema if isinstance(schema, Mapping) else {}  # `true` is a schema too
    nullable = False
    for _ in range(_MAX_DEPTH * 2):
        choices = schema.get("anyOf") or schema.get("oneOf")
        if "$ref" in schema:
            name = str(schema["$ref"]).rsplit("/", 1)[-1]
            definition = root.get("$defs", {}).get(name, {})
            schema = {**definition, **{k: v for k, v in schema.items() if k != "$ref"}}
        elif choices:
            rest = [choice for choice in choices if choice.get("type") != "null"]
            nullable = nullable or len(rest) < len(choices)
            common = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
            schema = {**common, **(rest[0] if rest else {"type": "null"})}
        else:
            break
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = [one for one in kind if one != "null"]
        schema = {**schema, "type": rest[0] if rest else "null"}
        nullable = nullable or len(rest) < len(kind)
    return schema, nullable or schema.get("type") == "null"


def empty_value(schema: Schema, root: Schema, depth: int = 0) -> Any:
    """Return the empty value of a schema's type."""
    schema, nullable = resolve_schema(schema, root)
    if nullable or depth > _MAX_DEPTH:
        return None
    kind = schema.get("type", "string")
    if kind == "object":
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        return {name: empty_value(properties.get(name, {}), root, depth + 1) for name in required}
    if kind == "array":
        min_items = schema.get("minItems", 0)
        return [empty_value(schema.get("items", {}), root, depth + 1) for _ in range(min_items)]
    return {"integer": 0, "number": 0, "boolean": False}.get(kind, "")


def accepts(schema: Schema, value: Any, root: Schema, depth: int = 0) -> bool:
    """Return True if a value has the type of a schema."""
    schema, nullable = resolve_schema(schema, root)
    if value is None:
        return nullable
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind is None or depth > _MAX_DEPTH:
        return True
    if kind == "object":
        properties = schema.get("properties", {})
        return isinstance(value, Mapping) and all(
            accepts(properties.get(name, {}), value[name], root, depth + 1)
            if name in value
            else name not in schema.get("required", ())
            for name in {*properties, *schema.get("required", ())}
        )
    if kind == "array":
        inner = schema.get("items", {})
        return isinstance(value, list) and all(
            accepts(inner, one, root, depth + 1) for one in value
        )
    if isinstance(value, bool):
        return bool(kind == "boolean")
    types: dict[str, Any] = {"string": str, "integer": int, "number": int | float}
    return isinstance(value, types.get(kind, ()))
