"""Exact token counts of the o200k vocabulary, which is part of the installed package."""

import re
from functools import lru_cache

import splintr

_PIECE = 100_000
_MOST_KEPT = 400
_LINE_BREAK = re.compile(r"\n(?=[a-z])")


class BpeTokenCounter:
    """Count tokens with the o200k vocabulary; counts of short texts are cached."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        # PCRE2 splits every text like the reference; the default engine fails on "a'\u017f'LLa".
        self._encoding = splintr.Tokenizer.from_pretrained(encoding).pcre2(True)
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
        # Pieces bound the memory of one call; a cut may add one token per piece.
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        return sum(self._count_piece(piece) for piece in pieces)

    def _count_piece(self, text: str) -> int:
        try:
            return len(self._encoding.encode_ordinary(text))
        except UnicodeEncodeError:
            # An unpaired surrogate counts as U+FFFD, a pair as the character it stands for.
            valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return len(self._encoding.encode_ordinary(valid))
