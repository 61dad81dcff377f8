"""Leases of sessions: serialised runs, renewal, and release."""

import asyncio
import time

import pytest
from runner_harness import KEY, Storage, no_tasks_remain

from acc.adapters.storage.in_memory import InMemorySessionStore
from acc.application.runtime.leases import SessionLease, SessionLeases
from acc.domain.errors import SessionBusy
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort
from acc.testing import FrozenClock

OTHER = SessionKey(app_name="desk", user_id="ann", session_id="s2")


class NotReleased:
    """A recorder whose events do not release the session."""

    is_released = False


class GatedStore(InMemorySessionStore):
    """Counts renewals, and delays renewals and opening while its gate is closed."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__(clock=clock, lease=0.003)
        self.renewed = asyncio.Semaphore(0)
        self.renewal_started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        if not self.gate.is_set():
            self.renewal_started.set()
        await self.gate.wait()
        try:
            await super().renew(key, holder=holder)
        finally:
            self.renewed.release()

    async def open(self, key: SessionKey, *, holder: str, replaces: str = "") -> Session:
        session = await super().open(key, holder=holder, replaces=replaces)
        await self.gate.wait()
        return session


async def acquire(
    leases: SessionLeases, store: SessionStorePort, holder: str, key: SessionKey = KEY
) -> SessionLease:
    """Acquire a lease and open its session, as the runner does; release it with `release`."""
    lease = leases.acquire(key, holder, NotReleased())
    await lease.__aenter__()
    try:
        while True:
            try:
                await store.open(key, holder=holder)
                break
            except SessionBusy as error:
                await lease.wait_until_free(error)
    except BaseException:
        await release(lease)
        raise
    lease.start_renewal()
    return lease


async def release(lease: SessionLease) -> None:
    await lease.__aexit__(None, None, None)


async def test_acquire_fails_when_session_stays_busy(storage: Storage) -> None:
    leases = SessionLeases(storage.sessions, busy_timeout=0.0)
    await storage.sessions.open(KEY, holder="other")
    with pytest.raises(SessionBusy, match="other"):
        await acquire(leases, storage.sessions, "me")
    await storage.sessions.release(KEY, holder="other")
    await release(await acquire(leases, storage.sessions, "me"))


async def test_queued_run_times_out_and_next_run_gets_session(storage: Storage) -> None:
    leases = SessionLeases(storage.sessions, busy_timeout=0.01)
    first = await acquire(leases, storage.sessions, "me")
    with pytest.raises(SessionBusy, match=r"0\.01 seconds"):
        await acquire(leases, storage.sessions, "late")
    await release(first)
    await release(await acquire(leases, storage.sessions, "next"))
    await release(await acquire(SessionLeases(storage.sessions), storage.sessions, "last"))


async def test_session_is_not_lost_when_timeout_and_release_coincide() -> None:
    store = InMemorySessionStore(clock=FrozenClock())
    leases = SessionLeases(store, busy_timeout=0.002)
    first = await acquire(leases, store, "me")

    def release_first() -> None:
        with pytest.raises(StopIteration):  # it ends without waiting
            first.__aexit__(None, None, None).send(None)

    async def try_acquire(holder: str) -> SessionLease | None:
        try:
            return await acquire(leases, store, holder)
        except SessionBusy:
            return None

    asyncio.get_running_loop().call_later(0.001, release_first)
    async with asyncio.TaskGroup() as group:
        late = group.create_task(try_acquire("late"))
        await asyncio.sleep(0)
        time.sleep(0.01)  # noqa: ASYNC251 - delays both timers
    if (lease := late.result()) is not None:
        await release(lease)
    assert await try_acquire("next") is not None


async def test_acquire_waits_until_other_process_releases(storage: Storage) -> None:
    leases = SessionLeases(storage.sessions)
    await storage.sessions.open(KEY, holder="other")
    async with asyncio.TaskGroup() as group:
        acquired = group.create_task(acquire(leases, storage.sessions, "me"))
        await asyncio.sleep(0)
        await storage.sessions.release(KEY, holder="other")
    assert acquired.result().key == KEY
    await release(acquired.result())


async def test_lease_is_renewed_while_run_lasts() -> None:
    clock = FrozenClock()
    store = GatedStore(clock)
    leases = SessionLeases(store)
    first = await acquire(leases, store, "me")
    second = await acquire(leases, store, "me too", OTHER)
    for _ in range(3):
        clock.time += 0.0029
        for _ in range(4):
            await store.renewed.acquire()
        for key in (KEY, OTHER):
            with pytest.raises(SessionBusy):
                await store.open(key, holder="other")
    await release(first)
    await store.open(KEY, holder="other")
    await release(second)
    await asyncio.sleep(0.005)
    assert no_tasks_remain()


async def test_failed_renewal_is_ignored() -> None:
    store = GatedStore(FrozenClock())
    lease = await acquire(SessionLeases(store), store, "me")
    await store.delete(KEY)
    await store.renewed.acquire()
    await release(lease)
    assert no_tasks_remain()


async def test_release_waits_for_renewal_in_progress() -> None:
    store = GatedStore(FrozenClock())
    lease = await acquire(SessionLeases(store), store, "me")
    store.gate.clear()
    await store.renewal_started.wait()
    async with asyncio.TaskGroup() as group:
        releasing = group.create_task(release(lease))
        await asyncio.sleep(0)
        assert not releasing.done()
        store.gate.set()
    await store.open(KEY, holder="other")
    assert no_tasks_remain()


async def test_session_is_released_when_opening_is_cancelled() -> None:
    store = GatedStore(FrozenClock())
    leases = SessionLeases(store)
    store.gate.clear()
    async with asyncio.TaskGroup() as group:
        acquiring = group.create_task(acquire(leases, store, "me"))
        await asyncio.sleep(0)
        acquiring.cancel()
    store.gate.set()
    await store.open(KEY, holder="other")
