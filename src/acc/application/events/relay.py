"""Send the events that a store has recorded to another carrier."""

import asyncio
import logging

from acc.application.events.cloud_events import decode_cloud_event
from acc.domain.errors import CarrierFailed, InvalidInput, StorageFailed
from acc.ports.outbound.event_ports import EventPublisherPort, EventSubscriptionPort

log = logging.getLogger("acc.run")
_BATCH_SIZE = 100
_WAIT_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 30.0


class EventRelay:
    """Publishes what it receives, and acknowledges it once the carrier has stored it.

    An event that the carrier does not confirm stays in the store and is sent again. Several relays
    may run. After a crash events are sent twice; carriers and subscribers recognise their ids.
    """

    def __init__(self, source: EventSubscriptionPort, target: EventPublisherPort) -> None:
        self._source = source
        self._target = target
        self._is_stopping = False

    def stop(self) -> None:
        """Let `run` return after the current batch."""
        self._is_stopping = True

    async def run(self, *, until_idle: bool = False) -> int:
        """Send events until `stop`, or with `until_idle` until there are none; return how many.

        With `until_idle` a failure is raised. Without, it is logged and the relay tries again.
        """
        count, failures, is_checked = 0, 0, False
        while not self._is_stopping:
            try:
                if not is_checked:
                    # Otherwise a wrong password would be noticed with the first event.
                    await self._target.check()
                    is_checked = True
                sent = await self.send_batch(wait=0.0 if until_idle else _WAIT_SECONDS)
            except (CarrierFailed, StorageFailed) as error:
                if until_idle:
                    raise
                log.warning("events cannot be sent, trying again: %s", error)
                failures = await _pause(failures)
                continue
            except Exception:
                if until_idle:
                    raise
                log.exception("events cannot be sent, trying again")
                failures = await _pause(failures)
                continue
            count, failures = count + sent, 0
            if until_idle and not sent:
                break
        return count

    async def send_batch(self, *, wait: float) -> int:
        """Send some events in order; return how many."""
        deliveries = await self._source.receive(limit=_BATCH_SIZE, wait=wait)
        for index, delivery in enumerate(deliveries):
            try:
                event = decode_cloud_event(delivery.body)
                await self._target.publish(event)
            except InvalidInput as error:
                log.warning("an event cannot be sent and is skipped: %s", error)
            except BaseException:
                for unsent in deliveries[index:]:
                    await self._source.postpone(unsent, seconds=0.0)
                raise
            await self._source.acknowledge(delivery)
        return len(deliveries)


async def _pause(failures: int) -> int:
    """Wait longer after each failure and return the number of failures."""
    failures += 1
    await asyncio.sleep(min(2.0 ** min(failures, 10) / 10, _MAX_BACKOFF_SECONDS))
    return failures
