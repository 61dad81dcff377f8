"""The contract of an intent, and the context that a request claims."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acc.domain.errors import InvalidInput

#: The A2A extension for intents: the schemas on the card, the intent and inputs in messages.
INTENTS_EXTENSION = "urn:acc:a2a:intents:v1"
#: The schema of an object about which nothing is declared.
ANY_OBJECT: dict[str, Any] = {"type": "object"}
MAX_INTENT_NAME_LENGTH = 128
_NAME = re.compile(r"[^\W\d][\w.\-]*")
_AGENT_PREFIXES = ("agent://", "agent:")


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentContract:
    """What an agent does for an intent, and which data it needs and returns.

    The schemas are JSON schemas of objects. `reads` and `writes` are patterns of state keys,
    `context` are the keys of the request context that are used. `permissions` are those that a
    caller needs. An `idempotent` intent may be repeated with the same inputs.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=ANY_OBJECT.copy)
    output_schema: Mapping[str, Any] = field(default_factory=ANY_OBJECT.copy)
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    idempotent: bool = False

    def __post_init__(self) -> None:
        check_intent_name(self.name)
        for option in ("input_schema", "output_schema"):
            schema = getattr(self, option)
            if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
                raise InvalidInput(
                    f"intent {self.name!r}: {option} must be the JSON schema of an object"
                )
        for option in ("reads", "writes", "context", "permissions"):
            names = getattr(self, option)
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise InvalidInput(f"intent {self.name!r}: {option} must be a list of names")
            object.__setattr__(self, option, tuple(names))

    @property
    def input_fields(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the schema of each declared input field."""
        return _fields(self.input_schema)

    @property
    def output_fields(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the schema of each declared output field."""
        return _fields(self.output_schema)

    @property
    def required_inputs(self) -> tuple[str, ...]:
        """Return the names of the required input fields."""
        return tuple(self.input_schema.get("required", ()))


#: Names of the fields in JSON, where they are in camel case.
_JSON_NAMES = {
    "name": "name",
    "description": "description",
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "reads": "reads",
    "writes": "writes",
    "context": "context",
    "permissions": "permissions",
    "idempotent": "idempotent",
}


def contract_to_json(contract: IntentContract) -> dict[str, Any]:
    """Return a contract as JSON data."""
    values = {json_name: getattr(contract, name) for name, json_name in _JSON_NAMES.items()}
    return {key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}


def contract_from_json(data: object) -> IntentContract:
    """Return the contract of JSON data, which may come from another server."""
    if not isinstance(data, Mapping):
        raise InvalidInput("a contract must be a JSON object")
    values = {name: data[key] for name, key in _JSON_NAMES.items() if key in data}
    if not isinstance(values.get("description", ""), str):
        raise InvalidInput("description of a contract must be a string")
    for option in ("reads", "writes", "context", "permissions"):
        if not isinstance(values.get(option, []), list):
            raise InvalidInput(f"{option} of a contract must be a list of names")
    values["idempotent"] = values.get("idempotent") is True
    if "name" not in values:
        raise InvalidInput("a contract needs a name")
    return IntentContract(**values)


def check_intent_name(name: object) -> None:
    """Raise InvalidInput if a name cannot be a JSON-RPC method and a skill id."""
    is_valid = isinstance(name, str) and len(name) <= MAX_INTENT_NAME_LENGTH
    if not is_valid or not _NAME.fullmatch(str(name)):
        raise InvalidInput(
            f"{name!r} is not a valid name of an intent: use letters, digits, _, - and ., start "
            f"with a letter, and at most {MAX_INTENT_NAME_LENGTH} characters"
        )


def is_same_caller(claimed: str, authenticated: str) -> bool:
    """Return True if a claimed caller is the authenticated one, with or without `agent:`."""
    return _without_prefix(claimed) == _without_prefix(authenticated)


def _without_prefix(caller: str) -> str:
    for prefix in _AGENT_PREFIXES:
        caller = caller.removeprefix(prefix)
    return caller


def _fields(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    properties = schema.get("properties", {})
    return {name: field if isinstance(field, Mapping) else {} for name, field in properties.items()}
