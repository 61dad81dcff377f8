"""Postings of a recall index as bytes, whichever database stores them."""

import sys
from array import array
from collections.abc import Collection, Iterable, Mapping

import msgspec

from acc.domain.errors import InvalidInput
from acc.domain.recall import MAX_LENGTH, MAX_POSITION, Ranked
from acc.domain.value_objects.memory import Match, Passage

PASSAGE_DECODER = msgspec.json.Decoder(Passage)
#: Passages by which the postings of a term are divided into rows, as a power of two. A row is
#: rewritten when it is extended, so this bounds the cost of adding to a frequent term.
_CHUNK_BITS = 12
#: Bounds of the number of passages that are not in the postings yet; it grows with the memory.
_MIN_UNINDEXED = 32
_MAX_UNINDEXED = 256
_UNINDEXED_RATIO = 64


def is_extension_due(passages: int, indexed: int) -> bool:
    """Return True if enough passages are not in the postings yet."""
    limit = max(passages // _UNINDEXED_RATIO, _MIN_UNINDEXED)
    return passages - indexed >= min(limit, _MAX_UNINDEXED)


def term_count(terms: Collection[str]) -> int:
    """Return the number of terms of a passage as it is stored, in one byte."""
    return min(len(terms), MAX_LENGTH)


def numbers_of(data: bytes) -> "array[int]":
    """Return stored numbers, in four bytes each, little-endian."""
    numbers = array("I")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def bytes_of(numbers: "array[int]") -> bytes:
    """Return numbers as they are stored."""
    if sys.byteorder == "big":
        numbers = array("I", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def divide(
    passages: Iterable[tuple[int, str]],
) -> tuple[list[tuple[str, int, bytes]], list[tuple[int, bytes]]]:
    """Return the rows by which passages extend postings and lengths.

    A passage is its position and its terms. The rows are in the order of the tables, which is
    several times faster than any other.
    """
    postings: dict[tuple[str, int], array[int]] = {}
    lengths: dict[int, bytearray] = {}
    for position, text in passages:
        chunk = position >> _CHUNK_BITS
        terms = text.split()
        lengths.setdefault(chunk, bytearray()).append(term_count(terms))
        for term in terms:
            postings.setdefault((term, chunk), array("I")).append(position)
    return (
        [(*place, bytes_of(postings[place])) for place in sorted(postings)],
        [(chunk, bytes(data)) for chunk, data in lengths.items()],
    )


def add_unindexed(
    found: "dict[str, array[int]]",
    terms: Collection[str],
    unindexed: Iterable[tuple[int, Collection[str]]],
) -> "dict[str, array[int]]":
    """Return the postings of terms with those of passages that are not in the postings yet."""
    wanted = set(terms)
    for position, own_terms in unindexed:
        for term in wanted.intersection(own_terms):
            if term in found:
                found[term].append(position)
            else:
                found[term] = array("I", (position,))
    # In the order of the query, which does not depend on where a posting is stored.
    return {term: found[term] for term in terms if term in found}


def decode_retired(data: bytes) -> dict[int, int | None]:
    """Return the positions of retired passages and of what replaces them."""
    numbers = numbers_of(data)
    replacements: dict[int, int | None] = dict(zip(numbers[::2], numbers[1::2], strict=True))
    for position, replacement in replacements.items():
        if replacement == MAX_POSITION:
            replacements[position] = None
    return replacements


def encode_retired(retired: Mapping[int, int | None]) -> bytes:
    """Return retired passages as pairs of numbers."""
    numbers = array("I")
    for position, replacement in retired.items():
        numbers.extend((position, MAX_POSITION if replacement is None else replacement))
    return bytes_of(numbers)


def retire_positions(
    retired: dict[int, int | None],
    positions: Collection[int],
    replacement: int | None,
    *,
    replaced_by: str,
) -> None:
    """Add retired passages; InvalidInput if one of them is its own replacement."""
    given = replacement
    if replacement is not None:
        replacement = retired.get(replacement, replacement)
    if given in positions or replacement in positions:
        raise InvalidInput(f"passage {replaced_by!r} cannot replace itself")
    for old, current in retired.items():
        if current in positions:
            retired[old] = replacement
    retired.update(dict.fromkeys(positions, replacement))


def unknown_passage(passage_id: str) -> InvalidInput:
    """Return the error for a passage that the index does not have."""
    return InvalidInput(f"unknown passage {passage_id!r}: add it to the index first")


def match_of(passage: Passage, ranked: Ranked, replaces: tuple[Passage, ...]) -> Match:
    """Return a match of a search."""
    return Match(
        passage=passage,
        score=ranked.score,
        words=ranked.words,
        grams=ranked.grams,
        neighbour=ranked.neighbour,
        window=ranked.window,
        replaces=replaces,
    )
