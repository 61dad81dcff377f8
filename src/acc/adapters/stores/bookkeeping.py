"""What every session store does alike with the events it is given."""

from collections.abc import Sequence

from acc.domain.errors import SessionBusy, SessionConflict
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import SessionKey

_USER = "user"


def starts_run(event: Event) -> bool:
    """Tell whether an event starts a run and counts a turn: a message of the user."""
    return event.kind is EventKind.MESSAGE and event.author == _USER


def continues(seq: int, events: Sequence[Event]) -> bool:
    """Tell whether events go on, without a gap, where a session that is at `seq` ends."""
    for event in events:
        seq += 1
        if event.seq != seq:
            return False
    return True


def busy(key: SessionKey, holder: str | None) -> SessionBusy:
    """Return the error for a session that another run holds."""
    return SessionBusy(
        f"session {key.session_id!r} of user {key.user_id!r} is held by another run ({holder}); "
        "wait until it ends"
    )


def out_of_order(key: SessionKey, seq: int, events: Sequence[Event]) -> SessionConflict:
    """Return the error for events whose numbers do not continue the session's."""
    numbers = ", ".join(str(event.seq) for event in events[:5])
    return SessionConflict(
        f"session {key.session_id!r} of user {key.user_id!r} ends with event {seq}, "
        f"so it cannot be continued with {numbers}"
    )


def not_held(key: SessionKey, holder: str) -> SessionConflict:
    """Return the error for someone who does not, or no longer, hold the session."""
    return SessionConflict(
        f"session {key.session_id!r} of user {key.user_id!r} is not held by {holder}: another "
        "process took it over, or it was released or deleted; open it again"
    )
