"""Values held against JSON schemas that others wrote."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import jsonschema
import msgspec
from referencing import Registry
from referencing.exceptions import Unresolvable

_MOST_FAULT = 500
# A pattern of a server's may take for ever on a text of a model's; the server can check it itself.
_UNCHECKED = ("pattern", "patternProperties", "format")
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, dict.fromkeys(_UNCHECKED)
)


def schema_error(schema: Mapping[str, Any], value: Any) -> str:
    """Return what is wrong with a value by a schema, or nothing.

    A schema that is none, or that refers to somewhere else, is left to its author to check: nothing
    is ever fetched for it.
    """
    check = _checker(msgspec.json.encode(schema))
    if check is None:
        return ""
    try:
        faults = [
            _told(error) for error in check(dict(value) if isinstance(value, Mapping) else value)
        ]
    except (Unresolvable, RecursionError, TypeError, ValueError):
        return ""
    return "; ".join(faults[:5])[:_MOST_FAULT]


Checker = Callable[[Any], Iterable[jsonschema.ValidationError]]


@lru_cache(maxsize=512)
def _checker(schema: bytes) -> Checker | None:
    written = msgspec.json.decode(schema)
    try:
        _Validator.check_schema(written)
    except (jsonschema.SchemaError, RecursionError):
        return None
    checker: Checker = _Validator(written, registry=Registry()).iter_errors
    return checker


def _told(error: jsonschema.ValidationError) -> str:
    place = ".".join(str(step) for step in error.absolute_path)
    return f"{place}: {error.message[:200]}" if place else error.message[:200]
