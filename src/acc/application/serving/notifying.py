"""Where clients want to be told of their tasks."""

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256

from acc.application.serving.limits import ServeLimits
from acc.application.serving.requests import PushRequest
from acc.domain.errors import InvalidInput, PushNotSupported, TaskNotFound
from acc.domain.value_objects.task import PushConfig, PushPage
from acc.domain.value_objects.value import changed
from acc.ports.outbound.runtime_ports import IdsPort
from acc.ports.outbound.task_ports import TaskStorePort

CheckUrl = Callable[[str], Awaitable[None]]

#: What a configuration is called that a client of 0.3 gave no name.
_UNNAMED = "default"
_MOST_ID = 256
#: Longer headers are refused by most of those who receive them.
_MOST_HEADER = 8000
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
        return changed(config, id=_UNNAMED if config.generation == "0.3" else self._ids.new())

    async def save(self, task_id: str, config: PushConfig) -> PushConfig:
        """Keep a configuration that was checked."""
        placed = changed(config, task_id=task_id)
        await self._tasks.save_push(placed, most=self._limits.pushes)
        return placed

    async def get(self, task_id: str, config_id: str) -> PushConfig:
        """Return a configuration; without an id, the one that nobody named, or the oldest."""
        configs = await self._tasks.pushes(task_id)
        for config in configs:
            if config.id == (config_id or _UNNAMED):
                return config
        if configs and not config_id:
            return configs[0]
        raise TaskNotFound(config_id)

    async def page(self, task_id: str, request: PushRequest) -> PushPage:
        """Return a page of the configurations of a task, InvalidInput for a token of no page."""
        configs = await self._tasks.pushes(task_id)
        first = 0
        if request.page_token:
            tokens = [_page_token(config) for config in configs]
            if request.page_token not in tokens:
                raise InvalidInput("pageToken: no page begins there; ask for the first one again")
            first = tokens.index(request.page_token)
        end = first + (request.page_size or len(configs))
        rest = configs[end:]
        return PushPage(configs[first:end], _page_token(rest[0]) if rest else "")


def _page_token(first: PushConfig) -> str:
    """Return where a page begins, so that others may be deleted meanwhile."""
    return sha256(first.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


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
    if config.credentials and config.scheme and not _SCHEME.fullmatch(config.scheme):
        raise _fault("authentication.scheme", "the name of a scheme of HTTP, such as Bearer")
    if config.credentials and not config.scheme:
        raise _fault("authentication.scheme", "is required where there are credentials")


def _is_header(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()


def _fault(name: str, text: str) -> InvalidInput:
    return InvalidInput(f"push notification config: {name}: {text}")
