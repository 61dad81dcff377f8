"""Errors of msgspec in the terms of JSON and TOML."""

import re
from typing import NamedTuple

import msgspec

_VALIDATION_ERROR = re.compile(r"(?P<reason>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)
_TYPE_MISMATCH = re.compile(r"Expected `(?P<expected>[^`]+)`, got `(?P<actual>[^`]+)`")
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
_NOT_A_CHOICE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
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


def field_error_of(error: msgspec.ValidationError) -> FieldError:
    """Return the field that msgspec rejects, and the reason in plain words."""
    match = _VALIDATION_ERROR.fullmatch(str(error))
    text, field = (match["reason"], match["field"] or "") if match else (str(error), "")
    for pattern, problem in ((_MISSING, "is required"), (_UNKNOWN, "is not a known field")):
        if named := pattern.fullmatch(text):
            return FieldError(f"{field}.{named['name']}" if field else named["name"], problem)
    if mismatch := _TYPE_MISMATCH.match(text):
        expected = [_TYPE_NAMES.get(name, name) for name in mismatch["expected"].split(" | ")]
        actual = _TYPE_NAMES.get(mismatch["actual"], mismatch["actual"])
        implied = {"null", *(["a number"] if "an integer" in expected else ())}
        named_types = [name for name in expected if name not in implied] or expected
        return FieldError(field, f"must be {' or '.join(named_types)}, not {actual}")
    if choice := _NOT_A_CHOICE.fullmatch(text):
        return FieldError(field, f"{choice['value']} is not one of the allowed values")
    return FieldError(field, text[:1].lower() + text[1:])
