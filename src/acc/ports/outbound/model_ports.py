"""Interfaces of language models, embedders and token counters."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.content import NO_USAGE, Part, ToolCall, Usage, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Description of a tool for a model; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class PromptMessage(Value, frozen=True, kw_only=True):
    """An earlier message of this turn; `role` is user, agent or tool."""

    role: str
    author: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Return the text parts of the message."""
        return text_of(self.parts)


class ModelRequest(Value, frozen=True, kw_only=True):
    """The complete input of a model call.

    `memory` is the memory's view of earlier turns, `messages` are the messages of this turn after
    the query, `output_schema` is the JSON schema of the response, if any.
    """

    query: str
    memory: str = ""
    instruction: str = ""
    messages: tuple[PromptMessage, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, Any] | None = None


class ModelResponse(Value, frozen=True, kw_only=True):
    """Response of a model; `from_cache` is True if it comes from a cache."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    from_cache: bool = False


class LanguageModelPort(Protocol):
    """A language model."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to `prompt`, which is the only input of the model."""
        ...


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


class EmbedderPort(Protocol):
    """Embeds texts as vectors of unit length, so that a dot product is a cosine."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order."""
        ...
