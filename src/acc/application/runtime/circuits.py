"""Calls through a circuit breaker, whose state other processes may share."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.errors import CircuitOpen
from acc.ports.outbound.limit_ports import CircuitStorePort


@asynccontextmanager
async def circuit_call(
    breaker: CircuitBreaker,
    failures: tuple[type[BaseException], ...],
    store: CircuitStorePort | None = None,
) -> AsyncIterator[None]:
    """Admit a call, or raise CircuitOpen; count its result here and in the shared store."""
    if store is None or not breaker.max_failures:
        with breaker.call(failures):
            yield
        return
    next_attempt = await store.admit(breaker.name, reset=breaker.reset)
    if next_attempt is not None:
        breaker.note_shared(next_attempt)
        raise CircuitOpen(breaker.name, next_attempt=next_attempt, now=time.time())
    record = partial(
        store.record, breaker.name, max_failures=breaker.max_failures, reset=breaker.reset
    )
    # A cancelled call has no result; if it was the probe, another one is admitted later.
    try:
        with breaker.call(failures):
            yield
    except CircuitOpen:
        await store.release(breaker.name)
        raise
    except failures:
        breaker.note_shared(await record(failed=True))
        raise
    except Exception:
        await record(failed=False)
        raise
    else:
        await record(failed=False)
