"""Execute segments of tasks in a worker: from what is stored until the task waits or ends."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from acc.application.a2a.approvals import read_answers
from acc.application.a2a.executor import (
    TaskExecutor,
    TaskRecorder,
    TaskRun,
    call_context,
    own_session,
)
from acc.application.a2a.projection import ProjectionOptions, TaskProjection
from acc.application.runtime.dispatch import stored_result
from acc.application.runtime.inputs import validate_answers
from acc.application.runtime.interrupts import RunPaused
from acc.application.runtime.replay import OPTIONS, has_new_answers, pending_requests
from acc.application.runtime.result import RunResult
from acc.application.runtime.runner import SessionRunner
from acc.application.runtime.segments import (
    ENDED,
    RETRIED_ERRORS,
    RunSegments,
    Segment,
    waiting,
)
from acc.domain.errors import AccError, InvalidTransition, SessionBusy, SessionWaiting, TaskNotFound
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.domain.value_objects.task import (
    INTERRUPTED,
    Message,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.engine_ports import AttemptPort, EngineWork, SegmentOutcome, TaskWork
from acc.ports.outbound.storage_ports import TaskStorePort

log = logging.getLogger("acc.worker")
#: How long a segment waits for a task that the server is storing.
_SEGMENT_WAIT_SECONDS = 2.0
#: How long the run waits for it. The server repeats its transaction while the database is down.
TASK_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.05
_MAX_DELAY_SECONDS = 2.0
#: Errors after which the engine executes the segment again. Other errors fail the task.
_RETRIED = (*RETRIED_ERRORS, SessionBusy)


class TaskSegments:
    """Executes segments of tasks, and of runs without a task."""

    def __init__(
        self, runner: SessionRunner, *, tasks: TaskStorePort, executor: TaskExecutor
    ) -> None:
        self._runner = runner
        self._runs = RunSegments(runner)
        self._tasks = tasks
        self._executor = executor

    async def execute(self, work: EngineWork, attempt: AttemptPort) -> SegmentOutcome:
        """Execute a task from what is stored until it waits or ends."""
        if work.task is None:
            return await self._runs.execute(work, attempt)
        task = await self._tasks.read(work.run_id)
        if task is None:
            age = await attempt.age()
            task = await self._find_task(work.run_id, age)
            if task is None:
                return self._not_stored(age)
        if task.is_terminal:
            return ENDED
        return await _TaskSegment(
            self._runner,
            self._executor,
            self._runs.segment(work.run_id, attempt),
            tasks=self._tasks,
            task=task,
            options=work.task,
        ).execute()

    async def cancel(self, work: EngineWork) -> None:
        """Record that a task and its run are canceled, unless they have ended."""
        if work.task is None:
            await self._runs.cancel(work)
            return
        task = await self._tasks.read(work.run_id)
        if task is None:
            return
        for key in _session_keys(self._runner, task, work.user_id):
            session = await self._runner.services.sessions.read(key)
            if session is not None and session.run_id == task.id:
                await self._runner.cancel_engine_run(key, task.id)
        with suppress(InvalidTransition, TaskNotFound):
            await self._tasks.append(task.id, [_canceled(self._runner)])

    async def _find_task(self, task_id: str, age: float) -> Task | None:
        """Return a task, None if it is not stored soon after the engine got its work."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SEGMENT_WAIT_SECONDS - age
        while (task := await self._tasks.read(task_id)) is None:
            if loop.time() > deadline:
                return None
            await asyncio.sleep(_POLL_SECONDS)
        return task

    def _not_stored(self, age: float) -> SegmentOutcome:
        """Return when to look for a task again; the work ends after TASK_WAIT_SECONDS."""
        if age > TASK_WAIT_SECONDS:
            return ENDED
        delay = min(max(age, _SEGMENT_WAIT_SECONDS) / 2, _MAX_DELAY_SECONDS)
        now = self._runner.services.clock.now()
        return SegmentOutcome(has_ended=False, resume_at=now + delay)


class _Attempt:
    """An attempt that also ends if the task is ended by someone else."""

    def __init__(self, attempt: AttemptPort, run: TaskRun) -> None:
        self._attempt = attempt
        self._run = run

    @property
    def is_handed_over(self) -> bool:
        return not self._run.superseded and self._attempt.is_handed_over

    async def age(self) -> float:
        return await self._attempt.age()


