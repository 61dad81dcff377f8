"""The unit of work over stores that do not share a database."""

from acc.domain.errors import AccError
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import Session
from acc.domain.value_objects.task import TaskEvent
from acc.ports.outbound.storage_ports import (
    AppendTaskUpdates,
    BeginTurn,
    CommitResult,
    SessionStorePort,
    TaskStorePort,
    Write,
)


class SequentialUnitOfWork:
    """Applies writes in order, each atomic by itself."""

    def __init__(self, *, sessions: SessionStorePort, tasks: TaskStorePort) -> None:
        self._sessions = sessions
        self._tasks = tasks

    async def commit(self, *writes: Write) -> CommitResult:
        """Store all writes; a refused task update does not undo the events before it."""
        session: Session | None = None
        events: tuple[Event, ...] = ()
        updates: tuple[TaskEvent, ...] = ()
        refusal: AccError | None = None
        for write in writes:
            if isinstance(write, AppendTaskUpdates):
                try:
                    updates += await self._tasks.append(write.task_id, write.updates)
                except AccError as error:
                    refusal = error
            elif isinstance(write, BeginTurn):
                session, events = await self._sessions.begin_turn(
                    write.key,
                    write.message,
                    holder=write.holder,
                    agent=write.agent,
                    waits_for_runs=write.waits_for_runs,
                )
                if not events:
                    break
            else:
                events += await self._sessions.append(
                    write.key, write.events, holder=write.holder, release=write.release
                )
        return CommitResult(session, events, updates, refusal)
