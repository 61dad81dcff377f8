"""Memories at a token budget: last messages, retrieval, BM25 and a running summary."""

import pytest

from acc.application.memory.messages import MESSAGE_TOKENS
from acc.application.memory.summary import SummaryMemory
from acc.bootstrap.memory import make_memory
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.ports.outbound.memory_ports import MemoryPort, MemoryView
from acc.ports.outbound.model_ports import ModelRequest
from acc.testing import ScriptedModel, WordCounter

BUDGETED = ("transcript", "last-n", "retrieval", "bm25", "summary", "acc")


async def talk(memory: MemoryPort, turns: int) -> list[MemoryView]:
    views = []
    for turn in range(1, turns + 1):
        text = f"The room {turn} of hall {turn % 7} has {turn * 3} chairs and a door. 部屋{turn}。"
        views.append(await memory.view(TurnSignal(turn_id=turn, text=text)))
        await memory.record(ConversationTurn.of(turn, text, f"Room {turn} is noted."))
    return views


@pytest.mark.parametrize("kind", BUDGETED)
async def test_no_view_exceeds_the_budget_of_the_name(kind: str) -> None:
    views = await talk(make_memory(f"{kind}@160", window=9_000, budget=9_000), 60)
    assert max(view.tokens for view in views) <= 160
    assert views[-1].tokens > 80


async def test_full_shows_every_message_whatever_the_window_is() -> None:
    views = await talk(make_memory("full", window=64, budget=64), 60)
    assert len(views[-1].messages) == 2 * 59


async def test_last_messages_are_the_newest_that_fit() -> None:
    memory = make_memory("last-n@128")
    views = await talk(memory, 30)
    texts = [message.text for message in views[-1].messages]
    assert texts[-1] == "Room 29 is noted."
    numbers = [int(text.split()[1]) for text in texts if text.startswith("Room")]
    assert numbers == list(range(numbers[0], 30))


@pytest.mark.parametrize("kind", ["bm25", "retrieval"])
async def test_message_with_the_words_of_the_query_is_found(kind: str) -> None:
    memory = make_memory(f"{kind}@128")
    await memory.record(ConversationTurn.of(1, "The vault code belongs to Mara.", "Noted."))
    await talk(memory, 40)
    view = await memory.view(TurnSignal(turn_id=50, text="Who has the vault code?"))
    assert "The vault code belongs to Mara." in [message.text for message in view.messages]
    assert "t1.0" in list(view.detail["recalled"])  # type: ignore[call-overload]


async def test_bm25_shows_no_message_without_a_word_of_the_query() -> None:
    memory = make_memory("bm25@512")
    await talk(memory, 10)
    assert (await memory.view(TurnSignal(turn_id=11, text="Zebra?"))).messages == ()


async def test_model_rewrites_the_summary_once_for_each_turn_and_is_cut_to_the_budget() -> None:
    prompts: list[str] = []

    def write(prompt: ModelRequest) -> str:
        prompts.append(prompt.query)
        return f"Summary {len(prompts)}. " + "More words follow here. " * 40

    model = ScriptedModel(write, repeat=True)
    memory = SummaryMemory(tokens=WordCounter(), budget=30, model=model)
    views = await talk(memory, 3)
    assert [view.text[:10] for view in views] == ["", "Summary 1.", "Summary 2."]
    assert all(view.tokens <= 30 for view in views)
    assert "Room 2 is noted." in prompts[1]
    assert "Summary 1." in prompts[1]


async def test_recorded_summary_is_restored_without_a_model_call() -> None:
    first = SummaryMemory(
        tokens=WordCounter(), budget=30, model=ScriptedModel(lambda _: "Written.", repeat=True)
    )
    snapshot = (await talk(first, 2))[-1].detail["snapshot"]
    other = SummaryMemory(tokens=WordCounter(), budget=30, model=ScriptedModel())
    await other.record(ConversationTurn.of(1, "one", "two"))
    other.restore(snapshot)  # type: ignore[arg-type]
    view = await other.view(TurnSignal(turn_id=2, text="x"))
    assert view.text == "Written."


async def test_summary_without_a_model_keeps_sentences_about_frequent_words() -> None:
    memory = SummaryMemory(tokens=WordCounter(), budget=20)
    texts = ["The pump is red.", "Zygotes quiver.", "The pump is old.", "The pump is loud."]
    for turn, text in enumerate([*texts, "The pump leaks water now."], start=1):
        await memory.view(TurnSignal(turn_id=turn, text=text))
        await memory.record(ConversationTurn.of(turn, text, "ok"))
    view = await memory.view(TurnSignal(turn_id=9, text="?"))
    assert "pump" in view.text
    assert "Zygotes" not in view.text
    assert MESSAGE_TOKENS < view.tokens <= 20
