"""What a client can ask of a server of agents, whatever wire it came over."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote

from acc.domain.errors import InvalidInput, PermissionDenied, TaskNotFound
from acc.domain.value_objects.base import Value, replace
from acc.domain.value_objects.principal import Owner, Principal
from acc.domain.value_objects.task import Message, PushConfig, Task, TaskQuery
from acc.ports.outbound.storage_ports import TaskStorePort


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


def owner_of(principal: Principal, tenant: str) -> Owner:
    """Return whose the tasks are that a caller asks for within a tenant."""
    if principal.tenant and tenant and tenant != principal.tenant:
        raise PermissionDenied("these credentials are for another tenant")
    return Owner(principal.tenant or tenant, principal.caller)


def within(principal: Principal, owner: Owner) -> Principal:
    """Return a caller within the tenant asked for."""
    if principal.owner == owner:
        return principal
    return replace(principal, tenant=owner.tenant, any_tenant=True)


def user_of(who: Principal | Owner) -> str:
    """Return the user that a caller's sessions belong to, who is nobody else's."""
    if who.tenant:
        return f"{quote(who.tenant, safe='')}/{who.caller}"
    return f"/{who.caller}" if "/" in who.caller else who.caller


async def own_task(tasks: TaskStorePort, owner: Owner, task_id: str) -> Task:
    """Return a task of a caller; that of another is told in the same words as none at all."""
    task = await tasks.read(task_id, owner=owner)
    if task is None or task.reply is not None:
        raise TaskNotFound(task_id)
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server. Times are seconds, sizes are bytes.

    `tasks` is how many of one caller's may be at work, `waiting` how many may wait for an answer.
    `history` is the most messages that are kept to be shown of a task; `keep` is how long a task
    that is over can still be asked for, and the conversation that it was the last of stays.
    """

    body: int = 8 * 1024 * 1024
    headers: int = 32 * 1024
    parts: int = 100
    text: int = 1_000_000
    history: int = 200
    streams: int = 1000
    tasks: int = 1000
    waiting: int = 10_000
    pushes: int = 10
    receive: float = 30.0
    heartbeat: float = 15.0
    keep: float = 7 * 24 * 3600.0
    grace: float = 5.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidInput(f"limit {item.name} must be a number above 0, not {value!r}")
