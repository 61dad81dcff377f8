"""Tests of the SQLite task store: query cost, shared files, leases and errors."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlite_stores import KEY, store_at
from task_stores import ANN, complete_task, create_task, moved, piece, tasks_at

from acc.adapters.storage.processes import this_process
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    PushConfig,
    TaskArtifact,
    TaskQuery,
    TaskState,
)
from acc.testing import FrozenClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acc.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteTaskStore]:
    made = tasks_at(path)
    yield made
    await made.aclose()


# Query cost


async def traced(store: SqliteTaskStore, call: Callable[[], Any]) -> tuple[list[str], int]:
    """Return the statements of a call and the steps SQLite needed for them."""
    statements: list[str] = []
    steps: list[None] = []

    def listen(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(statements.append)
        connection.set_progress_handler(lambda: steps.append(None), 1)

    def stop(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(None)
        connection.set_progress_handler(None, 1)

    await store.database.read(listen)
    await call()
    await store.database.read(stop)
    own = [text for text in statements if text not in {"BEGIN", "BEGIN IMMEDIATE", "COMMIT"}]
    return own, len(steps)


PUSH = PushConfig(id="p", task_id="t5", url="https://example.org")
CALLS: dict[str, Callable[[SqliteTaskStore, int], Any]] = {
    "create": lambda store, last: create_task(store, last + 1),
    "append": lambda store, last: store.append(f"t{last}", [piece("x")]),
    "move": lambda store, last: store.append(f"t{last}", [moved(TaskState.WORKING, 1e6)]),
    "end": lambda store, last: store.append(f"t{last}", [moved(TaskState.COMPLETED, 1e6)]),
    "read": lambda store, _: store.read("t5", owner=ANN),
    "events": lambda store, _: store.events("t5", after=1),
    "heads": lambda store, _: store.latest_seqs(["t5", "t6", "t7"]),
    "list": lambda store, _: store.list_tasks(ANN, TaskQuery(page_size=3)),
    "list by state": lambda store, _: store.list_tasks(
        ANN, TaskQuery(state=TaskState.COMPLETED, page_size=3)
    ),
    "list by context": lambda store, _: store.list_tasks(ANN, TaskQuery(context_id="c5")),
    "list since": lambda store, last: store.list_tasks(ANN, TaskQuery(since=float(last - 5))),
    "renew": lambda store, last: store.renew([f"t{last}"]),
    "orphans": lambda store, _: store.claim_orphans(),
    "save push": lambda store, _: store.save_push_config(PUSH),
    "pushes": lambda store, _: store.list_push_configs("t5"),
    "delete push": lambda store, _: store.delete_push_config("t5", "p"),
    "due": lambda store, _: store.claim_deliveries(limit=9, lease=1.0),
    "ended": lambda store, _: store.expired(before=9.0, limit=3, skip=2),
    "forget": lambda store, last: store.delete_expired([f"t{last - 1}"]),
}


async def add_tasks(store: SqliteTaskStore, first: int, last: int) -> None:
    for number in range(first, last):
        await create_task(store, number)
        await complete_task(store, number)
    await create_task(store, last)


@pytest.mark.parametrize("name", CALLS)
async def test_query_cost_is_independent_of_number_of_tasks(
    store: SqliteTaskStore, name: str
) -> None:
    await add_tasks(store, 1, 40)
    _, early = await traced(store, lambda: CALLS[name](store, 40))
    await add_tasks(store, 50, 300)
    if name != "end":
        await complete_task(store, 40)
    _, late = await traced(store, lambda: CALLS[name](store, 300))
    assert abs(late - early) < 40


async def test_cost_of_last_page_equals_first_page(store: SqliteTaskStore) -> None:
    await add_tasks(store, 1, 300)
    costs = []
    token = ""
    for size in (1, 250, 3, 3):
        query = TaskQuery(page_size=size, page_token=token, state=TaskState.COMPLETED, since=1.0)
        token = (await store.list_tasks(ANN, query)).next_page_token
    for end in ("", token):
        query = TaskQuery(page_size=3, page_token=end, state=TaskState.COMPLETED)
        costs.append((await traced(store, lambda query=query: store.list_tasks(ANN, query)))[1])  # type: ignore[misc]
    assert abs(costs[0] - costs[1]) < 40


@pytest.mark.parametrize("name", CALLS)
async def test_task_queries_use_an_index(store: SqliteTaskStore, name: str) -> None:
    await add_tasks(store, 1, 9)
    statements, _ = await traced(store, lambda: CALLS[name](store, 9))

    def plans(connection: sqlite3.Connection) -> list[str]:
        found = [
            row[3]
            for text in statements
            if not text.startswith("--")
            for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")
        ]
        bad = ("SCAN", "USE TEMP") if name.startswith("list") else ("SCAN",)
        return [plan for plan in found if plan.startswith(bad)]

    assert await store.database.read(plans) == []


async def add_pending_deliveries(
    store: SqliteTaskStore, owner: Owner, first: int, last: int
) -> None:
    """Add tasks with one pending delivery each."""
    for number in range(first, last):
        await create_task(store, number, owner=owner)
        await store.save_push_config(
            PushConfig(id="p", task_id=f"t{number}", url="https://example.org")
        )
        await store.append(f"t{number}", [moved(TaskState.WORKING, 1.0)])


async def test_cost_of_skipped_owner_is_independent_of_its_deliveries(
    store: SqliteTaskStore,
) -> None:
    bob, costs = Owner("", "bob"), []

    def take() -> Any:
        return store.claim_deliveries(limit=9, lease=60.0, max_per_owner=4, in_flight={ANN: 4})

    for first, last in ((1, 20), (20, 500)):
        await add_pending_deliveries(store, ANN, first, last)
        await add_pending_deliveries(store, bob, 1000 + first, 1001 + first)
        statements, steps = await traced(store, take)
        costs.append(steps)

    def plans(connection: sqlite3.Connection) -> list[str]:
        rows = [connection.execute(f"EXPLAIN QUERY PLAN {text}") for text in statements]
        return [plan for found in rows for *_, plan in found if plan.startswith(("SCAN", "USE"))]

    assert abs(costs[0] - costs[1]) < 80
    assert await store.database.read(plans) == []


async def test_read_cost_is_bounded_for_many_events(store: SqliteTaskStore) -> None:
    await create_task(store, 1)
    await store.append("t1", [moved(TaskState.WORKING, 1.0)])
    for _ in range(40):
        await store.append("t1", [piece("xyz ")] * 50)
    _, steps = await traced(store, lambda: store.read("t1"))
    assert steps < 256 * 10
    found = await store.read("t1")
    assert found is not None
    assert (found.seq, found.artifacts[0].parts) == (2002, (Part(text="xyz " * 2000),))


# Several stores on one file


async def test_tasks_of_other_application_are_hidden(path: Path) -> None:
    desk = tasks_at(path)
    shop = SqliteTaskStore(desk.database, clock=FrozenClock(), app_name="shop")
    assert (await create_task(desk, 1)).is_new
    assert (await create_task(shop, 1, owner=Owner("x", "y"))).is_new
    await complete_task(desk, 1)
    assert (await shop.list_tasks(ANN, TaskQuery())).total == 0
    assert await shop.expired(before=1e9, limit=9) == ()
    assert await shop.delete_expired(["t1"]) == 0
    found = await shop.read("t1")
    assert found is not None
    assert found.state is TaskState.SUBMITTED
    await desk.aclose()


async def test_closing_task_store_closes_the_shared_database(path: Path) -> None:
    sessions = store_at(path)
    tasks = SqliteTaskStore(sessions.database, clock=FrozenClock(), app_name="desk")
    await sessions.open(KEY, holder="h")
    await create_task(tasks, 1)
    await tasks.aclose()
    with pytest.raises(StorageFailed, match="closed"):
        await sessions.read(KEY)


async def test_lease_of_another_process_is_not_renewed(path: Path) -> None:
    store = tasks_at(path)
    await create_task(store, 1)
    me = this_process()

    def change_holder(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE tasks SET holder_host = 'elsewhere', lease_until = 5")

    await store.database.write(change_holder)
    await store.renew(["t1"])
    # The lease was not renewed and has expired, so this store can claim the task.
    assert await store.claim_orphans() == ("t1",)
    (host,) = await store.database.read(
        lambda c: c.execute("SELECT holder_host FROM tasks").fetchone()
    )
    assert host == me.host
    await store.aclose()


async def test_delete_expired_removes_all_rows_of_the_tasks(store: SqliteTaskStore) -> None:
    await add_tasks(store, 1, 600)
    await store.save_push_config(PUSH)
    await store.append("t600", [moved(TaskState.CANCELED, 1.0)])
    ended = await store.expired(before=1e6, limit=1000)
    assert await store.delete_expired([one.task_id for one in ended]) == 600

    def non_empty_tables(connection: sqlite3.Connection) -> list[str]:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            " AND (name LIKE 'task%' OR name IN ('deliveries', 'push_configs'))"
        )
        return [
            name
            for (name,) in tables.fetchall()
            if connection.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)  # noqa: S608 - names of our tables
        ]

    assert await store.database.read(non_empty_tables) == []


# Errors


async def test_append_on_full_disk_raises_and_is_rolled_back(store: SqliteTaskStore) -> None:
    await create_task(store, 1)

    def shrink(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    await store.database.read(shrink)
    before = await store.read("t1")
    with pytest.raises(StorageFailed, match=r"acc\.db: the disk is full; free some space"):
        await store.append("t1", [moved(TaskState.WORKING, 5.0), piece("x" * 100_000)])
    assert await store.read("t1") == before
    assert (await store.list_tasks(ANN, TaskQuery(state=TaskState.WORKING))).total == 0
    await store.database.read(lambda c: c.execute("PRAGMA max_page_count = 100000").close())
    await store.append("t1", [moved(TaskState.WORKING, 5.0), piece("x" * 100_000)])


async def test_append_to_locked_file_raises(store: SqliteTaskStore, path: Path) -> None:
    await create_task(store, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageFailed, match=r"acc\.db: another process has locked it"):
            await store.append("t1", [piece("x")])
        other.execute("ROLLBACK")
    assert len(await store.append("t1", [piece("x")])) == 1


async def test_task_record_that_cannot_be_decoded_raises(store: SqliteTaskStore) -> None:
    await create_task(store, 1)
    await store.database.write(lambda c: c.execute("UPDATE task_events SET body = '{}'").close())
    for call in (store.read("t1"), store.events("t1"), store.list_tasks(ANN, TaskQuery())):
        with pytest.raises(StorageFailed, match=r"acc\.db: a record cannot be read"):
            await call


@pytest.mark.parametrize(
    "part", [Part(data=object()), Part(text="\ud800"), Part(data=float("nan"))]
)
async def test_updates_are_rejected_if_one_cannot_be_stored(
    store: SqliteTaskStore, part: Part
) -> None:
    await create_task(store, 1)
    bad = ArtifactUpdate(artifact=TaskArtifact(artifact_id="a", parts=(part,)))
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await store.append("t1", [piece("x"), bad])
    assert len(await store.events("t1")) == 1


async def test_task_id_with_unpaired_surrogate_is_rejected(store: SqliteTaskStore) -> None:
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await store.read("\ud800")
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await create_task(store, 1, context_id="\ud800")
    assert (await create_task(store, 1)).is_new


async def test_session_and_task_store_may_open_the_same_file_separately(
    path: Path,
) -> None:
    sessions, tasks = SqliteSessionStore(path, clock=FrozenClock()), tasks_at(path)
    await sessions.open(KEY, holder="h")
    await create_task(tasks, 1)
    await sessions.aclose()
    assert await tasks.read("t1") is not None
    await tasks.aclose()
