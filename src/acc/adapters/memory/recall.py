"""Evidence in memory, found again by BM25, with embeddings to re-rank as an option.

The index grows one artifact at a time and never rebuilds. Terms are taken rarest first; once the
commoner ones cannot lift a new artifact into the result, only those already found are scored on
(MaxScore), so that a recall among 100,000 artifacts stays within a few milliseconds.
"""

import heapq
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from acc.domain.language import term_list
from acc.domain.value_objects.turn import Artifact, Candidate
from acc.ports.outbound.model_ports import EmbedderPort

_K1 = 1.2
_B = 0.75
_COUNT_BITS = 8
_MOST_COUNT = (1 << _COUNT_BITS) - 1
#: Entries of an inverted list read for one recall, newest first where a list is longer.
_MOST_ENTRIES = 300
_MOST_CUE_TERMS = 48
#: Artifacts that the commoner terms are still scored on.
_MOST_REFINED = 64
_RERANKED = 4
_RANK_CONSTANT = 60


class Bm25EvidenceStore:
    """Implements EvidenceStorePort in process memory."""

    def __init__(self, *, embedder: EmbedderPort | None = None) -> None:
        self._artifacts: list[Artifact] = []
        self._places: dict[str, int] = {}
        self._lengths = array("I")
        self._entries: dict[str, array[int]] = {}
        self._total_length = 0
        self._replaced: dict[int, int] = {}
        self._embedder = embedder
        self._vectors: list[Sequence[float]] = []

    def __len__(self) -> int:
        return len(self._artifacts)

    async def add(self, artifacts: Sequence[Artifact]) -> None:
        """Keep artifacts; an id that is known already is left as it is."""
        new = [artifact for artifact in artifacts if artifact.id not in self._places]
        for artifact in new:
            place = len(self._artifacts)
            self._places[artifact.id] = place
            self._artifacts.append(artifact)
            counts = Counter(term_list(artifact.text))
            length = sum(counts.values())
            self._lengths.append(length)
            self._total_length += length
            for term, count in counts.items():
                entry = place << _COUNT_BITS | min(count, _MOST_COUNT)
                self._entries.setdefault(term, array("Q")).append(entry)
        if self._embedder is not None and new:
            self._vectors.extend(self._embedder.embed([artifact.text for artifact in new]))

    async def supersede(self, old_id: str, new_id: str) -> None:
        """Record that the newer artifact replaces the older."""
        self._replaced[self._places[old_id]] = self._places[new_id]

    async def recall(self, cue: str, *, limit: int) -> tuple[Candidate, ...]:
        """Return at most `limit` artifacts that match the cue, best first, newest on a tie."""
        wanted = limit * _RERANKED if self._embedder is not None else limit
        best = self._search(cue, wanted)
        if self._embedder is not None and best:
            best = self._rerank(cue, best)[:limit]
        return tuple(self._candidate(place, score) for place, score in best)

    def _candidate(self, place: int, score: float) -> Candidate:
        newest = place
        while newest in self._replaced:
            newest = self._replaced[newest]
        return Candidate(
            artifact=self._artifacts[place],
            score=round(score, 6),
            superseded_by=self._artifacts[newest] if newest != place else None,
        )

    def _search(self, cue: str, limit: int) -> list[tuple[int, float]]:
        weighted = self._weigh(cue)
        if not weighted or limit < 1:
            return []
        # What the terms from here on can still add to one artifact.
        remaining = [0.0]
        for weight, _ in reversed(weighted):
            remaining.append(remaining[-1] + weight * (_K1 + 1))
        remaining.reverse()
        scores: dict[int, float] = {}
        threshold = 0.0
        allowance = _MOST_ENTRIES
        for position, (weight, entries) in enumerate(weighted):
            if allowance <= 0 or remaining[position] < threshold:
                scores = dict(_leaders(scores, max(limit, _MOST_REFINED), 0.0))
                self._refine(scores, weighted[position:])
                threshold = 0.0
                break
            read = entries if len(entries) <= allowance else entries[-allowance:]
            allowance -= len(read)
            self._accumulate(scores, weight, read)
            if len(scores) >= limit:
                threshold = heapq.nlargest(limit, scores.values())[-1]
        return _leaders(scores, limit, threshold)

    def _weigh(self, cue: str) -> list[tuple[float, "array[int]"]]:
        total = len(self._artifacts)
        weighted: list[tuple[float, array[int]]] = []
        for term in dict.fromkeys(term_list(cue)):
            entries = self._entries.get(term)
            if entries is not None:
                share = (total - len(entries) + 0.5) / (len(entries) + 0.5)
                weighted.append((math.log(1 + share), entries))
        weighted.sort(key=lambda item: -item[0])
        return weighted[:_MOST_CUE_TERMS]

    def _norm(self) -> tuple[float, float]:
        """Return what a document's length adds to BM25's denominator: a base and a slope."""
        slope = _K1 * _B * len(self._artifacts) / max(1, self._total_length)
        return _K1 * (1 - _B), slope

    def _accumulate(self, scores: dict[int, float], weight: float, entries: "array[int]") -> None:
        lengths = self._lengths
        base, slope = self._norm()
        gain = weight * (_K1 + 1)
        known = scores.get
        for entry in entries:
            place = entry >> _COUNT_BITS
            count = entry & _MOST_COUNT
            share = count / (count + base + slope * lengths[place])
            scores[place] = known(place, 0.0) + gain * share

    def _refine(self, scores: dict[int, float], weighted: list[tuple[float, "array[int]"]]) -> None:
        base, slope = self._norm()
        for place in scores:
            norm = base + slope * self._lengths[place]
            first = place << _COUNT_BITS
            for weight, entries in weighted:
                position = bisect_left(entries, first)
                if position < len(entries) and entries[position] >> _COUNT_BITS == place:
                    count = entries[position] & _MOST_COUNT
                    scores[place] += weight * (_K1 + 1) * count / (count + norm)

    def _rerank(self, cue: str, best: list[tuple[int, float]]) -> list[tuple[int, float]]:
        """Join the lexical and the vector ranking by reciprocal rank."""
        if self._embedder is None:
            return best
        meant = self._embedder.embed([cue])[0]
        closeness = {
            place: sum(a * b for a, b in zip(meant, self._vectors[place], strict=True))
            for place, _ in best
        }
        by_vector = sorted(closeness, key=lambda place: -closeness[place])
        joined = {
            place: 1 / (_RANK_CONSTANT + lexical) + 1 / (_RANK_CONSTANT + by_vector.index(place))
            for lexical, (place, _) in enumerate(best)
        }
        return sorted(best, key=lambda item: (-joined[item[0]], -item[0]))


def _leaders(scores: dict[int, float], limit: int, threshold: float) -> list[tuple[int, float]]:
    """Return the best places with their scores, the newer first on a tie."""
    best = [(score, place) for place, score in scores.items() if score >= threshold]
    best.sort(reverse=True)
    return [(place, score) for score, place in best[:limit]]
