"""In-memory evidence store with BM25 recall.

The index is incremental and never rebuilt. Terms are scored rarest first. Once the remaining terms
cannot bring a new document into the result, only the documents that are already scored are refined
(MaxScore), so that recall from 100,000 documents takes a few milliseconds.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from math import log
from typing import NamedTuple

from acc.domain.language import term_list
from acc.domain.value_objects.memory import Candidate, Evidence

_K1 = 1.2
_B = 0.75
#: Maximum number of postings read by one recall; the newest are read of a longer list.
_MAX_POSTINGS = 300
_MAX_CUE_TERMS = 48
#: Maximum number of documents that the more common terms are scored on.
_MAX_REFINED = 64
#: Larger than any rounding error of a score.
_SCORE_TOLERANCE = 1e-9
#: Binary search is used if a posting list is this many times longer than the scored documents.
_BINARY_SEARCH_RATIO = 8


class Bm25EvidenceStore:
    """EvidenceStorePort in process memory."""

    def __init__(self) -> None:
        self._documents: list[Evidence] = []
        self._positions: dict[str, int] = {}
        self._lengths: list[int] = []
        self._total_length = 0
        self._terms: dict[str, _Term] = {}
        self._superseded: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._documents)

    async def add(self, evidence: Sequence[Evidence]) -> None:
        """Store evidence; an id that is stored already keeps its first text."""
        for document in evidence:
            if document.id in self._positions:
                continue
            position = len(self._documents)
            self._positions[document.id] = position
            self._documents.append(document)
            names = term_list(document.text)
            self._lengths.append(len(names))
            self._total_length += len(names)
            for name, count in Counter(names).items():
                term = self._terms.get(name)
                if term is None:
                    term = self._terms[name] = _Term()
                term.add(position, count, len(names))

    async def supersede(self, old_id: str, new_id: str) -> None:
        """Record that the newer evidence replaces the older."""
        self._superseded[self._positions[old_id]] = self._positions[new_id]

    async def recall(
        self, cue: str, *, limit: int, lexical_only: bool = False
    ) -> tuple[Candidate, ...]:
        """Return at most `limit` matches, best first, then newest first."""
        return tuple(map(self._candidate, self._search(cue, limit)))

    def _candidate(self, match: "Match") -> Candidate:
        position = newest = match.position
        while newest in self._superseded:
            newest = self._superseded[newest]
        if newest != position:
            # Compress the path, so that a long chain is followed once.
            self._superseded[position] = newest
        return Candidate(
            evidence=self._documents[position],
            score=round(match.score, 6),
            semantic_match=match.semantic,
            superseded_by=self._documents[newest] if newest != position else None,
        )

    def _search(self, cue: str, limit: int) -> "list[Match]":
        saturation = self._saturation()
        weighted = self._weigh(cue, saturation)
        if not weighted or limit < 1:
            return []
        # remaining[i] is the most that the terms from i on can add to one document.
        remaining = [0.0]
        for term in reversed(weighted):
            remaining.append(remaining[-1] + term.max_score)
        remaining.reverse()
        scores: dict[int, float] = {}
        allowance = _MAX_POSTINGS
        for position, term in enumerate(weighted):
            rest = remaining[position]
            # Stop early only if the terms so far outweigh the remaining ones.
            if allowance <= 0 or (remaining[0] > 2 * rest and _are_ahead(scores, limit, by=rest)):
                scores = saturation.refine(scores, weighted[position:], limit=limit, rest=rest)
                break
            postings = term.positions
            if len(postings) > allowance:
                postings = postings[-allowance:]
            allowance -= len(postings)
            saturation.accumulate(scores, term, postings)
        return [Match(position, scores[position]) for position in _ranked(scores)[:limit]]

    def _weigh(self, cue: str, saturation: "_Saturation") -> "list[_WeightedTerm]":
        """Return the terms of the cue that are in the index, rarest first."""
        names = dict.fromkeys(term_list(cue))
        known = [term for name in names if (term := self._terms.get(name)) is not None]
        known.sort(key=_document_frequency)
        total = len(self._documents)
        weighted: list[_WeightedTerm] = []
        for term in known[:_MAX_CUE_TERMS]:
            count = len(term.positions)
            weight = log(1 + (total - count + 0.5) / (count + 0.5)) * (_K1 + 1)
            max_score = weight * saturation.of(term.max_count, term.min_length)
            weighted.append(_WeightedTerm(weight, max_score, term.positions, term.repeats))
        return weighted

    def _saturation(self) -> "_Saturation":
        slope = _K1 * _B * len(self._documents) / max(1, self._total_length)
        return _Saturation(self._lengths, base=_K1 * (1 - _B), slope=slope)


class Match(NamedTuple):
    """A document position, its lexical score, and whether it matches semantically."""

    position: int
    score: float
    semantic: bool = False


_NO_REPEATS: dict[int, int] = {}


class _Term:
    """Postings of a term: document positions, oldest first, and counts above 1."""

    __slots__ = ("max_count", "min_length", "positions", "repeats")

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.repeats = _NO_REPEATS
        #: The highest count in a document, and the shortest length of a document with the term.
        self.max_count = 1
        self.min_length = 0

    def add(self, position: int, count: int, length: int) -> None:
        """Add a document that contains the term."""
        self.min_length = min(self.min_length, length) if self.positions else length
        self.positions.append(position)
        if count > 1:
            self.max_count = max(self.max_count, count)
            if not self.repeats:
                self.repeats = {}
            self.repeats[position] = count


def _document_frequency(term: _Term) -> int:
    return len(term.positions)


class _WeightedTerm(NamedTuple):
    """A term of a cue: its weight, its highest possible score here, and its postings."""

    weight: float
    max_score: float
    positions: list[int]
    repeats: dict[int, int]


class _Saturation(dict[int, float]):
    """Share of a term's weight for a document that has the term once, by length.

    Many documents have the same length, so that each share is computed once.
    """

    def __init__(self, lengths: list[int], *, base: float, slope: float) -> None:
        self._lengths = lengths
        self._base = base
        self._slope = slope

    def __missing__(self, length: int) -> float:
        share = self[length] = 1 / (1 + self._base + self._slope * length)
        return share

    def of(self, count: int, length: int) -> float:
        """Return the share for `count` occurrences in a document of `length` terms."""
        return count / (count + self._base + self._slope * length)

    def accumulate(
        self, scores: dict[int, float], term: _WeightedTerm, positions: Collection[int]
    ) -> None:
        """Add the score of a term to the documents at some of its positions."""
        weight, lengths, repeats = term.weight, self._lengths, term.repeats
        if not scores and not repeats:
            scores.update({position: weight * self[lengths[position]] for position in positions})
            return
        for position in positions:
            if position in repeats:
                score = weight * self.of(repeats[position], lengths[position])
            else:
                score = weight * self[lengths[position]]
            scores[position] = scores[position] + score if position in scores else score

    def refine(
        self, scores: dict[int, float], terms: Sequence[_WeightedTerm], *, limit: int, rest: float
    ) -> dict[int, float]:
        """Return the scores of the documents that can still be in the result.

        The scores of `terms` are added; `rest` is the most that they can add to one document.
        """
        if len(scores) > limit:
            scores = _contenders(scores, limit, rest)
        for term in terms:
            self.accumulate(scores, term, _scored_positions(scores, term.positions))
        return scores


def _are_ahead(scores: dict[int, float], limit: int, *, by: float) -> bool:
    """Return True if `limit` scores cannot be reached by other documents."""
    # Sorting is skipped if even the best score can be reached.
    return (
        len(scores) >= limit and max(scores.values()) > by and sorted(scores.values())[-limit] > by
    )


def _contenders(scores: dict[int, float], limit: int, rest: float) -> dict[int, float]:
    """Return the best scores, without those that `rest` cannot bring into the result."""
    order = _ranked(scores)[: max(limit, _MAX_REFINED)]
    least = scores[order[limit - 1]] - rest - _SCORE_TOLERANCE
    order = order[: bisect_right(order, -least, lo=limit, key=lambda position: -scores[position])]
    return dict(zip(order, map(scores.__getitem__, order), strict=True))


def _scored_positions(scores: dict[int, float], positions: list[int]) -> Collection[int]:
    """Return the positions that have a score."""
    if len(positions) < _BINARY_SEARCH_RATIO * len(scores):
        return scores.keys() & positions
    return [
        position
        for position in scores
        if (index := bisect_left(positions, position)) < len(positions)
        and positions[index] == position
    ]


def _ranked(scores: dict[int, float]) -> list[int]:
    """Return the positions, best first; the newer first if scores are equal."""
    # Two sorts by numbers are several times faster than one sort by pairs.
    order = sorted(scores, reverse=True)
    order.sort(key=scores.__getitem__, reverse=True)
    return order
