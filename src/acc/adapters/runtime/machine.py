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
    """Makes identifiers by chance, so many that no two are ever the same.

    They begin with the time, in milliseconds, so that what is stored by them is stored side by
    side; the 80 bits after it nobody can guess.
    """

    def __init__(self) -> None:
        # Asking the system for each lets other threads in between, which costs far more.
        self._drawn: list[str] = []
        self._pid = 0

    def new(self) -> str:
        """Return an identifier that nobody else has."""
        pid = os.getpid()
        if self._pid != pid:  # a fork must not give out what its parent does
            self._drawn, self._pid = [], pid
        try:
            chance = self._drawn.pop()
        except IndexError:
            drawn = os.urandom(10 * _AT_ONCE).hex()
            self._drawn = [drawn[start : start + 20] for start in range(20, len(drawn), 20)]
            chance = drawn[:20]
        return f"{int(time.time() * 1000):012x}{chance}"
