"""What a client can ask of a server of agents, whatever wire it came over."""

from collections.abc import Mapping
from typing import Any

from acc.domain.value_objects.task import Message, PushConfig, TaskQuery
from acc.domain.value_objects.value import Value


class SendRequest(Value, frozen=True, kw_only=True):
    """Send a message, which starts a task or moves one on.

    The `push` configuration has no task yet. Without `wait` the task is returned as soon as it is
    filed.
    """

    message: Message
    accepted_output_modes: tuple[str, ...] = ()
    history_length: int | None = None
    wait: bool = True
    push: PushConfig | None = None
    metadata: Mapping[str, Any] = {}
    tenant: str = ""


class GetRequest(Value, frozen=True, kw_only=True):
    """Get a task as it is now."""

    id: str
    history_length: int | None = None
    tenant: str = ""


class ListRequest(Value, frozen=True, kw_only=True):
    """List the caller's tasks."""

    query: TaskQuery
    history_length: int | None = None
    include_artifacts: bool = False
    tenant: str = ""


class TaskRequest(Value, frozen=True, kw_only=True):
    """Cancel a task, or subscribe to it."""

    id: str
    metadata: Mapping[str, Any] = {}
    tenant: str = ""


class PushCreateRequest(Value, frozen=True, kw_only=True):
    """Be told of a task. The id of the configuration may be empty; the server then makes one."""

    config: PushConfig
    tenant: str = ""


class PushRequest(Value, frozen=True, kw_only=True):
    """Get or delete a configuration; without an id, list those of the task."""

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
