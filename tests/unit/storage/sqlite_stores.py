"""Session stores and events for the storage tests."""

from pathlib import Path
from typing import Any

from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.session import SessionKey
from acc.testing import FrozenClock

KEY = SessionKey(app_name="desk", user_id="ann", session_id="s1")


def event(seq: int, **fields: Any) -> Event:
    plain: dict[str, Any] = {
        "kind": EventKind.STATE,
        "run_id": f"r{seq // 10}",
        "author": "a",
        "actions": EventActions(state_delta={"x": seq, "user:y": seq}),
    }
    return Event(seq=seq, **plain | fields)


def store_at(path: Path, busy_timeout: float = 0.1) -> SqliteSessionStore:
    return SqliteSessionStore(SqliteDatabase(path, busy_timeout=busy_timeout), clock=FrozenClock())


async def fill(store: SqliteSessionStore, first: int, last: int) -> None:
    await store.open(KEY, holder="h")
    await store.append(KEY, [event(seq) for seq in range(first, last + 1)], holder="h")
