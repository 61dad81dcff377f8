"""The machine's own time and chance."""

import os
import time

_AT_ONCE = 64
#: Chance that was drawn and not used yet: asking the system for each lets other threads in
#: between, which costs far more.
_drawn: list[str] = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)  # it must not give out what its parent does


class SystemClock:
    """Tells the machine's time: `now` returns seconds since the epoch."""

    # It is asked nine times in a turn, and a function of ours around it would cost more than it.
    now = staticmethod(time.time)


class RandomIds:
    """Makes identifiers by chance, so many that no two are ever the same.

    They begin with the time, in milliseconds, so that what is stored by them is stored side by
    side; the 80 bits after it nobody can guess.
    """

    def new(self) -> str:
        """Return an identifier that nobody else has."""
        try:
            chance = _drawn.pop()
        except IndexError:
            drawn = os.urandom(10 * _AT_ONCE).hex()
            _drawn.extend(drawn[start : start + 20] for start in range(20, len(drawn), 20))
            chance = drawn[:20]
        return f"{int(time.time() * 1000):012x}{chance}"
