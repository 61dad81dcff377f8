"""PostgreSQL stores with a real server: errors, fencing, outages, processes, notifications."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from postgres_server import ENCODED_PASSWORD, PASSWORD, PostgresServer, new_store_url, shared_server

from acc import Agent, InvalidInput, Runner, tool
from acc.adapters.storage.location import parse_location
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_schema import (
    MIGRATIONS,
    SCHEMA_VERSION,
    Migration,
    migrate,
    read_schema,
)
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.storage.postgres_tasks import PostgresTaskStore
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.store_copy import COLUMNS, copy_store
from acc.adapters.system.clock import SystemClock
from acc.bootstrap.storage import check_store_version
from acc.domain.errors import SessionConflict, StorageFailed
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.session import SessionKey
from acc.domain.value_objects.task import Message, Role, StatusUpdate, Task, TaskState, TaskStatus
from acc.testing import FrozenClock

KEY = SessionKey(app_name="desk", user_id="ann", session_id="s1")
OWNER = Owner("acme", "ann")


def event(number: int) -> Event:
    actions = EventActions(state_delta={"count": number})
    return Event(kind=EventKind.STATE, run_id="r", author="a", seq=0, actions=actions)


def new_task(task_id: str) -> Task:
    status = TaskStatus(state=TaskState.SUBMITTED, at=1.0)
    return Task(id=task_id, context_id=f"c-{task_id}", status=status)


def message(message_id: str = "m") -> Message:
    return Message(message_id=message_id, role=Role.USER, parts=text_part("hello 日本語"))


def canceled() -> StatusUpdate:
    return StatusUpdate(status=TaskStatus(state=TaskState.CANCELED, at=2.0))


@pytest.fixture
async def database() -> AsyncIterator[PostgresDatabase]:
    created = PostgresDatabase(new_store_url())
    yield created
    await created.aclose()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    own = PostgresServer()
    own.start()
    yield own
    own.stop()


# Errors


async def fail(url: str) -> str:
    store = PostgresSessionStore(url, clock=FrozenClock())
    with pytest.raises(StorageFailed) as caught:
        await store.open(KEY, holder="a")
    await store.aclose()
    text = str(caught.value)
    assert PASSWORD not in text
    assert ENCODED_PASSWORD not in text
    return text


async def test_wrong_password_is_not_shown() -> None:
    url = shared_server().url().replace(ENCODED_PASSWORD, "wrong-secret")
    text = await fail(url)
    assert "password is wrong" in text
    assert "wrong-secret" not in text


async def test_missing_database_is_named() -> None:
    assert "does not exist; create it" in await fail(shared_server().url("unknown"))


async def test_unavailable_server_is_named() -> None:
    url = shared_server().url().replace(str(shared_server().port), "1")
    assert "127.0.0.1:1/postgres: the server cannot be reached" in await fail(url)


async def test_read_only_database_is_named() -> None:
    url = new_store_url()
    await PostgresDatabase(url).migrate()
    assert "read-only" in await fail(f"{url}&default_transaction_read_only=on")


async def test_newer_tables_are_rejected() -> None:
    url = new_store_url()
    database = PostgresDatabase(url)
    await database.migrate()
    connection = await database.connect()
    await connection.execute("INSERT INTO acc_schema VALUES (99, 98, now())")
    await connection.close()
    assert "schema version 99" in await fail(url)
    with pytest.raises(StorageFailed, match="upgrade"):
        await check_store_version(url)


async def test_newer_compatible_tables_are_accepted() -> None:
    url = new_store_url()
    newer = Migration(SCHEMA_VERSION + 1, SCHEMA_VERSION, ("CREATE TABLE acc_more (id bigint)",))
    database = PostgresDatabase(url)
    connection = await database.connect()
    assert len(await migrate(connection, migrations=(*MIGRATIONS, newer), dry_run=True)) == 3
    assert (await read_schema(connection)).version == 0
    assert len(await migrate(connection, migrations=(*MIGRATIONS, newer))) == 3
    assert await migrate(connection, migrations=(*MIGRATIONS, newer)) == ()
    await connection.close()
    store = PostgresSessionStore(url, clock=FrozenClock())
    await store.open(KEY, holder="a")
    await store.aclose()


async def test_older_tables_need_a_migration(database: PostgresDatabase) -> None:
    connection = await database.connect()
    await connection.execute("CREATE TABLE acc_schema (version bigint, compatible bigint)")
    await connection.execute("INSERT INTO acc_schema VALUES (-1, -1)")
    await connection.close()
    with pytest.raises(StorageFailed, match="acc store migrate"):
        await PostgresSessionStore(database, clock=FrozenClock()).read(KEY)


async def test_name_with_nul_is_rejected_without_its_text(database: PostgresDatabase) -> None:
    store = PostgresTaskStore(database, clock=FrozenClock())
    with pytest.raises(InvalidInput, match="NUL") as caught:
        await store.create(new_task("secret\x00"), owner=OWNER, message=message())
    assert "secret" not in str(caught.value)


async def test_closed_store_is_reported(database: PostgresDatabase) -> None:
    store = PostgresSessionStore(database, clock=FrozenClock())
    await store.aclose()
    with pytest.raises(StorageFailed, match="closed"):
        await store.read(KEY)


# Leases and outages


async def test_process_that_lost_its_lease_cannot_write(database: PostgresDatabase) -> None:
    clock = FrozenClock()
    paused = PostgresSessionStore(database, clock=clock)
    other = PostgresSessionStore(PostgresDatabase(database.location), clock=clock)
    await paused.open(KEY, holder="run")
    clock.time += 60
    # The other process resumes the same run, so that the holder is the same.
    await other.open(KEY, holder="run")
    for write in (
        paused.append(KEY, [event(1)], holder="run"),
        paused.renew(KEY, holder="run"),
    ):
        with pytest.raises(SessionConflict):
            await write
    await other.append(KEY, [event(2)], holder="run")
    assert [one.actions.state_delta for one in await other.events(KEY)] == [{"count": 2}]
    await other.aclose()


async def test_leases_use_the_clock_of_the_server(database: PostgresDatabase) -> None:
    store = PostgresSessionStore(database, clock=SystemClock())
    await store.open(KEY, holder="a")
    other = PostgresSessionStore(PostgresDatabase(database.location), clock=SystemClock())
    await other.read(KEY)
    other.database.clock_skew = 31.0  # a machine whose clock is 31 seconds behind the server's
    session = await other.open(KEY, holder="b")
    assert session.seq == 0
    await other.aclose()


async def test_writes_continue_after_a_restart_of_the_server(server: PostgresServer) -> None:
    store = PostgresSessionStore(server.url(), clock=SystemClock())
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="a")
    await asyncio.to_thread(server.kill)
    async with asyncio.TaskGroup() as group:
        write = group.create_task(store.append(KEY, [event(2)], holder="a"))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.start)
    assert write.result()[0].seq == 2
    assert [one.seq for one in await store.events(KEY)] == [1, 2]
    await store.aclose()


async def test_operations_wait_for_a_free_connection() -> None:
    database = PostgresDatabase(new_store_url(), max_connections=1)
    store = PostgresSessionStore(database, clock=SystemClock())
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            key = SessionKey(app_name="desk", user_id="ann", session_id=f"s{number}")
            group.create_task(store.open(key, holder="a"))
    assert len(await store.sessions("desk", "ann")) == 20
    await store.aclose()


KILLED = """
import asyncio, sys
from acc.adapters.storage.postgres_tasks import PostgresTaskStore
from acc.adapters.system.clock import SystemClock
sys.path.insert(0, sys.argv[2])
from test_postgres import OWNER, message, new_task

