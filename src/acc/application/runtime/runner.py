"""Run agents in sessions: run, resume, stream, abandon."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from acc.application.agents.base import BaseAgent, check_is_agent
from acc.application.agents.llm import can_keep_conversation
from acc.application.agents.remote import cancel_waiting
from acc.application.runtime.agent_memory import commit_memories
from acc.application.runtime.background_loop import run_in_background
from acc.application.runtime.call_guards import (
    explains_missing_await,
    explains_options,
    explains_wrong_iteration,
)
from acc.application.runtime.context import RunContext, RunResult
from acc.application.runtime.event_queue import EventQueue, cancel_and_wait
from acc.application.runtime.inputs import (
    Message,
    as_answers,
    match_answers,
    message_parts,
    validate_answers,
)
from acc.application.runtime.interrupts import REJECTIONS, RunPaused, rejection_reason
from acc.application.runtime.leases import SessionLease, SessionLeases
from acc.application.runtime.recorder import EventRecorder, RunObserver
from acc.application.runtime.replay import (
    check_answers_used,
    check_started_by,
    check_waiting,
    interrupted_detail,
    last_pause,
    pause_detail,
    pending_requests,
    reset_to_recorded,
    resumed_call,
    resumed_config,
    state_before,
    state_before_interruption,
)
from acc.application.runtime.run import (
    Branch,
    Journal,
    Run,
    RunRequest,
    Services,
    check_run_options,
)
from acc.application.runtime.session_reader import SessionReader
from acc.application.runtime.sessions import Sessions
from acc.application.runtime.state import State
from acc.domain.errors import (
    AccError,
    AgentFailed,
    InvalidInput,
    NothingPending,
    RunTimedOut,
    SessionBusy,
    SessionWaiting,
)
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, Usage, text_part
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventActions, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig, RunStatus
from acc.domain.value_objects.session import (
    DEFAULT_SESSION_ID,
    DEFAULT_USER_ID,
    Session,
)
from acc.ports.outbound.storage_ports import BeginTurn, TurnStart

log = logging.getLogger("acc.run")
#: State key of the agent that keeps the conversation after a transfer.
ACTIVE_AGENT = "_active_agent"
_USER_EVENTS = frozenset({EventKind.MESSAGE, EventKind.INPUT})


class SessionRunner(SessionReader):
    """Runs one agent tree in the sessions of one application."""

    def __init__(
        self,
        agent: BaseAgent,
        *,
        app_name: str,
        services: Services,
        config: RunConfig | None = None,
        busy_timeout: float = 300.0,
    ) -> None:
        check_is_agent(agent)
        if agent.parent is not None:
            raise InvalidInput(
                f"{agent.name!r} is a sub-agent of {agent.parent.name!r}; run the root of its tree"
            )
        check_run_options(agent, config, None)
        super().__init__(app_name=app_name, services=services)
        self.agent = agent
        self.config = config or RunConfig()
        self.leases = SessionLeases(services.sessions, busy_timeout=busy_timeout)
        self.sessions = Sessions(self)

    @explains_missing_await
    async def run(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        observer: RunObserver | None = None,
        recorder: EventRecorder | None = None,
    ) -> RunResult:
        """Run one turn and return its result; a failure is raised after it is recorded.

        A turn without ids continues the default session of the default user.
        A run that waits for input returns with the status input_required and its requests. The
        `observer` receives the events. A `recorder` stores them in place of the default one.
        """
        if config is not None or context is not None:
            check_run_options(self.agent, config, context)
        run_id = self.services.ids.new()
        request = RunRequest(
            run_id=run_id,
            key=self.session_key(user_id, session_id),
            root=self.agent,
            config=config or self.config,
            call=context or _user_call_context(run_id, user_id),
            message=message_parts(message),
        )
        recorder = recorder or EventRecorder(self.services.sessions, observer)
        async with self.leases.acquire(request.key, run_id, recorder) as lease:
            start = await self._begin_turn(request, recorder, lease)
            request = replace(
                request, turn_id=start.session.turns + 1, first_seq=start.events[-1].seq
            )
            run = Run(request, services=self.services, recorder=recorder)
            return await self._execute(run, State(start.session.state), start.events)

    @explains_options
    def run_sync(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
    ) -> RunResult:
        """Run one turn as `run` does, without `await`: in scripts, and in cells of notebooks."""
        turn = self.run(
            message, user_id=user_id, session_id=session_id, config=config, context=context
        )
        return run_in_background(turn, instead="await runner.run(...)")

    @explains_missing_await
    async def resume(
        self,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        observer: RunObserver | None = None,
        recorder: EventRecorder | None = None,
    ) -> RunResult:
        """Continue a run that waits for input or whose process died, in any process.

        Resume is replay: recorded model responses and tool results are reused, not repeated. A tool
        call that was started and has no recorded result is repeated only if the tool is idempotent;
        otherwise the model is told that its outcome is unknown.
        """
        if config is not None or context is not None:
            check_run_options(self.agent, config, context)
        key, new_answers = self.session_key(user_id, session_id), as_answers(answers)
        holder = self.services.ids.new()
        recorder = recorder or EventRecorder(self.services.sessions, observer)
        async with self.leases.acquire(key, holder, recorder) as lease:
            session = await self._open(recorder, lease)
            if session.status is not RunStatus.WORKING:
                check_waiting(session)
            events = await self.services.sessions.events(key, run_id=session.run_id)
            pause, first = last_pause(events), events[0]
            if pause is None:  # the process died during the run
                state = await state_before_interruption(self.services.sessions, session, events)
                detail = interrupted_detail(first, self.config)
            else:
                state, detail = state_before(session.state, events, pause), dict(pause.detail)
            request = RunRequest(
                run_id=session.run_id,
                key=key,
                root=self.agent,
                config=config or resumed_config(detail, self.config),
                call=resumed_call(detail, context),
                message=first.parts,
                turn_id=first.detail["turn"],
                first_seq=first.seq,
            )
            check_started_by(events, session_id, self._first_agent(state).name)
            pending = pending_requests(events)
            given = match_answers(pending, new_answers, now=self.services.clock.now())
            valid = validate_answers(self.agent, pending, given.values(), self.services.schemas)
            given = {answer.request_id: answer for answer in valid}
            journal = Journal(request.run_id, events, answers=given)
            run = Run(request, services=self.services, recorder=recorder, journal=journal)
            if given:
                try:
                    await recorder.record(
                        *(
                            self._event(request, EventKind.INPUT, answer=answer)
                            for answer in given.values()
                        )
                    )
                except asyncio.CancelledError:
                    await self._end(run, RunStatus.CANCELED, "canceled")
                    raise
            return await self._execute(run, state)

    @explains_options
    def resume_sync(
        self,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
    ) -> RunResult:
        """Continue a run as `resume` does, without `await`."""
        turn = self.resume(
            answers, user_id=user_id, session_id=session_id, config=config, context=context
        )
        return run_in_background(turn, instead="await runner.resume(...)")

    @explains_wrong_iteration
    async def stream(
        self,
        message: Message | None = None,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        config: RunConfig | None = None,
        context: CallContext | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn, or of a resumed run, as they happen.

        Every event that is not partial is stored before it is yielded. Closing the iterator cancels
        the run.
        """
        new_answers = as_answers(answers)
        if message is not None and new_answers:
            raise InvalidInput("pass a message or answers, not both")
        queue = EventQueue()

        async def produce() -> None:
            try:
                if message is not None:
                    await self.run(
                        user_id=user_id,
                        session_id=session_id,
                        message=message,
                        config=config,
                        context=context,
                        observer=queue,
                    )
                else:
                    await self.resume(
                        user_id=user_id,
                        session_id=session_id,
                        answers=new_answers,
                        config=config,
                        context=context,
                        observer=queue,
                    )
            finally:
                queue.end()

        # Not a task group: yielding inside one breaks cancellation (PEP 789). The generator owns
        # the task and ends after it.
        task = asyncio.get_running_loop().create_task(produce())
        task.add_done_callback(queue.wake)
        try:
            while not (task.done() and queue.is_empty):
                event = await queue.get()
                if event is not None:
                    yield event
            await task
        finally:
            queue.close()
            await cancel_and_wait(task)

    async def abandon(
        self,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        reason: str = "",
    ) -> None:
        """Cancel a run that waits for input, so that the session accepts another message."""
        request = self._request(user_id, session_id)
        if await self.services.sessions.read(request.key) is None:
            raise NothingPending(f"session {session_id!r} does not exist")
        recorder = EventRecorder(self.services.sessions)
        async with self.leases.acquire(request.key, request.run_id, recorder) as lease:
            session = await self._open(recorder, lease)
            check_waiting(session)
            for agent in self.agent.walk():  # their memories contain the abandoned run
                self.services.memory_cache.evict(request.key, agent.name)
            request = replace(request, run_id=session.run_id)
            run = Run(request, services=self.services, recorder=recorder)
            await self._end(run, RunStatus.CANCELED, reason or "abandoned")

    async def update_state(
        self,
        values: Mapping[str, Any],
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
    ) -> None:
        """Write to a session's state outside a run, for example before its first message."""
        if not isinstance(values, Mapping):
            raise InvalidInput(f"values must be a mapping from keys to values, got {values!r}")
        request = self._request(user_id, session_id)
        recorder = EventRecorder(self.services.sessions)
        async with self.leases.acquire(request.key, request.run_id, recorder) as lease:
            state = State((await self._open(recorder, lease)).state)
            state.update(values)
            delta, removed = state.flush()
            actions = EventActions(state_delta=delta, state_removed=removed)
            await recorder.record(self._event(request, EventKind.STATE, actions=actions))

    async def _open(self, recorder: EventRecorder, lease: SessionLease) -> Session:
        """Open the session of a lease."""
        session = await lease.open()
        recorder.attach(session, holder=lease.holder)
        return session

    def _request(self, user_id: str, session_id: str) -> RunRequest:
        """Return a request without a message, for changes to a session outside of a turn."""
        run_id = self.services.ids.new()
        return RunRequest(
            run_id=run_id,
            key=self.session_key(user_id, session_id),
            root=self.agent,
            config=self.config,
            call=_user_call_context(run_id, user_id),
        )

    async def _begin_turn(
        self, request: RunRequest, recorder: EventRecorder, lease: SessionLease
    ) -> TurnStart:
        """Open the session of a request and store its message."""
        while True:
            permissions = request.call.permissions
            message = self._event(
                request,
                EventKind.MESSAGE,
                parts=request.message,
                detail=None if permissions is None else {"permissions": sorted(permissions)},
            )
            try:
                start = await recorder.begin(
                    BeginTurn(request.key, message, lease.holder, self.agent.name)
                )
                break
            except SessionBusy as error:
                await lease.wait_until_free(error)
            except asyncio.CancelledError:
                # The store may have started the turn anyway.
                session = await self.services.sessions.read(request.key)
                if session is not None and session.run_id == request.run_id:
                    run = Run(request, services=self.services, recorder=recorder)
                    await self._end(run, RunStatus.CANCELED, "canceled")
                raise
        lease.start_renewal()
        if not start.events:
            raise SessionWaiting(
                f"session {request.key.session_id!r} waits for input: call resume(...) with "
                "answers, or abandon(...) to cancel its run; resume() without answers continues "
                "an interrupted run"
            )
        return start

    async def _execute(self, run: Run, state: State, opening: Sequence[Event] = ()) -> RunResult:
        """Run the tree to its end and record how it ended."""
        status, text = RunStatus.FAILED, "the process was interrupted"
        requests: tuple[InputRequest, ...] = ()
        detail: Mapping[str, Any] = {}
        try:
            try:
                if opening:
                    await run.recorder.show(*opening)
                text = await self._run_tree(run, state)
                status = RunStatus.COMPLETED
            except RunPaused as pause:
                status, text, requests = RunStatus.INPUT_REQUIRED, "", pause.requests
                reset_to_recorded(run, state)
                detail = pause_detail(run, state, requests)
            except REJECTIONS as rejected:
                status, text = RunStatus.REJECTED, f"rejected: {rejection_reason(rejected)}"
                reset_to_recorded(run, state)
            except asyncio.CancelledError:
                status, text = RunStatus.CANCELED, "canceled"
                run.recorder.detach_observer()  # it might no longer accept events
                raise
            except AccError as error:
                text, detail = str(error), {"code": error.code}
                raise
        finally:
            if status is not RunStatus.INPUT_REQUIRED and status is not RunStatus.COMPLETED:
                self._evict_memories(run)
            try:
                await self._end(run, status, text, detail, state)
            except AccError as error:
                # If the store rejects the answer, the run fails.
                if status is RunStatus.COMPLETED and not run.recorder.is_released:
                    self._evict_memories(run)
                    await self._end(run, RunStatus.FAILED, str(error), {"code": error.code})
                raise
        if status is RunStatus.COMPLETED:
            await commit_memories(run)
        return RunResult(
            run_id=run.request.run_id,
            status=status,
            text=text,
            events=tuple(run.recorder.events),
            state=state.copy(),
            usage=run.budget.usage,
            requests=requests,
        )

    async def _run_tree(self, run: Run, state: State) -> str:
        """Run the agent that has the conversation and return its answer."""
        first = self._first_agent(state)
        root = RunContext(run, self.agent, Branch(state), path="", parts=run.request.message)
        seconds = run.request.config.timeout
        if seconds is None:
            last = await root.run_agent(first)
        else:
            deadline = asyncio.get_running_loop().time() + seconds
            try:
                async with asyncio.timeout_at(deadline) as timeout:
                    last = await root.run_agent(first)
            except TimeoutError as error:
                if not timeout.expired():
                    raise AgentFailed(first.name, "TimeoutError") from error
                raise RunTimedOut("timeout", seconds, first.name) from None
            # An agent blocked the loop or swallowed the cancellation. Coverage on Python 3.11 does
            # not report this line, hence the pragma.
            if asyncio.get_running_loop().time() >= deadline:  # pragma: no cover
                raise RunTimedOut("timeout", seconds, first.name)
        if run.journal.steps:
            run.journal.catch_up(root.current_branch)
            check_answers_used(run)
        if last.agent is not first:
            if last.agent is not self.agent and can_keep_conversation(last.agent):
                state[ACTIVE_AGENT] = last.agent.name
            else:
                state.pop(ACTIVE_AGENT, None)
        return last.text

    def _first_agent(self, state: State) -> BaseAgent:
        """Return the agent that a transfer gave the conversation to, or the root."""
        name = state.get(ACTIVE_AGENT)
        agent = self.agent.find(name) if isinstance(name, str) else None
        return agent if agent is not None and can_keep_conversation(agent) else self.agent

    def _evict_memories(self, run: Run) -> None:
        for name in run.memories:
            self.services.memory_cache.evict(run.request.key, name)

    async def _end(
        self,
        run: Run,
        status: RunStatus,
        text: str,
        detail: Mapping[str, Any] | None = None,
        state: State | None = None,
    ) -> None:
        """Record the end of a run and release the session in the same transaction."""
        actions = NO_ACTIONS
        if state is not None and status is RunStatus.COMPLETED and state.pending:
            delta, removed = state.flush()
            actions = EventActions(state_delta=delta, state_removed=removed)
        event = self._event(
            run.request,
            EventKind.ENDED,
            parts=text_part(text) if text else (),
            actions=actions,
            usage=run.budget.usage,
            status=status,
            detail=dict(detail or {}),
        )
        await run.recorder.record(event, release=True)
        if status is not RunStatus.COMPLETED and status is not RunStatus.INPUT_REQUIRED:
            await cancel_waiting(run)
        if log.isEnabledFor(logging.INFO):
            call = run.request.call
            extra = {"trace_id": call.trace_id, "request_id": call.request_id, "status": status}
            run_id = run.request.run_id
            log.info("run ended", extra={**extra, "run_id": run_id, "caller": call.caller})

    def _event(
        self,
        request: RunRequest,
        kind: EventKind,
        *,
        parts: tuple[Part, ...] = (),
        actions: EventActions = NO_ACTIONS,
        usage: Usage | None = None,
        answer: InputAnswer | None = None,
        status: RunStatus | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> Event:
        """Return an event of the user or of the root agent, without a number."""
        return Event(
            kind=kind,
            run_id=request.run_id,
            author="user" if kind in _USER_EVENTS else self.agent.name,
            at=self.services.clock.now(),
            request_id=request.call.request_id,
            trace_id=request.call.trace_id,
            caller=request.call.caller,
            parts=parts,
            actions=actions,
            usage=usage,
            answer=answer,
            status=status,
            detail=detail or {},
        )


def _user_call_context(run_id: str, user_id: str) -> CallContext:
    return CallContext(request_id=run_id, trace_id=run_id, caller=f"user://{user_id}")
