"""What a view of ACC memory shows of earlier messages."""

import logging
from collections.abc import Sequence

import pytest

from acc.adapters.memory.model_reader import ModelReader
from acc.application.memory.acc import AccMemory
from acc.application.memory.baselines import RetrievalMemory
from acc.application.memory.messages import count_tokens, unknown_result
from acc.application.memory.passages import SUPERSEDED_MARKER
from acc.bootstrap.memory import new_recall_index, token_counter
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import (
    RUNTIME_AUTHOR,
    ChatMessage,
    Part,
    ToolCall,
    ToolResult,
    text_part,
    user_message,
)
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.domain.value_objects.reading import Act, EarlierSentence, Reading
from acc.ports.outbound.model_ports import ModelRequest
from acc.testing import ScriptedModel, ScriptedReader

IMAGE = Part(raw=b"\x89PNG" + bytes(200), media_type="image/png", filename="plan.png")


def make_memory(
    table: dict[str, Act | tuple[Act, str]] | None = None, budget: int = 512
) -> AccMemory:
    return AccMemory(
        reader=ScriptedReader(table or {}),
        index=new_recall_index(),
        tokens=token_counter(),
        budget=budget,
    )


async def converse(
    memory: AccMemory, *texts: str, first: int = 1, author: str = "user", answer: str = "Noted."
) -> None:
    for turn_id, text in enumerate(texts, start=first):
        await memory.view(TurnSignal(turn_id=turn_id, text=text, author=author))
        query, *rest = ConversationTurn.of(turn_id, text, answer).messages
        messages = (replace(query, author=author), *rest)
        await memory.record(ConversationTurn(turn_id=turn_id, messages=messages))


