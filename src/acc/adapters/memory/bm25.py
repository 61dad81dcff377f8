"""Evidence in memory, found again by BM25.

The index grows one artifact at a time and never rebuilds. Terms are taken rarest first; once the
commoner ones cannot lift a new artifact into the result, only those already found are scored on
(MaxScore), so that a recall among 100,000 artifacts stays within a few milliseconds.
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
#: Entries of inverted lists read for one recall, newest first where a list is longer.
_MOST_ENTRIES = 300
_MOST_CUE_TERMS = 48
#: Artifacts that the commoner terms are still scored on.
_MOST_REFINED = 64
#: Far above what rounding does to a score.
_ROUNDING = 1e-9
#: How many times longer than a look-up each a list must be, for look-ups to cost less than reading.
_WORTH_SEARCHING = 8


class Bm25EvidenceStore:
    """Implements EvidenceStorePort in process memory."""

    def __init__(self) -> None:
        self._artifacts: list[Evidence] = []
        self._places: dict[str, int] = {}
        self._lengths: list[int] = []
        self._total_length = 0
        self._terms: dict[str, _Term] = {}
        self._replaced: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._artifacts)

    async def add(self, artifacts: Sequence[Evidence]) -> None:
        """Keep artifacts; an id that is known already is left as it is."""
        for artifact in artifacts:
            if artifact.id in self._places:
                continue
            place = len(self._artifacts)
            self._places[artifact.id] = place
            self._artifacts.append(artifact)
            found = term_list(artifact.text)
            self._lengths.append(len(found))
            self._total_length += len(found)
            for name, count in Counter(found).items():
                term = self._terms.get(name)
                if term is None:
                    term = self._terms[name] = _Term()
                term.add(place, count, len(found))

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
        if newest != place:
            # What was said anew in every turn makes a long way, which is gone once.
            self._replaced[place] = newest
        return Candidate(
            artifact=self._artifacts[place],
            score=round(found.score, 6),
            close=found.close,
            superseded_by=self._artifacts[newest] if newest != place else None,
        )

    def _search(self, cue: str, limit: int) -> "list[Found]":
        shares = self._shares()
        weighted = self._weigh(cue, shares)
        if not weighted or limit < 1:
            return []
        # What the terms from here on can still add to one artifact.
        remaining = [0.0]
        for term in reversed(weighted):
            remaining.append(remaining[-1] + term.most)
        remaining.reverse()
        scores: dict[int, float] = {}
        allowance = _MOST_ENTRIES
        for position, term in enumerate(weighted):
            rest = remaining[position]
            # What has been added so far must outweigh what can come.
            if allowance <= 0 or (remaining[0] > 2 * rest and _are_ahead(scores, limit, by=rest)):
                scores = shares.refine(scores, weighted[position:], limit=limit, rest=rest)
                break
            read = term.places if len(term.places) <= allowance else term.places[-allowance:]
            allowance -= len(read)
            shares.accumulate(scores, term, read)
        return [Found(place, scores[place]) for place in _ranked(scores)[:limit]]

    def _weigh(self, cue: str, shares: "_Shares") -> "list[_Weighted]":
        """Return the cue's terms that stand anywhere, the rarest first."""
        names = dict.fromkeys(term_list(cue))
        known = [term for name in names if (term := self._terms.get(name)) is not None]
        known.sort(key=_commonness)
        total = len(self._artifacts)
        weighted: list[_Weighted] = []
        for term in known[:_MOST_CUE_TERMS]:
            count = len(term.places)
            gain = log(1 + (total - count + 0.5) / (count + 0.5)) * (_K1 + 1)
            most = gain * shares.of(term.most, term.shortest)
            weighted.append(_Weighted(gain, most, term.places, term.repeats))
        return weighted

    def _shares(self) -> "_Shares":
        slope = _K1 * _B * len(self._artifacts) / max(1, self._total_length)
        return _Shares(self._lengths, base=_K1 * (1 - _B), slope=slope)


class Found(NamedTuple):
    """A place with its score by words, and whether it stands out by meaning."""

    place: int
    score: float
    close: bool = False


