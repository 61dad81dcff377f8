"""Features of a pair: a new sentence and the earlier sentence that it may refer to."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from math import fsum, log, sqrt
from typing import NamedTuple

from acc.domain.language import is_japanese, normalize_text, numbers, term_list, values

#: Acts of a pair, in the order of the weights.
PAIR_ACTS = ("change", "lift", "correct")
_QUOTED = re.compile(r"[\"“”「」『』'‘’]([^\"“”「」『』]{1,40})[\"“”「」『』'‘’]")
_UNIT = re.compile(r"\d+(?:[.,:]\d+)*\s*([^\W\d_]{1,8}|[%$€£¥円時分日月年人個台回行文字点本枚歳])")
_SMALL = 1e-4
#: In characters; longer sentences are compared by their beginning.
_MAX_LENGTH = 300
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
    "cosine",
    "cosine_rank",
)


class SentenceAnalysis(NamedTuple):
    """What a sentence is compared by. It is computed once and kept with the sentence.

    `plain` is the normalised beginning of the sentence. Its n-grams are not kept: they need much
    more memory than time.
    """

    plain: str
    terms: frozenset[str]
    numbers: frozenset[str]
    units: frozenset[str]
    values: frozenset[str]
    quotes: frozenset[str]

    def grams(self) -> frozenset[str]:
        """Return character n-grams of a sentence: pairs in Japanese, else groups of four."""
        plain = self.plain
        size = 2 if is_japanese(plain) else 4
        return frozenset([plain[i : i + size] for i in range(max(1, len(plain) - size + 1))])


def analyse_sentence(text: str) -> SentenceAnalysis:
    """Return what a sentence is compared by."""
    normal = normalize_text(text)
    return SentenceAnalysis(
        plain=" ".join(normalize_text(text[:_MAX_LENGTH]).casefold().split()),
        terms=frozenset(term_list(text[:_MAX_LENGTH])),
        numbers=numbers(text),
        units=frozenset([match[1].casefold() for match in _UNIT.finditer(normal)]),
        values=values(text),
        quotes=frozenset([match[1].casefold() for match in _QUOTED.finditer(normal)]),
    )


def _weights(sets: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the square of a weight for each item: the rarer among the candidates, the higher."""
    counts = Counter(chain.from_iterable(sets))
    squares = [0.0, *(log(1.0 + (1.0 + len(sets)) / n) ** 2 for n in range(1, len(sets) + 1))]
    return {item: squares[count] for item, count in counts.items()}


def _total(items: frozenset[str], weight: dict[str, float]) -> float:
    """Return the sum of the squared weights of a new sentence."""
    unseen = min(log(2.0 + len(weight)) if weight else 1.0, 1.5) ** 2
    return fsum([weight.get(item, unseen) for item in items])


def _cosine(
    new: frozenset[str], old: frozenset[str], weight: dict[str, float], total: float
) -> float:
    shared = fsum([weight[item] for item in new & old])
    return shared / sqrt(total * fsum([weight[item] for item in old])) if shared else 0.0


def pair_features(
    text: str,
    turn: int,
    earlier: Sequence[tuple[str, int, Sequence[float]]],
    cosines: Sequence[float] = (),
    analyse: Callable[[str], SentenceAnalysis] = analyse_sentence,
) -> list[list[float]]:
    """Return one row of FEATURES for each earlier sentence.

    An earlier sentence is its text, its turn and the probabilities of its acts in the order of
    `Act`. `cosines` are the similarities of sentence vectors, if there are any. `analyse` returns
    the analysis of a sentence, which the caller may keep.
    """
    new, known = analyse(text), [analyse(old) for old, _, _ in earlier]
    terms, grams = [old.terms for old in known], [old.grams() for old in known]
    new_terms, new_grams, new_numbers = new.terms, new.grams(), new.numbers
    term_weight, gram_weight = _weights(terms), _weights(grams)
    # The sums of the new sentence are the same for all pairs.
    term_total = _total(new_terms, term_weight)
    gram_total = _total(new_grams, gram_weight)
    rules = [scores[0] + scores[1] for _, _, scores in earlier]
    facts = [scores[5] + scores[3] for _, _, scores in earlier]
    newest_rule = max((i for i, p in enumerate(rules) if p > 0.4), default=-1)
    newest_fact = max((i for i, p in enumerate(facts) if p > 0.4), default=-1)
    vague = 1.0 / (1.0 + len(new_terms & set(term_weight)))
    similarities = _relative(cosines) if cosines else [0.0] * len(earlier)
    ranks = _ranks(cosines) if cosines else [0.0] * len(earlier)
    rows: list[list[float]] = []
    for i, (old, old_turn, scores) in enumerate(earlier):
        overlap = _cosine(new_terms, terms[i], term_weight, term_total)
        similar = _cosine(new_grams, grams[i], gram_weight, gram_total)
        old_numbers = known[i].numbers
        distance = log(1.0 + max(0, turn - old_turn))
        shared = len(new_terms & terms[i])
        rows.append(
            [
                1.0,
                log(rules[i] + _SMALL),
                log(facts[i] + _SMALL),
                log(scores[6] + _SMALL),
                log(scores[4] + _SMALL),
                sqrt(overlap),
                sqrt(similar),
                shared / (1.0 + len(terms[i])),
                float(not shared),
                float(bool(new_numbers & old_numbers)),
                float(bool(new_numbers and old_numbers and not new_numbers & old_numbers)),
                float(bool(new.units & known[i].units)),
                float(bool((new.values - new_numbers) & known[i].values)),
                float(bool(new.quotes & known[i].quotes) or any(q in old for q in new.quotes)),
                distance,
                float(old_turn == turn),
                float(i == newest_rule),
                float(i == newest_fact),
                vague * distance,
                log(len(earlier)),
                similarities[i],
                ranks[i],
            ]
        )
    return rows


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
