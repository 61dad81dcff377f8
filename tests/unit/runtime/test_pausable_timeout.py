"""Tests of timeouts that do not count paused time."""

import asyncio
import contextvars
import math
import threading
from collections.abc import Callable

import pytest

from acc.application.runtime.pausable_timeout import PausableTimeout, pause_deadlines


async def sleep_paused(seconds: float) -> None:
    with pause_deadlines():
        await asyncio.sleep(seconds)


async def test_timeout_is_raised_after_the_limit() -> None:
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.01):
            await asyncio.sleep(60)


async def test_timeout_of_none_never_expires() -> None:
    async with PausableTimeout(None) as timeout:
        await sleep_paused(0.01)
        assert timeout.remaining == math.inf


async def test_paused_time_does_not_count() -> None:
    async with PausableTimeout(0.3) as timeout:
        await sleep_paused(0.4)
        assert 0 < timeout.remaining <= 0.3


async def test_timeout_continues_after_pause() -> None:
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.05):
            await sleep_paused(0.1)
            await asyncio.sleep(60)


async def test_pause_applies_to_outer_timeouts() -> None:
    async with PausableTimeout(0.3) as outer, PausableTimeout(0.3) as inner:
        await sleep_paused(0.4)
        assert min(outer.remaining, inner.remaining) > 0
    async with PausableTimeout(1) as next_one:
        assert not list(next_one.chain())[1:]


async def test_pause_lasts_until_last_concurrent_pause_ends() -> None:
    async with PausableTimeout(0.3) as timeout:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep_paused(0.05))
            group.create_task(sleep_paused(0.4))
        assert timeout.remaining > 0


async def test_call_cancelled_while_paused_ends() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            async with PausableTimeout(None):
                await sleep_paused(60)


async def test_pause_does_not_reset_expired_timeout() -> None:
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.01) as timeout:
            try:
                await asyncio.sleep(60)
            finally:
                await sleep_paused(0.01)
    assert timeout.remaining < 0


async def test_pause_that_outlives_the_timeout_is_ignored() -> None:
    async with asyncio.TaskGroup() as group:
        async with PausableTimeout(60) as timeout:
            group.create_task(sleep_paused(0.02))
            await asyncio.sleep(0.01)
        assert timeout.remaining <= 60


def start_thread(work: Callable[[], None]) -> threading.Thread:
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,))
    thread.start()
    return thread


async def test_pause_in_another_thread_applies_to_the_caller() -> None:
    async with PausableTimeout(0.3) as timeout:
        await asyncio.to_thread(asyncio.run, sleep_paused(0.6))
        await asyncio.sleep(0)
        assert timeout.remaining > 0


def test_pause_in_thread_that_outlives_the_caller_is_ignored() -> None:
    caller_ended = threading.Event()
    faults: list[BaseException] = []

    async def paused_until_caller_ended() -> None:
        with pause_deadlines():
            caller_ended.wait(10)

    def work() -> None:
        try:
            asyncio.run(paused_until_caller_ended())
        except BaseException as fault:  # noqa: BLE001 - the thread has no other way to report it
            faults.append(fault)

    async def caller() -> threading.Thread:
        async with PausableTimeout(60):
            return start_thread(work)

    thread = asyncio.run(caller())
    caller_ended.set()
    thread.join(10)
    assert not faults and not thread.is_alive()
