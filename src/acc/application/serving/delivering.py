"""Delivering notifications: from a queue that is stored, in order, with patience and an end."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from acc.domain.errors import AccError
from acc.domain.value_objects.remote import Owner
from acc.domain.value_objects.task import Task
from acc.ports.outbound.task_ports import Delivery, TaskStorePort

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
            return await self._tasks.due(
                limit=places, lease=_LEASE, of_one=_OF_ONE, under_way=under_way
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
            await self._tasks.delivered(delivery.id)
            return
        try:
            await self._deliver(delivery, task)
        except Exception as error:
            if not isinstance(error, AccError):
                log.exception("notification failed unexpectedly", extra=_extra(delivery))
            if delivery.attempts + 1 >= self._most_attempts:
                log.warning("notification given up: %s", error, extra=_extra(delivery))
                await self._tasks.delivered(delivery.id)
                return
            await self._tasks.postpone(delivery.id, seconds=self._delay(delivery.attempts))
            return
        await self._tasks.delivered(delivery.id)


def _extra(delivery: Delivery) -> dict[str, object]:
    return {"task_id": delivery.config.task_id, "config_id": delivery.config.id}
