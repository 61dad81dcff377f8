"""Contract of RecallIndexPort."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_server import new_store_url
from session_store_factories import KEY

from acc.adapters.memory.recall import InMemoryRecallIndex
from acc.adapters.storage.postgres_recall import PostgresRecallIndex
from acc.adapters.storage.sqlite_recall import SqliteRecallIndex
from acc.adapters.system.stemmer import SnowballStemmer
from acc.domain.errors import InvalidInput
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.memory import Match, Passage, Source
from acc.ports.outbound.memory_ports import RecallIndexPort

TERMS = TermExtractor(SnowballStemmer())


def in_memory(_: Path) -> RecallIndexPort:
    return InMemoryRecallIndex(terms=TERMS)


def sqlite(folder: Path) -> RecallIndexPort:
    return SqliteRecallIndex(folder / "acc.db", key=KEY, name="helper", terms=TERMS)


def postgres(_: Path) -> RecallIndexPort:
    return PostgresRecallIndex(new_store_url(), key=KEY, name="helper", terms=TERMS)


MAKERS: dict[str, Callable[[Path], RecallIndexPort]] = {
    "in_memory": in_memory,
    "postgres": postgres,
    "sqlite": sqlite,
}


@pytest.fixture(params=sorted(MAKERS))
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RecallIndexPort]:
    created = MAKERS[request.param](tmp_path)
    yield created
    if isinstance(created, PostgresRecallIndex | SqliteRecallIndex):
        await created.database.aclose()


def passages(*texts: str, first: int = 1) -> list[Passage]:
    return [
        Passage(id=f"t{number}.0", turn_id=number, text=text, order=number)
        for number, text in enumerate(texts, start=first)
    ]


#: Messages without a relation to the questions of the tests, as distance between passages.
FILLER = (
    "How was your day?",
    "It has been raining since the morning.",
    "Only soup and bread tonight.",
    "The bus was late again.",
    "My back hurts.",
    "I finished the crossword.",
    "Sleep well.",
    "昨日はよく眠れました。",
)


def ids(matches: tuple[Match, ...]) -> list[str]:
    return [match.passage.id for match in matches]


async def test_search_finds_messages_by_the_name_of_their_speaker(index: RecallIndexPort) -> None:
    olaf = Passage(id="t1.0", turn_id=1, text="I sold the boat last week.", author="Olaf", order=1)
    mara = Passage(id="t2.0", turn_id=2, text="I sold the car last week.", author="Mara", order=2)
    await index.add([olaf, mara, *passages(*FILLER, first=3)])
    assert ids(await index.search("What did Mara do?", limit=5))[0] == "t2.0"
    assert ids(await index.search("What did Olaf do?", limit=5))[0] == "t1.0"


async def test_empty_index_finds_nothing(index: RecallIndexPort) -> None:
    assert await index.search("anything", limit=5) == ()
    assert await index.get(["t1.0"]) == ()
    assert await index.neighbours("t1.0", before=2, after=2) == ()


@pytest.mark.parametrize("query", ["", "the of a", "\x00", "\ud800", "zzzunknown", "？！"])
async def test_query_without_known_terms_finds_nothing(index: RecallIndexPort, query: str) -> None:
    await index.add(passages("The lead is Bo."))
    assert await index.search(query, limit=5) == ()


@pytest.mark.parametrize("limit", [0, -1])
async def test_search_without_limit_finds_nothing(index: RecallIndexPort, limit: int) -> None:
    await index.add(passages("The lead is Bo."))
    assert await index.search("lead", limit=limit) == ()


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("What is the rollback window?", "The rollback window is 30 minutes."),
        ("who was sailing", "She sails with her uncle."),
        ("photografy", "He sells old photographs."),
        ("切り戻し期限は何分ですか。", "切り戻し期限は25分です。"),
        ("会議はどこでありますか。", "次の会議は三階です。"),
        ("うなぎは好きですか。", "うなぎが食べたい。"),
        ("ＣＶＥ－２０２６－１２３４の担当", "CVE-2026-1234 is owned by Jonas."),
        ("¿Dónde está la biblioteca?", "La biblioteca está cerrada."),
        ("도서관은 어디에 있습니까", "도서관은 월요일에 닫습니다."),
        ("图书馆什么时候开门", "图书馆九点开门。"),
    ],
)
async def test_best_match_comes_first(index: RecallIndexPort, query: str, best: str) -> None:
    texts = (
        "The rollback window is 30 minutes.",
        "She sails with her uncle.",
        "He sells old photographs.",
        "切り戻し期限は25分です。",
        "次の会議は三階です。",
        "うなぎが食べたい。",
        "CVE-2026-1234 is owned by Jonas.",
        "CVE-2026-9999 is owned by Mara.",
        "La biblioteca está cerrada.",
        "도서관은 월요일에 닫습니다.",
        "图书馆九点开门。",
    )
    await index.add(passages(*[line for text in texts for line in (text, *FILLER)]))
    matches = await index.search(query, limit=3)
    assert matches[0].passage.text == best


async def test_score_is_the_sum_of_its_parts(index: RecallIndexPort) -> None:
    await index.add(passages("We bought a boat.", "Which one?", "The grey boat at the pier."))
    matches = await index.search("grey boats", limit=3)
    for match in matches:
        parts = match.words + match.grams + match.neighbour + match.window
        assert match.score == pytest.approx(parts)
    assert [match.score for match in matches] == sorted(
        (match.score for match in matches), reverse=True
    )
    assert matches[0].words > 0
    assert matches[0].grams > 0


async def test_answer_without_shared_words_is_found_beside_the_question(
    index: RecallIndexPort,
) -> None:
    lines = [*FILLER, "We named the boat yesterday.", "And?", "Grey Heron!", *FILLER]
    await index.add(passages(*lines))
    matches = await index.search("What is the name of the boat?", limit=5)
    assert matches[0].passage.text == "We named the boat yesterday."
    answer = next(match for match in matches if match.passage.text == "Grey Heron!")
    assert answer.words == answer.grams == 0.0
    assert answer.neighbour > 0
    assert answer.window > 0


async def test_newer_of_equal_matches_comes_first(index: RecallIndexPort) -> None:
    distance = FILLER * 2
    await index.add(passages("Call Bo.", *distance, "Call Bo.", *distance, "Call Bo."))
    assert ids(await index.search("Bo", limit=3)) == ["t35.0", "t18.0", "t1.0"]


async def test_search_respects_the_limit_and_finds_the_newest(index: RecallIndexPort) -> None:
    for number in range(1, 301):
        text = f"Ticket {number} concerns printer p-{number}."
        await index.add(passages(text, first=number))
    matches = await index.search("Which ticket concerns printer p-299?", limit=7)
    assert len(matches) == 7
    assert matches[0].passage.id == "t299.0"
    assert (await index.search("printer p-17", limit=1))[0].passage.id == "t17.0"


async def test_known_id_keeps_its_first_text(index: RecallIndexPort) -> None:
    first, second = passages("The lead is Bo."), passages("The lead is Zoe.")
    await index.add(first)
    await index.add([*second, *second])
    assert await index.get(["t1.0"]) == tuple(first)
    assert await index.search("Zoe", limit=5) == ()
    assert ids(await index.search("lead", limit=5)) == ["t1.0"]


async def test_id_that_is_repeated_in_one_call_is_stored_once(index: RecallIndexPort) -> None:
    await index.add([*passages("The lead is Bo."), *passages("The lead is Zoe.")])
    assert ids(await index.search("lead", limit=5)) == ["t1.0"]


async def test_passage_is_returned_with_all_fields(index: RecallIndexPort) -> None:
    passage = Passage(
        id="t7.2",
        turn_id=7,
        text="temperature: 31 度",
        author="weather",
        source=Source.TOOL,
        at=1_760_000_000.25,
        order=19,
    )
    await index.add([passage])
    assert await index.get(["t7.2"]) == (passage,)
    assert (await index.search("temperature", limit=1))[0].passage == passage


async def test_get_returns_known_passages_in_order_of_conversation(index: RecallIndexPort) -> None:
    await index.add(passages("One.", "Two.", "Three."))
    found = await index.get(["t3.0", "unknown", "t1.0", "t3.0"])
    assert [passage.text for passage in found] == ["One.", "Three."]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0, 0, "2"), (1, 1, "123"), (9, 0, "12"), (0, 9, "2345")],
)
async def test_neighbours_are_the_passages_around(
    index: RecallIndexPort, before: int, after: int, expected: str
) -> None:
    await index.add(passages(*"12345"))
    found = await index.neighbours("t2.0", before=before, after=after)
    assert "".join(passage.text for passage in found) == expected


async def test_retired_passage_is_not_found(index: RecallIndexPort) -> None:
    await index.add(passages("The code is 4711.", "The code is secret."))
    await index.retire(["t1.0"])
    assert ids(await index.search("code 4711", limit=5)) == ["t2.0"]
    assert [passage.id for passage in await index.neighbours("t2.0", before=3)] == ["t2.0"]
    assert [passage.id for passage in await index.neighbours("t1.0", after=3)] == ["t1.0", "t2.0"]
    assert [passage.id for passage in await index.get(["t1.0"])] == ["t1.0"]


async def test_retired_passage_counts_for_its_replacement(index: RecallIndexPort) -> None:
    await index.add(passages("Ann lives in Oslo.", *FILLER, "She moved to Bergen."))
    await index.retire(["t1.0"], replaced_by="t10.0")
    (match, *_) = await index.search("Where does Ann live?", limit=5)
    assert match.passage.id == "t10.0"
    assert [passage.id for passage in match.replaces] == ["t1.0"]
    assert "t1.0" not in ids(await index.search("Oslo", limit=5))


async def test_chain_of_replacements_leads_to_the_newest(index: RecallIndexPort) -> None:
    await index.add(passages(*[f"The limit is {n} days." for n in range(1, 5)]))
    await index.retire(["t1.0"], replaced_by="t2.0")
    await index.retire(["t2.0"], replaced_by="t3.0")
    await index.retire(["t4.0"], replaced_by="t1.0")
    (match,) = await index.search("limit days", limit=5)
    assert match.passage.id == "t3.0"
    assert [passage.id for passage in match.replaces] == ["t1.0", "t2.0", "t4.0"]
    await index.retire(["t3.0"])
    assert await index.search("limit days", limit=5) == ()


@pytest.mark.parametrize(
    ("retired", "replaced_by"), [("t1.0", "t9.0"), ("t9.0", ""), ("t1.0", "t1.0"), ("t2.0", "t1.0")]
)
async def test_invalid_retirement_changes_nothing(
    index: RecallIndexPort, retired: str, replaced_by: str
) -> None:
    await index.add(passages("The code is 4711.", "The code is 4712."))
    await index.retire(["t1.0"], replaced_by="t2.0")
    before = await index.search("code", limit=5)
    with pytest.raises(InvalidInput):
        await index.retire([retired], replaced_by=replaced_by)
    assert await index.search("code", limit=5) == before


async def test_many_retired_passages_do_not_hide_the_others(index: RecallIndexPort) -> None:
    await index.add(passages(*[f"The code is {n}." for n in range(1, 61)]))
    await index.retire([f"t{n}.0" for n in range(2, 61)])
    assert ids(await index.search("code", limit=5)) == ["t1.0"]


async def test_search_does_not_change_the_index(index: RecallIndexPort) -> None:
    await index.add(passages(*[f"Printer p-{n} is on floor {n}." for n in range(1, 6)]))
    first = await index.search("Which printer is on floor 3?", limit=3)
    assert await index.search("Which printer is on floor 3?", limit=3) == first


async def test_long_query_and_long_passage_are_accepted(index: RecallIndexPort) -> None:
    await index.add(passages("pump " * 30_000, "The valve is open.", "弁を開けました。" * 5_000))
    query = f"{'So much has happened. ' * 300} Is the valve open?"
    assert ids(await index.search(query, limit=1)) == ["t2.0"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=40), max_size=8), st.text(max_size=40))
async def test_any_text_can_be_stored_and_searched(texts: list[str], query: str) -> None:
    index = InMemoryRecallIndex(terms=TERMS)
    await index.add(passages(*texts))
    matches = await index.search(query, limit=4)
    assert len(matches) <= 4
    assert {match.passage.text for match in matches} <= set(texts)
