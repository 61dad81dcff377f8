"""Transcript, retrieval and oracle memories."""

import pytest

from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.application.memory.baselines import OracleMemory, RetrievalMemory, TranscriptMemory
from acc.application.memory.registry import MEMORIES
from acc.bootstrap.memory import make_memory
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.memory import Decision, TurnSignal
from acc.ports.outbound.memory_ports import CanonicalReaderPort, MemoryPort
from acc.testing import WordCounter


async def record_turns(memory: MemoryPort, *texts: str) -> None:
    for turn_id, text in enumerate(texts, start=1):
        signal = TurnSignal(turn_id=turn_id, text=text)
        await memory.view(signal)
        await memory.record(signal, Decision(turn_id=turn_id, text=f"answer {turn_id}"))


async def test_transcript_replays_all_entries_that_fit() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=100)
    await record_turns(memory, "first words", "second words")
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


async def test_transcript_is_truncated_oldest_first_to_fit_query() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=10)
    await record_turns(memory, "first words", "second words")
    view = await memory.view(TurnSignal(turn_id=3, text="one two three four"))
    assert view.text.startswith("user: second")
    assert view.tokens + 4 <= 10
    assert (await memory.view(TurnSignal(turn_id=4, text="w " * 50))).text == ""


def test_transcript_with_empty_window_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="window must be at least 1 token, got 0"):
        TranscriptMemory(tokens=WordCounter(), window=0)


async def test_retrieval_returns_five_most_similar_in_order() -> None:
    memory = RetrievalMemory(evidence=Bm25EvidenceStore(), tokens=WordCounter())
    texts = [f"The budget of project {n} is {n} EUR." for n in range(1, 20)]
    await record_turns(memory, *texts, "The cafeteria serves soup.")
    view = await memory.view(TurnSignal(turn_id=30, text="What is the budget of project 7?"))
    lines = [line for line in view.text.split("\n") if line]
    assert len(lines) == 5
    assert "user: The budget of project 7 is 7 EUR." in lines
    assert not any("soup" in line for line in lines)


async def test_empty_transcript_does_not_count_tokens() -> None:
    class NoCounter:
        def count(self, text: str) -> int:
            raise AssertionError(f"counted {text!r}")

    view = await TranscriptMemory(tokens=NoCounter()).view(TurnSignal(turn_id=1, text="Hello"))
    assert (view.text, view.tokens) == ("", 0)


async def test_oracle_returns_current_facts_and_constraints() -> None:
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


def test_only_oracle_reads_canonical_memory() -> None:
    readers = [k for k in MEMORIES if isinstance(make_memory(k), CanonicalReaderPort)]
    assert readers == ["oracle"]


def test_unknown_memory_error_lists_known_memories() -> None:
    with pytest.raises(InvalidInput, match="transcript, retrieval, acc, oracle"):
        make_memory("elephant")
