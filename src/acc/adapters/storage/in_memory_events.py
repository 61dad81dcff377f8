"""Events that agents published in this process, their subscriptions and dead letters."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from acc.adapters.storage.event_log import SCAN_LIMIT, Claimed, Interest, published_row
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.ports.outbound.event_ports import EVENT_RETENTION_SECONDS, DeadLetter, EventDelivery
from acc.ports.outbound.system_ports import ClockPort

#: Source, id, type, time and body of an event.
PublishedRow = tuple[str, str, str, float, bytes]


@dataclass(slots=True)
class _Subscription:
    position: int = 0
    #: Attempts and the time when the delivery is due again, by number of the event.
    claims: dict[int, tuple[int, float]] = field(default_factory=dict)


class InMemoryEventLog:
    """The log of published events of one process. No method awaits, so every call is atomic."""

    def __init__(self, *, clock: ClockPort) -> None:
        self._clock = clock
        self._seq = 0
        self._rows: dict[int, PublishedRow] = {}
        self._ids: set[tuple[str, str]] = set()
        self._subscriptions: dict[str, _Subscription] = {}
        self._dead_letters: dict[str, dict[str, DeadLetter]] = {}

    def add(self, rows: Iterable[PublishedRow]) -> None:
        """Store events; those with a known source and id have no effect."""
        self._prune()
        for row in rows:
            if row[:2] not in self._ids:
                self._ids.add(row[:2])
                self._seq += 1
                self._rows[self._seq] = row

    async def publish(self, event: CloudEvent) -> None:
        """Store an event; one with the same source and id has no effect."""
        self.add([published_row(event, self._clock.now())])

    async def claim(self, interest: Interest, *, limit: int) -> Claimed:
        """Lease events that are new or due again."""
        now = self._clock.now()
        state = self._subscriptions.setdefault(interest.name, _Subscription())
        claims, until = state.claims, now + interest.lease
        deliveries: list[EventDelivery] = []
        for seq, (attempts, due_at) in sorted(claims.items(), key=lambda claim: claim[1][1]):
            if due_at > now or len(deliveries) >= limit:
                break
            row = self._rows.get(seq)
            if row is None or not interest.includes(row[2]):
                del claims[seq]
                continue
            claims[seq] = (attempts + 1, until)
            deliveries.append(EventDelivery(str(seq), row[4], attempts + 1))
        numbers = list(self._rows)
        first = bisect_right(numbers, state.position)
        scanned = 0
        for seq in numbers[first : first + SCAN_LIMIT]:
            if len(deliveries) >= limit:
                break
            scanned += 1
            state.position = seq
            row = self._rows[seq]
            if interest.includes(row[2]):
                claims[seq] = (1, until)
                deliveries.append(EventDelivery(str(seq), row[4], 1))
        return Claimed(tuple(deliveries), scanned < SCAN_LIMIT)

    async def complete(self, name: str, seq: int) -> None:
        """End a delivery."""
        self._subscriptions[name].claims.pop(seq, None)

    async def delay(self, name: str, seq: int, *, seconds: float) -> None:
        """Make a delivery due again after so many seconds."""
        claims = self._subscriptions[name].claims
        if seq in claims:
            claims[seq] = (claims[seq][0], self._clock.now() + seconds)

    async def backlog(self, interest: Interest) -> int:
        """Return how many events of a subscription are new or leased."""
        state = self._subscriptions.get(interest.name, _Subscription())
        new = [row for seq, row in self._rows.items() if seq > state.position]
        return len(state.claims) + sum(interest.includes(row[2]) for row in new)

    async def add_dead_letter(self, subscription: str, letter: DeadLetter) -> None:
        """Store a dead letter; one with the same key is replaced."""
        self._dead_letters.setdefault(subscription, {})[letter.key] = letter

    async def dead_letters(self, subscription: str, *, limit: int) -> tuple[DeadLetter, ...]:
        """Return dead letters, oldest first."""
        found = self._dead_letters.get(subscription, {}).values()
        return tuple(sorted(found, key=lambda letter: letter.at)[:limit])

    async def delete_dead_letter(self, subscription: str, key: str) -> bool:
        """Delete a dead letter; return False if there is none."""
        return self._dead_letters.get(subscription, {}).pop(key, None) is not None

    async def aclose(self) -> None:
        """Do nothing: there are no files or connections."""

    def _prune(self) -> None:
        oldest = self._clock.now() - EVENT_RETENTION_SECONDS
        while self._rows:
            seq = next(iter(self._rows))
            if self._rows[seq][3] >= oldest:
                return
            self._ids.discard(self._rows.pop(seq)[:2])
