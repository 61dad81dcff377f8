"""Delivery of push notifications to webhooks: queue, concurrency and retries."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from acc.application.tracing import conventions as names
from acc.application.tracing.spans import TRACE_PARENT
from acc.domain.errors import AccError
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.run import trace_of_parent
from acc.domain.value_objects.task import Task
from acc.ports.outbound.storage_ports import Delivery, TaskStorePort
from acc.ports.outbound.tracing_ports import TracerPort

log = logging.getLogger("acc.push")
#: Attempts until a notification is dropped. With `retry_delay`, the last one is 127 s after the
#: first one, not counting the time of the attempts.
MAX_ATTEMPTS = 8
_POLL_INTERVAL_SECONDS = 0.5
_MAX_CONCURRENT = 64
#: Limit per caller, so that unresponsive receivers do not delay other callers.
_MAX_CONCURRENT_PER_OWNER = 16
_LEASE_SECONDS = 60.0
#: How often the queue is counted for the metrics.
_COUNT_INTERVAL_SECONDS = 5.0


class NotificationSender(Protocol):
    """Sends one notification."""

    async def deliver(self, delivery: Delivery, task: Task) -> None:
        """Return once the receiver has accepted the notification, or raise RemoteFailed."""
        ...


def retry_delay(attempt: int) -> float:
    """Return the seconds to wait after an attempt: 1, 2, 4, ...; the first attempt is 0."""
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
        tracer: TracerPort | None = None,
    ) -> None:
        self._tasks = tasks
        self._sender = sender
        self._max_attempts = max_attempts
        self._delay = delay
        self._poll_interval = poll_interval
        self._tracer = tracer
        self._in_flight = self._queued = 0
        self._counted_at = -_COUNT_INTERVAL_SECONDS
        if tracer is not None:
            tracer.watch(names.METRIC_PUSH_QUEUE, self, lambda own: own._queued)
            tracer.watch(names.METRIC_PUSH_IN_FLIGHT, self, lambda own: own._in_flight)

    async def run(self) -> None:
        """Deliver notifications until cancelled."""
        running: dict[asyncio.Task[None], Owner] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for delivery in await self._claim(Counter(running.values())):
                    attempt = group.create_task(self._attempt(delivery))
                    running[attempt] = delivery.owner
                    attempt.add_done_callback(running.pop)
                self._in_flight = len(running)
                if self._tracer is not None:
                    await self._count_queue()
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

    async def _count_queue(self) -> None:
        now = time.monotonic()
        if now - self._counted_at < _COUNT_INTERVAL_SECONDS:
            return
        self._counted_at = now
        try:
            self._queued = await self._tasks.count_deliveries()
        except AccError as error:
            log.warning("cannot count the push queue: %s", error)

    def _count_attempt(self, outcome: str) -> None:
        if self._tracer is not None:
            self._tracer.count(names.METRIC_PUSH_ATTEMPTS, {names.ACC_PUSH_OUTCOME: outcome})

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
        trace_id = _trace_of(task)
        trace = f" (trace {trace_id})" if trace_id else ""
        extra = {**extra, "attempt": delivery.attempts + 1, "trace_id": trace_id}
        try:
            await self._sender.deliver(delivery, task)
        except Exception as error:
            if not isinstance(error, AccError):
                log.exception("push notification failed unexpectedly", extra=extra)
            if delivery.attempts + 1 < self._max_attempts:
                seconds = self._delay(delivery.attempts)
                log.warning(
                    "push notification failed (attempt %d of %d), next attempt in %g s%s: %s",
                    delivery.attempts + 1,
                    self._max_attempts,
                    seconds,
                    trace,
                    error,
                    extra=extra,
                )
                self._count_attempt("retry")
                await self._tasks.reschedule(delivery.id, seconds=seconds)
                return
            self._count_attempt("dropped")
            log.warning(
                "push notification dropped after %d attempts%s: %s",
                self._max_attempts,
                trace,
                error,
                extra=extra,
            )
        else:
            self._count_attempt("delivered")
        await self._tasks.complete_delivery(delivery.id)


def _trace_of(task: Task) -> str:
    """Return the id of the trace that a task belongs to, empty if its messages name none."""
    for message in task.history:
        parent, own = message.metadata.get(TRACE_PARENT), message.metadata.get("traceId")
        trace_id = trace_of_parent(parent) if isinstance(parent, str) else ""
        if trace_id or isinstance(own, str):
            return trace_id or str(own)
    return ""
