"""Static word embeddings from a package: no download, no server."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _logging_unchanged() -> Iterator[None]:
    """Undo what the import of a package does to the root logger."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
        root.setLevel(level)


with _logging_unchanged():
    import wordllama


class StaticEmbedder:
    """Averages static token vectors; they tell what a text is about, not whether it is true."""

    def __init__(self) -> None:
        folder = Path(wordllama.__file__).parent
        with _logging_unchanged():
            self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector of 256 numbers for each text."""
        vectors: list[list[float]] = self._model.embed(list(texts), norm=True).tolist()
        return vectors
