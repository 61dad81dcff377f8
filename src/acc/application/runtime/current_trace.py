"""The trace of the run that the current code works for, for logs of models and other clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_TRACE_ID: ContextVar[str] = ContextVar("acc_trace_id", default="")


def current_trace_id() -> str:
    """Return the id of the trace, empty outside of a run."""
    return _TRACE_ID.get()


@contextmanager
def within_trace(trace_id: str) -> Iterator[None]:
    """Set the id of the trace for the block."""
    outer = _TRACE_ID.get()
    _TRACE_ID.set(trace_id)
    try:
        yield
    finally:
        # Not by a token: a coroutine that is closed from outside ends in another context.
        _TRACE_ID.set(outer)
