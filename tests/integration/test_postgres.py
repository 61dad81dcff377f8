"""PostgreSQL stores with a real server: errors, fencing, outages, processes, notifications."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from postgres_server import ENCODED_PASSWORD, PASSWORD, PostgresServer, new_store_url, shared_server

from acc import Agent, InvalidInput, Runner
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
from acc.adapters.system.clock import SystemClock
from acc.bootstrap.storage import check_store_version
from acc.domain.errors import SessionBusy, SessionConflict, StorageFailed
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.session import SessionKey
from acc.domain.value_objects.task import Message, Role, StatusUpdate, Task, TaskState, TaskStatus
from acc.testing import FrozenClock

HERE = Path(__file__).parent
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


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ("sslmode=perhaps", "`sslmode` parameter must be one of"),
        ("sslmode=verify-full", "root certificate file|configuration directory"),
        ("sslmode=verify-full&sslrootcert=/missing.crt", "certificate file of the URL"),
    ],
)
async def test_wrong_parameter_of_the_url_is_named(parameters: str, named: str) -> None:
    store = PostgresSessionStore(f"{shared_server().url()}?{parameters}", clock=FrozenClock())
    with pytest.raises((InvalidInput, StorageFailed), match=named) as caught:
        await store.read(KEY)
    assert PASSWORD not in str(caught.value)
    await store.aclose()


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
    migrations = (*MIGRATIONS, newer)
    assert await migrate(connection, migrations=migrations, dry_run=True) == migrations
    assert (await read_schema(connection)).version == 0
    assert await migrate(connection, migrations=migrations) == migrations
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


PAUSED = """
import asyncio, sys
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.system.clock import SystemClock
from acc.domain.errors import SessionConflict
sys.path.insert(0, sys.argv[2])
from test_postgres import KEY, event

async def main():
    store = PostgresSessionStore(sys.argv[1], clock=SystemClock(), lease=3.0)
    await store.open(KEY, holder="run")
    number = 0
    try:
        while True:
            number += 1
            await store.append(KEY, [event(number)], holder="run")
            await store.renew(KEY, holder="run")
            print("stored", flush=True)
            await asyncio.sleep(0.1)
    except SessionConflict:
        print("refused", flush=True)
    await store.aclose()

asyncio.run(main())
"""


async def test_process_that_was_paused_cannot_write_after_another_has_the_lease(
    database: PostgresDatabase,
) -> None:
    support = str(Path(__file__).parent.parent / "support")
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - it is paused, and our arguments
        [sys.executable, "-c", PAUSED, database.location.url, str(HERE)],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": support, "PATH": "/usr/bin"},
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "stored\n"
        process.send_signal(signal.SIGSTOP)
        other = PostgresSessionStore(database, clock=SystemClock())
        async with asyncio.timeout(20):
            while True:
                with suppress(SessionBusy):
                    await other.open(
                        KEY, holder="run"
                    )  # the same run, continued by another process
                    break
                await asyncio.sleep(0.1)
        before = [one.seq for one in await other.events(KEY)]
        process.send_signal(signal.SIGCONT)
        output = await asyncio.to_thread(process.communicate, timeout=30)
        assert output[0].split()[-1] == "refused"
        (own,) = await other.append(KEY, [event(1000)], holder="run")
        assert [one.seq for one in await other.events(KEY)] == [*before, own.seq]
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)
    await other.aclose()


@pytest.mark.parametrize("when", ["start", "later"])
@pytest.mark.parametrize("shift", [-3600.0, 3600.0])
async def test_process_with_a_wrong_clock_neither_steals_nor_keeps_a_lease(
    database: PostgresDatabase, shift: float, when: str
) -> None:
    sessions = PostgresSessionStore(database, clock=SystemClock())
    tasks = PostgresTaskStore(database, clock=SystemClock(), app_name="desk")
    await sessions.open(KEY, holder="mine")
    await tasks.create(new_task("t1"), owner=OWNER, message=message())
    arguments = [database.location.url, str(shift), when]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "shifted_clock.py"), *arguments, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert json.loads(output) == {"claimed": [], "is_busy": True}
    await sessions.append(KEY, [event(1)], holder="mine")
    # Its own lease ends when it should, by the clock of the server.
    own = SessionKey(app_name="desk", user_id="ann", session_id="own")
    async with asyncio.timeout(20):
        while True:
            try:
                await sessions.open(own, holder="next")
                break
            except SessionBusy:
                await asyncio.sleep(0.1)


async def test_deadlock_of_two_writes_is_repeated(database: PostgresDatabase) -> None:
    async def prepare(connection: Any) -> None:
        await connection.execute("CREATE TABLE pair (name text PRIMARY KEY, value int)")
        await connection.execute("INSERT INTO pair VALUES ('a', 0), ('b', 0)")

    await database.transact(prepare)
    attempts: list[str] = []
    both_hold_a_row = asyncio.Barrier(2)

    def add(first: str, second: str) -> Any:
        async def operation(connection: Any) -> None:
            attempts.append(first)
            change = "UPDATE pair SET value = value + 1 WHERE name = $1"
            await connection.execute(change, first)
            if attempts.count(first) == 1:
                await both_hold_a_row.wait()
            await connection.execute(change, second)

        return operation

    async with asyncio.TaskGroup() as group:
        group.create_task(database.transact(add("a", "b")))
        group.create_task(database.transact(add("b", "a")))
    values = await database.read(lambda connection: connection.fetch("SELECT value FROM pair"))
    assert [row["value"] for row in values] == [2, 2]
    assert len(attempts) == 3  # the server ended one of the two transactions


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


# Growth


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
