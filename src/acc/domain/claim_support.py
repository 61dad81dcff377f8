"""Score how well a document supports a claim, without a model.

The score is the mean of eight features that compare words and characters. A difference reduces it:
a number or a name of the claim that is not in the document, or a contradiction by the closest
sentence. A contradiction is a negation, an opposite, exchanged roles, or another number or name in
the same place. Nothing here is trained. English and Japanese have the same features.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.call_options import explains_call
from acc.domain.contrasts import replaced_word
from acc.domain.language import (
    MAX_SENTENCE_LENGTH,
    identifiers,
    is_japanese,
    names,
    normalize_text,
    sentences,
    term_list,
    word_list,
)
from acc.domain.paraphrases import is_light, synonyms
from acc.domain.quantities import (
    Quantity,
    contains_quantity,
    known_quantities,
    quantities,
    with_digits,
)
from acc.domain.roles import NEGATION, contradiction, is_negation_explained

#: Only this number of characters of a claim is read.
MAX_CLAIM_LENGTH = 2_000
#: In a document with more characters, only sentences that share words with the claim are read.
MAX_DOCUMENT_LENGTH = 200_000
#: Maximum number of characters of these sentences.
_MAX_SELECTED_LENGTH = 20_000
_LONG_DOCUMENTS_CACHED = 4
_DOCUMENTS_CACHED = 64
#: Number of sentences that are compared with a claim together: the closest ones, or neighbours.
_WINDOW = 3
#: Maximum distance, in content words, of two words that are a near pair in the claim.
_NEAR_IN_CLAIM = 2
#: The same for the sentences of the document.
_NEAR_IN_EVIDENCE = 4
#: The score is multiplied by one of these factors for a difference.
ABSENT_NUMBER_FACTOR = 0.6
_ABSENT_NAME_FACTOR = 0.8
_CONTRADICTION_FACTOR = 0.6
_OTHER_WORD_FACTOR = 0.7
#: A word of the claim that occurs in the document has the credit 1. These have less: a word of the
#: same family (announce, announcement), a synonym, a light word that does not occur.
_RELATED_WORD_CREDIT = 0.8
_SYNONYM_CREDIT = 0.8
_LIGHT_WORD_CREDIT = 0.5
#: A sentence is compared with a claim for contradictions if it covers this share of its words.
_COMPARABLE = 0.5
#: Different forms of a unit, a currency or a month that count as one word.
_SAME_WORD = {"eur": "euro", "€": "euro", "usd": "dollar", "$": "dollar", "gbp": "pound"}
_SAME_WORD |= {"£": "pound", "%": "percent", "mg": "milligram", "kg": "kilogram", "km": "kilometr"}
_SAME_WORD |= {"パーセント": "percent", "jan": "january", "feb": "february", "aug": "august"}
_SAME_WORD |= {"sept": "september", "oct": "october", "nov": "november", "dec": "december"}
_NOT_NAMES = frozenset(("eur", "usd", "gbp", "jpy", "chf", "am", "pm"))
_PRONOUN = re.compile(r"\b(?:he|she|it|they|his|her|hers|its|their|him|them|who|both)\b", re.I)
_JAPANESE_NAME = re.compile(
    r"([\u3400-\u9fff々\u30a1-\u30fc]{1,8}?)(?:選手|社長|監督|市長|校長|船長|知事|会長|議員|教授|取締役"
    r"|大臣|記者|弁護士|看護師|大使)|([\u3400-\u9fff々\u30a1-\u30fc]{1,8}?(?:財団|電力|銀行|大学|水産|丸))"
)
#: Text that is a quantity and not a name: "14th", "2.3TB".
_MEASURE = re.compile(r"[\d.,]+(?:st|nd|rd|th|[a-z]{1,3}|%)?")
#: A noun with a letter is a name: "hall B", "B会場".
_LETTERED = re.compile(r"\b([A-Za-z]{3,}) ([B-HJ-Z])\b(?!['’]|\.\w)")
_LETTERED_JAPANESE = re.compile(r"(?<![A-Za-z0-9-])([A-Z])(?=[\u3400-\u9fff])")
_COUNTED = re.compile(r"(\d[枚本台回人名件個冊匹頭箱社店])(?=[\u3400-\u9fff])")
_SYMBOL = re.compile(r"\bper cent\b|%|[€$£]|\b(?:eur|usd|gbp|mg|kg|km)\b|パーセント")
_LONG_SENTENCE = 400
_FULL_STOP = re.compile(r"(?<=[.!?。])\s+")
_SEPARATORS = re.compile(r"[\W_]+")


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class SupportFeatures:
    """Eight values from 0 to 1 for a claim; 1 is full support."""

    #: Share of its content words that occur in the document.
    coverage: float
    #: Share of its content words that occur in the best three neighbouring sentences.
    window_coverage: float
    #: 1 if the claim occurs in the document in one piece, less for more and shorter pieces.
    fragments: float
    #: Share of its groups of four characters, two in Japanese, that occur in the best sentences.
    characters: float
    #: Share of its pairs of neighbouring content words that are also close in the document.
    near_pairs: float
    #: Share of its names that occur: the mean for the document and for the best sentences.
    names: float
    #: The same for its numbers.
    numbers: float
    #: 1 if no content word is missing, less with each missing word.
    missing_words: float

    @property
    def mean(self) -> float:
        """Return the mean of the features."""
        return (
            self.coverage
            + self.window_coverage
            + self.fragments
            + self.characters
            + self.near_pairs
            + self.names
            + self.numbers
            + self.missing_words
        ) / 8


@explains_call()
@dataclass(frozen=True, slots=True, kw_only=True)
class SupportScore:
    """The support of a claim from 0 to 1, with its features and the best sentences.

    `faults` are the differences that reduced the score.
    """

    score: float
    features: SupportFeatures
    evidence: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


@explains_call()
def support_score(claim: str, document: str | Sequence[str]) -> SupportScore:
    """Return how well a document supports a claim.

    The document is one text or several, of any length. If it is long, only the sentences that share
    the most words with the claim are compared with it.
    """
    claim = claim[:MAX_CLAIM_LENGTH]
    texts = (document,) if isinstance(document, str) else tuple(document)
    if sum(map(len, texts)) > MAX_DOCUMENT_LENGTH:
        return SupportDocument(_select_sentences(claim, _long_document(texts))).score(claim)
    return _document(texts).score(claim)


@lru_cache(maxsize=_LONG_DOCUMENTS_CACHED)
def _long_document(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the sentences of a long document, each also with its numbers as digits."""
    return tuple((piece, with_digits(piece)) for text in texts for piece in _split(text))


