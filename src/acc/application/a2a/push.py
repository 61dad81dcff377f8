"""Where clients want to be told of their tasks."""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from acc.application.a2a.requests import PushRequest, ServerLimits
from acc.domain.errors import AccError, InvalidInput, PushNotSupported, TaskNotFound
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, PushPage, Task
from acc.ports.outbound.storage_ports import Delivery, TaskStorePort
from acc.ports.outbound.system_ports import IdsPort

CheckUrl = Callable[[str], Awaitable[None]]
#: What a configuration is called that a client of 0.3 gave no name.
_UNNAMED = "default"
_MOST_ID = 256
#: Longer headers are refused by most of those who receive them.
_MOST_HEADER = 8000
_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


class PushConfigs:
    """Keeps the push configurations of tasks, whose owner has been checked already."""

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
        return replace(config, id=_UNNAMED if config.generation == "0.3" else self._ids.new())

    async def save(self, task_id: str, config: PushConfig) -> PushConfig:
        """Keep a configuration that was checked."""
        placed = replace(config, task_id=task_id)
        await self._tasks.save_push_config(placed, max_configs=self._limits.pushes)
        return placed

    async def get(self, task_id: str, config_id: str) -> PushConfig:
        """Return a configuration; without an id, the one that nobody named, or the oldest."""
        configs = await self._tasks.list_push_configs(task_id)
        for config in configs:
            if config.id == (config_id or _UNNAMED):
                return config
        if configs and not config_id:
            return configs[0]
        raise TaskNotFound(config_id)

    async def page(self, task_id: str, request: PushRequest) -> PushPage:
        """Return a page of the configurations of a task, InvalidInput for a token of no page."""
        configs = await self._tasks.list_push_configs(task_id)
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


log = logging.getLogger("acc.push")
#: Sends one notification; returns once the receiver has taken it, raises RemoteFailed otherwise.
Deliver = Callable[[Delivery, Task], Awaitable[None]]
_LOOK_EVERY = 0.5
_AT_ONCE = 64
#: So many of one caller's, so that receivers of theirs which hang hold up nobody else.
_OF_ONE = 16
_LEASE = 60.0
_MOST_ATTEMPTS = 8


def retry_delay(attempt: int, *, cap: float = 300.0) -> float:
    """Return the seconds to wait after an attempt, the first being 0; doubled up to `cap`."""
    return float(min(cap, 1.0 * 2**attempt))


class PushDelivery:
    """Works the queue off. Who does not answer is tried again, later and later, and then let be."""

    def __init__(
        self,
        *,
        tasks: TaskStorePort,
        deliver: Deliver,
        most_attempts: int = _MOST_ATTEMPTS,
        delay: Callable[[int], float] = retry_delay,
        look_every: float = _LOOK_EVERY,
    ) -> None:
        self._tasks = tasks
        self._deliver = deliver
        self._most_attempts = most_attempts
        self._delay = delay
        self._look_every = look_every

    async def run(self) -> None:
        """Deliver for as long as the server lives; a slow receiver takes one place of several."""
        busy: dict[asyncio.Task[None], Owner] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for delivery in await self._due(Counter(busy.values())):
                    attempt = group.create_task(self._attempt(delivery))
                    busy[attempt] = delivery.owner
                    attempt.add_done_callback(busy.pop)
                if busy:
                    # What comes next to an address waits for what is on its way there.
                    await asyncio.wait(
                        busy, timeout=self._look_every, return_when=asyncio.FIRST_COMPLETED
                    )
                else:
                    await asyncio.sleep(self._look_every)

    async def _due(self, under_way: Counter[Owner]) -> Sequence[Delivery]:
        places = _AT_ONCE - under_way.total()
        if not places:
            return ()
        try:
            return await self._tasks.claim_deliveries(
                limit=places, lease=_LEASE, max_per_owner=_OF_ONE, in_flight=under_way
            )
        except AccError as error:
            log.error("the queue of notifications cannot be read: %s", error)  # noqa: TRY400 - known
            return ()

    async def _attempt(self, delivery: Delivery) -> None:
        """Try once, and leave what cannot even be noted down to come up again after its lease."""
        try:
            await self._try(delivery)
        except Exception:
            log.exception("notification could not be settled", extra=_extra(delivery))

    async def _try(self, delivery: Delivery) -> None:
        task = await self._tasks.read(delivery.config.task_id)
        if task is None:
            await self._tasks.complete_delivery(delivery.id)
            return
        try:
            await self._deliver(delivery, task)
        except Exception as error:
            if not isinstance(error, AccError):
                log.exception("notification failed unexpectedly", extra=_extra(delivery))
            if delivery.attempts + 1 >= self._most_attempts:
                log.warning("notification given up: %s", error, extra=_extra(delivery))
                await self._tasks.complete_delivery(delivery.id)
                return
            await self._tasks.reschedule(delivery.id, seconds=self._delay(delivery.attempts))
            return
        await self._tasks.complete_delivery(delivery.id)


def _extra(delivery: Delivery) -> dict[str, object]:
    return {"task_id": delivery.config.task_id, "config_id": delivery.config.id}
