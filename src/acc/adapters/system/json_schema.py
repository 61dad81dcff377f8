"""Validation of values with JSON schemas from servers and agents."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import jsonschema
import msgspec
from referencing import Registry
from referencing.exceptions import Unresolvable

MAX_ERROR_LENGTH = 500
MAX_VALUE_ERROR_LENGTH = 200
MAX_ERRORS = 5
# A regular expression of a server can take exponential time on a value of a model. The server
# validates these keywords itself.
_IGNORED_KEYWORDS = ("pattern", "patternProperties", "format")
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, dict.fromkeys(_IGNORED_KEYWORDS)
)
_IterErrors = Callable[[Any], Iterable[jsonschema.ValidationError]]


class JsonSchemaValidator:
    """Validates with JSON Schema 2020-12; references are never downloaded."""

    def schema_error(self, schema: Mapping[str, Any], value: Any) -> str:
        """Return what is invalid in a value, or an empty string if it is valid.

        An invalid schema, or one with an external reference, accepts every value: its author has to
        validate the value.
        """
        iter_errors = _compile(msgspec.json.encode(schema))
        if iter_errors is None:
            return ""
        try:
            instance = dict(value) if isinstance(value, Mapping) else value
            errors = [_format_error(error) for error in iter_errors(instance)]
        except (Unresolvable, RecursionError, TypeError, ValueError):
            return ""
        return "; ".join(errors[:MAX_ERRORS])[:MAX_ERROR_LENGTH]


@lru_cache(maxsize=512)
def _compile(schema: bytes) -> _IterErrors | None:
    document = msgspec.json.decode(schema)
    try:
        _Validator.check_schema(document)
    except (jsonschema.SchemaError, RecursionError):
        return None
    iter_errors: _IterErrors = _Validator(document, registry=Registry()).iter_errors
    return iter_errors


def _format_error(error: jsonschema.ValidationError) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    message = error.message[:MAX_VALUE_ERROR_LENGTH]
    return f"{path}: {message}" if path else message
