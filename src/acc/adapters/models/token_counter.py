"""Exact token counts with the o200k vocabulary, which the installed package contains."""

from collections.abc import MutableMapping
from functools import lru_cache

import splintr

#: Maximum length of a text that is encoded in one call, in characters.
_MAX_PIECE_LENGTH = 100_000
#: Maximum length of a text whose count is cached, in characters.
_MAX_CACHED_LENGTH = 400
_CACHE_SIZE = 2_048
_SEPARATOR = " | "


class BpeTokenCounter:
    """Count tokens with the o200k vocabulary; counts of short texts are cached."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        # PCRE2 splits every text like the reference; the default engine fails on "a'\u017f'LLa".
        self._encoding = splintr.Tokenizer.from_pretrained(encoding).pcre2(True)
        self._count_cached = lru_cache(maxsize=_CACHE_SIZE)(self._count)

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        if len(text) <= _MAX_CACHED_LENGTH:
            return self._count_cached(text)
        return self._count(text)

    def count_items(self, text: str, known: MutableMapping[str, int]) -> int:
        """Return the number of tokens of a text with items between " | ".

        `known` has the counts of items and gets those of new ones. The vocabulary splits texts
        after "|" if a space follows, so the counts of the parts add up.
        """
        if len(text) <= _MAX_CACHED_LENGTH or len(text) > _MAX_PIECE_LENGTH:
            return self.count(text)
        first, *items = text.split(_SEPARATOR)
        if not items:
            return self._count(text)
        last = items.pop()
        total = self._count_piece(f"{first} |") + self._count_piece(f" {last}")
        for item in items:
            size = known.get(item)
            if size is None:
                size = known[item] = self._count_piece(f" {item} |")
            total += size
        return total

    def _count(self, text: str) -> int:
        # Pieces bound the memory of one call; each boundary may add one token.
        starts = range(0, len(text), _MAX_PIECE_LENGTH)
        pieces = (text[start : start + _MAX_PIECE_LENGTH] for start in starts)
        return sum(self._count_piece(piece) for piece in pieces)

    def _count_piece(self, text: str) -> int:
        try:
            return len(self._encoding.encode_ordinary(text))
        except UnicodeEncodeError:
            # An unpaired surrogate counts as U+FFFD, a pair as the character it stands for.
            valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return len(self._encoding.encode_ordinary(valid))
