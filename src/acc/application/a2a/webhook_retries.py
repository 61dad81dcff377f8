"""Delivery of push notifications to webhooks: queue, concurrency and retries."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from acc.domain.errors import AccError
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import Task
from acc.ports.outbound.storage_ports import Delivery, TaskStorePort

log = logging.getLogger("acc.push")
#: Attempts until a notification is dropped. With `retry_delay` the last one is after 127 s.
MAX_ATTEMPTS = 8
_POLL_INTERVAL_SECONDS = 0.5
_MAX_CONCURRENT = 64
#: Limit per caller, so that unresponsive receivers do not delay other callers.
_MAX_CONCURRENT_PER_OWNER = 16
_LEASE_SECONDS = 60.0


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
        max_attempts: int = MAX_ATTEMPTS,
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
                seconds = self._delay(delivery.attempts)
                log.warning(
                    "push notification failed (attempt %d of %d), next attempt in %g s: %s",
                    delivery.attempts + 1,
                    self._max_attempts,
                    seconds,
                    error,
                    extra=extra,
                )
                await self._tasks.reschedule(delivery.id, seconds=seconds)
                return
            log.warning(
                "push notification dropped after %d attempts: %s",
                self._max_attempts,
                error,
                extra=extra,
            )
        await self._tasks.complete_delivery(delivery.id)
