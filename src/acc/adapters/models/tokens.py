"""Token counts by a real BPE vocabulary that ships with its package."""

import re
from functools import lru_cache

import bpe_openai

_PIECE = 100_000
_MOST_KEPT = 400
_LINE_BREAK = re.compile(r"\n(?=[a-z])")


class BpeTokenCounter:
    """Counts as the o200k vocabulary does, remembering texts it has counted."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        self._encoding = bpe_openai.get_encoding(encoding)
        self._known = lru_cache(maxsize=2_048)(self._count)

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        if len(text) <= _MOST_KEPT:
            return self._known(text)
        # A long text is a whole state or prompt, which will not come again; its items will. In
        # this vocabulary a space can only begin a token, and a line break before a letter only end
        # one, so the parts have as many tokens as the whole.
        *lines, last = _LINE_BREAK.split(text)
        return sum(self._count_line(f"{line}\n") for line in lines) + self._count_line(last)

    def _count_line(self, line: str) -> int:
        name, colon, rest = line.partition(": ")
        if not colon:
            return self._count_part(line)
        items = rest.split(" | ")
        tokens = self._count_part(f"{name}:") + (len(items) - 1) * self._known(" |")
        return tokens + sum(self._count_part(f" {item}") for item in items)

    def _count_part(self, text: str) -> int:
        return self._known(text) if len(text) <= _MOST_KEPT else self._count(text)

    def _count(self, text: str) -> int:
        # The encoder takes at most 1 MB at once; a cut may add one token per piece.
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        return sum(len(self._encoding.encode_ordinary(piece)) for piece in pieces)
