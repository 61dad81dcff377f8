"""The objects of generation 1.0 as JSON Schema.

What may be left out may also be null. Objects may hold more than is named here: whoever reads them
passes over it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from acc.adapters.a2a.wire.json_fields import MAX_INT
from acc.adapters.a2a.wire.v1_types import NUMBERED_ROLES, ROLES, STATES

Schema = dict[str, Any]
_ID = {"type": "string", "minLength": 1, "maxLength": 256}
#: What can stand in a header as it is.
_HEADER: Mapping[str, Any] = {"pattern": "^([!-~]([ -~]*[!-~])?)?$", "maxLength": 8000}
_SCHEME = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{0,64}$"
_BASE64 = r"^[A-Za-z0-9+/_-]*={0,2}$"


def ref(name: str) -> Schema:
    """Return a reference to a schema of this file."""
    return {"$ref": f"#/components/schemas/{name}"}


def text(description: str = "", **more: Any) -> Schema:
    """Return the schema of a text that may be left out."""
    schema = {"type": ["string", "null"], **more}
    return {**schema, "description": description} if description else schema


def whole_number(least: int = 0, most: int = MAX_INT) -> Schema:
    """Return the schema of a number in a body, which may come as text."""
    return {
        "anyOf": [
            {"type": "integer", "minimum": least, "maximum": most},
            {"type": "string", "pattern": r"^([0-9]{1,9}(\.0{1,10})?([eE][+-]?0{1,2})?)?$"},
            {"type": "null"},
        ]
    }


def named_or_numbered(names: Iterable[str], numbers: Iterable[int]) -> Schema:
    """Return the schema of a name that a client may write as its number too."""
    return {
        "anyOf": [
            {"type": "string", "enum": list(names)},
            {"type": "integer", "enum": list(numbers)},
        ]
    }


def _object(properties: Mapping[str, Any], *required: str, **more: Any) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties), **more}
    return {**schema, "required": list(required)} if required else schema


def _optional(name: str) -> Schema:
    return {"anyOf": [ref(name), {"type": "null"}]}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": ["array", "null"], "items": items, **more}


_METADATA = {"type": ["object", "null"]}
_TEXTS = _list({"type": "string"})
_STATE = {"type": "string", "enum": list(STATES)}
_CONTENTS: Mapping[str, Schema] = {
    "text": {"type": "string"},
    "raw": {"type": "string", "contentEncoding": "base64"},
    "url": {"type": "string"},
    "data": {},
}


def _part() -> Schema:
    return _object(
        {
            "text": text(),
            "raw": text(contentEncoding="base64", pattern=_BASE64),
            "url": text(),
            "data": {},
            "filename": text(),
            "mediaType": text(),
            "metadata": _METADATA,
        },
        description="Holds exactly one of text, raw, url and data.",
        anyOf=[_object({name: held}, name) for name, held in _CONTENTS.items()],
    )


def _message() -> Schema:
    return _object(
        {
            "messageId": _ID,
            "role": named_or_numbered(ROLES, NUMBERED_ROLES),
            "parts": {"type": "array", "items": ref("Part")},
            "contextId": text(maxLength=256),
            "taskId": text(maxLength=256),
            "referenceTaskIds": _TEXTS,
            "extensions": _TEXTS,
            "metadata": _METADATA,
        },
        "messageId",
        "role",
        "parts",
    )


def _contents() -> dict[str, Schema]:
    return {
        "Part": _part(),
        "Message": _message(),
        "Artifact": _object(
            {
                "artifactId": _ID,
                "name": text(),
                "description": text(),
                "parts": {"type": "array", "items": ref("Part")},
                "extensions": _TEXTS,
                "metadata": _METADATA,
            },
            "artifactId",
            "parts",
        ),
        "TaskStatus": _object(
            {
                "state": _STATE,
                "message": ref("Message"),
                "timestamp": {"type": "string", "format": "date-time"},
            },
            "state",
        ),
        "Task": _object(
            {
                "id": _ID,
                "contextId": {"type": "string"},
                "status": ref("TaskStatus"),
                "artifacts": {"type": "array", "items": ref("Artifact")},
                "history": {"type": "array", "items": ref("Message")},
                "metadata": {"type": "object"},
            },
            "id",
            "status",
        ),
    }


def _updates() -> dict[str, Schema]:
    of_task = {"taskId": _ID, "contextId": {"type": "string"}}
    return {
        "TaskStatusUpdateEvent": _object(
            {**of_task, "status": ref("TaskStatus"), "metadata": {"type": "object"}},
            "taskId",
            "contextId",
            "status",
        ),
        "TaskArtifactUpdateEvent": _object(
            {
                **of_task,
                "artifact": ref("Artifact"),
                "append": {"type": "boolean"},
                "lastChunk": {"type": "boolean"},
                "metadata": {"type": "object"},
            },
            "taskId",
            "contextId",
            "artifact",
        ),
        "StreamEvent": _object(
            {
                "id": {"type": "string", "description": "The number of the event."},
                "data": {
                    "type": "string",
                    "contentMediaType": "application/json",
                    "contentSchema": ref("StreamResponse"),
                },
            },
            "id",
            "data",
        ),
        "SendMessageResponse": _one_of(task="Task", message="Message"),
        "StreamResponse": _one_of(
            task="Task",
            message="Message",
            statusUpdate="TaskStatusUpdateEvent",
            artifactUpdate="TaskArtifactUpdateEvent",
        ),
    }


def _one_of(**named: str) -> Schema:
    return {"oneOf": [_object({name: ref(kind)}, name) for name, kind in named.items()]}


def _requests() -> dict[str, Schema]:
    return {
        "SendMessageConfiguration": _object(
            {
                "acceptedOutputModes": _TEXTS,
                "taskPushNotificationConfig": _optional("TaskPushNotificationConfig"),
                "historyLength": whole_number(),
                "returnImmediately": {"type": ["boolean", "null"]},
            }
        ),
        "SentMessage": {
            "description": "A message of a client, which has the user's role and at least a part.",
            "allOf": [
                ref("Message"),
                _object(
                    {"role": {"const": "ROLE_USER"}, "parts": {"minItems": 1, "maxItems": 100}}
                ),
            ],
        },
        "SendMessageRequest": _object(
            {
                "tenant": text(),
                "message": ref("SentMessage"),
                "configuration": _optional("SendMessageConfiguration"),
                "metadata": _METADATA,
            },
            "message",
        ),
        "TaskRequest": _object({"metadata": _METADATA, "tenant": text()}),
        "AuthenticationInfo": _object(
            {"scheme": text(pattern=_SCHEME), "credentials": text(**_HEADER)}
        ),
        "TaskPushNotificationConfig": _object(
            {
                "id": text(maxLength=256),
                "taskId": text(),
                "url": {"type": "string", "minLength": 1, "format": "uri"},
                "token": text(**_HEADER),
                "authentication": _optional("AuthenticationInfo"),
            },
            "url",
        ),
    }


def _pages() -> dict[str, Schema]:
    return {
        "ListTasksResponse": _object(
            {
                "tasks": {"type": "array", "items": ref("Task")},
                "nextPageToken": {"type": "string"},
                "pageSize": {"type": "integer", "minimum": 0},
                "totalSize": {"type": "integer", "minimum": 0},
            },
            "tasks",
            "nextPageToken",
            "pageSize",
            "totalSize",
        ),
        "ListTaskPushNotificationConfigsResponse": _object(
            {
                "configs": {"type": "array", "items": ref("TaskPushNotificationConfig")},
                "nextPageToken": {"type": "string"},
            }
        ),
    }


def _cards() -> dict[str, Schema]:
    texts = {"type": "array", "items": {"type": "string"}}
    return {
        "AgentInterface": _object(
            {
                "url": {"type": "string"},
                "protocolBinding": {"type": "string"},
                "protocolVersion": {"type": "string"},
                "tenant": {"type": "string"},
            },
            "url",
            "protocolBinding",
            "protocolVersion",
        ),
        "AgentSkill": _object(
            {
                "id": {"type": "string"},
                "name": {"type": "string"},
                "description": {"type": "string"},
                "tags": texts,
                "examples": texts,
                "inputModes": texts,
                "outputModes": texts,
            },
            "id",
            "name",
            "description",
            "tags",
        ),
        "AgentCard": _object(
            {
                "name": {"type": "string"},
                "description": {"type": "string"},
                "version": {"type": "string"},
                "supportedInterfaces": {"type": "array", "items": ref("AgentInterface")},
                "capabilities": {"type": "object"},
                "skills": {"type": "array", "items": ref("AgentSkill")},
                "defaultInputModes": texts,
                "defaultOutputModes": texts,
                "securitySchemes": {"type": "object"},
                "securityRequirements": {"type": "array", "items": {"type": "object"}},
                "signatures": {"type": "array", "items": {"type": "object"}},
            },
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


def _errors() -> dict[str, Schema]:
    detail = _object({"@type": {"type": "string"}, "reason": {"type": "string"}}, "@type")
    error = _object(
        {
            "code": {"type": "integer", "description": "The HTTP status."},
            "status": {"type": "string"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": detail, "minItems": 1},
        },
        "code",
        "status",
        "message",
        "details",
    )
    return {"Error": _object({"error": error}, "error")}


def schemas() -> dict[str, Schema]:
    """Return every object of the HTTP+JSON side by its name."""
    return {
        **_contents(),
        **_updates(),
        **_requests(),
        **_pages(),
        **_cards(),
        **_errors(),
    }
