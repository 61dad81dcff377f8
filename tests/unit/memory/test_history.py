"""HistoryMemory: what a model gets in place of the history of another framework."""

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from acc.application.memory.history import HistoryMemory, complete_exchanges
from acc.bootstrap.frameworks import make_history_memory
from acc.domain.value_objects.content import (
    ChatMessage,
    Part,
    ToolCall,
    ToolResult,
    text_part,
    user_message,
)


class OwnMessages:
    """A framework whose messages are ours; its instructions are messages of `system`."""

    def is_instruction(self, message: ChatMessage) -> bool:
        return message.author == "system"

    def starts_turn(self, message: ChatMessage) -> bool:
        return message.role == "user" and message.author != "system"

    def decode(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        return list(messages)

    def encode(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        return list(messages)


def answer(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", author="assistant", parts=text_part(text))


def calls(*ids: str) -> ChatMessage:
    parts = tuple(Part(call=ToolCall(id=one, name="look_up", arguments={"q": one})) for one in ids)
    return ChatMessage(role="assistant", author="assistant", parts=parts)


def result(call_id: str, content: str = "found") -> ChatMessage:
    part = Part(result=ToolResult(call_id=call_id, name="look_up", content=content))
    return ChatMessage(role="tool", author="look_up", parts=(part,))


async def select(
    memory: HistoryMemory, history: Sequence[ChatMessage], session_id: str = "s"
) -> list[ChatMessage]:
    return await memory.select(history, OwnMessages(), session_id=session_id)


def make_memory(store: str | Path = "memory", budget: int = 256) -> HistoryMemory:
    return make_history_memory(app_name="test", store=store, budget=budget)


TEXTS = st.sampled_from(
    [
        "Always answer in French.",
        "覚えてください。部屋番号は204です。",
        "What did I say?",
        "x " * 300,
        "",
        "\ud800",
    ]
)


@st.composite
def turns(draw: st.DrawFn) -> list[ChatMessage]:
    """Return a history; in some turns calls have no results, as after a crash."""
    history: list[ChatMessage] = []
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        history.append(user_message(draw(TEXTS) or "hello"))
        for _ in range(draw(st.integers(0, 3))):
            ids = [f"c{(number := number + 1)}" for _ in range(draw(st.integers(1, 3)))]
            history.append(calls(*ids))
            answered = draw(st.sets(st.sampled_from(ids))) if draw(st.booleans()) else ids
            history += [result(one, draw(TEXTS)) for one in ids if one in answered]
        if draw(st.booleans()):
            history.append(answer(draw(TEXTS)))
    history.append(user_message("Now answer."))
    return history


def check_pairs(messages: Sequence[ChatMessage]) -> None:
    waiting: list[str] = []
    for message in messages:
        for one in message.results:
            assert one.call_id in waiting
            waiting.remove(one.call_id)
        if message.role != "tool":
            assert waiting == []
            waiting = [call.id for call in message.calls]
    assert waiting == []


@given(turns(), st.integers(128, 600))
@settings(deadline=None, max_examples=60)
async def test_calls_and_results_are_never_separated(
    history: list[ChatMessage], budget: int
) -> None:
    memory = make_memory(budget=budget)
    before = list(history)
    # As a framework does: once for each turn, with a growing history.
    starts = [i for i, message in enumerate(history) if message.role == "user"]
    for start in starts:
        sent = await select(memory, history[: start + 1])
        check_pairs(sent)
        assert sent[-1] is history[start]
    assert history == before


@given(turns())
@settings(deadline=None, max_examples=100)
def test_complete_exchanges_keeps_what_is_complete(history: list[ChatMessage]) -> None:
    complete = complete_exchanges(history)
    check_pairs(complete)
    assert [m.text for m in complete if m.role == "user"] == [
        m.text for m in history if m.role == "user"
    ]


async def test_messages_of_the_current_turn_are_sent_as_they_are() -> None:
    history = [user_message("hi"), answer("hello"), user_message("look"), calls("a"), result("a")]
    assert (await select(make_memory(), history))[-3:] == history[2:]


async def test_instructions_are_always_sent() -> None:
    system = ChatMessage(role="user", author="system", parts=text_part("Be polite."))
    history = [system]
    memory = make_memory(budget=128)
    for number in range(30):
        history += [user_message(f"message {number} " * 20), answer("ok")]
    sent = await select(memory, [*history, user_message("bye")])
    assert sent[0] is system
    assert len(sent) < 15


async def test_view_is_the_same_during_a_turn() -> None:
    memory = make_memory()
    history = [user_message("My dog is Rex."), answer("Nice."), user_message("And now?")]
    first = await select(memory, history)
    second = await select(memory, [*history, calls("a"), result("a")])
    assert second[: len(first)] == first


async def test_rewritten_history_replaces_the_memory() -> None:
    memory = make_memory()
    old = [user_message("Always answer in French."), answer("Oui.")]
    await select(memory, [*old, user_message("hi")])
    await select(memory, [*old, user_message("hi"), answer("Salut"), user_message("and?")])
    new = [user_message("Always answer in German."), answer("Ja.")]
    sent = " ".join(message.text for message in await select(memory, [*new, user_message("hi")]))
    assert "German" in sent
    assert "French" not in sent


async def test_shortened_history_does_not_lose_the_memory() -> None:
    memory = make_memory()
    history = [user_message("Always answer in French."), answer("Oui.")]
    for number in range(6):
        history += [user_message(f"question {number}"), answer(f"answer {number}")]
        await select(memory, [*history, user_message(f"question {number + 1}")])
    sent = await select(memory, [*history[-4:], user_message("and now?")])
    assert "French" in " ".join(message.text for message in sent)


async def test_new_conversation_without_an_id_knows_nothing_of_the_previous_one() -> None:
    memory = make_memory()
    await select(memory, [user_message("My name is Ada.")], "")
    await select(memory, [user_message("My name is Ada."), answer("Hi"), user_message("ok")], "")
    sent = await select(memory, [user_message("Who am I?")], "")
    assert "Ada" not in " ".join(message.text for message in sent)


async def test_conversation_with_an_id_continues_without_a_history(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    memory = make_memory(store)
    await select(memory, [user_message("私の名前は田中です。")])
    await memory.note_answer("はい。", session_id="s")
    await memory.aclose()
    memory = make_memory(store)
    sent = await select(memory, [user_message("私の名前は何ですか？")])
    assert "田中" in " ".join(message.text for message in sent)
    await memory.aclose()


async def test_restart_gives_the_same_messages_as_no_restart(tmp_path: Path) -> None:
    history: list[ChatMessage] = []
    living, store = make_memory(), tmp_path / "memory.db"
    for number in range(8):
        history.append(user_message(f"Room {number} wants breakfast at {number + 5}."))
        restarted = make_memory(store)
        texts = [message.text for message in await select(restarted, history)]
        assert texts == [message.text for message in await select(living, history)]
        await restarted.aclose()
        history.append(answer(f"Noted {number}."))


async def test_ids_of_any_form_are_accepted(tmp_path: Path) -> None:
    memory = make_memory(tmp_path / "memory.db")
    for session_id in ("x" * 1000, "a\nb", "会話"):
        assert len(await select(memory, [user_message("hi")], session_id)) == 1
    await memory.aclose()


async def test_greeting_before_the_first_message_is_always_sent() -> None:
    memory = make_memory()
    history = [answer("Hello, which order is it?"), calls("a"), user_message("4711")]
    assert await select(memory, history) == [history[0], history[2]]
    for number in range(20):
        history += [answer(f"Order {number} has towels."), user_message(f"And order {number}?")]
        selected = await select(memory, history)
        assert selected[0] == history[0]
    assert len(selected) < len(history)
