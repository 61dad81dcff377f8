"""OpenAPI 3.1 document of the HTTP+JSON binding, generated from the wire types."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.a2a.server.openapi_intents import intent_paths, intent_schemas
from acc.adapters.a2a.wire.card_codec import WireAgentCard
from acc.adapters.a2a.wire.json_fields import MAX_INT, MAX_TENANT_LENGTH
from acc.adapters.a2a.wire.v1 import MAX_PAGE_SIZE
from acc.adapters.a2a.wire.v1_types import (
    NUMBERED_STATES,
    STATES,
    WireListTaskPushNotificationConfigsResponse,
    WireListTasksResponse,
    WireSendMessageRequest,
    WireSendMessageResponse,
    WireStreamResponse,
    WireTaskRequest,
)
from acc.domain.value_objects.agent_card import HTTP_JSON, AgentCard
from acc.domain.value_objects.contract import IntentContract

Schema = dict[str, Any]
_VERSION = "1.0"
_MEDIA_TYPES = ("application/json", "application/a2a+json")
_PREFIX = "Wire"
#: The types of requests and responses; the types of their fields are included.
_TYPES = (
    WireSendMessageRequest,
    WireSendMessageResponse,
    WireStreamResponse,
    WireTaskRequest,
    WireListTasksResponse,
    WireListTaskPushNotificationConfigsResponse,
    WireAgentCard,
)
#: Fields that requests must contain and responses always contain. The decoder treats every field as
#: optional; the mapping to domain values checks these.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "Message": ("messageId", "role", "parts"),
    "Artifact": ("artifactId", "parts"),
    "TaskStatus": ("state",),
    "Task": ("id", "status"),
    "TaskStatusUpdateEvent": ("taskId", "contextId", "status"),
    "TaskArtifactUpdateEvent": ("taskId", "contextId", "artifact"),
    "SendMessageRequest": ("message",),
    "TaskPushNotificationConfig": ("url",),
    "ListTasksResponse": ("tasks", "nextPageToken", "pageSize", "totalSize"),
    "AgentInterface": ("url", "protocolBinding", "protocolVersion"),
    "AgentSkill": ("id", "name", "description", "tags"),
    "AgentCard": (
        "name",
        "description",
        "version",
        "supportedInterfaces",
        "capabilities",
        "skills",
        "defaultInputModes",
        "defaultOutputModes",
    ),
}
_ERRORS = {
    "400": "The request is invalid; the message contains the reason.",
    "401": "Credentials are missing or invalid.",
    "403": "The caller is not permitted to do this.",
    "404": "The resource does not exist for this caller.",
    "408": "The body was not received in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "421": "The server does not serve that Host.",
    "429": "A limit of the caller is exceeded.",
    "431": "The headers are too large.",
    "503": "The server is stopping, or a service that it needs does not respond.",
}
_STRING = {"type": "string"}
#: Ids that need no escape in a path; the ids of the server are such.
_PATH_ID = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}
#: Clients choose the ids of configurations.
_CLIENT_ID = {"type": "string", "minLength": 1}
_TENANT = {"type": "string", "minLength": 1, "maxLength": MAX_TENANT_LENGTH}


def openapi_document(card: AgentCard, contracts: Sequence[IntentContract] = ()) -> bytes:
    """Return the OpenAPI document of version 1.0 of the HTTP+JSON binding, and of the intents."""
    servers = [
        {"url": interface.url}
        for interface in card.interfaces
        if interface.version == _VERSION and interface.binding == HTTP_JSON
    ]
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": card.name,
            "version": card.version or "0",
            "description": card.description,
        },
        "servers": servers,
        "paths": {
            **_public_paths(),
            **(intent_paths(contracts) if contracts else {}),
            **(_paths() if servers else {}),
        },
        "components": {
            "schemas": {**_schemas(), **intent_schemas(contracts)},
            "parameters": _parameters(),
            "responses": {f"Error{status}": _error_response(status) for status in _ERRORS},
            "headers": {
                "WWW-Authenticate": {"schema": _STRING, "required": True},
                "Retry-After": {"schema": _STRING},
            },
            "securitySchemes": {
                name: dict(scheme) for name, scheme in card.security_schemes.items()
            },
        },
        "security": [
            {name: list(scopes) for name, scopes in requirement.items()}
            for requirement in card.security
        ],
    }
    return msgspec.json.encode(document)


# Schemas


def _schemas() -> dict[str, Schema]:
    """Return the schemas of the wire types, and those of errors and events."""
    _, components = msgspec.json.schema_components(
        _TYPES, ref_template="#/components/schemas/{name}"
    )
    document = msgspec.json.encode(components).replace(f"schemas/{_PREFIX}".encode(), b"schemas/")
    schemas: dict[str, Schema] = {}
    for type_name, schema in msgspec.json.decode(document).items():
        name = schema["title"] = type_name.removeprefix(_PREFIX)
        schema["required"] = list(_REQUIRED.get(name, ()))
        for field in schema["required"]:
            schema["properties"][field] = _not_null(schema["properties"][field])
        schemas[name] = schema
    schemas["Part"]["anyOf"] = [
        {"required": ["data"]},
        {"required": ["text"], "properties": {"text": _STRING}},
        {"required": ["raw"], "properties": {"raw": _STRING}},
        {"required": ["url"], "properties": {"url": _STRING}},
    ]
    for name in ("SendMessageResponse", "StreamResponse"):
        schemas[name] |= {"minProperties": 1, "maxProperties": 1}
    schemas["UserMessage"] = {
        "description": "A message of a client.",
        "allOf": [
            _ref("Message"),
            {
                "properties": {
                    "role": {"enum": ["ROLE_USER", 1]},
                    "parts": {"minItems": 1, "maxItems": 100},
                }
            },
        ],
    }
    schemas["SendMessageRequest"]["properties"]["message"] = _ref("UserMessage")
    return {**schemas, "StreamEvent": _stream_event(), "Error": _error_schema()}


def _not_null(schema: Schema) -> Schema:
    """Return the schema of an optional field without null and without its default."""
    schema = {name: value for name, value in schema.items() if name != "default"}
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        del schema["anyOf"]
        return {**schema, **options[0]}
    return {**schema, "anyOf": options} if options else schema


def _stream_event() -> Schema:
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The number of the event."},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": _ref("StreamResponse"),
            },
        },
        "required": ["id", "data"],
    }


def _error_schema() -> Schema:
    detail = {
        "type": "object",
        "properties": {"@type": _STRING, "reason": _STRING},
        "required": ["@type"],
    }
    error = {
        "type": "object",
        "properties": {
            "code": {"type": "integer", "description": "The HTTP status."},
            "status": _STRING,
            "message": _STRING,
            "details": {"type": "array", "items": detail, "minItems": 1},
        },
        "required": ["code", "status", "message", "details"],
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


# Paths


def _paths() -> dict[str, Any]:
    """Return every path twice: as it is, and below a tenant."""
    paths: dict[str, Any] = {}
    for path, (names, operations) in _operations().items():
        parameters = [_path_parameter(name) for name in names]
        paths[path] = {"parameters": parameters, **operations}
        paths[f"/{{tenant}}{path}"] = {
            "parameters": [_path_parameter("tenant"), *parameters],
            **{
                method: {**operation, "operationId": f"{operation['operationId']}InTenant"}
                for method, operation in operations.items()
            },
        }
    return paths


def _operations() -> dict[str, tuple[tuple[str, ...], dict[str, Any]]]:
    push = "TaskPushNotificationConfig"
    send_body = _body("SendMessageRequest", required=True)
    subscribe = "Follow a task that has not ended, from now or after the last received event."
    return {
        "/message:send": (
            (),
            {
                "post": {
                    **_operation("SendMessage", "Send a message.", "SendMessageResponse"),
                    **send_body,
                }
            },
        ),
        "/message:stream": (
            (),
            {
                "post": {
                    **_streaming("SendStreamingMessage", "Send a message and follow its task."),
                    **send_body,
                }
            },
        ),
        "/tasks": (
            (),
            {
                "get": _operation(
                    "ListTasks",
                    "List the tasks of the caller, most recently updated first.",
                    "ListTasksResponse",
                    "ContextId",
                    "Status",
                    "PageSize",
                    "PageToken",
                    "HistoryLength",
                    "StatusTimestampAfter",
                    "IncludeArtifacts",
                )
            },
        ),
        "/tasks/{id}": (
            ("id",),
            {"get": _operation("GetTask", "Get a task.", "Task", "HistoryLength")},
        ),
        "/tasks/{id}:cancel": (
            ("id",),
            {
                "post": {
                    **_operation("CancelTask", "Cancel a task.", "Task"),
                    **_body("TaskRequest"),
                }
            },
        ),
        "/tasks/{id}:subscribe": (
            ("id",),
            {
                "get": _streaming("SubscribeToTask", subscribe),
                "post": {
                    **_streaming("SubscribeToTaskByPost", subscribe),
                    **_body("TaskRequest"),
                },
            },
        ),
        "/tasks/{taskId}/pushNotificationConfigs": (
            ("taskId",),
            {
                "post": {
                    **_operation(f"Create{push}", "Create a push configuration.", push),
                    **_body(push, required=True),
                },
                "get": _operation(
                    f"List{push}s",
                    "List the push configurations of a task.",
                    f"List{push}sResponse",
                    "PushPageSize",
                    "PageToken",
                ),
            },
        ),
        "/tasks/{taskId}/pushNotificationConfigs/{configId}": (
            ("taskId", "configId"),
            {
                "get": _operation(f"Get{push}", "Get a push configuration.", push),
                "delete": _operation(f"Delete{push}", "Delete a push configuration.", None),
            },
        ),
        "/extendedAgentCard": (
            (),
            {"get": _operation("GetExtendedAgentCard", "Get the extended card.", "AgentCard")},
        ),
    }


def _public_paths() -> dict[str, Any]:
    errors = _error_refs("400", "421", "431")
    card = {
        "operationId": "GetAgentCard",
        "summary": "Get the public card.",
        "security": [],
        "parameters": [{"name": "If-None-Match", "in": "header", "schema": _STRING}],
        "responses": {
            "200": {
                "description": "The card.",
                "headers": {"ETag": {"required": True, "schema": _STRING}},
                "content": {"application/json": {"schema": _ref("AgentCard")}},
            },
            "304": {"description": "The card has not changed."},
            **errors,
        },
    }
    health = {
        "operationId": "GetHealth",
        "summary": "Check that the server is running.",
        "security": [],
        "responses": {
            "200": {
                "description": "The server is running.",
                "content": {"application/json": {"schema": _status("ok")}},
            },
            **errors,
        },
    }
    ready = {
        "operationId": "GetReadiness",
        "summary": "Check that the server accepts new tasks.",
        "security": [],
        "responses": {
            "200": {
                "description": "The server accepts new tasks.",
                "content": {"application/json": {"schema": _status("ready")}},
            },
            "503": {
                "description": "The server is stopping.",
                "headers": {"Retry-After": {"schema": _STRING, "required": True}},
                "content": {"application/json": {"schema": _status("stopping")}},
            },
            **errors,
        },
    }
    return {
        "/.well-known/agent-card.json": {"get": card},
        "/health/live": {"get": health},
        "/health/ready": {"get": ready},
        "/health": {"get": {**health, "operationId": "GetHealthAlias"}},
        "/ready": {"get": {**ready, "operationId": "GetReadinessAlias"}},
    }


def _status(value: str) -> Schema:
    return {
        "type": "object",
        "properties": {"status": {"const": value}},
        "required": ["status"],
    }


def _operation(name: str, summary: str, response: str | None, *parameters: str) -> dict[str, Any]:
    schema = {"type": "object"} if response is None else _ref(response)
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [
            {"$ref": f"#/components/parameters/{parameter}"}
            for parameter in ("A2AVersion", "A2AExtensions", *parameters)
        ],
        "responses": {
            "200": {"description": "Success.", "content": _content(schema)},
            **_error_refs(*_ERRORS),
        },
    }


def _streaming(name: str, summary: str) -> dict[str, Any]:
    operation = _operation(name, summary, None, "LastEventId")
    operation["responses"]["200"] = {
        "description": "Server-sent events. Comments between them are heartbeats.",
        "content": {"text/event-stream": {"schema": _ref("StreamEvent")}},
    }
    return operation


def _body(name: str, *, required: bool = False) -> dict[str, Any]:
    return {"requestBody": {"required": required, "content": _content(_ref(name))}}


def _content(schema: Schema) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind in _MEDIA_TYPES}


def _error_refs(*statuses: str) -> dict[str, Any]:
    return {status: {"$ref": f"#/components/responses/Error{status}"} for status in statuses}


def _error_response(status: str) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": _ERRORS[status],
        "content": _content(_ref("Error")),
    }
    name = {"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"}.get(status)
    if name:
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"}}
    return response


# Parameters


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"tenant": _TENANT, "configId": _CLIENT_ID}.get(name, _PATH_ID)
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameters() -> dict[str, Any]:
    count = _or_empty({"type": "integer", "minimum": 0, "maximum": MAX_INT})
    query: Mapping[str, Schema] = {
        "contextId": _STRING,
        "status": {
            "anyOf": [
                {"type": "string", "enum": ["", *STATES]},
                {"type": "integer", "enum": list(NUMBERED_STATES)},
            ]
        },
        "pageSize": _or_empty({"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE}),
        "pageToken": {"type": "string", "description": "nextPageToken of the previous page."},
        "historyLength": count,
        "statusTimestampAfter": _or_empty({"type": "string", "format": "date-time"}),
        "includeArtifacts": _or_empty({"type": "boolean"}),
    }
    return {
        "A2AVersion": {
            "name": "A2A-Version",
            "in": "header",
            "required": True,
            "description": "The default is version 0.3.",
            "schema": {"type": "string", "enum": [_VERSION]},
        },
        "A2AExtensions": {
            "name": "A2A-Extensions",
            "in": "header",
            "description": "The extensions to activate, separated by commas.",
            "schema": _STRING,
        },
        "LastEventId": {
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The id of the last received event; only later events are sent.",
            "schema": {"type": "string", "pattern": "^[0-9]{0,15}$"},
        },
        "PushPageSize": {"name": "pageSize", "in": "query", "schema": count},
        **{
            name[:1].upper() + name[1:]: {"name": name, "in": "query", "schema": schema}
            for name, schema in query.items()
        },
    }


def _or_empty(schema: Schema) -> Schema:
    """Return the schema of a query parameter; an empty value means absent."""
    return {"anyOf": [schema, {"type": "string", "maxLength": 0}]}
