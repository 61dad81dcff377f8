"""Token counts by a real BPE vocabulary that ships with its package."""

from functools import lru_cache

import bpe_openai

_PIECE = 100_000


class BpeTokenCounter:
    """Counts as the o200k vocabulary does, remembering texts it has counted."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        self._encoding = bpe_openai.get_encoding(encoding)
        self.count = lru_cache(maxsize=4_096)(self._count)

    def _count(self, text: str) -> int:
        # The encoder takes at most 1 MB at once; a cut may add one token per piece.
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)
