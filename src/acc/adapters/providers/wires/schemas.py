"""Schemas as providers take them where they bind an answer, or a call, to one."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from acc.adapters.chat.turns import plain

_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "allOf", "oneOf")
_TYPED = frozenset({"type", "$ref", "anyOf", "enum", "const"})
#: What OpenAI's strict mode does not know.
_NOT_STRICT = frozenset(
    {
        "allOf",
        "contains",
        "maxContains",
        "minContains",
        "default",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxLength",
        "maxProperties",
        "minLength",
        "minProperties",
        "not",
        "oneOf",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
#: What Anthropic knows; the rest is said in words.
_KNOWN = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "definitions",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    }
)
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)


_LOOKS_AROUND = re.compile(r"\(\?<?[=!]")
_DEFINED = re.compile(r"#|#/(?:\$defs|definitions)/[^/]+")


class _Open(Exception):
    """Report a schema that allows more than a provider can be bound to."""


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema that OpenAI binds to word by word, or None where it leaves something open."""
    try:
        return _strict({key: value for key, value in schema.items() if key != "$schema"})
    except _Open:
        return None


def closed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema that Anthropic binds to, or None where it leaves something open."""
    try:
        return _closed(schema)
    except _Open:
        return None


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or schema.keys() & _NOT_STRICT:
        raise _Open
    if not schema.keys() & _TYPED or _LOOKS_AROUND.search(str(schema.get("pattern", ""))):
        raise _Open
    if "$ref" in schema and (len(schema) > 1 or not _DEFINED.fullmatch(str(schema["$ref"]))):
        raise _Open
    if "format" in schema and schema["format"] not in _FORMATS - {"uri"}:
        raise _Open
    found = _within(schema, _strict)
    if _is(schema, "object"):
        found["additionalProperties"] = _nothing_more(schema)
        found["required"] = list(schema["properties"])
        if set(schema.get("required", ())) != set(found["required"]):
            raise _Open
    if _is(schema, "array") and not (schema.get("items") or {}).keys() & _TYPED:
        raise _Open
    return found


def _closed(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        raise _Open
    found = _within({key: schema[key] for key in schema if key in _KNOWN}, _closed)
    if "oneOf" in schema:
        found["anyOf"] = [_closed(inner) for inner in schema["oneOf"]]
    if schema.get("format") in _FORMATS:
        found["format"] = schema["format"]
    if _is(schema, "object"):
        found["additionalProperties"] = _nothing_more(schema)
    unknown = {key: schema[key] for key in schema if key not in found and key != "oneOf"}
    if unknown:
        said = f"({plain(unknown)})"
        found["description"] = f"{found['description']} {said}" if "description" in found else said
    return found


def _within(schema: Mapping[str, Any], change: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return a schema in which those that it is made of are changed."""
    found = dict(schema)
    for key in _NAMED:
        if key in found:
            found[key] = {name: change(inner) for name, inner in found[key].items()}
    for key in _LISTED:
        if key in found:
            found[key] = [change(inner) for inner in found[key]]
    if "items" in found:
        found["items"] = change(found["items"])
    return found


def _is(schema: Mapping[str, Any], kind: str) -> bool:
    held = schema.get("type")
    return held == kind or (isinstance(held, list) and kind in held)


def _nothing_more(schema: Mapping[str, Any]) -> bool:
    """Return False, which is what may come besides the properties, or report that more may."""
    if "properties" not in schema or schema.get("additionalProperties", False) is not False:
        raise _Open
    return False
