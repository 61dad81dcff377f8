"""Tests of daemon threads, the system clock and random ids."""

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from acc.adapters.system.clock import RandomIds, SystemClock
from acc.adapters.system.threads import DaemonThreads


def pool_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("acc call")]


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            gc.collect()
            await asyncio.sleep(0.01)


async def test_call_runs_in_a_thread_and_returns_the_result() -> None:
    def add(one: int, *, other: int) -> tuple[int, bool]:
        return one + other, threading.current_thread() is threading.main_thread()

    assert await DaemonThreads().call(add, 1, other=2) == (3, False)


class Odd(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, Odd, SystemExit, KeyboardInterrupt])
async def test_exception_is_raised_in_the_caller(
    kind: type[BaseException],
) -> None:
    threads = DaemonThreads(limit=1)
    error = kind("no")

    def fail() -> None:
        raise error

    with pytest.raises(kind) as caught:
        await threads.call(fail)
    assert caught.value is error
    assert await threads.call(lambda: "still there") == "still there"


async def test_call_gets_a_copy_of_the_context() -> None:
    colour = contextvars.ContextVar("colour", default="none")
    colour.set("green")

    def look() -> str:
        seen = colour.get()
        colour.set("red")
        return seen

    assert await DaemonThreads().call(look) == "green"
    assert colour.get() == "green"


async def test_threads_are_reused() -> None:
    threads = DaemonThreads()
    used = {await threads.call(threading.get_ident) for _ in range(50)}
    assert len(used) == 1


async def test_calls_beyond_the_limit_wait() -> None:
    threads = DaemonThreads(limit=3)
    gate = threading.Event()
    running: list[int] = []

    def block(number: int) -> int:
        running.append(number)
        gate.wait(10)
        return number

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(threads.call(block, n)) for n in range(5)]
        await wait_until(lambda: len(running) == 3)
        await asyncio.sleep(0.05)
        assert sorted(running) == [0, 1, 2]
        gate.set()
    assert [task.result() for task in tasks] == [0, 1, 2, 3, 4]


async def test_cancelled_call_does_not_wait_for_the_function() -> None:
    threads = DaemonThreads(limit=1)
    gate, began = threading.Event(), threading.Event()
    done: list[str] = []

    def slow() -> None:
        began.set()
        gate.wait(10)
        done.append("slow")

    async with asyncio.TaskGroup() as group:
        first = group.create_task(threads.call(slow))
        second = group.create_task(threads.call(done.append, "never begun"))
        await wait_until(began.is_set)
        started = time.monotonic()
        first.cancel()
        second.cancel()
    assert time.monotonic() - started < 5
    gate.set()
    await wait_until(lambda: done == ["slow"])
    await threads.call(done.append, "later")
    assert done == ["slow", "later"]


def test_result_for_closed_loop_is_dropped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    threads = DaemonThreads(limit=1)
    gate = threading.Event()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await threads.call(gate.wait, 10)

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(threads.call(lambda: 7)) == 7
    assert capsys.readouterr().err == ""


def test_hanging_call_does_not_block_process_exit() -> None:
    code = """
import asyncio, time
from acc.adapters.system.threads import DaemonThreads
async def main():
    try:
        async with asyncio.timeout(0.1):
            await DaemonThreads().call(time.sleep, 600)
    except TimeoutError:
        print("left")
asyncio.run(main())
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


async def test_threads_stop_when_pool_is_garbage_collected() -> None:
    before = set(pool_threads())
    threads = DaemonThreads()
    await threads.call(int)
    assert set(pool_threads()) - before
    del threads
    await wait_until(lambda: not set(pool_threads()) - before)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # raised by Python 3.12 and newer
def test_forked_process_creates_its_own_threads() -> None:
    threads = DaemonThreads()
    assert asyncio.run(threads.call(lambda: 1)) == 1
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if asyncio.run(threads.call(lambda: 2)) == 2 else 1
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_limit_of_zero_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        DaemonThreads(limit=0)


def test_clock_returns_the_system_time() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_random_ids_are_unique() -> None:
    ids = RandomIds()
    made = {ids.new() for _ in range(1000)}
    assert len(made) == 1000
    assert {len(one) for one in made} == {32}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # raised by Python 3.12 and newer
def test_forked_process_creates_different_ids() -> None:
    ids = RandomIds()
    ids.new()  # leaves buffered random bytes for the next id
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.new().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 32
    assert theirs[12:] != ids.new()[12:]
