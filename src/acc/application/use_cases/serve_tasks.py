"""Serving agents to others: send, stream, get, list, cancel, subscribe, and being notified."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from acc.application.runner import SessionRunner
from acc.application.serving.admission import check_message, input_modes, output_modes, wants_data
from acc.application.serving.answering import read_answers
from acc.application.serving.execution import Execution, Work
from acc.application.serving.hub import Hub
from acc.application.serving.limits import ServeLimits
from acc.application.serving.requests import (
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    SendRequest,
    TaskRequest,
)
from acc.application.serving.streams import TaskStream
from acc.application.serving.telling import Teller, asking
from acc.domain.errors import (
    AccError,
    InvalidInput,
    LimitExceeded,
    MoveForbidden,
    PermissionDenied,
    PushNotSupported,
    TaskNotCancelable,
    TaskNotFound,
    Unauthenticated,
    UnsupportedOperation,
)
from acc.domain.value_objects.event import InputAnswer, InputRequest, Part
from acc.domain.value_objects.identity import Owner, Principal
from acc.domain.value_objects.task import (
    ACTIVE,
    INTERRUPTED,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskPage,
    TaskState,
    TaskStatus,
)
from acc.domain.value_objects.value import changed
from acc.ports.outbound.task_ports import Filed, TaskStorePort

log = logging.getLogger("acc.serve")

_LOOK_EVERY = 0.2
_RENEW_EVERY = 10.0
_SWEEP_EVERY = 15.0

CheckUrl = Callable[[str], Awaitable[None]]


class ServeTasks:
    """The verbs of a server of one tree of agents.

    `check_url` refuses addresses that notifications must not be sent to; without it there are no
    notifications. Whoever calls has been authenticated already.
    """

    def __init__(
        self,
        runner: SessionRunner,
        *,
        tasks: TaskStorePort,
        limits: ServeLimits | None = None,
        check_url: CheckUrl | None = None,
    ) -> None:
        self.runner = runner
        self.limits = limits or ServeLimits()
        self.input_modes = input_modes(runner.agent)
        self.output_modes = output_modes(runner.agent)
        self._tasks = tasks
        self._check_url = check_url
        self._hub = Hub()
        self._execution = Execution(runner=runner, tasks=tasks, hub=self._hub)
        self._streams: dict[Owner, set[TaskStream]] = {}
        #: What else is to be done for as long as the server lives.
        self.background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()

    @property
    def can_push(self) -> bool:
        """Tell whether clients can be notified."""
        return self._check_url is not None

    @asynccontextmanager
    async def open(self) -> AsyncIterator["ServeTasks"]:
        """Take tasks for as long as the context lasts; the ones at work get a while to finish."""
        async with asyncio.TaskGroup() as group:
            self._execution.open(group)
            chores = [group.create_task(chore()) for chore in (self._look_after, *self.background)]
            try:
                yield self
            finally:
                await self.stop()
                for chore in chores:
                    chore.cancel()

    async def stop(self) -> None:
        """Take no more tasks, end the streams, and let the tasks at work finish for a while."""
        closing = self._execution.close(grace=self.limits.grace)
        for streams in list(self._streams.values()):
            for stream in list(streams):
                stream.stop()
        await closing

    # Sending

    async def send(self, principal: Principal, request: SendRequest) -> Task | Message:
        """Let a message start a task or move one on, and return what came of it."""
        owner = self._owner(principal, request.tenant)
        filed, _ = await self._file(principal, owner, request, pieces=False)
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
        owner = self._owner(principal, request.tenant)
        self._check_streams(owner)
        filed, stream = await self._file(principal, owner, request, pieces=True)
        stream = stream or self._follow(owner, filed.task, request.history_length)
        stream.may_reply = (
            self.runner.agent.replies_directly and filed.task.state is TaskState.SUBMITTED
        )
        stream.ends_at_once = filed.task.state not in ACTIVE
        if after is not None and not filed.is_new and after < filed.task.seq:
            stream.after(after)
        return stream

    async def subscribe(
        self, principal: Principal, request: TaskRequest, *, after: int | None = None
    ) -> TaskStream:
        """Return a stream of a task that is there; `after` an event, only of what came since."""
        owner = self._owner(principal, request.tenant)
        task = await self._own(owner, request.id)
        missed = after is not None and after < task.seq
        if task.is_over and not missed:
            raise UnsupportedOperation(
                f"task {task.id!r} is {task.state.value}: there is nothing to subscribe to; get it"
            )
        self._check_streams(owner)
        stream = self._follow(owner, task)
        if after is not None:
            stream.after(min(max(after, 0), task.seq))
        return stream

    async def _file(
        self, principal: Principal, owner: Owner, request: SendRequest, *, pieces: bool
    ) -> tuple[Filed, TaskStream | None]:
        message = request.message
        if not self._execution.is_open:
            raise LimitExceeded("the server is stopping; try again in a moment")
        check_message(message, self.limits, self.input_modes)
        as_data = wants_data(request.accepted_output_modes, self.output_modes)
        push = await self._checked_push(request.push)

        def prepare(teller: Teller) -> None:
            teller.wants_pieces = pieces
            teller.as_data = as_data
            teller.may_reply = self.runner.agent.replies_directly
            teller.wants_footprint = True

        if message.task_id:
            return await self._proceed(principal, owner, request, prepare)
        filed = await self._tasks.create(
            self._new_task(message, request),
            owner=owner,
            message=message,
            push=push,
            most_active=self.limits.tasks,
        )
        stream = None
        if filed.is_new:
            if pieces:  # before anything happens, so that nothing has to be read again
                stream = self._follow(owner, filed.task, request.history_length)
            self._execution.start(
                filed.task, self._within(principal, owner), message, prepare=prepare
            )
        return filed, stream

    def _new_task(self, message: Message, request: SendRequest) -> Task:
        services = self.runner.services
        return Task(
            id=services.ids.new(),
            context_id=message.context_id or services.ids.new(),
            status=TaskStatus(state=TaskState.SUBMITTED, at=services.clock.now()),
        )

    async def _proceed(
        self,
        principal: Principal,
        owner: Owner,
        request: SendRequest,
        prepare: Callable[[Teller], None],
    ) -> tuple[Filed, TaskStream | None]:
        """Take a message to a task that waits as the answer to what it asks."""
        message = request.message
        task = await self._own(owner, message.task_id)
        if message.context_id and message.context_id != task.context_id:
            raise InvalidInput(
                f"message.contextId: task {task.id!r} belongs to another context; leave it out"
            )
        inside = self._within(principal, owner)
        waiting: Sequence[InputRequest] = ()
        answers: tuple[InputAnswer, ...] = ()
        if task.state in INTERRUPTED:
            _, waiting = await self._execution.waiting(inside, task)
            read = read_answers(message.parts, waiting, by=inside.caller)
            answers = tuple(replace(one, message_id=message.message_id) for one in read)
        undecided = bool(waiting) and not answers
        update = self._ask_again(task, waiting) if undecided else self._working()
        try:
            filed = await self._tasks.proceed(
                task.id, owner=owner, message=message, updates=[update], only_from=INTERRUPTED
            )
        except MoveForbidden as error:
            raise UnsupportedOperation(_cannot_take(task.id, error.state)) from None
        if filed.is_new:
            self._hub.tell(task.id)
            if not undecided:
                work = self._execution.start(
                    filed.task, inside, message, answers=answers, prepare=prepare
                )
                work.teller.is_working = True
        return filed, None

    def _ask_again(self, task: Task, waiting: Sequence[InputRequest]) -> StatusUpdate:
        """Return the status of a task whose client has said neither yes nor no."""

        def say(parts: tuple[Part, ...]) -> Message:
            return Message(
                message_id=self.runner.services.ids.new(),
                role=Role.AGENT,
                parts=parts,
                context_id=task.context_id,
                task_id=task.id,
            )

        return asking(
            waiting,
            message=say,
            at=self.runner.services.clock.now(),
            hint=_UNDECIDED,
        )

    def _working(self) -> StatusUpdate:
        now = self.runner.services.clock.now()
        return StatusUpdate(status=TaskStatus(state=TaskState.WORKING, at=now))

    async def _settled(self, task: Task, *, first_word: bool = False) -> Task:
        """Return a task once it ends or waits, or once anything has happened to it."""
        if task.state not in ACTIVE:
            return task
        work = self._execution.work_on(task.id)
        if work is not None and not first_word:
            return await self._finished(work)
        stream = TaskStream(
            task, tasks=self._tasks, hub=self._hub, heartbeat=self.limits.heartbeat, leave=_nothing
        )
        stream.may_reply = True
        try:
            async with aclosing(stream.items()) as items:
                async for item in items:
                    if first_word and item.item is not None:
                        break
        finally:
            stream.close()
        return await self._tasks.read(task.id) or task

    async def _finished(self, work: Work) -> Task:
        await work.wait()
        if work.yielded:
            return await self._tasks.read(work.task.id) or work.task
        return work.task

    # Looking

    async def get(self, principal: Principal, request: GetRequest) -> Task:
        """Return a task as it is now."""
        owner = self._owner(principal, request.tenant)
        return self._shown(await self._own(owner, request.id), request.history_length)

    async def listed(self, principal: Principal, request: ListRequest) -> TaskPage:
        """Return a page of the caller's tasks."""
        owner = self._owner(principal, request.tenant)
        await self._execution.catch_up()
        page = await self._tasks.listed(owner, request.query)
        tasks = (self._shown(task, request.history_length) for task in page.tasks)
        if not request.include_artifacts:
            tasks = (changed(task, artifacts=()) for task in tasks)
        return changed(page, tasks=tuple(tasks))

    async def cancel(self, principal: Principal, request: TaskRequest) -> Task:
        """Cancel a task, which then stays canceled whatever its agents still do."""
        owner = self._owner(principal, request.tenant)
        task = await self._own(owner, request.id)
        now = self.runner.services.clock.now()
        update = StatusUpdate(status=TaskStatus(state=TaskState.CANCELED, at=now))
        try:
            events = await self._tasks.append(task.id, [update])
        except MoveForbidden as error:
            raise TaskNotCancelable(f"task {task.id!r} is {error.state} already") from None
        work = self._execution.work_on(task.id)
        if work is not None:
            work.give_way()
        elif task.state in INTERRUPTED:
            await self._execution.abandon(self._within(principal, owner), task)
        self._hub.tell(task.id, events)
        return self._shown(await self._own(owner, request.id), None)

    # Notifications

    async def create_push(self, principal: Principal, request: PushCreateRequest) -> PushConfig:
        """Tell an address what happens to a task from now on."""
        self._check_pushes()
        owner = self._owner(principal, request.tenant)
        task = await self._own(owner, request.config.task_id)
        config = await self._checked_push(request.config)
        assert config is not None  # noqa: S101 - it was given
        known = await self._tasks.pushes(task.id)
        if len(known) >= self.limits.pushes and config.id not in {held.id for held in known}:
            raise LimitExceeded(f"at most {self.limits.pushes} push configurations of one task")
        await self._tasks.save_push(config)
        return config

    async def get_push(self, principal: Principal, request: PushRequest) -> PushConfig:
        """Return a configuration; without an id, the oldest of the task."""
        for config in await self.pushes(principal, request):
            if config.id == request.id or not request.id:
                return config
        raise TaskNotFound(request.id)

    async def pushes(self, principal: Principal, request: PushRequest) -> tuple[PushConfig, ...]:
        """Return the configurations of a task."""
        self._check_pushes()
        owner = self._owner(principal, request.tenant)
        return await self._tasks.pushes((await self._own(owner, request.task_id)).id)

    async def delete_push(self, principal: Principal, request: PushRequest) -> None:
        """Send no more notifications to an address."""
        self._check_pushes()
        owner = self._owner(principal, request.tenant)
        task = await self._own(owner, request.task_id)
        await self._tasks.delete_push(task.id, request.id)

    def _check_pushes(self) -> None:
        if self._check_url is None:
            raise PushNotSupported("this agent sends no notifications")

    async def _checked_push(self, config: PushConfig | None) -> PushConfig | None:
        if config is None:
            return None
        self._check_pushes()
        assert self._check_url is not None  # noqa: S101 - just checked
        await self._check_url(config.url)
        if config.id:
            return config
        # In 0.3 a task has one configuration that nobody named; naming it anew replaces it.
        made = "default" if config.generation == "0.3" else self.runner.services.ids.new()
        return changed(config, id=made)

    # Who, and how much

    def check_authenticated(self, principal: Principal, what: str) -> None:
        """Refuse callers of whom nothing is known."""
        if principal.is_anonymous:
            raise Unauthenticated(f"{what} needs authentication")

    def _owner(self, principal: Principal, tenant: str) -> Owner:
        if principal.tenant and tenant and tenant != principal.tenant:
            raise PermissionDenied("these credentials are for another tenant")
        return Owner(principal.tenant or tenant, principal.caller)

    def _within(self, principal: Principal, owner: Owner) -> Principal:
        return principal if principal.owner == owner else changed(principal, tenant=owner.tenant)

    async def _own(self, owner: Owner, task_id: str) -> Task:
        await self._execution.catch_up(task_id)
        task = await self._tasks.read(task_id, owner=owner)
        if task is None or task.reply is not None:
            raise TaskNotFound(task_id)
        return task

    def _shown(self, task: Task, history_length: int | None) -> Task:
        most = self.limits.history if history_length is None else history_length
        most = min(most, self.limits.history)
        shown = task.history[-most:] if most else ()
        return changed(task, history=tuple(_placed(message, task) for message in shown))

    def _check_streams(self, owner: Owner) -> None:
        if len(self._streams.get(owner, ())) >= self.limits.streams:
            raise LimitExceeded(f"at most {self.limits.streams} open streams of one caller")

    def _follow(self, owner: Owner, task: Task, history_length: int | None = None) -> TaskStream:
        streams = self._streams.setdefault(owner, set())

        def leave() -> None:
            streams.discard(stream)
            if not streams and self._streams.get(owner) is streams:
                del self._streams[owner]

        stream = TaskStream(
            self._shown(task, history_length),
            tasks=self._tasks,
            hub=self._hub,
            heartbeat=self.limits.heartbeat,
            leave=leave,
        )
        streams.add(stream)
        return stream

    # Housekeeping

    async def _look_after(self) -> None:
        """Keep hold of what is at work, see what other processes do, and clean up."""
        loop = asyncio.get_running_loop()
        renewed = swept = -_SWEEP_EVERY
        while True:
            try:
                now = loop.time()
                if now - swept >= _SWEEP_EVERY:
                    swept = now
                    await self._execution.fail_orphans()
                    oldest = self.runner.services.clock.now() - self.limits.keep
                    await self._tasks.forget(before=oldest)
                if now - renewed >= _RENEW_EVERY:
                    renewed = now
                    await self._tasks.renew(self._execution.running)
                if self._tasks.is_shared:
                    await self._execution.notice_others()
            except AccError:
                log.exception("housekeeping failed and goes on")
            await asyncio.sleep(_LOOK_EVERY if self._tasks.is_shared else 1.0)


_UNDECIDED = (
    "That was neither a clear yes nor a clear no; answer with approve or deny.\n"
    "承認するかどうかが読み取れませんでした。「承認」または「却下」でお答えください。"
)


def _cannot_take(task_id: str, state: str) -> str:
    if state in ACTIVE:
        return f"task {task_id!r} is {state}; it takes messages once it asks for input"
    return f"task {task_id!r} is {state} and takes no more messages; send one without its id"


def _placed(message: Message, task: Task) -> Message:
    """Return a message of a task's history with the task and context it belongs to."""
    if message.task_id and message.context_id:
        return message
    return changed(message, task_id=task.id, context_id=task.context_id)


def _nothing() -> None:
    """Leave without a trace."""
