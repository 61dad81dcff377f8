"""Delivering notifications: from a queue that is stored, in order, with patience and an end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from acc.domain.errors import AccError
from acc.domain.value_objects.task import Task
from acc.ports.outbound.task_ports import Delivery, TaskStorePort

log = logging.getLogger("acc.push")

#: Sends one notification; returns once the receiver has taken it, raises RemoteFailed otherwise.
Deliver = Callable[[Delivery, Task], Awaitable[None]]

_LOOK_EVERY = 0.5
_AT_ONCE = 16
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
        """Deliver for as long as the server lives."""
        while True:
            try:
                count = await self.deliver_due()
            except AccError:
                log.exception("the queue of notifications cannot be read")
                count = 0
            if not count:
                await asyncio.sleep(self._look_every)

    async def deliver_due(self) -> int:
        """Deliver what is due now, side by side, and return how many there were."""
        due = await self._tasks.due(limit=_AT_ONCE, lease=_LEASE)
        async with asyncio.TaskGroup() as group:
            for delivery in due:
                group.create_task(self._attempt(delivery))
        return len(due)

    async def _attempt(self, delivery: Delivery) -> None:
        task = await self._tasks.read(delivery.config.task_id)
        if task is None:
            await self._tasks.delivered(delivery.id)
            return
        try:
            await self._deliver(delivery, task)
        except AccError as error:
            if delivery.attempts + 1 >= self._most_attempts:
                log.warning("notification given up: %s", error, extra=_extra(delivery))
                await self._tasks.delivered(delivery.id)
                return
            await self._tasks.postpone(delivery.id, seconds=self._delay(delivery.attempts))
            return
        await self._tasks.delivered(delivery.id)


def _extra(delivery: Delivery) -> dict[str, object]:
    return {"task_id": delivery.config.task_id, "config_id": delivery.config.id}
