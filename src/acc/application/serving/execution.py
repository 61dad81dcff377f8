"""Running tasks: each is a run of the agents, owned by the server and not by who asked for it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial

from acc.application.context import RunResult
from acc.application.runner import SessionRunner
from acc.application.serving.hub import Hub
from acc.application.serving.telling import Teller
from acc.domain.errors import AccError, MoveForbidden, NothingPending, SessionWaiting, TaskNotFound
from acc.domain.value_objects.event import InputAnswer, InputRequest, text_part
from acc.domain.value_objects.identity import Principal
from acc.domain.value_objects.run import CallContext
from acc.domain.value_objects.session import StoredArtifact
from acc.domain.value_objects.task import (
    ACTIVE,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskEvent,
    TaskState,
    TaskStatus,
    Update,
    applied,
)
from acc.ports.outbound.task_ports import TaskStorePort

log = logging.getLogger("acc.serve")

#: What a task begins with is told within so many seconds also to those who look from elsewhere.
_WAITS_FOR = 0.02
_STOPPED = "the server was stopped before this task was done; send the message again (interrupted)"
_INTERRUPTED = "the server was interrupted in this task; send the message again (interrupted)"


def user_of(principal: Principal) -> str:
    """Return the user that a caller's sessions belong to."""
    return f"{principal.tenant}/{principal.caller}" if principal.tenant else principal.caller


class Work:
    """A task that is being worked on here."""

    __slots__ = (
        "_waiting",
        "handle",
        "is_done",
        "principal",
        "session_id",
        "task",
        "teller",
        "timer",
        "yielded",
    )

    def __init__(self, task: Task, principal: Principal) -> None:
        self.task = task
        self.principal = principal
        self.session_id = task.context_id
        self.teller: Teller
        self.is_done = False
        self.timer: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self.handle: asyncio.Task[None] | None = None
        #: Whether someone else has decided how the task ends.
        self.yielded = False

    async def wait(self) -> None:
        """Wait until nobody works on the task here any more."""
        if not self.is_done:
            # One for each who waits, so that none who gives up takes the others' with it.
            done = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done

    def has_ended(self) -> None:
        """Call those who wait."""
        self.is_done = True
        if self.timer is not None:
            self.timer.cancel()
        for done in self._waiting:
            if not done.done():
                done.set_result(None)

    def give_way(self) -> None:
        """Stop; the task has been moved on by someone else."""
        self.yielded = True
        if self.handle is not None:
            self.handle.cancel()

    def has_stored(self, events: Sequence[TaskEvent]) -> None:
        """Take note of what was stored."""
        for event in events:
            self.task = applied(self.task, event)


