"""Interfaces of language models, embedders and token counters."""

import math
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from acc.domain.call_options import check_call, explains_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import ExplainedMeta, JsonData, Value
from acc.domain.value_objects.content import (
    NO_USAGE,
    ChatMessage,
    ToolCall,
    Usage,
    user_message,
)


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Description of a tool for a model; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, JsonData] = field(default_factory=dict)


#: Whether a model thinks before it answers, or how much.
Thinking: TypeAlias = Literal["on", "off", "minimal", "low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings of the model calls of one agent.

    A setting that is None is taken from the name of the model, and else is the provider's default.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    thinking: Thinking | None = None

    if not TYPE_CHECKING:

        def __new__(cls, *arguments: object, **options: object) -> "ModelSettings":
            """Raise InvalidInput for settings that the class does not have."""
            check_call(cls, arguments, options, hints=_SETTING_HINTS)
            return object.__new__(cls)

    def __post_init__(self) -> None:
        for name, (kind, least, most, expected) in _SETTING_RANGES.items():
            value = getattr(self, name)
            is_number = isinstance(value, kind) and not isinstance(value, bool)
            if value is not None and not (is_number and least <= value <= most):
                raise InvalidInput(f"ModelSettings.{name} must be {expected}, got {value!r}")
        if self.thinking is not None and self.thinking not in get_args(Thinking):
            choices = ", ".join(get_args(Thinking))
            raise InvalidInput(
                f"ModelSettings.thinking must be one of {choices}, got {self.thinking!r}"
            )


#: Settings by the names that other libraries have for them.
_SETTING_HINTS = {
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "reasoning": "thinking",
    "reasoning_effort": "thinking",
    "timeout": "write it into the name of the model: openai:gpt-5.2?timeout=30",
}
#: The type, the bounds and their description of each setting that is a number.
_SETTING_RANGES = {
    "temperature": (int | float, 0, 2, "a number from 0 to 2"),
    "max_tokens": (int, 1, math.inf, "an integer of at least 1"),
    "top_p": (int | float, 0, 1, "a number from 0 to 1"),
    "seed": (int, 0, math.inf, "an integer of at least 0"),
}


#: A tool that the provider of a model executes itself.
NativeTool: TypeAlias = Literal["web_search", "code_execution"]
NATIVE_TOOLS: tuple[NativeTool, ...] = get_args(NativeTool)


class ModelRequest(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """The complete input of a model call.

    `messages` is the conversation, oldest first: the earlier messages that the memory selected, the
    message to answer, which is at `query_index`, and what followed it in this turn. `memory` is
    what the memory states about earlier turns. `output_schema` is the JSON schema of the response,
    if any. `settings` take precedence over those in the name of the model. A model that does not
    have one of the `native_tools` raises ModelFailed. `token_choices` asks for the probabilities of
    so many first tokens; models that do not have them ignore it.
    """

    messages: tuple[ChatMessage, ...]
    query_index: int = 0
    memory: str = ""
    instruction: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, JsonData] | None = None
    settings: ModelSettings | None = None
    native_tools: tuple[NativeTool, ...] = ()
    token_choices: int = 0

    @classmethod
    def of(
        cls,
        query: str = "",
        *,
        memory: str = "",
        instruction: str = "",
        earlier: Sequence[ChatMessage] = (),
        following: Sequence[ChatMessage] = (),
        tools: tuple[ToolSpec, ...] = (),
        output_schema: Mapping[str, JsonData] | None = None,
        settings: ModelSettings | None = None,
    ) -> "ModelRequest":
        """Return a request that answers a text."""
        return cls(
            messages=(*earlier, user_message(query), *following),
            query_index=len(earlier),
            memory=memory,
            instruction=instruction,
            tools=tools,
            output_schema=output_schema,
            settings=settings,
        )

    @property
    def query(self) -> str:
        """Return the text of the message to answer."""
        return self.messages[self.query_index].text

    @property
    def earlier(self) -> tuple[ChatMessage, ...]:
        """Return the messages of earlier turns."""
        return self.messages[: self.query_index]

    @property
    def following(self) -> tuple[ChatMessage, ...]:
        """Return the messages of this turn after the one to answer."""
        return self.messages[self.query_index + 1 :]


class ModelResponse(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """Response of a model; `from_cache` is True if it comes from a cache.

    `first_tokens` has the most probable first tokens with their probabilities, if they were
    requested and the model has them.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    from_cache: bool = False
    first_tokens: tuple[tuple[str, float], ...] = ()


class LanguageModelPort(Protocol):
    """A language model."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to `prompt`, which is the only input of the model."""
        ...


def input_types(model: LanguageModelPort) -> tuple[str, ...] | None:
    """Return the media types of files that a model accepts, None if it does not say.

    A type that ends with a slash, such as `image/`, stands for all of its subtypes. A model says so
    by an attribute `input_types`; texts and data are always accepted.
    """
    found: tuple[str, ...] | None = getattr(model, "input_types", None)
    return found


@runtime_checkable
class StreamingModelPort(Protocol):
    """A language model that can stream its response."""

    def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield pieces of text as they arrive, then the complete response."""
        ...


class TokenCounterPort(Protocol):
    """Counts tokens with the vocabulary of a model."""

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        ...


@runtime_checkable
class ItemTokenCounterPort(TokenCounterPort, Protocol):
    """Counts texts with items between " | " faster if it knows the counts of the items."""

    def count_items(self, text: str, known: MutableMapping[str, int]) -> int:
        """Return what `count` returns; `known` has counts of items and gets those of new ones."""
        ...


class EmbedderPort(Protocol):
    """Embeds texts as vectors of unit length, so that a dot product is a cosine."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order."""
        ...
