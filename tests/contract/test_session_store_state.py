"""Property test: the state of every session store equals the replay of its events."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from session_store_factories import MAKERS, Stores, key, read_state, state_event

from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import Scope, SessionKey, scope_of

SESSIONS = (key("s1"), key("s2"), key("s1", user_id="bo"), key("s1", app_name="shop"))
NAMES = st.sampled_from(["a", "b", "user:a", "user:b", "app:a", "app:b", "temp:a", "x:y", ":"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Text with unpaired surrogates cannot be stored.
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=4,
)
CHANGES = st.tuples(st.dictionaries(NAMES, VALUES, max_size=3), st.lists(NAMES, max_size=2))
STEPS = st.lists(
    st.tuples(st.sampled_from(SESSIONS), st.lists(CHANGES, max_size=3), st.booleans()), max_size=12
)
Step = tuple[SessionKey, list[tuple[dict[str, Any], list[str]]], bool]


async def apply_steps(stores: Stores, steps: Sequence[Step]) -> list[tuple[SessionKey, Event]]:
    """Store the steps, delete some sessions, and return all events in order."""
    log: list[tuple[SessionKey, Event]] = []
    for session_key, changes, delete_first in steps:
        if delete_first:
            await stores.sessions.delete(session_key)
        session = await stores.sessions.open(session_key, holder="a")
        numbered = enumerate(changes, start=session.seq + 1)
        events = [state_event(seq, delta, *removed) for seq, (delta, removed) in numbered]
        await stores.sessions.append(session_key, events, holder="a")
        await stores.sessions.release(session_key, holder="a")
        stored = await stores.sessions.events(session_key, after=session.seq)
        assert stored == tuple(events)
        log += [(session_key, stored_event) for stored_event in stored]
    return log


def replay(
    log: Sequence[tuple[SessionKey, Event]], reader: SessionKey, last: int
) -> dict[str, Any]:
    """Return the state after replaying all events.

    Only the `last` events of the session itself count: the earlier ones were deleted.
    """
    own = [event for session_key, event in log if session_key == reader]
    current = {id(event) for event in own[len(own) - last :]}
    state: dict[str, Any] = {}
    for session_key, event in log:
        for name in (*event.actions.state_delta, *event.actions.state_removed):
            is_visible = {
                Scope.APP: session_key.app_name == reader.app_name,
                Scope.USER: session_key.app_name == reader.app_name
                and session_key.user_id == reader.user_id,
                Scope.SESSION: id(event) in current,
                Scope.TEMP: False,
            }[scope_of(name)]
            if not is_visible:
                continue
            if name in event.actions.state_removed:
                state.pop(name, None)
            else:
                state[name] = event.actions.state_delta[name]
    return state


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_state_of_every_store_equals_the_replay_of_its_events(steps: list[Step]) -> None:
    async def collect_states(name: str, folder: Path) -> list[tuple[list[str], dict[str, Any]]]:
        stores = MAKERS[name](folder)
        states = []
        try:
            log = await apply_steps(stores, steps)
            for session_key in {session_key: None for session_key, _, _ in steps}:
                session = await stores.sessions.read(session_key)
                assert session is not None
                state = await read_state(stores.sessions, session_key)
                assert state == replay(log, session_key, session.seq)
                states.append((list(state), state))
        finally:
            await stores.sessions.aclose()
        return states

    with tempfile.TemporaryDirectory() as folder:
        results = [asyncio.run(collect_states(name, Path(folder))) for name in sorted(MAKERS)]
    assert all(result == results[0] for result in results)
