"""What may be left out of a statement, and what turns it into another one."""

import tomllib
from pathlib import Path

import pytest

from acc.adapters.memory.extracts import is_extract, is_statement, is_verbatim
from acc.domain.format_rules import is_question
from acc.domain.language import sentences

GROUPS = tomllib.loads((Path(__file__).parent / "shortenings.toml").read_text(encoding="utf-8"))


def pairs(kind: str) -> list[tuple[str, str]]:
    return [(source, text) for group in GROUPS.values() for source, text in group.get(kind, ())]


def passes(source: str, text: str) -> bool:
    return any(
        is_statement(sentence) and not is_question(sentence) and is_extract(text, sentence)
        for sentence in sentences(source)
    )


@pytest.mark.parametrize(("source", "text"), pairs("good"))
def test_a_statement_may_be_shortened(source: str, text: str) -> None:
    assert passes(source, text)


@pytest.mark.parametrize(("source", "text"), pairs("bad"))
def test_a_statement_may_not_be_turned(source: str, text: str) -> None:
    assert not passes(source, text)


@pytest.mark.parametrize(("source", "text"), pairs("cautious"))
def test_what_cannot_be_told_from_a_turned_statement_is_none(source: str, text: str) -> None:
    assert not passes(source, text)


def test_every_statement_is_itself() -> None:
    for source, _ in (*pairs("good"), *pairs("cautious")):
        assert is_extract(source, source)
        assert is_extract(source.rstrip(".。"), source)


def test_two_statements_may_stand_in_one_text_if_each_was_made() -> None:
    source = "The gate is open. The lead is Ana."
    assert is_extract("Gate is open. Lead is Ana.", source)
    assert not is_extract("Gate is open. Lead is Bo.", source)
    assert not is_extract("", source)
    assert not is_extract("The", source)


@pytest.mark.parametrize(
    ("source", "aim", "kept"),
    [
        ("Folks, please restore checkout by 18:00 today.", "Restore checkout by 18:00", True),
        ("Our goal is to restore checkout before 18:00.", "Restore checkout after 18:00", False),
        ("Never reveal the date.", "Reveal the date", False),
        ("Reveal the date if Mara agrees.", "Reveal the date", False),
        ("Reveal the date to Bo.", "Reveal Bo", False),
        ("目標は18時までに決済を復旧することです。", "18時までに決済を復旧する", True),
        ("目標は18時までに決済を復旧することです。", "決済を復旧する", False),
        ("目標は決済を復旧することです。", "配送を復旧する", False),
        ("決済を停止しないでください。", "決済を停止", False),
        ("決済を停止してください。", "決済は停止", False),
        ("決済を停止して、返金は未処理です。", "決済を停止", False),
    ],
)
def test_an_aim_is_one_piece_of_a_statement_and_keeps_every_condition(
    source: str, aim: str, kept: bool
) -> None:
    assert is_verbatim(aim, source) is kept


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Will Smith owns the repo acme-1.", True),
        ("What matters is that db-1 stays on port 8080.", True),
        ("Will db-1 stay on port 8080", False),
        ("Is the server in Osaka?", False),
        ("caf" + "?" * 20_000 + "x is y", True),
    ],
)
def test_a_sentence_that_begins_like_a_question_and_ends_like_none_is_a_statement(
    text: str, claims: bool
) -> None:
    assert is_statement(text) is claims
