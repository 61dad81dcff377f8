"""Sessions and artifacts in memory, for tests and for runs that may be forgotten."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from acc.adapters.storage.invariants import busy, encoded, not_held, out_of_order, starts_run
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey, StoredArtifact, scope_of
from acc.ports.outbound.storage_ports import AlongPort
from acc.ports.outbound.system_ports import ClockPort


class _Record:
    """A session as it is kept: its events, what is indexed of them, and where it stands."""

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

    def is_held(self, now: float) -> bool:
        """Tell whether someone has hold of the session."""
        return self.holder is not None and self.lease_until > now

    def add(self, event: Event) -> None:
        """Keep an event and apply what it changes."""
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
            return
        for key, value in actions.state_delta.items():
            scope = scope_of(key)
            if scope is not Scope.TEMP:
                self.scopes[scope][key] = value
        for key in actions.state_removed:
            scope = scope_of(key)
            if scope is not Scope.TEMP:
                self.scopes[scope].pop(key, None)

    def session(self, key: SessionKey, *, with_state: bool = True) -> Session:
        """Return the session as a value of the reader's own."""
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


class InMemoryArtifactStore:
    """Keeps versioned files until the process ends."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, ...], dict[str, list[StoredArtifact]]] = {}

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a further version and return its number, from 1 on."""
        versions = self._files.setdefault(_shelf(key, name), {}).setdefault(name, [])
        versions.append(
            StoredArtifact(name=name, version=len(versions) + 1, media_type=media_type, data=data)
        )
        return len(versions)

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest if none is named."""
        versions = self._files.get(_shelf(key, name), {}).get(name, [])
        wanted = len(versions) if version is None else version
        return versions[wanted - 1] if 1 <= wanted <= len(versions) else None

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        own, shared = _shelf(key, ""), _shelf(key, Scope.USER)
        return tuple(sorted([*self._files.get(own, ()), *self._files.get(shared, ())]))

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of one name."""
        return tuple(file.version for file in self._files.get(_shelf(key, name), {}).get(name, ()))

    def forget(self, key: SessionKey) -> None:
        """Drop what belongs to one session alone."""
        self._files.pop(_shelf(key, ""), None)


class InMemorySessionStore:
    """Keeps sessions until the process ends. Nothing here waits, so nothing is half done.

    Deleting a session also empties `artifacts`, if they are given, of what is the session's own.
    """

    def __init__(
        self,
        *,
        clock: ClockPort,
        lease: float = 30.0,
        artifacts: InMemoryArtifactStore | None = None,
    ) -> None:
        self._clock = clock
        self._lease = lease
        self._artifacts = artifacts
        self._records: dict[SessionKey, _Record] = {}
        self._of_apps: dict[str, dict[str, Any]] = {}
        self._of_users: dict[tuple[str, str], dict[str, Any]] = {}

    async def open(self, key: SessionKey, *, holder: str) -> Session:
        """Take hold of a session and return it, made anew if need be; SessionBusy if it is held."""
        return self._taken(key, holder, self._clock.now()).session(key)

    def _taken(self, key: SessionKey, holder: str, now: float) -> _Record:
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record(
                {
                    Scope.APP: self._of_apps.setdefault(key.app_name, {}),
                    Scope.USER: self._of_users.setdefault((key.app_name, key.user_id), {}),
                    Scope.SESSION: {},
                },
                now,
            )
        elif record.holder != holder and record.is_held(now):
            raise busy(key, record.holder)
        record.holder = holder
        record.lease_until = now + self._lease
        return record

    async def begin(
        self,
        key: SessionKey,
        first: Callable[[Session], Sequence[Event]],
        *,
        holder: str,
        along: AlongPort | None = None,
    ) -> tuple[Session, tuple[Event, ...]]:
        """Open a session and store the events that a run of it begins with, in one go."""
        now = self._clock.now()
        record = self._taken(key, holder, now)
        session = record.session(key)
        events = tuple(first(session))
        if events:
            self._add(record, key, events, now)
            if along is not None:
                await along.store()
        return session, events

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        holder: str,
        release: bool = False,
        along: AlongPort | None = None,
    ) -> None:
        """Store events, all or none, and apply their state deltas; returning acknowledges them."""
        record = self._held(key, holder)
        self._add(record, key, events, self._clock.now())
        if release:
            record.holder = None
        if along is not None:
            await along.store()

    def _add(self, record: _Record, key: SessionKey, events: Sequence[Event], now: float) -> None:
        seq = len(record.events)
        for event in events:
            seq += 1
            if event.seq != seq:
                raise out_of_order(key, len(record.events), events)
            # What agents and tools made up; a store on a disk would refuse what is no JSON.
            if event.actions is not NO_ACTIONS or (event.detail and event.step):
                encoded((event.actions, event.detail), f"event {event.seq} of {event.author!r}")
            for part in event.parts:
                text = part.text
                if text is None or (not text.isascii() and replace_surrogates(text) is not text):
                    encoded(part, f"event {event.seq} of {event.author!r}")
        record.updated_at = now
        record.lease_until = now + self._lease
        for event in events:
            record.add(event)

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Keep hold for another lease."""
        self._held(key, holder).lease_until = self._clock.now() + self._lease

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """Let go of the session; harmless if it is not held."""
        record = self._records.get(key)
        if record is not None and record.holder == holder:
            record.holder = None

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, held by someone or not."""
        record = self._records.get(key)
        return None if record is None else record.session(key)

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
    ) -> tuple[Event, ...]:
        """Return stored events in order, those that pass all the filters given."""
        record = self._records.get(key)
        if record is None:
            return ()
        first = max(after, 0)
        if run_id:
            first = max(first, record.first_of_run.get(run_id, len(record.events)))
        found = record.events[first:]
        if kinds is not None or run_id:
            found = [
                event
                for event in found
                if (kinds is None or event.kind in kinds) and (not run_id or event.run_id == run_id)
            ]
        return tuple(found if limit is None else found[: max(limit, 0)])

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of one kind and author."""
        record = self._records.get(key)
        return None if record is None else record.newest.get((kind, author))

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions, the last used first, without their state."""
        found = [
            record.session(key, with_state=False)
            for key, record in self._records.items()
            if key.app_name == app_name and key.user_id == user_id
        ]
        found.reverse()  # of those used at the same moment the younger comes first
        return tuple(sorted(found, key=lambda session: -session.updated_at))

    async def delete(self, key: SessionKey) -> None:
        """Forget a session, its events and artifacts; state of user and app stays."""
        self._records.pop(key, None)
        if self._artifacts is not None:
            self._artifacts.forget(key)

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Forget sessions that nobody holds or has used since a time; return those that stay."""
        now = self._clock.now()
        used: set[SessionKey] = set()
        for key in keys:
            record = self._records.get(key)
            if record is None:
                continue
            if record.updated_at >= since or record.is_held(now):
                used.add(key)
            else:
                await self.delete(key)
        return frozenset(used)

    async def aclose(self) -> None:
        """Do nothing: there are no files and no threads."""

    def _held(self, key: SessionKey, holder: str) -> _Record:
        record = self._records.get(key)
        if record is None or record.holder != holder:
            raise not_held(key, holder)
        return record


def _shelf(key: SessionKey, name: str) -> tuple[str, ...]:
    """Return where a name is kept: with the user or with the session."""
    if name.startswith(Scope.USER):
        return (key.app_name, key.user_id)
    return (key.app_name, key.user_id, key.session_id)
