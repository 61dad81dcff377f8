"""Transcript, retrieval and oracle memories."""

from itertools import pairwise

import pytest

from acc.application.memory.baselines import OracleMemory, RetrievalMemory, TranscriptMemory
from acc.application.memory.messages import MESSAGE_TOKENS
from acc.application.memory.registry import MEMORIES
from acc.bootstrap.memory import make_memory, new_recall_index
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.ports.outbound.memory_ports import CanonicalReaderPort, MemoryPort, MemoryView
from acc.testing import WordCounter


async def record_turns(memory: MemoryPort, *texts: str) -> None:
    for turn_id, text in enumerate(texts, start=1):
        await memory.view(TurnSignal(turn_id=turn_id, text=text))
        await memory.record(ConversationTurn.of(turn_id, text, f"answer {turn_id}"))


def shown(view: MemoryView) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in view.messages]


async def test_transcript_replays_all_messages_that_fit() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=100)
    await record_turns(memory, "first words", "second words")
    view = await memory.view(TurnSignal(turn_id=3, text="third"))
    assert shown(view) == [
        ("user", "first words"),
        ("assistant", "answer 1"),
        ("user", "second words"),
        ("assistant", "answer 2"),
    ]
    assert view.text == ""
    assert view.tokens == 4 * (MESSAGE_TOKENS + 2)


async def test_transcript_is_truncated_oldest_first_to_fit_query() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=20)
    await record_turns(memory, "first words", "second words")
    view = await memory.view(TurnSignal(turn_id=3, text="one two three four"))
    assert shown(view) == [("user", "second words"), ("assistant", "answer 2")]
    assert view.tokens + 4 <= 20
    assert (await memory.view(TurnSignal(turn_id=3, text="w " * 50))).messages == ()
    # A long query does not remove what a short one has room for.
    assert await memory.view(TurnSignal(turn_id=3, text="one two three four")) == view


async def test_full_transcript_drops_several_turns_at_once() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=200)
    starts: list[str] = []
    for turn_id in range(1, 61):
        view = await memory.view(TurnSignal(turn_id=turn_id, text="some words"))
        assert view.tokens <= 200
        starts.append(view.messages[0].text if view.messages else "")
        await memory.record(ConversationTurn.of(turn_id, f"query {turn_id}", "an answer"))
    changes = sum(one != other for one, other in pairwise(starts))
    assert 1 < changes <= 60 // 5


async def test_transcript_does_not_depend_on_views_of_earlier_turns() -> None:
    memories = [TranscriptMemory(tokens=WordCounter(), window=40) for _ in range(2)]
    for turn_id in range(1, 30):
        text = "word " * (turn_id % 7 + 1) if turn_id != 17 else "word " * 90
        signal = TurnSignal(turn_id=turn_id, text=text)
        await memories[0].view(signal)
        for memory in memories:
            await memory.record(ConversationTurn.of(turn_id, text, f"answer {turn_id}"))
    last = TurnSignal(turn_id=30, text="the last one")
    views = [await memory.view(last) for memory in memories]
    assert views[0] == views[1]
    assert views[0].messages


async def test_turn_larger_than_the_window_is_shortened() -> None:
    memory = TranscriptMemory(tokens=WordCounter(), window=60)
    await record_turns(memory, f"begin {'word ' * 300}end")
    view = await memory.view(TurnSignal(turn_id=2, text="again"))
    user, answer = view.messages
    assert user.text.startswith("begin ") and user.text.endswith("end")
    assert "characters left out" in user.text
    assert answer.text == "answer 1"
    assert view.tokens <= 60


def test_transcript_with_empty_window_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="window must be at least 1 token, got 0"):
        TranscriptMemory(tokens=WordCounter(), window=0)


async def test_retrieval_returns_five_most_similar_in_order() -> None:
    memory = RetrievalMemory(index=new_recall_index(), tokens=WordCounter())
    texts = [f"The budget of project {n} is {n} EUR." for n in range(1, 20)]
    await record_turns(memory, *texts, "The cafeteria serves soup.")
    view = await memory.view(TurnSignal(turn_id=30, text="What is the budget of project 7?"))
    assert len(view.messages) == 5
    assert ("user", "The budget of project 7 is 7 EUR.") in shown(view)
    assert not any("soup" in message.text for message in view.messages)
    texts = [text for text in texts if ("user", text) in shown(view)]
    assert [message.text for message in view.messages if message.role == "user"] == texts


async def test_retrieval_returns_a_result_with_its_call() -> None:
    memory = RetrievalMemory(index=new_recall_index(), tokens=WordCounter(), top=1)
    turn = ConversationTurn.of(1, "Look it up.", "I did.")
    call = ToolCall(id="c1", name="find_room", arguments={"name": "Lark"})
    result = ToolResult(call_id="c1", name="find_room", content={"room": "Lark", "floor": 3})
    exchange = (
        ChatMessage(role="assistant", author="a", parts=(Part(call=call),)),
        ChatMessage(role="tool", author="find_room", parts=(Part(result=result),)),
    )
    first, last = turn.messages
    await memory.record(replace(turn, messages=(first, *exchange, last)))
    view = await memory.view(TurnSignal(turn_id=2, text="On which floor is room Lark?"))
    called, answered = view.messages
    assert (called.role, called.calls[0].arguments) == ("assistant", {"name": "Lark"})
    assert (answered.role, answered.results[0].call_id) == ("tool", called.calls[0].id)
    assert answered.results[0].content == {"room": "Lark", "floor": 3}


async def test_empty_transcript_does_not_count_tokens() -> None:
    class NoCounter:
        def count(self, text: str) -> int:
            raise AssertionError(f"counted {text!r}")

    view = await TranscriptMemory(tokens=NoCounter()).view(TurnSignal(turn_id=1, text="Hello"))
    assert view == MemoryView(tokens=0)


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
    with pytest.raises(InvalidInput, match="transcript, retrieval, acc, full, last-n, bm25"):
        make_memory("elephant")
