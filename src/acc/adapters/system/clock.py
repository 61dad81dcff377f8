"""System clock and random identifiers."""

import os
import time

_BATCH_SIZE = 64
_RANDOM_BYTES_PER_ID = 10
#: Random values that are not used yet. One system call per id would switch threads each time.
_random_values: list[str] = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random_values.clear)  # a child must not repeat ids


class SystemClock:
    """The system clock: `now` returns seconds since the epoch."""

    # Called several times per turn; a wrapping method would cost more than the call.
    now = staticmethod(time.time)


class RandomIds:
    """Generates unique identifiers that cannot be guessed.

    An identifier starts with the time in milliseconds, so that database rows sorted by it are
    stored together, followed by 80 random bits.
    """

    def new(self) -> str:
        """Return a unique identifier."""
        try:
            random_value = _random_values.pop()
        except IndexError:
            digits = os.urandom(_RANDOM_BYTES_PER_ID * _BATCH_SIZE).hex()
            length = 2 * _RANDOM_BYTES_PER_ID
            values = [digits[start : start + length] for start in range(0, len(digits), length)]
            random_value = values.pop()
            _random_values.extend(values)
        return f"{int(time.time() * 1000):012x}{random_value}"