class Execution:
    """Works on tasks, in a group that the server owns; a client that leaves stops nothing."""

    def __init__(self, *, runner: SessionRunner, tasks: TaskStorePort, hub: Hub) -> None:
        self._runner = runner
        self._tasks = tasks
        self._hub = hub
        self._group: asyncio.TaskGroup | None = None
        self._works: dict[str, Work] = {}
        self._heads: Mapping[str, int] = {}

    @property
    def running(self) -> Collection[str]:
        """Return the tasks that are being worked on here."""
        return self._works.keys()

    def work_on(self, task_id: str) -> Work | None:
        """Return the work on a task, if it is being done here."""
        return self._works.get(task_id)

    def open(self, group: asyncio.TaskGroup) -> None:
        """Begin to take work, which the group owns."""
        self._group = group

    async def close(self, *, grace: float) -> None:
        """Take no more work, wait a while for what there is, then stop it as failed."""
        self._group = None
        pending = [work.handle for work in self._works.values() if work.handle is not None]
        if pending:
            await asyncio.wait(pending, timeout=grace)
        for work in list(self._works.values()):
            if work.handle is not None:
                work.handle.cancel()

    @property
    def is_open(self) -> bool:
        """Tell whether work is taken."""
        return self._group is not None

    def start(
        self,
        task: Task,
        principal: Principal,
        message: Message,
        *,
        answers: Sequence[InputAnswer] | None = None,
        prepare: Callable[[Teller], None],
    ) -> Work:
        """Begin to work on a task, or to go on with it given answers."""
        assert self._group is not None  # noqa: S101 - senders are refused once it is closed
        work = Work(task, principal)
        self._works[task.id] = work
        work.teller = teller = Teller(
            task_id=task.id,
            context_id=task.context_id,
            store=lambda updates: self._store(work, updates),
            load=lambda name, version: self._load(work, name, version),
            clock=self._runner.services.clock,
            ids=self._runner.services.ids,
        )
        teller.may_wait = partial(self._may_wait, work, self._group)
        prepare(teller)
        work.handle = self._group.create_task(self._work(work, message, answers))
        # Not at the end of the work itself, which may be stopped before it has begun.
        work.handle.add_done_callback(lambda _: self._gone(work))
        return work

    def _may_wait(self, work: Work, group: asyncio.TaskGroup) -> bool:
        """Tell whether nobody looks, so that what a task begins with may wait for a moment."""
        if work.task.id in self._hub.followed:
            return False

        def tell() -> None:
            group.create_task(self._tell_late(work))

        work.timer = asyncio.get_running_loop().call_later(_WAITS_FOR, tell)
        return True

    async def _tell_late(self, work: Work) -> None:
        try:
            await work.teller.catch_up()
        except AccError:
            log.exception("task could not be stored", extra={"task_id": work.task.id})

    async def catch_up(self, task_id: str | None = None) -> None:
        """Store what waits to be told of a task, or of all of them, because someone looks."""
        works = self._works.values() if task_id is None else (self._works.get(task_id),)
        for work in list(works):
            if work is not None:
                await work.teller.catch_up()

    def _gone(self, work: Work) -> None:
        del self._works[work.task.id]
        work.has_ended()

    async def fail_orphans(self) -> int:
        """End the tasks whose process is gone, so that nobody waits for them for ever."""
        orphans = [name for name in await self._tasks.orphans() if name not in self._works]
        clock = self._runner.services.clock
        for task_id in orphans:
            status = TaskStatus(
                state=TaskState.FAILED,
                at=clock.now(),
                message=self._note(task_id, _INTERRUPTED),
            )
            with suppress(MoveForbidden, TaskNotFound):
                update = StatusUpdate(status=status, metadata={"code": "interrupted"})
                self._hub.tell(task_id, await self._tasks.append(task_id, [update]))
        return len(orphans)

    async def notice_others(self) -> None:
        """Look what other processes did to the tasks that are worked on or followed here."""
        watched = {*self._works, *self._hub.followed}
        if not watched:
            return
        before, self._heads = self._heads, await self._tasks.heads(watched)
        for task_id, seq in self._heads.items():
            work = self._works.get(task_id)
            if work is not None and seq > work.task.seq:
                task = await self._tasks.read(task_id)
                if task is None or task.state not in ACTIVE:
                    work.give_way()
            # Waking everyone who follows anything, several times a second, would be dear.
            if before.get(task_id) != seq and (work is None or seq > work.task.seq):
                self._hub.tell(task_id)

    async def abandon(self, principal: Principal, task: Task) -> None:
        """Give up the run of a task that was waiting."""
        session_id, _ = await self.waiting(principal, task)
        with suppress(NothingPending):
            await self._runner.abandon(
                user_id=user_of(principal), session_id=session_id, reason="canceled"
            )

    async def _work(
        self, work: Work, message: Message, answers: Sequence[InputAnswer] | None
    ) -> None:
        try:
            updates = await self._updates(work, message, answers)
            if not work.yielded:
                await self._store(work, updates)
        except asyncio.CancelledError:
            if not work.yielded:
                await self._stopped(work)
        except AccError:
            log.exception("task could not be stored", extra={"task_id": work.task.id})

    async def _updates(
        self, work: Work, message: Message, answers: Sequence[InputAnswer] | None
    ) -> list[Update]:
        """Run the agents and return what the task ends with."""
        try:
            result = await self._run(work, message, answers)
        except Exception as error:
            if not isinstance(error, AccError):
                log.exception("internal error", extra={"task_id": work.task.id})
            else:
                log.warning("task failed: %s", error, extra={"task_id": work.task.id})
            return work.teller.failing(error)
        if work.task.reply is not None:
            return []
        return work.teller.ending(result)

    async def _run(
        self, work: Work, message: Message, answers: Sequence[InputAnswer] | None
    ) -> RunResult:
        principal, task = work.principal, work.task
        user = user_of(principal)
        call = CallContext(
            request_id=task.id,
            trace_id=trace_of(message, task.id),
            caller=f"a2a://{user}",
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
            return await self._begun(work, message, call)
        except SessionWaiting:
            # Another task of the context waits for its client, and this one need not.
            work.session_id = _beside(task)
            return await self._begun(work, message, call)

    async def _begun(self, work: Work, message: Message, call: CallContext) -> RunResult:
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
        for session_id in (_beside(task), task.context_id):
            requests = await self._runner.pending(user_id=user, session_id=session_id)
            if requests:
                return session_id, requests
        return task.context_id, ()

    async def _store(self, work: Work, updates: Sequence[Update]) -> None:
        """Store updates and tell them; if the table forbids them, someone else has decided."""
        if not updates or work.yielded:
            return
        try:
            events = await self._tasks.append(work.task.id, updates)
        except (MoveForbidden, TaskNotFound):
            work.give_way()
            return
        work.has_stored(events)
        self._hub.tell(work.task.id, events)

    async def _stopped(self, work: Work) -> None:
        status = TaskStatus(
            state=TaskState.FAILED,
            at=self._runner.services.clock.now(),
            message=self._note(work.task.id, _STOPPED),
        )
        stopped = StatusUpdate(status=status, metadata={"code": "interrupted"})
        await self._store(work, [*work.teller.take_owed(), stopped])

    async def _load(self, work: Work, name: str, version: int) -> StoredArtifact | None:
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


def _beside(task: Task) -> str:
    """Return the session of a task that does not share its context's."""
    return f"{task.context_id[:128]}~{task.id}"


def trace_of(message: Message, otherwise: str) -> str:
    """Return the trace that a message says it belongs to."""
    told = message.metadata.get("traceId", message.metadata.get("trace_id"))
    return told if isinstance(told, str) and 0 < len(told) <= 128 else otherwise
