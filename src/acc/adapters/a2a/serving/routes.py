"""Which operation a method and a path of the HTTP+JSON binding ask for."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from acc.adapters.a2a.codec.wire import Operation


class Route(NamedTuple):
    """An operation, the names in its path, and whether the path is of generation 0.3."""

    operation: Operation
    path: Mapping[str, str]
    is_old: bool
    has_body: bool


class NoRoute(NamedTuple):
    """A path that is known with other methods, or not at all."""

    allowed: tuple[str, ...]


_HEADS = frozenset({"message:send", "message:stream", "tasks", "extendedAgentCard", "card"})
_CONFIGS = "pushNotificationConfigs"

_Entry = dict[str, tuple[Operation, bool]]
_SEND: _Entry = {"POST": (Operation.SEND, True)}
_STREAM: _Entry = {"POST": (Operation.STREAM, True)}
_LIST: _Entry = {"GET": (Operation.LIST, False)}
_TASK: _Entry = {"GET": (Operation.GET, False)}
_CANCEL: _Entry = {"POST": (Operation.CANCEL, True)}
_SUBSCRIBE: _Entry = {
    "POST": (Operation.SUBSCRIBE, True),
    "GET": (Operation.SUBSCRIBE, False),
}
_PUSHES: _Entry = {"POST": (Operation.PUSH_CREATE, True), "GET": (Operation.PUSH_LIST, False)}
_PUSH: _Entry = {"GET": (Operation.PUSH_GET, False), "DELETE": (Operation.PUSH_DELETE, False)}
_CARD: _Entry = {"GET": (Operation.EXTENDED_CARD, False)}


def find_route(method: str, path: str) -> Route | NoRoute:
    """Return what a request asks for; the path is as it was sent, percent signs and all."""
    segments = path.strip("/").split("/")
    is_old = segments[0] == "v1"
    if is_old:
        segments = segments[1:]
    names: dict[str, str] = {}
    if len(segments) > 1 and segments[0] not in _HEADS:
        names["tenant"] = unquote(segments[0])
        segments = segments[1:]
    entry = _entry(segments, names)
    if method == "HEAD" and entry.get("GET") not in (None, _SUBSCRIBE["GET"]):
        method = "GET"
    if method not in entry:
        return NoRoute(tuple(entry))
    operation, has_body = entry[method]
    return Route(operation, names, is_old, has_body)


def _entry(segments: list[str], names: dict[str, str]) -> _Entry:
    match segments:
        case ["message:send"]:
            return _SEND
        case ["message:stream"]:
            return _STREAM
        case ["extendedAgentCard"] | ["card"]:
            return _CARD
        case ["tasks"]:
            return _LIST
        case ["tasks", task]:
            return _of_task(task, names)
        case ["tasks", task, kind] if kind == _CONFIGS:
            names["task_id"] = unquote(task)
            return _PUSHES
        case ["tasks", task, kind, config] if kind == _CONFIGS:
            names |= {"task_id": unquote(task), "id": unquote(config)}
            return _PUSH
    return {}


def _of_task(task: str, names: dict[str, str]) -> _Entry:
    for ending, entry in ((":cancel", _CANCEL), (":subscribe", _SUBSCRIBE)):
        if task.endswith(ending):
            names["id"] = unquote(task.removesuffix(ending))
            return entry
    names["id"] = unquote(task)
    return _TASK
