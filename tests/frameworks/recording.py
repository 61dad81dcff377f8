"""What the models of all frameworks got, in one form, for the suite of memories."""

from typing import NamedTuple


class Sent(NamedTuple):
    """A message that a model got: its role, its text, and ids of calls and results."""

    role: str
    text: str
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


def check_pairs(request: list[Sent]) -> None:
    """Assert that results directly follow their calls, and that no call lacks its result."""
    waiting: set[str] = set()
    for message in request:
        if message.results:
            assert set(message.results) <= waiting, f"result without its call: {request}"
            waiting -= set(message.results)
        else:
            assert not waiting, f"call without its result: {request}"
            waiting = set(message.calls)
    assert not waiting, f"call without its result: {request}"
