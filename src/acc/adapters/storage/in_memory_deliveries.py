"""Who is to be told of tasks, and what is still to be told them, in memory."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, TaskEvent
from acc.ports.outbound.storage_ports import Delivery


class _Push:
    """A configuration, the deliveries that wait for it in order, and when the first is due."""

    __slots__ = ("attempts", "config", "due_at", "owner", "waiting")

    def __init__(self, config: PushConfig, owner: Owner) -> None:
        self.config = config
        self.owner = owner
        self.waiting: deque[tuple[int, TaskEvent]] = deque()
        self.attempts = 0
        self.due_at: float | None = None  # there is nothing to deliver


class Places:
    """How many deliveries each owner may still get."""

    __slots__ = ("_most", "_taken")

    def __init__(self, most: int, under_way: Mapping[Owner, int]) -> None:
        self._most = most
        self._taken = Counter(under_way)

    def has_room(self, owner: Owner) -> bool:
        """Tell whether an owner may get a further one."""
        return self._taken[owner] < self._most

    def take(self, owner: Owner) -> None:
        """Note that an owner gets one."""
        self._taken[owner] += 1


class Deliveries:
    """Keeps configurations, and a queue for each."""

    def __init__(self) -> None:
        self._pushes: dict[str, dict[str, _Push]] = {}
        self._by_delivery: dict[int, _Push] = {}
        self._numbers = 0
        self._turns = 0
        # When a configuration's turn may come. What has changed since is found out when it comes.
        self._agendas: dict[Owner, list[tuple[float, int, _Push]]] = {}
        # When the first turn of each owner comes, so that an owner can be passed over as a whole.
        self._owners: list[tuple[float, int, Owner]] = []

    def save(self, config: PushConfig, owner: Owner) -> None:
        """Keep a configuration; what waits for one with the same task and id goes to it."""
        of_task = self._pushes.setdefault(config.task_id, {})
        if (push := of_task.get(config.id)) is not None:
            push.config = config
        else:
            of_task[config.id] = _Push(config, owner)

    def configs(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the configurations of a task, the oldest first."""
        return tuple(push.config for push in self._pushes.get(task_id, {}).values())

    def has_configs(self, task_id: str) -> bool:
        """Tell whether anyone wants to be told of a task."""
        return task_id in self._pushes

    def delete(self, task_id: str, config_id: str) -> None:
        """Drop a configuration and what waits for it; harmless if it is gone."""
        of_task = self._pushes.get(task_id, {})
        push = of_task.pop(config_id, None)
        if push is None:
            return
        if not of_task:
            del self._pushes[task_id]
        for number, _ in push.waiting:
            del self._by_delivery[number]
        push.due_at = None

    def delete_all(self, task_id: str) -> None:
        """Drop the configurations of a task."""
        for config_id in list(self._pushes.get(task_id, ())):
            self.delete(task_id, config_id)

    def add(self, task_id: str, events: Sequence[TaskEvent], now: float) -> None:
        """Queue events for everyone who wants to be told of a task."""
        for event in events:
            for push in self._pushes[task_id].values():
                self._numbers += 1
                self._by_delivery[self._numbers] = push
                push.waiting.append((self._numbers, event))
                if push.due_at is None:
                    self._set_due(push, now)

    def due(self, now: float, limit: int, lease: float, places: Places) -> tuple[Delivery, ...]:
        """Take the first of each queue whose time has come, those that came first first."""
        taken: list[Delivery] = []
        passed: list[tuple[float, int, Owner]] = []
        while self._owners and self._owners[0][0] <= now and len(taken) < limit:
            time, turn, owner = heappop(self._owners)
            agenda = self._agendas.get(owner)
            if agenda is None or agenda[0][1] != turn:
                continue  # another turn of theirs comes first, and has an entry of its own
            if not places.has_room(owner):
                passed.append((time, turn, owner))
                continue
            _, _, push = heappop(agenda)
            self._expect(owner, agenda)
            if push.due_at == time:
                number, event = push.waiting[0]
                taken.append(Delivery(number, push.config, owner, event, push.attempts))
                places.take(owner)
                # Set only when all are taken: a lease of nothing must not give one twice.
                push.due_at = None
        for turn_of in passed:
            heappush(self._owners, turn_of)
        for delivery in taken:
            self._set_due(self._by_delivery[delivery.id], now + lease)
        return tuple(taken)

    def settle(self, number: int, now: float) -> None:
        """Drop a delivery, so that the next one's time has come; harmless if it is gone."""
        push = self._by_delivery.pop(number, None)
        if push is None:
            return
        push.waiting.popleft()  # only the first of a queue is ever given out
        push.attempts = 0
        push.due_at = None
        if push.waiting:
            self._set_due(push, now)

    def postpone(self, number: int, until: float) -> None:
        """Let a delivery wait, counting the attempt; harmless if it is gone."""
        push = self._by_delivery.get(number)
        if push is not None:
            push.attempts += 1
            self._set_due(push, until)

    def _set_due(self, push: _Push, time: float) -> None:
        self._turns += 1
        push.due_at = time
        agenda = self._agendas.setdefault(push.owner, [])
        heappush(agenda, (time, self._turns, push))
        if agenda[0][1] == self._turns:
            heappush(self._owners, (time, self._turns, push.owner))

    def _expect(self, owner: Owner, agenda: list[tuple[float, int, _Push]]) -> None:
        """Note when an owner's next turn comes, if there is one."""
        if agenda:
            heappush(self._owners, (*agenda[0][:2], owner))
        else:
            del self._agendas[owner]
