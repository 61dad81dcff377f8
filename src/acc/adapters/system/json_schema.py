"""Validation of values with JSON schemas from servers and agents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema
import msgspec
from referencing import Registry
from referencing.exceptions import Unresolvable

from acc.domain.contract_errors import FieldViolation
from acc.domain.errors import InvalidInput

MAX_ERROR_LENGTH = 500
MAX_VALUE_ERROR_LENGTH = 200
MAX_ERRORS = 5
MAX_EXAMINED_ERRORS = 50
_MAX_SUGGESTION_LENGTH = 64
#: Keywords of a schema of others that are evaluated for one value; references can repeat them
#: exponentially often.
MAX_EVALUATED_KEYWORDS = 50_000
# A regular expression of a server can take exponential time on a value of a model. The server
# validates these keywords itself. `$schema` would select another validator.
_IGNORED_KEYWORDS = frozenset({"pattern", "patternProperties", "$schema"})
#: Keywords that reject more values if a schema inside accepts more.
_NEGATIVE_KEYWORDS = frozenset(
    {"not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "maxContains"}
)
_KEYWORDS_WITH_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_KEYWORDS_WITH_SCHEMAS = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "prefixItems", "items", "contains", "propertyNames"),
        *("additionalProperties", "unevaluatedProperties", "unevaluatedItems"),
        *("not", "if", "then", "else"),
    }
)
_Check = Callable[[Any, Any, Any, Any], Iterable[jsonschema.ValidationError] | None]
_evaluated: ContextVar[int] = ContextVar("evaluated_keywords")


class _TooExpensive(Exception):
    """The evaluation of a schema takes too long."""


def _counted(check: _Check) -> _Check:
    def evaluate(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterable[jsonschema.ValidationError] | None:
        number = _evaluated.get(0) + 1
        if number > MAX_EVALUATED_KEYWORDS:
            raise _TooExpensive
        _evaluated.set(number)
        return check(validator, value, instance, schema)

    return evaluate


_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {name: _counted(check) for name, check in jsonschema.Draft202012Validator.VALIDATORS.items()},
)
_IterErrors = Callable[[Any], Iterable[jsonschema.ValidationError]]
_TYPE_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
#: What a violated keyword requires; the value of the keyword is inserted.
_REQUIREMENTS = {
    "const": "must be {}",
    "enum": "must be one of {}",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "pattern": "must match the pattern {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} fields",
    "maxProperties": "must have at most {} fields",
}


class JsonSchemaValidator:
    """Validates with JSON Schema 2020-12; references are never downloaded."""

    def schema_error(self, schema: Mapping[str, Any], value: Any) -> str:
        """Return what is invalid in a value, or an empty string if it is valid.

        An invalid schema, one with an external reference, or one whose evaluation takes too long
        accepts every value: its author has to validate the value.
        """
        _evaluated.set(0)
        iter_errors = _compile(msgspec.json.encode(schema))
        if iter_errors is None:
            return ""
        try:
            instance = dict(value) if isinstance(value, Mapping) else value
            errors = [_format_error(error) for error in iter_errors(instance)]
        except (_TooExpensive, Unresolvable, RecursionError, TypeError, ValueError):
            return ""
        return "; ".join(errors[:MAX_ERRORS])[:MAX_ERROR_LENGTH]

    def violations(
        self, schema: Mapping[str, Any], value: Any, *, is_trusted: bool = False
    ) -> tuple[FieldViolation, ...]:
        """Return the fields of a value that violate a schema, without their values.

        Regular expressions of schemas that are not trusted are not evaluated, and an invalid schema
        that is not trusted, or one whose evaluation takes too long, accepts every value.
        """
        _evaluated.set(0)
        iter_errors = _compile(msgspec.json.encode(schema), is_trusted)
        if iter_errors is None:
            return ()
        try:
            errors = islice(iter_errors(value), MAX_EXAMINED_ERRORS)
            found = [one for error in errors for one in _violations(error)]
        except RecursionError:
            return (FieldViolation("", "depth", "are nested too deeply"),)
        except (_TooExpensive, Unresolvable):
            return ()
        unique = dict.fromkeys(found)
        return tuple(sorted(unique, key=lambda one: one.rule != "required"))[:MAX_ERRORS]


@lru_cache(maxsize=512)
def _compile(schema: bytes, is_trusted: bool = False) -> _IterErrors | None:
    """Return the validation of a schema; None if it is invalid and not trusted."""
    document = msgspec.json.decode(schema)
    validator = jsonschema.Draft202012Validator if is_trusted else _Validator
    try:
        if not is_trusted:
            has_patterns = b'"pattern"' in schema or b'"patternProperties"' in schema
            document = _without_patterns(document, is_weaker=has_patterns)
        validator.check_schema(document)
    except (jsonschema.SchemaError, RecursionError) as error:
        if is_trusted:
            reason = getattr(error, "message", str(error))
            raise InvalidInput(f"the JSON schema of a contract is invalid: {reason}") from None
        return None
    iter_errors: _IterErrors = validator(document, registry=Registry()).iter_errors
    return iter_errors


def _without_patterns(schema: Any, *, is_weaker: bool) -> Any:
    """Return a schema without regular expressions, which accepts all values that it accepts.

    If it becomes weaker, keywords that would then reject more values are left out too.
    """
    if isinstance(schema, list):
        return [_without_patterns(item, is_weaker=is_weaker) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _IGNORED_KEYWORDS or (is_weaker and key in _NEGATIVE_KEYWORDS):
            continue
        if key == "additionalProperties" and "patternProperties" in schema:
            continue
        if key in _KEYWORDS_WITH_NAMED_SCHEMAS and isinstance(value, dict):
            result[key] = {
                name: _without_patterns(item, is_weaker=is_weaker) for name, item in value.items()
            }
        elif key in _KEYWORDS_WITH_SCHEMAS:
            result[key] = _without_patterns(value, is_weaker=is_weaker)
        else:
            result[key] = value
    if is_weaker and isinstance(result.get("oneOf"), list):
        alternatives = {"anyOf": result.pop("oneOf")}
        others = result.get("allOf")
        result["allOf"] = [*(others if isinstance(others, list) else ()), alternatives]
    return result


def _violations(error: jsonschema.ValidationError) -> Iterator[FieldViolation]:
    path = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path
    ).removeprefix(".")
    keyword, expected, value = error.validator, error.validator_value, error.instance
    if keyword == "required":
        for name in expected:
            if name not in value:
                field = f"{path}.{name}" if path else name
                yield FieldViolation(field, "required", "is required")
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        known = list(error.schema.get("properties", {}))
        unknown = (name for name in value if name not in known)
        for name in islice(unknown, MAX_ERRORS):
            field = f"{path}.{name}" if path else name
            yield FieldViolation(_truncate(field), "unknown", _unknown_field(name, known))
    elif keyword == "type":
        names = [expected] if isinstance(expected, str) else expected
        wanted = " or ".join(_TYPE_NAMES.get(name, name) for name in names)
        yield FieldViolation(path, "type", f"must be {wanted}, got {_type_name(value)}")
    elif keyword in ("anyOf", "oneOf"):
        yield from _alternatives(path, error)
    else:
        limit = _truncate(_json_text(expected))
        text = _REQUIREMENTS.get(str(keyword), "violates the rule " + str(keyword) + " {}")
        yield FieldViolation(path, str(keyword), text.format(limit))


def _alternatives(path: str, error: jsonschema.ValidationError) -> Iterator[FieldViolation]:
    """Report the violations of the alternative that the value has the type of, or all types."""
    deeper = [inner for inner in error.context or () if inner.validator != "type" or inner.path]
    if deeper:
        yield from _violations(jsonschema.exceptions.best_match(deeper))
        return
    names = [name for option in error.validator_value for name in _types(option)]
    wanted = " or ".join(dict.fromkeys(_TYPE_NAMES.get(name, name) for name in names))
    text = f"must be {wanted or 'one of the declared types'}, got {_type_name(error.instance)}"
    yield FieldViolation(path, "type", text)


def _types(option: Any) -> Sequence[str]:
    kind = option.get("type", "object") if isinstance(option, Mapping) else "object"
    return [kind] if isinstance(kind, str) else kind


def _unknown_field(name: str, known: Sequence[str]) -> str:
    is_short = len(name) <= _MAX_SUGGESTION_LENGTH
    close = get_close_matches(name, known, n=1) if is_short else []
    return f"is unknown; did you mean '{close[0]}'?" if close else "is unknown"


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return _TYPE_NAMES[name]
    return "an object" if isinstance(value, Mapping) else type(value).__name__


def _json_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_json_text, value))
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _truncate(text: str) -> str:
    limit = MAX_VALUE_ERROR_LENGTH
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _format_error(error: jsonschema.ValidationError) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    message = error.message[:MAX_VALUE_ERROR_LENGTH]
    return f"{path}: {message}" if path else message
