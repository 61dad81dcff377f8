"""JSON schemas, as far as a reader of plain text needs them."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
_DEEPEST = 4


def resolved(schema: Schema, root: Schema) -> tuple[Schema, bool]:
    """Return a schema without references and choices, and whether null will do."""
    schema = schema if isinstance(schema, Mapping) else {}  # `true` is a schema too
    nullable = False
    for _ in range(_DEEPEST * 2):
        choices = schema.get("anyOf") or schema.get("oneOf")
        if "$ref" in schema:
            name = str(schema["$ref"]).rsplit("/", 1)[-1]
            found = root.get("$defs", {}).get(name, {})
            schema = {**found, **{k: v for k, v in schema.items() if k != "$ref"}}
        elif choices:
            rest = [choice for choice in choices if choice.get("type") != "null"]
            nullable = nullable or len(rest) < len(choices)
            kept = {k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}
            schema = {**kept, **(rest[0] if rest else {"type": "null"})}
        else:
            break
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = [one for one in kind if one != "null"]
        schema = {**schema, "type": rest[0] if rest else "null"}
        nullable = nullable or len(rest) < len(kind)
    return schema, nullable or schema.get("type") == "null"


def empty_of(schema: Schema, root: Schema, depth: int = 0) -> Any:
    """Return the value of a schema's type that says nothing."""
    schema, nullable = resolved(schema, root)
    if nullable or depth > _DEEPEST:
        return None
    kind = schema.get("type", "string")
    if kind == "object":
        wanted = schema.get("required", ())
        properties = schema.get("properties", {})
        return {name: empty_of(properties.get(name, {}), root, depth + 1) for name in wanted}
    if kind == "array":
        least = schema.get("minItems", 0)
        return [empty_of(schema.get("items", {}), root, depth + 1) for _ in range(least)]
    return {"integer": 0, "number": 0, "boolean": False}.get(kind, "")


def accepts(schema: Schema, value: Any, root: Schema, depth: int = 0) -> bool:
    """Tell whether a value is of a schema's type, as far as that is worth knowing here."""
    schema, nullable = resolved(schema, root)
    if value is None:
        return nullable
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind is None or depth > _DEEPEST:
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
