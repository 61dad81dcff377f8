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

import httpx2
from lines import Line
from openai import AsyncOpenAI

from acc.bootstrap.models import make_model
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

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
async def asked_by_us(url: str, provider: str = "openai-compatible") -> AsyncIterator[Any]:
    """Give a model of ours; `openai-chat` is asked through the library, `compatible` is not."""
    os.environ["BENCH_KEY"] = "none"
    model: Any = make_model(f"{provider}:bench@{url}?key=BENCH_KEY")
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


async def measure_calls(url: str) -> list[Line]:
    prompt = Prompt(query="What is the rollback window?", instruction="Answer briefly.")
    messages: list[Any] = [
        {"role": "system", "content": prompt.instruction},
        {"role": "user", "content": prompt.query},
    ]
    http = httpx2.AsyncClient()
    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0, http_client=http)
    async with asked_by_us(url) as model, asked_by_us(url, "openai-chat") as other:

        async def raw() -> object:
            return await client.chat.completions.create(model="bench", messages=messages)

        async def ours() -> object:
            return await model.complete(prompt)

        async def library() -> object:
            return await other.complete(prompt)

        async def bare() -> object:
            body = {"model": "bench", "messages": messages}
            return (await http.post(f"{url}/chat/completions", json=body)).json()

        calls = [raw, library, ours, bare]
        taken: dict[Any, list[float]] = {call: [await cpu_of(call)] for call in calls}
        gc.disable()
        for _ in range(_ROUNDS):
            calls.append(calls.pop(0))
            for call in calls:
                taken[call].append(await cpu_of(call))
            gc.collect()
        gc.enable()
    await client.close()

    def added(call: Any, over: Any = raw) -> float:
        pairs = zip(taken[call][1:], taken[over][1:], strict=True)
        return statistics.median(own - other for own, other in pairs)

    return [
        Line("OpenAI's own client, a call", statistics.median(taken[raw]), 0, "ms CPU"),
        Line("openai-compatible, over OpenAI's own client", added(ours), 0.2, "ms CPU"),
        Line("the same, over the bare HTTP client", added(ours, bare), 0.2, "ms CPU"),
        Line(
            "openai-chat, through the library, over OpenAI's own client",
            added(library),
            0,
            "ms CPU",
        ),
    ]


async def measure_streams(url: str) -> list[Line]:
    """Hold 50 streams at once, again and again, and see what memory does."""
    prompt = Prompt(query="Tell me.")
    async with asked_by_us(url) as model:

        async def one() -> None:
            pieces = [piece async for piece in model.stream(prompt)]
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
        return asyncio.run(measure_calls(url)) + asyncio.run(measure_streams(url))
