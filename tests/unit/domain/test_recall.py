"""Scores of a search are those of plain sums over all messages."""

import random
from math import log
from typing import NamedTuple

import pytest

from acc.adapters.memory.recall import InMemoryRecallIndex
from acc.adapters.system.stemmer import SnowballStemmer
from acc.domain.recall import NEIGHBOUR_WEIGHT, TermExtractor
from acc.domain.value_objects.memory import Passage

#: More words than one digit of the number that counts windows has room for. They are their own
#: stems and have no n-grams.
WORDS = tuple(first + last for first in "bcdfgk" for last in ("ax", "ex", "ox", "ux", "oz"))
BEFORE_AND_AFTER = 3
K1 = 1.2


#: One message, few, as many as are read without a choice, and more.
SIZES = pytest.mark.parametrize("size", [1, 8, 512, 513, 900])


class Conversation(NamedTuple):
    """Messages as their words, and an index of them."""

    messages: list[set[str]]
    recall: InMemoryRecallIndex


async def conversation(size: int) -> Conversation:
    rng = random.Random(size)  # noqa: S311 - variety
    frequencies = [rng.choice((0.005, 0.05, 0.5)) for _ in WORDS]
    messages = [
        {word for word, share in zip(WORDS, frequencies, strict=True) if rng.random() < share}
        for _ in range(size)
    ]
    index = InMemoryRecallIndex(terms=TermExtractor(SnowballStemmer()))
    await index.add(
        [
            Passage(id=str(number), turn_id=number, text=" ".join(sorted(words)) or "-")
            for number, words in enumerate(messages)
        ]
    )
    return Conversation(messages, index)


@SIZES
async def test_window_score_counts_the_messages_around_a_match(size: int) -> None:
    messages, index = await conversation(size)
    found = await index.search(" ".join(WORDS), limit=20)
    assert len(found) == min(size, 20)
    for match in found:
        place = int(match.passage.id)
        window = messages[max(place - BEFORE_AND_AFTER, 0) : place + BEFORE_AND_AFTER + 1]
        expected = 0.0
        for word in WORDS:
            frequency = sum(word in message for message in messages)
            weight = log(1 + (size - frequency + 0.5) / (frequency + 0.5))
            count = sum(word in message for message in window)
            expected += weight * count * (K1 + 1) / (count + K1)
        assert match.window == pytest.approx(expected)


@SIZES
async def test_neighbour_score_is_a_share_of_the_best_message_beside_a_match(size: int) -> None:
    _, index = await conversation(size)
    found = {int(match.passage.id): match for match in await index.search(WORDS[0], limit=size)}
    own = {place: match.words + match.grams for place, match in found.items()}
    for place, match in found.items():
        beside = [own.get(place + distance, 0.0) for distance in (-2, -1, 1, 2)]
        assert match.neighbour == pytest.approx(NEIGHBOUR_WEIGHT * max(beside))
