"""Evidence store that combines BM25 with embeddings."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from acc.adapters.memory.bm25 import Bm25EvidenceStore, Match
from acc.domain.errors import AccError, ModelFailed
from acc.domain.language import term_list
from acc.domain.text import one_line
from acc.domain.value_objects.memory import Candidate
from acc.ports.outbound.model_ports import EmbedderPort

log = logging.getLogger("acc.memory")

#: Multiple of the limit that BM25 returns for reranking.
_RERANK_FACTOR = 4
_RANK_CONSTANT = 60
#: Number of the newest documents that a cue is compared with by similarity alone.
_MAX_COMPARED = 256
#: Maximum number of cached vectors.
_MAX_VECTORS = 1_024
#: A semantic match is this many standard deviations above the mean, and has at least this cosine.
#: Measured by benchmarks/recall.py: lower values add wrong matches in Japanese.
_MIN_DEVIATIONS = 3.0
_MIN_SIMILARITY = 0.2
#: Precise enough to rank texts; hides differences between machines.
_SIMILARITY_DECIMALS = 5
_MAX_NOTE_LENGTH = 300

_Vector = NDArray[np.float32]


class HybridEvidenceStore(Bm25EvidenceStore):
    """Evidence store that ranks BM25 matches by embedding similarity too.

    If `semantic_recall` is True, documents among the newest that stand out by similarity alone are
    added. Documents are embedded on first use. If the embedder fails, recall is lexical and a note
    reports the failure.
    """

    def __init__(self, *, embedder: EmbedderPort, semantic_recall: bool = True) -> None:
        super().__init__()
        self._embedder = embedder
        self._semantic_recall = semantic_recall
        self._has_warned = False
        self._vectors: dict[int, _Vector] = {}
        self._notes: dict[str, None] = {}

    def drain_notes(self) -> tuple[str, ...]:
        """Return and clear the notes about failures of the embedder."""
        notes = tuple(self._notes)
        self._notes.clear()
        return notes

    async def recall(
        self, cue: str, *, limit: int, lexical_only: bool = False
    ) -> tuple[Candidate, ...]:
        """Return at most `limit` matches, best first, then newest first."""
        if lexical_only or limit < 1 or not term_list(cue):
            return await super().recall(cue, limit=limit)
        best = self._search(cue, limit * _RERANK_FACTOR)
        if best or (self._semantic_recall and len(self)):
            best = await self._rerank(cue, best)
        return tuple(map(self._candidate, best[:limit]))

    async def _rerank(self, cue: str, lexical: list[Match]) -> list[Match]:
        """Merge the lexical and the vector ranking by reciprocal rank."""
        first = max(0, len(self) - _MAX_COMPARED) if self._semantic_recall else len(self)
        newest = range(first, len(self))
        positions = sorted({match.position for match in lexical} | set(newest))
        try:
            cue_vector = await self._embed(cue, positions)
        except AccError as error:
            self._notes[f"recall used words only: {error}"] = None
            return lexical
        vectors = np.stack([self._vectors[position] for position in positions])
        rounded = (vectors @ cue_vector).round(_SIMILARITY_DECIMALS).tolist()
        similarity = dict(zip(positions, rounded, strict=True))
        semantic = _outliers({position: similarity[position] for position in newest})
        scores = {**dict.fromkeys(semantic, 0.0), **{m.position: m.score for m in lexical}}
        by_vector = sorted(scores, key=lambda position: (-similarity[position], -position))
        merged = {position: 1 / (_RANK_CONSTANT + rank) for rank, position in enumerate(by_vector)}
        for rank, match in enumerate(lexical):
            merged[match.position] += 1 / (_RANK_CONSTANT + rank)
        order = sorted(scores, key=lambda position: (-merged[position], -position))
        return [Match(position, scores[position], position in semantic) for position in order]

    async def _embed(self, cue: str, positions: Sequence[int]) -> _Vector:
        """Return the vector of the cue; cache the vectors of the documents."""
        missing = [position for position in positions if position not in self._vectors]
        texts = [self._documents[position].text for position in missing]
        vectors = await self._call_embedder([*texts, cue])
        size = vectors.shape[1]
        cached = self._vectors
        if any(vector.size != size for vector in cached.values()):
            raise ModelFailed("the embedder changed the size of its vectors; create a new memory")
        if len(cached) + len(missing) > _MAX_VECTORS:
            cached = {position: cached[position] for position in positions if position in cached}
        cached.update(zip(missing, vectors[:-1], strict=True))
        self._vectors = cached
        return np.asarray(vectors[-1])

    async def _call_embedder(self, texts: Sequence[str]) -> _Vector:
        try:
            result = await self._embedder.embed(texts)
        except AccError:
            raise
        # The embedder is user code: its failure must not fail the turn.
        except Exception as error:
            message = one_line(f"{type(error).__name__}: {error}")[:_MAX_NOTE_LENGTH]
            if not self._has_warned:
                log.warning("embedder failed, recall uses words only: %s", message)
                self._has_warned = True
            raise ModelFailed(message) from error
        return _validate_vectors(result, len(texts))


def _validate_vectors(result: object, count: int) -> _Vector:
    """Return the result of an embedder as a matrix with one row for each text."""
    expected = f"expected {count} vectors of one size"
    if isinstance(result, Iterator):
        result = list(result)
    if not hasattr(result, "__len__"):
        raise ModelFailed(f"the embedder returned {type(result).__name__}; {expected}")
    try:
        vectors: _Vector = np.asarray(result, dtype=np.float32)
    except (TypeError, ValueError):
        raise ModelFailed(
            f"the embedder returned vectors that are not numeric; {expected}"
        ) from None
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise ModelFailed(f"the embedder returned {len(vectors)} vectors; {expected}")
    if not np.isfinite(vectors).all():
        raise ModelFailed("the embedder returned a vector that is not finite")
    return vectors


def _outliers(similarity: dict[int, float]) -> frozenset[int]:
    """Return the positions whose similarity is far above the mean."""
    if not similarity:
        return frozenset()
    values = np.fromiter(similarity.values(), dtype=np.float64)
    threshold = max(float(values.mean() + _MIN_DEVIATIONS * values.std()), _MIN_SIMILARITY)
    return frozenset(position for position, value in similarity.items() if value >= threshold)
