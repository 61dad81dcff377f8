"""The machine's own time and chance."""

import os
import time

_AT_ONCE = 64


class SystemClock:
    """Tells the machine's time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


class RandomIds:
    """Makes identifiers by chance, so many that no two are ever the same."""

    def __init__(self) -> None:
        # Asking the system for each lets other threads in between, which costs far more.
        self._drawn: list[str] = []
        self._pid = 0

    def new(self) -> str:
        """Return an identifier that nobody else has."""
        if self._pid != os.getpid():  # a fork must not give out what its parent does
            self._drawn, self._pid = [], os.getpid()
        try:
            return self._drawn.pop()
        except IndexError:
            drawn = os.urandom(16 * _AT_ONCE).hex()
            self._drawn = [drawn[start : start + 32] for start in range(32, len(drawn), 32)]
            return drawn[:32]
