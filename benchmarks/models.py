"""The CPU time of a call to a provider's model, compared with the provider's own client.

The provider is a test server in another process, so that only the client side is measured.
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic
from google import genai
from google.genai.types import GenerateContentConfig, HttpOptions
from measurement import Measurement
from openai import AsyncOpenAI

from acc.bootstrap.models import make_model
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse

#: Bar for the CPU time of a call, relative to the provider's own client.
MAX_RATIO = 2.0
_ROUNDS = 30
_CALLS = 20
_STREAMS = 50
_PROMPT = ModelRequest.of("What is the rollback window?", instruction="Answer briefly.")
_CLIENTS = {
    "anthropic": "Anthropic's own client",
    "google": "Google's own client",
    "openai": "OpenAI's own client",
}
#: Models that are on the price list, so that the price lookup is measured too.
_OPENAI, _ANTHROPIC, _GOOGLE = "gpt-5.2", "claude-opus-4-8", "gemini-3-pro-preview"


@contextmanager
def provider_server() -> Iterator[str]:
    """Yield the address of a test server."""
    with subprocess.Popen(
        [sys.executable, "-m", "acc.testing.providers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@asynccontextmanager
async def acc_model(name: str) -> AsyncIterator[Any]:
    """Yield a model of acc."""
    os.environ["BENCH_KEY"] = "none"
    model: Any = make_model(f"{name}{'&' if '?' in name else '?'}key=BENCH_KEY")
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


def own_clients(root: str, stack: AsyncExitStack) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return a call of each provider's own client, by the name of our model for it."""
    url = f"{root}/v1"
    openai = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    anthropic = AsyncAnthropic(api_key="none", base_url=root, max_retries=0)
    google = genai.Client(api_key="none", http_options=HttpOptions(base_url=root))
    for close in (openai.close, anthropic.close, google.aio.aclose):
        stack.push_async_callback(close)
    user: list[Any] = [{"role": "user", "content": _PROMPT.query}]
    chat = [{"role": "system", "content": _PROMPT.instruction}, *user]
    config = GenerateContentConfig(system_instruction=_PROMPT.instruction)
    return {
        f"openai:{_OPENAI}@{url}": lambda: openai.responses.create(
            model=_OPENAI, instructions=_PROMPT.instruction, input=user
        ),
        f"openai-chat:{_OPENAI}@{url}": lambda: openai.chat.completions.create(
            model=_OPENAI, messages=chat
        ),
        # Its client requires max_tokens.
        f"anthropic:{_ANTHROPIC}@{root}?max_tokens=1024": lambda: anthropic.messages.create(
            model=_ANTHROPIC, max_tokens=1024, system=_PROMPT.instruction, messages=user
        ),
        f"google:{_GOOGLE}@{root}": lambda: google.aio.models.generate_content(
            model=_GOOGLE, contents=_PROMPT.query, config=config
        ),
        f"openai-compatible:bench@{url}": lambda: openai.chat.completions.create(
            model="bench", messages=chat
        ),
    }


async def measure_calls(root: str) -> list[Measurement]:
    """Call every provider with its own client and with acc, in alternating order."""
    lines: list[Measurement] = []
    async with AsyncExitStack() as stack:
        for name, raw in own_clients(root, stack).items():
            model = await stack.enter_async_context(acc_model(name))

            async def ours(model: Any = model) -> object:
                return await model.complete(_PROMPT)

            times = await alternate([raw, ours])
            provider = name.partition(":")[0]
            client = _CLIENTS[provider.partition("-")[0]]
            own = statistics.median(times[0])
            ratio = statistics.median(a / b for a, b in zip(times[1], times[0], strict=True))
            lines.append(Measurement(f"{provider}, called with {client}", own, 0, "ms CPU"))
            lines.append(
                Measurement(f"{provider}, called with acc", ratio, MAX_RATIO, f"x {client}")
            )
    return lines


async def alternate(calls: list[Callable[[], Awaitable[object]]]) -> list[list[float]]:
    """Return the time of every call in each round, after a warm-up."""
    times: list[list[float]] = [[] for _ in calls]
    order = list(range(len(calls)))
    for call in calls:
        await cpu_of(call)
    gc.disable()
    for _ in range(_ROUNDS):
        order.append(order.pop(0))
        for place in order:
            times[place].append(await cpu_of(calls[place]))
        gc.collect()
    gc.enable()
    return times


async def measure_streams(url: str) -> list[Measurement]:
    """Run 50 streams at once repeatedly, and measure the growth of memory."""
    prompt = ModelRequest.of("Tell me.")
    async with acc_model(f"openai-compatible:bench@{url}") as model:

        async def one() -> None:
            pieces = [piece async for piece in model.stream(prompt)]
            assert isinstance(pieces[-1], ModelResponse)

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
        times = time.perf_counter() - started
        gc.collect()
        grown = resident() - before
    return [
        Measurement("50 streams at once, growth over 2,000 of them", grown, 4.0, "MB"),
        Measurement("the same, streams to their end", 40 * _STREAMS / times, 0, "a second"),
    ]


def resident() -> float:
    """Return the memory of this process, in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def bench_models() -> list[Measurement]:
    with provider_server() as root:
        return asyncio.run(measure_calls(root)) + asyncio.run(measure_streams(f"{root}/v1"))
