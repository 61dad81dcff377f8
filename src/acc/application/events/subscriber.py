"""Run an agent once for every event of a subscription."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from acc.application.contracts.intents import contracts_of
from acc.application.events.cloud_events import (
    EVENT_METADATA,
    decode_cloud_event,
    event_document,
    event_key,
)
from acc.application.memory.messages import unknown_outcome
from acc.application.runtime.json_types import encode_json
from acc.application.runtime.run import EventRecorder
from acc.application.runtime.runner import SessionRunner
from acc.application.tracing import conventions as names
from acc.application.tracing.spans import TRACE_PARENT
from acc.domain.errors import (
    AccError,
    CarrierFailed,
    InvalidInput,
    NothingPending,
    SessionBusy,
    SessionWaiting,
    StorageFailed,
)
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.flow import UNTRUSTED_METADATA
from acc.domain.value_objects.run import CallContext, RunStatus, trace_of_parent
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.event_ports import (
    DELIVERY_LEASE_SECONDS,
    DeadLetter,
    DeadLetterPort,
    EventDelivery,
    EventSubscriptionPort,
)
from acc.ports.outbound.storage_ports import BeginTurn, SessionStorePort, TurnStart

log = logging.getLogger("acc.run")
#: The user whose sessions have the runs of events.
EVENTS_USER_ID = "events"
DEFAULT_CONCURRENCY = 4
#: An event whose run did not end after so many deliveries is a dead letter.
MAX_ATTEMPTS = 10
_WAIT_SECONDS = 1.0
#: Long enough that waiting for the lease of a dead process uses few of the attempts.
_BUSY_SECONDS = 5.0
_MAX_BACKOFF_SECONDS = 30.0
_MAX_REASON_LENGTH = 1_000
#: How often the backlog is counted for the metrics.
_COUNT_INTERVAL_SECONDS = 5.0
#: Of a body that is no event; the rest is cut off.
_MAX_LETTER_BYTES = 256 * 1024
_ENDED_WITH_FAILURE = frozenset({RunStatus.FAILED, RunStatus.CANCELED, RunStatus.REJECTED})


class EventOutcome(StrEnum):
    """What became of a delivery."""

    COMPLETED = "completed"
    WAITING = "waiting"
    REPEATED = "repeated"
    POSTPONED = "postponed"
    DEAD_LETTER = "dead_letter"


#: Outcomes of deliveries whose event still has to be handled.
FAILED_OUTCOMES = frozenset({EventOutcome.POSTPONED, EventOutcome.DEAD_LETTER})


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledEvent:
    """A delivery that was handled, for logs and the command line."""

    outcome: EventOutcome
    event: CloudEvent | None
    key: str
    text: str


class HandledObserver(Protocol):
    """Receives the outcome of every delivery."""

    def on_handled(self, handled: HandledEvent) -> None:
        """Receive the outcome of one delivery."""
        ...


class EventSubscriber:
    """Runs an agent for the events of a subscription, each event in a session of its own.

    The id of the session follows from source and id of the event, and its message is stored only
    if the session has none. So an event that is delivered again starts nothing: a run that ended is
    acknowledged, and one whose process died is resumed by replay. If a tool call of a resumed run
    was started and has no recorded result, the event becomes a dead letter, whatever the run said.
    """

    def __init__(
        self,
        runner: SessionRunner,
        subscription: EventSubscriptionPort,
        letters: DeadLetterPort,
        *,
        name: str,
        concurrency: int = DEFAULT_CONCURRENCY,
        lease: float = DELIVERY_LEASE_SECONDS,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        if concurrency < 1:
            raise InvalidInput(f"concurrency must be at least 1, got {concurrency}")
        self._runner = runner
        self._subscription = subscription
        self._letters = letters
        self._name = name
        self._concurrency = concurrency
        self._lease = lease
        self._max_attempts = max_attempts
        self._in_flight: dict[str, EventDelivery] = {}
        self._failed = 0
        self._changed = asyncio.Event()
        self._is_stopping = False
        self._backlog = 0
        self._tracer = runner.services.tracer
        if self._tracer is not None:
            self._tracer.watch(names.METRIC_EVENT_BACKLOG, self, lambda own: own._backlog)
            self._tracer.watch(names.METRIC_EVENTS_IN_FLIGHT, self, lambda own: len(own._in_flight))

    def stop(self) -> None:
        """Receive no further events; `run` returns when the current runs have ended."""
        self._is_stopping = True
        self._changed.set()

    async def run(
        self, *, until_idle: bool = False, observer: HandledObserver | None = None
    ) -> int:
        """Handle events until `stop`, or with `until_idle` until there are no more.

        Return how many deliveries did not lead to a run that ended well or waits. With `until_idle`
        a carrier that fails is an error. Without, it is logged and the subscriber tries again.
        """
        failures = 0
        failure: AccError | None = None
        self._failed = 0
        async with asyncio.TaskGroup() as group:
            background = group.create_task(self._run_background())
            while not self._is_stopping:
                free = self._concurrency - len(self._in_flight)
                if free <= 0:
                    await self._wait_for_change()
                    continue
                try:
                    wait = 0.0 if until_idle else _WAIT_SECONDS
                    deliveries = await self._subscription.receive(limit=free, wait=wait)
                    failures = 0
                except (CarrierFailed, StorageFailed) as error:
                    if until_idle:
                        failure = error
                        break
                    failures += 1
                    log.warning("events cannot be received, trying again: %s", error)
                    await asyncio.sleep(min(2.0**failures / 10, _MAX_BACKOFF_SECONDS))
                    continue
                for delivery in deliveries:
                    self._in_flight[delivery.token] = delivery
                    group.create_task(self._handle_and_report(delivery, observer))
                if until_idle and not deliveries:
                    if not self._in_flight:
                        break
                    await self._wait_for_change()
            while self._in_flight:
                await self._wait_for_change()
            background.cancel()
        if failure is not None:
            raise failure
        return self._failed

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    async def _run_background(self) -> None:
        """Renew leases and count events while the subscriber runs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._extend())
            if self._tracer is not None:
                group.create_task(self._count_backlog())

    async def _extend(self) -> None:
        """Renew the leases of deliveries for as long as their runs last."""
        while True:
            await asyncio.sleep(self._lease / 3)
            for delivery in list(self._in_flight.values()):
                try:
                    await self._subscription.extend(delivery)
                except AccError as error:  # the delivery is repeated, which starts nothing
                    log.warning("the lease of an event cannot be extended: %s", error)

    async def _count_backlog(self) -> None:
        """Count the events that are not handled yet, for the metrics."""
        while True:
            try:
                self._backlog = await self._subscription.backlog()
            except AccError as error:
                log.warning("cannot count the events of the subscription: %s", error)
            await asyncio.sleep(_COUNT_INTERVAL_SECONDS)

    async def _handle_and_report(
        self, delivery: EventDelivery, observer: HandledObserver | None
    ) -> None:
        try:
            handled = await self.handle(delivery)
            self._failed += handled.outcome in FAILED_OUTCOMES
            if self._tracer is not None:
                labels = {names.ACC_EVENT_OUTCOME: handled.outcome.value}
                self._tracer.count(names.METRIC_EVENT_DELIVERIES, labels)
            if observer is not None:
                observer.on_handled(handled)
        except AccError as error:
            # The carrier or the store failed. The lease expires and the event is delivered again.
            self._failed += 1
            log.warning("an event could not be handled and will be delivered again: %s", error)
        except Exception:
            # The runs of other events go on; after some deliveries the event is a dead letter.
            self._failed += 1
            log.exception("an event could not be handled and will be delivered again")
        finally:
            self._in_flight.pop(delivery.token, None)
            self._changed.set()

    async def handle(self, delivery: EventDelivery) -> HandledEvent:
        """Run the agent for a delivery unless the event was handled before."""
        try:
            event = decode_cloud_event(delivery.body)
        except InvalidInput as error:
            return await self._bury(delivery, None, str(error))
        key = self._runner.session_key(EVENTS_USER_ID, f"event-{event_key(event)}")
        try:
            if delivery.attempts > self._max_attempts and not await self._has_ended(key):
                # The process may have died each time, perhaps because of this event.
                reason = f"the run did not end in {self._max_attempts} deliveries of the event"
                return await self._bury(delivery, event, reason)
            run = await self._run_once(key, event)
        except (_InUse, SessionBusy):
            # Another process runs it, or has died and its lease will expire.
            await self._subscription.postpone(delivery, seconds=_BUSY_SECONDS)
            return _handled(EventOutcome.POSTPONED, event, "another process runs it")
        except AccError as error:
            failed = await self._failure(key, error)
            if not failed and delivery.attempts < self._max_attempts:
                seconds = min(2.0**delivery.attempts, _MAX_BACKOFF_SECONDS)
                await self._subscription.postpone(delivery, seconds=seconds)
                return _handled(EventOutcome.POSTPONED, event, str(error))
            return await self._bury(delivery, event, failed or str(error))
        if run.problem:
            return await self._bury(delivery, event, run.problem)
        await self._subscription.acknowledge(delivery)
        return run.handled(event)

    async def dead_letters(self, *, limit: int = 100) -> Sequence[DeadLetter]:
        """Return the dead letters of the subscription, oldest first."""
        return await self._letters.dead_letters(self._name, limit=limit)

    async def replay(self, letter: DeadLetter) -> HandledEvent:
        """Run the agent again for a dead letter, as the next turn of its session.

        A run that did not end is resumed instead, and an event that was handled in the meantime
        starts nothing. The letter is deleted if the run completes or waits for input, and replaced
        if it fails.
        """
        event = decode_cloud_event(letter.body)
        key = self._runner.session_key(EVENTS_USER_ID, f"event-{letter.key}")
        session = await self._runner.services.sessions.read(key)
        turns = 0
        if session is not None and session.status is not RunStatus.WORKING:
            turns = session.turns if await self._problem(session) else 0
        try:
            run = await self._run_once(key, event, turns=turns)
        except (_InUse, SessionBusy):
            return _handled(EventOutcome.POSTPONED, event, "another process runs it")
        except AccError as error:
            run = _EventRun(RunStatus.FAILED, str(error), True, str(error))
        if run.problem:
            await self._add_letter(letter.key, letter.body, run.problem)
            return _handled(EventOutcome.DEAD_LETTER, event, run.problem)
        await self._letters.delete_dead_letter(self._name, letter.key)
        return run.handled(event)

    async def discard(self, letter: DeadLetter) -> bool:
        """Delete a dead letter without a run; return False if there is none."""
        return await self._letters.delete_dead_letter(self._name, letter.key)

    async def _run_once(self, key: SessionKey, event: CloudEvent, *, turns: int = 0) -> "_EventRun":
        """Start the run of an event if its session has so many turns, or resume the last run."""
        user_id, session_id, context = key.user_id, key.session_id, context_of(event)
        sessions = self._runner.services.sessions
        try:
            result = await self._runner.run(
                self._message(event),
                user_id=user_id,
                session_id=session_id,
                context=context,
                recorder=_NextTurnRecorder(sessions, turns=turns),
            )
        except _AlreadyStarted as started:
            session, is_new = started.session, False
            if session.status is RunStatus.WORKING:
                try:
                    # The lease was free, so the process that started the run is dead.
                    result = await self._runner.resume(
                        user_id=user_id, session_id=session_id, context=context
                    )
                except (NothingPending, SessionWaiting):  # another process was faster
                    raise _InUse from None
                session, is_new = replace(session, status=result.status), True
            text = result.text if is_new else await self._reason(session)
            return _EventRun(session.status, text, is_new, await self._problem(session))
        problem = result.text or f"the run ended as {result.status}"
        has_failed = result.status in _ENDED_WITH_FAILURE
        return _EventRun(result.status, result.text, True, problem if has_failed else "")

    async def _problem(self, session: Session) -> str:
        """Return why a person must look at the last run of a session, empty if nobody must."""
        results = await self._runner.services.sessions.events(
            session.key, run_id=session.run_id, kinds={EventKind.TOOL_RESULT}
        )
        unknown = {
            result.name
            for event in results
            if (result := event.result) is not None
            and result.is_error
            and result.content == {"error": unknown_outcome(result.name)}
        }
        reasons = []
        if session.status in _ENDED_WITH_FAILURE:
            reasons.append(await self._reason(session) or f"the run ended as {session.status}")
        if unknown:
            names = ", ".join(sorted(unknown))
            reasons.append(
                f"the outcome of {names} is unknown, because the process died during the call: "
                "check what was done, then replay or discard the event"
            )
        return "; ".join(reasons)

    def _message(self, event: CloudEvent) -> tuple[Part, ...]:
        has_intents = next(contracts_of(self._runner.agent), None) is not None
        return message_of(event, as_data=has_intents and isinstance(event.payload, Mapping))

    async def _has_ended(self, key: SessionKey) -> bool:
        """Return True if the run of an event has ended or waits for input."""
        session = await self._runner.services.sessions.read(key)
        if session is None or not session.turns:
            return False
        return session.status is not RunStatus.WORKING

    async def _failure(self, key: SessionKey, error: AccError) -> str:
        """Return why the run of an event has failed, empty if it may still succeed."""
        session = await self._runner.services.sessions.read(key)
        if session is None or not session.turns:
            # Invalid input is refused before the run starts, every time.
            return str(error) if isinstance(error, InvalidInput) else ""
        return await self._problem(session) if session.status in _ENDED_WITH_FAILURE else ""

    async def _reason(self, session: Session) -> str:
        ended = await self._runner.services.sessions.events(
            session.key, kinds={EventKind.ENDED}, newest_first=True, limit=1
        )
        return ended[0].text if ended else ""

    async def _bury(
        self, delivery: EventDelivery, event: CloudEvent | None, reason: str
    ) -> HandledEvent:
        """Store a dead letter, then end the delivery."""
        key = f"invalid-{delivery.token}" if event is None else event_key(event)
        await self._add_letter(key, delivery.body, reason)
        await self._subscription.acknowledge(delivery)
        return HandledEvent(outcome=EventOutcome.DEAD_LETTER, event=event, key=key, text=reason)

    async def _add_letter(self, key: str, body: bytes, reason: str) -> None:
        reason = replace_surrogates(reason).replace("\0", "")[:_MAX_REASON_LENGTH]
        letter = DeadLetter(
            key, body[:_MAX_LETTER_BYTES], reason, self._runner.services.clock.now()
        )
        await self._letters.add_dead_letter(self._name, letter)


