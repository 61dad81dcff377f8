"""Connections that are closed with the event loop that opened them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress


def close_with_loop(close: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    """Call an async function when the running event loop ends; the caller keeps the result.

    `aclose()` of the result calls it earlier. Without this, connections of a program that is run
    with `asyncio.run` and closes nothing stay open until they are garbage collected.
    """
    # An event loop closes the async generators that were started in it and have not ended.
    waiting = _wait(close)
    with suppress(StopIteration):  # it has reached its `yield`
        waiting.asend(None).send(None)
    return waiting


async def _wait(close: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await close()
