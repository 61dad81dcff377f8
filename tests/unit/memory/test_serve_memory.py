"""Memory for clients with an agent of their own: remember, recall, rules, explain."""

from collections.abc import AsyncIterator

import pytest

from acc import Runner
from acc.application.runtime.agent_memory import MemoryName
from acc.application.use_cases.serve_memory import AGENT_NAME, ServeMemoryUseCase
from acc.domain.errors import InvalidInput

RULE = "From now on, always answer in French."


@pytest.fixture
async def memory() -> AsyncIterator[ServeMemoryUseCase]:
    name = MemoryName("acc")
    runner = Runner(ServeMemoryUseCase.agent(name), app_name=AGENT_NAME)
    use_case = ServeMemoryUseCase(runner, name)
    yield use_case
    await use_case.aclose()


async def test_rules_are_set_lifted_and_explained(memory: ServeMemoryUseCase) -> None:
    assert await memory.rules() == {"rules": [], "goal": ""}
    assert await memory.recall("Anything?") == {"memory": "", "tokens": 0}
    assert await memory.explain("French") == {"statements": []}
    read = await memory.remember(RULE)
    assert read["read"] == [{"text": RULE, "act": "set"}]
    await memory.remember("My dog is called Momo.")
    assert (await memory.rules())["rules"] == [RULE]
    (statement,) = (await memory.explain("rule about French"))["statements"]
    assert statement["text"] == RULE
    assert [entry["step"] for entry in statement["history"]][:3] == ["said", "read", "kept"]
    await memory.remember("You no longer have to answer in French.")
    assert (await memory.rules())["rules"] == []
    (statement, *_) = (await memory.explain("rule about French"))["statements"]
    assert "superseded" in statement["history"][-1]["reason"]


async def test_questions_are_not_remembered(memory: ServeMemoryUseCase) -> None:
    await memory.remember("My dog is called Momo.")
    for number in range(8):
        await memory.remember(f"We talked about lamp {number}.")
    first = await memory.recall("What is my dog called?")
    assert "Momo" in first["memory"]
    assert await memory.recall("What is my dog called?") == first
    assert await memory.recall("犬の名前は？", "another") == {"memory": "", "tokens": 0}


async def test_statements_of_a_conversation_are_explained_in_both_languages(
    memory: ServeMemoryUseCase,
) -> None:
    rule = "今後は金額を必ず円で書いてください。"
    await memory.remember(rule, "ja")
    await memory.remember("来月は大阪に出張します。", "ja")
    (statement, *_) = (await memory.explain("金額", "ja"))["statements"]
    assert statement["text"] == rule
    assert (await memory.explain("French", "ja"))["statements"] == []


@pytest.mark.parametrize(
    ("text", "conversation"), [("", "a"), (" ", "a"), ("x" * 100_001, "a"), ("x", ""), ("x", "\n")]
)
async def test_invalid_arguments(memory: ServeMemoryUseCase, text: str, conversation: str) -> None:
    with pytest.raises(InvalidInput):
        await memory.remember(text, conversation)
    assert await memory.rules() == {"rules": [], "goal": ""}


@pytest.mark.parametrize(
    ("fact", "question"),
    [
        ("Item {} weighs {} kg.", "How much does item {} weigh?"),
        ("The part P{} costs {} dollars.", "What does the part P{} cost?"),
        ("{}号室は{}人で使います。", "{}号室は何人で使いますか。"),
    ],
)
async def test_facts_about_different_things_stay(
    memory: ServeMemoryUseCase, fact: str, question: str
) -> None:
    for number in range(5):
        await memory.remember(fact.format(number, 30 + number))
    for number in range(5):
        found = await memory.recall(question.format(number))
        assert fact.format(number, 30 + number) in found["memory"]
    await memory.remember(fact.format(2, 99))
    shown = (await memory.recall(question.format(2)))["memory"]
    assert fact.format(2, 99) in shown


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Anna's phone number is 555-1234.", "Ben's phone number is 555-9876."),
        ("The locker of team 3 is number 21.", "The locker of team 4 is number 28."),
        ("The price of the red chair is 40 euros.", "The price of the blue chair is 55 euros."),
        ("In March the revenue was 12,000 euros.", "In April the revenue was 14,000 euros."),
        ("The server in Berlin has 32 GB.", "The server in Paris has 64 GB."),
        ("Milk: 2 euros", "Bread: 3 euros"),
        ("月曜の会議は10時です。", "火曜の会議は14時です。"),
        ("会議室Aを10時に予約した。", "会議室Bを11時に予約した。"),
        ("靴に4000円払った。", "上着に5500円払った。"),
    ],
)
async def test_facts_that_differ_in_subject_and_value_stay(
    memory: ServeMemoryUseCase, first: str, second: str
) -> None:
    await memory.remember(first)
    await memory.remember(second)
    shown = (await memory.recall(first))["memory"]
    assert first in shown
    assert second in shown


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The budget is 300 euros.", "The budget is 250 euros."),
        ("The locker of team 3 is number 21.", "The locker of team 3 is number 28."),
        ("The price of the red chair is 40 euros.", "The price of the red chair is 45 euros."),
        ("The order has 12 chairs and 3 tables.", "The order has 14 chairs and 4 tables."),
        ("予算は5万円です。", "すみません、予算は7万円でした。"),
    ],
)
async def test_fact_with_a_new_value_for_the_same_subject_replaces_the_old_one(
    memory: ServeMemoryUseCase, first: str, second: str
) -> None:
    await memory.remember(first)
    await memory.remember(second)
    shown = (await memory.recall(second))["memory"]
    assert first not in shown
    assert second in shown
