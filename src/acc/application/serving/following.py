"""The open streams of a server: how many each caller has, and all of them to be ended at once."""

from acc.application.serving.hub import Hub
from acc.application.serving.limits import ServeLimits
from acc.application.serving.streams import TaskStream
from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.identity import Owner
from acc.domain.value_objects.task import Task
from acc.ports.outbound.task_ports import TaskStorePort


class Following:
    """Opens streams. A caller's place is claimed first, so that many at once cannot be too many."""

    def __init__(self, *, tasks: TaskStorePort, hub: Hub, limits: ServeLimits) -> None:
        self._tasks = tasks
        self._hub = hub
        self._limits = limits
        self._claimed: dict[Owner, int] = {}
        self._open: set[TaskStream] = set()

    def claim(self, owner: Owner) -> None:
        """Take a place for a stream of a caller, LimitExceeded if all are taken."""
        count = self._claimed.get(owner, 0)
        if count >= self._limits.streams:
            raise LimitExceeded(f"at most {self._limits.streams} open streams of one caller")
        self._claimed[owner] = count + 1

    def give_up(self, owner: Owner) -> None:
        """Free a place that was claimed."""
        self._claimed[owner] -= 1
        if not self._claimed[owner]:
            del self._claimed[owner]

    def open(self, task: Task, *, claimed_by: Owner | None = None) -> TaskStream:
        """Return a stream of a task; closing it frees the place that was claimed for it."""

        def leave() -> None:
            self._open.discard(stream)
            if claimed_by is not None:
                self.give_up(claimed_by)

        stream = TaskStream(
            task,
            tasks=self._tasks,
            hub=self._hub,
            heartbeat=self._limits.heartbeat,
            leave=leave,
        )
        self._open.add(stream)
        return stream

    def stop(self) -> None:
        """End all streams where they are."""
        for stream in list(self._open):
            stream.stop()
