"""Recall index in process memory: postings in arrays, extended with every passage."""

from array import array
from collections.abc import Collection, Mapping, Sequence

from acc.domain.errors import InvalidInput
from acc.domain.recall import MAX_LENGTH, TermExtractor, rank, select
from acc.domain.value_objects.memory import Match, Passage


class InMemoryRecallIndex:
    """RecallIndexPort in process memory, for sessions that end with the process."""

    def __init__(self, *, terms: TermExtractor) -> None:
        self._terms = terms
        self._passages: list[Passage] = []
        self._positions: dict[str, int] = {}
        self._postings = _Postings()
        self._replacements: dict[int, int | None] = {}

    async def add(self, passages: Sequence[Passage]) -> None:
        """Store passages in the order of the conversation; a known id keeps its first text."""
        for passage in passages:
            if passage.id not in self._positions:
                self._positions[passage.id] = len(self._passages)
                self._passages.append(passage)
                self._postings.add(self._terms.terms(passage.searched_text))

    async def search(self, query: str, *, limit: int) -> tuple[Match, ...]:
        """Return at most `limit` matches, best first, then newest first."""
        if limit < 1:
            return ()
        tokens = self._terms.tokens(query)
        ranked = rank(tokens, self._postings, limit=limit, retired=self._replacements)
        passages = self._passages
        return tuple(
            [
                Match(
                    passage=passages[position],
                    score=score,
                    words=words,
                    grams=grams,
                    neighbour=neighbour,
                    window=window,
                    replaces=tuple([passages[old] for old in replaces]) if replaces else (),
                )
                for position, (_, score, words, grams, neighbour, window), replaces in select(
                    ranked, self._replacements, limit=limit
                )
            ]
        )

    async def get(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Return the passages with these ids in the order of the conversation."""
        known = {self._positions[passage_id] for passage_id in ids if passage_id in self._positions}
        return tuple(self._passages[position] for position in sorted(known))

    async def neighbours(
        self, passage_id: str, *, before: int = 0, after: int = 0
    ) -> tuple[Passage, ...]:
        """Return a passage with so many passages before and after it."""
        center = self._positions.get(passage_id)
        if center is None:
            return ()
        first = max(center - before, 0)
        around = enumerate(self._passages[first : center + after + 1], start=first)
        return tuple(
            passage
            for position, passage in around
            if position == center or position not in self._replacements
        )

    async def retire(self, ids: Sequence[str], *, replaced_by: str = "") -> None:
        """Hide passages from search; matches of them count for the passage that replaces them."""
        replacement = self._position(replaced_by) if replaced_by else None
        if replacement is not None:
            replacement = self._replacements.get(replacement, replacement)
        retired = {self._position(passage_id) for passage_id in ids}
        if replaced_by in ids or replacement in retired:
            raise InvalidInput(f"passage {replaced_by!r} cannot replace itself")
        for old, current in self._replacements.items():
            if current in retired:
                self._replacements[old] = replacement
        self._replacements.update(dict.fromkeys(retired, replacement))

    def _position(self, passage_id: str) -> int:
        try:
            return self._positions[passage_id]
        except KeyError:
            raise InvalidInput(
                f"unknown passage {passage_id!r}: add it to the index first"
            ) from None


class _Postings:
    """Implements PostingsReader. A list with one position is stored as a plain number."""

    def __init__(self) -> None:
        self._lengths = bytearray()
        self._total_length = 0
        self._terms: dict[str, int | array[int]] = {}

    @property
    def size(self) -> int:
        return len(self._lengths)

    @property
    def mean_length(self) -> float:
        return self._total_length / max(len(self._lengths), 1)

    def lengths(self) -> Sequence[int]:
        return self._lengths

    def postings(self, terms: Collection[str]) -> Mapping[str, Sequence[int]]:
        found: dict[str, Sequence[int]] = {}
        for term in terms:
            positions = self._terms.get(term)
            if positions is not None:
                found[term] = (positions,) if isinstance(positions, int) else positions
        return found

    def add(self, terms: Collection[str]) -> None:
        """Add the next passage."""
        position, postings = len(self._lengths), self._terms
        length = min(len(terms), MAX_LENGTH)
        self._lengths.append(length)
        self._total_length += length
        for term in terms:
            positions = postings.get(term)
            if positions is None:
                postings[term] = position
            elif isinstance(positions, int):
                postings[term] = array("I", (positions, position))
            else:
                positions.append(position)