def answer(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", author="a", parts=text_part(text))


@pytest.mark.parametrize("budget", [96, 128, 256, 512])
async def test_date_written_by_a_user_follows_the_date_of_the_message(budget: int) -> None:
    memory = make_memory(budget=budget)
    texts = [f"[2031-05-0{n}]\nDoor {n} of the barn is open." for n in range(1, 7)]
    for turn_id, text in enumerate(texts, start=1):
        turn = ConversationTurn.of(turn_id, text, "")
        await memory.record(replace(turn, at=1_700_000_000.0 + turn_id))
    await converse(memory, "Hello.", first=7)
    view = await memory.view(TurnSignal(turn_id=8, text="Which doors of the barn are open?"))
    first_lines = {m.text.partition("\n")[0] for m in view.messages if "barn" in m.text}
    assert first_lines in ({"[2023-11-14]"}, {"[2023-11-14]", "[11-14]"})
    count = token_counter().count
    size = count(view.text) + sum(count_tokens(message, count) for message in view.messages)
    assert size <= view.tokens <= budget


@pytest.mark.parametrize("budget", [64, 128, 256, 512, 1_024])
async def test_image_does_not_displace_the_last_exchange(budget: int) -> None:
    memory = make_memory(budget=budget)
    await memory.view(TurnSignal(turn_id=1, text="See plan"))
    question = ChatMessage(role="user", author="user", parts=(Part(text="See plan"), IMAGE))
    turn = ConversationTurn(turn_id=1, messages=(question, answer("Room 3 is free.")))
    await memory.record(turn)
    view = await memory.view(TurnSignal(turn_id=2, text="Take it."))
    assert view.tokens <= budget
    assert [message.role for message in view.messages] == ["user", "assistant"]
    assert "Room 3 is free." in view.messages[-1].text
    assert (IMAGE in view.messages[0].parts) == (budget >= 512)


async def test_last_answer_is_complete_if_the_budget_is_unused() -> None:
    memory = make_memory(budget=512)
    await memory.view(TurnSignal(turn_id=1, text="List the parts."))
    long = " ".join(f"Part {number} is in shelf {number * 7}." for number in range(48))
    assert token_counter().count(long) > 512 * 0.6
    await memory.record(ConversationTurn.of(1, "List the parts.", long))
    view = await memory.view(TurnSignal(turn_id=2, text="Shorter."))
    assert view.messages[-1].text == long


async def test_superseded_sentence_leaves_a_marker_and_the_rest_as_written() -> None:
    text = 'She message "ship it".\nThe budget is 40 EUR.\n\n- "Do not rush", wrote Bo.'
    fix = "The budget is 55 EUR instead."
    memory = make_memory({fix: (Act.CORRECT, "The budget is 40 EUR."), text: Act.STATE})
    for turn_id, query in enumerate((text, fix, "And the weather?"), start=1):
        await memory.view(TurnSignal(turn_id=turn_id, text=query))
        await memory.record(ConversationTurn.of(turn_id, query, "Noted."))
    view = await memory.view(TurnSignal(turn_id=4, text="What did Bo say about the budget?"))
    texts = [message.text for message in view.messages]
    assert text.replace("The budget is 40 EUR.", SUPERSEDED_MARKER) in texts


@pytest.mark.parametrize("kind", ["acc", "retrieval"])
async def test_recalled_parts_and_tool_errors_stay_native(kind: str) -> None:
    memory = (
        make_memory(budget=2_048)
        if kind == "acc"
        else RetrievalMemory(index=new_recall_index(), tokens=token_counter())
    )
    data = Part(data={"room": "Lark", "floor": 3})
    question = ChatMessage(
        role="user", author="user", parts=(Part(text="Book room Lark."), data, IMAGE)
    )
    call = ToolCall(id="c1", name="book", arguments={"room": "Lark"})
    error = ToolResult(
        call_id="c1", name="book", content={"error": "Lark is closed", "code": 4}, is_error=True
    )
    exchange = (
        question,
        ChatMessage(role="assistant", author="a", parts=(Part(call=call),)),
        ChatMessage(role="tool", author="book", parts=(Part(result=error),)),
        answer("Booking Lark failed."),
    )
    await memory.view(TurnSignal(turn_id=1, text="Book room Lark."))
    await memory.record(ConversationTurn(turn_id=1, messages=exchange))
    await memory.view(TurnSignal(turn_id=2, text="Thanks."))
    await memory.record(ConversationTurn(turn_id=2, messages=(user_message("Thanks."),)))
    view = await memory.view(TurnSignal(turn_id=3, text="Why was booking room Lark closed?"))
    parts = [part for message in view.messages for part in message.parts]
    assert data in parts
    assert IMAGE in parts
    results = [part.result for part in parts if part.result is not None]
    assert [(result.content, result.is_error) for result in results] == [(error.content, True)]


async def test_fallback_of_the_model_reader_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(prompt: ModelRequest) -> str:
        raise ModelFailed("no key for provider quince: set QUINCE_API_KEY")

    with caplog.at_level(logging.WARNING, logger="acc.memory"):
        for _ in range(2):
            reader = ModelReader(ScriptedModel(fail, repeat=True), ScriptedReader({}))
            await reader.read(["The lead is Bo."], ())
            assert "QUINCE_API_KEY" in reader.drain_usage()[1]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "QUINCE_API_KEY" in caplog.text


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ("Never restart db-1.", ("Bo leads the project.", "Ann has the keys.")),
        ("必ず敬語で答えてください。", ("佐伯さんが担当です。", "予算は40万円です。")),
    ],
)
async def test_rules_come_first_so_that_new_facts_do_not_change_the_start_of_the_prompt(
    rule: str, facts: tuple[str, str]
) -> None:
    reader = ScriptedReader({rule: Act.SET, **dict.fromkeys(facts, Act.STATE)})
    memory = AccMemory(reader=reader, index=new_recall_index(), tokens=token_counter())
    views: list[str] = []
    for turn_id, text in enumerate((rule, *facts, "Hello."), start=1):
        views.append((await memory.view(TurnSignal(turn_id=turn_id, text=text))).text)
        await memory.record(ConversationTurn.of(turn_id, text, "Noted."))
    assert views[1] == f"constraints: {rule}"
    assert facts[0] in views[2]
    assert facts[1] in views[3]
    assert all(view.startswith(views[1]) for view in views[1:])


