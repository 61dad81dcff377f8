"""Where clients want to be told of their tasks."""

from collections.abc import Awaitable, Callable

from acc.application.serving.limits import ServeLimits
from acc.domain.errors import PushNotSupported, TaskNotFound
from acc.domain.value_objects.task import PushConfig
from acc.domain.value_objects.value import changed
from acc.ports.outbound.runtime_ports import IdsPort
from acc.ports.outbound.task_ports import TaskStorePort

CheckUrl = Callable[[str], Awaitable[None]]


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
