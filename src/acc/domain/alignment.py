"""Align the words of a claim with the words of sentences that may support it.

A word can match the same word, a word with the same beginning, a compound, a synonym or, with the
other sign, an opposite. The best sentences are those that cover the most words together; within
them every word of the claim gets the match in the clause that has the most other matches.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from acc.domain.claim_words import Word, clauses_of, read_words
from acc.domain.paraphrases import opposites, synonyms
from acc.domain.quantities import Quantity, known_quantities

#: Credits of a match by its kind.
_RELATED, _COMPOUND, _SYNONYM, _OPPOSITE, _PREFIXED, _SAME_KANJI = 0.85, 0.8, 0.75, 0.5, 0.6, 0.35
#: Number of sentences that can support a claim together.
_MOST_SENTENCES = 3
#: Least new credit of a further sentence.
_LEAST_GAIN = 0.2
#: Credit of a match in a further sentence, compared with the best one.
_FURTHER_SENTENCE = 0.9
#: From this credit on, a word counts as present.
PRESENT = 0.5
_LATIN_LENGTH = 5
_OPPOSITE_PREFIXES = ("un", "in", "dis", "im")


class Match(NamedTuple):
    """The credit of a match; the sign is -1 for an opposite and 0 for a shared kanji only."""

    credit: float
    sign: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A word of the evidence with its place."""

    word: Word
    sentence: int
    #: Clauses are numbered over all sentences.
    clause: int