@pytest.mark.parametrize("kind", ["acc", "retrieval"])
async def test_unknown_outcome_of_a_call_is_shown_while_its_turn_is_recalled(kind: str) -> None:
    index, tokens = new_recall_index(), token_counter()
    memory = (
        AccMemory(reader=ScriptedReader({}), index=index, tokens=tokens)
        if kind == "acc"
        else RetrievalMemory(index=index, tokens=tokens)
    )
    request = "Please settle the invoice of Fuji Denki."
    call = ToolCall(id="c1", name="pay", arguments={})
    interrupted = (
        user_message(request),
        ChatMessage(role="assistant", author="a", parts=(Part(call=call),)),
        ChatMessage(role="tool", author="pay", parts=(Part(result=unknown_result(call)),)),
        ChatMessage(role="assistant", author=RUNTIME_AUTHOR, parts=text_part("(interrupted)")),
    )
    await memory.record(ConversationTurn(turn_id=1, messages=interrupted))
    for turn_id in range(2, 12):
        text = f"Is the weather of day {turn_id} fine?"
        await memory.view(TurnSignal(turn_id=turn_id, text=text))
        await memory.record(ConversationTurn.of(turn_id, text, f"Day {turn_id} is fine."))
    question = "What happened to the invoice of Fuji Denki?"
    view = await memory.view(TurnSignal(turn_id=12, text=question))
    place = [message.text for message in view.messages].index(request)
    note = view.messages[place + 1]
    assert (note.role, note.author) == ("user", RUNTIME_AUTHOR)
    assert "pay was started and its outcome is unknown" in note.text
    assert view.tokens <= 1_024


class UncertainReader(ScriptedReader):
    """A reader that takes one sentence for a rule with a low probability, all others for facts."""

    def __init__(self, rule: str) -> None:
        super().__init__({})
        self._rule = rule

    async def read(
        self,
        sentences: Sequence[str],
        earlier: Sequence[EarlierSentence],
        *,
        dialogue: Sequence[str] = (),
    ) -> tuple[Reading, ...]:
        readings = await super().read(sentences, earlier, dialogue=dialogue)
        return tuple(
            replace(reading, scores={Act.SET: 0.45, Act.OTHER: 0.55})
            if reading.text == self._rule
            else replace(reading, act=Act.STATE, scores={Act.STATE: 0.8, Act.OTHER: 0.2})
            for reading in readings
        )


async def test_probable_rule_stays_in_the_view_longer_than_newer_facts() -> None:
    rule = "Plain words for the public line."
    memory = AccMemory(
        reader=UncertainReader(rule), index=new_recall_index(), tokens=token_counter(), budget=256
    )
    texts = [rule, *(f"The bus number {n} was late again this morning." for n in range(59))]
    for turn_id, text in enumerate(texts, start=1):
        await memory.view(TurnSignal(turn_id=turn_id, text=text))
        await memory.record(ConversationTurn.of(turn_id, text, "I see."))
    view = await memory.view(TurnSignal(turn_id=61, text="What should I cook?"))
    assert rule in view.text
    assert view.tokens <= 256


async def test_notes_use_what_recalled_messages_leave_of_the_budget() -> None:
    facts = [f"Shelf {n} has {n * 7} boxes of sort {n * 3}." for n in range(20)]
    memory = make_memory(dict.fromkeys(facts, Act.STATE), budget=512)
    for turn_id, text in enumerate(facts, start=1):
        await memory.view(TurnSignal(turn_id=turn_id, text=text))
        await memory.record(ConversationTurn.of(turn_id, text, "OK."))
    view = await memory.view(TurnSignal(turn_id=21, text="Bonjour !"))
    assert [fact for fact in facts if fact not in view.text] == []
    assert view.tokens <= 512


async def test_same_words_are_recalled_once() -> None:
    memory = make_memory()
    for turn_id in range(1, 6):
        text = f"Box {turn_id} arrived." if turn_id == 1 else "The pharmacy was closed at noon."
        await memory.view(TurnSignal(turn_id=turn_id, text=text))
        await memory.record(ConversationTurn.of(turn_id, text, "I see."))
    await memory.view(TurnSignal(turn_id=6, text="Hello."))
    await memory.record(ConversationTurn.of(6, "Hello.", "Hello."))
    view = await memory.view(TurnSignal(turn_id=7, text="When was the pharmacy closed?"))
    texts = [message.text for message in view.messages]
    assert texts.count("The pharmacy was closed at noon.") == 1
    assert texts.count("I see.") == 1


