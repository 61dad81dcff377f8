"""Routes of the HTTP+JSON binding."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from acc.adapters.a2a.server.asgi import HttpRequest
from acc.adapters.a2a.wire.errors import HttpError
from acc.adapters.a2a.wire.protocol import Operation

STREAMING = frozenset({Operation.STREAM, Operation.SUBSCRIBE})


class Route(NamedTuple):
    """An operation with its path parameters."""

    operation: Operation
    path: Mapping[str, str]
    has_body: bool


_Methods = Mapping[str, tuple[Operation, bool]]
_PUSH_CONFIGS = "pushNotificationConfigs"
_SINGLE_SEGMENT: Mapping[str, _Methods] = {
    "message:send": {"POST": (Operation.SEND, True)},
    "message:stream": {"POST": (Operation.STREAM, True)},
    "tasks": {"GET": (Operation.LIST, False)},
    "extendedAgentCard": {"GET": (Operation.EXTENDED_CARD, False)},
    "card": {"GET": (Operation.EXTENDED_CARD, False)},
}
_TASK: _Methods = {"GET": (Operation.GET, False)}
_TASK_VERBS: Mapping[str, _Methods] = {
    ":cancel": {"POST": (Operation.CANCEL, True)},
    ":subscribe": {"POST": (Operation.SUBSCRIBE, True), "GET": (Operation.SUBSCRIBE, False)},
}
_TASK_CONFIGS: _Methods = {
    "POST": (Operation.PUSH_CREATE, True),
    "GET": (Operation.PUSH_LIST, False),
}
_TASK_CONFIG: _Methods = {
    "GET": (Operation.PUSH_GET, False),
    "DELETE": (Operation.PUSH_DELETE, False),
}


def find_route(request: HttpRequest) -> Route:
    """Return the route of a request; raise HttpError 404 or 405 if there is none.

    Both versions have the same routes; those of 0.3 begin with /v1. A tenant may precede them.
    """
    segments = request.path.strip("/").split("/")
    if segments[0] == "v1":
        segments = segments[1:]
    path: dict[str, str] = {}
    if len(segments) > 1 and segments[0] not in _SINGLE_SEGMENT:
        path["tenant"] = unquote(segments[0])
        segments = segments[1:]
    methods = _find_methods(segments, path)
    if not methods:
        raise HttpError(404, "this path does not exist; /openapi.json lists the paths")
    method = request.method
    if method == "HEAD" and methods.get("GET", (Operation.SUBSCRIBE,))[0] not in STREAMING:
        method = "GET"
    if method not in methods:
        request.check_method(*methods)
    operation, has_body = methods[method]
    return Route(operation, path, has_body)


def _find_methods(segments: list[str], path: dict[str, str]) -> _Methods:
    """Return the methods of a path and add its parameters to `path`."""
    match segments:
        case [name]:
            return _SINGLE_SEGMENT.get(name, {})
        case ["tasks", task]:
            for suffix, methods in _TASK_VERBS.items():
                if task.endswith(suffix):
                    path["id"] = unquote(task.removesuffix(suffix))
                    return methods
            path["id"] = unquote(task)
            return _TASK
        case ["tasks", task, kind] if kind == _PUSH_CONFIGS:
            path["task_id"] = unquote(task)
            return _TASK_CONFIGS
        case ["tasks", task, kind, config] if kind == _PUSH_CONFIGS:
            path |= {"task_id": unquote(task), "id": unquote(config)}
            return _TASK_CONFIG
    return {}
