"""Recall index in SQLite: same results as in memory, isolation, deletion, reopening."""

import random
import sqlite3
from pathlib import Path

import pytest

from acc.adapters.memory.recall import InMemoryRecallIndex
from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.sqlite_recall import SqliteRecallIndex
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.adapters.system.stemmer import SnowballStemmer
from acc.domain.errors import InvalidInput
from acc.domain.recall import TermExtractor
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.memory import Passage
from acc.domain.value_objects.session import SessionKey
from acc.testing import FrozenClock

TERMS = TermExtractor(SnowballStemmer())
WORDS = [
    "anchor",
    "boat",
    "captain",
    "deck",
    "engine",
    "flag",
    "galley",
    "harbour",
    "island",
    "jetty",
    "港",
    "船長",
    "灯台",
    "カモメ",
]
#: More than one row of postings for a frequent term.
MANY = 4_200


def key(session_id: str = "s1") -> SessionKey:
    return SessionKey(app_name="desk", user_id="ann", session_id=session_id)


def index(database: SqliteDatabase, session_id: str = "s1", name: str = "m") -> SqliteRecallIndex:
    return SqliteRecallIndex(database, key=key(session_id), name=name, terms=TERMS)


def conversation(count: int, *, seed: int = 7) -> list[Passage]:
    draw = random.Random(seed)  # noqa: S311 - not a secret
    return [
        Passage(id=f"t{n}", turn_id=n, text=" ".join(draw.choices(WORDS, k=3)) + f" note {n}")
        for n in range(count)
    ]


async def test_results_equal_those_of_the_index_in_memory(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    stored, expected = index(database), InMemoryRecallIndex(terms=TERMS)
    passages = conversation(MANY)
    steps = [*range(0, 200, 7), *range(200, MANY, 500)]
    for first, last in zip(steps, [*steps[1:], MANY], strict=True):
        await stored.add(passages[first:last])
        await expected.add(passages[first:last])
        if first == 70:
            for each in (stored, expected):
                await each.retire(["t3", "t5"], replaced_by="t60")
                await each.retire(["t9"])
        query = f"captain 灯台 note {last // 2}"
        assert await stored.search(query, limit=12) == await expected.search(query, limit=12)
    await database.aclose()


async def test_memories_of_a_file_have_nothing_in_common(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    first, other = index(database), index(database, "s2")
    same_session = index(database, name="other")
    await first.add(conversation(50))
    alone = await first.search("captain 灯台", limit=5)
    await other.add(conversation(300, seed=8))
    await same_session.add(conversation(70, seed=9))
    assert await first.search("captain 灯台", limit=5) == alone
    assert len(await other.get(["t299"])) == 1
    assert await first.get(["t299"]) == ()
    await database.aclose()


async def test_index_is_complete_after_reopening(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    await index(database).add(conversation(45))
    await index(database).retire(["t2"], replaced_by="t40")
    before = await index(database).search("boat note 2", limit=9)
    await database.aclose()
    database = SqliteDatabase(tmp_path / "acc.db")
    assert await index(database).search("boat note 2", limit=9) == before
    await index(database).add(conversation(46))
    assert (await index(database).search("note 45", limit=1))[0].passage.id == "t45"
    await database.aclose()


async def test_deleting_a_session_deletes_its_passages(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    sessions = SqliteSessionStore(database, clock=FrozenClock())
    for session_id in ("s1", "s2"):
        await index(database, session_id).add(conversation(40))
        await index(database, session_id).retire(["t1"])
    await sessions.delete(key("s2"))
    assert await index(database, "s2").search("captain", limit=5) == ()
    assert len(await index(database).search("captain", limit=5)) == 5
    await sessions.delete(key())
    await sessions.aclose()
    connection = sqlite3.connect(tmp_path / "acc.db")
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'recall_%'")
    names = [name for (name,) in tables.fetchall()]
    assert len(names) == 6
    rows = {
        name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
        for name in names
    }
    assert rows == dict.fromkeys(names, 0)
    connection.close()


async def test_retiring_in_an_empty_memory_is_rejected(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    with pytest.raises(InvalidInput):
        await index(database).retire(["t1"])
    await database.aclose()


async def test_text_that_cannot_be_stored_is_rejected(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    with pytest.raises(InvalidInput):
        await index(database).add([Passage(id="t1", turn_id=1, text="a\ud800b")])
    await index(database).add([])
    assert await index(database).get(["t1"]) == ()
    await database.aclose()


async def test_rewinding_a_session_deletes_its_passages(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "acc.db")
    sessions = SqliteSessionStore(database, clock=FrozenClock())
    for session_id in ("s1", "s2"):
        await index(database, session_id).add(conversation(40))
    await sessions.open(key(), holder="a")
    marker = Event(kind=EventKind.REWOUND, run_id="r", author="helper", detail={"after": 0})
    await sessions.rewind(key(), marker, after=0, holder="a")
    assert await index(database).search("captain", limit=5) == ()
    assert len(await index(database, "s2").search("captain", limit=5)) == 5
    await sessions.aclose()
