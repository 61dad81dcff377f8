"""Transcript, retrieval and oracle."""

import pytest

from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.application.memory.baselines import OracleMemory, RetrievalMemory, TranscriptMemory
from acc.bootstrap.memory import MEMORIES, make_memory
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.memory import Decision, TurnSignal
from acc.ports.outbound.memory_ports import CanonicalReaderPort, MemoryPort
from acc.testing import WordCounter


async def tell(memory: MemoryPort, *texts: str) -> None:
    for turn_id, text in enumerate(texts, start=1):
        signal = TurnSignal(turn_id=turn_id, text=text)
        await memory.view(signal)
        await memory.record(signal, Decision(turn_id=turn_id, text=f"answer {turn_id}"))


async def test_transcript_replays_everything_that_fits() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=100)
    await tell(memory, "first words", "second words")
    view = await memory.view(TurnSignal(turn_id=3, text="third"))
    assert view.text.split("\n") == [
        "user: first words",
        "",
        "assistant: answer 1",
        "",
        "user: second words",
        "",
        "assistant: answer 2",
        "",
    ]
    assert view.tokens == 12


async def test_transcript_is_cut_oldest_first_and_leaves_room_for_the_query() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=10)
    await tell(memory, "first words", "second words")
    view = await memory.view(TurnSignal(turn_id=3, text="one two three four"))
    assert view.text.startswith("user: second")
    assert view.tokens + 4 <= 10
    assert (await memory.view(TurnSignal(turn_id=4, text="w " * 50))).text == ""


def test_transcript_without_a_window_is_refused() -> None:
    with pytest.raises(InvalidInput, match="window must be at least 1 token, got 0"):
        TranscriptMemory(tokens=WordCounter(), window=0)


async def test_retrieval_brings_back_the_most_similar_five_in_order() -> None:
    memory = RetrievalMemory(evidence=Bm25EvidenceStore(), tokens=WordCounter())
    texts = [f"The budget of project {n} is {n} EUR." for n in range(1, 20)]
    await tell(memory, *texts, "The cafeteria serves soup.")
    view = await memory.view(TurnSignal(turn_id=30, text="What is the budget of project 7?"))
    lines = [line for line in view.text.split("\n") if line]
    assert len(lines) == 5
    assert "user: The budget of project 7 is 7 EUR." in lines
    assert not any("soup" in line for line in lines)


async def test_a_transcript_counts_nothing_before_there_is_something_to_show() -> None:
    class NoCounter:
        def count(self, text: str) -> int:
            raise AssertionError(f"counted {text!r}")

    view = await TranscriptMemory(tokens=NoCounter()).view(TurnSignal(turn_id=1, text="Hello"))
    assert (view.text, view.tokens) == ("", 0)


async def test_oracle_shows_the_facts_and_constraints_that_hold() -> None:
    memory = OracleMemory(tokens=WordCounter())
    memory.read_canonical(
        {
            "facts": {"lead": {"text": "The lead is Bo."}},
            "constraints": {"length": {"text": "At most 40 words."}},
            "superseded": {"lead@1": {"text": "The lead is Zoe."}},
        }
    )
    view = await memory.view(TurnSignal(turn_id=1, text="Who leads?"))
    assert view.text == "The lead is Bo.\nAt most 40 words."
    memory.read_canonical({"facts": "nonsense"})
    assert (await memory.view(TurnSignal(turn_id=2, text="?"))).text == ""


def test_only_the_oracle_can_read_the_canonical_memory() -> None:
    readers = [k for k in MEMORIES if isinstance(make_memory(k), CanonicalReaderPort)]
    assert readers == ["oracle"]


def test_an_unknown_memory_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="transcript, retrieval, acc, oracle"):
        make_memory("elephant")