def message_of(event: CloudEvent, *, as_data: bool = False) -> tuple[Part, ...]:
    """Return the message that an agent gets for an event: a line of text and the payload.

    The payload is JSON text, or with `as_data` JSON data, the inputs of an intent.
    """
    payload = event.payload
    # Others wrote it, which matters to the information-flow policy.
    mark = {UNTRUSTED_METADATA: True, EVENT_METADATA: event_document(event)}
    if as_data:
        return (Part(data=payload, metadata=mark),)
    text = replace_surrogates(f"Event {event.type} from {event.source}:\n")
    content = payload if isinstance(payload, str) else encode_json(payload)
    return (Part(text=text), Part(text=replace_surrogates(content), metadata=mark))


def context_of(event: CloudEvent) -> CallContext:
    """Return the context of a run of an event, which continues the trace of the publisher."""
    return CallContext(
        request_id=event.id,
        trace_id=trace_of_parent(event.traceparent) or event.trace_id or event.id,
        caller=f"event://{event.source.lstrip('/')}",
        message_id=event.id,
        metadata={TRACE_PARENT: event.traceparent},
    )


def _handled(outcome: EventOutcome, event: CloudEvent, text: str) -> HandledEvent:
    return HandledEvent(outcome=outcome, event=event, key=event_key(event), text=text)


