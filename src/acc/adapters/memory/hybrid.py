"""Evidence found again by words and by the meaning of embeddings."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from acc.adapters.memory.bm25 import Bm25EvidenceStore, Found
from acc.domain.errors import AccError, ModelFailed
from acc.domain.language import one_line, term_list
from acc.domain.value_objects.memory import Candidate
from acc.ports.outbound.model_ports import EmbedderPort

log = logging.getLogger("acc.memory")

#: How many times more are found by words than are wanted, to be ranked by meaning too.
_RERANKED = 4
_RANK_CONSTANT = 60
#: Artifacts, the newest, that a cue is compared with by meaning alone.
_MOST_COMPARED = 256
#: Vectors that are kept; others are asked for again.
_MOST_VECTORS = 1_024
#: By how many standard deviations, and by which cosine at least, one stands out. Measured by
#: benchmarks/recall.py: lower values find more in English, and wrong ones in Japanese.
_STANDS_OUT = 3.0
_LEAST_CLOSENESS = 0.2
#: Far finer than what tells two texts apart, and coarser than what tells two machines apart.
_DECIMALS = 5
_LONGEST_NOTE = 300

_Vector = NDArray[np.float32]


class HybridEvidenceStore(Bm25EvidenceStore):
    """Ranks what words find by meaning too, and finds what stands out by meaning alone.

    The latter is looked for among the newest artifacts, and only if `by_meaning`. Nothing is
    embedded before it is needed. An embedder that fails costs the meaning, not the turn: what it
    could not do is in the notes.
    """

    def __init__(self, *, embedder: EmbedderPort, by_meaning: bool = True) -> None:
        super().__init__()
        self._embedder = embedder
        self._by_meaning = by_meaning
        self._has_warned = False
        self._vectors: dict[int, _Vector] = {}
        self._notes: dict[str, None] = {}

    def take_notes(self) -> tuple[str, ...]:
        """Return what the embedder could not do since this was last asked."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    async def recall(
        self, cue: str, *, limit: int, by_words: bool = False
    ) -> tuple[Candidate, ...]:
        """Return at most `limit` artifacts that match the cue, best first, newest on a tie."""
        if by_words or limit < 1 or not term_list(cue):
            return await super().recall(cue, limit=limit)
        best = self._search(cue, limit * _RERANKED)
        if best or (self._by_meaning and len(self)):
            best = await self._joined(cue, best)
        return tuple(map(self._candidate, best[:limit]))

    async def _joined(self, cue: str, best: list[Found]) -> list[Found]:
        """Join the lexical and the vector ranking by reciprocal rank."""
        newest = self._newest()
        places = sorted({found.place for found in best} | set(newest))
        try:
            meant = await self._embedded(cue, places)
        except AccError as error:
            self._notes[f"recall went by words alone: {error}"] = None
            return best
        found = np.stack([self._vectors[place] for place in places]) @ meant
        closeness = dict(zip(places, found.round(_DECIMALS).tolist(), strict=True))
        close = _outstanding({place: closeness[place] for place in newest})
        scores = {**dict.fromkeys(close, 0.0), **{item.place: item.score for item in best}}
        by_vector = sorted(scores, key=lambda place: (-closeness[place], -place))
        joined = {place: 1 / (_RANK_CONSTANT + rank) for rank, place in enumerate(by_vector)}
        for rank, item in enumerate(best):
            joined[item.place] += 1 / (_RANK_CONSTANT + rank)
        order = sorted(scores, key=lambda place: (-joined[place], -place))
        return [Found(place, scores[place], place in close) for place in order]

    def _newest(self) -> range:
        first = max(0, len(self) - _MOST_COMPARED) if self._by_meaning else len(self)
        return range(first, len(self))

    async def _embedded(self, cue: str, places: Sequence[int]) -> _Vector:
        """Return the cue's vector, and have those of the artifacts."""
        missing = [place for place in places if place not in self._vectors]
        texts = [self._artifacts[place].text for place in missing]
        vectors = await self._asked([*texts, cue])
        size = vectors.shape[1]
        kept = self._vectors
        if any(vector.size != size for vector in kept.values()):
            raise ModelFailed("vectors came of another size than before; start a new memory")
        if len(kept) + len(missing) > _MOST_VECTORS:
            kept = {place: kept[place] for place in places if place in kept}
        kept.update(zip(missing, vectors[:-1], strict=True))
        self._vectors = kept
        return np.asarray(vectors[-1])

    async def _asked(self, texts: Sequence[str]) -> _Vector:
        try:
            found = await self._embedder.embed(texts)
        except AccError:
            raise
        # An embedder is somebody else's code, and no failure of it may cost a turn.
        except Exception as error:
            told = one_line(f"{type(error).__name__}: {error}")[:_LONGEST_NOTE]
            if not self._has_warned:
                log.warning("an embedder failed, so recall goes by words alone: %s", told)
                self._has_warned = True
            raise ModelFailed(told) from error
        return _checked(found, len(texts))


def _checked(found: object, count: int) -> _Vector:
    """Return what an embedder gave as one row for each text, or say what is wrong with it."""
    wanted = f"{count} vectors of one size are wanted"
    if isinstance(found, Iterator):
        found = list(found)
    if not hasattr(found, "__len__"):
        raise ModelFailed(f"the embedder returned {type(found).__name__}, {wanted}")
    try:
        vectors: _Vector = np.asarray(found, dtype=np.float32)
    except (TypeError, ValueError):
        raise ModelFailed(f"the embedder's vectors cannot be read: {wanted}") from None
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise ModelFailed(f"the embedder returned {len(vectors)} vectors, {wanted}")
    if not np.isfinite(vectors).all():
        raise ModelFailed("the embedder returned a vector with numbers that are none")
    return vectors


def _outstanding(closeness: dict[int, float]) -> frozenset[int]:
    """Return the places that a cue is much closer to than to all but a few."""
    if not closeness:
        return frozenset()
    every = np.fromiter(closeness.values(), dtype=np.float64)
    least = max(float(every.mean() + _STANDS_OUT * every.std()), _LEAST_CLOSENESS)
    return frozenset(place for place, close in closeness.items() if close >= least)
