"""Recall by terms, ranked again by the similarity of embeddings."""

import logging
from collections import OrderedDict
from collections.abc import Sequence

from acc.domain.value_objects.base import replace
from acc.domain.value_objects.memory import Match, Passage
from acc.ports.outbound.memory_ports import RecallIndexPort
from acc.ports.outbound.model_ports import EmbedderPort

log = logging.getLogger("acc.memory")
_CANDIDATES = 64
_MAX_VECTORS = 4_096
_MAX_TEXT_LENGTH = 2_000
#: Weight of the cosine against the score by terms, both scaled to at most 1.
_WEIGHT = 0.5


class DenseRecallIndex:
    """Adds the similarity of embeddings to the scores of another index.

    Vectors of passages are cached in this process. If the embedder fails, the scores by terms are
    used and a note says so.
    """

    def __init__(self, index: RecallIndexPort, *, embedder: EmbedderPort) -> None:
        self._index = index
        self._embedder = embedder
        self._vectors: OrderedDict[str, Sequence[float]] = OrderedDict()
        self._warnings: list[str] = []

    async def add(self, passages: Sequence[Passage]) -> None:
        """Store passages."""
        await self._index.add(passages)

    async def search(self, query: str, *, limit: int) -> tuple[Match, ...]:
        """Return the best matches of the other index, ranked again."""
        matches = await self._index.search(query, limit=max(limit, _CANDIDATES))
        if len(matches) < 2:
            return matches
        try:
            similarities = await self._similarities(query, matches)
        # The embedder may be user code or a remote service: recall must not fail with it.
        except Exception as error:  # noqa: BLE001
            log.warning("the embeddings failed, so recall uses only words: %s", error)
            self._warnings.append(f"embeddings failed: {type(error).__name__}")
            return matches[:limit]
        best = max(match.score for match in matches) or 1.0
        ranked = [
            replace(match, score=match.score / best + _WEIGHT * similarity)
            for match, similarity in zip(matches, similarities, strict=True)
        ]
        ranked.sort(key=lambda match: match.score, reverse=True)
        return tuple(ranked[:limit])

    async def get(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Return the passages with these ids."""
        return await self._index.get(ids)

    async def neighbours(
        self, passage_id: str, *, before: int = 0, after: int = 0
    ) -> tuple[Passage, ...]:
        """Return a passage with those around it."""
        return await self._index.neighbours(passage_id, before=before, after=after)

    async def retire(self, ids: Sequence[str], *, replaced_by: str = "") -> None:
        """Hide passages from search."""
        await self._index.retire(ids, replaced_by=replaced_by)

    def drain_warnings(self) -> tuple[str, ...]:
        """Return and clear the warnings about failures since the last call."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    async def _similarities(self, query: str, matches: Sequence[Match]) -> list[float]:
        missing = [m.passage for m in matches if m.passage.id not in self._vectors]
        texts = [query, *(passage.text for passage in missing)]
        vectors = await self._embedder.embed([text[:_MAX_TEXT_LENGTH] for text in texts])
        for passage, vector in zip(missing, vectors[1:], strict=True):
            self._vectors[passage.id] = vector
        result = [
            sum(a * b for a, b in zip(vectors[0], self._vectors[m.passage.id], strict=True))
            for m in matches
        ]
        while len(self._vectors) > _MAX_VECTORS:
            self._vectors.popitem(last=False)
        return result
