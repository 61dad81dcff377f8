"""Answers to tasks of `acc serve` in the same store: the task continues with its session."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from acc.application.a2a.executor import TaskRecorder, TaskRun, own_session
from acc.application.a2a.projection import ProjectionOptions, TaskProjection
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.console.approvals import StaleApproval
from acc.application.runtime.run import RunObserver, Services
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import AccError, InvalidTransition
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.principal import Owner, Principal
from acc.domain.value_objects.session import SessionKey
from acc.domain.value_objects.task import (
    INTERRUPTED,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
    Update,
)
from acc.ports.outbound.storage_ports import (
    RENEWAL_SHARE,
    AppendEvents,
    BeginTurn,
    CommitResult,
    StoreCatalogPort,
    TaskStorePort,
    TaskSummary,
    UnitOfWork,
)

_MAX_WAITING_TASKS = 500


class TaskStores(Protocol):
    """Opens the task store of an application, and the unit of work over tasks and sessions."""

    def __call__(self, app_name: str, /) -> tuple[TaskStorePort, UnitOfWork]:
        """Return them."""
        ...


class ServedTasks:
    """Finds the tasks that sessions belong to, and answers them in place of their callers."""

    def __init__(self, *, catalog: StoreCatalogPort, stores: TaskStores) -> None:
        self._catalog = catalog
        self._stores = stores

    async def waiting_task(self, key: SessionKey) -> TaskSummary | None:
        """Return the task that waits for an answer in a session, None if there is none."""
        for state in sorted(INTERRUPTED):
            for task in await self._catalog.list_tasks(state=state, limit=_MAX_WAITING_TASKS):
                owner = Owner(task.tenant, task.caller)
                sessions = (task.context_id, own_session(task.context_id, task.task_id))
                if (task.app_name, owner.user_id) == (key.app_name, key.user_id) and (
                    key.session_id in sessions
                ):
                    return task
        return None

    async def cancel(self, found: TaskSummary, *, at: float) -> None:
        """Cancel a task whose run was abandoned."""
        tasks, _ = self._stores(found.app_name)
        status = TaskStatus(state=TaskState.CANCELED, at=at)
        await tasks.append(found.task_id, [StatusUpdate(status=status)])

    async def resume(
        self,
        found: TaskSummary,
        runner: SessionRunner,
        key: SessionKey,
        answers: Sequence[InputAnswer],
        observer: RunObserver,
    ) -> None:
        """Resume the run of a task with answers; its events update the task."""
        tasks, storage = self._stores(found.app_name)
        task = await tasks.read(found.task_id)
        if task is None or task.state not in INTERRUPTED:
            raise StaleApproval("the task no longer waits: it was answered or canceled")
        recorder = _AnsweredTaskRecorder(
            task,
            Owner(found.tenant, found.caller),
            answers,
            services=runner.services,
            tasks=tasks,
            storage=storage,
            observer=observer,
        )
        try:
            result = await runner.resume(
                answers, user_id=key.user_id, session_id=key.session_id, recorder=recorder
            )
        except AccError as error:
            await recorder.fail(error)
            raise
        except asyncio.CancelledError:
            await recorder.fail(AccError("the run was stopped in the console"))
            raise
        await recorder.store(recorder.projection.end(result))

    async def renew(self, found: TaskSummary) -> None:
        """Keep the lease of a task until this is canceled."""
        tasks, _ = self._stores(found.app_name)
        while True:
            await asyncio.sleep(tasks.lease * RENEWAL_SHARE)
            await tasks.renew([found.task_id])


class _AnsweredTaskRecorder(TaskRecorder):
    """Takes over a waiting task before the first event is stored, and shows events on pages."""

    def __init__(
        self,
        task: Task,
        owner: Owner,
        answers: Sequence[InputAnswer],
        *,
        services: Services,
        tasks: TaskStorePort,
        storage: UnitOfWork,
        observer: RunObserver,
    ) -> None:
        principal = Principal(caller=owner.caller, tenant=owner.tenant)
        run = TaskRun(task, principal)
        current = asyncio.current_task()
        assert current is not None  # noqa: S101 - this runs in a task of the console
        run.attach(current)
        self.projection = TaskProjection(
            task, ProjectionOptions(), clock=services.clock, ids=services.ids
        )
        super().__init__(
            run,
            self.projection,
            services=services,
            storage=storage,
            broker=TaskBroker(),
            limiter=None,
        )
        self._task, self._owner, self._answers = task, owner, answers
        self._services, self._tasks, self._page = services, tasks, observer
        self._has_begun = False

    async def fail(self, error: BaseException) -> None:
        """Record that a run failed, if it had begun."""
        if self._has_begun:
            await self.store(self.projection.fail(error))

    async def _commit(
        self, write: BeginTurn | AppendEvents, updates: Sequence[Update]
    ) -> CommitResult:
        if not self._has_begun:
            await self._take_over()
        return await super()._commit(write, updates)

    async def _take_over(self) -> None:
        """Set the task to working, or raise StaleApproval; the session lease is held."""
        verdicts = ", ".join(answer.verdict.value for answer in self._answers)
        message = Message(
            message_id=self._services.ids.new(),
            role=Role.USER,
            parts=text_part(f"answered in the console: {verdicts}"),
            task_id=self._task.id,
            context_id=self._task.context_id,
        )
        try:
            await self._tasks.continue_task(
                self._task.id,
                owner=self._owner,
                message=message,
                updates=self.projection.opening(),
                expected=self._task,
            )
        except InvalidTransition:
            raise StaleApproval("the task no longer waits: it was answered or canceled") from None
        self.projection.start()
        self._has_begun = True

    async def _show(self, events: Sequence[Event]) -> None:
        await super()._show(events)
        for event in events:
            await self._page.on_event(event)
