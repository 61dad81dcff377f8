"""Recall index in the SQLite file of the sessions.

New passages are stored with their terms and are searched one by one. When there are enough of them,
their terms are added to the postings in one go, which makes a passage several times cheaper than
adding each one by itself. Nothing is rebuilt, and no process has a part of an index in memory.
"""

import sqlite3
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from acc.adapters.storage.invariants import encode
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
from acc.adapters.storage.sqlite import SqliteDatabase, as_database, insert
from acc.domain.recall import MAX_POSITION, Selected, TermExtractor, rank, select
from acc.domain.value_objects.memory import Match, Passage
from acc.domain.value_objects.session import SessionKey

#: The row id of a passage is that of its memory, shifted, plus its position.
_POSITION_BITS = 32
_OF_SESSION = "app_name = ? AND user_id = ? AND session_id = ?"
_FIND = (
    "SELECT id, passages, indexed, total_length FROM recall_memories"  # noqa: S608 - constants
    f" WHERE {_OF_SESSION} AND name = ?"
)
_ADD_MEMORY = (
    "INSERT INTO recall_memories (app_name, user_id, session_id, name, passages, indexed,"
    " total_length) VALUES (?, ?, ?, ?, 0, 0, 0)"
)
_UPDATE_MEMORY = (
    "UPDATE recall_memories SET passages = ?, indexed = ?, total_length = ? WHERE id = ?"
)
_ADD_PASSAGE = (
    "INSERT INTO recall_passages (id, memory, passage_id, body) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (memory, passage_id) DO NOTHING"
)
_ADD_UNINDEXED = "INSERT INTO recall_unindexed (id, terms) VALUES (?, ?)"
_UNINDEXED = "SELECT id, terms FROM recall_unindexed WHERE id BETWEEN ? AND ? ORDER BY id"
_EXTEND_POSTINGS = (
    "INSERT INTO recall_postings (memory, term, chunk, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET data = CAST(data || excluded.data AS BLOB)"
)
_EXTEND_LENGTHS = (
    "INSERT INTO recall_lengths (memory, chunk, data) VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET data = CAST(data || excluded.data AS BLOB)"
)
_POSTINGS = "SELECT data FROM recall_postings WHERE memory = ? AND term = ? ORDER BY chunk"
_LENGTHS = "SELECT data FROM recall_lengths WHERE memory = ? ORDER BY chunk"
# An array is one parameter, so the statement is compiled once.
_PASSAGES = "SELECT id, body FROM recall_passages WHERE id IN (SELECT value FROM json_each(?))"
_PASSAGES_BY_ID = (
    "SELECT body FROM recall_passages WHERE memory = ? AND passage_id IN"
    " (SELECT value FROM json_each(?)) ORDER BY id"
)
_PASSAGE_RANGE = "SELECT id, body FROM recall_passages WHERE id BETWEEN ? AND ? ORDER BY id"
_PASSAGE_BY_ID = "SELECT id FROM recall_passages WHERE memory = ? AND passage_id = ?"
_RETIRED = "SELECT data FROM recall_retired WHERE memory = ?"
_SET_RETIRED = "INSERT OR REPLACE INTO recall_retired (memory, data) VALUES (?, ?)"
_OF_MEMORY = ("recall_postings", "recall_lengths", "recall_retired")
_BY_ROW_ID = ("recall_passages", "recall_unindexed")


class _Memory(NamedTuple):
    """The row of a memory: the number of passages, and how many are in the postings."""

    id: int
    passages: int
    indexed: int
    total_length: int

    def row_id(self, position: int) -> int:
        """Return the row id of a passage."""
        return self.id << _POSITION_BITS | position


