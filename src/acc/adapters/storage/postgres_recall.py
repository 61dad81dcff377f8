"""Recall index in the PostgreSQL database of the sessions.

As in SQLite, new passages are stored with their terms and are searched one by one. When there are
enough of them, their terms are added to the postings in one go.
"""

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from acc.adapters.storage.invariants import encode
from acc.adapters.storage.location import PostgresLocation
from acc.adapters.storage.postgres import PostgresDatabase, as_database
from acc.adapters.storage.postings import (
    PASSAGE_DECODER,
    add_unindexed,
    decode_retired,
    divide,
    encode_retired,
    is_extension_due,
    match_of,
    numbers_of,
    retire_positions,
    term_count,
    unknown_passage,
)
from acc.domain.recall import (
    MAX_POSITION,
    TermExtractor,
    Token,
    gram_terms,
    rank,
    select,
    shorten,
    word_terms,
)
from acc.domain.value_objects.memory import Match, Passage
from acc.domain.value_objects.session import SessionKey

if TYPE_CHECKING:
    from asyncpg import Connection

_OF_SESSION = "app_name = $1 AND user_id = $2 AND session_id = $3"
_FIND = (
    "SELECT id, passages, indexed, total_length, retired FROM acc_recall_memories"  # noqa: S608 - constants
    f" WHERE {_OF_SESSION} AND name = $4"
)
# A memory that exists is locked, so that two processes do not use one position.
_LOCK = (
    "INSERT INTO acc_recall_memories AS m (app_name, user_id, session_id, name, passages, indexed,"
    " total_length, retired) VALUES ($1, $2, $3, $4, 0, 0, 0, '')"
    " ON CONFLICT (app_name, user_id, session_id, name) DO UPDATE SET passages = m.passages"
    " RETURNING id, passages, indexed, total_length, retired"
)
_KNOWN = "SELECT passage_id FROM acc_recall_passages WHERE memory = $1 AND passage_id = ANY($2)"
_ADD = (
    "WITH p AS (INSERT INTO acc_recall_passages (memory, position, passage_id, body, terms)"
    " SELECT $1, r.* FROM unnest($2::bigint[], $3::text[], $4::bytea[], $5::text[]) r)"
    " UPDATE acc_recall_memories SET passages = $6, total_length = $7 WHERE id = $1"
)
_UNINDEXED = (
    "SELECT position, terms FROM acc_recall_passages WHERE memory = $1 AND position >= $2"
    " ORDER BY position"
)
_EXTEND = (
    "WITH p AS (INSERT INTO acc_recall_postings AS o (memory, term, chunk, data)"
    " SELECT $1, r.* FROM unnest($2::text[], $3::bigint[], $4::bytea[]) r"
    " ON CONFLICT (memory, term, chunk) DO UPDATE SET data = o.data || excluded.data),"
    " l AS (INSERT INTO acc_recall_lengths AS o (memory, chunk, data)"
    " SELECT $1, r.* FROM unnest($5::bigint[], $6::bytea[]) r"
    " ON CONFLICT (memory, chunk) DO UPDATE SET data = o.data || excluded.data),"
    " t AS (UPDATE acc_recall_passages SET terms = NULL WHERE memory = $1 AND position >= $7)"
    " UPDATE acc_recall_memories SET indexed = $8 WHERE id = $1"
)
_POSTINGS = (
    "SELECT term, data FROM acc_recall_postings WHERE memory = $1 AND term = ANY($2)"
    " ORDER BY term, chunk"
)
_LENGTHS = "SELECT data FROM acc_recall_lengths WHERE memory = $1 ORDER BY chunk"
_PASSAGES = (
    "SELECT position, body FROM acc_recall_passages WHERE memory = $1 AND position = ANY($2)"
)
_POSITIONS = (
    "SELECT passage_id, position FROM acc_recall_passages"
    " WHERE memory = $1 AND passage_id = ANY($2)"
)
_RANGE = (
    "SELECT position, body FROM acc_recall_passages WHERE memory = $1 AND position BETWEEN $2"
    " AND $3 ORDER BY position"
)
_SET_RETIRED = "UPDATE acc_recall_memories SET retired = $2 WHERE id = $1"
_DELETE = f"DELETE FROM acc_recall_memories WHERE {_OF_SESSION} RETURNING id"  # noqa: S608 - constants
_OF_MEMORY = ("acc_recall_postings", "acc_recall_lengths", "acc_recall_passages")


