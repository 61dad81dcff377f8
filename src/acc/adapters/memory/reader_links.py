"""Features of a pair: a new sentence and the earlier sentence that it may refer to."""

import re
from collections.abc import Sequence
from functools import lru_cache
from math import log, sqrt
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


class _Sentence(NamedTuple):
    """What is compared of a sentence.

    `grams` are its character n-grams: pairs in Japanese, else groups of four.
    """

    terms: frozenset[str]
    grams: frozenset[str]
    numbers: frozenset[str]
    values: frozenset[str]
    units: frozenset[str]
    quotes: frozenset[str]


@lru_cache(maxsize=4_096)
def _read(text: str) -> _Sentence:
    beginning, plain = text[:_MAX_LENGTH], normalize_text(text)
    line = " ".join(normalize_text(beginning).casefold().split())
    size = 2 if is_japanese(line) else 4
    return _Sentence(
        terms=frozenset(term_list(beginning)),
        numbers=numbers(text),
        values=values(text),
        grams=frozenset(line[i : i + size] for i in range(max(1, len(line) - size + 1))),
        units=frozenset(match[1].casefold() for match in _UNIT.finditer(plain)),
        quotes=frozenset(match[1].casefold() for match in _QUOTED.finditer(plain)),
    )


def _weights(sets: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return a weight for each item: the rarer among the candidates, the higher."""
    counts: dict[str, int] = {}
    for items in sets:
        for item in items:
            counts[item] = counts.get(item, 0) + 1
    return {item: log(1.0 + (1.0 + len(sets)) / count) for item, count in counts.items()}


def _cosine(new: frozenset[str], old: frozenset[str], weight: dict[str, float]) -> float:
    shared = sum(weight[item] ** 2 for item in sorted(new & old))
    if not shared:
        return 0.0
    unseen = log(2.0 + len(weight)) if weight else 1.0
    total_new = sum(weight.get(item, min(unseen, 1.5)) ** 2 for item in sorted(new))
    total_old = sum(weight[item] ** 2 for item in sorted(old))
    return shared / sqrt(total_new * total_old)


def pair_features(
    text: str,
    turn: int,
    earlier: Sequence[tuple[str, int, Sequence[float]]],
    cosines: Sequence[float] = (),
) -> list[list[float]]:
    """Return one row of FEATURES for each earlier sentence.

    An earlier sentence is its text, its turn and the probabilities of its acts in the order of
    `Act`. `cosines` are the similarities of sentence vectors, if there are any.
    """
    new, olds = _read(text), [_read(old) for old, _, _ in earlier]
    term_weight = _weights([old.terms for old in olds])
    gram_weight = _weights([old.grams for old in olds])
    rules = [scores[0] + scores[1] for _, _, scores in earlier]
    facts = [scores[5] + scores[3] for _, _, scores in earlier]
    newest_rule = max((i for i, p in enumerate(rules) if p > 0.4), default=-1)
    newest_fact = max((i for i, p in enumerate(facts) if p > 0.4), default=-1)
    vague = 1.0 / (1.0 + len(new.terms & set(term_weight)))
    similarities = _relative(cosines) if cosines else [0.0] * len(earlier)
    ranks = _ranks(cosines) if cosines else [0.0] * len(earlier)
    rows: list[list[float]] = []
    for i, (old_text, old_turn, scores) in enumerate(earlier):
        old = olds[i]
        overlap = _cosine(new.terms, old.terms, term_weight)
        similar = _cosine(new.grams, old.grams, gram_weight)
        same_number = bool(new.numbers & old.numbers)
        distance = log(1.0 + max(0, turn - old_turn))
        shared = len(new.terms & old.terms)
        rows.append(
            [
                1.0,
                log(rules[i] + _SMALL),
                log(facts[i] + _SMALL),
                log(scores[6] + _SMALL),
                log(scores[4] + _SMALL),
                sqrt(overlap),
                sqrt(similar),
                shared / (1.0 + len(old.terms)),
                float(not shared),
                float(same_number),
                float(bool(new.numbers and old.numbers and not same_number)),
                float(bool(new.units & old.units)),
                float(bool((new.values - new.numbers) & old.values)),
                float(bool(new.quotes & old.quotes) or any(q in old_text for q in new.quotes)),
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
