"""Sessions and events as the rows of a database, whichever database it is."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from acc.adapters.storage.invariants import encode, encode_readable, starts_run
from acc.adapters.storage.processes import Process
from acc.application.events.cloud_events import encode_cloud_event
from acc.domain.value_objects.base import set_field
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Scope, Session, SessionKey, scope_of

SEPARATOR = "\x1f"  # no id contains it, because ids are printable
_SCOPE_LENGTH = {Scope.APP: 1, Scope.USER: 2, Scope.SESSION: 3}
_EVENT_DECODER = msgspec.json.Decoder(Event)
_VALUE_DECODER = msgspec.json.Decoder()


class Progress(NamedTuple):
    """How many turns events start, and the run and status that they set, if any."""

    turns: int
    run_id: str | None
    status: str | None

    def apply_to(self, row: Sequence[Any], events: int, now: float) -> tuple[Any, ...]:
        """Return seq, turns, run, status and time of a session after so many events."""
        seq, turns, run_id, status, updated_at = row[:5]
        return (
            seq + events,
            turns + self.turns,
            self.run_id or run_id,
            self.status or status,
            now if events else updated_at,
        )


class StateChange(NamedTuple):
    """A new value of a key in a scope; None removes the key."""

    scope: str
    key: str
    value: bytes | None


def encode_event(event: Event) -> tuple[str, str, str, bytes]:
    """Return kind, author, run and body of an event; InvalidInput if it cannot be stored."""
    what = f"{event.kind.value} event of {event.author!r}"
    body = encode_readable(event, what, _EVENT_DECODER)
    return (event.kind.value, event.author, event.run_id, body)


def decode_event(seq: int, body: bytes) -> Event:
    """Return a stored event with its number."""
    event = _EVENT_DECODER.decode(body)
    # seq is stored in its own column; mutation is safe because the event is not shared yet
    set_field(event, "seq", seq)
    return event


def decode_value(body: bytes) -> Any:
    """Return a stored value of the state."""
    return _VALUE_DECODER.decode(body)


def progress_of(events: Sequence[Event]) -> Progress:
    """Return how many turns events start, and the run and status that they set."""
    turns, run_id, status = 0, None, None
    for event in events:
        if starts_run(event):
            turns += 1
            run_id = event.run_id
            status = RunStatus.WORKING.value
        elif event.kind is EventKind.ENDED and event.status is not None:
            status = event.status.value
    return Progress(turns, run_id, status)


def state_changes(
    key: SessionKey, event: Event, *, only: Scope | None = None
) -> Iterator[StateChange]:
    """Yield the changes of the state delta of an event, or of one scope of it."""
    for name, value in event.actions.state_delta.items():
        if (scope := scope_of(name)) is not Scope.TEMP and only in (None, scope):
            yield StateChange(scope_name(key, scope), name, encode(value, f"state {name!r}"))
    for name in event.actions.state_removed:
        if (scope := scope_of(name)) is not Scope.TEMP and only in (None, scope):
            yield StateChange(scope_name(key, scope), name, None)


def published_rows(events: Sequence[Event]) -> list[tuple[str, str, str, float, bytes]]:
    """Return source, id, type, time and body of what events publish to other agents."""
    return [
        (one.source, one.id, one.type, event.at, encode_cloud_event(one))
        for event in events
        if event.actions.published
        for one in event.actions.published
    ]


def scope_name(key: SessionKey, scope: Scope) -> str:
    """Return the name of a scope in the tables; sorted, the app comes first."""
    return SEPARATOR.join(key[: _SCOPE_LENGTH[scope]])


def artifact_scope(name: str) -> Scope:
    """Return the scope of a file."""
    return Scope.USER if name.startswith(Scope.USER) else Scope.SESSION


def is_leased_by_other(
    row: Sequence[Any], holder: str, process: Process, now: float, *, replaces: str = ""
) -> bool:
    """Return True if another run has the lease of a session.

    A run of a dead process has not, and one whose holder begins with `replaces` loses it.
    """
    leased_by, host, pid, started, lease_until = row[5:10]
    if leased_by is None or lease_until <= now or (replaces and leased_by.startswith(replaces)):
        return False
    other = Process(host, pid, started)
    return not (leased_by == holder and other == process) and not other.is_dead(process)


def session_of(key: SessionKey, row: Sequence[Any], state: dict[str, Any]) -> Session:
    """Return the session of a row that begins with seq, turns, run, status and time."""
    seq, turns, run_id, status, updated_at = row[:5]
    return Session(
        key=key,
        state=state,
        seq=seq,
        turns=turns,
        run_id=run_id,
        status=RunStatus(status),
        updated_at=updated_at,
    )
