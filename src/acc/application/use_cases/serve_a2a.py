"""Serving agents to others: send, stream, get, list, cancel, subscribe, and being notified."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from acc.application.a2a.executor import TaskExecutor, TaskRun
from acc.application.a2a.intake import MessageIntake, input_modes, output_modes
from acc.application.a2a.maintenance import TaskMaintenance
from acc.application.a2a.push import CheckUrl, PushConfigs
from acc.application.a2a.requests import (
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    SendRequest,
    ServerLimits,
    TaskRequest,
    own_task,
    owner_of,
    within,
)
from acc.application.a2a.subscriptions import Subscriptions, TaskBroker, TaskStream
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import (
    InvalidTransition,
    TaskNotCancelable,
    Unauthenticated,
    UnsupportedOperation,
)
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner, Principal
from acc.domain.value_objects.task import (
    ACTIVE,
    INTERRUPTED,
    Message,
    PushConfig,
    PushPage,
    StatusUpdate,
    Task,
    TaskPage,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import TaskStorePort, UnitOfWork

#: Times are told in milliseconds, so that a task may have moved a little earlier than was told.
_AS_TOLD = 0.0005


class ServeA2AUseCase:
    """The verbs of a server of one tree of agents.

    `check_url` refuses addresses that notifications must not be sent to; without it there are no
    notifications. Without `knows_repeats` a message that comes again is a new one. With
    `open_listing` the nameless may list what the nameless have asked. Who calls has been
    authenticated already.
    """

    def __init__(
        self,
        runner: SessionRunner,
        *,
        tasks: TaskStorePort,
        storage: UnitOfWork,
        limits: ServerLimits | None = None,
        check_url: CheckUrl | None = None,
        knows_repeats: bool = True,
        open_listing: bool = False,
    ) -> None:
        self.runner = runner
        self.limits = limits or ServerLimits()
        self.input_modes = input_modes(runner.agent)
        self.output_modes = output_modes(runner.agent)
        #: What else is to be done for as long as the server lives.
        self.background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
        self._tasks = tasks
        self._open_listing = open_listing
        self._hub = TaskBroker()
        self._execution = TaskExecutor(
            runner=runner, tasks=tasks, storage=storage, broker=self._hub
        )
        self._maintenance = TaskMaintenance(
            runner=runner,
            tasks=tasks,
            executor=self._execution,
            retention=self.limits.keep,
        )
        self._following = Subscriptions(tasks=tasks, hub=self._hub, limits=self.limits)
        self._notifying = PushConfigs(
            tasks=tasks, ids=runner.services.ids, limits=self.limits, check_url=check_url
        )
        self._sending = MessageIntake(
            runner,
            tasks=tasks,
            hub=self._hub,
            execution=self._execution,
            notifying=self._notifying,
            limits=self.limits,
        )
        self._sending.knows_repeats = knows_repeats

    @property
    def can_push(self) -> bool:
        """Tell whether clients can be notified."""
        return self._notifying.is_offered

    @asynccontextmanager
    async def open(self) -> AsyncIterator["ServeA2AUseCase"]:
        """Take tasks for as long as the context lasts; the ones at work get a while to finish."""
        async with asyncio.TaskGroup() as group:
            self._execution.open(group)
            chores = [group.create_task(chore()) for chore in self._chores]
            try:
                yield self
            finally:
                await self.stop()
                for chore in chores:
                    chore.cancel()

    async def stop(self) -> None:
        """Take no more tasks, let those at work finish for a while, and then end the streams."""
        try:
            await self._execution.close(grace=self.limits.grace)
        finally:
            self._following.finish()

    @property
    def _chores(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return (self._maintenance.watch, self._maintenance.expire, *self.background)

    # Sending

    async def send(self, principal: Principal, request: SendRequest) -> Task | Message:
        """Let a message start a task or move one on, and return what came of it."""
        owner = owner_of(principal, request.tenant)
        filed = await self._sending.file(
            within(principal, owner), request, modes=(self.input_modes, self.output_modes)
        )
        task = filed.task
        if request.wait:
            task = await self._settled(task)
        elif self.runner.agent.replies_directly and task.state is TaskState.SUBMITTED:
            task = await self._settled(task, first_word=True)
        return task.reply or self._shown(task, request.history_length)

    async def stream(
        self, principal: Principal, request: SendRequest, *, after: int | None = None
    ) -> TaskStream:
        """Do the same and return a stream of all that happens until the task ends or waits.

        A client that sends its message again, having lost the stream `after` an event, gets the
        rest.
        """
        caller = within(principal, owner_of(principal, request.tenant))
        account = caller.account
        self._following.claim(account)
        opened: list[TaskStream] = []

        def follow(task: Task) -> None:
            shown = self._shown(task, request.history_length)
            opened.append(self._following.open(shown, claimed_by=account))

        try:
            filed = await self._sending.file(
                caller,
                request,
                modes=(self.input_modes, self.output_modes),
                follow=follow,
            )
        except BaseException:
            if opened:
                opened[0].close()
            else:
                self._following.give_up(account)
            raise
        (stream,), task = opened, filed.task
        stream.may_reply = self.runner.agent.replies_directly and task.state is TaskState.SUBMITTED
        stream.ends_at_once = task.state not in ACTIVE
        missed = -1 if after is None or filed.is_new else task.seq - after
        if missed > 0 or (missed == 0 and task.state in ACTIVE):
            stream.after(task.seq - missed)
        return stream

    async def subscribe(
        self, principal: Principal, request: TaskRequest, *, after: int | None = None
    ) -> TaskStream:
        """Return a stream of a task that is there; `after` an event, only of what came since."""
        owner = owner_of(principal, request.tenant)
        task = await own_task(self._tasks, owner, request.id)
        missed = after is not None and after < task.seq
        if task.is_terminal and not missed:
            raise UnsupportedOperation(
                f"task {task.id!r} is {task.state.value}: there is nothing to subscribe to; get it"
            )
        account = within(principal, owner).account
        self._following.claim(account)
        stream = self._following.open(self._shown(task, None), claimed_by=account)
        # Who tells of an event that has not happened is shown the task, which has all that has.
        if after is not None and after <= task.seq:
            stream.after(max(after, 0))
        return stream

    async def _settled(self, task: Task, *, first_word: bool = False) -> Task:
        """Return a task once it ends or waits, or once anything has happened to it."""
        if task.state not in ACTIVE:
            return task
        work = self._execution.find(task.id)
        if work is not None and not first_word:
            return await self._finished(work)
        stream = self._following.open(task)
        stream.may_reply = True
        try:
            async with aclosing(stream.items()) as items:
                async for item in items:
                    if first_word and item.item is not None:
                        break
        finally:
            stream.close()
        return await self._tasks.read(task.id) or task

    async def _finished(self, work: TaskRun) -> Task:
        await work.wait()
        if work.superseded:
            return await self._tasks.read(work.task_id) or work.current()
        return work.current()

    # Looking

    async def get(self, principal: Principal, request: GetRequest) -> Task:
        """Return a task as it is now."""
        owner = owner_of(principal, request.tenant)
        task = await own_task(self._tasks, owner, request.id)
        return self._shown(task, request.history_length)

    async def listed(self, principal: Principal, request: ListRequest) -> TaskPage:
        """Return a page of the caller's tasks.

        All who have no name are one caller: without authentication, what one of them asked would be
        listed to the others.
        """
        if not self._open_listing:
            self.check_authenticated(principal, "listing tasks")
        query = request.query
        if query.since is not None:
            query = replace(query, since=query.since - _AS_TOLD)
        page = await self._tasks.list_tasks(owner_of(principal, request.tenant), query)
        tasks = (self._shown(task, request.history_length) for task in page.tasks)
        if not request.include_artifacts:
            tasks = (replace(task, artifacts=()) for task in tasks)
        return replace(page, tasks=tuple(tasks))

    async def cancel(self, principal: Principal, request: TaskRequest) -> Task:
        """Cancel a task, which then stays canceled whatever its agents still do."""
        owner = owner_of(principal, request.tenant)
        await self._execution.run_shielded(self._cancel(within(principal, owner), request.id))
        return self._shown(await own_task(self._tasks, owner, request.id), None)

    async def _cancel(self, caller: Principal, task_id: str) -> None:
        task = await own_task(self._tasks, caller.owner, task_id)
        now = self.runner.services.clock.now()
        update = StatusUpdate(status=TaskStatus(state=TaskState.CANCELED, at=now))
        try:
            events = await self._tasks.append(task.id, [update])
        except InvalidTransition as error:
            raise TaskNotCancelable(f"task {task.id!r} is {error.state} already") from None
        self._hub.tell(task.id, events)
        work = self._execution.find(task.id)
        if work is not None:
            work.stop()
        elif task.state in INTERRUPTED:
            await self._execution.abandon(caller, task)

    # Notifications

    async def create_push(self, principal: Principal, request: PushCreateRequest) -> PushConfig:
        """Tell an address what happens to a task from now on."""
        self._notifying.check_offered()
        task = await self._own(principal, request.tenant, request.config.task_id)
        return await self._notifying.save(task.id, await self._notifying.checked(request.config))

    async def get_push(self, principal: Principal, request: PushRequest) -> PushConfig:
        """Return a configuration; without an id, the one that nobody named, or the oldest."""
        self._notifying.check_offered()
        task = await self._own(principal, request.tenant, request.task_id)
        return await self._notifying.get(task.id, request.id)

    async def pushes(self, principal: Principal, request: PushRequest) -> PushPage:
        """Return a page of the configurations of a task; without a size, all that are left."""
        self._notifying.check_offered()
        task = await self._own(principal, request.tenant, request.task_id)
        return await self._notifying.page(task.id, request)

    async def delete_push(self, principal: Principal, request: PushRequest) -> None:
        """Send no more notifications to an address."""
        self._notifying.check_offered()
        task = await self._own(principal, request.tenant, request.task_id)
        await self._tasks.delete_push_config(task.id, request.id)

    # Who, and how much

    def check_authenticated(self, principal: Principal, what: str) -> None:
        """Refuse callers of whom nothing is known."""
        if principal.is_anonymous:
            raise Unauthenticated(f"{what} needs authentication")

    async def _own(self, principal: Principal, tenant: str, task_id: str) -> Task:
        owner: Owner = owner_of(principal, tenant)
        return await own_task(self._tasks, owner, task_id)

    def _shown(self, task: Task, history_length: int | None) -> Task:
        most = self.limits.history if history_length is None else max(history_length, 0)
        most = min(most, self.limits.history)
        shown = task.history[-most:] if most else ()
        return replace(task, history=tuple([_placed(message, task) for message in shown]))


def _placed(message: Message, task: Task) -> Message:
    """Return a message of a task's history with the task and context it belongs to."""
    if message.task_id and message.context_id:
        return message
    return replace(message, task_id=task.id, context_id=task.context_id)
