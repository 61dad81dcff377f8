"""Measure what the Temporal engine adds to a turn, on the development server.

Command: python benchmarks/engine.py
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from temporal_server import shared_server

from acc import Agent, Runner, ToolCall, approve, open_worker, tool
from acc.testing import ScriptedModel, call

TURNS = 60


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


async def measure(turn: Callable[[int], Awaitable[object]]) -> str:
    """Return median and 95th percentile of the elapsed time of a turn."""
    times = []
    for number in range(TURNS):
        began = time.perf_counter()
        await turn(number)
        times.append(1000 * (time.perf_counter() - began))
    times.sort()
    return f"{statistics.median(times):6.1f} ms median, {times[int(0.95 * TURNS)]:6.1f} ms 95 %"


async def main() -> None:
    engine = shared_server().url
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/acc.db"
        plain = Agent(name="plain", model=ScriptedModel("Hello.", repeat=True))
        local = Runner(plain, store=store, app_name="local")
        remote = Runner(plain, store=store, app_name="remote", engine=engine)
        print("one turn, in-process:     ", await measure(lambda n: local.run("hello")))
        async with open_worker(plain, engine=engine, store=store, app_name="remote"):
            await remote.run("warm up")
            print("one turn, Temporal:       ", await measure(lambda n: remote.run("hello")))

            async def burst(number: int) -> None:
                async with asyncio.TaskGroup() as group:
                    for index in range(10):
                        group.create_task(remote.run("hello", session_id=f"b{number}-{index}"))

            began = time.perf_counter()
            await measure(burst)
            rate = 10 * TURNS / (time.perf_counter() - began)
            print(f"ten sessions, Temporal:    {rate:6.1f} turns per second")
        await local.aclose()
        await remote.aclose()

        script: list[ToolCall | str] = [call("pay", amount=1), "Paid."]
        model = ScriptedModel(*script * (TURNS + 1))
        payer = Agent(name="payer", model=model, tools=[pay])
        asking = Runner(payer, store=store, app_name="asking", engine=engine)
        async with open_worker(payer, engine=engine, store=store, app_name="asking"):

            async def approved(number: int) -> None:
                waiting = await asking.run("pay")
                await asking.resume(approve(waiting.requests[0].id))

            await approved(0)
            print("turn with an approval:    ", await measure(approved))
        await asking.aclose()


if __name__ == "__main__":
    asyncio.run(main())
