"""Running tasks: each is a run of the agents, owned by the server and not by who asked for it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from acc.application.a2a.projection import ANSWER, TaskProjection
from acc.application.a2a.requests import ServerLimits, user_of
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.runtime.context import RunResult
from acc.application.runtime.run import Foreseen
from acc.application.runtime.runner import SessionRunner
from acc.domain.errors import (
    AccError,
    InvalidInput,
    InvalidTransition,
    NothingPending,
    SessionWaiting,
    TaskNotFound,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.principal import Owner, Principal
from acc.domain.value_objects.run import CallContext
from acc.domain.value_objects.session import SessionKey, StoredArtifact
from acc.domain.value_objects.task import (
    ACTIVE,
    INTERRUPTED,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskBuilder,
    TaskEvent,
    TaskQuery,
    TaskState,
    TaskStatus,
    Update,
)
from acc.ports.outbound.storage_ports import ExpiredTask, TaskStorePort, UpdatesAlongPort

log = logging.getLogger("acc.serve")
_AGAIN = "send the message again, under a new messageId (interrupted)"
_STOPPED = f"the server was stopped before this task was done; {_AGAIN}"
_INTERRUPTED = f"the server was interrupted in this task; {_AGAIN}"
#: What the caller of a run begins with that was asked for here.
_SERVED = "a2a://"
_LOOK_EVERY = 0.2
#: So long at least may work that is stopped take to put that on record.
_LAST_WORD = 0.5
_RENEW_EVERY = 10.0
_SWEEP_EVERY = 15.0
#: So many tasks are forgotten before others get their turn.
_AT_ONCE = 200
T = TypeVar("T")


class TaskRun:
    """A task that is being worked on here."""

    __slots__ = (
        "_task",
        "handle",
        "principal",
        "session_id",
        "task_id",
        "teller",
        "waiting",
        "yielded",
    )

    def __init__(self, task: Task, principal: Principal) -> None:
        self._task = TaskBuilder(task)
        self.task_id = task.id
        self.principal = principal
        self.session_id = task.context_id
        self.teller: TaskProjection
        self.handle: asyncio.Task[None]
        #: Who waits until the work is over.
        self.waiting: list[asyncio.Future[None]] = []
        #: Whether someone else has decided how the task ends.
        self.yielded = False

    @property
    def task(self) -> Task:
        """Return where the task stands; `whole` has what it has made too."""
        return self._task.head

    def whole(self) -> Task:
        """Return the task with all that was stored."""
        return self._task.whole()

    async def ended(self) -> None:
        """Wait until the work is over; whoever is cancelled in that lets it be."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(over)
        await over

    def give_way(self) -> None:
        """Stop; the task has been moved on by someone else."""
        # Only once: a second cancellation would cut off how agents clean up after the first.
        if not self.yielded:
            self.handle.cancel()
        self.yielded = True

    def has_stored(self, events: Sequence[TaskEvent]) -> None:
        """Take note of what was stored."""
        for event in events:
            self._task.add(event)


