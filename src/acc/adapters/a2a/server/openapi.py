"""The description of the HTTP+JSON side, in OpenAPI 3.1."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.a2a.server.openapi_schemas import named_or_numbered, ref, schemas
from acc.adapters.a2a.wire.json_fields import MAX_INT, MAX_TENANT_LENGTH
from acc.adapters.a2a.wire.v1_types import NUMBERED_STATES, STATES
from acc.domain.value_objects.agent_card import HTTP_JSON, AgentCard

_VERSION = "1.0"
_KINDS = ("application/json", "application/a2a+json")
#: Letters that need no escape in a path; the server's own ids have no others.
_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}
#: Clients may choose these as they like.
_CHOSEN = {"type": "string", "minLength": 1}
_TENANT = {"type": "string", "minLength": 1, "maxLength": MAX_TENANT_LENGTH}
_FAULTS = {
    "400": "What was sent cannot be used; the message says why.",
    "401": "Credentials are missing or not good.",
    "403": "These credentials do not allow it.",
    "404": "It does not exist, or not for this caller.",
    "408": "The request took too long.",
    "413": "The body is too large.",
    "415": "The body is not sent as JSON.",
    "421": "The server does not answer to that Host.",
    "429": "More than one caller may have or send.",
    "431": "The headers are too large.",
}


def openapi_document(card: AgentCard) -> bytes:
    """Return the OpenAPI description of generation 1.0 of the HTTP+JSON binding."""
    servers = [
        {"url": held.url}
        for held in card.interfaces
        if held.version == _VERSION and held.binding == HTTP_JSON
    ]
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": card.name,
            "version": card.version or "0",
            "description": card.description,
        },
        "servers": servers,
        "paths": {**_public_paths(), **(_paths() if servers else {})},
        "components": {
            "schemas": schemas(),
            "parameters": _parameters(),
            "responses": {f"Fault{status}": _fault(status) for status in _FAULTS},
            "headers": {
                "WWW-Authenticate": {"schema": {"type": "string"}, "required": True},
                "Retry-After": {"schema": {"type": "string"}},
            },
            "securitySchemes": {
                name: dict(scheme) for name, scheme in card.security_schemes.items()
            },
        },
        "security": [
            {name: list(scopes) for name, scopes in needed.items()} for needed in card.security
        ],
    }
    return msgspec.json.encode(document)


def _paths() -> dict[str, Any]:
    """Return every path twice: as it is, and within a tenant."""
    found: dict[str, Any] = {}
    for path, (names, operations) in _operations().items():
        for prefix, more in (("", ()), ("/{tenant}", ("tenant",))):
            found[prefix + path] = {
                "parameters": [_named(name) for name in (*more, *names)],
                **{
                    method: {**operation, "operationId": operation["operationId"] + "InTenant"}
                    if more
                    else operation
                    for method, operation in operations.items()
                },
            }
    return found


def _operations() -> dict[str, tuple[tuple[str, ...], dict[str, Any]]]:
    push = "TaskPushNotificationConfig"
    send = _operation("SendMessage", "Send a message.", "SendMessageResponse")
    stream = _streaming("SendStreamingMessage", "Send a message and follow what comes of it.")
    again = _parameter("LastEventId")
    stream["parameters"] = [*stream["parameters"], again]
    body = _body("SendMessageRequest", required=True)
    cancel = _operation("CancelTask", "Cancel a task.", "Task")
    return {
        "/message:send": ((), {"post": {**send, **body}}),
        "/message:stream": ((), {"post": {**stream, **body}}),
        "/tasks": ((), {"get": _listing()}),
        "/tasks/{id}": (
            ("id",),
            {"get": _operation("GetTask", "Get a task.", "Task", "HistoryLength")},
        ),
        "/tasks/{id}:cancel": (("id",), {"post": {**cancel, **_body("TaskRequest")}}),
        "/tasks/{id}:subscribe": (("id",), _subscribing()),
        "/tasks/{taskId}/pushNotificationConfigs": (
            ("taskId",),
            {
                "post": {
                    **_operation(f"Create{push}", "Be notified of a task.", push),
                    **_body(push, required=True),
                },
                "get": _operation(
                    f"List{push}s",
                    "List who is notified of a task.",
                    f"List{push}sResponse",
                    "PushPageSize",
                    "PageToken",
                ),
            },
        ),
        "/tasks/{taskId}/pushNotificationConfigs/{configId}": (
            ("taskId", "configId"),
            {
                "get": _operation(f"Get{push}", "Get a configuration.", push),
                "delete": _operation(f"Delete{push}", "Delete a configuration.", None),
            },
        ),
        "/extendedAgentCard": (
            (),
            {"get": _operation("GetExtendedAgentCard", "Get the card for callers.", "AgentCard")},
        ),
    }


def _listing() -> dict[str, Any]:
    return _operation(
        "ListTasks",
        "List the caller's tasks, the last moved first.",
        "ListTasksResponse",
        "ContextId",
        "Status",
        "PageSize",
        "PageToken",
        "HistoryLength",
        "StatusTimestampAfter",
        "IncludeArtifacts",
    )


def _subscribing() -> dict[str, Any]:
    text = "Follow a task that is not over, from now or after the last event that came."
    found = {}
    for method, more in (("get", {}), ("post", _body("TaskRequest"))):
        name = "SubscribeToTask" if method == "get" else "SubscribeToTaskByPost"
        operation = _streaming(name, text)
        operation["parameters"] = [*operation["parameters"], _parameter("LastEventId")]
        found[method] = {**operation, **more}
    return found


def _operation(name: str, summary: str, answer: str | None, *parameters: str) -> dict[str, Any]:
    schema = {"type": "object"} if answer is None else ref(answer)
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [_parameter(held) for held in ("A2AVersion", "A2AExtensions", *parameters)],
        "responses": {
            "200": {"description": "It is done.", "content": _content(schema)},
            **_faults(),
        },
    }


def _streaming(name: str, summary: str) -> dict[str, Any]:
    operation = _operation(name, summary, None)
    operation["responses"]["200"] = {
        "description": "Server-sent events, each as the schema says; a comment between them tells "
        "that the stream still lives.",
        "content": {"text/event-stream": {"schema": ref("StreamEvent")}},
    }
    return operation


def _public_paths() -> dict[str, Any]:
    card = {
        "operationId": "GetAgentCard",
        "summary": "Get the card that everyone may read.",
        "security": [],
        "parameters": [{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}],
        "responses": {
            "200": {
                "description": "The card.",
                "headers": {"ETag": {"required": True, "schema": {"type": "string"}}},
                "content": {"application/json": {"schema": ref("AgentCard")}},
            },
            "304": {"description": "It is the one that is known."},
            **_faults("400", "421", "431"),
        },
    }
    health = {
        "operationId": "GetHealth",
        "summary": "Tell whether the server is there.",
        "security": [],
        "responses": {
            "200": {
                "description": "It is.",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {"status": {"const": "ok"}},
                            "required": ["status"],
                        }
                    }
                },
            },
            **_faults("400", "421", "431"),
        },
    }
    return {"/.well-known/agent-card.json": {"get": card}, "/health": {"get": health}}


def _faults(*statuses: str) -> dict[str, Any]:
    return {
        status: {"$ref": f"#/components/responses/Fault{status}"} for status in statuses or _FAULTS
    }


def _fault(status: str) -> dict[str, Any]:
    fault: dict[str, Any] = {"description": _FAULTS[status], "content": _content(ref("Error"))}
    name = {"401": "WWW-Authenticate", "429": "Retry-After"}.get(status)
    if name:
        fault["headers"] = {name: {"$ref": f"#/components/headers/{name}"}}
    return fault


def _body(name: str, *, required: bool = False) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": _content(ref(name))}}


def _content(schema: Mapping[str, Any], kinds: Sequence[str] = _KINDS) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind in kinds}


def _named(name: str) -> dict[str, Any]:
    schema = {"tenant": _TENANT, "configId": _CHOSEN}.get(name, _NAME)
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/parameters/{name}"}


def _parameters() -> dict[str, Any]:
    number = _or_empty({"type": "integer", "minimum": 0, "maximum": MAX_INT})
    states = named_or_numbered(["", *STATES], NUMBERED_STATES)
    moment = _or_empty({"type": "string", "format": "date-time"})
    page_size = _or_empty({"type": "integer", "minimum": 1, "maximum": 100})
    return {
        "A2AVersion": {
            "name": "A2A-Version",
            "in": "header",
            "required": True,
            "description": "Without it a request is of generation 0.3.",
            "schema": {"type": "string", "enum": [_VERSION]},
        },
        "A2AExtensions": {
            "name": "A2A-Extensions",
            "in": "header",
            "description": "The extensions that the client wants to use, separated by commas.",
            "schema": {"type": "string"},
        },
        "LastEventId": {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The number of the last event that came; only what follows is sent.",
            "schema": {"type": "string", "pattern": "^[0-9]{0,15}$"},
        },
        "PushPageSize": {"name": "pageSize", "in": "query", "schema": number},
        **{
            _title(name): {"name": name, "in": "query", "schema": schema}
            for name, schema in (
                ("contextId", {"type": "string"}),
                ("status", states),
                ("pageSize", page_size),
                ("pageToken", {"type": "string", "description": "As the last page named it."}),
                ("historyLength", number),
                ("statusTimestampAfter", moment),
                ("includeArtifacts", _or_empty({"type": "boolean"})),
            )
        },
    }


def _or_empty(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter of a query, where an empty one is none."""
    return {"anyOf": [schema, {"type": "string", "maxLength": 0}]}


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]
