"""Describe how a claim relates to what was said, and combine that into a probability of support.

Every feature is 0 if it says nothing. The sign of its weight is fixed by its meaning: a feature of
`SUPPORTING` cannot lower the probability, any other one cannot raise it. The weights are data.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.alignment import PRESENT, Alignment, EvidenceIndex
from acc.domain.claim_words import NEAR_NEGATION, clause_pattern, read_words
from acc.domain.paraphrases import is_light
from acc.domain.quantities import (
    MONTHS,
    Quantity,
    contains_quantity,
    known_quantities,
    quantities,
    with_digits,
)

#: Features that can only raise the probability.
SUPPORTING = frozenset(
    (
        "covered",
        "covered_by_best",
        "second_half",
        "same_negation",
        "has_numbers",
        "numbers_in_best",
        "number_context",
        "number_derived",
    )
)
#: Below this margin a number belongs to other words.
_LEAST_MARGIN = -0.15
_NO_NUMBER = 0.5
#: Of more numbers, sums and differences are not computed.
_MOST_SUMMANDS = 40
#: Coverage of a claim that repeats a sentence.
_NEARLY_ALL = 0.9
#: Distance of two words that are neighbours.
_NEAR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimModel:
    """Weights of the features; the result is a probability."""

    bias: float
    weights: Mapping[str, float]

    def probability(self, features: Mapping[str, float]) -> float:
        """Return the probability that a claim with these features is supported."""
        total = self.bias + math.fsum(
            self.weights.get(name, 0.0) * value for name, value in features.items()
        )
        return 1 / (1 + math.exp(-total)) if total > -700 else 0.0


def claim_features(claim: str, index: EvidenceIndex) -> dict[str, float]:
    """Return the features of a claim that are not 0."""
    alignment = index.align(claim)
    features = {
        **_word_features(alignment, index),
        **_polarity_features(alignment, index),
        **_order_features(alignment, index),
        **_number_features(claim, alignment, index),
        **_change_features(claim, alignment, index),
    }
    if features["negated_copy"]:
        # What else agrees does not support the opposite of a sentence.
        features = {name: value for name, value in features.items() if name not in SUPPORTING}
    return {name: value for name, value in features.items() if value}


def _word_features(alignment: Alignment, index: EvidenceIndex) -> dict[str, float]:
    words = alignment.words
    best = alignment.best
    content = [place for place, word in enumerate(words) if not word.is_number]
    everywhere = index.coverage(alignment, lambda placed: True)
    missing = [
        place for place in content if words[place].weight == 1 and alignment.credit(place) < PRESENT
    ]
    clauses: dict[int, list[int]] = defaultdict(list)
    for place in content:
        clauses[words[place].clause].append(place)
    absent = [
        sum(place in missing for place in places)
        / (sum(words[place].weight == 1 for place in places) + 1)
        for places in clauses.values()
    ]
    second = content[len(content) // 2 :] if len(content) > 3 else []
    nouns = sum(words[place].is_noun for place in missing)
    return {
        "covered": index.coverage(alignment, lambda placed: placed.sentence in best),
        "covered_by_best": index.coverage(alignment, lambda placed: placed.sentence == best[0])
        if best
        else 0.0,
        "second_half": math.fsum(map(alignment.credit, second)) / len(second)
        if second
        else everywhere,
        "missing": len(missing) / max(1, len(content)),
        "missing_nouns": nouns / (nouns + 1),
        "missing_in_clause": max(absent, default=0.0),
    }


def _polarity_features(alignment: Alignment, index: EvidenceIndex) -> dict[str, float]:
    different = same = 0.0
    for place, known in alignment.chosen.items():
        word, other = alignment.words[place], index.placed[known].word
        match = alignment.matches[place][known]
        if word.is_number:
            continue
        is_opposite = match.sign < 0
        if word.negation + other.negation == NEAR_NEGATION:
            # The negation may refer to another word.
            continue
        if (bool(word.negation) != bool(other.negation)) != is_opposite:
            different += word.weight if match.credit >= PRESENT else 0
        elif word.negation or other.negation or is_opposite:
            same += word.weight
    clauses = {index.placed[known].clause for known in alignment.chosen.values()}
    is_evidence_negated = any(
        placed.word.negation for placed in index.placed if placed.clause in clauses
    )
    is_claim_negated = any(word.negation for word in alignment.words)
    is_other = different > 0 and same == 0
    first = alignment.best[0] if alignment.best else -1
    copied = index.coverage(alignment, lambda placed: placed.sentence == first)
    return {
        "same_negation": min(same, 2.0) / 2,
        "other_negation": float(is_other),
        "negated_copy": float(is_other and copied > _NEARLY_ALL),
        "only_evidence_negated": float(is_evidence_negated and not is_claim_negated),
    }


def _order_features(alignment: Alignment, index: EvidenceIndex) -> dict[str, float]:
    unmoved = moved = 0
    for place, known in alignment.chosen.items():
        word, placed = alignment.words[place], index.placed[known]
        if word.is_number:
            continue
        mine = {
            alignment.chosen.get(near)
            for near in range(max(0, place - _NEAR), place)
            if alignment.words[near].clause == word.clause and not alignment.words[near].is_number
        }
        theirs = {
            near
            for near in range(max(0, known - _NEAR), known)
            if index.placed[near].clause == placed.clause and not index.placed[near].word.is_number
        }
        if not mine or not theirs:
            continue
        found = {near for near in mine if near is not None}
        if found & theirs:
            unmoved += 1
        elif any(near > known or index.placed[near].clause != placed.clause for near in found):
            moved += 1
    return {"other_neighbours": moved / max(1, moved + unmoved)}


def _number_features(claim: str, alignment: Alignment, index: EvidenceIndex) -> dict[str, float]:
    wanted = quantities(claim)
    if not wanted:
        return {"numbers_in_best": _NO_NUMBER}
    best = [_known(index.texts[sentence]) for sentence in alignment.best]
    near = frozenset[Quantity]().union(*best)
    known = frozenset[Quantity]().union(*(clause.quantities for clause in index.numbered))
    first = best[0] if best else frozenset[Quantity]()
    absent = [number for number in wanted if not contains_quantity(known, number)]
    is_derived = bool(absent) and all(_is_derived(number, near) for number in absent)
    is_replaced = any(
        other.dimension == number.dimension and not contains_quantity(wanted, other)
        for number in absent
        for other in first
    )
    margin = _context_margin(claim, wanted, index)
    return {
        # An offset: the other features of numbers can only speak against a wrong one.
        "has_numbers": 1.0,
        "numbers_in_best": sum(contains_quantity(first, number) for number in wanted) / len(wanted),
        "number_context": margin,
        "number_of_other_words": float(margin < _LEAST_MARGIN),
        "number_derived": float(is_derived),
        "number_replaced": float(is_replaced and not is_derived),
        "number_absent": float(bool(absent) and not is_derived and not is_replaced),
    }


@lru_cache(maxsize=8_192)
def _known(text: str) -> frozenset[Quantity]:
    return known_quantities(text)


def _context_margin(claim: str, wanted: frozenset[Quantity], index: EvidenceIndex) -> float:
    """Return how much better a number fits its words in the evidence than other numbers do.

    The least value of the numbers of the claim counts. It is from -1 to 1.
    """
    margins: list[float] = []
    for piece in clause_pattern(claim).split(claim):
        numbers = quantities(piece) if piece else frozenset()
        if not numbers:
            continue
        terms = _plain_terms(piece) or _plain_terms(claim)
        fits = [_fit(terms, clause.sentence, clause.clause, index) for clause in index.numbered]
        for number in numbers:
            own = other = 0.0
            is_known = False
            for fit, clause in zip(fits, index.numbered, strict=True):
                if contains_quantity(clause.quantities, number):
                    own, is_known = max(own, fit), True
                elif any(
                    _is_alike(value, number) and not contains_quantity(wanted, value)
                    for value in clause.quantities
                ):
                    other = max(other, fit)
            margins.append(own - other if is_known else -other)
    return min(margins, default=0.0)


def _plain_terms(text: str) -> frozenset[str]:
    return frozenset(word.term for word in read_words(text) if not word.is_number)


def _fit(terms: frozenset[str], sentence: int, clause: int, index: EvidenceIndex) -> float:
    """Return the share of terms in a clause; those in the rest of its sentence count half."""
    shares: list[float] = []
    for term in terms:
        in_clause = in_sentence = 0.0
        for place, match in index.match(term).items():
            placed = index.placed[place]
            if match.sign > 0 and placed.sentence == sentence:
                in_sentence = max(in_sentence, match.credit)
                if placed.clause == clause:
                    in_clause = max(in_clause, match.credit)
        shares.append((in_clause + in_sentence / 2) / 1.5)
    return math.fsum(shares) / max(1, len(terms))


def _is_alike(one: Quantity, other: Quantity) -> bool:
    return one.dimension == other.dimension and ("h" in one.number) == ("h" in other.number)


def _is_derived(wanted: Quantity, known: frozenset[Quantity]) -> bool:
    """Return True if a number is the sum, the difference or the product of two known ones."""
    value = _value(wanted, wanted)
    if value is None:
        return False
    found = {_value(number, wanted) for number in known}
    values = sorted(number for number in found if number is not None)[:_MOST_SUMMANDS]
    return any(
        value in (one + other, other - one, one * other)
        for place, one in enumerate(values)
        for other in values[place + 1 :]
    )


def _value(number: Quantity, wanted: Quantity) -> float | None:
    text = number.amount if wanted.amount and number.amount else number.number
    try:
        return float(text)
    except ValueError:
        return None


_PART_OF = re.compile(
    r"(\d{1,9})(?: out)? of (?:the |our |its |his |her |their |all )?(?:\w{1,20} )?(\d{1,9})"
)
_PART_OF_JAPANESE = re.compile(
    r"(\d{1,9})[^\d。、]{0,6}(?:のうち|、うち|中)の?[^\d。]{0,8}?(\d{1,9})"
)
_ALL = re.compile(
    r"\b(?:all|every|each|both|whole|entire|unanimous\w*)\b|すべて|全て|全部|全員|全件|みんな", re.I
)
_FROM_TO = re.compile(
    r"from ([\d.h]{1,9})[^\d]{0,25}? to (?:about )?([\d.h]{1,9})"
    r"|([\d.h]{1,9})[^\d。、]{0,10}から([\d.h]{1,9})"
)
_EARLIER = re.compile(
    r"\b(?:was|were|used to|from|previous\w*|before|former\w*|until|than|more|by|last)\b"
    r"|から|以前|前|これまで|従来|去年|だった|でした|より",
    re.I,
)
_DIGITS = re.compile(r"\d+(?:[.h]\d+)?")
_DAY_MONTH = re.compile(rf"(\d{{1,2}})(?: of)? ({'|'.join(MONTHS)})\b")
_MONTH_DAY = re.compile(rf"\b({'|'.join(MONTHS)}) (?:the )?(\d{{1,2}})\b(?!\d)")
_DATE_JAPANESE = re.compile(r"(\d{1,2})月(\d{1,2})日")
_UPDATE = re.compile(
    r"\b(?:update|correction|corrected|now|moved|postponed|changed|instead|rescheduled|already"
    r"|resumed|again|after all|actually|back|gone|took|taken|cancelled|not any ?more|no longer"
    r"|new)\b"
    r"|訂正|変更|更新|になりました|延期|やっぱり|結局|再開|追加|もう|新しい|改め|取りやめ|中止|から連絡",
    re.I,
)


def _change_features(claim: str, alignment: Alignment, index: EvidenceIndex) -> dict[str, float]:
    plain = with_digits(claim)
    best = [with_digits(index.texts[sentence]) for sentence in alignment.best]
    dates = _dates(plain)
    known = frozenset[tuple[int, int]]()
    if dates:
        known = known.union(*(_dates(with_digits(text)) for text in index.texts))
    return {
        "part_for_whole": float(any(_is_part_for_whole(plain, text) for text in best[:1])),
        "old_value": float(any(_has_old_value(plain, text) for text in best[:2])),
        "other_date": float(bool(known) and not dates <= known),
        "updated_later": float(_is_updated(alignment, index)),
    }


def _is_part_for_whole(claim: str, sentence: str) -> bool:
    """Return True if "two of nine" became "nine" or "all"."""
    stated = set(_DIGITS.findall(claim))
    pairs = [(match[1], match[2]) for match in _PART_OF.finditer(sentence)]
    pairs += [(match[2], match[1]) for match in _PART_OF_JAPANESE.finditer(sentence)]
    is_share = bool(_PART_OF.search(claim) or _PART_OF_JAPANESE.search(claim))
    return any(
        part not in stated and (_ALL.search(claim) or (whole in stated and not is_share))
        for part, whole in pairs
    )


def _has_old_value(claim: str, sentence: str) -> bool:
    """Return True if a claim has the first value of "from 8 to 12" only, or the reverse."""
    stated = _DIGITS.findall(claim)
    mine = {(match[1] or match[3], match[2] or match[4]) for match in _FROM_TO.finditer(claim)}
    for match in _FROM_TO.finditer(sentence):
        old, new = match[1] or match[3], match[2] or match[4]
        if (new, old) in mine:
            return True
        if old in stated and new not in stated and not _EARLIER.search(claim):
            return True
    return False


@lru_cache(maxsize=4_096)
def _dates(plain: str) -> frozenset[tuple[int, int]]:
    """Return the days of a text as month and day."""
    found = {(MONTHS.index(match[2]) + 1, int(match[1])) for match in _DAY_MONTH.finditer(plain)}
    found |= {(MONTHS.index(match[1]) + 1, int(match[2])) for match in _MONTH_DAY.finditer(plain)}
    found |= {(int(match[1]), int(match[2])) for match in _DATE_JAPANESE.finditer(plain)}
    return frozenset(found)


@lru_cache(maxsize=8_192)
def _announces_change(text: str) -> bool:
    return _UPDATE.search(text) is not None


def _is_updated(alignment: Alignment, index: EvidenceIndex) -> bool:
    """Return True if a later sentence on the same subject changes something, unlike the claim."""
    if not alignment.best:
        return False
    first = alignment.best[0]
    about = {
        word.term
        for word in read_words(index.texts[first])
        if not word.is_number and not is_light(word.term)
    }
    mine = {word.term for word in alignment.words}
    for text in index.texts[first + 1 :]:
        if _announces_change(text):
            terms = _plain_terms(text)
            new = terms - about
            if terms & about & mine and new and not new & mine:
                return True
    return False
