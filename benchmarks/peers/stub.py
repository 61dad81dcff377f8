"""What all stub models share: the words, and a count of what was really done."""

from collections.abc import Awaitable, Callable

Turn = Callable[[], Awaitable[str]]
Talk = Callable[[str], Awaitable[str]]

INSTRUCTION = "Answer the operator briefly."
QUESTION = "What is the weather in Oslo?"
ANSWER = "It is twelve degrees in Oslo, with light rain from the west until the evening."
CITY = "Oslo"
WEATHER = "twelve degrees, light rain"
TOOL = "weather"


class Count:
    """How often a model and a tool were called, and how much history the last call was shown."""

    __slots__ = ("model", "shown", "tool")

    def __init__(self) -> None:
        self.model = 0
        self.tool = 0
        self.shown = 0


COUNT = Count()


def asked(shown: int) -> None:
    """Count a call of a model that was shown so many messages."""
    COUNT.model += 1
    COUNT.shown = shown


async def weather(city: str) -> str:
    """Return the weather in a city."""
    COUNT.tool += 1
    return WEATHER


def query(turn: int) -> str:
    """Return what the user says in a turn of the long session."""
    return (
        f"Report {turn}: host web-{turn * 7 % 997} shows {turn * 13 % 89} errors a minute since"
        f" {turn % 24:02d}:{turn * 11 % 60:02d}; what should the operator on duty check first?"
    )
