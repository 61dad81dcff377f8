"""Tests of runs on stores that fail, are locked, damaged, closed or missing."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from runner_harness import (
    APP,
    USER,
    PaymentTool,
    RunnerHarness,
    Storage,
    check_record,
    scripted_agent,
    sqlite,
)

from acc import (
    Agent,
    BaseAgent,
    Event,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
)
from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.domain.errors import (
    InvalidInput,
    StorageFailed,
)
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import TurnStart
from acc.testing import FrozenClock, ScriptedModel, call

ECHO = scripted_agent(
    ScriptedModel(lambda prompt: f"you said {prompt.query}", repeat=True), name="echo"
)


class FailingStore(InMemorySessionStore):
    """Store that fails from the n-th write on."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__(clock=clock)
        self.remaining = 10**9
        self.appended = 0

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        holder: str,
        release: bool = False,
    ) -> tuple[Event, ...]:
        await self._count()
        return await super().append(key, events, holder=holder, release=release)

    async def begin_turn(
        self,
        key: SessionKey,
        message: Event,
        *,
        holder: str,
        agent: str,
        waits_for_runs: bool = False,
    ) -> TurnStart:
        await self._count()
        return await super().begin_turn(
            key, message, holder=holder, agent=agent, waits_for_runs=waits_for_runs
        )

    async def _count(self) -> None:
        await asyncio.sleep(0)
        if self.appended >= self.remaining:
            raise StorageFailed("the disk is full")
        self.appended += 1


def payments() -> tuple[BaseAgent, PaymentTool]:
    payment = PaymentTool()
    tree = SequentialAgent(
        name="root",
        sub_agents=[
            scripted_agent(
                ScriptedModel([call("pay", amount=n) for n in (1, 2)], "paid"),
                payment.tool(confirm=False),
            ),
            scripted_agent(ScriptedModel("bye"), name="last", output_key="last_text"),
        ],
    )
    return tree, payment


@pytest.mark.parametrize("streamed", [False, True])
async def test_session_continues_after_store_failed_at_any_event(
    streamed: bool,
) -> None:
    left, failed = 0, True
    while failed:
        clock = FrozenClock()
        store = FailingStore(clock)
        storage = Storage(store, InMemoryArtifactStore(), clock)
        tree, payment = payments()
        harness = storage.harness(tree)
        store.remaining = left
        try:
            if streamed:
                async for _ in harness.runner.stream(user_id=USER, session_id="s1", message="pay"):
                    pass
            else:
                await harness.say("pay")
            failed = False
        except StorageFailed:
            left += 1
        assert len(payment.paid) in (0, 2)
        store.remaining = 10**9
        assert (await storage.harness(ECHO).say("hi")).text == "you said hi"
        check_record(await harness.events())
    assert left == 7


