"""Types that users declare, as JSON: schemas, encoding and decoding.

Dataclasses, TypedDicts and `msgspec.Struct` are known to msgspec. Pydantic models are recognised by
their methods, without an import of pydantic.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

_MODEL_METHODS = ("model_json_schema", "model_validate_json", "model_dump")


def json_schema(of: Any) -> dict[str, Any]:
    """Return the JSON schema of a type."""
    definitions: dict[str, Any] = {}

    def model_schema(model: type[Any]) -> dict[str, Any]:
        _check_model_type(model)
        schema = dict(model.model_json_schema())
        _add_definitions(definitions, schema.pop("$defs", {}))
        return schema

    schema = msgspec.json.schema(of, schema_hook=model_schema)
    if definitions:
        # References in the schemas of models start at the root.
        _add_definitions(definitions, schema.get("$defs", {}))
        schema["$defs"] = definitions
    # msgspec 0.22 finds fields whose names are not ASCII only after they have been encoded.
    msgspec.json.encode(schema)
    return schema


def object_schema(of: Any) -> dict[str, Any]:
    """Return the JSON schema of a type with fields; TypeError if it has none."""
    schema = json_schema(of)
    definitions = dict(schema.pop("$defs", {}))
    if "$ref" in schema:
        root = str(schema.pop("$ref")).removeprefix("#/$defs/")
        schema = {**definitions[root], **schema}
        if f'"#/$defs/{root}"'.encode() not in msgspec.json.encode([schema, definitions]):
            del definitions[root]  # the type does not refer to itself
    if schema.get("type") != "object":
        raise TypeError(
            f"{of!r} has no fields: use a dataclass, a TypedDict, a msgspec.Struct or a pydantic "
            "model"
        )
    return {**schema, "$defs": definitions} if definitions else schema


def convert_object(of: Any, data: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON data validated as a type, with the defaults of missing fields.

    `schema` is the `object_schema` of the type. Fields that it does not have are a ValueError.
    """
    unknown = data.keys() - schema.get("properties", {}).keys()
    if unknown and not schema.get("additionalProperties"):
        fields = ", ".join(schema.get("properties", {})) or "none"
        raise ValueError(f"unknown argument {', '.join(sorted(unknown))}; expected {fields}")
    found: dict[str, Any] = to_builtins(msgspec.convert(data, of, dec_hook=decode_model))
    return found


def encode_json(value: object) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(to_builtins(value)).decode()


def to_builtins(value: Any) -> Any:
    """Return a value as JSON data, including dataclass fields that have their defaults."""
    return msgspec.to_builtins(_expand_dataclasses(value), str_keys=True, enc_hook=encode_model)


def encode_model(value: Any) -> Any:
    """Return a pydantic model, or one with the same methods, as JSON data (msgspec enc_hook).

    A mapping that is no dict is a dict, such as the memory of a node.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if not is_model_type(type(value)):
        advice = ": write await before the call" if hasattr(value, "__await__") else ""
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported{advice}")
    return value.model_dump(mode="json", by_alias=True)


def decode_model(model: type[Any], data: Any) -> Any:
    """Return JSON data as a pydantic model, or one with the same methods (msgspec dec_hook)."""
    _check_model_type(model)
    return model.model_validate_json(msgspec.json.encode(data))


def is_model_type(candidate: type[Any]) -> bool:
    """Return True if a class has the methods of a pydantic model."""
    return all(hasattr(candidate, name) for name in _MODEL_METHODS)


def _expand_dataclasses(value: Any) -> Any:
    if is_dataclass(value):
        return {item.name: _expand_dataclasses(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, list | tuple):
        return [_expand_dataclasses(item) for item in value]
    if isinstance(value, dict):
        return {key: _expand_dataclasses(item) for key, item in value.items()}
    return value


def _check_model_type(candidate: type[Any]) -> None:
    if not is_model_type(candidate):
        raise TypeError(
            f"{candidate.__name__} cannot be decoded from JSON: use a dataclass, a TypedDict, a "
            "msgspec.Struct, a pydantic model, or types such as str and list[int]"
        )


def _add_definitions(definitions: dict[str, Any], further: Mapping[str, Any]) -> None:
    for name, definition in further.items():
        if definitions.setdefault(name, definition) != definition:
            raise TypeError(f"two different classes are named {name}")
