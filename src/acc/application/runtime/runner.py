"""Run agents in sessions: run, resume, stream, abandon."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Generic

from acc.application.agents.base import BaseAgent, check_is_agent
from acc.application.agents.callbacks import Plugin, plugin_callbacks
from acc.application.agents.dependencies import check_deps, required_deps
from acc.application.agents.llm import can_keep_conversation
from acc.application.agents.output import output_of
from acc.application.agents.remote import cancel_waiting
from acc.application.contracts.intents import Intents, admit_message, find_call
from acc.application.runtime.agent_memory import commit_memories
from acc.application.runtime.background_loop import run_in_background
from acc.application.runtime.call_guards import explains_missing_await, explains_options
from acc.application.runtime.caller_rules import readable_state
from acc.application.runtime.context import UNSET, RunContext
from acc.application.runtime.dispatch import RunDispatcher, error_detail
from acc.application.runtime.event_stream import RunStreams, TurnOptions
from acc.application.runtime.inputs import Message, as_answers, collect_answers, message_parts
from acc.application.runtime.interrupts import REJECTIONS, RunPaused, rejection_reason
from acc.application.runtime.leases import SessionLease, SessionLeases
from acc.application.runtime.replay import (
    add_interruption_notices,
    check_answers_used,
    check_started_by,
    check_waiting,
    first_event_detail,
    is_durable_run,
    pause_detail,
    pending_requests,
    reset_to_recorded,
    resumed_request,
)
from acc.application.runtime.result import RunResult
from acc.application.runtime.run import (
    Branch,
    EventRecorder,
    Journal,
    Run,
    RunObserver,
    RunRequest,
    Services,
    check_run_options,
    user_call_context,
)
from acc.application.runtime.segments import RETRIED_ERRORS, Segment, holder_prefix, is_handed_over
from acc.application.runtime.sessions import Sessions
from acc.application.runtime.state import State
from acc.application.runtime.type_variables import AnyDepsT, AnyOutputT
from acc.application.tracing.spans import (
    TRACE_PARENT,
    RunSpan,
    describe_first_agent,
    describe_result,
    describe_run,
    note_answers,
    original_span,
    parent_of,
)
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
from acc.domain.value_objects.base import JsonData, replace
from acc.domain.value_objects.content import Part, text_part
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventActions, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig, RunStatus
from acc.domain.value_objects.session import (
    DEFAULT_SESSION_ID,
    DEFAULT_USER_ID,
    Session,
    SessionKey,
)
from acc.ports.outbound.engine_ports import EnginePort
from acc.ports.outbound.storage_ports import BeginTurn, TurnStart
from acc.ports.outbound.tracing_ports import SpanPort

log = logging.getLogger("acc.run")
#: State key for the name of the agent that answers the next messages after a transfer.
ACTIVE_AGENT = "_active_agent"


class SessionRunner(RunStreams[AnyDepsT, AnyOutputT], Generic[AnyDepsT, AnyOutputT]):
    """Runs one agent tree in the sessions of one application; see `Runner` for the options."""

    def __init__(
        self,
        agent: BaseAgent[AnyDepsT, AnyOutputT],
        *,
        app_name: str,
        services: Services,
        config: RunConfig | None = None,
        busy_timeout: float = 300.0,
        deps: AnyDepsT | None = None,
        plugins: Sequence[Plugin[AnyDepsT]] = (),
        engine: EnginePort | None = None,
    ) -> None:
        check_is_agent(agent)
        if agent.parent is not None:
            raise InvalidInput(
                f"{agent.name!r} is a sub-agent of {agent.parent.name!r}; run the root of its tree"
            )
        check_run_options(agent, config, None)
        super().__init__(app_name=app_name, services=services)
        self.session_key(DEFAULT_USER_ID, DEFAULT_SESSION_ID)  # validates app_name
        self.agent = agent
        self.config = config or RunConfig()
        self._deps = deps
        # With an engine, only the workers need the dependencies.
        self._required_deps = () if engine is not None else required_deps(agent)
        self._plugins = plugin_callbacks(plugins)
        self.leases = SessionLeases(
            services.sessions, busy_timeout=busy_timeout, tracer=services.tracer
        )
        self.sessions = Sessions(self)
        self.engine = engine
        self._dispatcher = None if engine is None else RunDispatcher(self, engine)

    @explains_missing_await
    async def run(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
        observer: RunObserver | None = None,
        recorder: EventRecorder | None = None,
        segment: Segment | None = None,
    ) -> RunResult[AnyOutputT]:
        """Run one turn and return its result; a failure is raised after it is recorded.

        Without ids, the turn continues the default session of the default user. If the run waits
        for input, the result has the status `input_required` and contains the requests. Tools,
        callbacks and instructions can use `deps`, which are never stored. The `recorder` stores
        the events, then the `observer` gets them. A worker of an engine passes the `segment`.
        """
        if config is not None or context is not None:
            check_run_options(self.agent, config, context)
        deps = self._check_deps(deps)
        if context is not None and context.requests_debug:
            config = dataclasses.replace(config or self.config, debug=True)
        run_id = self.services.ids.new() if segment is None else segment.run_id
        key = self.session_key(user_id, session_id)
        request = RunRequest(
            run_id=run_id,
            key=key,
            root=self.agent,
            config=config or self.config,
            call=context or user_call_context(run_id, user_id),
            message=message_parts(message),
        )
        request = await admit_message(self._intents, request, self.services)
        recorder = recorder or EventRecorder(self.services.sessions, observer)
        if self._dispatcher is not None:
            return await self._dispatcher.run(request, recorder)
        with RunSpan(self.services.tracer, self.agent, parent=parent_of(context)) as span:
            if span is not None:
                request = describe_run(span, request, has_context=context is not None)
            holder = run_id if segment is None else segment.holder
            async with self.leases.acquire(request.key, holder, recorder) as lease:
                start = await self.begin_turn(request, recorder, lease, span=span, segment=segment)
                request = replace(
                    request, turn_id=start.session.turns + 1, first_seq=start.events[-1].seq
                )
                run = self._new_run(request, recorder, deps, None, span, segment)
                first_events = await add_interruption_notices(request, self.services, start.events)
                return await self._execute(run, State(start.session.state), first_events, segment)

    @explains_options
    def run_sync(
        self,
        message: Message,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        deps: AnyDepsT | None = None,
    ) -> RunResult[AnyOutputT]:
        """Run one turn as `run` does, without `await`: in scripts, and in cells of notebooks."""
        turn = self.run(
            message,
            user_id=user_id,
            session_id=session_id,
            config=config,
            context=context,
            deps=deps,
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
        deps: AnyDepsT | None = None,
        observer: RunObserver | None = None,
        recorder: EventRecorder | None = None,
        segment: Segment | None = None,
    ) -> RunResult[AnyOutputT]:
        """Continue a run that waits for input, or that was interrupted.

        Any process can resume a run. Recorded model responses and tool results are used again, and
        nothing is called for them. A tool call that was started, but has no recorded result, is
        repeated only if the tool is idempotent. Otherwise the model is informed that the outcome is
        unknown. Pass `deps` again: they are not stored. Workers of engines pass the `segment`.
        """
        if config is not None or context is not None:
            check_run_options(self.agent, config, context)
        deps = self._check_deps(deps)
        key, new_answers = self.session_key(user_id, session_id), as_answers(answers)
        recorder = recorder or EventRecorder(self.services.sessions, observer)
        if self._dispatcher is not None:
            return await self._dispatcher.resume(
                key, new_answers, recorder, config=config, context=context
            )
        holder = self.services.ids.new() if segment is None else segment.holder
        replaces = "" if segment is None else segment.replaces
        async with self.leases.acquire(key, holder, recorder, replaces=replaces) as lease:
            session = await self.open_session(recorder, lease)
            if session.status is not RunStatus.WORKING:
                check_waiting(session)
            events = await self.services.sessions.events(key, run_id=session.run_id)
            request, state = await resumed_request(
                self.services.sessions,
                session,
                events,
                root=self.agent,
                config=config,
                default=self.config,
                context=context,
            )
            check_started_by(events, session_id, self.first_agent(state, request.message).name)
            now, schemas = self.services.clock.now(), self.services.schemas
            accepted = collect_answers(
                self.agent, pending_requests(events), new_answers, now=now, schemas=schemas
            )
            journal = Journal(request.run_id, events, answers=accepted)
            tracer, link = self.services.tracer, original_span(events[0])
            with RunSpan(tracer, self.agent, parent=parent_of(context), link=link) as span:
                if span is not None and tracer is not None:
                    describe_run(span, request, has_context=True)
                    note_answers(tracer, span, accepted, events, now)
                run = self._new_run(request, recorder, deps, journal, span, segment)
                answered = [
                    request.event(EventKind.INPUT, at=now, answer=answer)
                    for answer in accepted.values()
                ]
                try:
                    if answered:
                        await recorder.record(*answered)
                except asyncio.CancelledError:
                    if not is_handed_over(segment):
                        await self._end(run, RunStatus.CANCELED, "canceled")
                    raise
                return await self._execute(run, state, segment=segment)

    def _turn_method(
        self,
        message: Message | None,
        answers: InputAnswer | Iterable[InputAnswer],
        options: TurnOptions,
    ) -> "Callable[..., Coroutine[Any, Any, RunResult[AnyOutputT]]]":
        """Return `run` if there is a message, else `resume`, with their arguments."""
        if message is None:
            return partial(self.resume, answers=as_answers(answers), **options)
        if as_answers(answers):
            raise InvalidInput("pass a message or answers, not both")
        return partial(self.run, message=message, **options)

    @explains_missing_await
    async def abandon(
        self,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        reason: str = "",
    ) -> None:
        """Cancel a run that waits for input, so that the session accepts another message."""
        request = self._session_request(user_id, session_id)
        if await self.services.sessions.read(request.key) is None:
            raise NothingPending(f"session {session_id!r} does not exist; nothing to abandon")
        recorder = EventRecorder(self.services.sessions)
        async with self.leases.acquire(request.key, request.run_id, recorder) as lease:
            session = await self.open_session(recorder, lease)
            check_waiting(session)
            await self._end_open_run(request, session, recorder, reason or "abandoned")
        if self._dispatcher is not None:
            await self._dispatcher.cancel(request.key, session.run_id)

    async def cancel_engine_run(self, key: SessionKey, run_id: str) -> None:
        """Cancel a run whose engine no longer executes it, unless the run has ended."""
        request = self._session_request(key.user_id, key.session_id)
        recorder = EventRecorder(self.services.sessions)
        prefix = holder_prefix(run_id)
        holder = f"{prefix}{request.run_id}"  # unique, because the request has a new run id
        async with self.leases.acquire(key, holder, recorder, replaces=prefix) as lease:
            session = await self.open_session(recorder, lease)
            is_open = session.status in (RunStatus.WORKING, RunStatus.INPUT_REQUIRED)
            if is_open and session.run_id == run_id:
                await self._end_open_run(request, session, recorder, "canceled")

    async def _end_open_run(
        self, request: RunRequest, session: Session, recorder: EventRecorder, reason: str
    ) -> None:
        """Record that the open run of a session is canceled; the lease must have been acquired."""
        self.services.memory_cache.evict(request.key, *[agent.name for agent in self.agent.walk()])
        request = replace(request, run_id=session.run_id)
        run = Run(request, services=self.services, recorder=recorder)
        await self._end(run, RunStatus.CANCELED, reason)

    @explains_missing_await
    async def update_state(
        self,
        values: Mapping[str, JsonData],
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
    ) -> None:
        """Write to the state of a session between runs, such as before its first message."""
        if not isinstance(values, Mapping):
            raise InvalidInput(f"values must be a mapping from keys to values, got {values!r}")
        request = self._session_request(user_id, session_id)
        recorder = EventRecorder(self.services.sessions)
        async with self.leases.acquire(request.key, request.run_id, recorder) as lease:
            state = State((await self.open_session(recorder, lease)).state)
            state.update(values)
            delta, removed = state.flush()
            actions = EventActions(state_delta=delta, state_removed=removed)
            await recorder.record(
                request.event(EventKind.STATE, at=self.services.clock.now(), actions=actions)
            )

    async def open_session(self, recorder: EventRecorder, lease: SessionLease) -> Session:
        """Open the session of a lease; from now on the recorder appends to it."""
        session = await lease.open()
        recorder.attach(session, holder=lease.holder)
        return session

    @cached_property
    def _intents(self) -> Intents:
        return Intents(self.agent)

    def _session_request(self, user_id: str, session_id: str) -> RunRequest:
        """Return a request with a new run id and no message, to change a session between turns."""
        run_id = self.services.ids.new()
        return RunRequest(
            run_id=run_id,
            key=self.session_key(user_id, session_id),
            root=self.agent,
            config=self.config,
            call=user_call_context(run_id, user_id),
        )

    async def begin_turn(
        self,
        request: RunRequest,
        recorder: EventRecorder,
        lease: SessionLease,
        *,
        span: SpanPort | None = None,
        segment: Segment | None = None,
        is_durable: bool = False,
    ) -> TurnStart:
        """Open the session and store the message.

        A run that an engine executes is durable. If an earlier run was interrupted, the store
        closes it. If that run and this one are durable, this turn waits for the earlier run.
        """
        is_durable = is_durable or segment is not None
        waits_for_runs = is_durable  # an interrupted run is not closed until it is known as durable
        detail = first_event_detail(request, is_durable=is_durable)
        if span is not None and (parent := span.traceparent):
            detail[TRACE_PARENT] = parent
        while True:
            message = request.event(
                EventKind.MESSAGE,
                at=self.services.clock.now(),
                parts=request.message,
                detail=detail,
            )
            try:
                start = await recorder.begin(
                    BeginTurn(request.key, message, lease.holder, self.agent.name, waits_for_runs)
                )
                break
            except SessionBusy as error:
                if waits_for_runs:
                    waits_for_runs = await is_durable_run(self.services.sessions, request.key)
                    if waits_for_runs and self._dispatcher is not None:
                        await self._dispatcher.revive(request.key)
                await lease.wait_until_free(error)
            except asyncio.CancelledError:
                if not is_handed_over(segment):
                    await self._cancel_stored_turn(request, recorder)
                raise
        lease.start_renewal()
        if not start.events:
            raise SessionWaiting(
                f"session {request.key.session_id!r} waits for input: call resume(...) with "
                "answers, or abandon(...) to cancel its run; resume() without answers continues "
                "an interrupted run"
            )
        return start

    async def _cancel_stored_turn(self, request: RunRequest, recorder: EventRecorder) -> None:
        """Cancel a turn that was stored before the cancellation of its call arrived."""
        session = await self.services.sessions.read(request.key)
        if session is not None and session.run_id == request.run_id:
            await self._end_open_run(request, session, recorder, "canceled")

    def _new_run(
        self,
        request: RunRequest,
        recorder: EventRecorder,
        deps: object,
        journal: Journal | None,
        span: SpanPort | None,
        segment: Segment | None,
    ) -> Run:
        return Run(
            request,
            services=self.services,
            recorder=recorder,
            journal=journal,
            deps=deps,
            plugins=self._plugins,
            span=span,
            has_engine=segment is not None,
        )

    def _check_deps(self, deps: AnyDepsT | None) -> AnyDepsT | None:
        deps = self._deps if deps is None else deps
        if self._required_deps:
            check_deps(self._required_deps, deps)
        return deps

    async def _execute(
        self,
        run: Run,
        state: State,
        first_events: Sequence[Event] = (),
        segment: Segment | None = None,
    ) -> RunResult[AnyOutputT]:
        """Run the tree, and record the end of the run unless an engine continues it later."""
        output: object = UNSET
        status, text = RunStatus.FAILED, "the process was interrupted"  # for other exceptions
        requests: tuple[InputRequest, ...] = ()
        detail: Mapping[str, Any] = {}
        is_continued_later = False
        try:
            try:
                if first_events:
                    await run.recorder.show(*first_events)
                text, output = await self._run_tree(run, state)
                status = RunStatus.COMPLETED
            except RunPaused as pause:
                if is_continued_later := not pause.requests:
                    raise
                status, text, requests = RunStatus.INPUT_REQUIRED, "", pause.requests
                reset_to_recorded(run, state)
                detail = pause_detail(run, state, requests)
            except REJECTIONS as rejected:
                status, text = RunStatus.REJECTED, f"rejected: {rejection_reason(rejected)}"
                reset_to_recorded(run, state)
            except asyncio.CancelledError:
                status, text = RunStatus.CANCELED, "canceled"
                is_continued_later = is_handed_over(segment)
                run.recorder.detach_observer()  # it may not accept events after a cancellation
                raise
            except AccError as error:
                is_continued_later = segment is not None and isinstance(error, RETRIED_ERRORS)
                text = str(error)
                detail = error_detail(error) if segment else {"code": error.code}
                raise
        finally:
            if status is not RunStatus.INPUT_REQUIRED and status is not RunStatus.COMPLETED:
                self.services.memory_cache.evict(run.request.key, *run.memories)
            if not is_continued_later:
                await self._end_or_record_failure(run, status, text, detail, state, segment)
        if status is RunStatus.COMPLETED:
            await commit_memories(run)
        return RunResult(
            run_id=run.request.run_id,
            status=status,
            text=text,
            events=tuple(run.recorder.events),
            state=readable_state(self.agent, state, run.request.call.caller),
            usage=run.budget.usage,
            requests=requests,
            output_or_error=output,
        )

    async def _end_or_record_failure(
        self,
        run: Run,
        status: RunStatus,
        text: str,
        detail: Mapping[str, Any],
        state: State,
        segment: Segment | None,
    ) -> None:
        """Record the end of a run; if the store rejects the answer, record a failure instead."""
        try:
            await self._end(run, status, text, detail, state)
        except AccError as error:
            if status is RunStatus.COMPLETED and not run.recorder.is_released:
                self.services.memory_cache.evict(run.request.key, *run.memories)
                if segment is None or not isinstance(error, RETRIED_ERRORS):
                    await self._end(run, RunStatus.FAILED, str(error), {"code": error.code})
            raise

    async def _run_tree(self, run: Run, state: State) -> tuple[str, object]:
        """Run the first agent of the turn; return the answer as text and as output."""
        first = self.first_agent(state, run.request.message)
        if run.span is not None:
            run.span_path = f"/{first.name}"
            describe_first_agent(run, first)
        root = RunContext(run, self.agent, Branch(state), path="", parts=run.request.message)
        seconds = run.request.config.timeout
        if seconds is None:
            last_context = await root.run_agent(first)
        else:
            deadline = asyncio.get_running_loop().time() + seconds
            try:
                async with asyncio.timeout_at(deadline) as timeout:
                    last_context = await root.run_agent(first)
            except TimeoutError as error:
                if not timeout.expired():
                    raise AgentFailed(first.name, "TimeoutError") from error
                raise RunTimedOut("timeout", seconds, first.name) from None
            # No TimeoutError: the agent blocked the event loop or suppressed the cancellation.
            # The pragma is needed because coverage on Python 3.11 does not see this line.
            if asyncio.get_running_loop().time() >= deadline:  # pragma: no cover
                raise RunTimedOut("timeout", seconds, first.name)
        if run.journal.steps:
            run.journal.catch_up(root.current_branch)
            check_answers_used(run)
        last_agent = last_context.agent
        if last_agent is not first:  # after a transfer, the next message goes to its target
            if last_agent is not self.agent and can_keep_conversation(last_agent):
                state[ACTIVE_AGENT] = last_agent.name
            else:
                state.pop(ACTIVE_AGENT, None)
        return last_context.text, output_of(self.agent, last_context)

    def first_agent(self, state: State, message: Sequence[Part]) -> BaseAgent:
        """Return the agent of the intent, else the target of the last transfer, else the root."""
        name = state.get(ACTIVE_AGENT)
        agent = self.agent.find(name) if isinstance(name, str) else None
        if agent is None or not can_keep_conversation(agent):
            agent = self.agent
        return find_call(self._intents, message) or agent

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
        event = run.request.event(
            EventKind.ENDED,
            at=self.services.clock.now(),
            parts=text_part(text) if text else (),
            actions=actions,
            usage=run.budget.usage,
            status=status,
            detail=dict(detail or {}),
        )
        await run.recorder.record(event, release=True)
        describe_result(run, status.value, text)
        if status is not RunStatus.COMPLETED and status is not RunStatus.INPUT_REQUIRED:
            await cancel_waiting(run)
        if log.isEnabledFor(logging.INFO):
            log.info("run ended", extra={**run.log_fields, "status": status})
