"""Whatever is written, all stores remember the same, and it is what their events say."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from stores_under_test import MAKERS, Stores, key, state_of, writes

from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import Scope, SessionKey, scope_of

SESSIONS = (key("s1"), key("s2"), key("s1", user_id="bo"), key("s1", app_name="shop"))
NAMES = st.sampled_from(["a", "b", "user:a", "user:b", "app:a", "app:b", "temp:a", "x:y", ":"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Text with halves of surrogate pairs is no Unicode and cannot be stored.
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=4,
)
CHANGES = st.tuples(st.dictionaries(NAMES, VALUES, max_size=3), st.lists(NAMES, max_size=2))
STEPS = st.lists(
    st.tuples(st.sampled_from(SESSIONS), st.lists(CHANGES, max_size=3), st.booleans()), max_size=12
)
Step = tuple[SessionKey, list[tuple[dict[str, Any], list[str]]], bool]


async def play(stores: Stores, steps: Sequence[Step]) -> list[tuple[SessionKey, Event]]:
    """Store the steps, forget a session now and then, and return the events of all in order."""
    log: list[tuple[SessionKey, Event]] = []
    for where, changes, forget_first in steps:
        if forget_first:
            await stores.sessions.delete(where)
        session = await stores.sessions.open(where, holder="a")
        numbered = enumerate(changes, start=session.seq + 1)
        events = [writes(seq, delta, *removed) for seq, (delta, removed) in numbered]
        await stores.sessions.append(where, events, holder="a")
        await stores.sessions.release(where, holder="a")
        stored = await stores.sessions.events(where, after=session.seq)
        assert stored == tuple(events)
        log += [(where, stored_event) for stored_event in stored]
    return log


def replayed(
    log: Sequence[tuple[SessionKey, Event]], seen_from: SessionKey, last: int
) -> dict[str, Any]:
    """Return the state that events lead to, read naively from the whole record.

    Of the session's own events only the `last` ones count: the others were forgotten.
    """
    own = [event for where, event in log if where == seen_from]
    alive = {id(event) for event in own[len(own) - last :]}
    state: dict[str, Any] = {}
    for where, event in log:
        for name in (*event.actions.state_delta, *event.actions.state_removed):
            same = {
                Scope.APP: where.app_name == seen_from.app_name,
                Scope.USER: where.app_name == seen_from.app_name
                and where.user_id == seen_from.user_id,
                Scope.SESSION: id(event) in alive,
                Scope.TEMP: False,
            }[scope_of(name)]
            if not same:
                continue
            if name in event.actions.state_removed:
                state.pop(name, None)
            else:
                state[name] = event.actions.state_delta[name]
    return state


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_all_stores_remember_what_their_events_say(steps: list[Step]) -> None:
    async def remembered(name: str, folder: Path) -> list[tuple[list[str], dict[str, Any]]]:
        stores = MAKERS[name](folder)
        found = []
        try:
            log = await play(stores, steps)
            for where in {where: None for where, _, _ in steps}:
                session = await stores.sessions.read(where)
                assert session is not None
                state = await state_of(stores.sessions, where)
                assert state == replayed(log, where, session.seq)
                found.append((list(state), state))
        finally:
            await stores.sessions.aclose()
        return found

    with tempfile.TemporaryDirectory() as folder:
        results = [asyncio.run(remembered(name, Path(folder))) for name in sorted(MAKERS)]
    assert all(result == results[0] for result in results)
