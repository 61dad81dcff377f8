"""The machine's own time and chance."""

import os
import time


class SystemClock:
    """Tells the machine's time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


class RandomIds:
    """Makes identifiers by chance, so many that no two are ever the same."""

    def new(self) -> str:
        """Return an identifier that nobody else has."""
        return os.urandom(16).hex()
