"""Execute tasks as runs in a task group of the server, independent of client connections."""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from acc.application.a2a.projection import ProjectionOptions, TaskProjection, is_saved_file
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.a2a.task_dispatch import TaskDispatcher
from acc.application.contracts.claims import effective_permissions
from acc.application.runtime.result import RunResult
from acc.application.runtime.run import EventRecorder, Services
from acc.application.runtime.runner import SessionRunner
from acc.application.tracing import conventions as names
from acc.domain.errors import (
    AccError,
    InvalidTransition,
    NothingPending,
    SessionWaiting,
    TaskNotFound,
    Unavailable,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.principal import A2A_CALLER, Owner, Principal
from acc.domain.value_objects.run import CallContext, trace_of_parent
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
from acc.ports.outbound.limit_ports import RateLimiterPort
from acc.ports.outbound.storage_ports import (
    AppendEvents,
    AppendTaskUpdates,
    BeginTurn,
    CommitResult,
    TaskStorePort,
    TurnStart,
    UnitOfWork,
)

log = logging.getLogger("acc.serve")
_RETRY_AFTER_SECONDS = 5.0
_STOPPING = "the server is stopping; try again later"
_NOT_STARTED = "the server is not started; run its lifespan, even if it is mounted"
_RETRY_HINT = "send the message again with a new messageId (interrupted)"
STOPPED = f"the server was stopped before this task ended; {_RETRY_HINT}"
INTERRUPTED_TASK = f"the server was interrupted during this task; {_RETRY_HINT}"
#: Minimum time that cancelled tasks get to record their end.
CANCEL_GRACE_SECONDS = 0.5
#: Metadata of a message that identify its trace.
TRACE_PARENT = "traceparent"
TRACE_FIELDS = ("traceId", "trace_id", TRACE_PARENT)
_MAX_TRACE_ID_LENGTH = 128
_MAX_CONTEXT_PREFIX_LENGTH = 128
#: Events whose usage is also counted in other events.
_ALREADY_COUNTED = frozenset({EventKind.ENDED, EventKind.MODEL_REQUEST})
T = TypeVar("T")


class TaskRun:
    """A task that runs in this process."""

    __slots__ = (
        "_builder",
        "_handle",
        "_waiters",
        "account",
        "error",
        "principal",
        "superseded",
        "task_id",
    )

    def __init__(self, task: Task, principal: Principal) -> None:
        self._builder = TaskBuilder(task)
        self._handle: asyncio.Task[None]
        self._waiters: list[asyncio.Future[None]] = []
        self.task_id = task.id
        self.principal = principal
        self.account = principal.account
        #: Whether another process or request has ended the task.
        self.superseded = False
        #: The error that ended the run, if it failed in this process.
        self.error: Exception | None = None

    @property
    def task(self) -> Task:
        """Return the task with its current status; `current` has its artifacts too."""
        return self._builder.head

    @property
    def handle(self) -> "asyncio.Task[None]":
        """Return the asyncio task of the run."""
        return self._handle

    def current(self) -> Task:
        """Return the task with everything that was stored."""
        return self._builder.build()

    def start(self, group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        """Start the run in a group."""
        self._handle = group.create_task(work)

    def attach(self, handle: "asyncio.Task[None]") -> None:
        """Use an asyncio task that runs already."""
        self._handle = handle

    async def wait(self) -> None:
        """Wait for the task run; cancelling the wait does not cancel the run."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(ended)
        await ended

    def wake(self) -> None:
        """Complete all calls of `wait`."""
        for ended in self._waiters:
            if not ended.done():
                ended.set_result(None)

    def stop(self) -> None:
        """Cancel the run, because another request or process updated the task."""
        # Only once: a second cancellation would interrupt how agents clean up after the first.
        if not self.superseded:
            self._handle.cancel()
        self.superseded = True

    def add(self, events: Sequence[TaskEvent]) -> None:
        """Add stored events."""
        for event in events:
            self._builder.add(event)


class TaskRecorder(EventRecorder):
    """Stores the events of a run together with the updates of its task."""

    def __init__(
        self,
        run: TaskRun,
        projection: TaskProjection,
        *,
        services: Services,
        storage: UnitOfWork,
        broker: TaskBroker,
        limiter: RateLimiterPort | None,
    ) -> None:
        super().__init__(services.sessions)
        self._limiter = limiter
        self._run = run
        self._projection = projection
        self._artifacts = services.artifacts
        self._storage = storage
        self._broker = broker
        self.is_observed = True
        #: What was stored and not published yet.
        self._stored: CommitResult | None = None

    @property
    def wants_deltas(self) -> bool:
        """Return True if the client requested the answer in chunks."""
        return self._projection.options.deltas

    def detach_observer(self) -> None:
        """Stop updating the task; events are still stored."""
        self.is_observed = False

    async def store(self, updates: Sequence[Update]) -> None:
        """Store updates of the task alone."""
        if updates and not self._run.superseded:
            self._publish(await self._storage.commit(AppendTaskUpdates(self._run.task_id, updates)))

    async def _begin(self, turn: BeginTurn) -> TurnStart:
        result = await self._commit(turn, self._projection.opening())
        assert result.session is not None  # noqa: S101 - the result of a BeginTurn has a session
        if result.events:
            self._projection.start()
        return TurnStart(result.session, result.events)

    async def _append(self, events: Sequence[Event], *, release: bool) -> tuple[Event, ...]:
        updates: list[Update] = []
        if self.is_observed:
            for event in events:
                file = None
                if is_saved_file(event):
                    name, version = event.detail["name"], event.detail["version"]
                    file = await self._artifacts.load(self._key, name, version)
                updates += self._projection.apply(event, file)
        write = AppendEvents(self._key, events, self._holder, release)
        stored = (await self._commit(write, updates)).events
        if self._limiter is not None:
            for event in events:
                if event.usage is not None and event.kind not in _ALREADY_COUNTED:
                    await self._limiter.charge(
                        self._run.account.user_id,
                        tokens=event.usage.input_tokens + event.usage.output_tokens,
                        cost=event.usage.cost or 0.0,
                    )
        return stored

    async def _show(self, events: Sequence[Event]) -> None:
        stored, self._stored = self._stored, None
        if stored is not None:
            self._publish(stored)
        for event in events:
            if event.partial:
                await self.store(self._projection.apply(event))

    async def _commit(
        self, write: BeginTurn | AppendEvents, updates: Sequence[Update]
    ) -> CommitResult:
        if updates and not self._run.superseded:
            append = AppendTaskUpdates(self._run.task_id, updates)
            self._stored = result = await self._storage.commit(write, append)
        else:
            result = await self._storage.commit(write)
        return result

    def _publish(self, result: CommitResult) -> None:
        task_id = self._run.task_id
        if result.refusal is None:
            if result.updates:
                self._run.add(result.updates)
                self._broker.publish(task_id, result.updates)
            return
        if not isinstance(result.refusal, InvalidTransition | TaskNotFound):
            raise result.refusal
        self._run.stop()
        # Subscribers may not know yet who ended the task: it may have been this process.
        self._broker.publish(task_id)


class TaskExecutor:
    """Runs tasks in a task group of the server; a task continues when its client disconnects."""

    def __init__(
        self,
        *,
        runner: SessionRunner,
        tasks: TaskStorePort,
        storage: UnitOfWork,
        broker: TaskBroker,
        limiter: RateLimiterPort | None = None,
        dispatcher: TaskDispatcher | None = None,
    ) -> None:
        #: Passes the tasks to the engine, if there is one.
        self.dispatcher = dispatcher
        self._runner = runner
        self._limiter = limiter
        self._tasks = tasks
        self._storage = storage
        self._broker = broker
        self._group: asyncio.TaskGroup | None = None
        self._was_opened = False
        self._runs: dict[str, TaskRun] = {}
        #: Owners whose tasks have waited for input since this process started.
        self._interrupted_owners: set[Owner] = set()
        tracer = runner.services.tracer
        if tracer is not None:
            tracer.watch(names.METRIC_TASKS_RUNNING, self, lambda own: len(own.running))

    @property
    def running(self) -> Collection[str]:
        """Return the ids of the tasks that run in this process."""
        return self._runs.keys()

    def find(self, task_id: str) -> TaskRun | None:
        """Return the run of a task, None if it does not run in this process."""
        return self._runs.get(task_id)

    def count_of(self, account: Owner) -> int:
        """Return how many tasks of a caller run in this process, in all tenants."""
        return sum(run.account == account for run in self._runs.values())

    def may_have_interrupted(self, owner: Owner) -> bool:
        """Return True if a task of an owner has waited for input in this process."""
        return owner in self._interrupted_owners

    async def count_interrupted(self, owner: Owner) -> int:
        """Return how many tasks of an owner wait for input."""
        total = 0
        for state in INTERRUPTED:
            page = await self._tasks.list_tasks(owner, TaskQuery(state=state, page_size=1))
            total += page.total
        return total

    @property
    def is_open(self) -> bool:
        """Return True if tasks are accepted."""
        return self._group is not None

    def check_open(self) -> None:
        """Raise Unavailable unless tasks are accepted."""
        if not self.is_open:
            text = _STOPPING if self._was_opened else _NOT_STARTED
            raise Unavailable(text, retry_after=_RETRY_AFTER_SECONDS)

    def open(self, group: asyncio.TaskGroup) -> None:
        """Accept tasks, which run in the group."""
        self._group = group
        self._was_opened = True

    async def close(self, *, grace: float) -> None:
        """Stop accepting tasks, wait for the running ones, then cancel the rest as failed."""
        self._group = None
        pending = [run.handle for run in self._runs.values()]
        if pending:
            await asyncio.wait(pending, timeout=grace)
        cancelled = [run.handle for run in self._runs.values()]
        for handle in cancelled:
            handle.cancel()
        if cancelled:  # so that subscribers receive the last status
            await asyncio.wait(cancelled, timeout=max(grace, CANCEL_GRACE_SECONDS))

    def start(
        self,
        task: Task,
        principal: Principal,
        message: Message,
        *,
        options: ProjectionOptions,
        answers: Sequence[InputAnswer] | None = None,
    ) -> TaskRun | None:
        """Run a task, or resume it with answers; None if no more tasks are accepted."""
        if self._group is None:
            return None
        run = TaskRun(task, principal)
        self._runs[task.id] = run
        services = self._runner.services
        projection = TaskProjection(task, options, clock=services.clock, ids=services.ids)
        recorder = self.recorder(run, projection)
        run.start(self._group, self._execute(run, recorder, projection, message, answers))
        # Not at the end of the coroutine, which may be cancelled before it starts.
        run.handle.add_done_callback(lambda _: self._on_done(run))
        return run

    def recorder(self, run: TaskRun, projection: TaskProjection) -> TaskRecorder:
        """Return the recorder of a task run."""
        return TaskRecorder(
            run,
            projection,
            services=self._runner.services,
            storage=self._storage,
            broker=self._broker,
            limiter=self._limiter,
        )

    def start_detached(
        self, task_id: str, principal: Principal, message: Message, *, options: ProjectionOptions
    ) -> None:
        """Run a task whose client disconnected before the run was started."""

        async def start() -> None:
            try:
                task = await self._tasks.read(task_id)
            except AccError:
                log.exception("task could not be read", extra={"task_id": task_id})
                return
            if task is None or task.state is not TaskState.SUBMITTED:
                return
            if self.start(task, principal, message, options=options) is None:
                await self.interrupt(task_id, STOPPED)

        if self._group is not None and self.dispatcher is None:
            self._group.create_task(start())

    async def interrupt(self, task_id: str, text: str) -> None:
        """Fail a task that does not run in this process, unless it has ended."""
        with suppress(InvalidTransition, TaskNotFound):
            events = await self._tasks.append(task_id, [self._interruption(task_id, text)])
            self._broker.publish(task_id, events)

    async def run_shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine that runs to its end even if the caller is cancelled."""

        async def capture() -> tuple[T | None, Exception | None]:
            try:
                return await work, None
            except Exception as error:  # noqa: BLE001 - raised in the caller, not in the group
                return None, error

        if self._group is None:
            return await work
        task = self._group.create_task(capture())
        await asyncio.wait([task])
        value, error = task.result()
        if error is not None:
            raise error
        return value  # type: ignore[return-value] # it is set if there is no error

    async def sync_with_store(self, changed: Collection[str] | None = None) -> None:
        """Read the changes of other processes to tasks with a run or subscribers in this process.

        With `changed`, only these tasks are read.
        """
        watched = {*self._runs, *self._broker.subscribed}
        if changed is not None:
            watched.intersection_update(changed)
        if not watched:
            return
        for task_id, seq in (await self._tasks.latest_seqs(watched)).items():
            run = self._runs.get(task_id)
            if run is not None and seq > run.task.seq:
                task = await self._tasks.read(task_id)
                if task is None or task.state not in ACTIVE:
                    run.stop()
            self._broker.advance(task_id, seq)

    async def pending_requests(
        self, principal: Principal, task: Task
    ) -> tuple[str, tuple[InputRequest, ...]]:
        """Return the session in which a task waits for input, and its requests."""
        user = principal.owner.user_id
        for session_id in (own_session(task.context_id, task.id), task.context_id):
            requests = await self._runner.pending(user_id=user, session_id=session_id)
            if requests:
                return session_id, requests
        return task.context_id, ()

    async def abandon(self, principal: Principal, task: Task) -> None:
        """Abandon the run of a task that waits for input."""
        session_id, _ = await self.pending_requests(principal, task)
        try:
            await self._runner.abandon(
                user_id=principal.owner.user_id, session_id=session_id, reason="canceled"
            )
        except NothingPending:
            pass
        except AccError:  # the next task of this session abandons it
            log.exception("run could not be abandoned", extra={"task_id": task.id})

    async def _execute(
        self,
        run: TaskRun,
        recorder: TaskRecorder,
        projection: TaskProjection,
        message: Message,
        answers: Sequence[InputAnswer] | None,
    ) -> None:
        try:
            try:
                updates = projection.end(await self._run(run, recorder, message, answers))
            except Exception as error:
                extra = {"task_id": run.task_id}
                if isinstance(error, AccError):
                    log.warning("task failed: %s", error, exc_info=error.__cause__, extra=extra)
                else:
                    log.exception("internal error", extra=extra)
                updates = projection.fail(error)
                run.error = error
            await self._store_end(run, recorder, projection, updates)
        except asyncio.CancelledError:
            updates = [self._interruption(run.task_id, STOPPED)]
            await self._store_end(run, recorder, projection, updates)

    async def _store_end(
        self,
        run: TaskRun,
        recorder: TaskRecorder,
        projection: TaskProjection,
        updates: Sequence[Update],
    ) -> None:
        try:
            await recorder.store(updates)
        except Exception as error:
            # A task whose end cannot be stored is failed as an orphan later.
            log.exception("task could not be stored", extra={"task_id": run.task_id})
            with suppress(AccError):
                await recorder.store(projection.fail(error))

    async def _run(
        self,
        run: TaskRun,
        recorder: TaskRecorder,
        message: Message,
        answers: Sequence[InputAnswer] | None,
    ) -> RunResult:
        principal, task = run.principal, run.task
        user, session_id = principal.owner.user_id, task.context_id
        call = call_context(task, principal, message)
        if answers is not None:
            session_id, _ = await self.pending_requests(principal, task)
            return await self._runner.resume(
                user_id=user,
                session_id=session_id,
                answers=answers,
                context=call,
                recorder=recorder,
            )
        try:
            return await self._runner.run(
                user_id=user,
                session_id=session_id,
                message=message.parts,
                context=call,
                recorder=recorder,
            )
        except SessionWaiting:
            if await self.has_interrupted(principal.owner, task.context_id):
                # Another task of the context waits for its client, so this one gets a session.
                session_id = own_session(task.context_id, task.id)
            else:
                # The task that the session waits for has ended without an answer.
                await self.abandon(principal, task)
        return await self._runner.run(
            user_id=user,
            session_id=session_id,
            message=message.parts,
            context=call,
            recorder=recorder,
        )

    async def has_interrupted(self, owner: Owner, context_id: str) -> bool:
        """Return True if a task of a context waits for its client."""
        for state in INTERRUPTED:
            query = TaskQuery(context_id=context_id, state=state, page_size=1)
            if (await self._tasks.list_tasks(owner, query)).tasks:
                return True
        return False

    def _on_done(self, run: TaskRun) -> None:
        # An answer may have started the next run of the task already.
        if self._runs.get(run.task_id) is run:
            del self._runs[run.task_id]
        if run.task.state in INTERRUPTED:
            self._interrupted_owners.add(run.principal.owner)
        run.wake()

    def _interruption(self, task_id: str, text: str) -> StatusUpdate:
        services = self._runner.services
        message = Message(
            message_id=services.ids.new(),
            role=Role.AGENT,
            parts=text_part(text),
            task_id=task_id,
        )
        status = TaskStatus(state=TaskState.FAILED, at=services.clock.now(), message=message)
        return StatusUpdate(status=status, metadata={"code": "interrupted"})


def own_session(context_id: str, task_id: str) -> str:
    """Return the session id of a task that does not use the session of its context."""
    return f"{context_id[:_MAX_CONTEXT_PREFIX_LENGTH]}~{task_id}"


def call_context(task: Task, principal: Principal, message: Message) -> CallContext:
    """Return the context of a run: authenticated caller, and claims of the message."""
    call = CallContext(
        request_id=task.id,
        trace_id=trace_id_of(message, task.id),
        caller=f"{A2A_CALLER}{principal.owner.user_id}",
        permissions=principal.permissions,
        message_id=message.message_id,
        metadata=message.metadata,
        account=principal.account.user_id,
    )
    claims = call.claims
    if not claims:
        return call
    granted = None if call.permissions is None else frozenset(call.permissions)
    return replace(
        call,
        request_id=claims.get("request_id", call.request_id),
        trace_id=claims.get("trace_id", call.trace_id),
        permissions=effective_permissions(claims, granted),
    )


def trace_id_of(message: Message, default: str) -> str:
    """Return the trace id in the metadata of a message."""
    if not message.metadata:
        return default
    metadata = message.metadata
    trace_id = metadata.get("traceId", metadata.get("trace_id"))
    if isinstance(trace_id, str) and 0 < len(trace_id) <= _MAX_TRACE_ID_LENGTH:
        return trace_id
    parent = metadata.get(TRACE_PARENT)
    return (trace_of_parent(parent) if isinstance(parent, str) else "") or default
