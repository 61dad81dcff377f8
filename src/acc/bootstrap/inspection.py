"""Recorded sessions of a store, for the commands that show and replay them."""

from collections.abc import Sequence
from pathlib import Path

from acc.domain.errors import NotFound
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import SessionKey


def check_store(store: str) -> None:
    """Raise NotFound if there is no file of sessions; opening it would create it."""
    from acc.adapters.storage.location import parse_location

    path = parse_location(store)
    if path is None or not Path(path).exists():
        raise NotFound(f"the store {store!r} does not exist; give the file of --store")


async def recorded_events(
    store: str, reference: str, *, app_name: str, user_id: str
) -> Sequence[Event]:
    """Return the events of a session, or those of the run or task with an id.

    NotFound if there is none.
    """
    from acc.adapters.system.clock import SystemClock
    from acc.bootstrap.agents import make_stores

    sessions, _ = make_stores(store, SystemClock())
    try:
        key = SessionKey(app_name=app_name, user_id=user_id, session_id=reference)
        if await sessions.read(key) is not None:
            return await sessions.events(key)
        for session in await sessions.sessions(app_name, user_id):
            events = await sessions.events(session.key)
            found = [e for e in events if reference in (e.run_id, e.request_id)]
            if found:
                return found
    finally:
        await sessions.aclose()
    raise NotFound(
        f"there is no session, run or task {reference!r} of user {user_id!r} in app {app_name!r}; "
        "use --user and --app as in the command that stored it"
    )