class _Memory(NamedTuple):
    """The row of a memory: the number of passages, and how many are in the postings."""

    id: int
    passages: int
    indexed: int
    total_length: int
    retired: bytes


class PostgresRecallIndex:
    """RecallIndexPort in a database, for one memory of one session.

    `name` distinguishes the memories of a session. Deleting the session deletes its passages.
    """

    def __init__(
        self,
        database: PostgresDatabase | PostgresLocation | str,
        *,
        key: SessionKey,
        name: str,
        terms: TermExtractor,
    ) -> None:
        self.database = as_database(database)
        self._place = (*key, name)
        self._terms = terms

    async def add(self, passages: Sequence[Passage]) -> None:
        """Store passages in the order of the conversation; a known id keeps its first text."""
        rows = {
            passage.id: (
                encode(passage, f"passage {passage.id!r}"),
                self._terms.terms(passage.searched_text),
            )
            for passage in reversed(passages)
        }
        ids = list(dict.fromkeys([passage.id for passage in passages]))

        async def store(connection: "Connection[Any]") -> None:
            memory = _Memory(*await connection.fetchrow(_LOCK, *self._place))
            known = {row[0] for row in await connection.fetch(_KNOWN, memory.id, ids)}
            new = [passage_id for passage_id in ids if passage_id not in known]
            if not new:
                return
            terms = [rows[passage_id][1] for passage_id in new]
            count = memory.passages + len(new)
            await connection.execute(
                _ADD,
                memory.id,
                list(range(memory.passages, count)),
                new,
                [rows[passage_id][0] for passage_id in new],
                [" ".join(sorted(own)) for own in terms],
                count,
                memory.total_length + sum(map(term_count, terms)),
            )
            if is_extension_due(count, memory.indexed):
                await _extend_postings(connection, memory, count)

        if rows:
            await self.database.transact(store)

    async def search(self, query: str, *, limit: int) -> tuple[Match, ...]:
        """Return at most `limit` matches, best first, then newest first."""
        tokens = shorten(self._terms.tokens(query))
        if limit < 1 or not tokens:
            return ()

        async def search(connection: "Connection[Any]") -> tuple[Match, ...]:
            memory = await self._find(connection)
            if memory is None:
                return ()
            retired = decode_retired(memory.retired)
            reader = await _read_postings(connection, memory, tokens)
            ranked = rank(tokens, reader, limit=limit, retired=retired)
            selected = list(select(ranked, retired, limit=limit))
            positions = {p for position, _, replaced in selected for p in (position, *replaced)}
            rows = await connection.fetch(_PASSAGES, memory.id, list(positions))
            passages = {position: PASSAGE_DECODER.decode(body) for position, body in rows}
            return tuple(
                match_of(passages[position], item, tuple([passages[old] for old in replaced]))
                for position, item, replaced in selected
            )

        return await self.database.read_snapshot(search)

    async def get(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Return the passages with these ids in the order of the conversation."""
        wanted = list(ids)

        async def read(connection: "Connection[Any]") -> tuple[Passage, ...]:
            memory = await self._find(connection)
            if memory is None:
                return ()
            positions = await _positions(connection, memory.id, wanted)
            rows = await connection.fetch(_PASSAGES, memory.id, list(positions.values()))
            return tuple(PASSAGE_DECODER.decode(body) for _, body in sorted(rows))

        return await self.database.read_snapshot(read)

    async def neighbours(
        self, passage_id: str, *, before: int = 0, after: int = 0
    ) -> tuple[Passage, ...]:
        """Return a passage with so many passages before and after it."""

        async def read(connection: "Connection[Any]") -> tuple[Passage, ...]:
            memory = await self._find(connection)
            if memory is None:
                return ()
            center = (await _positions(connection, memory.id, [passage_id])).get(passage_id)
            if center is None:
                return ()
            retired = decode_retired(memory.retired)
            first, last = max(center - before, 0), min(center + after, MAX_POSITION)
            return tuple(
                PASSAGE_DECODER.decode(body)
                for position, body in await connection.fetch(_RANGE, memory.id, first, last)
                if position == center or position not in retired
            )

        return await self.database.read_snapshot(read)

    async def retire(self, ids: Sequence[str], *, replaced_by: str = "") -> None:
        """Hide passages from search; matches of them count for the passage that replaces them."""
        wanted = [*ids, *([replaced_by] if replaced_by else [])]

        async def store(connection: "Connection[Any]") -> None:
            memory = await self._find(connection, " FOR UPDATE")
            known = {} if memory is None else await _positions(connection, memory.id, wanted)
            for passage_id in (*wanted[len(ids) :], *ids):
                if passage_id not in known:
                    raise unknown_passage(passage_id)
            if memory is None:
                return
            retired = decode_retired(memory.retired)
            positions = {known[passage_id] for passage_id in ids}
            replacement = known[replaced_by] if replaced_by else None
            retire_positions(retired, positions, replacement, replaced_by=replaced_by)
            await connection.execute(_SET_RETIRED, memory.id, encode_retired(retired))

        await self.database.transact(store)

    async def _find(self, connection: "Connection[Any]", lock: str = "") -> _Memory | None:
        row = await connection.fetchrow(_FIND + lock, *self._place)
        return None if row is None else _Memory(*row)


async def delete_recall(connection: "Connection[Any]", key: SessionKey) -> None:
    """Delete the passages of all memories of a session."""
    for (memory,) in await connection.fetch(_DELETE, *key):
        for table in _OF_MEMORY:
            await connection.execute(f"DELETE FROM {table} WHERE memory = $1", memory)  # noqa: S608 - constants


class _Postings:
    """Implements PostingsReader with what was read for one query."""

    def __init__(
        self,
        memory: _Memory,
        unindexed: Sequence[tuple[int, Collection[str]]],
    ) -> None:
        self.size = memory.passages
        self.mean_length = memory.total_length / max(memory.passages, 1)
        self.unindexed = unindexed
        self._found: dict[str, Sequence[int]] = {}
        self._lengths = b""

    def lengths(self) -> Sequence[int]:
        return self._lengths

    def postings(self, terms: Collection[str]) -> Mapping[str, Sequence[int]]:
        return {term: self._found[term] for term in terms if term in self._found}

    async def read(self, connection: "Connection[Any]", memory: int, terms: list[str]) -> None:
        """Read the postings of terms."""
        found: dict[str, array[int]] = {}
        for term, data in await connection.fetch(_POSTINGS, memory, terms):
            if term in found:
                found[term].extend(numbers_of(data))
            else:
                found[term] = numbers_of(data)
        self._found.update(add_unindexed(found, terms, self.unindexed))

    async def read_lengths(self, connection: "Connection[Any]", memory: int) -> None:
        """Read the lengths of all passages."""
        rows = await connection.fetch(_LENGTHS, memory)
        unindexed = bytes([term_count(terms) for _, terms in self.unindexed])
        self._lengths = b"".join([data for (data,) in rows]) + unindexed


async def _read_postings(
    connection: "Connection[Any]", memory: _Memory, tokens: Sequence[Token]
) -> _Postings:
    """Read what the ranking of a query needs; the n-grams depend on the words."""
    rows = await connection.fetch(_UNINDEXED, memory.id, memory.indexed)
    reader = _Postings(memory, [(position, set(terms.split())) for position, terms in rows])
    words = word_terms(tokens)
    await reader.read(connection, memory.id, words)
    await reader.read(connection, memory.id, gram_terms(tokens, reader.postings(words)))
    await reader.read_lengths(connection, memory.id)
    return reader


async def _extend_postings(connection: "Connection[Any]", memory: _Memory, count: int) -> None:
    """Add the passages that are not in the postings yet."""
    rows = await connection.fetch(_UNINDEXED, memory.id, memory.indexed)
    postings, lengths = divide([(position, terms) for position, terms in rows])
    await connection.execute(
        _EXTEND,
        memory.id,
        *[[row[column] for row in postings] for column in range(3)],
        *[[row[column] for row in lengths] for column in range(2)],
        memory.indexed,
        count,
    )


async def _positions(
    connection: "Connection[Any]", memory: int, ids: Sequence[str]
) -> dict[str, int]:
    return dict(await connection.fetch(_POSITIONS, memory, ids))
