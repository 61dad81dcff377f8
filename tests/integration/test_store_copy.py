"""Copies between SQLite and a real PostgreSQL server: losses, interruptions, dry runs, errors."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from postgres_server import ENCODED_PASSWORD, new_store_url
from test_postgres import KEY, OWNER, canceled, event, message, new_task

from acc import Agent, InvalidInput, Runner, tool
from acc.adapters.storage import store_copy
from acc.adapters.storage.location import parse_location
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_tasks import PostgresTaskStore
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore
from acc.adapters.storage.store_copy import COLUMNS, copy_store
from acc.adapters.system.clock import SystemClock
from acc.domain.errors import LimitExceeded, StorageFailed
from acc.domain.value_objects.event import EventActions
from acc.ports.outbound.storage_ports import ContentLimit


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
    # What is stored for a caller is counted in the copies too.
    sqlite = SqliteTaskStore(back, clock=SystemClock(), app_name="desk")
    for copy, count in ((store, 2), (sqlite, 1)):
        with pytest.raises(LimitExceeded, match=f"at most {count} stored tasks"):
            await copy.create(
                new_task("t3"),
                owner=OWNER,
                message=message("m3"),
                content=ContentLimit(OWNER, count, 1000),
            )
        await copy.aclose()


async def test_dry_run_of_a_copy_checks_the_target_and_creates_nothing(tmp_path: Path) -> None:
    source, empty, full = tmp_path / "a.db", new_store_url(), new_store_url()
    await fill(source)
    counts = await copy_store(source, parse_location(empty), dry_run=True)
    assert counts["acc_sessions"] == 1
    assert (await PostgresDatabase(empty).schema()).version == 0
    await copy_store(source, tmp_path / "b.db", dry_run=True)
    assert not (tmp_path / "b.db").exists()
    await copy_store(source, parse_location(full))
    await copy_store(source, tmp_path / "full.db")
    wrong = full.replace(ENCODED_PASSWORD, "wrong-secret")
    for target, reason in (
        (parse_location(full), "not empty"),
        (tmp_path / "full.db", "not empty"),
        (tmp_path / "missing" / "b.db", "does not exist"),
        (parse_location(wrong), "password is wrong"),
    ):
        with pytest.raises(StorageFailed, match=reason):
            await copy_store(source, target, dry_run=True)


async def test_copy_needs_a_source_with_tables(tmp_path: Path) -> None:
    url = new_store_url()
    with pytest.raises(StorageFailed, match="no tables"):
        await copy_store(parse_location(url), tmp_path / "a.db")
    assert (await PostgresDatabase(url).schema()).version == 0


async def test_name_that_postgres_cannot_store_is_located_and_nothing_is_copied(
    tmp_path: Path,
) -> None:
    source, url = tmp_path / "a.db", new_store_url()
    store = SqliteSessionStore(source, clock=SystemClock())
    await store.open(KEY, holder="a")
    delta = {"plain": 1, "odd\x00name": "secret value"}
    actions = EventActions(state_delta=delta)
    await store.append(KEY, [msgspec.structs.replace(event(1), actions=actions)], holder="a")
    await store.aclose()
    with pytest.raises(InvalidInput, match=r"state: key .* NUL.*'odd\\x00name'") as caught:
        await copy_store(source, parse_location(url))
    assert "secret value" not in str(caught.value)
    assert not any((await dump(url)).values())


async def test_copy_that_is_killed_leaves_an_empty_target(tmp_path: Path) -> None:
    source, url = tmp_path / "a.db", new_store_url()
    await fill(source)
    connection = await PostgresDatabase(url).connect()
    await PostgresDatabase(url).migrate()
    await connection.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';"
        "CREATE TRIGGER wait AFTER INSERT ON acc_recall_lengths"
        " FOR EACH STATEMENT EXECUTE FUNCTION wait()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "acc", "store", "copy", str(source), url),
        stdout=subprocess.DEVNULL,
    )
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    async with asyncio.timeout(60):
        while not await connection.fetchval(waiting):  # noqa: ASYNC110 - most tables are copied
            await asyncio.sleep(0.05)
    process.kill()
    await process.wait()
    # The server does not notice the end of a client while it sleeps.
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    )
    await connection.execute("DROP TRIGGER wait ON acc_recall_lengths")
    await connection.close()
    assert not any((await dump(url)).values())
    await copy_store(source, parse_location(url))
    assert await dump(source) == await dump(url)
