"""Sessions, artifacts and published events in memory, for tests and data that may be lost."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from acc.adapters.storage.event_log import SCAN_LIMIT, Claimed, Interest, published_row
from acc.adapters.storage.invariants import (
    check_fork,
    encode,
    fork_events,
    lease_lost,
    opening_events,
    session_busy,
    session_files,
    starts_run,
)
from acc.adapters.storage.session_records import published_rows
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.cloud_event import CloudEvent
from acc.domain.value_objects.event import NO_ACTIONS, Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey, StoredArtifact, scope_of
from acc.ports.outbound.event_ports import EVENT_RETENTION_SECONDS, DeadLetter, EventDelivery
from acc.ports.outbound.storage_ports import (
    LEASE_SECONDS,
    BeginTurn,
    PendingDelivery,
    SessionList,
    TaskSummary,
    TurnStart,
)
from acc.ports.outbound.system_ports import ClockPort

#: Source, id, type, time and body of an event.
PublishedRow = tuple[str, str, str, float, bytes]


class InMemorySessionStore:
    """Stores sessions until the process ends.

    No method awaits anything, so every call is atomic. Deleting a session also deletes its files
    from `artifacts`, if given.
    """

    def __init__(
        self,
        *,
        clock: ClockPort,
        lease: float = LEASE_SECONDS,
        artifacts: "InMemoryArtifactStore | None" = None,
    ) -> None:
        self._clock = clock
        self.lease = lease
        self._artifacts = artifacts
        self._records: dict[SessionKey, _SessionRecord] = {}
        self._app_state: dict[str, dict[str, Any]] = {}
        self._user_state: dict[tuple[str, str], dict[str, Any]] = {}
        self._event_log = InMemoryEventLog(clock=clock)

    async def open(self, key: SessionKey, *, holder: str, replaces: str = "") -> Session:
        """Acquire the lease of a session and return it, created if it does not exist."""
        return self._acquire(key, holder, self._clock.now(), replaces).session(key)

    async def begin_turn(
        self,
        key: SessionKey,
        message: Event,
        *,
        holder: str,
        agent: str,
        waits_for_runs: bool = False,
    ) -> TurnStart:
        """Open a session and store the message that starts a run."""
        now = self._clock.now()
        record, turn = self._records.get(key), BeginTurn(key, message, holder, agent)
        if waits_for_runs and record is not None and record.status is RunStatus.WORKING:
            raise session_busy(key, record.run_id)
        record = self._acquire(key, holder, now)
        session = record.session(key)
        events = opening_events(session, turn)
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
        published = published_rows(events)
        seq = record.seq
        numbered = tuple([replace(event, seq=seq + n) for n, event in enumerate(events, start=1)])
        now = self._clock.now()
        record.add(numbered, now)
        record.lease_until = now + self.lease
        if release:
            record.holder = None
        if published:
            self._event_log.add(published)
        return numbered

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Extend the lease."""
        self._leased(key, holder).lease_until = self._clock.now() + self.lease

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
        first = record.index_after(after)
        last = len(record.events) if before is None else record.index_after(before - 1)
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

    async def list_sessions(
        self, *, text: str = "", status: RunStatus | None = None, limit: int, skip: int = 0
    ) -> SessionList:
        """Return sessions of all apps and users, most recently used first."""
        matches = [
            record.session(key, with_state=False)
            for key, record in self._records.items()
            if (status is None or record.status is status) and record.contains(key, text)
        ]
        matches.reverse()
        matches.sort(key=lambda session: -session.updated_at)
        return SessionList(tuple(matches[skip : skip + limit]), len(matches))

    async def list_tasks(
        self, *, caller: str = "", state: str = "", limit: int, skip: int = 0
    ) -> tuple[TaskSummary, ...]:
        """Return no tasks: those in memory belong to the process that serves them."""
        return ()

    async def list_deliveries(
        self, *, task_id: str = "", limit: int
    ) -> tuple[PendingDelivery, ...]:
        """Return no deliveries: those in memory belong to the process that serves tasks."""
        return ()

    def attachments(self, key: SessionKey) -> dict[str, object]:
        """Return objects of other components that live as long as the session."""
        record = self._records.get(key)
        return {} if record is None else record.attachments

    async def shared_state(self, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of an app and a user, which all sessions of the user have."""
        user_state = self._user_state.get((app_name, user_id), {})
        return {**self._app_state.get(app_name, {}), **user_state}

    async def rewind(self, key: SessionKey, marker: Event, *, after: int, holder: str) -> Session:
        """Delete the events with a number above `after`; files and state follow."""
        record, now = self._leased(key, holder), self._clock.now()
        position = record.index_after(after)
        dropped = record.events[position:]
        rebuilt = self._rebuild(key, record.events[:position], now)
        rebuilt.holder, rebuilt.lease_until = holder, now + self.lease
        rebuilt.add([replace(marker, seq=record.seq + 1)], now)
        self._records[key] = rebuilt
        if self._artifacts is not None:
            self._artifacts.delete_versions(key, session_files(dropped))
        return rebuilt.session(key)

    async def fork(self, key: SessionKey, target: SessionKey, *, after: int, agent: str) -> Session:
        """Copy the events up to `after` to a new session; a run that has not ended is canceled."""
        record = self._records.get(key)
        is_taken = target in self._records
        check_fork(key, target, has_source=record is not None, has_target=is_taken)
        assert record is not None  # noqa: S101 - checked above
        events, now = record.events[: record.index_after(after)], self._clock.now()
        events += fork_events(events, at=now, agent=agent)
        copied = self._records[target] = self._rebuild(target, events, now)
        if self._artifacts is not None:
            self._artifacts.copy_versions(key, target, session_files(events))
        return copied.session(target)

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

    def event_log(self) -> "InMemoryEventLog":
        """Return the log of the events that agents published."""
        return self._event_log

    async def aclose(self) -> None:
        """Do nothing: there are no files or threads."""

    def _rebuild(self, key: SessionKey, events: Sequence[Event], now: float) -> "_SessionRecord":
        """Return the record of a session with these events; they do not change shared state."""
        record = _SessionRecord({Scope.APP: {}, Scope.USER: {}, Scope.SESSION: {}}, now)
        record.add(events, now)
        record.scopes = self._scopes(key, record.scopes[Scope.SESSION])
        return record

    def _scopes(self, key: SessionKey, state: dict[str, Any]) -> dict[Scope, dict[str, Any]]:
        return {
            Scope.APP: self._app_state.setdefault(key.app_name, {}),
            Scope.USER: self._user_state.setdefault((key.app_name, key.user_id), {}),
            Scope.SESSION: state,
        }

    def _acquire(
        self, key: SessionKey, holder: str, now: float, replaces: str = ""
    ) -> "_SessionRecord":
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _SessionRecord(self._scopes(key, {}), now)
        elif (
            record.holder is not None
            and record.holder != holder
            and record.is_leased(now)
            and not (replaces and record.holder.startswith(replaces))
        ):
            raise session_busy(key, record.holder)
        record.holder = holder
        record.lease_until = now + self.lease
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
        version = versions[-1].version + 1 if versions else 1
        versions.append(
            StoredArtifact(name=name, version=version, media_type=media_type, data=data)
        )
        return version

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest by default."""
        versions = self._files.get(_folder(key, name), {}).get(name, [])
        matches = (file for file in reversed(versions) if version in (None, file.version))
        return next(matches, None)

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        own, shared = _folder(key, ""), _folder(key, Scope.USER)
        return tuple(sorted([*self._files.get(own, ()), *self._files.get(shared, ())]))

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of a name."""
        return tuple(file.version for file in self._files.get(_folder(key, name), {}).get(name, ()))

    async def contents(self, prefix: bytes) -> frozenset[bytes]:
        """Return the contents that begin with some bytes."""
        return frozenset(
            file.data
            for folder in self._files.values()
            for versions in folder.values()
            for file in versions
            if file.data.startswith(prefix)
        )

    def delete(self, key: SessionKey) -> None:
        """Delete the files that belong to one session alone."""
        self._files.pop(_folder(key, ""), None)

    def delete_versions(self, key: SessionKey, files: Sequence[tuple[str, int]]) -> None:
        """Delete versions of files of one session."""
        folder = self._files.get(_folder(key, ""), {})
        for name, version in files:
            remaining = [file for file in folder.get(name, ()) if file.version != version]
            folder[name] = remaining
            if not remaining:
                del folder[name]

    def copy_versions(
        self, key: SessionKey, target: SessionKey, files: Sequence[tuple[str, int]]
    ) -> None:
        """Copy versions of files of one session to another one."""
        source = self._files.get(_folder(key, ""), {})
        copies = self._files.setdefault(_folder(target, ""), {})
        for name, version in files:
            found = [file for file in source.get(name, ()) if file.version == version]
            copies.setdefault(name, []).extend(found)


class _SessionRecord:
    """A stored session: its events, the indexes over them, its state and its lease."""

    __slots__ = (
        "attachments",
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
        self.attachments: dict[str, object] = {}
        self.events: list[Event] = []
        self.first_of_run: dict[str, int] = {}
        self.newest: dict[tuple[EventKind, str], Event] = {}
        self.turns = 0
        self.run_id = ""
        self.status = RunStatus.COMPLETED
        self.updated_at = now
        self.holder: str | None = None
        self.lease_until = 0.0

    @property
    def seq(self) -> int:
        """Return the number of the last event; after a rewind there are gaps before it."""
        return self.events[-1].seq if self.events else 0

    def index_after(self, seq: int) -> int:
        """Return the position of the first event with a number above `seq`."""
        if seq <= 0:
            return 0
        if seq <= len(self.events) and self.events[seq - 1].seq == seq:
            return seq
        return bisect_right(self.events, seq, key=lambda event: event.seq)

    def contains(self, key: SessionKey, text: str) -> bool:
        """Return True if an id or a message contains a text."""
        wanted = text.lower()
        return any(wanted in name.lower() for name in key) or any(
            wanted in event.text.lower() for event in self.events if event.kind is EventKind.MESSAGE
        )

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
            seq=self.seq,
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


@dataclass(slots=True)
class _Subscription:
    position: int = 0
    #: Attempts and the time when the delivery is due again, by number of the event.
    claims: dict[int, tuple[int, float]] = field(default_factory=dict)


class InMemoryEventLog:
    """The log of published events of one process. No method awaits, so every call is atomic."""

    def __init__(self, *, clock: ClockPort) -> None:
        self._clock = clock
        self._seq = 0
        self._rows: dict[int, PublishedRow] = {}
        self._ids: set[tuple[str, str]] = set()
        self._subscriptions: dict[str, _Subscription] = {}
        self._dead_letters: dict[str, dict[str, DeadLetter]] = {}

    def add(self, rows: Iterable[PublishedRow]) -> None:
        """Store events; those with a known source and id have no effect."""
        self._prune()
        for row in rows:
            if row[:2] not in self._ids:
                self._ids.add(row[:2])
                self._seq += 1
                self._rows[self._seq] = row

    async def check(self) -> None:
        """Return if events can be stored now."""

    async def publish(self, event: CloudEvent) -> None:
        """Store an event; one with the same source and id has no effect."""
        self.add([published_row(event, self._clock.now())])

    async def claim(self, interest: Interest, *, limit: int) -> Claimed:
        """Lease events that are new or due again."""
        now = self._clock.now()
        state = self._subscriptions.setdefault(interest.name, _Subscription())
        claims, until = state.claims, now + interest.lease
        deliveries: list[EventDelivery] = []
        for seq, (attempts, due_at) in sorted(claims.items(), key=lambda claim: claim[1][1]):
            if due_at > now or len(deliveries) >= limit:
                break
            row = self._rows.get(seq)
            if row is None or not interest.includes(row[2]):
                del claims[seq]
                continue
            claims[seq] = (attempts + 1, until)
            deliveries.append(EventDelivery(str(seq), row[4], attempts + 1))
        numbers = list(self._rows)
        first = bisect_right(numbers, state.position)
        scanned = 0
        for seq in numbers[first : first + SCAN_LIMIT]:
            if len(deliveries) >= limit:
                break
            scanned += 1
            state.position = seq
            row = self._rows[seq]
            if interest.includes(row[2]):
                claims[seq] = (1, until)
                deliveries.append(EventDelivery(str(seq), row[4], 1))
        return Claimed(tuple(deliveries), scanned < SCAN_LIMIT)

    async def complete(self, name: str, seq: int) -> None:
        """End a delivery."""
        self._subscriptions[name].claims.pop(seq, None)

    async def delay(self, name: str, seq: int, *, seconds: float) -> None:
        """Make a delivery due again after so many seconds."""
        claims = self._subscriptions[name].claims
        if seq in claims:
            claims[seq] = (claims[seq][0], self._clock.now() + seconds)

    async def backlog(self, interest: Interest) -> int:
        """Return how many events of a subscription are new or leased."""
        state = self._subscriptions.get(interest.name, _Subscription())
        new = [row for seq, row in self._rows.items() if seq > state.position]
        return len(state.claims) + sum(interest.includes(row[2]) for row in new)

    async def add_dead_letter(self, subscription: str, letter: DeadLetter) -> None:
        """Store a dead letter; one with the same key is replaced."""
        self._dead_letters.setdefault(subscription, {})[letter.key] = letter

    async def dead_letters(self, subscription: str, *, limit: int) -> tuple[DeadLetter, ...]:
        """Return dead letters, oldest first."""
        found = self._dead_letters.get(subscription, {}).values()
        return tuple(sorted(found, key=lambda letter: letter.at)[:limit])

    async def delete_dead_letter(self, subscription: str, key: str) -> bool:
        """Delete a dead letter; return False if there is none."""
        return self._dead_letters.get(subscription, {}).pop(key, None) is not None

    async def aclose(self) -> None:
        """Do nothing: there are no files or connections."""

    def _prune(self) -> None:
        oldest = self._clock.now() - EVENT_RETENTION_SECONDS
        while self._rows:
            seq = next(iter(self._rows))
            if self._rows[seq][3] >= oldest:
                return
            self._ids.discard(self._rows.pop(seq)[:2])
