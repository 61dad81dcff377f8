"""Where clients want to be told of their tasks."""

import re
from collections.abc import Awaitable, Callable

from acc.application.serving.limits import ServeLimits
from acc.domain.errors import InvalidInput, PushNotSupported, TaskNotFound
from acc.domain.value_objects.task import PushConfig
from acc.domain.value_objects.value import changed
from acc.ports.outbound.runtime_ports import IdsPort
from acc.ports.outbound.task_ports import TaskStorePort

CheckUrl = Callable[[str], Awaitable[None]]

_MOST_ID = 256
#: Longer headers are refused by most of those who receive them.
_MOST_HEADER = 4096
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


class Notifying:
    """Keeps the push configurations of tasks, whose owner has been checked already."""

    def __init__(
        self,
        *,
        tasks: TaskStorePort,
        ids: IdsPort,
        limits: ServeLimits,
        check_url: CheckUrl | None,
    ) -> None:
        self._tasks = tasks
        self._ids = ids
        self._limits = limits
        self._check_url = check_url

    @property
    def is_offered(self) -> bool:
        """Tell whether clients can be notified."""
        return self._check_url is not None

    def check_offered(self) -> None:
        """Refuse clients where nobody is notified."""
        if self._check_url is None:
            raise PushNotSupported("this agent sends no notifications")

    async def checked(self, config: PushConfig) -> PushConfig:
        """Return a configuration with an id, once its address has been found harmless."""
        if self._check_url is None:
            raise PushNotSupported("this agent sends no notifications")
        check_config(config)
        await self._check_url(config.url)
        if config.id:
            return config
        # In 0.3 a task has one configuration that nobody named; naming it anew replaces it.
        return changed(config, id="default" if config.generation == "0.3" else self._ids.new())

    async def save(self, task_id: str, config: PushConfig) -> PushConfig:
        """Keep a configuration that was checked."""
        placed = changed(config, task_id=task_id)
        await self._tasks.save_push(placed, most=self._limits.pushes)
        return placed

    async def get(self, task_id: str, config_id: str) -> PushConfig:
        """Return a configuration; without an id, the oldest of the task."""
        for config in await self._tasks.pushes(task_id):
            if config.id == config_id or not config_id:
                return config
        raise TaskNotFound(config_id)


def check_config(config: PushConfig) -> None:
    """Refuse a configuration whose parts could not stand in the headers of a notification."""
    if len(config.id) > _MOST_ID or not config.id.isprintable():
        raise _fault("id", f"at most {_MOST_ID} printable characters")
    for name, value in (
        ("token", config.token),
        ("authentication.credentials", config.credentials),
    ):
        if len(value) > _MOST_HEADER or not _is_header(value):
            raise _fault(name, f"at most {_MOST_HEADER} printable characters of ASCII on one line")
    if config.scheme and not _SCHEME.fullmatch(config.scheme):
        raise _fault("authentication.scheme", "the name of a scheme of HTTP, such as Bearer")
    if config.credentials and not config.scheme:
        raise _fault("authentication.scheme", "is required where there are credentials")


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()


def _fault(name: str, text: str) -> InvalidInput:
    return InvalidInput(f"push notification config: {name}: {text}")
