"""Spans and metrics of runs, model calls, tools, memories and A2A requests."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from enum import StrEnum
from typing import Protocol, TypeVar

OwnerT = TypeVar("OwnerT")
AttributeValue = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, AttributeValue]


class SpanKind(StrEnum):
    """How a span relates to other processes."""

    INTERNAL = "internal"
    CLIENT = "client"
    SERVER = "server"


class SpanPort(Protocol):
    """One operation of a trace; `end` must be called exactly once."""

    @property
    def traceparent(self) -> str:
        """Return the span as W3C traceparent, for requests to other processes.

        It is empty if there is no trace: spans are not exported and no context was received.
        """
        ...

    @property
    def trace_id(self) -> str:
        """Return the id of the trace as 32 hexadecimal digits, empty if there is none."""
        ...

    def rename(self, name: str) -> None:
        """Replace the name that the span was started with."""
        ...

    def set_attributes(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def add_event(self, name: str, attributes: Attributes) -> None:
        """Add an event that happens now."""
        ...

    def activate(self) -> AbstractContextManager[None]:
        """Return a block whose code sees the span as the current one; never yield inside."""
        ...

    def new_context(self) -> Context:
        """Return a copy of the current context, for a new task, in which the span is current."""
        ...

    def end(self, error: str = "") -> None:
        """End the span; `error` is the class of the error, empty if there was none."""
        ...


class TracerPort(Protocol):
    """Starts spans and records metrics."""

    @property
    def captures_content(self) -> bool:
        """Return True if spans may contain messages, arguments and results."""
        ...

    def start_span(
        self,
        name: str,
        *,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: SpanPort | str | None = None,
        link: str = "",
    ) -> SpanPort:
        """Start a span that does not become the current one.

        The parent is a span of this process or a W3C traceparent. Without one, it is the current
        span of the calling code, if there is any. An invalid traceparent is ignored. `link` is the
        traceparent of a related span.
        """
        ...

    def count(self, metric: str, attributes: Attributes, value: int = 1) -> None:
        """Add to a counter."""
        ...

    def observe(self, metric: str, value: float, attributes: Attributes) -> None:
        """Add a value to a histogram."""
        ...

    def watch(self, metric: str, owner: OwnerT, read: Callable[[OwnerT], int]) -> None:
        """Report a current value of `owner` whenever metrics are exported, while it exists.

        `read` may be called in another thread. The metric is the sum over its owners.
        """
        ...


class MetricsPagePort(Protocol):
    """The metrics of this process as text, for a server that collects them by polling."""

    def read(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics and their media type; `accept` is the header of the request."""
        ...
