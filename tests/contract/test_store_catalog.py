"""The contract of StoreCatalogPort."""

from pathlib import Path
from typing import cast

import pytest
from postgres_server import new_store_url
from session_store_factories import MAKERS, Stores, event, key, store_events

from acc.adapters.storage.in_memory import InMemorySessionStore
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_catalog import PostgresCatalog
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.storage.postgres_tasks import PostgresTaskStore
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_catalog import SqliteCatalog
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.task import (
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
)
from acc.ports.outbound.storage_ports import StoreCatalogPort
from acc.testing import FrozenClock


@pytest.fixture(params=MAKERS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    return MAKERS[request.param](tmp_path)


def catalog_of(stores: Stores) -> StoreCatalogPort:
    if isinstance(stores.sessions, SqliteSessionStore):
        return SqliteCatalog(stores.sessions.database)
    if isinstance(stores.sessions, PostgresSessionStore):
        return PostgresCatalog(stores.sessions.database)
    return cast("InMemorySessionStore", stores.sessions)


async def fill(stores: Stores) -> None:
    texts = {"one": 'The port is "8443"', "two": "注文の件", "three": "nothing"}
    for name, text in texts.items():
        message = event(1, EventKind.MESSAGE, author="user", parts=text_part(text))
        end = event(2, EventKind.ENDED, status=RunStatus.COMPLETED)
        app, user = ("desk", "ann") if name != "three" else ("shop", "bo")
        await store_events(stores.sessions, key(name, user_id=user, app_name=app), message, end)
        stores.clock.time += 1


async def names(catalog: StoreCatalogPort, text: str) -> list[str]:
    return [s.session_id for s in (await catalog.list_sessions(text=text, limit=9)).sessions]


async def test_sessions_of_all_apps_and_users_are_listed_newest_first(stores: Stores) -> None:
    await fill(stores)
    found = await catalog_of(stores).list_sessions(limit=9)
    assert [s.session_id for s in found.sessions] == ["three", "two", "one"]
    assert [(s.key.app_name, s.key.user_id) for s in found.sessions[:2]] == [
        ("shop", "bo"),
        ("desk", "ann"),
    ]
    assert [(s.seq, s.turns, dict(s.state)) for s in found.sessions] == [(2, 1, {})] * 3
    page = await catalog_of(stores).list_sessions(limit=1, skip=1)
    assert ([s.session_id for s in page.sessions], page.total) == (["two"], 3)
    await stores.sessions.aclose()


async def test_search_finds_ids_and_messages(stores: Stores) -> None:
    await fill(stores)
    catalog = catalog_of(stores)
    assert await names(catalog, "PORT") == ["one"]
    assert await names(catalog, 'is "8443"') == ["one"]
    assert await names(catalog, "注文") == ["two"]
    assert await names(catalog, "shop") == ["three"]
    assert await names(catalog, "absent") == []
    await stores.sessions.aclose()


async def test_sessions_are_selected_by_status(stores: Stores) -> None:
    await fill(stores)
    message = event(1, EventKind.MESSAGE, author="user", parts=text_part("x"))
    await store_events(stores.sessions, key("four"), message)
    found = await catalog_of(stores).list_sessions(status=RunStatus.WORKING, limit=9)
    assert ([s.session_id for s in found.sessions], found.total) == (["four"], 1)
    await stores.sessions.aclose()


async def test_store_without_tasks_lists_none(stores: Stores) -> None:
    assert await catalog_of(stores).list_tasks(limit=9) == ()
    assert await catalog_of(stores).list_deliveries(limit=9) == ()
    await stores.sessions.aclose()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_tasks_of_all_callers_are_listed_newest_first(tmp_path: Path, kind: str) -> None:
    clock = FrozenClock()
    catalog: StoreCatalogPort
    tasks: SqliteTaskStore | PostgresTaskStore
    if kind == "sqlite":
        file = SqliteDatabase(tmp_path / "acc.db")
        tasks, catalog = SqliteTaskStore(file, clock=clock, app_name="desk"), SqliteCatalog(file)
    else:
        server = PostgresDatabase(new_store_url())
        tasks = PostgresTaskStore(server, clock=clock, app_name="desk")
        catalog = PostgresCatalog(server)
    for number, caller in enumerate(("ann", "bo"), start=1):
        status = TaskStatus(state=TaskState.SUBMITTED, at=clock.now())
        message = Message(message_id=f"m{number}", role=Role.USER, parts=text_part("hello"))
        task = Task(id=f"t{number}", context_id=f"c{number}", status=status)
        await tasks.create(task, owner=Owner(caller=caller), message=message)
        clock.time += 1
    found = await catalog.list_tasks(limit=9)
    assert [(t.task_id, t.context_id, t.caller, t.state, t.app_name) for t in found] == [
        ("t2", "c2", "bo", "submitted", "desk"),
        ("t1", "c1", "ann", "submitted", "desk"),
    ]
    assert len(await catalog.list_tasks(limit=1, skip=1)) == 1
    assert [t.task_id for t in await catalog.list_tasks(caller="ann", limit=9)] == ["t1"]
    assert len(await catalog.list_tasks(state="submitted", limit=9)) == 2
    assert await catalog.list_tasks(state="working", limit=9) == ()
    assert await catalog.list_deliveries(limit=9) == ()
    push = PushConfig(id="p1", task_id="t2", url="https://example.com/hook")
    await tasks.save_push_config(push)
    working = TaskStatus(state=TaskState.WORKING, at=clock.now())
    await tasks.append("t2", [StatusUpdate(status=working)])
    waiting = await catalog.list_deliveries(limit=9)
    assert [(d.app_name, d.task_id, d.caller, d.config, d.attempts) for d in waiting] == [
        ("desk", "t2", "bo", push, 0)
    ]
    assert await catalog.list_deliveries(task_id="t1", limit=9) == ()
    assert len(await catalog.list_deliveries(task_id="t2", limit=9)) == 1
    await tasks.aclose()