async def main():
    store = PostgresTaskStore(sys.argv[1], clock=SystemClock(), app_name="desk")
    await store.create(new_task("t1"), owner=OWNER, message=message())
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_tasks_of_a_killed_process_are_claimed_once(database: PostgresDatabase) -> None:
    # The test process has the server, so the other one only gets the URL.
    folder = str(Path(__file__).parent)
    support = str(Path(__file__).parent.parent / "support")
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - it is killed, and our arguments
        [sys.executable, "-c", KILLED, database.location.url, folder],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": support, "PATH": "/usr/bin"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    first, second = (
        PostgresTaskStore(PostgresDatabase(database.location), clock=SystemClock(), app_name="desk")
        for _ in range(2)
    )
    assert await first.claim_orphans() == ()
    process.kill()
    process.wait()
    process.stdout.close()
    claimed = await asyncio.gather(first.claim_orphans(), second.claim_orphans())  # noqa: TID251
    assert sorted(claimed) == [(), ("t1",)]
    await first.aclose()
    await second.aclose()


# Notifications


async def test_update_of_another_process_is_announced(database: PostgresDatabase) -> None:
    watching = PostgresTaskStore(database, clock=SystemClock())
    other = PostgresTaskStore(PostgresDatabase(database.location), clock=SystemClock())
    await watching.create(new_task("t1"), owner=OWNER, message=message())
    await watching.wait_for_changes()  # it listens from now on
    await other.append("t1", [canceled()])
    started = time.monotonic()
    changed: set[str] = set()
    while "t1" not in changed and time.monotonic() - started < 10:
        changed |= set(await watching.wait_for_changes() or ())
    assert "t1" in changed
    await other.aclose()
    await watching.aclose()


