"""Features of a pair: a new sentence and the earlier sentence that it may refer to."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from math import fsum, log, sqrt
from typing import NamedTuple

from acc.domain.language import is_japanese, normalize_text, numbers, term_list, values

#: Acts of a pair, in the order of the weights.
PAIR_ACTS = ("change", "lift", "correct")
_QUOTED = re.compile(r"[\"“”「」『』'‘’]([^\"“”「」『』]{1,40})[\"“”「」『』'‘’]")
_UNIT = re.compile(r"\d+(?:[.,:]\d+)*\s*([^\W\d_]{1,8}|[%$€£¥円時分日月年人個台回行文字点本枚歳])")
#: Values that are written as words, by kind. Two values of a kind can replace each other.
_WORDED_VALUES = {
    "day": re.compile(
        r"\b(mon|tues?|wed(?:nes)?|thur?s?|fri|sat(?:ur)?|sun)(?:day)?s?\b|([月火水木金土日])曜"
    ),
    "month": re.compile(
        r"\b(jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|ember"
        r"|tember|ober)?\b|(\d+月)"
    ),
    "number": re.compile(
        r"\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen"
        r"|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy"
        r"|eighty|ninety|hundred|thousand|million|dozen|half|double|once|twice|first|second|third"
        r"|fourth|fifth|sixth|seventh|eighth|ninth|tenth|noon|midnight|\d+(?:[.,:]\d+)*)(?:th|st|nd"
        r"|rd|am|pm|k|m)?\b|([一二三四五六七八九十百千万]+|\d+)(?=[^\W\d_])"
    ),
    "time": re.compile(
        r"\b(today|tomorrow|tonight|yesterday|morning|noon|afternoon|evening|night|weekly|monthly"
        r"|daily|hourly)\b|(今日|明日|明後日|昨日|今週|来週|今月|来月|午前|午後|朝|昼|夕方|夜)"
    ),
}
_NEGATION = re.compile(
    r"\b(?:no|not|never|none|without|skip|stop|avoid|ban|drop|dont|cant|wont|leave out|\w+n['’]t)\b"
    r"|ない|ません|なし|なく|禁止|やめ|不要|省"
)
_SMALL = 1e-4
#: In characters; longer sentences are compared by their beginning.
_MAX_LENGTH = 300
#: ASCII characters of an n-gram that is stored as a number.
_NUMBER_BYTES = 4
FEATURES = (
    "bias",
    "rule",
    "fact",
    "other",
    "once",
    "terms",
    "characters",
    "covered",
    "no_overlap",
    "same_number",
    "other_number",
    "same_unit",
    "same_value",
    "same_quote",
    "distance",
    "same_turn",
    "newest_rule",
    "newest_fact",
    "vague_recent",
    "candidates",
    "other_value",
    "same_worded_value",
    "negation",
    "rule_recency",
    "fact_recency",
    "cosine",
    "cosine_rank",
)


class SentenceAnalysis(NamedTuple):
    """What a sentence is compared by. It is computed once and kept with the sentence.

    `plain` is the normalised beginning of the sentence. Its n-grams are not kept: they need much
    more memory than time. `gram_length` is 2 in Japanese, else 4.
    """

    plain: str
    gram_length: int
    terms: frozenset[str]
    numbers: frozenset[str]
    units: frozenset[str]
    values: frozenset[str]
    quotes: frozenset[str]
    worded: frozenset[tuple[str, str]]
    is_negative: bool

    def grams(self) -> frozenset[str | int]:
        """Return the n-grams of the characters of a sentence.

        An n-gram of four ASCII characters is a number, which is compared and created faster.
        """
        plain, size = self.plain, self.gram_length
        count = len(plain) - size + 1
        if size != _NUMBER_BYTES or count < 1:
            return frozenset([plain[i : i + size] for i in range(max(1, count))])
        if not plain.isascii():
            return frozenset([_number(plain[i : i + size]) for i in range(count)])
        data = memoryview(plain.encode())
        numbers: list[int] = []
        for first in range(min(count, size)):
            last = first + (len(data) - first) // size * size
            numbers += data[first:last].cast("I")
        return frozenset(numbers)


def _number(gram: str) -> str | int:
    return int.from_bytes(gram.encode(), sys.byteorder) if gram.isascii() else gram


def analyse_sentence(text: str) -> SentenceAnalysis:
    """Return what a sentence is compared by."""
    normal = normalize_text(text)
    plain = " ".join(normalize_text(text[:_MAX_LENGTH]).casefold().split())
    return SentenceAnalysis(
        plain=plain,
        gram_length=2 if is_japanese(plain) else 4,
        terms=frozenset(term_list(text[:_MAX_LENGTH])),
        numbers=numbers(text),
        units=frozenset([match[1].casefold() for match in _UNIT.finditer(normal)]),
        values=values(text),
        quotes=frozenset([match[1].casefold() for match in _QUOTED.finditer(normal)]),
        worded=frozenset(
            [
                (kind, match[1] or match[2])
                for kind, pattern in _WORDED_VALUES.items()
                for match in pattern.finditer(plain)
            ]
        ),
        is_negative=_NEGATION.search(plain) is not None,
    )


def _weights(sets: Sequence[frozenset[str | int]]) -> dict[str | int, float]:
    """Return the square of a weight for each item: the rarer among the candidates, the higher."""
    counts = Counter(chain.from_iterable(sets))
    squares = [0.0, *(log(1.0 + (1.0 + len(sets)) / n) ** 2 for n in range(1, len(sets) + 1))]
    return {item: squares[count] for item, count in counts.items()}


class _Similarity:
    """Cosines of sets of items with those of the candidates, rare items counting more."""

    def __init__(self, sets: Sequence[frozenset[str | int]]) -> None:
        self.weight = _weights(sets)
        self._sets = sets
        get = self.weight.__getitem__
        self._totals = [fsum(map(get, items)) for items in sets]

    def cosines(self, new: frozenset[str | int]) -> list[float]:
        """Return the similarity of a new set with each candidate."""
        weight = self.weight
        unseen = min(log(2.0 + len(weight)) if weight else 1.0, 1.5) ** 2
        total = fsum(map(weight.get, new, repeat(unseen)))
        get = weight.__getitem__
        return [
            fsum(map(get, common)) / sqrt(total * own) if (common := new & items) else 0.0
            for items, own in zip(self._sets, self._totals, strict=True)
        ]


class Candidates:
    """The earlier sentences that the sentences of a turn may refer to.

    An earlier sentence is its text, its turn and the probabilities of its acts in the order of
    `Act`. `analyse` returns the analysis of a sentence, which the caller may keep.
    """

    def __init__(
        self,
        earlier: Sequence[tuple[str, int, Sequence[float]]],
        analyse: Callable[[str], SentenceAnalysis] = analyse_sentence,
    ) -> None:
        self._earlier = earlier
        self._analyse = analyse
        self._known = [analyse(old) for old, _, _ in earlier]
        self._terms = _Similarity([old.terms for old in self._known])
        self._grams = _Similarity([old.grams() for old in self._known])
        rules = [scores[0] + scores[1] for _, _, scores in earlier]
        facts = [scores[5] + scores[3] for _, _, scores in earlier]
        self._newest_rule = max((i for i, p in enumerate(rules) if p > 0.4), default=-1)
        self._newest_fact = max((i for i, p in enumerate(facts) if p > 0.4), default=-1)
        self._recency = list(zip(_recency(rules), _recency(facts), strict=True))
        self._acts = [
            (
                1.0,
                log(rules[i] + _SMALL),
                log(facts[i] + _SMALL),
                log(scores[6] + _SMALL),
                log(scores[4] + _SMALL),
            )
            for i, (_, _, scores) in enumerate(earlier)
        ]

    def features(self, text: str, turn: int, cosines: Sequence[float] = ()) -> list[list[float]]:
        """Return one row of FEATURES for each earlier sentence.

        `cosines` are the similarities of sentence vectors, if there are any.
        """
        new, count = self._analyse(text), len(self._earlier)
        overlaps, similar = self._terms.cosines(new.terms), self._grams.cosines(new.grams())
        vague = 1.0 / (1.0 + len(new.terms & self._terms.weight.keys()))
        similarities = _relative(cosines) if cosines else [0.0] * count
        ranks = _ranks(cosines) if cosines else [0.0] * count
        candidates = log(max(count, 1))
        _, _, terms, numbers, units, new_values, quotes, worded, is_negative = new
        new_names = new_values - numbers
        rows: list[list[float]] = []
        for i, (old_text, old_turn, _) in enumerate(self._earlier):
            old = self._known[i]
            same_number = other_number = other_value = same_worded = 0.0
            if numbers and old.numbers:
                other_number = float(numbers.isdisjoint(old.numbers))
                same_number = 1.0 - other_number
            if worded and old.worded:
                same_worded = float(not worded.isdisjoint(old.worded))
                other_value = float(_has_other_value(worded, old.worded))
            distance = log(1.0 + max(0, turn - old_turn))
            shared = len(terms & old.terms)
            rows.append(
                [
                    *self._acts[i],
                    sqrt(overlaps[i]),
                    sqrt(similar[i]),
                    shared / (1.0 + len(old.terms)),
                    0.0 if shared else 1.0,
                    same_number,
                    other_number,
                    0.0 if units.isdisjoint(old.units) else 1.0,
                    0.0 if new_names.isdisjoint(old.values) else 1.0,
                    float(_has_quote(quotes, old, old_text)) if quotes else 0.0,
                    distance,
                    1.0 if old_turn == turn else 0.0,
                    1.0 if i == self._newest_rule else 0.0,
                    1.0 if i == self._newest_fact else 0.0,
                    vague * distance,
                    candidates,
                    other_value,
                    same_worded,
                    1.0 if is_negative != old.is_negative else 0.0,
                    *self._recency[i],
                    similarities[i],
                    ranks[i],
                ]
            )
        return rows


def _has_quote(quotes: frozenset[str], old: SentenceAnalysis, old_text: str) -> bool:
    return not quotes.isdisjoint(old.quotes) or any(quote in old_text for quote in quotes)


def _has_other_value(new: frozenset[tuple[str, str]], old: frozenset[tuple[str, str]]) -> bool:
    """Return True if both have a value of a kind, and the new one has one that the old has not."""
    kinds = {kind for kind, _ in old}
    return any(kind in kinds for kind, _ in new - old)


def _recency(chances: Sequence[float]) -> list[float]:
    """Return each chance divided by the number of later sentences that are as likely."""
    later = 0.0
    result = [0.0] * len(chances)
    for i in range(len(chances) - 1, -1, -1):
        result[i] = chances[i] / (1.0 + later)
        later += chances[i]
    return result


def _relative(cosines: Sequence[float]) -> list[float]:
    """Return the similarities between the mean, 0, and the highest, 1, for any embedder."""
    mean = sum(cosines) / len(cosines)
    spread = max(max(cosines) - mean, 0.05)
    return [(cosine - mean) / spread for cosine in cosines]


def _ranks(cosines: Sequence[float]) -> list[float]:
    """Return 1 for the most similar, 1/2 for the second, and so on."""
    order = sorted(range(len(cosines)), key=lambda i: (-cosines[i], i))
    ranks = [0.0] * len(cosines)
    for rank, i in enumerate(order):
        ranks[i] = 1.0 / (1.0 + rank)
    return ranks