async def test_record_is_consistent_after_agent_catches_a_rejected_message(
    storage: Storage,
) -> None:
    """Check that sequence numbers match the store after the error was caught."""

    class CatchesInvalidInput(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            try:
                await ctx.say("\ud800")
            except InvalidInput:
                return "mended"
            return "taken as it is"

    harness = storage.harness(CatchesInvalidInput(name="swallows"))
    assert (await harness.say("go")).text in ("mended", "taken as it is")
    check_record(await harness.events())


async def sqlite_fails(harness: RunnerHarness, match: str) -> None:
    with pytest.raises(StorageFailed, match=match):
        await harness.say("hi")


async def test_run_fails_while_database_is_locked(tmp_path: Path) -> None:
    clock = FrozenClock()
    database = SqliteDatabase(tmp_path / "acc.db", busy_timeout=0.05)
    storage = Storage(SqliteSessionStore(database, clock=clock), InMemoryArtifactStore(), clock)
    harness = storage.harness(ECHO)
    await harness.say("first")
    blocker = sqlite3.connect(tmp_path / "acc.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    await sqlite_fails(harness, "locked")
    blocker.execute("ROLLBACK")
    blocker.close()
    assert (await harness.say("again")).text == "you said again"
    check_record(await harness.events())
    await storage.sessions.aclose()


async def test_session_continues_after_database_was_locked_during_run(
    tmp_path: Path,
) -> None:
    clock = FrozenClock()
    database = SqliteDatabase(tmp_path / "acc.db", busy_timeout=0.05)
    storage = Storage(SqliteSessionStore(database, clock=clock), InMemoryArtifactStore(), clock)
    blocker = sqlite3.connect(tmp_path / "acc.db", isolation_level=None)

    async def lock() -> str:
        blocker.execute("BEGIN IMMEDIATE")
        return "locked"

    harness = storage.harness(scripted_agent(ScriptedModel(call("lock"), "never"), lock))
    await sqlite_fails(harness, "locked")
    blocker.execute("ROLLBACK")
    blocker.close()
    clock.time += 31  # the lease could not be released, so it has to expire
    assert (await storage.harness(ECHO).say("again")).text == "you said again"
    check_record(await harness.events())
    await storage.sessions.aclose()


async def test_file_that_is_not_a_database_raises(tmp_path: Path) -> None:
    (tmp_path / "acc.db").write_bytes(b"not a database at all" * 100)
    storage = sqlite(tmp_path)
    await sqlite_fails(storage.harness(ECHO), "not an SQLite database")
    await storage.sessions.aclose()


async def test_damaged_file_raises_and_is_not_changed(tmp_path: Path) -> None:
    storage = sqlite(tmp_path)
    for n in range(30):
        await storage.harness(ECHO).say("word " * 200, session=f"s{n}")
    await storage.sessions.aclose()
    path = tmp_path / "acc.db"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    storage = sqlite(tmp_path)
    with pytest.raises(StorageFailed):
        await storage.harness(ECHO).say("hi", session="s3")
    await storage.sessions.aclose()
    assert path.read_bytes() == bytes(data)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_read_only_file_raises(tmp_path: Path) -> None:
    storage = sqlite(tmp_path)
    await storage.harness(ECHO).say("hi")
    await storage.sessions.aclose()
    (tmp_path / "acc.db").chmod(stat.S_IRUSR)
    await sqlite_fails(sqlite(tmp_path).harness(ECHO), "cannot be written")


async def test_missing_folder_raises(tmp_path: Path) -> None:
    storage = sqlite(tmp_path / "nowhere")
    await sqlite_fails(storage.harness(ECHO), "does not exist")
    await storage.sessions.aclose()


async def test_closed_store_raises(tmp_path: Path) -> None:
    runner = Runner(ECHO, app_name=APP, store=tmp_path / "acc.db")
    await runner.run(user_id="ann", session_id="s1", message="hi")
    await runner.aclose()
    with pytest.raises(StorageFailed, match="closed"):
        await runner.run(user_id="ann", session_id="s1", message="hi")


async def test_answer_that_cannot_be_stored_is_recorded_as_failed_run(tmp_path: Path) -> None:
    class FinishesWithInvalidUsage(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            await ctx.finish("dear", usage="much")  # type: ignore[arg-type]

    storage = sqlite(tmp_path)
    harness = storage.harness(FinishesWithInvalidUsage(name="a"))
    with pytest.raises(InvalidInput):
        await harness.say("go")
    assert await harness.ends() == [RunStatus.FAILED]
    check_record(await harness.events())
    assert (await storage.harness(ECHO).say("hi")).text == "you said hi"
    await storage.sessions.aclose()


async def test_memory_does_not_record_an_answer_that_was_not_stored() -> None:
    clock = FrozenClock()
    store = FailingStore(clock)
    storage = Storage(store, InMemoryArtifactStore(), clock)
    harness = storage.harness(Agent(name="a", model=ScriptedModel("lost", "stored")))
    store.remaining = 1
    with pytest.raises(StorageFailed):
        await harness.say("one")
    store.remaining = 10**9
    assert (await harness.say("two")).text == "stored"
    texts = [event.text for event in await harness.events()]
    assert "lost" not in texts
    check_record(await harness.events())


async def test_turn_cancelled_before_it_is_stored_leaves_no_events() -> None:
    class Slow(InMemorySessionStore):
        async def begin_turn(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(60)

    clock = FrozenClock()
    store = Slow(clock=clock)
    harness = Storage(store, InMemoryArtifactStore(), clock).harness(ECHO)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(harness.say("hi"))
        await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()
    assert await harness.events() == ()
