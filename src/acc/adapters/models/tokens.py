"""Token counts by a real BPE vocabulary that ships with its package."""

from functools import lru_cache

import bpe_openai

_PIECE = 100_000
_MOST_KEPT = 400


class BpeTokenCounter:
    """Counts as the o200k vocabulary does, remembering texts it has counted."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        self._encoding = bpe_openai.get_encoding(encoding)
        self._known = lru_cache(maxsize=4_096)(self._count)

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        # A long text is a whole state or prompt, which will not come again.
        return self._known(text) if len(text) <= _MOST_KEPT else self._count(text)

    def _count(self, text: str) -> int:
        # The encoder takes at most 1 MB at once; a cut may add one token per piece.
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)
