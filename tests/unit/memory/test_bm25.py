"""BM25 recall compared with an exhaustive ranking."""

import random
from collections import Counter
from math import log

import pytest
from acc.adapters.memory.bm25 import Bm25EvidenceStore

from acc.domain.language import term_list
from acc.domain.value_objects.memory import Evidence

THINGS = ("gateway", "ledger", "clinic", "depot", "archive", "router", "cluster", "payroll")
JAPANESE = ("決済", "基盤", "切替", "監視", "夜間", "当番", "承認", "在庫")


def texts(words: tuple[str, ...], count: int) -> list[str]:
    chance = random.Random(7)  # noqa: S311 - the same texts every time, no secret
    return [
        "、".join(chance.choices(words, weights=range(len(words), 0, -1), k=chance.randint(1, 6)))
        for _ in range(count)
    ]


def ranking(stored: list[str], cue: str) -> list[int]:
    """Return the positions of all matches, best first, by the BM25 formula."""
    counts = [Counter(term_list(text)) for text in stored]
    mean = sum(count.total() for count in counts) / len(counts)
    scores: dict[int, float] = {}
    for place, count in enumerate(counts):
        for term in set(term_list(cue)) & count.keys():
            having = sum(term in other for other in counts)
            weight = log(1 + (len(counts) - having + 0.5) / (having + 0.5))
            norm = 1.2 * (0.25 + 0.75 * count.total() / mean)
            share = count[term] * 2.2 / (count[term] + norm)
            scores[place] = scores.get(place, 0.0) + weight * share
    return sorted(scores, key=lambda place: (-round(scores[place], 9), -place))


@pytest.mark.parametrize("words", [THINGS, JAPANESE])
@pytest.mark.parametrize("limit", [1, 4, 16])
async def test_recall_equals_exhaustive_bm25_ranking(words: tuple[str, ...], limit: int) -> None:
    stored = texts(words, 70)
    store = Bm25EvidenceStore()
    await store.add(
        [Evidence(id=str(place), turn_id=1, text=text) for place, text in enumerate(stored)]
    )
    for cue in texts(words, 40):
        found = await store.recall(cue, limit=limit)
        assert [int(c.evidence.id) for c in found] == ranking(stored, cue)[:limit], cue


async def test_newest_come_first_for_equal_scores() -> None:
    store = Bm25EvidenceStore()
    for number in range(900):
        await store.add([Evidence(id=str(number), turn_id=number, text="The limit is raised.")])
    found = await store.recall("Which limit is raised?", limit=5)
    assert [candidate.evidence.id for candidate in found] == ["899", "898", "897", "896", "895"]


async def test_rare_terms_outweigh_common_terms() -> None:
    store = Bm25EvidenceStore()
    for number in range(1_200):
        text = f"The limit of unit-{number % 90} is raised for the night shift of the depot."
        await store.add([Evidence(id=str(number), turn_id=number, text=text)])
    found = await store.recall("Is the limit of unit-7 raised for the night shift?", limit=6)
    assert {candidate.evidence.text for candidate in found} == {
        "The limit of unit-7 is raised for the night shift of the depot."
    }
