"""Errors of msgspec in the terms of JSON and TOML."""

import re
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

_VALIDATION_ERROR = re.compile(r"(?P<reason>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)
_TYPE_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<actual>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_NOT_A_CHOICE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
#: A name, or an index, of a path such as `turns[...].once[0]`.
_STEPS = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


class FieldError(NamedTuple):
    """The path of an invalid field, empty for the whole value, and what is wrong with it."""

    field: str
    text: str


def field_error_of(error: msgspec.ValidationError, of: object = None) -> FieldError:
    """Return the field that msgspec rejects, and the reason in plain words.

    With the type that was expected, the reason of an unknown field lists the known ones.
    """
    match = _VALIDATION_ERROR.fullmatch(str(error))
    text, field = (match["reason"], match["field"] or "") if match else (str(error), "")
    for pattern, problem in ((_MISSING, "is required"), (_UNKNOWN, "is not a known field")):
        if named := pattern.fullmatch(text):
            name = named["name"]
            if pattern is _UNKNOWN and (known := _fields_at(of, field)):
                near = get_close_matches(name, known, n=1, cutoff=0.75)
                meant = f", did you mean {near[0]}" if near else ""
                problem = f"{problem}{meant}; known fields: {', '.join(known)}"
            return FieldError(f"{field}.{name}" if field else name, problem)
    if mismatch := _TYPE_MISMATCH.match(text):
        expected = [_TYPE_NAMES.get(name, name) for name in mismatch["expected"].split(" | ")]
        actual = _TYPE_NAMES.get(mismatch["actual"], mismatch["actual"])
        implied = {"null", *(["a number"] if "an integer" in expected else ())}
        named_types = [name for name in expected if name not in implied] or expected
        return FieldError(field, f"must be {' or '.join(named_types)}, not {actual}")
    if choice := _NOT_A_CHOICE.fullmatch(text):
        return FieldError(field, f"{choice['value']} is not one of the allowed values")
    return FieldError(field, text[:1].lower() + text[1:])


def _fields_at(of: object, path: str) -> tuple[str, ...]:
    """Return the names of the fields at a path of a type, none if it is not a type with fields."""
    if of is None:
        return ()
    found = _without_none(inspect.type_info(of))
    for step in _STEPS.findall(path):
        if step.startswith("["):
            of_items = getattr(found, "item_type", None) or getattr(found, "value_type", None)
            found = _without_none(of_items)
        else:
            fields = getattr(found, "fields", ())
            found = _without_none(next((f.type for f in fields if f.encode_name == step), None))
    return tuple(field.encode_name for field in getattr(found, "fields", ()))


def _without_none(found: Any) -> Any:
    """Return the type with fields of a union, or the type itself."""
    if not isinstance(found, inspect.UnionType):
        return found
    return next((one for one in found.types if hasattr(one, "fields")), found.types[0])
