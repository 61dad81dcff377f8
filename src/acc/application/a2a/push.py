"""Push configurations of tasks and the delivery of notifications."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from acc.application.a2a.requests import PushRequest, ServerLimits
from acc.domain.errors import AccError, InvalidInput, PushNotSupported, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, PushPage, Task
from acc.ports.outbound.storage_ports import Delivery, TaskStorePort
from acc.ports.outbound.system_ports import IdsPort

log = logging.getLogger("acc.push")
#: Raises AddressRefused for a URL that must not be called.
CheckUrl = Callable[[str], Awaitable[None]]
#: The id of a configuration that a client of 0.3 created without an id.
_DEFAULT_ID = "default"
_MAX_ID_LENGTH = 256
#: Most receivers reject longer headers.
_MAX_HEADER_LENGTH = 8000
_AUTH_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_POLL_INTERVAL_SECONDS = 0.5
_MAX_CONCURRENT = 64
#: Limit per caller, so that unresponsive receivers do not delay other callers.
_MAX_CONCURRENT_PER_OWNER = 16
_LEASE_SECONDS = 60.0
_MAX_ATTEMPTS = 8


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


class NotificationSender(Protocol):
    """Sends one notification."""

    async def deliver(self, delivery: Delivery, task: Task) -> None:
        """Return once the receiver has accepted the notification, or raise RemoteFailed."""
        ...


def retry_delay(attempt: int) -> float:
    """Return the seconds to wait after an attempt, the first being 0; doubled each time."""
    return float(2**attempt)


class PushDelivery:
    """Deliver queued notifications with retries and exponential backoff."""

    def __init__(
        self,
        *,
        tasks: TaskStorePort,
        sender: NotificationSender,
        max_attempts: int = _MAX_ATTEMPTS,
        delay: Callable[[int], float] = retry_delay,
        poll_interval: float = _POLL_INTERVAL_SECONDS,
    ) -> None:
        self._tasks = tasks
        self._sender = sender
        self._max_attempts = max_attempts
        self._delay = delay
        self._poll_interval = poll_interval

    async def run(self) -> None:
        """Deliver notifications until cancelled."""
        running: dict[asyncio.Task[None], Owner] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for delivery in await self._claim(Counter(running.values())):
                    attempt = group.create_task(self._attempt(delivery))
                    running[attempt] = delivery.owner
                    attempt.add_done_callback(running.pop)
                if running:
                    # The next notification to a URL is claimed when the previous one is done.
                    await asyncio.wait(
                        running, timeout=self._poll_interval, return_when=asyncio.FIRST_COMPLETED
                    )
                else:
                    await asyncio.sleep(self._poll_interval)

    async def _claim(self, in_flight: Counter[Owner]) -> Sequence[Delivery]:
        free = _MAX_CONCURRENT - in_flight.total()
        if not free:
            return ()
        try:
            return await self._tasks.claim_deliveries(
                limit=free,
                lease=_LEASE_SECONDS,
                max_per_owner=_MAX_CONCURRENT_PER_OWNER,
                in_flight=in_flight,
            )
        except AccError as error:
            log.error("cannot read the push queue, retrying: %s", error)  # noqa: TRY400 - expected
            return ()

    async def _attempt(self, delivery: Delivery) -> None:
        extra = {"task_id": delivery.config.task_id, "config_id": delivery.config.id}
        try:
            await self._deliver(delivery, extra)
        except Exception:  # the delivery is claimed again after its lease
            log.exception("cannot update the push queue", extra=extra)

    async def _deliver(self, delivery: Delivery, extra: Mapping[str, object]) -> None:
        task = await self._tasks.read(delivery.config.task_id)
        if task is None:
            await self._tasks.complete_delivery(delivery.id)
            return
        try:
            await self._sender.deliver(delivery, task)
        except Exception as error:
            if not isinstance(error, AccError):
                log.exception("push notification failed unexpectedly", extra=extra)
            if delivery.attempts + 1 < self._max_attempts:
                await self._tasks.reschedule(delivery.id, seconds=self._delay(delivery.attempts))
                return
            log.warning(
                "push notification dropped after %d attempts: %s",
                self._max_attempts,
                error,
                extra=extra,
            )
        await self._tasks.complete_delivery(delivery.id)