def _select_sentences(claim: str, listed: Sequence[tuple[str, str]]) -> list[str]:
    """Return the sentences that share the most words with a claim, in their order."""
    wanted = _prepare(claim).terms
    found = [
        (sum(term in plain for term in wanted), place) for place, (_, plain) in enumerate(listed)
    ]
    chosen: list[int] = []
    length = 0
    for shared, place in sorted(found, key=lambda one: (-one[0], one[1])):
        length += len(listed[place][0])
        if not shared or (chosen and length > _MAX_SELECTED_LENGTH):
            break
        chosen.append(place)
    return [listed[place][0] for place in sorted(chosen)]


@lru_cache(maxsize=_DOCUMENTS_CACHED)
def _document(texts: tuple[str, ...]) -> "SupportDocument":
    return SupportDocument([piece for text in texts for piece in _split(text)])


def _split(text: str) -> list[str]:
    """Return sentences; a long sentence is split at every full stop."""
    found: list[str] = []
    for sentence in sentences(text):
        pieces = [sentence] if len(sentence) <= _LONG_SENTENCE else _FULL_STOP.split(sentence)
        for piece in pieces:
            # A piece that is still longer is data, not a sentence. Patterns are slow on long texts.
            found += [
                piece[start : start + MAX_SENTENCE_LENGTH]
                for start in range(0, len(piece), MAX_SENTENCE_LENGTH)
            ]
    return found


@lru_cache(maxsize=8_192)
def _find_names(text: str) -> frozenset[str]:
    codes = {code for code in identifiers(text) if not _MEASURE.fullmatch(code)}
    found = (names(text) | codes) - _NOT_NAMES
    found |= {f"{noun} {letter}".casefold() for noun, letter in _LETTERED.findall(text)}
    found |= {letter.casefold() for letter in _LETTERED_JAPANESE.findall(text)}
    if not text.isascii():
        pairs = _JAPANESE_NAME.findall(normalize_text(text))
        found |= {person or organisation for person, organisation in pairs}
    return found


