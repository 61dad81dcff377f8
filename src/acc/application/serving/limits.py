"""How much one caller may send and have at once."""

from dataclasses import dataclass, fields

from acc.domain.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLimits:
    """The limits of a server. Times are seconds, sizes are bytes.

    `tasks` is how many of one caller's may be at work, `waiting` how many may wait for an answer.
    `history` is the most messages that are kept to be shown of a task; `keep` is how long a task
    that is over can still be asked for, and the conversation that it was the last of stays.
    """

    body: int = 8 * 1024 * 1024
    headers: int = 32 * 1024
    parts: int = 100
    text: int = 1_000_000
    history: int = 200
    streams: int = 1000
    tasks: int = 1000
    waiting: int = 10_000
    pushes: int = 10
    receive: float = 30.0
    heartbeat: float = 15.0
    keep: float = 7 * 24 * 3600.0
    grace: float = 5.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidInput(f"limit {item.name} must be a number above 0, not {value!r}")