class _EventRun(NamedTuple):
    """How the run of an event ended; `is_new` if it ended just now.

    `problem` says why a person must look at it.
    """

    status: RunStatus
    text: str
    is_new: bool
    problem: str

    def handled(self, event: CloudEvent) -> HandledEvent:
        """Return what became of a delivery whose run has no problem."""
        if not self.is_new:
            return _handled(EventOutcome.REPEATED, event, "it was handled before")
        is_waiting = self.status is RunStatus.INPUT_REQUIRED
        outcome = EventOutcome.WAITING if is_waiting else EventOutcome.COMPLETED
        return _handled(outcome, event, self.text)


class _AlreadyStarted(Exception):
    """The session of an event has another run."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.session_id)
        self.session = session


class _InUse(Exception):
    """Another process has the session of an event."""


class _NextTurnRecorder(EventRecorder):
    """Starts a run only in a session with `turns` turns; does not wait while it is in use."""

    def __init__(self, sessions: SessionStorePort, *, turns: int) -> None:
        super().__init__(sessions)
        self._turns = turns

    async def _begin(self, turn: BeginTurn) -> TurnStart:
        # The lease is held from here on, so no other process can start a run.
        try:
            session = await self._sessions.open(turn.key, holder=turn.holder)
        except SessionBusy:
            raise _InUse from None
        if session.turns != self._turns:
            raise _AlreadyStarted(session)
        return await super()._begin(turn)
