"""Static word embeddings that ship with their package: no download, no GPU, no server."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    """Undo what a package that is imported does to the logging of the whole process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
        root.setLevel(level)


with _logging_left_alone():
    import wordllama


class StaticEmbedder:
    """Averages static token vectors; says what a text is about, not whether it is true."""

    def __init__(self) -> None:
        folder = Path(wordllama.__file__).parent
        with _logging_left_alone():
            self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector of 256 numbers for each text."""
        vectors: list[list[float]] = self._model.embed(list(texts), norm=True).tolist()
        return vectors
