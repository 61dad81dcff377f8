"""An answer while it is being read, whatever the wire: what came of it, and why it ended."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.adapters.chat.streams import ServerFault, Unreadable
from acc.domain.value_objects.content import ToolCall, Usage

#: A server that tells of more tokens has miscounted.
_MOST_TOKENS = 10**9


class Heard:
    """An answer while it is being read. What cannot be read raises ValueError.

    `finish` is why the model stopped, None while it has not: `length` where it had no more room,
    `content_filter` where it would not. `refusal` is what it said instead of an answer. `begun`
    tells whether anything came that is of an answer. `cost` is what the server says that it cost,
    and `written` how many of the tokens it put into its cache.
    """

    #: What is said of an answer of which nothing can be understood.
    no_answer = "it is no answer of this provider; check the URL"

    def __init__(self) -> None:
        self.begun = False
        self.finish: str | None = None
        self.refusal = ""
        self.cost: float | None = None
        self.written = 0
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._texts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls that the model wants; arguments that cannot be read are their fault."""
        raise NotImplementedError

    @property
    def tokens(self) -> Usage:
        """Return what was spent, as far as the server says so."""
        raise NotImplementedError

    def as_said(self) -> list[dict[str, Any]]:
        """Return the model's words in its own form, with all that it may want to hear again."""
        raise NotImplementedError

    def add(self, data: bytes) -> str:
        """Take in an event of a stream, and return the text that it brings."""
        return self._taken(data, whole=False)

    def fill(self, data: bytes) -> None:
        """Take in an answer that comes whole."""
        self._taken(data, whole=True)
        self.close()

    def close(self) -> str:
        """Return the text that was held back."""
        return ""

    def _taken(self, data: bytes, *, whole: bool) -> str:
        try:
            event = msgspec.json.decode(data)
            if isinstance(event, dict) and _is_fault(event):
                raise ServerFault(event.get("error") or event)
            return self._understood(event, whole=whole)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise Unreadable("" if self.begun else self.no_answer) from error

    def _understood(self, event: Mapping[str, Any], *, whole: bool) -> str:
        """Take in an event or a whole answer, and return the text that it brings."""
        raise NotImplementedError


def _is_fault(event: Mapping[str, Any]) -> bool:
    return bool(event.get("error")) or "error" in (event.get("object"), event.get("type"))


def spent(*, before: int, after: int, cached: int) -> Usage:
    """Return the tokens of one call."""
    return Usage(llm_calls=1, input_tokens=before, output_tokens=after, cached_tokens=cached)


def count(place: object, name: str) -> int:
    """Return a number of tokens, or 0 where none is told that can be right."""
    number = place.get(name) if isinstance(place, Mapping) else 0
    return number if isinstance(number, int) and 0 < number <= _MOST_TOKENS else 0


def wanted(call_id: str, name: str, arguments: object) -> ToolCall:
    """Return a call that a model wants; arguments that cannot be read are its fault."""
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments or "{}")
        except (msgspec.MsgspecError, RecursionError) as error:
            return ToolCall(id=call_id, name=name, fault=f"not JSON: {error}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        fault = f"arguments must be an object, not {type(arguments).__name__}"
        return ToolCall(id=call_id, name=name, fault=fault)
    return ToolCall(id=call_id, name=name, arguments=arguments)