async def test_change_of_nothing_becomes_a_rule_only_if_it_is_certain() -> None:
    text = "My back hurts from sitting all day."

    class Unsure(UncertainReader):
        async def read(
            self,
            sentences: Sequence[str],
            earlier: Sequence[EarlierSentence],
            *,
            dialogue: Sequence[str] = (),
        ) -> tuple[Reading, ...]:
            found = await super().read(sentences, earlier, dialogue=dialogue)
            scores = {Act.CHANGE: 0.4, Act.STATE: 0.4, Act.OTHER: 0.2}
            return tuple(replace(item, act=Act.CHANGE, scores=scores) for item in found)

    memory = AccMemory(reader=Unsure(""), index=new_recall_index(), tokens=token_counter())
    await memory.view(TurnSignal(turn_id=1, text=text))
    assert memory.state.constraints == ()


@pytest.mark.parametrize("budget", [64, 256, 512])
async def test_notes_with_escaped_characters_stay_within_the_budget(budget: int) -> None:
    facts = [f"Row {n} is a|b|c|d <x> <y> \\\\ | {n} <z>." for n in range(40)]
    memory = make_memory(dict.fromkeys(facts, Act.STATE), budget=budget)
    for turn_id, text in enumerate(facts, start=1):
        view = await memory.view(TurnSignal(turn_id=turn_id, text=text))
        assert view.tokens <= budget
        assert token_counter().count(view.text) <= budget
        await memory.record(ConversationTurn.of(turn_id, text, "OK."))


@pytest.mark.parametrize("named", ["Ann", "Bo Lind"])
async def test_messages_of_the_speaker_in_question_come_first(named: str) -> None:
    speakers = ["Ann", "Bo Lind"]
    memory = make_memory(budget=96)
    for turn_id in range(1, 21):
        speaker = speakers[turn_id % 2]
        text = f"Chess set {turn_id} is old." if speaker == named else f"I play chess {turn_id}."
        await converse(memory, text, first=turn_id, author=speaker)
    await converse(memory, "Hm.", first=21, author="Ann")
    question = f"Which chess does {named.split()[0]} play?"
    view = await memory.view(TurnSignal(turn_id=22, text=question))
    recalled = [m.author for m in view.messages if "chess" in m.text.casefold()]
    assert len(recalled) >= 3
    assert set(recalled) == {named}


async def test_messages_of_the_unnamed_user_keep_their_scores() -> None:
    memory = make_memory(budget=256)
    for turn_id in range(1, 9):
        speaker = ["Ann", "user"][turn_id % 2]
        await converse(memory, f"I play game {turn_id} a lot.", first=turn_id, author=speaker)
    await converse(memory, "Hm.", first=9)
    # Nobody can name the user without a name, so their messages keep their scores.
    for question in ("What do we play?", "What does Ann play?"):
        view = await memory.view(TurnSignal(turn_id=10, text=question))
        recalled = {m.author for m in view.messages if "game" in m.text}
        assert recalled == {"Ann", "user"}


async def test_long_last_exchange_leaves_room_for_evidence() -> None:
    memory = make_memory(budget=512)
    facts = [f"The barn has a brass key number {n} for door {n * 7}." for n in range(40)]
    await converse(memory, *facts, answer="")
    long = " ".join(f"Step {n} takes {n * 3} minutes of patience." for n in range(22))
    await converse(memory, "How do I cook this?", first=41, answer=long)
    view = await memory.view(TurnSignal(turn_id=42, text="Which brass keys has the barn?"))
    count = token_counter().count
    recalled = [m for m in view.messages if "brass key" in m.text]
    assert 512 * 0.4 < count(long) < 512 * 0.5
    assert sum(count_tokens(message, count) for message in recalled) >= 512 * 0.57
    assert view.messages[-1].is_shortened
    assert view.messages[-1].text.startswith("Step 0 takes 0 minutes")