_NEVER: dict[int, int] = {}


class _Term:
    """Where a term stands, oldest first, and how often where that is more than once."""

    __slots__ = ("most", "places", "repeats", "shortest")

    def __init__(self) -> None:
        self.places: list[int] = []
        self.repeats = _NEVER
        #: The highest count, and the least length of an artifact that has the term.
        self.most = 1
        self.shortest = 0

    def add(self, place: int, count: int, length: int) -> None:
        """Note that the term stands in one more artifact."""
        self.shortest = min(self.shortest, length) if self.places else length
        self.places.append(place)
        if count > 1:
            self.most = max(self.most, count)
            if not self.repeats:
                self.repeats = {}
            self.repeats[place] = count


def _commonness(term: _Term) -> int:
    return len(term.places)


class _Weighted(NamedTuple):
    """A term of a cue: what it gives at best in theory, to one of the artifacts here, and where."""

    gain: float
    most: float
    places: list[int]
    repeats: dict[int, int]


class _Shares(dict[int, float]):
    """What share of a term's gain an artifact gets that has the term once, by its length.

    Few lengths occur among many artifacts, so that each share is worked out once.
    """

    def __init__(self, lengths: list[int], *, base: float, slope: float) -> None:
        self._lengths = lengths
        self._base = base
        self._slope = slope

    def __missing__(self, length: int) -> float:
        share = self[length] = 1 / (1 + self._base + self._slope * length)
        return share

    def of(self, count: int, length: int) -> float:
        """Return the share of an artifact of some length that has the term so many times."""
        return count / (count + self._base + self._slope * length)

    def accumulate(
        self, scores: dict[int, float], term: _Weighted, places: Collection[int]
    ) -> None:
        """Add what a term gives to the artifacts at some of its places."""
        gain, lengths, repeats = term.gain, self._lengths, term.repeats
        if not scores and not repeats:
            scores.update({place: gain * self[lengths[place]] for place in places})
            return
        for place in places:
            if place in repeats:
                gained = gain * self.of(repeats[place], lengths[place])
            else:
                gained = gain * self[lengths[place]]
            scores[place] = scores[place] + gained if place in scores else gained

    def refine(
        self, scores: dict[int, float], terms: Sequence[_Weighted], *, limit: int, rest: float
    ) -> dict[int, float]:
        """Return scores with what further terms add, of those that can still be of the best.

        `rest` is what these terms together can add to one of them.
        """
        if len(scores) > limit:
            scores = _contenders(scores, limit, rest)
        for term in terms:
            self.accumulate(scores, term, _common(scores, term.places))
        return scores


def _are_ahead(scores: dict[int, float], limit: int, *, by: float) -> bool:
    """Tell whether so many scores are higher than this that no other can overtake them."""
    # Where even the best can be overtaken there is no need to look at the others.
    return len(scores) >= limit and max(scores.values()) > by and _worst_leader(scores, limit) > by


def _contenders(scores: dict[int, float], limit: int, rest: float) -> dict[int, float]:
    """Return the best, of them only those that `rest` can still lift among so many."""
    order = _ranked(scores)[: max(limit, _MOST_REFINED)]
    least = scores[order[limit - 1]] - rest - _ROUNDING
    order = order[: bisect_right(order, -least, lo=limit, key=lambda place: -scores[place])]
    return dict(zip(order, map(scores.__getitem__, order), strict=True))


def _common(scores: dict[int, float], places: list[int]) -> Collection[int]:
    """Return those of the places that have a score."""
    if len(places) < _WORTH_SEARCHING * len(scores):
        return scores.keys() & places
    return [
        place
        for place in scores
        if (at := bisect_left(places, place)) < len(places) and places[at] == place
    ]


def _ranked(scores: dict[int, float]) -> list[int]:
    """Return the places, the best first, the newer first on a tie."""
    # Twice by numbers is several times as fast as once by pairs.
    order = sorted(scores, reverse=True)
    order.sort(key=scores.__getitem__, reverse=True)
    return order


def _worst_leader(scores: dict[int, float], limit: int) -> float:
    return sorted(scores.values())[-limit]
