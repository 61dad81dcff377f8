"""Session stores for the contract suites, and events to store in them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postgres_server import new_store_url

from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_artifacts import PostgresArtifactStore
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import ArtifactStorePort, SessionStorePort
from acc.testing import FrozenClock

LEASE = 30.0
KEY = SessionKey(app_name="desk", user_id="ann", session_id="s1")


@dataclass(frozen=True)
class Stores:
    sessions: SessionStorePort
    artifacts: ArtifactStorePort
    clock: FrozenClock


def in_memory(_: Path) -> Stores:
    clock, artifacts = FrozenClock(), InMemoryArtifactStore()
    sessions = InMemorySessionStore(clock=clock, lease=LEASE, artifacts=artifacts)
    return Stores(sessions, artifacts, clock)


def sqlite(folder: Path) -> Stores:
    clock, database = FrozenClock(), SqliteDatabase(folder / "acc.db")
    sessions = SqliteSessionStore(database, clock=clock, lease=LEASE)
    return Stores(sessions, SqliteArtifactStore(database), clock)


def postgres(_: Path) -> Stores:
    clock, database = FrozenClock(), PostgresDatabase(new_store_url())
    sessions = PostgresSessionStore(database, clock=clock, lease=LEASE)
    return Stores(sessions, PostgresArtifactStore(database), clock)


MAKERS: dict[str, Callable[[Path], Stores]] = {
    "in_memory": in_memory,
    "postgres": postgres,
    "sqlite": sqlite,
}


def key(session_id: str = "s1", user_id: str = "ann", app_name: str = "desk") -> SessionKey:
    return SessionKey(app_name=app_name, user_id=user_id, session_id=session_id)


def event(seq: int, kind: EventKind = EventKind.STATE, **fields: Any) -> Event:
    return Event(**{"kind": kind, "run_id": "r1", "author": "helper", "seq": seq, **fields})


def state_event(
    seq: int, delta: dict[str, Any] | None = None, *removed: str, **fields: Any
) -> Event:
    actions = EventActions(state_delta=delta or {}, state_removed=removed)
    return event(seq, actions=actions, **fields)


async def store_events(store: SessionStorePort, session_key: SessionKey, *events: Event) -> None:
    await store.open(session_key, holder="setup")
    await store.append(session_key, events, holder="setup")
    await store.release(session_key, holder="setup")


async def read_state(store: SessionStorePort, session_key: SessionKey) -> dict[str, Any]:
    session = await store.read(session_key)
    assert session is not None
    return dict(session.state)
