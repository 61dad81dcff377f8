"""Contract of EvidenceStorePort."""

from functools import cache

import pytest
from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.adapters.memory.hybrid import HybridEvidenceStore

from acc.bootstrap.memory import make_embedder
from acc.domain.value_objects.memory import Evidence
from acc.ports.outbound.memory_ports import EvidenceStorePort
from acc.ports.outbound.model_ports import EmbedderPort


@cache
def _embedder() -> EmbedderPort:
    embedder = make_embedder("static")
    assert embedder is not None
    return embedder


@pytest.fixture(params=["bm25", "hybrid"])
def store(request: pytest.FixtureRequest) -> EvidenceStorePort:
    if request.param == "hybrid":
        return HybridEvidenceStore(embedder=_embedder())
    return Bm25EvidenceStore()


def evidence(number: int, text: str) -> Evidence:
    return Evidence(id=f"a{number}", turn_id=number, text=text)


async def test_empty_store_recalls_nothing(store: EvidenceStorePort) -> None:
    assert await store.recall("anything", limit=5) == ()


@pytest.mark.parametrize("cue", ["", "the of a", "\x00", "zzz-unknown"])
async def test_cue_without_known_terms_recalls_nothing(store: EvidenceStorePort, cue: str) -> None:
    await store.add([evidence(1, "The lead is Bo.")])
    assert await store.recall(cue, limit=5) == ()


@pytest.mark.parametrize(
    ("cue", "best"),
    [
        ("What is the rollback window?", "The rollback window is 30 minutes."),
        ("切り戻し期限は何分ですか。", "切り戻し期限は25分です。"),
        ("Who owns CVE-2026-1234?", "CVE-2026-1234 is owned by Jonas."),
        ("ＣＶＥ－２０２６－１２３４の担当", "CVE-2026-1234 is owned by Jonas."),
    ],
)
async def test_best_match_comes_first(store: EvidenceStorePort, cue: str, best: str) -> None:
    await store.add(
        [
            evidence(1, "The rollback window is 30 minutes."),
            evidence(2, "The maintenance window is on Sunday."),
            evidence(3, "切り戻し期限は25分です。"),
            evidence(4, "変更凍結の期限は金曜です。"),
            evidence(5, "CVE-2026-1234 is owned by Jonas."),
            evidence(6, "CVE-2026-9999 is owned by Mara."),
        ]
    )
    matches = await store.recall(cue, limit=3)
    assert matches[0].evidence.text == best
    assert len(matches) <= 3


async def test_recall_respects_limit_and_finds_newest(store: EvidenceStorePort) -> None:
    for number in range(1, 200):
        await store.add([evidence(number, f"Ticket {number} concerns printer p-{number}.")])
    matches = await store.recall("Which ticket concerns printer p-199?", limit=7)
    assert len(matches) == 7
    assert matches[0].evidence.id == "a199"


async def test_known_id_keeps_its_first_text(store: EvidenceStorePort) -> None:
    await store.add([evidence(1, "The lead is Bo.")])
    await store.add([evidence(1, "The lead is Zoe.")])
    matches = await store.recall("lead", limit=5)
    assert [candidate.evidence.text for candidate in matches] == ["The lead is Bo."]


async def test_chain_of_superseded_evidence_points_to_newest(store: EvidenceStorePort) -> None:
    await store.add([evidence(n, f"The limit is {n} days.") for n in (1, 2, 3)])
    await store.supersede("a1", "a2")
    await store.supersede("a2", "a3")
    matches = {c.evidence.id: c.superseded_by for c in await store.recall("limit days", limit=5)}
    assert {key: value.id if value else None for key, value in matches.items()} == {
        "a1": "a3",
        "a2": "a3",
        "a3": None,
    }


@pytest.mark.parametrize("limit", [0, -1])
async def test_recall_without_limit_returns_nothing(store: EvidenceStorePort, limit: int) -> None:
    await store.add([evidence(1, "The lead is Bo.")])
    assert await store.recall("Who is the lead?", limit=limit) == ()


async def test_lexical_recall_returns_only_evidence_with_shared_terms(
    store: EvidenceStorePort,
) -> None:
    await store.add([evidence(1, "The server has crashed."), evidence(2, "The lead is Bo.")])
    matches = await store.recall("lead", limit=5, lexical_only=True)
    assert [match.evidence.id for match in matches] == ["a2"]


async def test_recall_does_not_change_the_store(store: EvidenceStorePort) -> None:
    await store.add([evidence(n, f"Printer p-{n} is on floor {n}.") for n in range(1, 6)])
    first = await store.recall("Which printer is on floor 3?", limit=3)
    assert await store.recall("Which printer is on floor 3?", limit=3) == first
