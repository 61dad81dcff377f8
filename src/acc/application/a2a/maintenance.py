"""Maintain tasks while the server runs: renew leases, fail orphans, delete expired tasks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any

from acc.application.a2a.executor import (
    INTERRUPTED_TASK,
    TaskExecutor,
    own_session,
)
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.principal import A2A_CALLER
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import RENEWAL_SHARE, ExpiredTask, TaskStorePort

log = logging.getLogger("acc.serve")
#: How often tasks of dead processes are looked for; they are recognised at once on this machine.
SWEEP_SECONDS = 3.0
EXPIRY_SECONDS = 15.0
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
        #: Tasks that were claimed here and are not failed or passed to the engine yet.
        self._orphans: set[str] = set()

    def jobs(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return what runs forever, side by side, so that no part waits for another one."""
        renewal = self._tasks.lease * RENEWAL_SHARE
        return (
            self._follow(),
            self._repeat(self.renew, renewal),
            self._repeat(self.fail_orphans, min(SWEEP_SECONDS, renewal)),
            self._repeat(self._expire, EXPIRY_SECONDS),
        )

    async def renew(self) -> None:
        """Renew the leases of the tasks that run here."""
        await self._tasks.renew(self._executor.running)

    async def fail_orphans(self) -> int:
        """Fail tasks whose process is dead, so that no client waits for them forever.

        With an engine, workers execute them. What was claimed stays known here until it is done,
        because other servers do not see it before the new lease expires.
        """
        self._orphans.update(await self._tasks.claim_orphans())
        self._orphans.difference_update(self._executor.running)
        dispatcher = self._executor.dispatcher
        count = len(self._orphans)
        for task_id in tuple(self._orphans):
            # An engine that knows the task executes it, or will.
            if dispatcher is None or not await dispatcher.recover(task_id):
                await self._executor.interrupt(task_id, INTERRUPTED_TASK)
            self._orphans.discard(task_id)
        return count

    async def _follow(self) -> None:
        """Follow the updates of other processes."""
        changed: Collection[str] | None = None
        while True:
            try:
                await self._executor.sync_with_store(changed)
            except AccError as error:
                log.error("task maintenance failed, retrying: %s", error)  # noqa: TRY400 - not a bug
            changed = await self._tasks.wait_for_changes()

    async def _expire(self) -> None:
        """Delete tasks that ended longer ago than the retention time."""
        now = self._runner.services.clock.now()
        await self.delete_expired(before=now - self._retention)

    async def _repeat(self, job: Callable[[], Awaitable[object]], seconds: float) -> None:
        while True:
            try:
                await job()
            except AccError as error:
                log.error("task maintenance failed, retrying: %s", error)  # noqa: TRY400 - not a bug
            await asyncio.sleep(seconds)

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
        return not first or first[0].caller.startswith(A2A_CALLER)
