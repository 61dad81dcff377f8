"""One turn of a session: open it, run the tree, record all that happens, close it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import can_keep_conversation
from acc.application.agents.remote import cancel_waiting
from acc.application.runtime.agent_memory import tell_memories
from acc.application.runtime.context import RunContext, RunResult, check_readable
from acc.application.runtime.inputs import Message, checked_answers, message_parts
from acc.application.runtime.interrupts import REJECTIONS, RunPaused, why_rejected
from acc.application.runtime.leases import SessionLeases
from acc.application.runtime.replay import (
    BEGINNINGS_TOLD,
    as_answers,
    check_begun_by,
    check_heard,
    last_pause,
    paused_detail,
    requests_waiting,
    resumed_terms,
    settle,
    state_before,
)
from acc.application.runtime.run import Branch, Foreseen, Run, RunObserver, Services, check_terms
from acc.application.runtime.state import State
from acc.domain.errors import (
    AccError,
    AgentFailed,
    InvalidInput,
    NothingPending,
    RunTimedOut,
    SessionWaiting,
)
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer, InputRequest
from acc.domain.value_objects.content import text_of, text_part
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventActions, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig, RunStatus
from acc.domain.value_objects.session import Session, SessionKey, StoredArtifact

log = logging.getLogger("acc.run")
#: Who keeps the conversation after a transfer.
ACTIVE_AGENT = "_active_agent"
_CHANNEL_SIZE = 256
_OF_THE_USER = frozenset({EventKind.MESSAGE, EventKind.INPUT})
_ANSWERS = msgspec.json.Decoder(tuple[InputAnswer, ...])
_ALL_ANSWERED = "as all is answered; resume() without answers goes on with an interrupted run"
Channel = asyncio.Queue[Event | None]
T = TypeVar("T")


class _Begun(NamedTuple):
    """A session as it was, what a turn of it began with, and what was stored along with that."""

    session: Session
    events: tuple[Event, ...]
    foreseen: Foreseen | None


class SessionRunner:
    """Runs one tree of agents for the sessions of one application."""

    def __init__(
        self,
        agent: BaseAgent,
        *,
        app_name: str,
        services: Services,
        config: RunConfig | None = None,
        busy_timeout: float = 300.0,
    ) -> None:
        if not isinstance(agent, BaseAgent):
            raise InvalidInput(f"{agent!r} is no agent")
        if agent.parent is not None:
            raise InvalidInput(
                f"{agent.name!r} is a sub-agent of {agent.parent.name!r}; run the root of its tree"
            )
        check_terms(agent, config, None)
        self.agent = agent
        self.app_name = app_name
        self.services = services
        self.config = config or RunConfig()
        self._holding = SessionLeases(services.sessions, busy_timeout=busy_timeout)

    async def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Message,
        config: RunConfig | None = None,
        context: CallContext | None = None,
        listen: RunObserver | None = None,
    ) -> RunResult:
        """Run one turn and return its answer; a failure is raised once it is on record.

        A run that has to wait for a person returns with status input_required and the requests.
        """
        run = self._new_run(user_id, session_id, config, context)
        run.listen_with(listen)
        return await self._turn(run, message)

    async def resume(
        self,
        *,
        user_id: str,
        session_id: str,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        config: RunConfig | None = None,
        context: CallContext | None = None,
        listen: RunObserver | None = None,
    ) -> RunResult:
        """Go on with a run that waits, given answers to its requests, in any process."""
        run = self._new_run(user_id, session_id, config, context)
        run.listen_with(listen)
        given = as_answers(answers)
        return await self._hold(
            run, lambda session: self._resumed(run, session, given, (config, context))
        )

    async def stream(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Message | None = None,
        answers: InputAnswer | Iterable[InputAnswer] = (),
        config: RunConfig | None = None,
        context: CallContext | None = None,
    ) -> AsyncIterator[Event]:
        """Give the events of a turn, or of a resumed run, as they happen.

        Every event that is not partial has been stored before it is given. Whoever stops listening
        cancels the run.
        """
        run = self._new_run(user_id, session_id, config, context)
        run.streaming = True
        given = as_answers(answers)
        if message is not None and given:
            raise InvalidInput("stream a message or the answers of a run that waits, not both")

        async def work() -> None:
            if message is not None:
                await self._turn(run, message)
            else:
                await self._hold(run, lambda s: self._resumed(run, s, given, (config, context)))

        channel: Channel = asyncio.Queue(_CHANNEL_SIZE)
        run.listen = channel.put

        async def produce() -> None:
            try:
                await work()
            finally:
                run.listen = None

        # Not a task group: yielding inside one breaks cancellation (PEP 789). The generator owns
        # the task and does not end before it has.
        task = asyncio.get_running_loop().create_task(produce())
        # Whoever waits for a further event finds the channel empty, so there is room for the news.
        task.add_done_callback(lambda _: None if channel.full() else channel.put_nowait(None))
        try:
            while not (task.done() and channel.empty()):
                event = await channel.get()
                if event is not None:
                    yield event
            await task
        finally:
            await _ended(run, task, channel)

    async def pending(self, *, user_id: str, session_id: str) -> tuple[InputRequest, ...]:
        """Return the requests that a session waits on, none if it does not wait."""
        key = self._key(user_id, session_id)
        session = await self.services.sessions.read(key)
        if session is None or session.status is not RunStatus.INPUT_REQUIRED:
            return ()
        events = await self.services.sessions.events(key, run_id=session.run_id)
        return requests_waiting(events)

    async def abandon(self, *, user_id: str, session_id: str, reason: str = "") -> None:
        """Give up a run that waits, so that the session can take another message."""
        run = self._new_run(user_id, session_id, None, None)
        if await self.services.sessions.read(run.key) is None:
            raise NothingPending(f"there is no session {session_id!r} to give up a run of")

        async def give_up(session: Session) -> None:
            self._check_waits(session)
            run.run_id = session.run_id
            run.seq = session.seq
            for agent in self.agent.walk():  # their memories have seen what now never was
                self.services.shelf.forget(run.key, agent.name)
            await self._end(run, RunStatus.CANCELED, reason or "abandoned")

        await self._hold(run, give_up)

    async def state(self, *, user_id: str, session_id: str) -> Mapping[str, Any]:
        """Return the state of a session, with that of its user and app."""
        session = await self.services.sessions.read(self._key(user_id, session_id))
        return {} if session is None else session.state

    async def update_state(
        self, values: Mapping[str, Any], *, user_id: str, session_id: str
    ) -> None:
        """Write to a session's state from outside a run, for instance before its first message."""
        if not isinstance(values, Mapping):
            raise InvalidInput(f"the state takes a mapping from keys to values, not {values!r}")
        run = self._new_run(user_id, session_id, None, None)

        async def write(session: Session) -> None:
            state = State(session.state)
            state.update(values)
            delta, removed = state.take()
            run.seq += 1
            actions = EventActions(state_delta=delta, state_removed=removed)
            await run.record(self._event(run, EventKind.STATE, actions=actions))

        await self._hold(run, write)

    async def load_artifact(
        self, name: str, *, user_id: str, session_id: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a file that the agents of a session keep, the newest version if none is named."""
        key = self._key(user_id, session_id)
        return await self.services.artifacts.load(key, name, version)

    async def events(
        self, *, user_id: str, session_id: str, after: int = 0, limit: int | None = None
    ) -> tuple[Event, ...]:
        """Return the stored events of a session, in order."""
        key = self._key(user_id, session_id)
        return await self.services.sessions.events(key, after=after, limit=limit)

    async def aclose(self) -> None:
        """Let go of the store, and of what models and MCP servers hold open."""
        await self.services.aclose()

    def _key(self, user_id: str, session_id: str) -> SessionKey:
        return SessionKey(app_name=self.app_name, user_id=user_id, session_id=session_id)

    def _new_run(
        self,
        user_id: str,
        session_id: str,
        config: RunConfig | None,
        context: CallContext | None,
    ) -> Run:
        if config is not None or context is not None:
            check_terms(self.agent, config, context)
        key = self._key(user_id, session_id)
        run_id = self.services.ids.new()
        if context is None:
            context = CallContext(request_id=run_id, trace_id=run_id, caller=f"user://{user_id}")
        return Run(
            services=self.services,
            key=key,
            root=self.agent,
            config=config or self.config,
            call=context,
            run_id=run_id,
        )

    async def _hold(self, run: Run, work: Callable[[Session], Awaitable[T]]) -> T:
        """Do work while holding the session."""
        session = await self._holding.take(run.key, run.holder)
        try:
            run.seq = session.seq
            return await work(session)
        finally:
            await self._holding.give_back(run.key, run.holder, released=run.is_released)

    async def _turn(self, run: Run, message: Message) -> RunResult:
        """Open the session with a message of the user, and answer it."""
        run.message = message_parts(message)
        begun = await self._holding.take_by(run.key, run.holder, lambda: self._opened(run))
        try:
            await self._begin(run, begun)
            return await self._drive(run, State(begun.session.state))
        finally:
            await self._holding.give_back(run.key, run.holder, released=run.is_released)

    async def _opened(self, run: Run) -> "_Begun":
        """Open the session and put on record what a turn begins with, in one go."""
        told = self._event(run, EventKind.MESSAGE, parts=run.message)
        foreseen = run.foreseen((told,))
        try:
            session, events = await self.services.sessions.begin(
                run.key,
                lambda session: self._first(run, session, told),
                holder=run.holder,
                along=None if foreseen is None else foreseen.along,
            )
        except asyncio.CancelledError:
            await self._end_unseen(run)
            raise
        return _Begun(session, events, foreseen)

    def _first(self, run: Run, session: Session, told: Event) -> tuple[Event, ...]:
        """Return what is put on record when a message comes; nothing where a person is awaited."""
        if session.status is RunStatus.INPUT_REQUIRED:
            return ()
        seq, turn = session.seq + 1, {"turn": session.turns + 1}
        if session.status is not RunStatus.WORKING:
            return (replace(told, seq=seq, detail=turn),)
        # Its process died in the middle of that run, to which an end is put.
        ended = self._event(
            run,
            EventKind.ENDED,
            status=RunStatus.FAILED,
            parts=text_part("the process was interrupted"),
            detail={"code": "interrupted"},
        )
        ended = replace(ended, run_id=session.run_id, seq=seq)
        return (ended, replace(told, seq=seq + 1, detail=turn))

    async def _end_unseen(self, run: Run) -> None:
        """Put an end to a turn that was cancelled while the store began it."""
        session = await self.services.sessions.read(run.key)
        if session is not None and session.run_id == run.run_id:
            run.seq = session.seq
            await self._end(run, RunStatus.CANCELED, "canceled")

    async def _begin(self, run: Run, begun: "_Begun") -> None:
        """Show what a turn began with; whoever cancels that has begun it all the same."""
        session, events, foreseen = begun
        if not events:
            raise SessionWaiting(
                f"session {run.key.session_id!r} waits for a person: answer with resume(...), or "
                "give the waiting run up with abandon(...); resume() without answers goes on with "
                "a run that was interrupted"
            )
        run.seq = run.first_seq = events[-1].seq
        run.turn_id = session.turns + 1
        await self._unless_canceled(run, run.tell(events, foreseen))

    async def _unless_canceled(self, run: Run, beginning: Awaitable[None]) -> None:
        try:
            await beginning
        except asyncio.CancelledError:
            await self._end(run, RunStatus.CANCELED, "canceled")
            raise

    async def _resumed(
        self,
        run: Run,
        session: Session,
        answers: Sequence[InputAnswer],
        given_anew: tuple[RunConfig | None, CallContext | None],
    ) -> RunResult:
        self._check_waits(session)
        run.run_id = session.run_id
        events = await self.services.sessions.events(run.key, run_id=run.run_id)
        paused = last_pause(events)
        run.take_over(*resumed_terms(paused.detail, self.config, *given_anew))
        run.load_journal(events)
        first = events[0]
        run.message, run.turn_id, run.first_seq = first.parts, first.detail["turn"], first.seq
        state = state_before(session.state, events, paused)
        check_begun_by(run, self._start(state).name)
        given = self._checked(run, requests_waiting(events), answers)
        run.fresh = frozenset(given)
        run.answers |= given
        inputs: list[Event] = []
        for answer in given.values():
            run.seq += 1
            told = self._event(run, EventKind.INPUT, answer=answer, detail=BEGINNINGS_TOLD)
            inputs.append(told)
        if inputs:
            await self._unless_canceled(run, run.record(*inputs))
        return await self._drive(run, state)

    def _checked(
        self, run: Run, waiting: Sequence[InputRequest], answers: Sequence[InputAnswer]
    ) -> dict[str, InputAnswer]:
        """Return the answers that count, by request; what came too late is a no."""
        if not all(isinstance(answer, InputAnswer) for answer in answers):
            raise InvalidInput("an answer is what approve(...) or deny(...) returns")
        check_readable(answers, _ANSWERS, "this answer")
        known = {request.id: request for request in waiting}
        given: dict[str, InputAnswer] = {}
        for answer in answers:
            if answer.request_id in given:
                raise NothingPending(f"{answer.request_id!r} is answered twice; once is enough")
            if answer.request_id not in known:
                asked = f"only for {', '.join(known)}" if known else _ALL_ANSWERED
                raise NothingPending(f"nobody waits for {answer.request_id!r}, {asked}")
            given[answer.request_id] = answer
        now = self.services.clock.now()
        for request in waiting:
            if request.expires_at is not None and now >= request.expires_at:
                given[request.id] = InputAnswer(
                    request_id=request.id, verdict=ApprovalDecision.EXPIRED
                )
        good = checked_answers(self.agent, waiting, given.values(), self.services.schemas)
        return {answer.request_id: answer for answer in good}

    def _check_waits(self, session: Session) -> None:
        if session.status is not RunStatus.INPUT_REQUIRED:
            last = f"its last run is {session.status.value}" if session.run_id else "it had no run"
            raise NothingPending(f"session {session.key.session_id!r} waits for nothing; {last}")

    async def _drive(self, run: Run, state: State) -> RunResult:
        """Run the tree to its end, and put on record how it ended."""
        status, text = RunStatus.FAILED, "the process was interrupted"
        requests: tuple[InputRequest, ...] = ()
        detail: dict[str, Any] = {}
        try:
            try:
                text = await self._run_tree(run, state)
                status = RunStatus.COMPLETED
            except RunPaused as pause:
                status, text, requests = RunStatus.INPUT_REQUIRED, "", pause.requests
                settle(run, state)
                detail = paused_detail(run, state, requests)
            except REJECTIONS as rejected:
                status, text = RunStatus.REJECTED, f"rejected: {why_rejected(rejected)}"
                settle(run, state)
            except asyncio.CancelledError:
                status, text = RunStatus.CANCELED, "canceled"
                run.listen = None  # nobody may be there to make room for a further event
                raise
            except AccError as error:
                text, detail = str(error), {"code": error.code}
                raise
        finally:
            if status is not RunStatus.INPUT_REQUIRED and status is not RunStatus.COMPLETED:
                for name in run.taken:
                    self.services.shelf.forget(run.key, name)
            await self._close(run, status, text, detail, state)
        if status is RunStatus.COMPLETED:
            await tell_memories(run)
        return RunResult(
            run_id=run.run_id,
            status=status,
            text=text,
            events=tuple(run.events),
            state=state.copy(),
            usage=run.ledger.usage,
            requests=requests,
        )

    async def _run_tree(self, run: Run, state: State) -> str:
        start = self._start(state)
        said = text_of(run.message)
        top = RunContext(run, self.agent, Branch(state), path="", message=said)
        if run.config.timeout is None:
            done = await top.run_agent(start)
        else:
            ends = asyncio.get_running_loop().time() + run.config.timeout
            try:
                async with asyncio.timeout_at(ends) as bound:
                    done = await top.run_agent(start)
            except TimeoutError as error:
                if not bound.expired():
                    raise AgentFailed(start.name, "TimeoutError") from error
                raise RunTimedOut("timeout", run.config.timeout, start.name) from None
            # Somebody blocked, or swallowed the cancellation: Python 3.11 traces no line here then.
            if asyncio.get_running_loop().time() >= ends:  # pragma: no cover
                raise RunTimedOut("timeout", run.config.timeout, start.name)
        if run.journal:
            run.catch_up(top.line)
            check_heard(run)
        if done.agent is not start:
            self._remember_active(done.agent, state)
        return done.text

    def _start(self, state: State) -> BaseAgent:
        """Return who keeps the conversation, if a transfer gave it to someone, else the root."""
        name = state.get(ACTIVE_AGENT)
        found = self.agent.find(name) if isinstance(name, str) else None
        return found if found is not None and can_keep_conversation(found) else self.agent

    def _remember_active(self, agent: BaseAgent, state: State) -> None:
        if agent is not self.agent and can_keep_conversation(agent):
            state[ACTIVE_AGENT] = agent.name
        else:
            state.pop(ACTIVE_AGENT, None)

    async def _close(
        self, run: Run, status: RunStatus, text: str, detail: Mapping[str, Any], state: State
    ) -> None:
        """Put on record how a run ended; an answer that the store refuses is a failure."""
        try:
            await self._end(run, status, text, detail, state)
        except AccError as error:
            if status is RunStatus.COMPLETED and not run.is_released:
                for name in run.taken:
                    self.services.shelf.forget(run.key, name)
                await self._end(run, RunStatus.FAILED, str(error), {"code": error.code})
            raise

    async def _end(
        self,
        run: Run,
        status: RunStatus,
        text: str,
        detail: Mapping[str, Any] | None = None,
        state: State | None = None,
    ) -> None:
        actions = NO_ACTIONS
        if state is not None and status is RunStatus.COMPLETED and state.pending:
            delta, removed = state.take()
            actions = EventActions(state_delta=delta, state_removed=removed)
        if status is RunStatus.FAILED:
            # What the store refused took no number, so ours may be ahead.
            session = await self.services.sessions.read(run.key)
            run.seq = run.seq if session is None else session.seq + run.held
        run.seq += 1
        event = self._event(
            run,
            EventKind.ENDED,
            parts=text_part(text) if text else (),
            actions=actions,
            usage=run.ledger.usage,
            status=status,
            detail=dict(detail or {}),
        )
        # With the last event, for a store on a disk would have to be asked once more otherwise.
        await run.record(event, release=True)
        if status is not RunStatus.COMPLETED and status is not RunStatus.INPUT_REQUIRED:
            await cancel_waiting(run)
        if log.isEnabledFor(logging.INFO):
            call = run.call
            extra = {"trace_id": call.trace_id, "request_id": call.request_id, "status": status}
            log.info("run ended", extra={**extra, "run_id": run.run_id, "caller": call.caller})

    def _event(self, run: Run, kind: EventKind, **fields: Any) -> Event:
        call = run.call
        return Event(
            kind=kind,
            run_id=run.run_id,
            author="user" if kind in _OF_THE_USER else self.agent.name,
            seq=run.seq,
            at=self.services.clock.now(),
            request_id=call.request_id,
            trace_id=call.trace_id,
            caller=call.caller,
            **fields,
        )


async def _ended(run: Run, task: "asyncio.Task[None]", channel: Channel) -> None:
    """Cancel a producer that is still at work, and wait until it is gone."""
    run.listen = None
    while not channel.empty():
        channel.get_nowait()
    task.cancel()
    again: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            again = error  # the run is ours, so we leave once it has ended and not before
    if again is not None:
        raise again