class _TaskSegment:
    """One attempt to execute a task."""

    def __init__(
        self,
        runner: SessionRunner,
        executor: TaskExecutor,
        segment: Segment,
        *,
        tasks: TaskStorePort,
        task: Task,
        options: TaskWork,
    ) -> None:
        self._runner = runner
        self._executor = executor
        self._tasks = tasks
        self._task = task
        self._principal = Principal(
            caller=options.caller,
            tenant=options.tenant,
            permissions=options.permissions,
            is_anonymous=options.is_anonymous,
            any_tenant=options.any_tenant,
        )
        self._run = TaskRun(task, self._principal)
        self._segment = replace(segment, attempt=_Attempt(segment.attempt, self._run))
        services = runner.services
        self._projection = TaskProjection(
            task,
            ProjectionOptions(
                deltas=options.deltas,
                as_data=options.as_data,
                may_reply=options.may_reply,
                footprint=options.footprint,
            ),
            clock=services.clock,
            ids=services.ids,
        )
        self._recorder: TaskRecorder = executor.recorder(self._run, self._projection)
        self._outcome = ENDED
        self._error: Exception | None = None

    async def execute(self) -> SegmentOutcome:
        """Execute the segment and store the updates of the task."""
        async with asyncio.TaskGroup() as group:
            self._run.start(group, self._execute())
        if self._error is not None:
            raise self._error
        return self._outcome

    async def _execute(self) -> None:
        try:
            result = await self._continue()
            if result is not None:
                is_canceled = result.status is RunStatus.CANCELED
                await self._recorder.store(
                    [_canceled(self._runner)] if is_canceled else self._projection.end(result)
                )
                if result.requests:
                    self._outcome = waiting(result.requests)
        except RunPaused as pause:
            self._outcome = SegmentOutcome(has_ended=False, resume_at=pause.resume_at)
        except asyncio.CancelledError:
            if not self._run.superseded and not self._segment.attempt.is_handed_over:
                await self._recorder.store([_canceled(self._runner)])
            raise
        except _RETRIED as error:
            self._error = error
        except Exception as error:
            extra = {"task_id": self._task.id}
            if isinstance(error, AccError):
                log.warning("task failed: %s", error, exc_info=error.__cause__, extra=extra)
            else:
                log.exception("internal error", extra=extra)
            try:
                await self._recorder.store(self._projection.fail(error))
            except AccError as failure:
                self._error = failure

    async def _continue(self) -> RunResult | None:
        """Start or continue the run; None if there is nothing to do."""
        sessions = self._runner.services.sessions
        for key in _session_keys(self._runner, self._task, self._principal.owner.user_id):
            events = await sessions.events(key, run_id=self._task.id)
            if not events:
                continue
            session = await sessions.read(key)
            if session is None or session.run_id != self._task.id:
                return self._stored(session, events)  # it ended, and another run followed
            if session.status is RunStatus.INPUT_REQUIRED:
                return await self._answer(session, events)
            if session.status is not RunStatus.WORKING:
                return self._stored(session, events)
            return await self._resume(key, self._task.history[0], ())
        return await self._begin()

    async def _begin(self) -> RunResult:
        """Run the first message of the task."""
        task, user = self._task, self._principal.owner.user_id
        message, session_id = task.history[0], task.context_id
        call = call_context(task, self._principal, message)
        while True:
            await self._end_run_of_ended_task(self._runner.session_key(user, session_id))
            try:
                return await self._runner.run(
                    user_id=user,
                    session_id=session_id,
                    message=message.parts,
                    context=call,
                    recorder=self._recorder,
                    segment=self._segment,
                )
            except SessionWaiting:
                owner = self._principal.owner
                if not await self._executor.has_interrupted(owner, task.context_id):
                    # The task that the session waits for has ended without an answer.
                    await self._executor.abandon(self._principal, task)
                    continue
                # Another task of the context waits for its client, so this one gets a session.
                session_id = own_session(task.context_id, task.id)

    async def _end_run_of_ended_task(self, key: SessionKey) -> None:
        """Free a session whose run belongs to a task that was ended without it."""
        session = await self._runner.services.sessions.read(key)
        if session is not None and session.status is RunStatus.WORKING:
            task = await self._tasks.read(session.run_id)
            if task is not None and task.is_terminal:
                await self._runner.cancel_engine_run(key, session.run_id)

    async def _answer(self, session: Session, events: Sequence[Event]) -> RunResult | None:
        """Continue a run that waits for input with the answers of the last message, if any."""
        services, key = self._runner.services, session.key
        requests = pending_requests(events)
        outcome = waiting(requests)
        is_expired = outcome.resume_at is not None and outcome.resume_at <= services.clock.now()
        message = self._last_message(events)
        if is_expired or has_new_answers(events):
            return await self._resume(key, message or self._task.history[0], ())
        if message is not None and self._task.state not in INTERRUPTED:
            return await self._resume(key, message, self._answers(message, requests))
        self._outcome = outcome
        if self._task.state in INTERRUPTED:
            return None
        return self._stored(session, events)  # the task does not show yet that it waits

    def _answers(
        self, message: Message, requests: Sequence[InputRequest]
    ) -> tuple[InputAnswer, ...]:
        answers = read_answers(message.parts, requests, by=self._principal.caller)
        agent, schemas = self._runner.agent, self._runner.services.schemas
        valid = validate_answers(agent, requests, answers, schemas)
        return tuple(replace(answer, message_id=message.message_id) for answer in valid)

    async def _resume(
        self, key: SessionKey, message: Message, answers: Sequence[InputAnswer]
    ) -> RunResult:
        return await self._runner.resume(
            user_id=key.user_id,
            session_id=key.session_id,
            answers=answers,
            context=call_context(self._task, self._principal, message),
            recorder=self._recorder,
            segment=self._segment,
        )

    def _stored(self, session: Session | None, events: Sequence[Event]) -> RunResult:
        return stored_result(self._runner.agent, session, events, shown=())

    def _last_message(self, events: Sequence[Event]) -> Message | None:
        """Return the last message of the client, None if the run has read it."""
        read = {event.answer.message_id for event in events if event.answer is not None}
        options = events[0].detail.get(OPTIONS, {})
        read.add(options.get("call", {}).get("message_id", ""))
        own = [message for message in self._task.history if message.role is Role.USER]
        return own[-1] if own and own[-1].message_id not in read else None


def _session_keys(runner: SessionRunner, task: Task, user_id: str) -> list[SessionKey]:
    """Return the sessions in which the run of a task may be."""
    names = (task.context_id, own_session(task.context_id, task.id))
    return [runner.session_key(user_id, name) for name in names]


def _canceled(runner: SessionRunner) -> StatusUpdate:
    now = runner.services.clock.now()
    return StatusUpdate(status=TaskStatus(state=TaskState.CANCELED, at=now))
