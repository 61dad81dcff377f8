"""What we need from language models, embedders and tokenizers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """All that a model gets to see: standing instructions, a memory's view, and the query."""

    query: str
    memory: str = ""
    instruction: str = ""


class LanguageModelPort(Protocol):
    """Answers a prompt."""

    async def complete(self, prompt: Prompt) -> str:
        """Return the answer to `prompt`, which is everything the model knows."""
        ...


class TokenCounterPort(Protocol):
    """Counts tokens with a real vocabulary."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        ...


class EmbedderPort(Protocol):
    """Turns texts into vectors of unit length, so that a dot product is a cosine."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text."""
        ...
