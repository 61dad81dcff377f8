"""Holding a session while a run lasts: renewed when it is silent, let go whatever happens."""

import asyncio
import time

import pytest
from running_world import KEY, World, no_tasks_left

from acc.adapters.storage.in_memory import InMemorySessionStore
from acc.application.runtime.leases import SessionLeases
from acc.domain.errors import SessionBusy
from acc.domain.value_objects.session import Session, SessionKey
from acc.testing import FrozenClock

OTHER = SessionKey(app_name="desk", user_id="ann", session_id="s2")


class Renewing(InMemorySessionStore):
    """Knows how often it was renewed, and can keep renewals and openings waiting."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__(clock=clock)
        self.renewed = asyncio.Semaphore(0)
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        if not self.gate.is_set():
            self.asked.set()
        await self.gate.wait()
        try:
            await super().renew(key, holder=holder)
        finally:
            self.renewed.release()

    async def open(self, key: SessionKey, *, holder: str) -> Session:
        session = await super().open(key, holder=holder)
        await self.gate.wait()
        return session


async def test_a_session_that_stays_busy_is_given_up_after_a_while(world: World) -> None:
    holding = SessionLeases(world.sessions, busy_timeout=0.0)
    await world.sessions.open(KEY, holder="somebody else")
    with pytest.raises(SessionBusy, match="somebody else"):
        await holding.take(KEY, "me")
    await world.sessions.release(KEY, holder="somebody else")
    await holding.take(KEY, "me")
    await holding.give_back(KEY, "me")


async def test_who_waits_in_line_for_too_long_gives_up_and_the_next_one_comes(
    world: World,
) -> None:
    patient, holding = (
        SessionLeases(world.sessions),
        SessionLeases(world.sessions, busy_timeout=0.01),
    )
    await holding.take(KEY, "me")
    with pytest.raises(SessionBusy, match=r"0\.01 seconds"):
        await holding.take(KEY, "too late")
    await holding.give_back(KEY, "me")
    await holding.take(KEY, "next")
    await holding.give_back(KEY, "next")
    await patient.take(KEY, "last")
    await patient.give_back(KEY, "last")


async def test_time_may_run_out_at_the_moment_the_session_gets_free() -> None:
    """Both are due in one round of the loop: the line must not wait for one who has left."""
    holding = SessionLeases(InMemorySessionStore(clock=FrozenClock()), busy_timeout=0.002)
    await holding.take(KEY, "me")

    def give_back() -> None:
        with pytest.raises(StopIteration):  # it ends without having to wait
            holding.give_back(KEY, "me").send(None)

    asyncio.get_running_loop().call_later(0.001, give_back)
    async with asyncio.TaskGroup() as group:
        late = group.create_task(taken(holding, "late"))
        await asyncio.sleep(0)
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is kept from both
    assert late.result() in ("busy", "taken")
    if late.result() == "taken":
        await holding.give_back(KEY, "late")
    assert await taken(holding, "next") == "taken"


async def taken(holding: SessionLeases, holder: str) -> str:
    try:
        await holding.take(KEY, holder)
    except SessionBusy:
        return "busy"
    return "taken"


async def test_a_session_that_gets_free_is_taken(world: World) -> None:
    holding = SessionLeases(world.sessions)
    await world.sessions.open(KEY, holder="somebody else")
    async with asyncio.TaskGroup() as group:
        taken = group.create_task(holding.take(KEY, "me"))
        await asyncio.sleep(0)
        await world.sessions.release(KEY, holder="somebody else")
    assert taken.result().key == KEY
    await holding.give_back(KEY, "me")


async def test_a_silent_run_keeps_its_session_for_longer_than_a_lease() -> None:
    clock = FrozenClock()
    store = Renewing(clock)
    holding = SessionLeases(store, renew_every=0.001)
    await holding.take(KEY, "me")
    await holding.take(OTHER, "me too")
    for _ in range(3):
        clock.time += 29
        for _ in range(4):
            await store.renewed.acquire()
        for key in (KEY, OTHER):
            with pytest.raises(SessionBusy):
                await store.open(key, holder="somebody else")
    await holding.give_back(KEY, "me")
    await store.open(KEY, holder="somebody else")
    await holding.give_back(OTHER, "me too")
    await asyncio.sleep(0.005)
    assert no_tasks_left()


async def test_a_renewal_that_is_refused_harms_nobody() -> None:
    store = Renewing(FrozenClock())
    holding = SessionLeases(store, renew_every=0.001)
    await holding.take(KEY, "me")
    await store.delete(KEY)
    await store.renewed.acquire()
    await holding.give_back(KEY, "me")
    assert no_tasks_left()


async def test_a_renewal_under_way_is_waited_for_and_the_session_let_go() -> None:
    store = Renewing(FrozenClock())
    holding = SessionLeases(store, renew_every=0.001)
    await holding.take(KEY, "me")
    store.gate.clear()
    await store.asked.wait()
    async with asyncio.TaskGroup() as group:
        back = group.create_task(holding.give_back(KEY, "me"))
        await asyncio.sleep(0)
        assert not back.done()
        store.gate.set()
    await store.open(KEY, holder="somebody else")
    assert no_tasks_left()


async def test_a_session_whose_opening_was_cut_off_is_let_go() -> None:
    store = Renewing(FrozenClock())
    holding = SessionLeases(store)
    store.gate.clear()
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(holding.take(KEY, "me"))
        await asyncio.sleep(0)
        taking.cancel()
    store.gate.set()
    await store.open(KEY, holder="somebody else")
