"""Content of a conversation: messages, parts, tool calls, tool results and token usage."""

from collections.abc import Mapping, Sequence
from typing import Literal

from acc.domain.call_options import explain_attributes
from acc.domain.errors import InvalidInput
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.base import ExplainedMeta, JsonData, Value, replace


class ToolCall(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """A tool call of a model. `fault` is why its arguments could not be parsed."""

    id: str
    name: str
    arguments: Mapping[str, JsonData] = {}
    fault: str = ""


class ToolResult(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """The result of a tool call as JSON data, or its error.

    `files` are files that the tool returned, such as images. `edited_arguments` are those that a
    person entered in place of the arguments of the call.
    """

    call_id: str
    name: str
    content: JsonData = None
    is_error: bool = False
    files: tuple["Part", ...] = ()
    edited_arguments: Mapping[str, JsonData] | None = None


#: Media types of text files whose names do not begin with "text/"; an SVG image is XML.
_TEXT_TYPES = ("application/json", "image/svg+xml")
#: A part has six alternative fields, of which exactly one is set.
_UNSET_FIELDS = 5


class _Text(Value, frozen=True, kw_only=False):
    """The field of a part that may be given without its name: `Part("hello")`."""

    text: str | None = None


class Part(_Text, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """A piece of content: exactly one of text, data, raw bytes, URL, call or result.

    `is_null` marks data that is JSON null.
    """

    data: JsonData = None
    is_null: bool = False
    raw: bytes | None = None
    url: str | None = None
    call: ToolCall | None = None
    result: ToolResult | None = None
    media_type: str = ""
    filename: str = ""
    metadata: Mapping[str, JsonData] = {}

    def __post_init__(self) -> None:
        fields = (self.text, self.data, self.raw, self.url, self.call, self.result)
        unset = fields.count(None)
        if self.is_null and self.data is None:
            unset -= 1
        if unset != _UNSET_FIELDS:
            raise InvalidInput(
                "a part needs exactly one of text, data, raw, url, call and result, such as "
                'Part("hello") or Part(raw=content, media_type="image/png")'
            )
        if self.text is not None and not isinstance(self.text, str):
            raise InvalidInput(
                f"the text of a part must be a str, got {type(self.text).__name__}: use raw=... "
                "for bytes and data=... for JSON data"
            )
        if self.raw is not None and not isinstance(self.raw, bytes):
            raise InvalidInput(
                f"raw must be bytes, got {type(self.raw).__name__}: for a file on this machine "
                'pass Part(raw=Path("plan.png").read_bytes(), media_type="image/png")'
            )

    @staticmethod
    def from_text(text: str) -> "Part":
        """Return a part with text."""
        return Part(text=text)


def is_text_type(media_type: str) -> bool:
    """Return True if models receive files of a media type as text."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _TEXT_TYPES


def text_of(parts: Sequence[Part]) -> str:
    """Return the concatenated texts of parts."""
    if len(parts) == 1:
        return parts[0].text or ""
    return "".join(part.text for part in parts if part.text is not None)


#: A copy is created in a third of the time of a new part.
_EMPTY_TEXT = Part(text="")


def text_part(text: str) -> tuple[Part, ...]:
    """Return text as the parts of a message; unpaired surrogates are replaced."""
    return (replace(_EMPTY_TEXT, text=replace_surrogates(text), metadata={}),)


#: Who a model takes a message from. Tools, files and other agents cannot choose it.
ChatRole = Literal["user", "assistant", "tool"]


#: Author of notes of the runtime and of its requests to correct an answer; the role is `user`.
RUNTIME_AUTHOR = "runtime"
CORRECTION_AUTHOR = "correction"


class ChatMessage(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """A message of a conversation, as a model receives it.

    `author` is the name of the user, agent or tool. Messages of the role `tool` have results of the
    calls in the preceding message of the role `assistant`. `seq` is the number of the recorded
    event, if there is one; `is_shortened` is True if the message does not show all of it.
    """

    role: ChatRole
    parts: tuple[Part, ...]
    author: str = ""
    seq: int = 0
    is_shortened: bool = False

    @property
    def text(self) -> str:
        """Return the text parts of the message."""
        return text_of(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls of the message."""
        return tuple(part.call for part in self.parts if part.call is not None)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Return the tool results of the message."""
        return tuple(part.result for part in self.parts if part.result is not None)


def user_message(text: str) -> ChatMessage:
    """Return a text as a message of the user."""
    return ChatMessage(role="user", author="user", parts=text_part(text))


#: Attributes of a usage by the names that other libraries have for them.
_USAGE_HINTS = {
    **dict.fromkeys(("prompt_tokens", "request_tokens", "prompt_token_count"), "input_tokens"),
    **dict.fromkeys(("completion_tokens", "response_tokens"), "output_tokens"),
    **dict.fromkeys(("cache_read_tokens", "cached"), "cached_tokens"),
    **dict.fromkeys(("total", "total_tokens"), "add .input_tokens and .output_tokens"),
    "requests": "llm_calls",
}


@explain_attributes(_USAGE_HINTS)
class Usage(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """Usage of a run: model and tool calls, tokens, cost, and the size of the memory.

    `cached_tokens` are input tokens from the provider's cache. `cost` is in US dollars and covers
    `priced_calls` of the model calls; an unknown price is not counted as 0.
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
        """Return True if `cost` covers every model call."""
        return self.priced_calls >= self.llm_calls

    @property
    def is_valid(self) -> bool:
        """Return True if the values that a model reported have valid types."""
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
