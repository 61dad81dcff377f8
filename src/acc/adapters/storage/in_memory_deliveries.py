"""Push configurations and their pending deliveries, in memory."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, TaskEvent
from acc.ports.outbound.storage_ports import Delivery


class DeliveryQueue:
    """Stores push configurations with a queue of deliveries for each."""

    def __init__(self) -> None:
        self._receivers: dict[str, dict[str, _Receiver]] = {}
        self._by_delivery: dict[int, _Receiver] = {}
        self._last_id = 0
        self._schedules = 0
        # Scheduled times of each owner's receivers. Outdated entries are skipped when they are due.
        self._schedule: dict[Owner, list[tuple[float, int, _Receiver]]] = {}
        # The first scheduled time of each owner, so that an owner can be skipped as a whole.
        self._owners: list[tuple[float, int, Owner]] = []

    def save(self, config: PushConfig, owner: Owner) -> None:
        """Store a configuration; it inherits the pending deliveries of the one it replaces."""
        receivers = self._receivers.setdefault(config.task_id, {})
        if (receiver := receivers.get(config.id)) is not None:
            receiver.config = config
        else:
            receivers[config.id] = _Receiver(config, owner)

    def configs(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the configurations of a task, oldest first."""
        return tuple(receiver.config for receiver in self._receivers.get(task_id, {}).values())

    def has_configs(self, task_id: str) -> bool:
        """Return True if a task has a configuration."""
        return task_id in self._receivers

    def delete(self, task_id: str, config_id: str) -> None:
        """Delete a configuration and its pending deliveries; does nothing if it is gone."""
        receivers = self._receivers.get(task_id, {})
        receiver = receivers.pop(config_id, None)
        if receiver is None:
            return
        if not receivers:
            del self._receivers[task_id]
        for delivery_id, _ in receiver.pending:
            del self._by_delivery[delivery_id]
        receiver.due_at = None

    def delete_all(self, task_id: str) -> None:
        """Delete all configurations of a task."""
        for config_id in list(self._receivers.get(task_id, ())):
            self.delete(task_id, config_id)

    def add(self, task_id: str, events: Sequence[TaskEvent], now: float) -> None:
        """Queue events for every configuration of a task."""
        for event in events:
            for receiver in self._receivers[task_id].values():
                self._last_id += 1
                self._by_delivery[self._last_id] = receiver
                receiver.pending.append((self._last_id, event))
                if receiver.due_at is None:
                    self._set_due(receiver, now)

    def claim(
        self,
        now: float,
        *,
        limit: int,
        lease: float,
        max_per_owner: int,
        in_flight: Mapping[Owner, int],
    ) -> tuple[Delivery, ...]:
        """Lease the first due delivery of each configuration, longest due first."""
        counts = Counter(in_flight)
        claimed: list[Delivery] = []
        skipped: list[tuple[float, int, Owner]] = []
        while self._owners and self._owners[0][0] <= now and len(claimed) < limit:
            time, order, owner = heappop(self._owners)
            schedule = self._schedule.get(owner)
            if schedule is None or schedule[0][1] != order:
                continue  # outdated: another entry of this owner comes first
            if counts[owner] >= max_per_owner:
                skipped.append((time, order, owner))
                continue
            _, _, receiver = heappop(schedule)
            if schedule:
                heappush(self._owners, (*schedule[0][:2], owner))
            else:
                del self._schedule[owner]
            if receiver.due_at == time:
                delivery_id, event = receiver.pending[0]
                claimed.append(
                    Delivery(delivery_id, receiver.config, owner, event, receiver.attempts)
                )
                counts[owner] += 1
                # Rescheduled only after the loop, so that a lease of 0 does not claim it twice.
                receiver.due_at = None
        for entry in skipped:
            heappush(self._owners, entry)
        for delivery in claimed:
            self._set_due(self._by_delivery[delivery.id], now + lease)
        return tuple(claimed)

    def complete(self, delivery_id: int, now: float) -> None:
        """Delete a delivery, so that the next one is due; does nothing if it is gone."""
        receiver = self._by_delivery.pop(delivery_id, None)
        if receiver is None:
            return
        receiver.pending.popleft()  # only the first of a queue is ever claimed
        receiver.attempts = 0
        receiver.due_at = None
        if receiver.pending:
            self._set_due(receiver, now)

    def count(self) -> int:
        """Return how many deliveries are pending."""
        return len(self._by_delivery)

    def reschedule(self, delivery_id: int, until: float) -> None:
        """Delay a delivery and count the attempt; does nothing if it is gone."""
        receiver = self._by_delivery.get(delivery_id)
        if receiver is not None:
            receiver.attempts += 1
            self._set_due(receiver, until)

    def _set_due(self, receiver: "_Receiver", time: float) -> None:
        self._schedules += 1
        receiver.due_at = time
        schedule = self._schedule.setdefault(receiver.owner, [])
        heappush(schedule, (time, self._schedules, receiver))
        if schedule[0][1] == self._schedules:
            heappush(self._owners, (time, self._schedules, receiver.owner))


class _Receiver:
    """A configuration, its pending deliveries in order, and when the first is due."""

    __slots__ = ("attempts", "config", "due_at", "owner", "pending")

    def __init__(self, config: PushConfig, owner: Owner) -> None:
        self.config = config
        self.owner = owner
        self.pending: deque[tuple[int, TaskEvent]] = deque()
        self.attempts = 0
        self.due_at: float | None = None  # None if nothing is pending
