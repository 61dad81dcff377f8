"""What we need from language models, embedders and tokenizers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.content import NO_USAGE, Part, ToolCall, Usage, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model sees it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


class PromptMessage(Value, frozen=True, kw_only=True):
    """Something said or done earlier in this turn. `role` is user, agent or tool."""

    role: str
    author: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Return the message's words."""
        return text_of(self.parts)


class Prompt(Value, frozen=True, kw_only=True):
    """All that a model gets to see.

    Standing instructions, a memory's view of earlier turns, the query, what has happened in this
    turn since, the tools it may call, and the JSON schema its answer must fit, if there is one.
    """

    query: str
    memory: str = ""
    instruction: str = ""
    messages: tuple[PromptMessage, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    output_schema: Mapping[str, Any] | None = None


class ModelAnswer(Value, frozen=True, kw_only=True):
    """What a model said, which tools it wants called, and what that cost.

    `kept` marks an answer that was given before and kept: nobody was asked for it now.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = NO_USAGE
    kept: bool = False


class LanguageModelPort(Protocol):
    """Answers a prompt."""

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to `prompt`, which is everything the model knows."""
        ...


@runtime_checkable
class StreamingModelPort(Protocol):
    """A model that can show its answer while it is being written."""

    def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give pieces of text as they come, and at the end the whole answer."""
        ...


class TokenCounterPort(Protocol):
    """Counts tokens with a real vocabulary."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        ...


class EmbedderPort(Protocol):
    """Turns texts into vectors of unit length, so that a dot product is a cosine."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text."""
        ...
