"""What the scripted model of every framework answers, so that all pass the same suite."""

from collections.abc import Sequence
from typing import NamedTuple

INPUT_TOKENS, OUTPUT_TOKENS = 10, 5


class Call(NamedTuple):
    """A tool call that the model makes."""

    name: str
    arguments: dict[str, object]


class Message(NamedTuple):
    """A message that the model gets: the role is user, assistant or tool."""

    role: str
    text: str


def reply(messages: Sequence[Message]) -> str | Call:
    """Return the answer or the tool call for a conversation."""
    last = messages[-1]
    if last.role == "tool":
        return f"tool said {last.text}"
    words = last.text.split()
    match words[-3:]:
        case ["add", a, b]:
            return Call("add", {"a": int(a), "b": int(b)})
    if "delete" in words:
        return Call("delete", {"name": words[-1]})
    if "break" in words:
        return Call("broken", {})
    if "fail" in words:
        raise ConnectionError("the model is down")
    return f"answer {sum(message.role == 'user' for message in messages)} to: {last.text}"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def broken() -> str:
    """Fail."""
    raise RuntimeError("disk full")
