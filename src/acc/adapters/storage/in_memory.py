"""Session and artifact stores in memory, for tests and for data that may be lost."""

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from acc.adapters.storage.invariants import (
    encode,
    lease_lost,
    opening_events,
    session_busy,
    starts_run,
)
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey, StoredArtifact, scope_of
from acc.ports.outbound.storage_ports import TurnStart
from acc.ports.outbound.system_ports import ClockPort


class InMemorySessionStore:
    """Stores sessions until the process ends.

    No method awaits anything, so every call is atomic. Deleting a session also deletes its files
    from `artifacts`, if given.
    """

    def __init__(
        self,
        *,
        clock: ClockPort,
        lease: float = 30.0,
        artifacts: "InMemoryArtifactStore | None" = None,
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._artifacts = artifacts
        self._records: dict[SessionKey, _SessionRecord] = {}
        self._app_state: dict[str, dict[str, Any]] = {}
        self._user_state: dict[tuple[str, str], dict[str, Any]] = {}

    async def open(self, key: SessionKey, *, holder: str) -> Session:
        """Acquire the lease of a session and return it, created if it does not exist."""
        return self._acquire(key, holder, self._clock.now()).session(key)

    async def begin_turn(
        self, key: SessionKey, message: Event, *, holder: str, agent: str
    ) -> TurnStart:
        """Open a session and store the message that starts a run."""
        now = self._clock.now()
        record = self._acquire(key, holder, now)
        session = record.session(key)
        events = opening_events(session, message, agent)
        if events:
            _check_storable(events)
            record.add(events, now)
        return TurnStart(session, events)

    async def append(
        self, key: SessionKey, events: Sequence[Event], *, holder: str, release: bool = False
    ) -> tuple[Event, ...]:
        """Store events, all or none, apply their state deltas, and return them with numbers."""
        record = self._leased(key, holder)
        _check_storable(events)
        seq = len(record.events)
        numbered = tuple([replace(event, seq=seq + n) for n, event in enumerate(events, start=1)])
        now = self._clock.now()
        record.add(numbered, now)
        record.lease_until = now + self._lease
        if release:
            record.holder = None
        return numbered

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Extend the lease."""
        self._leased(key, holder).lease_until = self._clock.now() + self._lease

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """End the lease; does nothing if it is not held."""
        record = self._records.get(key)
        if record is not None and record.holder == holder:
            record.holder = None

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, leased or not."""
        record = self._records.get(key)
        return None if record is None else record.session(key)

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
        newest_first: bool = False,
    ) -> tuple[Event, ...]:
        """Return stored events in order that match all filters."""
        record = self._records.get(key)
        if record is None:
            return ()
        first = max(after, 0)
        last = len(record.events) if before is None else min(len(record.events), max(before - 1, 0))
        if run_id:
            first = max(first, record.first_of_run.get(run_id, len(record.events)))
        places = range(first, last)
        matches = (
            event
            for event in map(record.events.__getitem__, places[::-1] if newest_first else places)
            if (kinds is None or event.kind in kinds) and (not run_id or event.run_id == run_id)
        )
        return tuple(islice(matches, None if limit is None else max(limit, 0)))

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of a kind and author."""
        record = self._records.get(key)
        return None if record is None else record.newest.get((kind, author))

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions without state, most recently used first."""
        matches = [
            record.session(key, with_state=False)
            for key, record in self._records.items()
            if key.app_name == app_name and key.user_id == user_id
        ]
        matches.reverse()  # the younger of two sessions with the same time comes first
        return tuple(sorted(matches, key=lambda session: -session.updated_at))

    async def delete(self, key: SessionKey) -> None:
        """Delete a session, its events and artifacts; user and app state stay."""
        self._records.pop(key, None)
        if self._artifacts is not None:
            self._artifacts.delete(key)

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Delete sessions without a lease or use since a time; return those that stay."""
        now = self._clock.now()
        in_use: set[SessionKey] = set()
        for key in keys:
            record = self._records.get(key)
            if record is None:
                continue
            if record.updated_at >= since or record.is_leased(now):
                in_use.add(key)
            else:
                await self.delete(key)
        return frozenset(in_use)

    async def aclose(self) -> None:
        """Do nothing: there are no files or threads."""

    def _acquire(self, key: SessionKey, holder: str, now: float) -> "_SessionRecord":
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _SessionRecord(
                {
                    Scope.APP: self._app_state.setdefault(key.app_name, {}),
                    Scope.USER: self._user_state.setdefault((key.app_name, key.user_id), {}),
                    Scope.SESSION: {},
                },
                now,
            )
        elif record.holder != holder and record.is_leased(now):
            raise session_busy(key, record.holder)
        record.holder = holder
        record.lease_until = now + self._lease
        return record

    def _leased(self, key: SessionKey, holder: str) -> "_SessionRecord":
        record = self._records.get(key)
        if record is None or record.holder != holder:
            raise lease_lost(key, holder)
        return record


class InMemoryArtifactStore:
    """Stores versioned files until the process ends."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, ...], dict[str, list[StoredArtifact]]] = {}

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a new version and return its number, from 1."""
        versions = self._files.setdefault(_folder(key, name), {}).setdefault(name, [])
        versions.append(
            StoredArtifact(name=name, version=len(versions) + 1, media_type=media_type, data=data)
        )
        return len(versions)

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest by default."""
        versions = self._files.get(_folder(key, name), {}).get(name, [])
        wanted = len(versions) if version is None else version
        return versions[wanted - 1] if 1 <= wanted <= len(versions) else None

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        own, shared = _folder(key, ""), _folder(key, Scope.USER)
        return tuple(sorted([*self._files.get(own, ()), *self._files.get(shared, ())]))

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of a name."""
        return tuple(file.version for file in self._files.get(_folder(key, name), {}).get(name, ()))

    def delete(self, key: SessionKey) -> None:
        """Delete the files that belong to one session alone."""
        self._files.pop(_folder(key, ""), None)


class _SessionRecord:
    """A stored session: its events, the indexes over them, its state and its lease."""

    __slots__ = (
        "events",
        "first_of_run",
        "holder",
        "lease_until",
        "newest",
        "run_id",
        "scopes",
        "status",
        "turns",
        "updated_at",
    )

    def __init__(self, scopes: dict[Scope, dict[str, Any]], now: float) -> None:
        self.scopes = scopes
        self.events: list[Event] = []
        self.first_of_run: dict[str, int] = {}
        self.newest: dict[tuple[EventKind, str], Event] = {}
        self.turns = 0
        self.run_id = ""
        self.status = RunStatus.COMPLETED
        self.updated_at = now
        self.holder: str | None = None
        self.lease_until = 0.0

    def is_leased(self, now: float) -> bool:
        """Return True if a run holds the lease."""
        return self.holder is not None and self.lease_until > now

    def add(self, events: Sequence[Event], now: float) -> None:
        """Store numbered events and apply what they change."""
        self.updated_at = now
        for event in events:
            self.first_of_run.setdefault(event.run_id, len(self.events))
            self.events.append(event)
            self.newest[event.kind, event.author] = event
            if starts_run(event):
                self.turns += 1
                self.run_id = event.run_id
                self.status = RunStatus.WORKING
            elif event.kind is EventKind.ENDED and event.status is not None:
                self.status = event.status
            actions = event.actions
            if actions is NO_ACTIONS:
                continue
            for key, value in actions.state_delta.items():
                scope = scope_of(key)
                if scope is not Scope.TEMP:
                    self.scopes[scope][key] = value
            for key in actions.state_removed:
                scope = scope_of(key)
                if scope is not Scope.TEMP:
                    self.scopes[scope].pop(key, None)

    def session(self, key: SessionKey, *, with_state: bool = True) -> Session:
        """Return the session as a value with a copy of its state."""
        scopes = self.scopes
        return Session(
            key=key,
            state={**scopes[Scope.APP], **scopes[Scope.USER], **scopes[Scope.SESSION]}
            if with_state
            else {},
            seq=len(self.events),
            turns=self.turns,
            run_id=self.run_id,
            status=self.status,
            updated_at=self.updated_at,
        )


def _check_storable(events: Sequence[Event]) -> None:
    """Raise InvalidInput for events that a store on disk could not encode as JSON."""
    for event in events:
        # Only content of agents and tools can be invalid; the rest is made by the runtime.
        if event.actions is not NO_ACTIONS or (event.detail and event.step):
            encode((event.actions, event.detail), f"{event.kind.value} event of {event.author!r}")
        for part in event.parts:
            text = part.text
            if text is None or (not text.isascii() and replace_surrogates(text) is not text):
                encode(part, f"{event.kind.value} event of {event.author!r}")


def _folder(key: SessionKey, name: str) -> tuple[str, ...]:
    """Return the folder of a name: that of the user or that of the session."""
    if name.startswith(Scope.USER):
        return (key.app_name, key.user_id)
    return (key.app_name, key.user_id, key.session_id)