class TaskExecutor:
    """Works on tasks, in a group that the server owns; a client that leaves stops nothing."""

    def __init__(self, *, runner: SessionRunner, tasks: TaskStorePort, hub: TaskBroker) -> None:
        self._runner = runner
        self._tasks = tasks
        self._hub = hub
        self._group: asyncio.TaskGroup | None = None
        self._has_begun = False
        self._works: dict[str, TaskRun] = {}
        #: Whose tasks have come to wait for an answer while this process lived.
        self._asking: set[Owner] = set()

    @property
    def running(self) -> Collection[str]:
        """Return the tasks that are being worked on here."""
        return self._works.keys()

    def work_on(self, task_id: str) -> TaskRun | None:
        """Return the work on a task, if it is being done here."""
        return self._works.get(task_id)

    def count_of(self, account: Owner) -> int:
        """Return how many tasks of a caller are being worked on here, whatever their tenants."""
        return sum(work.principal.account == account for work in self._works.values())

    def has_asked(self, owner: Owner) -> bool:
        """Tell whether a task of an owner has come to wait for an answer here."""
        return owner in self._asking

    async def waiting_of(self, owner: Owner) -> int:
        """Return how many tasks of an owner wait for an answer."""
        found = 0
        for state in INTERRUPTED:
            found += (await self._tasks.listed(owner, TaskQuery(state=state, page_size=1))).total
        return found

    def open(self, group: asyncio.TaskGroup) -> None:
        """Begin to take work, which the group owns."""
        self._group = group
        self._has_begun = True

    async def close(self, *, grace: float) -> None:
        """Take no more work, wait a while for what there is, then stop it as failed."""
        self._group = None
        pending = [work.handle for work in self._works.values()]
        if pending:
            await asyncio.wait(pending, timeout=grace)
        stopped = [work.handle for work in self._works.values()]
        for handle in stopped:
            handle.cancel()
        if stopped:  # so that those who follow them still hear how they ended
            await asyncio.wait(stopped, timeout=max(grace, _LAST_WORD))

    @property
    def is_open(self) -> bool:
        """Tell whether work is taken."""
        return self._group is not None

    @property
    def has_begun(self) -> bool:
        """Tell whether work has ever been taken."""
        return self._has_begun

    def start(
        self,
        task: Task,
        principal: Principal,
        message: Message,
        *,
        answers: Sequence[InputAnswer] | None = None,
        prepare: Callable[[TaskProjection], None],
    ) -> TaskRun | None:
        """Begin to work on a task, or to go on with it given answers; None if it is too late."""
        if self._group is None:
            return None
        work = TaskRun(task, principal)
        self._works[task.id] = work
        work.teller = teller = TaskProjection(
            task_id=task.id,
            context_id=task.context_id,
            desk=_Desk(self, self._tasks, work),
            clock=self._runner.services.clock,
            ids=self._runner.services.ids,
        )
        prepare(teller)
        teller.is_working = task.state is TaskState.WORKING
        teller.has_answered = any(made.artifact_id == ANSWER for made in task.artifacts)
        work.handle = self._group.create_task(self._work(work, message, answers))
        # Not at the end of the work itself, which may be stopped before it has begun.
        work.handle.add_done_callback(lambda _: self._gone(work))
        return work

    def adopt(self, task_id: str, start: Callable[[Task], TaskRun | None]) -> None:
        """Begin to work on a task that was filed for someone who did not wait for it."""
        if self._group is not None:
            self._group.create_task(self._adopt(task_id, start))

    async def _adopt(self, task_id: str, start: Callable[[Task], TaskRun | None]) -> None:
        try:
            task = await self._tasks.read(task_id)
        except AccError:
            log.exception("task could not be read", extra={"task_id": task_id})
            return
        if task is not None and task.state is TaskState.SUBMITTED and start(task) is None:
            await self.refuse(task)

    async def refuse(self, task: Task) -> None:
        """End a task that came too late to be worked on."""
        with suppress(InvalidTransition, TaskNotFound):
            update = self._interruption(task.id, _STOPPED)
            self._hub.publish(task.id, await self._tasks.append(task.id, [update]))

    async def see_through(self, doing: Coroutine[Any, Any, T]) -> T:
        """Return what something comes to, which is done to its end even if the caller leaves."""

        async def done() -> tuple[T | None, Exception | None]:
            try:
                return await doing, None
            except Exception as error:  # noqa: BLE001 - the caller gets it; the group must not
                return None, error

        if self._group is None:
            return await doing
        task = self._group.create_task(done())
        await asyncio.wait([task])
        value, error = task.result()
        if error is not None:
            raise error
        return value  # type: ignore[return-value] # without an error it is there

    def _gone(self, work: TaskRun) -> None:
        # An answer may have begun the next piece of work on the task already.
        if self._works.get(work.task_id) is work:
            del self._works[work.task_id]
        if work.whole().state in INTERRUPTED:
            self._asking.add(work.principal.owner)
        del work.teller  # it knows the work, which would else stay until cycles are looked for
        for over in work.waiting:
            if not over.done():  # who was cancelled has left
                over.set_result(None)

    async def fail_orphans(self) -> int:
        """End the tasks whose process is gone, so that nobody waits for them for ever."""
        orphans = [name for name in await self._tasks.orphans() if name not in self._works]
        for task_id in orphans:
            with suppress(InvalidTransition, TaskNotFound):
                update = self._interruption(task_id, _INTERRUPTED)
                self._hub.publish(task_id, await self._tasks.append(task_id, [update]))
        return len(orphans)

    async def notice_others(self) -> None:
        """Look what other processes did to the tasks that are worked on or followed here."""
        watched = {*self._works, *self._hub.subscribed}
        if not watched:
            return
        for task_id, seq in (await self._tasks.heads(watched)).items():
            work = self._works.get(task_id)
            if work is not None and seq > work.task.seq:
                task = await self._tasks.read(task_id)
                if task is None or task.state not in ACTIVE:
                    work.give_way()
            self._hub.advance(task_id, seq)

    async def abandon(self, principal: Principal, task: Task) -> None:
        """Give up the run of a task that was waiting."""
        session_id, _ = await self.waiting(principal, task)
        try:
            await self._runner.abandon(
                user_id=user_of(principal), session_id=session_id, reason="canceled"
            )
        except NothingPending:
            pass
        except AccError:  # whoever comes next to this session finds that nobody waits for it
            log.exception("run could not be given up", extra={"task_id": task.id})

    async def _work(
        self, work: TaskRun, message: Message, answers: Sequence[InputAnswer] | None
    ) -> None:
        try:
            updates = await self._updates(work, message, answers)
            await self._end(work, updates)
        except asyncio.CancelledError:
            await self._end(work, [self._interruption(work.task_id, _STOPPED)])

    async def _end(self, work: TaskRun, updates: Sequence[Update]) -> None:
        """Store what a task ends with; one that cannot be stored is found as an orphan later."""
        try:
            await self.store(work, updates)
        except Exception as error:
            log.exception("task could not be stored", extra={"task_id": work.task_id})
            with suppress(AccError):
                await self.store(work, work.teller.failing(error))

    async def _updates(
        self, work: TaskRun, message: Message, answers: Sequence[InputAnswer] | None
    ) -> list[Update]:
        """Run the agents and return what the task ends with."""
        try:
            result = await self._run(work, message, answers)
            return [] if work.whole().reply is not None else work.teller.ending(result)
        except Exception as error:
            if not isinstance(error, AccError):
                log.exception("internal error", extra={"task_id": work.task_id})
            else:
                log.warning("task failed: %s", error, extra={"task_id": work.task_id})
            return work.teller.failing(error)

    async def _run(
        self, work: TaskRun, message: Message, answers: Sequence[InputAnswer] | None
    ) -> RunResult:
        principal, task = work.principal, work.task
        user = user_of(principal)
        call = CallContext(
            request_id=task.id,
            trace_id=trace_of(message, task.id),
            caller=f"{_SERVED}{user}",
            permissions=principal.permissions,
            message_id=message.message_id,
            metadata=message.metadata,
        )
        if answers is not None:
            work.session_id, _ = await self.waiting(principal, task)
            return await self._runner.resume(
                user_id=user,
                session_id=work.session_id,
                answers=answers,
                context=call,
                listen=work.teller,
            )
        try:
            return await self._begin(work, message, call)
        except SessionWaiting:
            if await self._is_awaited(work):
                # Another task of the context waits for its client, and this one need not.
                work.session_id = _beside(task.context_id, task.id)
            else:
                # The task that it waited for is over, and took nobody along who could answer.
                await self.abandon(principal, task)
        return await self._begin(work, message, call)

    async def _begin(self, work: TaskRun, message: Message, call: CallContext) -> RunResult:
        return await self._runner.run(
            user_id=user_of(work.principal),
            session_id=work.session_id,
            message=message.parts,
            context=call,
            listen=work.teller,
        )

    async def waiting(
        self, principal: Principal, task: Task
    ) -> tuple[str, tuple[InputRequest, ...]]:
        """Return the session that a task waits in, and what it asks there."""
        user = user_of(principal)
        for session_id in (_beside(task.context_id, task.id), task.context_id):
            requests = await self._runner.pending(user_id=user, session_id=session_id)
            if requests:
                return session_id, requests
        return task.context_id, ()

    async def _is_awaited(self, work: TaskRun) -> bool:
        """Tell whether a task of the same context waits for its client."""
        owner, context_id = work.principal.owner, work.task.context_id
        for state in INTERRUPTED:
            query = TaskQuery(context_id=context_id, state=state, page_size=1)
            if (await self._tasks.listed(owner, query)).tasks:
                return True
        return False

    async def store(self, work: TaskRun, updates: Sequence[Update]) -> None:
        """Store updates and tell them; if the table forbids them, someone else has decided."""
        if not updates or work.yielded:
            return
        try:
            events = await self._tasks.append(work.task_id, updates)
        except (InvalidTransition, TaskNotFound):
            self._give_way(work)
            return
        work.has_stored(events)
        self._hub.publish(work.task_id, events)

    def take_note(self, work: TaskRun, along: UpdatesAlongPort) -> None:
        """Tell updates that were to be stored with what is put on record of the run."""
        try:
            events = along.result()
        except (InvalidTransition, TaskNotFound):
            self._give_way(work)
            return
        work.has_stored(events)
        self._hub.publish(work.task_id, events)

    def _give_way(self, work: TaskRun) -> None:
        work.give_way()
        # It may have been ourselves, where we were stopped before we knew that it was stored.
        self._hub.publish(work.task_id)

    def _interruption(self, task_id: str, text: str) -> StatusUpdate:
        status = TaskStatus(
            state=TaskState.FAILED,
            at=self._runner.services.clock.now(),
            message=self._note(task_id, text),
        )
        return StatusUpdate(status=status, metadata={"code": "interrupted"})

    async def load(self, work: TaskRun, name: str, version: int) -> StoredArtifact | None:
        """Return a file that the run keeps."""
        return await self._runner.load_artifact(
            name,
            user_id=user_of(work.principal),
            session_id=work.session_id,
            version=version,
        )

    def _note(self, task_id: str, text: str) -> Message:
        return Message(
            message_id=self._runner.services.ids.new(),
            role=Role.AGENT,
            parts=text_part(text),
            task_id=task_id,
        )


