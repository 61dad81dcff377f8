"""Run turns through an engine: store the message, start the run, follow it in the store."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acc.application.agents.output import INVALID_OUTPUT
from acc.application.runtime.caller_rules import readable_state
from acc.application.runtime.inputs import collect_answers
from acc.application.runtime.replay import (
    OPTIONS,
    check_started_by,
    check_waiting,
    has_new_answers,
    pending_requests,
    resumed_request,
    run_options,
)
from acc.application.runtime.result import RunResult
from acc.application.runtime.run import EventRecorder, RunRequest
from acc.domain.errors import (
    AccError,
    InvalidInput,
    OutputUnavailable,
    SessionConflict,
    SessionWaiting,
)
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.content import NO_USAGE
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig, RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.engine_ports import EnginePort, EngineWork

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent
    from acc.application.runtime.runner import SessionRunner

#: The store is read at intervals that double from the first to the last of these, in seconds.
POLL_SECONDS = (0.01, 0.25)
#: Interval at which the engine is asked whether it still executes an awaited run.
CHECK_SECONDS = 10.0
#: How long a cancelled caller waits for the end of the run to be recorded.
CANCEL_SECONDS = 5.0


class RunDispatcher:
    """Runs the turns of a runner through an engine."""

    def __init__(self, runner: "SessionRunner", engine: EnginePort) -> None:
        self._runner = runner
        self._sessions = runner.services.sessions
        self._engine = engine
        #: When the runs of busy sessions were revived.
        self._revived_at: dict[SessionKey, float] = {}

    async def run(self, request: RunRequest, recorder: EventRecorder) -> RunResult:
        """Store the message of a turn, let the engine execute it, and return its result."""
        check_dispatchable(request.config)
        await self._engine.connect()
        deadline = asyncio.get_running_loop().time() + self._runner.leases.busy_timeout
        while True:
            try:
                start = await self._begin(request, recorder)
                break
            except SessionWaiting:
                # The session has an answer that a worker has not read yet.
                events = await self._sessions.events(
                    request.key, run_id=await self._run_id(request.key)
                )
                if not has_new_answers(events) or asyncio.get_running_loop().time() > deadline:
                    raise
                await self.revive(request.key)
                await asyncio.sleep(POLL_SECONDS[1])
        await recorder.show(*start)
        work = EngineWork.of_run(request.key, request.run_id)
        try:
            await self._engine.start(work)
        except asyncio.CancelledError:
            await self._cancel(work)
            raise
        return await self._follow(work, request.key, recorder, after=start[-1].seq)

    async def resume(
        self,
        key: SessionKey,
        answers: Sequence[InputAnswer],
        recorder: EventRecorder,
        *,
        config: RunConfig | None,
        context: CallContext | None,
    ) -> RunResult:
        """Store answers, let the engine continue the run, and return its result."""
        if config is not None:
            check_dispatchable(config)
        await self._engine.connect()
        runner, services = self._runner, self._runner.services
        async with runner.leases.acquire(key, services.ids.new(), recorder) as lease:
            session = await runner.open_session(recorder, lease)
            if session.status is not RunStatus.WORKING:
                check_waiting(session)
            events = await self._sessions.events(key, run_id=session.run_id)
            request, state = await resumed_request(
                self._sessions,
                session,
                events,
                root=runner.agent,
                config=config,
                default=runner.config,
                context=context,
            )
            first = runner.first_agent(state, request.message)
            check_started_by(events, key.session_id, first.name)
            now = services.clock.now()
            given = collect_answers(
                runner.agent, pending_requests(events), answers, now=now, schemas=services.schemas
            )
            detail = {OPTIONS: run_options(request)}
            if given:
                await recorder.record(
                    *(
                        request.event(EventKind.INPUT, at=now, answer=answer, detail=detail)
                        for answer in given.values()
                    )
                )
        work = EngineWork.of_run(key, session.run_id)
        is_waiting = session.status is RunStatus.INPUT_REQUIRED
        if is_waiting and not given and not has_new_answers(events):
            return await self._result(key, session.run_id, recorder)
        await self._engine.notify(work)
        return await self._follow(work, key, recorder, after=recorder.last_seq)

    async def cancel(self, key: SessionKey, run_id: str) -> None:
        """Let the engine end its work for a run that was ended."""
        await self._engine.cancel(EngineWork.of_run(key, run_id))

    async def revive(self, key: SessionKey) -> None:
        """Let the engine continue the run that a session is busy with, if nothing executes it.

        The process that has stored the message of the run may have died before it started the run.
        """
        now = asyncio.get_running_loop().time()
        recent = {one: at for one, at in self._revived_at.items() if now < at + CHECK_SECONDS}
        self._revived_at = {**recent, key: recent.get(key, now)}
        if key in recent:
            return
        session = await self._sessions.read(key)
        if session is None or session.status not in (RunStatus.WORKING, RunStatus.INPUT_REQUIRED):
            return
        work = EngineWork.of_run(key, session.run_id)
        if not await self._engine.notify(work, start=False):
            events = await self._sessions.events(key, run_id=session.run_id, limit=1)
            if OPTIONS in events[0].detail:
                await self._engine.start(work)

    async def _begin(self, request: RunRequest, recorder: EventRecorder) -> tuple[Event, ...]:
        leases = self._runner.leases
        async with leases.acquire(request.key, request.run_id, recorder) as lease:
            return (await self._runner.begin_turn(request, recorder, lease, is_durable=True)).events

    async def _run_id(self, key: SessionKey) -> str:
        session = await self._sessions.read(key)
        return "" if session is None else session.run_id

    async def _follow(
        self, work: EngineWork, key: SessionKey, recorder: EventRecorder, *, after: int
    ) -> RunResult:
        """Show the events of a run until it waits or ends, and return its result."""
        try:
            await self._wait(work, key, recorder, after)
        except asyncio.CancelledError:
            recorder.detach_observer()
            await self._cancel(work)
            await self._wait_after_cancel(work, key, recorder)
            raise
        return await self._result(key, work.run_id, recorder)

    async def _wait(
        self, work: EngineWork, key: SessionKey, recorder: EventRecorder, after: int
    ) -> None:
        first, last = POLL_SECONDS
        loop, delay = asyncio.get_running_loop(), first
        checked_at = loop.time()
        while True:
            events = await self._sessions.events(key, after=after, run_id=work.run_id)
            if events:
                after, delay = events[-1].seq, first
                await recorder.show(*events)
                if events[-1].kind is EventKind.ENDED:
                    return
            if loop.time() - checked_at > CHECK_SECONDS:
                checked_at = loop.time()
                await self._check(work, key)
            await asyncio.sleep(delay)
            delay = min(2 * delay, last)

    async def _check(self, work: EngineWork, key: SessionKey) -> None:
        """Start a run again that is not being executed."""
        session = await self._sessions.read(key)
        if session is None or session.run_id != work.run_id:
            raise SessionConflict(f"session {key.session_id!r} was deleted or changed by others")
        await self._engine.start(work)

    async def _cancel(self, work: EngineWork) -> None:
        await self._engine.cancel(work)

    async def _wait_after_cancel(
        self, work: EngineWork, key: SessionKey, recorder: EventRecorder
    ) -> None:
        after = max((event.seq for event in recorder.events), default=0)
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._wait(work, key, recorder, after)
        except TimeoutError:
            return  # no worker runs; the engine cancels the run as soon as there is one

    async def _result(self, key: SessionKey, run_id: str, recorder: EventRecorder) -> RunResult:
        session = await self._sessions.read(key)
        events = await self._sessions.events(key, run_id=run_id)
        return stored_result(self._runner.agent, session, events, shown=recorder.events)


def check_dispatchable(config: RunConfig) -> None:
    """Raise InvalidInput for a config that cannot be stored."""
    functions = [name for name, stub in config.stubs.items() if not isinstance(stub, str)]
    if functions:
        raise InvalidInput(
            f"RunConfig.stubs has functions for {', '.join(functions)}, which cannot be sent to a "
            "worker: use texts, or run without an engine"
        )


def stored_result(
    agent: "BaseAgent", session: Session | None, events: Sequence[Event], *, shown: Sequence[Event]
) -> RunResult:
    """Return the result of a run from its stored events, or raise the error that ended it."""
    ended = next((one for one in reversed(events) if one.kind is EventKind.ENDED), None)
    if ended is None or ended.status is None:
        raise SessionConflict("the session of the run was deleted or changed by others")
    if ended.status is RunStatus.FAILED:
        raise stored_error(ended)
    output: object = None
    if ended.status is RunStatus.COMPLETED:
        try:
            output = agent.decode_output(ended.text)
        except INVALID_OUTPUT as error:
            output = OutputUnavailable(
                f"the answer does not have the output type of {agent.name!r}: {error}"
            )
    is_paused = ended.status is RunStatus.INPUT_REQUIRED
    return RunResult(
        run_id=ended.run_id,
        status=ended.status,
        text=ended.text,
        events=tuple(shown),
        state=readable_state(agent, {} if session is None else session.state, ended.caller),
        usage=ended.usage or NO_USAGE,
        requests=pending_requests(events) if is_paused else (),
        output_or_error=output,
    )


def error_detail(error: AccError) -> dict[str, Any]:
    """Return what `stored_error` needs to restore an error: its code and its fields."""
    plain = (str, int, float, bool, type(None))
    fields = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(error).items()
        if isinstance(value, plain)
        or (isinstance(value, tuple) and all(isinstance(item, plain) for item in value))
    }
    return {"code": error.code, "fields": fields}


def stored_error(ended: Event) -> AccError:
    """Return the error that a run has recorded, with its class and fields."""
    kind = next(
        (one for one in _subclasses(AccError) if one.code == ended.detail.get("code")), AccError
    )
    error = kind.__new__(kind, ended.text)
    for name, value in ended.detail.get("fields", {}).items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error


def _subclasses(kind: type[AccError]) -> list[type[AccError]]:
    """Return the subclasses of a class, those with the code of their parent last."""
    found = [kind]
    for one in kind.__subclasses__():
        found += _subclasses(one)
    return found
