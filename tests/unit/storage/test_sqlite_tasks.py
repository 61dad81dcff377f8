"""What is SQLite's own about tasks: what calls cost, older files, and who holds a task."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlite_stores import KEY, store_at
from task_stores import ANN, file, finish, moved, piece, tasks_at

from acc.adapters.storage.sqlite import this_process
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


# What it costs


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
    "create": lambda store, last: file(store, last + 1),
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


async def grown(store: SqliteTaskStore, first: int, last: int) -> None:
    for number in range(first, last):
        await file(store, number)
        await finish(store, number)
    await file(store, last)


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_costs_the_same_however_many_tasks_there_are(
    store: SqliteTaskStore, name: str
) -> None:
    await grown(store, 1, 40)
    _, early = await traced(store, lambda: CALLS[name](store, 40))
    await grown(store, 50, 300)
    if name != "end":
        await finish(store, 40)
    _, late = await traced(store, lambda: CALLS[name](store, 300))
    assert abs(late - early) < 40


async def test_a_page_far_down_costs_the_same_as_the_first(store: SqliteTaskStore) -> None:
    await grown(store, 1, 300)
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
async def test_every_call_finds_its_rows_by_an_index(store: SqliteTaskStore, name: str) -> None:
    await grown(store, 1, 9)
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


async def wait_for(store: SqliteTaskStore, owner: Owner, first: int, last: int) -> None:
    """Have something to be delivered of some tasks."""
    for number in range(first, last):
        await file(store, number, owner=owner)
        await store.save_push_config(
            PushConfig(id="p", task_id=f"t{number}", url="https://example.org")
        )
        await store.append(f"t{number}", [moved(TaskState.WORKING, 1.0)])


async def test_passing_over_an_owner_costs_the_same_however_much_waits_for_them(
    store: SqliteTaskStore,
) -> None:
    bob, costs = Owner("", "bob"), []

    def take() -> Any:
        return store.claim_deliveries(limit=9, lease=60.0, max_per_owner=4, in_flight={ANN: 4})

    for first, last in ((1, 20), (20, 500)):
        await wait_for(store, ANN, first, last)
        await wait_for(store, bob, 1000 + first, 1001 + first)
        statements, steps = await traced(store, take)
        costs.append(steps)

    def plans(connection: sqlite3.Connection) -> list[str]:
        rows = [connection.execute(f"EXPLAIN QUERY PLAN {text}") for text in statements]
        return [plan for found in rows for *_, plan in found if plan.startswith(("SCAN", "USE"))]

    assert abs(costs[0] - costs[1]) < 80
    assert await store.database.read(plans) == []


async def test_a_reader_never_goes_through_many_events(store: SqliteTaskStore) -> None:
    await file(store, 1)
    await store.append("t1", [moved(TaskState.WORKING, 1.0)])
    for _ in range(40):
        await store.append("t1", [piece("xyz ")] * 50)
    _, steps = await traced(store, lambda: store.read("t1"))
    assert steps < 256 * 10
    found = await store.read("t1")
    assert found is not None
    assert (found.seq, found.artifacts[0].parts) == (2002, (Part(text="xyz " * 2000),))


# Files of the first version


# Several stores on one file


async def test_applications_that_share_a_file_do_not_see_each_other(path: Path) -> None:
    desk = tasks_at(path)
    shop = SqliteTaskStore(desk.database, clock=FrozenClock(), app_name="shop")
    assert (await file(desk, 1)).is_new
    assert (await file(shop, 1, owner=Owner("x", "y"))).is_new
    await finish(desk, 1)
    assert (await shop.list_tasks(ANN, TaskQuery())).total == 0
    assert await shop.expired(before=1e9, limit=9) == ()
    assert await shop.delete_expired(["t1"]) == 0
    found = await shop.read("t1")
    assert found is not None
    assert found.state is TaskState.SUBMITTED
    await desk.aclose()


async def test_sessions_and_tasks_share_a_thread_and_a_file(path: Path) -> None:
    sessions = store_at(path)
    tasks = SqliteTaskStore(sessions.database, clock=FrozenClock(), app_name="desk")
    await sessions.open(KEY, holder="h")
    await file(tasks, 1)
    await tasks.aclose()
    with pytest.raises(StorageFailed, match="closed"):
        await sessions.read(KEY)


async def test_what_another_process_took_over_is_not_renewed(path: Path) -> None:
    store = tasks_at(path)
    await file(store, 1)
    me = this_process()

    def give_away(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE tasks SET holder_host = 'elsewhere', lease_until = 5")

    await store.database.write(give_away)
    await store.renew(["t1"])
    # Still that process's, and its lease is over; now it is ours.
    assert await store.claim_orphans() == ("t1",)
    (host,) = await store.database.read(
        lambda c: c.execute("SELECT holder_host FROM tasks").fetchone()
    )
    assert host == me.host
    await store.aclose()


async def test_everything_that_is_a_forgotten_tasks_own_is_dropped(store: SqliteTaskStore) -> None:
    await grown(store, 1, 600)
    await store.save_push_config(PUSH)
    await store.append("t600", [moved(TaskState.CANCELED, 1.0)])
    ended = await store.expired(before=1e6, limit=1000)
    assert await store.delete_expired([one.task_id for one in ended]) == 600

    def left(connection: sqlite3.Connection) -> list[str]:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            " AND (name LIKE 'task%' OR name IN ('deliveries', 'push_configs'))"
        )
        return [
            name
            for (name,) in tables.fetchall()
            if connection.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)  # noqa: S608 - our tables
        ]

    assert await store.database.read(left) == []


# What the disk refuses


async def test_a_full_disk_is_named_and_nothing_is_half_done(store: SqliteTaskStore) -> None:
    await file(store, 1)

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


async def test_a_file_that_stays_locked_is_named(store: SqliteTaskStore, path: Path) -> None:
    await file(store, 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageFailed, match=r"acc\.db: another process has locked it"):
            await store.append("t1", [piece("x")])
        other.execute("ROLLBACK")
    assert len(await store.append("t1", [piece("x")])) == 1


async def test_content_that_cannot_be_read_is_named(store: SqliteTaskStore) -> None:
    await file(store, 1)
    await store.database.write(lambda c: c.execute("UPDATE task_events SET body = '{}'").close())
    for call in (store.read("t1"), store.events("t1"), store.list_tasks(ANN, TaskQuery())):
        with pytest.raises(StorageFailed, match=r"acc\.db: a record cannot be read"):
            await call


@pytest.mark.parametrize(
    "part", [Part(data=object()), Part(text="\ud800"), Part(data=float("nan"))]
)
async def test_what_cannot_be_written_down_is_refused_whole(
    store: SqliteTaskStore, part: Part
) -> None:
    await file(store, 1)
    bad = ArtifactUpdate(artifact=TaskArtifact(artifact_id="a", parts=(part,)))
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await store.append("t1", [piece("x"), bad])
    assert len(await store.events("t1")) == 1


async def test_a_name_that_cannot_be_written_down_is_refused(store: SqliteTaskStore) -> None:
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await store.read("\ud800")
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await file(store, 1, context_id="\ud800")
    assert (await file(store, 1)).is_new


async def test_a_session_store_and_a_task_store_may_each_have_their_own_database(
    path: Path,
) -> None:
    sessions, tasks = SqliteSessionStore(path, clock=FrozenClock()), tasks_at(path)
    await sessions.open(KEY, holder="h")
    await file(tasks, 1)
    await sessions.aclose()
    assert await tasks.read("t1") is not None
    await tasks.aclose()
