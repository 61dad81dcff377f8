"""Terms of a text, and the ranking of the passages of a conversation by them.

The score of a passage is BM25 over stemmed words, plus BM25 over character n-grams, plus a share
of the score of its best neighbour, plus BM25 over the window of messages around it. Messages are
short, so a term counts once for each passage.

Japanese and Chinese have no spaces: kanji are split into single characters and overlapping pairs,
katakana into whole runs, and n-grams are pairs of characters.
"""

import re
import sys
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import compress, repeat
from math import log
from operator import add
from typing import NamedTuple, Protocol

from acc.domain.language import STOPWORDS, normalize_text, omit_middle

#: Weights of the parts of a score; the weight of the words is 1.
GRAM_WEIGHT = 0.5
NEIGHBOUR_WEIGHT = 0.35
WINDOW_WEIGHT = 1.0
#: Messages before and after a passage that form its window.
WINDOW_DISTANCE = 3
_K1 = 1.2
_B = 0.4
#: Maximum number of terms of a query.
_MAX_QUERY_WORDS = 48
_MAX_QUERY_GRAMS = 48
#: Maximum number of postings scored for the words and for the n-grams of a query. The rarest terms
#: come first; of the last list the newest postings are scored.
_MAX_WORD_POSTINGS = 3_000
_MAX_GRAM_POSTINGS = 2_000
#: Minimum number of the best passages whose surroundings are scored too.
_MIN_SEEDS = 32
#: Maximum number of passages that are all read.
_MAX_WHOLE_AREA = 512
#: Maximum number of retired passages that are ranked in addition.
_MAX_RETIRED = 128
#: Positions are stored in four bytes.
MAX_POSITION = 2**32 - 1
#: Longest length of a passage that is distinguished, in terms. It is stored in one byte.
MAX_LENGTH = 255
_GRAM_LENGTH = 4
_CACHE_SIZE = 4_096
_KANJI = "\u3400-\u9fff\uf900-\ufaff々〆ヶ"
_KATAKANA = "\u30a1-\u30f5\u30f7-\u30fa\u30fc"
_HIRAGANA = "\u3041-\u3096"
_HANGUL = "\uac00-\ud7a3"
_UNSPACED = f"{_KANJI}{_KATAKANA}{_HIRAGANA}"
_LETTER = f"[^\\W_{_UNSPACED}{_HANGUL}]"
_TOKEN = re.compile(f"[{_UNSPACED}]+|[{_HANGUL}]+|{_LETTER}+(?:['’]{_LETTER}+)*")
_RUN = re.compile(f"[{_KANJI}]+|[{_KATAKANA}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_IS_KANJI = re.compile(f"[{_KANJI}]")
_IS_HANGUL = re.compile(f"[{_HANGUL}]")
#: Marks words, which have the same form as n-grams otherwise, and the beginning of a word.
_WORD_MARK = "="
_START_MARK = "_"


class Stemmer(Protocol):
    """Reduces the forms of a word to one."""

    def stem(self, word: str) -> str:
        """Return the stem of a word in lower case."""
        ...


class Token(NamedTuple):
    """A word, or a run of text without spaces, as the terms that an index contains."""

    words: tuple[str, ...]
    grams: tuple[str, ...]


class TermExtractor:
    """Splits texts into the terms of a recall index."""

    def __init__(self, stemmer: Stemmer) -> None:
        self._stemmer = stemmer
        self._cached_word = lru_cache(maxsize=_CACHE_SIZE)(self._word)

    def terms(self, text: str) -> frozenset[str]:
        """Return the different terms of a text, words and n-grams."""
        tokens = self.tokens(text)
        return frozenset([term for token in tokens for part in token for term in part])

    def tokens(self, text: str) -> list[Token]:
        """Return the tokens of a text in order, without stop words and repeated tokens."""
        found = dict.fromkeys(_TOKEN.findall(normalize_text(omit_middle(text)).casefold()))
        tokens: list[Token] = []
        for name in found:
            if name in STOPWORDS:
                continue
            if _IS_UNSPACED.match(name):
                tokens.append(Token(_unspaced_words(name), _grams(name, 2)))
            else:
                tokens.append(self._cached_word(name))
        return tokens

    def _word(self, name: str) -> Token:
        if _IS_HANGUL.match(name):
            return Token((_WORD_MARK + name,), _grams(name, 2))
        word = name.replace("’", "'").removesuffix("'s")
        stem = self._stemmer.stem(word) if word.isascii() else word
        if len(word) < _GRAM_LENGTH:
            return Token((_WORD_MARK + stem,), ())
        return Token((_WORD_MARK + stem,), _grams(_START_MARK + word, _GRAM_LENGTH))


def _grams(text: str, length: int) -> tuple[str, ...]:
    last = max(len(text) - length, 0)
    return tuple([text[start : start + length] for start in range(last + 1)])


def _unspaced_words(text: str) -> tuple[str, ...]:
    words: list[str] = []
    for run in _RUN.findall(text):
        if not _IS_KANJI.match(run):
            words.append(_WORD_MARK + run)
            continue
        words.extend([_WORD_MARK + character for character in run])
        words.extend([_WORD_MARK + run[start : start + 2] for start in range(len(run) - 1)])
    return tuple(words)


class PostingsReader(Protocol):
    """The postings of one memory. Its passages are numbered from 0 in order of conversation."""

    @property
    def size(self) -> int:
        """Return the number of passages."""
        ...

    @property
    def mean_length(self) -> float:
        """Return the mean number of terms of a passage."""
        ...

    def lengths(self) -> Sequence[int]:
        """Return the number of terms of every passage, at most MAX_LENGTH."""
        ...

    def postings(self, terms: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the ascending positions of the passages that contain each term, if any."""
        ...


class Ranked(NamedTuple):
    """The position of a passage, its score, and the parts of the score."""

    position: int
    score: float
    words: float
    grams: float
    neighbour: float
    window: float


class _Weighted(NamedTuple):
    """A term with its weight and positions."""

    weight: float
    positions: Sequence[int]


def rank(
    tokens: Sequence[Token], reader: PostingsReader, *, limit: int, retired: Collection[int] = ()
) -> list[Ranked]:
    """Return the best passages for the tokens of a query, the best first, then the newest.

    If there are enough, `limit` of them are not retired. The cost is bounded: passages that match
    only through frequent terms are found among the newest.
    """
    tokens = shorten(tokens)
    words = reader.postings(word_terms(tokens))
    grams = reader.postings(gram_terms(tokens, words))
    weighted = _weigh(words, reader.size, 1.0)
    sums: defaultdict[int, float] = defaultdict(float)
    unread = _accumulate(sums, weighted, _MAX_WORD_POSTINGS)
    word_sums = dict(sums)
    _accumulate(sums, _weigh(grams, reader.size, GRAM_WEIGHT), _MAX_GRAM_POSTINGS)
    if not sums:
        return []
    lengths = reader.lengths()
    # The weight of a term is divided by `norm + slope * length`.
    norm = (1 + _K1 * (1 - _B)) / (_K1 + 1)
    slope = _K1 * _B / (_K1 + 1) / max(reader.mean_length, 1.0)
    bases = {
        position: total / (norm + slope * lengths[position]) for position, total in sums.items()
    }
    spare = min(sum([position in bases for position in retired]), _MAX_RETIRED)
    seeds = _largest(max(_MIN_SEEDS, limit) + spare, bases)
    area = _Area(seeds, reader.size)
    for term, first in unread:
        for place in area.places_of(term.positions):
            if (position := area.positions[place]) < first:
                word_sums[position] = word_sums.get(position, 0.0) + term.weight
                sums[position] = sums.get(position, 0.0) + term.weight
                bases[position] = sums[position] / (norm + slope * lengths[position])
    own = [*map(bases.get, area.positions, repeat(0.0))]
    neighbours = _neighbour_scores(own)
    windows = _window_scores(weighted, area)
    scores = [*map(add, map(add, own, neighbours), windows)]
    # A stable sort of descending places: of equal scores, the newest is first.
    best = sorted(area.candidates, key=scores.__getitem__, reverse=True)
    places: list[int] = []
    missing = limit
    for place in best:
        if missing == 0 or scores[place] <= 0:
            break
        places.append(place)
        if area.positions[place] not in retired:
            missing -= 1
    positions = area.positions
    # How much of a base comes from words.
    shares = [
        word_sums.get(position := positions[place], 0.0) / (norm + slope * lengths[position])
        for place in places
    ]
    return [
        Ranked(
            positions[place],
            scores[place],
            share,
            own[place] - share,
            neighbours[place],
            windows[place],
        )
        for place, share in zip(places, shares, strict=True)
    ]


def _largest(count: int, values: Mapping[int, float]) -> list[int]:
    """Return the keys of the largest values, the largest first."""
    if len(values) > 8 * count:
        return nlargest(count, values, key=values.__getitem__)
    return sorted(values, key=values.__getitem__, reverse=True)[:count]


#: Share of a term's weight by the number of messages in the window that contain it.
_WINDOW_SHARES = tuple(
    WINDOW_WEIGHT * count * (_K1 + 1) / (count + _K1) for count in range(2 * WINDOW_DISTANCE + 2)
)
#: A digit has 64 bits, three for the number of messages in a window that contain a term.
_TERMS_PER_DIGIT = 21
#: The product with it adds each digit to those around it.
_WINDOW_DIGITS = sum(1 << 64 * number for number in range(2 * WINDOW_DISTANCE + 1))


def shorten(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the first and the last tokens of a long query, which mostly contain the question."""
    count = sum(max(len(token.words), 1) for token in tokens)
    if count <= _MAX_QUERY_WORDS:
        return tokens
    chosen: dict[int, None] = {}
    count = 0
    for index in range(len(tokens)):
        place = index // 2 if index % 2 else -1 - index // 2
        count += max(len(tokens[place].words), 1)
        if count > _MAX_QUERY_WORDS and chosen:
            break
        chosen[place % len(tokens)] = None
    return [tokens[place] for place in sorted(chosen)]


def word_terms(tokens: Sequence[Token]) -> list[str]:
    """Return the words to search for."""
    return list(dict.fromkeys([word for token in tokens for word in token.words]))


def gram_terms(tokens: Sequence[Token], words: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the n-grams to search for: those of the tokens with the rarest words."""

    def frequency(token: Token) -> int:
        return min([len(words.get(word, ())) for word in token.words], default=0)

    grams = dict.fromkeys([gram for token in sorted(tokens, key=frequency) for gram in token.grams])
    return list(grams)[:_MAX_QUERY_GRAMS]


def _weigh(postings: Mapping[str, Sequence[int]], size: int, weight: float) -> list[_Weighted]:
    """Return the terms with their inverse document frequencies, the rarest first."""
    terms: list[_Weighted] = []
    for positions in postings.values():
        count = len(positions)
        terms.append(_Weighted(weight * log(1 + (size - count + 0.5) / (count + 0.5)), positions))
    terms.sort(key=lambda term: len(term.positions))
    return terms


def _accumulate(
    sums: defaultdict[int, float], terms: Iterable[_Weighted], allowance: int
) -> list[tuple[_Weighted, int]]:
    """Add the weights of terms to their passages; at most `allowance` postings are read.

    Return the terms that were not read completely, with the first position that was read.
    """
    unread: list[tuple[_Weighted, int]] = []
    for term in terms:
        weight, positions = term
        if len(positions) > allowance:
            positions = positions[len(positions) - allowance :]
            unread.append((term, positions[0] if allowance else MAX_POSITION))
        allowance -= len(positions)
        for position in positions:
            sums[position] += weight
    return unread


#: Positions that are looked up in the time that it takes to find a range among them.
_POSITIONS_PER_RANGE = 24


class _Area:
    """The best passages with their surroundings.

    `positions` contains all passages that have an influence on the scores of `candidates`, which
    are places in it, the last one first. Passages that are not next to each other can be next to
    each other in it, but no candidate is near such a gap.
    """

    def __init__(self, seeds: Sequence[int], size: int) -> None:
        ordered = sorted(seeds)
        self.positions: Sequence[int] = range(size)
        #: Ranges of positions, each with the difference between a position and its place.
        self._ranges: list[tuple[int, int, int]] = []
        if size > _MAX_WHOLE_AREA:
            self.positions = []
            for first, last in _merge(ordered, 2 * WINDOW_DISTANCE):
                start, end = max(first, 0), min(last + 1, size)
                self._ranges.append((start, end, start - len(self.positions)))
                self.positions += range(start, end)
        places = range(len(self.positions))
        self._places = dict(zip(self.positions, places, strict=True)) if self._ranges else {}
        marks = array("Q", bytes(8 * len(self.positions)))
        for place in self.places_of(ordered):
            marks[place] = 1
        self.candidates = [*compress(reversed(places), reversed(_sum_windows(marks)))]

    def places_of(self, positions: Sequence[int]) -> Sequence[int]:
        """Return the places of those of ascending positions that are in the area, in any order."""
        if not self._ranges:
            return positions
        if len(positions) < _POSITIONS_PER_RANGE * len(self._ranges):
            return [*map(self._places.__getitem__, self._places.keys() & positions)]
        found: list[int] = []
        first = 0
        for start, end, difference in self._ranges:
            first = bisect_left(positions, start, first)
            last = bisect_left(positions, end, first)
            found += [position - difference for position in positions[first:last]]
            first = last
        return found


def _sum_windows(marks: "array[int]") -> list[int]:
    """Return for each number the sum of the numbers in the window around it.

    The numbers are the digits of a long integer, so that one product adds all of them.
    """
    margin = 8 * WINDOW_DISTANCE
    product = int.from_bytes(marks.tobytes(), sys.byteorder) * _WINDOW_DIGITS
    data = product.to_bytes(8 * len(marks) + 2 * margin, sys.byteorder)
    return memoryview(data)[margin:-margin].cast("Q").tolist()


def _merge(positions: Sequence[int], distance: int) -> list[tuple[int, int]]:
    """Return the ranges around ascending positions, first and last; those that touch are one."""
    ranges: list[tuple[int, int]] = []
    start = end = positions[0]
    for position in positions:
        if position - end > 2 * distance:
            ranges.append((start - distance, end + distance))
            start = position
        end = position
    ranges.append((start - distance, end + distance))
    return ranges


def _neighbour_scores(bases: Sequence[float]) -> list[float]:
    """Return what passages gain from the best of the two passages before and after them."""
    scores = [0.0] * (len(bases) + 4)
    # The best come last, so that they replace the others.
    for place in sorted(compress(range(len(bases)), bases), key=bases.__getitem__):
        score = NEIGHBOUR_WEIGHT * bases[place]
        scores[place] = scores[place + 1] = scores[place + 3] = scores[place + 4] = score
    return scores[2:-2]


def _window_scores(terms: Sequence[_Weighted], area: _Area) -> list[float]:
    """Return the BM25 score of the windows around the places of an area, without length norm.

    Many windows contain the same terms equally often. Therefore, the messages that contain a term
    are counted for all windows at once, with the places as digits of a number, and each combination
    of counts is scored once.
    """
    size = len(area.positions)
    windows = [0] * size
    for first in range(0, len(terms), _TERMS_PER_DIGIT):
        marks = array("Q", bytes(8 * size))
        for number, term in enumerate(terms[first : first + _TERMS_PER_DIGIT]):
            mark = 1 << 3 * number
            for place in area.places_of(term.positions):
                marks[place] += mark
        digits = _sum_windows(marks)
        windows = (
            [w | d << 3 * first for w, d in zip(windows, digits, strict=True)] if first else digits
        )
    tables = [[term.weight * share for share in _WINDOW_SHARES] for term in terms]
    # Many combinations have the same counts of the rarer terms, whose sum is the first part.
    middle = len(tables) // 2
    rare, frequent, shift = tables[:middle], tables[middle:], 3 * middle
    mask = (1 << shift) - 1
    parts: dict[int, float] = {}
    scores = dict.fromkeys(windows, 0.0)
    for window in scores:
        rest = window & mask
        part = parts.get(rest)
        if part is None:
            part = parts[rest] = _add_shares(0.0, rest, rare)
        scores[window] = _add_shares(part, window >> shift, frequent)
    return [*map(scores.__getitem__, windows)]


def _add_shares(score: float, counts: int, tables: Sequence[Sequence[float]]) -> float:
    """Add the scores of terms by their counts, which have three bits each."""
    for shares in tables:
        if count := counts & 7:
            score += shares[count]
        counts >>= 3
    return score


class Selected(NamedTuple):
    """A ranked passage at the position of its replacement, and the retired ones it replaces."""

    position: int
    ranked: Ranked
    replaces: tuple[int, ...]


def select(
    ranked: Sequence[Ranked], replacements: Mapping[int, int | None], *, limit: int
) -> list[Selected]:
    """Return at most `limit` passages; a retired one counts for its replacement, if any.

    `replacements` maps the positions of retired passages to passages that are not retired.
    """
    chosen: dict[int, Ranked] = {}
    replaced: dict[int, list[int]] = {}
    for item in ranked:
        own = item.position
        position = replacements.get(own, own)
        if position is None or (len(chosen) >= limit and position not in chosen):
            continue
        chosen.setdefault(position, item)
        if position != own:
            replaced.setdefault(position, []).append(own)
    return [
        Selected(position, item, tuple(sorted(replaced[position])) if position in replaced else ())
        for position, item in chosen.items()
    ]