class _Desk:
    """Where the updates of one piece of work go."""

    __slots__ = ("_execution", "_tasks", "_work")

    def __init__(self, execution: TaskExecutor, tasks: TaskStorePort, work: TaskRun) -> None:
        self._execution = execution
        self._tasks = tasks
        self._work = work

    async def store(self, updates: Sequence[Update]) -> None:
        await self._execution.store(self._work, updates)

    def along(self, updates: Sequence[Update]) -> Foreseen:
        along = self._tasks.along(self._work.task_id, updates)
        return Foreseen(along, lambda: self._execution.take_note(self._work, along))

    async def load(self, name: str, version: int) -> StoredArtifact | None:
        return await self._execution.load(self._work, name, version)


def _beside(context_id: str, task_id: str) -> str:
    """Return the session of a task that does not share its context's."""
    return f"{context_id[:128]}~{task_id}"


def trace_of(message: Message, otherwise: str) -> str:
    """Return the trace that a message says it belongs to."""
    if not message.metadata:
        return otherwise
    told = message.metadata.get("traceId", message.metadata.get("trace_id"))
    return told if isinstance(told, str) and 0 < len(told) <= 128 else otherwise


async def keep_house(execution: TaskExecutor, *, tasks: TaskStorePort) -> None:
    """Look after the tasks that are at work, for as long as the server lives."""
    loop = asyncio.get_running_loop()
    renewed = swept = loop.time() - _SWEEP_EVERY
    while True:
        try:
            now = loop.time()
            if now - swept >= _SWEEP_EVERY:
                swept = now
                await execution.fail_orphans()
            if now - renewed >= _RENEW_EVERY:
                renewed = now
                await tasks.renew(execution.running)
            if tasks.is_shared:
                await execution.notice_others()
        except AccError as error:
            log.error("housekeeping failed and goes on: %s", error)  # noqa: TRY400 - no bug of ours
        await asyncio.sleep(_LOOK_EVERY if tasks.is_shared else 1.0)


