"""Evidence in memory, found again by BM25.

The index grows one artifact at a time and never rebuilds. Terms are taken rarest first; once the
commoner ones cannot lift a new artifact into the result, only those already found are scored on
(MaxScore), so that a recall among 100,000 artifacts stays within a few milliseconds.
"""

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import log
from typing import NamedTuple

from acc.domain.language import term_list
from acc.domain.value_objects.turn import Artifact, Candidate

_K1 = 1.2
_B = 0.75
#: An entry of an inverted list is a place, and below it the artifact's length and the term's count.
_COUNT_BITS = 8
_MOST_COUNT = (1 << _COUNT_BITS) - 1
_LENGTH_BITS = 20
_MOST_LENGTH = (1 << _LENGTH_BITS) - 1
_PLACE_SHIFT = _COUNT_BITS + _LENGTH_BITS
_MEASURES = (1 << _PLACE_SHIFT) - 1
#: Entries of an inverted list read for one recall, newest first where a list is longer.
_MOST_ENTRIES = 300
_MOST_CUE_TERMS = 48
#: Artifacts that the commoner terms are still scored on.
_MOST_REFINED = 64


class Bm25EvidenceStore:
    """Implements EvidenceStorePort in process memory."""

    def __init__(self) -> None:
        self._artifacts: list[Artifact] = []
        self._places: dict[str, int] = {}
        self._entries: dict[str, array[int]] = {}
        self._total_length = 0
        self._replaced: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._artifacts)

    async def add(self, artifacts: Sequence[Artifact]) -> None:
        """Keep artifacts; an id that is known already is left as it is."""
        for artifact in artifacts:
            if artifact.id in self._places:
                continue
            place = len(self._artifacts)
            self._places[artifact.id] = place
            self._artifacts.append(artifact)
            counts = Counter(term_list(artifact.text))
            length = sum(counts.values())
            self._total_length += length
            first = place << _PLACE_SHIFT | min(length, _MOST_LENGTH) << _COUNT_BITS
            for term, count in counts.items():
                entry = first | min(count, _MOST_COUNT)
                self._entries.setdefault(term, array("Q")).append(entry)

    async def supersede(self, old_id: str, new_id: str) -> None:
        """Record that the newer artifact replaces the older."""
        self._replaced[self._places[old_id]] = self._places[new_id]

    async def recall(
        self, cue: str, *, limit: int, by_words: bool = False
    ) -> tuple[Candidate, ...]:
        """Return at most `limit` artifacts that match the cue, best first, newest on a tie."""
        return tuple(map(self._candidate, self._search(cue, limit)))

    def _candidate(self, found: "Found") -> Candidate:
        place = newest = found.place
        while newest in self._replaced:
            newest = self._replaced[newest]
        return Candidate(
            artifact=self._artifacts[place],
            score=round(found.score, 6),
            close=found.close,
            superseded_by=self._artifacts[newest] if newest != place else None,
        )

    def _search(self, cue: str, limit: int) -> "list[Found]":
        weighted = self._weigh(cue)
        if not weighted or limit < 1:
            return []
        # What the terms from here on can still add to one artifact.
        remaining = [0.0]
        for weight, _ in reversed(weighted):
            remaining.append(remaining[-1] + weight * (_K1 + 1))
        remaining.reverse()
        scores: dict[int, float] = {}
        shares = self._shares()
        threshold = 0.0
        allowance = _MOST_ENTRIES
        for position, (weight, entries) in enumerate(weighted):
            if allowance <= 0 or remaining[position] < threshold:
                leaders = _leaders(scores, max(limit, _MOST_REFINED))
                scores = {found.place: found.score for found in leaders}
                _refine(scores, weighted[position:], shares)
                break
            read = entries if len(entries) <= allowance else entries[-allowance:]
            allowance -= len(read)
            _accumulate(scores, weight, read, shares)
            # Where even the best can be overtaken there is no need to look at the others.
            if len(scores) >= limit and max(scores.values()) > remaining[position + 1]:
                threshold = _worst_leader(scores, limit)
        return _leaders(scores, limit)

    def _weigh(self, cue: str) -> list[tuple[float, "array[int]"]]:
        total = len(self._artifacts)
        weighted: list[tuple[float, array[int]]] = []
        for term in dict.fromkeys(term_list(cue)):
            entries = self._entries.get(term)
            if entries is not None:
                share = (total - len(entries) + 0.5) / (len(entries) + 0.5)
                weighted.append((log(1 + share), entries))
        weighted.sort(key=lambda item: -item[0])
        return weighted[:_MOST_CUE_TERMS]

    def _shares(self) -> "_Shares":
        slope = _K1 * _B * len(self._artifacts) / max(1, self._total_length)
        return _Shares(base=_K1 * (1 - _B), slope=slope)


class Found(NamedTuple):
    """A place with its score by words, and whether it stands out by meaning."""

    place: int
    score: float
    close: bool = False


class _Shares(dict[int, float]):
    """What share of a term's weight an artifact gets, by its length and the term's count.

    Few lengths and counts occur among many entries, so that each share is worked out once.
    """

    def __init__(self, *, base: float, slope: float) -> None:
        self._base = base
        self._slope = slope

    def __missing__(self, measures: int) -> float:
        count = measures & _MOST_COUNT
        share = count / (count + self._base + self._slope * (measures >> _COUNT_BITS))
        self[measures] = share
        return share


def _accumulate(
    scores: dict[int, float], weight: float, entries: "array[int]", shares: _Shares
) -> None:
    gain = weight * (_K1 + 1)
    if not scores:
        scores.update({e >> _PLACE_SHIFT: gain * shares[e & _MEASURES] for e in entries})
        return
    known = scores.get
    for entry in entries:
        place = entry >> _PLACE_SHIFT
        scores[place] = known(place, 0.0) + gain * shares[entry & _MEASURES]


def _refine(
    scores: dict[int, float], weighted: list[tuple[float, "array[int]"]], shares: _Shares
) -> None:
    for weight, entries in weighted:
        gain = weight * (_K1 + 1)
        for place in scores:
            position = bisect_left(entries, place << _PLACE_SHIFT)
            if position < len(entries) and entries[position] >> _PLACE_SHIFT == place:
                scores[place] += gain * shares[entries[position] & _MEASURES]


def _leaders(scores: dict[int, float], limit: int) -> "list[Found]":
    """Return the best places with their scores, the newer first on a tie."""
    # Numbers are sorted many times as fast as pairs, and nearly all pairs fall below.
    least = _worst_leader(scores, limit) if len(scores) > limit else 0.0
    best = [(score, place) for place, score in scores.items() if score >= least]
    best.sort(reverse=True)
    return [Found(place, score) for score, place in best[:limit]]


def _worst_leader(scores: dict[int, float], limit: int) -> float:
    return sorted(scores.values())[-limit]