class SqliteRecallIndex:
    """RecallIndexPort in a database, for one memory of one session.

    `name` distinguishes the memories of a session. Deleting the session deletes its passages.
    """

    def __init__(
        self,
        database: SqliteDatabase | str | Path,
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
        rows = [
            (
                passage.id,
                encode(passage, f"passage {passage.id!r}"),
                self._terms.terms(passage.searched_text),
            )
            for passage in passages
        ]

        def store(connection: sqlite3.Connection) -> None:
            memory = self._find(connection)
            if memory is None:
                memory = _Memory(insert(connection, _ADD_MEMORY, self._place), 0, 0, 0)
            for passage_id, body, terms in rows:
                memory = _add_passage(connection, memory, passage_id, body, terms)
            if is_extension_due(memory.passages, memory.indexed):
                _extend_postings(connection, memory)
                memory = memory._replace(indexed=memory.passages)
            connection.execute(_UPDATE_MEMORY, (*memory[1:], memory.id))

        if rows:
            await self.database.write(store)

    async def search(self, query: str, *, limit: int) -> tuple[Match, ...]:
        """Return at most `limit` matches, best first, then newest first."""
        tokens = self._terms.tokens(query)
        if limit < 1 or not tokens:
            return ()

        def search(connection: sqlite3.Connection) -> tuple[Match, ...]:
            memory = self._find(connection)
            if memory is None:
                return ()
            retired = _read_retired(connection, memory)
            reader = _Reader(connection, memory)
            ranked = rank(tokens, reader, limit=limit, retired=retired)
            return _matches(connection, memory, select(ranked, retired, limit=limit))

        return await self.database.read(search)

    async def get(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Return the passages with these ids in the order of the conversation."""
        wanted = msgspec.json.encode(ids).decode()

        def read(connection: sqlite3.Connection) -> tuple[Passage, ...]:
            memory = self._find(connection)
            if memory is None:
                return ()
            rows = connection.execute(_PASSAGES_BY_ID, (memory.id, wanted))
            return tuple([PASSAGE_DECODER.decode(body) for (body,) in rows])

        return await self.database.read(read)

    async def neighbours(
        self, passage_id: str, *, before: int = 0, after: int = 0
    ) -> tuple[Passage, ...]:
        """Return a passage with so many passages before and after it."""

        def read(connection: sqlite3.Connection) -> tuple[Passage, ...]:
            memory = self._find(connection)
            center = memory and _position(connection, memory, passage_id)
            if memory is None or center is None:
                return ()
            retired = _read_retired(connection, memory)
            first, last = max(center - before, 0), min(center + after, MAX_POSITION)
            bounds = (memory.row_id(first), memory.row_id(last))
            return tuple(
                PASSAGE_DECODER.decode(body)
                for row_id, body in connection.execute(_PASSAGE_RANGE, bounds)
                if (position := row_id & MAX_POSITION) == center or position not in retired
            )

        return await self.database.read(read)

    async def retire(self, ids: Sequence[str], *, replaced_by: str = "") -> None:
        """Hide passages from search; matches of them count for the passage that replaces them."""

        def store(connection: sqlite3.Connection) -> None:
            memory = self._find(connection)
            replacement = _known_position(connection, memory, replaced_by) if replaced_by else None
            positions = {_known_position(connection, memory, passage_id) for passage_id in ids}
            if memory is None:
                return
            retired = _read_retired(connection, memory)
            retire_positions(retired, positions, replacement, replaced_by=replaced_by)
            connection.execute(_SET_RETIRED, (memory.id, encode_retired(retired)))

        await self.database.write(store)

    def _find(self, connection: sqlite3.Connection) -> _Memory | None:
        row = connection.execute(_FIND, self._place).fetchone()
        return None if row is None else _Memory._make(row)


def delete_recall(connection: sqlite3.Connection, key: SessionKey) -> None:
    """Delete the passages of all memories of a session."""
    query = f"SELECT id FROM recall_memories WHERE {_OF_SESSION}"  # noqa: S608 - constants
    for (memory,) in connection.execute(query, key).fetchall():
        for table in _OF_MEMORY:
            connection.execute(f"DELETE FROM {table} WHERE memory = ?", (memory,))  # noqa: S608 - constants
        bounds = (memory << _POSITION_BITS, (memory << _POSITION_BITS) + MAX_POSITION)
        for table in _BY_ROW_ID:
            connection.execute(f"DELETE FROM {table} WHERE id BETWEEN ? AND ?", bounds)  # noqa: S608 - constants
        connection.execute("DELETE FROM recall_memories WHERE id = ?", (memory,))


class _Reader:
    """Implements PostingsReader for one search."""

    def __init__(self, connection: sqlite3.Connection, memory: _Memory) -> None:
        self._connection = connection
        self._memory = memory
        rows = _unindexed(connection, memory)
        self._unindexed = [(row_id & MAX_POSITION, set(terms.split())) for row_id, terms in rows]

    @property
    def size(self) -> int:
        return self._memory.passages

    @property
    def mean_length(self) -> float:
        return self._memory.total_length / max(self._memory.passages, 1)

    def lengths(self) -> Sequence[int]:
        rows = self._connection.execute(_LENGTHS, (self._memory.id,))
        lengths = [data for (data,) in rows]
        lengths.append(bytes([term_count(terms) for _, terms in self._unindexed]))
        return b"".join(lengths)

    def postings(self, terms: Collection[str]) -> Mapping[str, Sequence[int]]:
        execute, memory = self._connection.execute, self._memory.id
        found: dict[str, array[int]] = {}
        for term in terms:
            data = [row[0] for row in execute(_POSTINGS, (memory, term))]
            if data:
                found[term] = numbers_of(data[0] if len(data) == 1 else b"".join(data))
        return add_unindexed(found, terms, self._unindexed)


def _add_passage(
    connection: sqlite3.Connection,
    memory: _Memory,
    passage_id: str,
    body: bytes,
    terms: Collection[str],
) -> _Memory:
    row_id = memory.row_id(memory.passages)
    cursor = connection.execute(_ADD_PASSAGE, (row_id, memory.id, passage_id, body))
    if cursor.rowcount != 1:
        return memory
    connection.execute(_ADD_UNINDEXED, (row_id, " ".join(sorted(terms))))
    return memory._replace(
        passages=memory.passages + 1, total_length=memory.total_length + term_count(terms)
    )


def _extend_postings(connection: sqlite3.Connection, memory: _Memory) -> None:
    """Add the passages that are not in the postings yet."""
    rows = _unindexed(connection, memory)
    postings, lengths = divide([(row_id & MAX_POSITION, text) for row_id, text in rows])
    connection.executemany(_EXTEND_POSTINGS, [(memory.id, *row) for row in postings])
    connection.executemany(_EXTEND_LENGTHS, [(memory.id, *row) for row in lengths])
    bounds = (memory.row_id(memory.indexed), memory.row_id(MAX_POSITION))
    connection.execute("DELETE FROM recall_unindexed WHERE id BETWEEN ? AND ?", bounds)


def _unindexed(connection: sqlite3.Connection, memory: _Memory) -> Iterable[tuple[int, str]]:
    bounds = (memory.row_id(memory.indexed), memory.row_id(MAX_POSITION))
    return connection.execute(_UNINDEXED, bounds).fetchall()


def _read_retired(connection: sqlite3.Connection, memory: _Memory) -> dict[int, int | None]:
    """Return the positions of retired passages and of what replaces them."""
    row = connection.execute(_RETIRED, (memory.id,)).fetchone()
    return {} if row is None else decode_retired(row[0])


def _position(connection: sqlite3.Connection, memory: _Memory, passage_id: str) -> int | None:
    row = connection.execute(_PASSAGE_BY_ID, (memory.id, passage_id)).fetchone()
    return None if row is None else row[0] & MAX_POSITION


def _known_position(connection: sqlite3.Connection, memory: _Memory | None, passage_id: str) -> int:
    position = None if memory is None else _position(connection, memory, passage_id)
    if position is None:
        raise unknown_passage(passage_id)
    return position


def _matches(
    connection: sqlite3.Connection, memory: _Memory, selected: Sequence[Selected]
) -> tuple[Match, ...]:
    positions = [n for item in selected for n in (item.position, *item.replaces)]
    wanted = msgspec.json.encode([memory.row_id(position) for position in positions]).decode()
    passages = {
        row_id & MAX_POSITION: PASSAGE_DECODER.decode(body)
        for row_id, body in connection.execute(_PASSAGES, (wanted,))
    }
    return tuple(
        [
            match_of(passages[position], ranked, tuple([passages[old] for old in replaces]))
            for position, ranked, replaces in selected
        ]
    )
