"""Static word embeddings that ship with their package: no download, no GPU, no server."""

from collections.abc import Sequence
from pathlib import Path

import wordllama


class StaticEmbedder:
    """Averages static token vectors; says what a text is about, not whether it is true."""

    def __init__(self) -> None:
        folder = Path(wordllama.__file__).parent
        self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector of 256 numbers for each text."""
        vectors: list[list[float]] = self._model.embed(list(texts), norm=True).tolist()
        return vectors
