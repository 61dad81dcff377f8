"""Maintain tasks while the server runs: renew leases, fail orphans, delete expired tasks."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from acc.application.a2a.executor import (
    CALLER_PREFIX,
    INTERRUPTED_TASK,
    TaskExecutor,
    own_session,
)
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import ExpiredTask, TaskStorePort

log = logging.getLogger("acc.serve")
RENEWAL_SECONDS = 10.0
SWEEP_SECONDS = 15.0
#: Tasks deleted at once, so that other work is not delayed.
BATCH_SIZE = 200


class TaskMaintenance:
    """Maintains the tasks of a server until it is cancelled."""

    def __init__(
        self,
        *,
        runner: SessionRunner,
        tasks: TaskStorePort,
        executor: TaskExecutor,
        retention: float,
    ) -> None:
        self._runner = runner
        self._tasks = tasks
        self._executor = executor
        self._retention = retention

    async def watch(self) -> None:
        """Renew leases, fail orphans and follow the updates of other processes, forever."""
        loop = asyncio.get_running_loop()
        renewed_at = swept_at = loop.time() - SWEEP_SECONDS
        changed: Collection[str] | None = None
        while True:
            try:
                now = loop.time()
                if now - swept_at >= SWEEP_SECONDS:
                    swept_at = now
                    await self.fail_orphans()
                if now - renewed_at >= RENEWAL_SECONDS:
                    renewed_at = now
                    await self._tasks.renew(self._executor.running)
                await self._executor.sync_with_store(changed)
            except AccError as error:
                log.error("task maintenance failed, retrying: %s", error)  # noqa: TRY400 - not a bug
            changed = await self._tasks.wait_for_changes()

    async def expire(self) -> None:
        """Delete tasks that ended longer ago than the retention time, forever."""
        while True:
            try:
                now = self._runner.services.clock.now()
                await self.delete_expired(before=now - self._retention)
            except AccError as error:
                log.error("deleting expired tasks failed, retrying: %s", error)  # noqa: TRY400 - not a bug
            await asyncio.sleep(SWEEP_SECONDS)

    async def fail_orphans(self) -> int:
        """Fail tasks whose process is dead, so that no client waits for them forever."""
        running = self._executor.running
        orphans = [name for name in await self._tasks.claim_orphans() if name not in running]
        dispatcher = self._executor.dispatcher
        for task_id in orphans:
            if dispatcher is not None and await dispatcher.recover(task_id):
                continue  # a worker executes it, or will
            await self._executor.interrupt(task_id, INTERRUPTED_TASK)
        return len(orphans)

    async def delete_expired(self, *, before: float) -> None:
        """Delete tasks that ended before a time, and sessions without further tasks.

        A task whose session is in use stays. Sessions are deleted first: if the process dies in
        between, the tasks are found again.
        """
        skipped = 0
        while batch := await self._tasks.expired(before=before, limit=BATCH_SIZE, skip=skipped):
            in_use = await self._delete_sessions(batch, before)
            expired = [t.task_id for t in batch if in_use.isdisjoint(self._session_keys(t))]
            skipped += len(batch) - len(expired)
            await self._tasks.delete_expired(expired)
            await asyncio.sleep(0)  # a store in memory never yields to the event loop

    async def _delete_sessions(
        self, batch: Sequence[ExpiredTask], before: float
    ) -> frozenset[SessionKey]:
        """Delete the sessions of tasks with their data; return those that are in use."""
        services = self._runner.services
        own: set[SessionKey] = set()
        for task in batch:
            for key in self._session_keys(task):
                # Clients may name a context whose session was started elsewhere; that one stays.
                if key.session_id != task.context_id or await self._was_served(key):
                    own.add(key)
        in_use = await services.sessions.delete_unused(own, since=before)
        for agent in self._runner.agent.walk():
            for key in own - in_use:
                services.memory_cache.evict(key, agent.name)
        return in_use

    def _session_keys(self, task: ExpiredTask) -> list[SessionKey]:
        """Return the sessions that no task uses once a task is deleted."""
        names = [own_session(task.context_id, task.task_id)]
        if task.is_last:
            names.append(task.context_id)
        app_name, user = self._runner.app_name, task.owner.user_id
        try:
            return [SessionKey(app_name=app_name, user_id=user, session_id=name) for name in names]
        except InvalidInput:  # the task failed because of its id and has no session
            return []

    async def _was_served(self, key: SessionKey) -> bool:
        """Return True if a session was started by this server."""
        first = await self._runner.services.sessions.events(key, limit=1)
        return not first or first[0].caller.startswith(CALLER_PREFIX)
