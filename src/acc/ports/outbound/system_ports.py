"""What a run needs from the system: time, identifiers, threads and schema validation."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from acc.domain.contract_errors import FieldViolation

T = TypeVar("T")


class ClockPort(Protocol):
    """Provides the current time."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...


class IdsPort(Protocol):
    """Generates identifiers."""

    def new(self) -> str:
        """Return a unique identifier."""
        ...


class ThreadsPort(Protocol):
    """Runs blocking functions in threads."""

    async def call(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Call a function in a thread and return its result.

        If the caller is cancelled, the call returns at once and the function continues to run.
        """
        ...


class SchemaValidatorPort(Protocol):
    """Validates values with JSON schemas."""

    def schema_error(self, schema: Mapping[str, Any], value: Any) -> str:
        """Return what is invalid in a value, or an empty string if it is valid."""
        ...

    def violations(
        self, schema: Mapping[str, Any], value: Any, *, is_trusted: bool = False
    ) -> tuple[FieldViolation, ...]:
        """Return the fields of a value that violate a schema, without their values.

        Regular expressions of schemas that are not trusted are not evaluated.
        """
        ...
