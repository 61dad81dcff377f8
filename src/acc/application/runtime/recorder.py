"""Store the events of a run, then show them to its observer."""

from collections.abc import Sequence
from typing import Protocol

from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import (
    BeginTurn,
    SessionStorePort,
    TurnStart,
)


class RunObserver(Protocol):
    """Follows a run, which waits for each call."""

    @property
    def wants_deltas(self) -> bool:
        """Return True if model responses are to be streamed."""
        ...

    async def on_event(self, event: Event) -> None:
        """Receive an event; one that is stored has been stored before."""
        ...


class EventRecorder:
    """Stores the events of one run and collects them.

    `begin` or `attach` comes first. A subclass may store more in the same transaction by overriding
    `_begin` and `_append`, and receive the events by overriding `_show`.
    """

    def __init__(self, sessions: SessionStorePort, observer: RunObserver | None = None) -> None:
        self._sessions = sessions
        self._observer = observer
        self._key: SessionKey
        self._holder: str
        self._deferred: tuple[Event, ...] = ()
        self.events: list[Event] = []
        #: Number of the last stored event of the session.
        self.last_seq = 0
        #: Whether events are shown to somebody.
        self.is_observed = observer is not None
        #: Whether the lease of the session ended with the last event.
        self.is_released = False

    @property
    def wants_deltas(self) -> bool:
        """Return True if model responses are to be streamed."""
        return self._observer is not None and self._observer.wants_deltas

    def detach_observer(self) -> None:
        """Stop showing events; they are still stored."""
        self._observer = None
        self.is_observed = False

    def attach(self, session: Session, *, holder: str) -> None:
        """Append to a session whose lease the holder has acquired."""
        self._key, self._holder, self.last_seq = session.key, holder, session.seq

    async def begin(self, turn: BeginTurn) -> TurnStart:
        """Open the session of a turn and store its message; `show` the events afterwards."""
        self._key, self._holder = turn.key, turn.holder
        start = await self._begin(turn)
        self.last_seq = start.events[-1].seq if start.events else start.session.seq
        return start

    async def record(self, *events: Event, release: bool = False) -> tuple[Event, ...]:
        """Store events together with the deferred ones, all or none, then show and return them.

        `release` ends the lease of the session in the same transaction.
        """
        if self._deferred:
            events, self._deferred = (*self._deferred, *events), ()
        stored = await self._append(events, release=release)
        self.last_seq += len(stored)
        self.is_released = release
        self.events += stored
        if self.is_observed:
            await self._show(stored)
        return stored

    def defer(self, event: Event) -> None:
        """Store an event together with the next one, which must follow immediately."""
        self._deferred = (*self._deferred, event)

    async def show(self, *events: Event) -> None:
        """Show events that are not stored, or that `begin` has stored."""
        if self._deferred:
            await self.record()  # keep the order of the events
        self.events += events
        if self.is_observed:
            await self._show(events)

    async def _show(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._observer is not None:
                await self._observer.on_event(event)

    async def _begin(self, turn: BeginTurn) -> TurnStart:
        return await self._sessions.begin_turn(
            turn.key, turn.message, holder=turn.holder, agent=turn.agent
        )

    async def _append(self, events: Sequence[Event], *, release: bool) -> tuple[Event, ...]:
        return await self._sessions.append(self._key, events, holder=self._holder, release=release)
