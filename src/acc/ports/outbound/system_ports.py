"""What a run needs of the machine: time, identifiers, and threads for code that blocks."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
#: Tells what is wrong with a value by a JSON schema, or nothing.
SchemaValidator = Callable[[Mapping[str, Any], Any], str]


class ClockPort(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...


class IdsPort(Protocol):
    """Makes identifiers."""

    def new(self) -> str:
        """Return an identifier that nobody else has."""
        ...


class ThreadsPort(Protocol):
    """Runs functions that may block."""

    async def call(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Return what `function` returns, from a thread of its own.

        If the caller is cancelled it does not wait for the function, which cannot be stopped.
        """
        ...
