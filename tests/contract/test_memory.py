"""One suite for every memory, and one for every evidence store."""

import json

import pytest

from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.adapters.memory.hybrid import HybridEvidenceStore
from acc.adapters.models.static_embeddings import StaticEmbedder
from acc.bootstrap.memory import MEMORIES, make_memory
from acc.domain.value_objects.memory import Decision, Evidence, TurnSignal
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import Prompt
from acc.testing import ScriptedModel

KINDS = (*MEMORIES, "acc:scripted")


def written(prompt: Prompt) -> str:
    """Write the next state as a good model does."""
    given = json.loads(prompt.query.partition("\n")[0])
    state = given["earlier_state"]
    known = [*state["relational_map"], *(f"fact({said})" for said in given["turn"]["said"])]
    return json.dumps({**state, "relational_map": known[-24:], "episodic_trace": []})


def make(kind: str) -> MemoryPort:
    return make_memory(kind, models=lambda _: ScriptedModel(written, repeat=True))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_memory_is_empty_or_bounded_at_first_and_counts_what_it_shows(kind: str) -> None:
    memory = make(kind)
    signal = TurnSignal(turn_id=1, text="The lead is Bo. 責任者は佐伯さんです。")
    view = await memory.view(signal)
    assert view.tokens <= 512
    assert bool(view.text) == bool(view.tokens)
    await memory.keep(signal, Decision(turn_id=1, text="Noted."))
    later = await memory.view(TurnSignal(turn_id=2, text="Who is the lead?"))
    assert bool(later.text) == bool(later.tokens)


@pytest.mark.parametrize("kind", KINDS)
async def test_two_memories_of_a_kind_share_nothing(kind: str) -> None:
    one, other = make(kind), make(kind)
    signal = TurnSignal(turn_id=1, text="The secret word is quince.")
    await one.view(signal)
    await one.keep(signal, Decision(turn_id=1, text="Noted: quince."))
    assert "quince" not in (await other.view(TurnSignal(turn_id=2, text="Which word?"))).text


@pytest.mark.parametrize("kind", KINDS)
async def test_the_same_turns_give_the_same_view(kind: str) -> None:
    views = []
    for _ in range(2):
        memory = make(kind)
        for turn in range(1, 6):
            signal = TurnSignal(turn_id=turn, text=f"Item {turn} costs {turn * 7} EUR.")
            view = await memory.view(signal)
            await memory.keep(signal, Decision(turn_id=turn, text="ok"))
        views.append(view)
    assert views[0] == views[1]


@pytest.fixture(params=["bm25", "hybrid"])
def store(request: pytest.FixtureRequest) -> Bm25EvidenceStore:
    if request.param == "hybrid":
        return HybridEvidenceStore(embedder=StaticEmbedder())
    return Bm25EvidenceStore()


def artifact(number: int, text: str) -> Evidence:
    return Evidence(id=f"a{number}", turn_id=number, text=text)


async def test_an_empty_store_recalls_nothing(store: Bm25EvidenceStore) -> None:
    assert await store.recall("anything", limit=5) == ()


@pytest.mark.parametrize("cue", ["", "the of a", "\x00", "zzz-unknown"])
async def test_a_cue_without_known_terms_recalls_nothing(
    store: Bm25EvidenceStore, cue: str
) -> None:
    await store.add([artifact(1, "The lead is Bo.")])
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
async def test_the_best_match_comes_first_in_english_and_japanese(
    store: Bm25EvidenceStore, cue: str, best: str
) -> None:
    await store.add(
        [
            artifact(1, "The rollback window is 30 minutes."),
            artifact(2, "The maintenance window is on Sunday."),
            artifact(3, "切り戻し期限は25分です。"),
            artifact(4, "変更凍結の期限は金曜です。"),
            artifact(5, "CVE-2026-1234 is owned by Jonas."),
            artifact(6, "CVE-2026-9999 is owned by Mara."),
        ]
    )
    found = await store.recall(cue, limit=3)
    assert found[0].artifact.text == best
    assert len(found) <= 3


async def test_recall_is_bounded_and_finds_what_was_added_last(store: Bm25EvidenceStore) -> None:
    for number in range(1, 200):
        await store.add([artifact(number, f"Ticket {number} concerns printer p-{number}.")])
    found = await store.recall("Which ticket concerns printer p-199?", limit=7)
    assert len(found) == 7
    assert found[0].artifact.id == "a199"


async def test_the_same_id_is_kept_once(store: Bm25EvidenceStore) -> None:
    await store.add([artifact(1, "The lead is Bo.")])
    await store.add([artifact(1, "The lead is Zoe.")])
    found = await store.recall("lead", limit=5)
    assert [candidate.artifact.text for candidate in found] == ["The lead is Bo."]


async def test_a_chain_of_replacements_points_to_the_newest(store: Bm25EvidenceStore) -> None:
    await store.add([artifact(n, f"The limit is {n} days.") for n in (1, 2, 3)])
    await store.supersede("a1", "a2")
    await store.supersede("a2", "a3")
    found = {c.artifact.id: c.superseded_by for c in await store.recall("limit days", limit=5)}
    assert {key: value.id if value else None for key, value in found.items()} == {
        "a1": "a3",
        "a2": "a3",
        "a3": None,
    }
