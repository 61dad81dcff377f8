"""A clock that stands still while calls are held back."""

import asyncio
import contextvars
import math
import threading
from collections.abc import Callable

import pytest

from acc.application.runtime.deadlines import PausableTimeout, pause_deadlines


async def holding(seconds: float) -> None:
    with pause_deadlines():
        await asyncio.sleep(seconds)


async def test_what_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.01):
            await asyncio.sleep(60)


async def test_patience_without_end_ends_nothing() -> None:
    async with PausableTimeout(None) as patience:
        await holding(0.01)
        assert patience.remaining == math.inf


async def test_paused_time_does_not_count() -> None:
    async with PausableTimeout(0.3) as patience:
        await holding(0.4)
        assert 0 < patience.remaining <= 0.3


async def test_the_clock_goes_on_where_it_stood() -> None:
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.05):
            await holding(0.1)
            await asyncio.sleep(60)


async def test_the_clocks_around_stand_still_too() -> None:
    async with PausableTimeout(0.3) as outer, PausableTimeout(0.3) as inner:
        await holding(0.4)
        assert min(outer.remaining, inner.remaining) > 0
    async with PausableTimeout(1) as next_one:
        assert not list(next_one.chain())[1:]


async def test_the_clock_stands_still_until_the_last_call_is_let_go() -> None:
    async with PausableTimeout(0.3) as patience:
        async with asyncio.TaskGroup() as group:
            group.create_task(holding(0.05))
            group.create_task(holding(0.4))
        assert patience.remaining > 0


async def test_call_cancelled_while_paused_ends() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            async with PausableTimeout(None):
                await holding(60)


async def test_a_clock_that_has_run_out_is_not_wound_up_again() -> None:
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.01) as patience:
            try:
                await asyncio.sleep(60)
            finally:
                await holding(0.01)
    assert patience.remaining < 0


async def test_what_outlives_its_caller_holds_nobody() -> None:
    async with asyncio.TaskGroup() as group:
        async with PausableTimeout(60) as patience:
            group.create_task(holding(0.02))
            await asyncio.sleep(0.01)
        assert patience.remaining <= 60


def in_a_thread(work: Callable[[], None]) -> threading.Thread:
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,))
    thread.start()
    return thread


async def test_a_thread_with_a_loop_of_its_own_stops_the_clock_of_who_began_it() -> None:
    async with PausableTimeout(0.3) as patience:
        await asyncio.to_thread(asyncio.run, holding(0.6))
        await asyncio.sleep(0)
        assert patience.remaining > 0


def test_thread_paused_longer_than_its_caller_does_no_harm() -> None:
    gone = threading.Event()
    faults: list[BaseException] = []

    async def paused_until_caller_ended() -> None:
        with pause_deadlines():
            gone.wait(10)

    def work() -> None:
        try:
            asyncio.run(paused_until_caller_ended())
        except BaseException as fault:  # noqa: BLE001 - a thread's fault is told to nobody else
            faults.append(fault)

    async def caller() -> threading.Thread:
        async with PausableTimeout(60):
            return in_a_thread(work)

    thread = asyncio.run(caller())
    gone.set()
    thread.join(10)
    assert not faults and not thread.is_alive()