class NumberedClause(NamedTuple):
    """A clause with numbers."""

    sentence: int
    clause: int
    quantities: frozenset[Quantity]


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words of a claim, all their matches, the best sentences and the chosen matches."""

    words: tuple[Word, ...]
    matches: tuple[dict[int, Match], ...]
    best: tuple[int, ...]
    chosen: dict[int, int]

    def credit(self, index: int) -> float:
        """Return the best credit of a word of the claim."""
        return max((match.credit for match in self.matches[index].values()), default=0.0)


class EvidenceIndex:
    """Sentences that are prepared to be aligned with many claims."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self.placed: list[Placed] = []
        self._by_term: dict[str, list[int]] = defaultdict(list)
        self._by_beginning: dict[str, set[str]] = defaultdict(set)
        self._by_ending: dict[str, set[str]] = defaultdict(set)
        self._by_kanji: dict[str, list[int]] = defaultdict(list)
        self._matched: dict[str, dict[int, Match]] = {}
        self.numbered: list[NumberedClause] = []
        base = 0
        for sentence, text in enumerate(self.texts):
            for word in read_words(text):
                self._add(Placed(word, sentence, base + word.clause))
            pieces = clauses_of(text)
            for number, piece in enumerate(pieces):
                if found := known_quantities(piece):
                    self.numbered.append(NumberedClause(sentence, base + number, found))
            base += max(1, len(pieces))

    def _add(self, placed: Placed) -> None:
        place, term = len(self.placed), placed.word.term
        self.placed.append(placed)
        self._by_term[term].append(place)
        if term.isascii():
            self._by_beginning[term[:4]].add(term)
            if len(term) >= _LATIN_LENGTH:
                self._by_ending[term[-4:]].add(term)
            return
        for character in term:
            if "\u3400" <= character <= "\u9fff":
                self._by_kanji[character].append(place)

    def match(self, term: str) -> dict[int, Match]:
        """Return the places of the words that match a term."""
        found = self._matched.get(term)
        if found is None:
            found = self._matched[term] = self._search(term)
        return found

    def _search(self, term: str) -> dict[int, Match]:
        found: dict[int, Match] = {}
        self._add_matches(found, term, Match(1.0, 1))
        if term[0].isdigit():
            return found
        if term.isascii():
            self._search_forms(found, term)
        else:
            self._search_kanji(found, term)
        for other in synonyms(term):
            self._add_matches(found, other, Match(_SYNONYM, 1))
        for other in opposites(term):
            self._add_matches(found, other, Match(_OPPOSITE, -1))
        return found

    def _add_matches(self, found: dict[int, Match], known: str, match: Match) -> None:
        for place in self._by_term.get(known, ()):
            if place not in found or found[place].credit < match.credit:
                found[place] = match

    def _search_forms(self, found: dict[int, Match], term: str) -> None:
        """Add words with the same beginning, compounds and words with a negative prefix."""
        for known in self._by_beginning.get(term[:4], ()):
            if known != term and _are_related(term, known):
                self._add_matches(found, known, Match(_RELATED, 1))
        if len(term) >= _LATIN_LENGTH:
            for known in self._by_ending.get(term[-4:], ()):
                if known != term and (known.endswith(term) or term.endswith(known)):
                    self._add_matches(found, known, Match(_COMPOUND, 1))
        for prefix in _OPPOSITE_PREFIXES:
            if term.startswith(prefix) and len(term) > len(prefix) + 3:
                self._add_matches(found, term[len(prefix) :], Match(_PREFIXED, -1))
            if len(term) > 3:
                self._add_matches(found, prefix + term, Match(_PREFIXED, -1))

    def _search_kanji(self, found: dict[int, Match], term: str) -> None:
        for character in term:
            for place in self._by_kanji.get(character, ()):
                known = self.placed[place].word.term
                is_part = term in known or known in term
                match = Match(_COMPOUND, 1) if is_part else Match(_SAME_KANJI, 0)
                if place not in found or found[place].credit < match.credit:
                    found[place] = match

    def align(self, claim: str) -> Alignment:
        """Return the alignment of a claim with the sentences."""
        words = read_words(claim)
        matches = tuple(self.match(word.term) for word in words)
        best = self._best_sentences(words, matches)
        return Alignment(words, matches, best, self._choose(words, matches, best))

    def _best_sentences(
        self, words: Sequence[Word], matches: Sequence[dict[int, Match]]
    ) -> tuple[int, ...]:
        credits: list[dict[int, float]] = []
        for found in matches:
            own: dict[int, float] = {}
            for place, match in found.items():
                sentence = self.placed[place].sentence
                own[sentence] = max(own.get(sentence, 0.0), match.credit)
            credits.append(own)
        best: list[int] = []
        reached = [0.0] * len(words)
        while len(best) < _MOST_SENTENCES:
            gains: dict[int, float] = defaultdict(float)
            for index, own in enumerate(credits):
                for sentence, credit in own.items():
                    if credit > reached[index]:
                        gains[sentence] += (credit - reached[index]) * words[index].weight
            top = max(gains, key=lambda sentence: (gains[sentence], -sentence), default=-1)
            if top < 0 or gains[top] <= _LEAST_GAIN:
                break
            best.append(top)
            reached = [
                max(credit, own.get(top, 0.0)) for credit, own in zip(reached, credits, strict=True)
            ]
        return tuple(best)

    def _choose(
        self, words: Sequence[Word], matches: Sequence[dict[int, Match]], best: Sequence[int]
    ) -> dict[int, int]:
        tied: dict[int, list[int]] = {}
        for index, found in enumerate(matches):
            credits = {
                place: match.credit
                * (1.0 if self.placed[place].sentence == best[0] else _FURTHER_SENTENCE)
                for place, match in found.items()
                if self.placed[place].sentence in best
            }
            if credits:
                top = max(credits.values())
                tied[index] = [place for place, credit in credits.items() if credit > top - 1e-9]
        votes: dict[int, float] = defaultdict(float)
        for index, places in tied.items():
            for place in places:
                votes[self.placed[place].clause] += words[index].weight / len(places)
        return {
            index: max(places, key=lambda place: (votes[self.placed[place].clause], -place))
            for index, places in tied.items()
        }

    def coverage(self, alignment: Alignment, is_allowed: Callable[[Placed], bool]) -> float:
        """Return the share of the words of a claim that allowed words of the evidence match.

        Numbers count only if a claim has no other words.
        """
        covered = total = 0.0
        only_numbers = all(word.is_number for word in alignment.words)
        for word, found in zip(alignment.words, alignment.matches, strict=True):
            if word.is_number and not only_numbers:
                continue
            total += word.weight
            covered += word.weight * max(
                (match.credit for place, match in found.items() if is_allowed(self.placed[place])),
                default=0.0,
            )
        return covered / total if total else 0.0


def _are_related(one: str, other: str) -> bool:
    if len(one) < _LATIN_LENGTH or len(other) < 4:
        return False
    same = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        same += 1
    return (same >= 4 and same >= 0.6 * max(len(one), len(other))) or (
        same >= 5 and same >= min(len(one), len(other)) - 1
    )
