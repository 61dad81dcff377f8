"""The operations of an A2A server as values, ownership of tasks, and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from acc.domain.errors import InvalidInput, TaskNotFound
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import Message, PushConfig, Task, TaskQuery
from acc.ports.outbound.storage_ports import TaskStorePort


class SendRequest(Value, frozen=True, kw_only=True):
    """Send a message that starts or continues a task.

    The `push` configuration has no task id yet. Without `wait` the task is returned as soon as it
    is stored. `extensions` are those that the client activated. `trace_parent` is the trace that
    the request belongs to, as W3C traceparent; what the message says about its trace has priority.
    """

    message: Message
    accepted_output_modes: tuple[str, ...] = ()
    history_length: int | None = None
    wait: bool = True
    push: PushConfig | None = None
    metadata: Mapping[str, Any] = {}
    tenant: str = ""
    extensions: tuple[str, ...] = ()
    trace_parent: str = ""


class GetRequest(Value, frozen=True, kw_only=True):
    """Get a task."""

    id: str
    history_length: int | None = None
    tenant: str = ""


class ListRequest(Value, frozen=True, kw_only=True):
    """List the tasks of the caller."""

    query: TaskQuery
    history_length: int | None = None
    include_artifacts: bool = False
    tenant: str = ""


class TaskRequest(Value, frozen=True, kw_only=True):
    """Cancel a task or subscribe to it."""

    id: str
    metadata: Mapping[str, Any] = {}
    tenant: str = ""


class PushCreateRequest(Value, frozen=True, kw_only=True):
    """Create a push configuration; the server creates an id if there is none."""

    config: PushConfig
    tenant: str = ""


class PushRequest(Value, frozen=True, kw_only=True):
    """Get or delete a push configuration; without an id, list those of the task."""

    task_id: str
    id: str = ""
    page_size: int = 0
    page_token: str = ""
    tenant: str = ""


class CardRequest(Value, frozen=True, kw_only=True):
    """Get the extended card."""

    tenant: str = ""


Request = (
    SendRequest
    | GetRequest
    | ListRequest
    | TaskRequest
    | PushCreateRequest
    | PushRequest
    | CardRequest
)


async def own_task(tasks: TaskStorePort, owner: Owner, task_id: str) -> Task:
    """Return a task of an owner; tasks of others raise the same error as missing ones."""
    task = await tasks.read(task_id, owner=owner)
    if task is None or task.reply is not None:
        raise TaskNotFound(task_id)
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server. Times are in seconds, sizes in bytes.

    Per caller: `tasks` running, `waiting` for input, open `streams`, `stored_tasks`, and
    `stored_bytes` of messages in them. Per task: `pushes` push
    configurations, `history` messages that are returned. Per message: `parts`, and characters of
    `text` in one part. `receive` is the time to receive a body, `keep` the time until a finished
    task and its context are deleted, `grace` the time for running tasks when the server stops.
    With a `replay_window`, requests for intents need a time that recent, and a nonce or request id.
    """

    body: int = 8 * 1024 * 1024
    headers: int = 32 * 1024
    parts: int = 100
    text: int = 1_000_000
    history: int = 200
    streams: int = 1000
    tasks: int = 1000
    waiting: int = 10_000
    stored_tasks: int = 1_000_000
    stored_bytes: int = 512 * 1024 * 1024
    pushes: int = 10
    receive: float = 30.0
    heartbeat: float = 15.0
    keep: float = 7 * 24 * 3600.0
    grace: float = 5.0
    replay_window: float | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.name == "replay_window":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidInput(f"limit {item.name} must be a positive number, got {value!r}")
