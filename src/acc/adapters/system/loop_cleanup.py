"""Close connections when the event loop ends that opened them."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress


def close_with_loop(close: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    """Call an async function when the running event loop ends.

    The caller must keep a reference to the result; its `aclose()` calls the function earlier.
    Without this function, a program that uses `asyncio.run` and closes nothing leaves connections
    open until they are garbage collected.
    """
    # An event loop closes the async generators that were started in it and have not ended.
    generator = _close_at_end(close)
    with suppress(StopIteration):  # it has reached its `yield`
        generator.asend(None).send(None)
    return generator


async def _close_at_end(close: Callable[[], Awaitable[object]]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await close()