async def test_store_polls_when_it_cannot_listen(database: PostgresDatabase) -> None:
    store = PostgresTaskStore(database, clock=SystemClock())
    await store.create(new_task("t1"), owner=OWNER, message=message())
    await database.aclose()  # the connection to listen is refused
    assert await store.wait_for_changes() is None
    await store.aclose()


# Copies and growth


async def fill(store: str | Path) -> None:
    @tool
    def note(text: str) -> str:
        """Store a note."""
        return text

    runner = Runner(
        Agent(name="desk", model="embedded", memory="acc", tools=[note]),
        app_name="desk",
        store=str(store),
    )
    for number in range(40):
        await runner.run(f"Rule {number}: always answer in short. 覚えて", session_id="s1")
    await runner.services.artifacts.save(KEY, "user:notes", b"\x00\xff", "text/plain")
    await runner.aclose()


async def dump(store: str | Path) -> dict[str, list[tuple[object, ...]]]:
    from acc.adapters.storage import store_copy

    rows: dict[str, list[tuple[object, ...]]] = {}
    location = parse_location(store)
    assert location is not None
    async with store_copy._open(location, is_target=False) as opened:
        for table in COLUMNS:
            rows[table] = []
            async for batch in opened.read(table):
                rows[table] += [tuple(row) for row in batch]
    return {table: sorted(found, key=repr) for table, found in rows.items()}


async def test_copy_to_postgres_and_back_loses_nothing(tmp_path: Path) -> None:
    source, url, back = tmp_path / "a.db", new_store_url(), tmp_path / "b.db"
    await fill(source)
    sessions = SqliteSessionStore(source, clock=SystemClock())
    from acc.adapters.storage.sqlite_tasks import SqliteTaskStore

    tasks = SqliteTaskStore(sessions.database, clock=SystemClock(), app_name="desk")
    await tasks.create(new_task("t1"), owner=OWNER, message=message())
    await tasks.append("t1", [canceled()])
    await tasks.aclose()
    counts = await copy_store(source, parse_location(url))
    assert counts["acc_events"] > 100
    assert counts["acc_recall_postings"] > 0
    with pytest.raises(StorageFailed, match="not empty"):
        await copy_store(source, parse_location(url))
    await copy_store(parse_location(url), back)
    first, second, third = await dump(source), await dump(url), await dump(back)
    for table in COLUMNS:
        assert first[table] == second[table] == third[table], table
    # The copy can be continued.
    runner = Runner(Agent(name="desk", model="embedded", memory="acc"), app_name="desk", store=url)
    result = await runner.run("And now?", session_id="s1")
    assert result.text
    await runner.aclose()
    store = PostgresTaskStore(url, clock=SystemClock(), app_name="desk")
    assert (await store.create(new_task("t9"), owner=OWNER, message=message())).task.id == "t1"
    await store.create(new_task("t2"), owner=OWNER, message=message("m2"))
    await store.aclose()


async def test_state_of_a_session_does_not_grow_with_turns() -> None:
    url = new_store_url()
    agent = Agent(name="desk", model="embedded", output_key="last_answer")
    runner = Runner(agent, app_name="desk", store=url)
    connection = await PostgresDatabase(url).connect()
    sizes: dict[int, list[int]] = {}
    for turn in range(1, 501):
        await runner.run(f"Message {turn} of a long talk", session_id="s1")
        if turn in (50, 500):
            sizes[turn] = [
                await connection.fetchval(query)
                for query in (
                    "SELECT count(*) FROM acc_state",
                    "SELECT count(*) FROM acc_sessions",
                    "SELECT sum(pg_column_size(value)) FROM acc_state",
                    "SELECT pg_total_relation_size('acc_sessions')"
                    " + pg_total_relation_size('acc_state')",
                )
            ]
    await connection.close()
    await runner.aclose()
    assert sizes[50][0] > 0
    assert all(late <= 1.3 * early for early, late in zip(sizes[50], sizes[500], strict=True)), (
        sizes
    )
