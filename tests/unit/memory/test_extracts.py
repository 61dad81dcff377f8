"""Accepted and rejected extracts of statements."""

import tomllib
from pathlib import Path

import pytest
from acc.adapters.memory.extracts import is_extract, is_statement, is_verbatim

from acc.domain.format_rules import is_question
from acc.domain.language import sentences

GROUPS = tomllib.loads((Path(__file__).parent / "extracts.toml").read_text(encoding="utf-8"))


def pairs(kind: str) -> list[tuple[str, str]]:
    return [(source, text) for group in GROUPS.values() for source, text in group.get(kind, ())]


def passes(source: str, text: str) -> bool:
    return any(
        is_statement(sentence) and not is_question(sentence) and is_extract(text, sentence)
        for sentence in sentences(source)
    )


@pytest.mark.parametrize(("source", "text"), pairs("good"))
def test_extract_is_accepted(source: str, text: str) -> None:
    assert passes(source, text)


@pytest.mark.parametrize(("source", "text"), pairs("bad"))
def test_changed_statement_is_rejected(source: str, text: str) -> None:
    assert not passes(source, text)


@pytest.mark.parametrize(("source", "text"), pairs("cautious"))
def test_ambiguous_extract_is_rejected(source: str, text: str) -> None:
    assert not passes(source, text)


def test_statement_is_extract_of_itself() -> None:
    for source, _ in (*pairs("good"), *pairs("cautious")):
        assert is_extract(source, source)
        assert is_extract(source.rstrip(".。"), source)


def test_text_of_two_extracts_is_accepted() -> None:
    source = "The gate is open. The lead is Ana."
    assert is_extract("Gate is open. Lead is Ana.", source)
    assert not is_extract("Gate is open. Lead is Bo.", source)
    assert not is_extract("", source)
    assert not is_extract("The", source)


@pytest.mark.parametrize(
    ("source", "goal", "expected"),
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
def test_is_verbatim_requires_one_piece_with_all_conditions(
    source: str, goal: str, expected: bool
) -> None:
    assert is_verbatim(goal, source) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Will Smith owns the repo acme-1.", True),
        ("What matters is that db-1 stays on port 8080.", True),
        ("Will db-1 stay on port 8080", False),
        ("Is the server in Osaka?", False),
        ("caf" + "?" * 20_000 + "x is y", True),
    ],
)
def test_is_statement_separates_statements_from_questions(text: str, expected: bool) -> None:
    assert is_statement(text) is expected
