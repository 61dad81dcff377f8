"""What asking a provider's model through us costs over its own client, and what streams hold.

The provider is a stand-in in a process of its own, so that only the asking is measured.
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from lines import Line

from acc.bootstrap.models import make_model
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

_ROUNDS = 60
_CALLS = 20
_STREAMS = 50


@contextmanager
def stand_in() -> Iterator[str]:
    """Give the address of a stand-in provider."""
    with subprocess.Popen(
        [sys.executable, "-m", "acc.testing.stand_in"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@asynccontextmanager
async def asked_by_us(url: str) -> AsyncIterator[LanguageModelPort]:
    model: Any = make_model(f"openai-compatible:bench@{url}")
    try:
        yield model
    finally:
        await model.aclose()


async def cpu_of(calls: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds of CPU of one call."""
    started = time.process_time()
    for _ in range(_CALLS):
        await calls()
    return (time.process_time() - started) / _CALLS * 1000


async def measure_calls(url: str) -> Line:
    import httpx2
    from openai import AsyncOpenAI

    prompt = Prompt(query="What is the rollback window?", instruction="Answer briefly.")
    messages: list[Any] = [
        {"role": "system", "content": prompt.instruction},
        {"role": "user", "content": prompt.query},
    ]
    http = httpx2.AsyncClient()
    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http)
    async with asked_by_us(url) as model:

        async def raw() -> object:
            return await client.chat.completions.create(model="bench", messages=messages)

        async def ours() -> object:
            return await model.complete(prompt)

        for call in (raw, ours):
            await cpu_of(call)
        differences: list[float] = []
        gc.disable()
        for number in range(_ROUNDS):
            first, second = (raw, ours) if number % 2 else (ours, raw)
            taken = {first: await cpu_of(first), second: await cpu_of(second)}
            differences.append(taken[ours] - taken[raw])
            gc.collect()
        gc.enable()
    await client.close()
    added = statistics.median(differences)
    return Line("a model call, over OpenAI's own client", added, 0.2, "ms CPU")


async def measure_streams(url: str) -> list[Line]:
    """Hold 50 streams at once, again and again, and see what memory does."""
    prompt = Prompt(query="Tell me.")
    async with asked_by_us(url) as model:

        async def one() -> None:
            pieces = [piece async for piece in model.stream(prompt)]  # type: ignore[attr-defined]
            assert isinstance(pieces[-1], ModelAnswer)

        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(_STREAMS):
                    group.create_task(one())

        for _ in range(10):
            await together()
        gc.collect()
        before = resident()
        started = time.perf_counter()
        for _ in range(40):
            await together()
        taken = time.perf_counter() - started
        gc.collect()
        grown = resident() - before
    return [
        Line("50 streams at once, growth over 2,000 of them", grown, 4.0, "MB"),
        Line("the same, streams to their end", 40 * _STREAMS / taken, 0, "a second"),
    ]


def resident() -> float:
    """Return the memory of this process, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def bench_models() -> list[Line]:
    with stand_in() as root:
        url = f"{root}/v1"
        return [asyncio.run(measure_calls(url)), *asyncio.run(measure_streams(url))]