async def forget_for_ever(
    runner: SessionRunner, *, tasks: TaskStorePort, limits: ServerLimits
) -> None:
    """Forget what has been over for long enough, for as long as the server lives."""
    while True:
        try:
            await forget(runner, tasks=tasks, before=runner.services.clock.now() - limits.keep)
        except AccError as error:
            log.error("forgetting failed and goes on: %s", error)  # noqa: TRY400 - no bug of ours
        await asyncio.sleep(_SWEEP_EVERY)


async def forget(runner: SessionRunner, *, tasks: TaskStorePort, before: float) -> None:
    """Drop tasks that ended before a time, and the conversations of which no task is left.

    A task whose conversation is in use stays until that is not. Nothing is left over if the process
    dies: the sessions go first, and whoever finds the tasks again finds them gone.
    """
    stayed = 0
    while batch := await tasks.ended(before=before, limit=_AT_ONCE, skip=stayed):
        used = await _delete_sessions(runner, batch, before)
        over = [one.task_id for one in batch if used.isdisjoint(_sessions_of(runner, one))]
        stayed += len(batch) - len(over)
        await tasks.forget(over)
        await asyncio.sleep(0)  # a store in memory does not wait, and others want to


async def _delete_sessions(
    runner: SessionRunner, batch: Sequence[ExpiredTask], before: float
) -> frozenset[SessionKey]:
    """Delete the sessions of tasks with all that is theirs; return those that are in use."""
    mine: set[SessionKey] = set()
    for one in batch:
        for key in _sessions_of(runner, one):
            # The ids of tasks are made here, so that a session beside is nobody else's.
            if key.session_id != one.context_id or await _is_served(runner, key):
                mine.add(key)
    used = await runner.services.sessions.delete_unused(mine, since=before)
    for agent in runner.agent.walk():
        for key in mine:
            if key not in used:
                runner.services.shelf.forget(key, agent.name)
    return used


def _sessions_of(runner: SessionRunner, one: ExpiredTask) -> list[SessionKey]:
    """Return the sessions that are nobody's once a task is forgotten."""
    names = [_beside(one.context_id, one.task_id), *([one.context_id] if one.is_last else ())]
    user = user_of(one.owner)
    try:
        return [
            SessionKey(app_name=runner.app_name, user_id=user, session_id=name) for name in names
        ]
    except InvalidInput:  # the task failed by that, and has no session
        return []


async def _is_served(runner: SessionRunner, key: SessionKey) -> bool:
    """Tell whether a session began here: a client may name one that began elsewhere."""
    first = await runner.services.sessions.events(key, limit=1)
    return not first or first[0].caller.startswith(_SERVED)
