"""OpenAPI description of `POST /run` and of the intents that it executes."""

from collections.abc import Sequence
from typing import Any

from acc.domain.value_objects.contract import IntentContract

Schema = dict[str, Any]
_ERRORS = {
    "400": "The inputs violate the contract of the intent; nothing was executed.",
    "401": "Credentials are missing or invalid.",
    "403": "The caller is not permitted to call the intent.",
    "404": "The intent does not exist.",
    "408": "The body was not received in time.",
    "409": "The task of the intent did not complete, for example because it requires input.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "429": "A limit of the caller is exceeded.",
    "500": "The agent failed, or its outputs violate the contract.",
    "503": "The server is stopping, or a service that it needs does not respond.",
}
_CONTEXT: Schema = {
    "type": "object",
    "description": "Claims about the request. The caller must be that of the credentials.",
    "properties": {
        **{
            name: {"type": "string", "minLength": 1, "maxLength": 256}
            for name in ("caller", "request_id", "trace_id", "user_id", "session_id")
        },
        "timestamp": {"type": "string", "format": "date-time"},
        "permissions": {"type": "array", "items": {"type": "string"}},
    },
}


def intent_paths(contracts: Sequence[IntentContract]) -> dict[str, Any]:
    """Return the path that executes intents, with one alternative for each of them."""
    names = [_schema_name(contract) for contract in contracts]
    return {
        "/run": {
            "post": {
                "operationId": "RunIntent",
                "summary": "Execute an intent and return its outputs.",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _one_of(names, "Request")}},
                },
                "responses": {
                    "200": {
                        "description": "The outputs of the intent.",
                        "content": {"application/json": {"schema": _any_of(names, "Outputs")}},
                    },
                    **{status: _error(status, text) for status, text in _ERRORS.items()},
                },
            }
        }
    }


def intent_schemas(contracts: Sequence[IntentContract]) -> dict[str, Schema]:
    """Return the schemas of the requests, inputs and outputs of intents."""
    schemas: dict[str, Schema] = {}
    for contract in contracts:
        name = _schema_name(contract)
        required = ["intent", "inputs"] if len(contracts) > 1 else ["inputs"]
        if not contract.input_schema.get("required"):
            required.remove("inputs")
        schemas[f"{name}Inputs"] = dict(contract.input_schema)
        schemas[f"{name}Outputs"] = dict(contract.output_schema)
        schemas[f"{name}Request"] = {
            "type": "object",
            "description": contract.description,
            "properties": {
                "intent": {"const": contract.name},
                "inputs": {"$ref": f"#/components/schemas/{name}Inputs"},
                "memory": {"type": "object"},
                "context": _CONTEXT,
            },
            "required": required,
        }
    if contracts:
        detail = {
            "type": "object",
            "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
            "required": ["code", "message"],
        }
        schemas["RunError"] = {
            "type": "object",
            "properties": {"error": detail},
            "required": ["error"],
        }
    return schemas


def _schema_name(contract: IntentContract) -> str:
    """Return the name of an intent as a key of OpenAPI, which allows few characters."""
    letters = [
        letter
        if letter.isascii() and (letter.isalnum() or letter in "._-")
        else f"-{ord(letter):x}-"
        for letter in contract.name
    ]
    return f"Intent.{''.join(letters)}."


def _one_of(names: Sequence[str], kind: str) -> Schema:
    return {"oneOf": [{"$ref": f"#/components/schemas/{name}{kind}"} for name in names]}


def _any_of(names: Sequence[str], kind: str) -> Schema:
    return {"anyOf": [{"$ref": f"#/components/schemas/{name}{kind}"} for name in names]}


def _error(status: str, text: str) -> Schema:
    response: Schema = {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RunError"}}},
    }
    name = {"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"}.get(status)
    if name:
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"}}
    return response
