"""Push configurations of tasks: validation, storage and listing."""

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256

from acc.application.a2a.requests import PushRequest, ServerLimits
from acc.domain.errors import InvalidInput, PushNotSupported, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import PushConfig, PushPage
from acc.ports.outbound.storage_ports import TaskStorePort
from acc.ports.outbound.system_ports import IdsPort

#: Raises AddressRefused for a URL that must not be called.
CheckUrl = Callable[[str], Awaitable[None]]
#: The id of a configuration that a client of 0.3 created without an id.
_DEFAULT_ID = "default"
_MAX_ID_LENGTH = 256
#: Most receivers reject longer headers.
_MAX_HEADER_LENGTH = 8000
_AUTH_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


class PushConfigs:
    """Validate and store push configurations; the owner of the task is checked before.

    `check_url` rejects URLs that must not be called. Without it push is not supported.
    """

    def __init__(
        self,
        *,
        tasks: TaskStorePort,
        ids: IdsPort,
        limits: ServerLimits,
        check_url: CheckUrl | None,
    ) -> None:
        self._tasks = tasks
        self._ids = ids
        self._limits = limits
        self._check_url = check_url

    def check_supported(self) -> CheckUrl:
        """Return the check of URLs, or raise PushNotSupported."""
        if self._check_url is None:
            raise PushNotSupported("this agent does not support push notifications")
        return self._check_url

    async def validate(self, config: PushConfig) -> PushConfig:
        """Return a valid configuration with an id, or raise InvalidInput."""
        check_url = self.check_supported()
        _check_config(config)
        await check_url(config.url)
        if config.id:
            return config
        # In 0.3 a task has one configuration without an id; setting it again replaces it.
        is_v03 = config.protocol_version == "0.3"
        return replace(config, id=_DEFAULT_ID if is_v03 else self._ids.new())

    async def save(self, task_id: str, config: PushConfig) -> PushConfig:
        """Store a validated configuration."""
        config = replace(config, task_id=task_id)
        await self._tasks.save_push_config(config, max_configs=self._limits.pushes)
        return config

    async def get(self, task_id: str, config_id: str) -> PushConfig:
        """Return a configuration; without an id, the one without an id, or the oldest."""
        configs = await self._tasks.list_push_configs(task_id)
        for config in configs:
            if config.id == (config_id or _DEFAULT_ID):
                return config
        if configs and not config_id:
            return configs[0]
        raise TaskNotFound(config_id)

    async def page(self, task_id: str, request: PushRequest) -> PushPage:
        """Return a page of the configurations of a task."""
        configs = await self._tasks.list_push_configs(task_id)
        first = 0
        if request.page_token:
            tokens = [_page_token(config) for config in configs]
            if request.page_token not in tokens:
                raise InvalidInput("pageToken: unknown; request the first page again")
            first = tokens.index(request.page_token)
        end = first + (request.page_size or len(configs))
        rest = configs[end:]
        return PushPage(configs[first:end], _page_token(rest[0]) if rest else "")


def _page_token(first: PushConfig) -> str:
    """Return a token for the first configuration of a page, stable under deletions."""
    return sha256(first.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _check_config(config: PushConfig) -> None:
    """Raise InvalidInput if a field cannot be sent in an HTTP header."""
    if len(config.id) > _MAX_ID_LENGTH or not config.id.isprintable():
        raise _field_error("id", f"must be at most {_MAX_ID_LENGTH} printable characters")
    for name, value in (
        ("token", config.token),
        ("authentication.credentials", config.credentials),
    ):
        is_header = value.isascii() and value.isprintable() and value == value.strip()
        if len(value) > _MAX_HEADER_LENGTH or not is_header:
            raise _field_error(
                name, f"must be at most {_MAX_HEADER_LENGTH} printable ASCII characters"
            )
    if config.credentials and not config.scheme:
        raise _field_error("authentication.scheme", "is required with credentials")
    if config.credentials and not _AUTH_SCHEME.fullmatch(config.scheme):
        raise _field_error(
            "authentication.scheme", "must be an HTTP authentication scheme such as Bearer"
        )


def _field_error(name: str, text: str) -> InvalidInput:
    return InvalidInput(f"push notification config: {name}: {text}")