@dataclass(frozen=True, slots=True)
class _Text:
    """A sentence, or a claim, prepared for comparison."""

    text: str
    terms: tuple[str, ...]
    words: tuple[str, ...]
    quantities: frozenset[Quantity]


@lru_cache(maxsize=8_192)
def _prepare(text: str) -> _Text:
    plain = with_digits(text)
    if _SYMBOL.search(plain):
        plain = _SYMBOL.sub(lambda match: f" {_SAME_WORD.get(match[0], 'percent')} ", plain)
    terms, words = term_list(_COUNTED.sub(r"\1 ", plain)), word_list(plain)
    found = quantities(text)
    return _Text(text, tuple(_SAME_WORD.get(term, term) for term in terms), words, found)


class SupportDocument:
    """Sentences that are prepared to be compared with many claims.

    With `is_conversation`, the sentences are those of a user, and the claim is part of an answer to
    this user. Two more rules then apply: a replaced word is a difference, and a negation is none if
    both texts say the same. For articles, these rules would be wrong too often.
    """

    def __init__(self, texts: Sequence[str], *, is_conversation: bool = False) -> None:
        self._is_conversation = is_conversation
        self._sentences = [_prepare(text) for text in texts]
        self._term_sets = [frozenset(sentence.terms) for sentence in self._sentences]
        self._places: dict[str, set[int]] = defaultdict(set)
        self._by_beginning: dict[str, list[str]] = defaultdict(list)
        self._pairs: set[tuple[str, str]] = set()
        self._quantities = frozenset(
            quantity for text in texts for quantity in known_quantities(text)
        )
        self._words: list[str] = []
        self._word_places: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._single_words: set[str] = set()
        for place, sentence in enumerate(self._sentences):
            self._add_to_index(place, sentence)
        self._normalized_texts = [_normalized_words(sentence.text) for sentence in self._sentences]
        self._joined_text = " ".join(self._normalized_texts)
        self._name_words = frozenset(self._joined_text.split())
        self._known_terms = frozenset(self._places)

    def _add_to_index(self, place: int, sentence: _Text) -> None:
        terms = sentence.terms
        for index, term in enumerate(terms):
            known = self._places[term]
            if not known and len(term) >= 4 and term.isalpha():
                self._by_beginning[term[:4]].append(term)
            known.add(place)
            for other in terms[index + 1 : index + 1 + _NEAR_IN_EVIDENCE]:
                self._pairs.add((term, other) if term < other else (other, term))
        start = len(self._words)
        words = sentence.words
        self._words += words
        self._words.append("")
        self._single_words.update(words)
        for index in range(len(words) - 1):
            self._word_places[words[index], words[index + 1]].append(start + index)

    def score(self, claim: str) -> SupportScore:
        """Return the support of one claim."""
        read = _prepare(claim)
        matched = {term: self._match(term) for term in dict.fromkeys(read.terms or read.words)}
        aligned = self._closest_sentences(matched)
        window = self._best_window(matched)
        best = sorted({*aligned, *window})
        name_share, absent_names = self._name_support(claim, best)
        number_share, absent_numbers = self._number_support(read, best)
        covered = sum(credit for _, credit in matched.values())
        total = max(1, len(matched))
        features = SupportFeatures(
            coverage=covered / total,
            window_coverage=self._covered(matched, window) / total,
            fragments=self._fragments(read.words),
            characters=self._characters(claim, best),
            near_pairs=self._near_pairs(read.terms, matched, covered / total),
            names=name_share,
            numbers=number_share,
            missing_words=_missing_words([matched[term][1] for term in read.terms or read.words]),
        )
        faults: list[str] = []
        score = features.mean
        if absent_numbers:
            score *= ABSENT_NUMBER_FACTOR
            faults.append(f"number differs: {', '.join(absent_numbers)}")
        if absent_names:
            score *= _ABSENT_NAME_FACTOR
            faults.append(f"name differs: {', '.join(absent_names)}")
        if aligned and not faults:
            factor, fault = self._difference(read, matched, aligned[0])
            score *= factor
            faults += [fault] if fault else []
        return SupportScore(
            score=round(score, 4),
            features=features,
            evidence=tuple(self._sentences[place].text for place in aligned),
            faults=tuple(faults),
        )

    def _match(self, term: str) -> tuple[str, float]:
        """Return the term of the document that matches a term of the claim, and the credit."""
        if term in self._places or term in self._single_words:
            return term, 1.0
        if len(term) >= 5 and term.isalpha():
            for known in self._by_beginning.get(term[:4], ()):
                shorter, longer = sorted((term, known), key=len)
                if len(shorter) >= 5 and longer.startswith(shorter[:-1]):
                    return known, _RELATED_WORD_CREDIT
        for other in sorted(synonyms(term)):
            if other in self._places:
                return other, _SYNONYM_CREDIT
        return term, _LIGHT_WORD_CREDIT if is_light(term) else 0.0

    def _covered(self, matched: Mapping[str, tuple[str, float]], places: Sequence[int]) -> float:
        known = frozenset[str]().union(*(self._term_sets[place] for place in places))
        return sum(credit for term, credit in matched.values() if term in known)

    def _closest_sentences(self, matched: Mapping[str, tuple[str, float]]) -> list[int]:
        """Return up to three sentences that together cover the most terms, best first."""
        open_terms = {term: credit for term, credit in matched.values() if credit}
        chosen: list[int] = []
        while open_terms and len(chosen) < _WINDOW:
            gains: dict[int, float] = defaultdict(float)
            for term, credit in open_terms.items():
                for place in self._places.get(term, ()):
                    gains[place] += credit
            if not gains:
                break
            best = min(gains, key=lambda place: (-gains[place], len(self._term_sets[place]), place))
            chosen.append(best)
            for term in self._term_sets[best]:
                open_terms.pop(term, None)
        return chosen

    def _best_window(self, matched: Mapping[str, tuple[str, float]]) -> list[int]:
        """Return the neighbouring sentences that cover the most terms."""
        credits: dict[int, float] = defaultdict(float)
        for term, credit in dict(matched.values()).items():
            starts = {
                place - offset
                for place in self._places.get(term, ())
                for offset in range(min(_WINDOW, place + 1))
            }
            for start in starts:
                credits[start] += credit
        if not credits:
            return []
        start = min(credits, key=lambda place: (-credits[place], place))
        return list(range(start, min(start + _WINDOW, len(self._sentences))))

    def _fragments(self, words: Sequence[str]) -> float:
        """Return 1 if the document contains the claim in one piece, less for several pieces."""
        if len(words) < 2:
            return float(bool(words) and words[0] in self._single_words)
        index, squares = 0, 0
        while index < len(words):
            longest = 1 if words[index] in self._single_words else 0
            if index + 1 < len(words):
                for place in self._word_places.get((words[index], words[index + 1]), ()):
                    length = 2
                    while (
                        index + length < len(words)
                        and self._words[place + length] == words[index + length]
                    ):
                        length += 1
                    longest = max(longest, length)
            squares += longest**2
            index += max(1, longest)
        return math.sqrt(squares) / len(words)

    def _characters(self, claim: str, best: Sequence[int]) -> float:
        size = 2 if is_japanese(claim) else 4
        wanted = _grams(_normalized_words(claim), size)
        if not wanted:
            return 0.0
        known = frozenset[str]().union(
            *(_grams(self._normalized_texts[place], size) for place in best)
        )
        return len(wanted & known) / len(wanted)

    def _near_pairs(
        self, terms: Sequence[str], matched: Mapping[str, tuple[str, float]], default: float
    ) -> float:
        pairs = {
            (terms[one], terms[other])
            for one in range(len(terms))
            for other in range(one + 1, min(one + 1 + _NEAR_IN_CLAIM, len(terms)))
        }
        if not pairs:
            return default
        found = 0.0
        for one, other in pairs:
            (first, credit), (second, other_credit) = matched[one], matched[other]
            key = (first, second) if first < second else (second, first)
            if key in self._pairs:
                found += min(credit, other_credit)
        return found / len(pairs)

    def _name_support(self, claim: str, best: Sequence[int]) -> tuple[float, list[str]]:
        wanted = _find_names(claim)
        if not wanted:
            return 1.0, []
        near = " ".join(self._normalized_texts[place] for place in best)
        near_words = frozenset(near.split())
        absent = sorted(
            name for name in wanted if not _has_name(name, self._name_words, self._joined_text)
        )
        close = sum(_has_name(name, near_words, near) for name in wanted)
        return (1 - len(absent) / len(wanted) + close / len(wanted)) / 2, absent

    def _number_support(self, claim: _Text, best: Sequence[int]) -> tuple[float, list[str]]:
        wanted = claim.quantities
        if not wanted:
            return 1.0, []
        near = frozenset(
            quantity for place in best for quantity in known_quantities(self._sentences[place].text)
        )
        absent = sorted(q.number for q in wanted if not contains_quantity(self._quantities, q))
        close = sum(contains_quantity(near, quantity) for quantity in wanted)
        return (1 - len(absent) / len(wanted) + close / len(wanted)) / 2, absent

    def _difference(
        self, claim: _Text, matched: Mapping[str, tuple[str, float]], place: int
    ) -> tuple[float, str]:
        """Return a factor for the score, and the difference from the closest sentence, if any."""
        sentence = self._sentences[place]
        if len(sentence.text) > _LONG_SENTENCE or self._covered(
            matched, [place]
        ) < _COMPARABLE * len(matched):
            return 1.0, ""
        fault = contradiction(claim.text, sentence.text)
        if self._is_conversation and fault == NEGATION:
            fault = "" if is_negation_explained(claim.text, sentence.text) else fault
        if fault:
            return _CONTRADICTION_FACTOR, fault
        if number := _other_number(claim, sentence):
            return ABSENT_NUMBER_FACTOR, f"number differs: {number}"
        if name := self._other_name(claim, sentence, place):
            return _OTHER_WORD_FACTOR, f"name differs: {name}"
        if self._is_conversation and (
            word := replaced_word(claim.text, sentence.text, self._known_terms)
        ):
            return _OTHER_WORD_FACTOR, f"says {word}"
        return 1.0, ""

    def _other_name(self, claim: _Text, sentence: _Text, place: int) -> str:
        """Return the names of a claim if the closest sentence has other names in their place."""
        wanted, known = _find_names(claim.text), _find_names(sentence.text)
        if not wanted or not known - wanted or _PRONOUN.search(sentence.text):
            return ""
        plain = self._normalized_texts[place]
        words = frozenset(plain.split())
        absent = sorted(name for name in wanted if not _has_name(name, words, plain))
        return ", ".join(absent) if 2 * len(absent) > len(wanted) else ""


