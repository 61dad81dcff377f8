"""Content of messages: parts, tool calls, tool results and token usage."""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.domain.text import replace_surrogates
from acc.domain.value_objects.base import Value


class ToolCall(Value, frozen=True, kw_only=True):
    """A model's wish to have a tool called. `fault` says why the arguments could not be read."""

    id: str
    name: str
    arguments: Mapping[str, Any] = {}
    fault: str = ""


class ToolResult(Value, frozen=True, kw_only=True):
    """What a tool gave back: plain data, or what went wrong."""

    call_id: str
    name: str
    content: Any = None
    is_error: bool = False


#: Of the six things that a part may hold, how many it does not.
_ALL_BUT_ONE = 5


class Part(Value, frozen=True, kw_only=True):
    """A piece of content: exactly one of text, data, raw bytes, a URL, a call or a result.

    Data that is JSON's null is told by `is_null`.
    """

    text: str | None = None
    data: Any = None
    is_null: bool = False
    raw: bytes | None = None
    url: str | None = None
    call: ToolCall | None = None
    result: ToolResult | None = None
    media_type: str = ""
    filename: str = ""
    metadata: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        held = (self.text, self.data, self.raw, self.url, self.call, self.result)
        missing = held.count(None)
        if self.is_null and self.data is None:
            missing -= 1
        if missing != _ALL_BUT_ONE:
            raise ValueError("a part holds exactly one of text, data, raw, url, call and result")

    @staticmethod
    def from_text(text: str) -> "Part":
        """Return a part that holds text."""
        return Part(text=text)


def text_of(parts: Sequence[Part]) -> str:
    """Return what parts say, their texts together."""
    if len(parts) == 1:
        return parts[0].text or ""
    return "".join(part.text for part in parts if part.text is not None)


def text_part(text: str) -> tuple[Part, ...]:
    """Return text as the parts of a message, in which no character is half."""
    return (Part(text=replace_surrogates(text)),)


class Usage(Value, frozen=True, kw_only=True):
    """What was spent: model and tool calls, tokens, money, and the size of the memory shown.

    `cached_tokens` are those of the input that a provider had kept, and so charges less for.
    `cost` is in US dollars and covers `priced_calls` of the model calls: a price that nobody told
    is not 0 but missing, and so are the calls it would be for.
    """

    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    memory_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    priced_calls: int = 0

    @property
    def is_priced(self) -> bool:
        """Tell whether `cost` covers every model call."""
        return self.priced_calls >= self.llm_calls

    @property
    def is_valid(self) -> bool:
        """Tell whether what a model told of its call can be counted and kept."""
        return (
            type(self.input_tokens or 0) is int
            and type(self.output_tokens or 0) is int
            and type(self.cached_tokens or 0) is int
            and (self.cost is None or isinstance(self.cost, int | float))
        )

    def __add__(self, other: "Usage") -> "Usage":
        cost = self.cost if other.cost is None else other.cost + (self.cost or 0.0)
        return Usage(
            llm_calls=self.llm_calls + other.llm_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            memory_tokens=max(self.memory_tokens, other.memory_tokens),
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=cost,
            priced_calls=self.priced_calls + other.priced_calls,
        )


NO_USAGE = Usage()