def _other_number(claim: _Text, sentence: _Text) -> str:
    """Return a number of a claim if the sentence has another number before the same noun."""
    known = {term for term in sentence.terms if term[0].isdigit()}
    counted = {
        after
        for before, after in zip(sentence.terms, sentence.terms[1:], strict=False)
        if before[0].isdigit() and not after[0].isdigit()
    }
    return next(
        (
            before
            for before, after in zip(claim.terms, claim.terms[1:], strict=False)
            if before[0].isdigit() and after in counted and before not in known
        ),
        "",
    )


def _missing_words(credits: Sequence[float]) -> float:
    """Return 1, less with more missing words and with more of them next to each other."""
    longest = run = missing = 0
    for credit in credits:
        run = 0 if credit else run + 1
        missing += not credit
        longest = max(longest, run)
    return 4 / (4 + missing + longest)


@lru_cache(maxsize=8_192)
def _normalized_words(text: str) -> str:
    return _SEPARATORS.sub(" ", normalize_text(text).casefold()).strip()


def _has_name(name: str, words: frozenset[str], text: str) -> bool:
    if not name.isascii():
        return name in text
    parts = _normalized_words(name).split()
    if all(_has_part(part, words) for part in parts):
        return True
    # In Japanese, a name in Latin letters has no spaces around it.
    joined = " ".join(parts)
    return not text.isascii() and bool(
        re.search(rf"(?<![a-z0-9]){re.escape(joined)}(?![a-z0-9])", text)
    )


def _has_part(part: str, words: frozenset[str]) -> bool:
    """Return True if a part of a name occurs; a weekday may be abbreviated ("Thurs")."""
    if part in words or f"{part}s" in words:
        return True
    day = part.removesuffix("s")
    return day.endswith("day") and any(day[:length] in words for length in (3, 4, 5, None))


@lru_cache(maxsize=8_192)
def _grams(text: str, size: int) -> frozenset[str]:
    if size == 2:
        text = text.replace(" ", "")
    if len(text) <= size:
        return frozenset((text,)) if text else frozenset()
    return frozenset(text[index : index + size] for index in range(len(text) - size + 1))
