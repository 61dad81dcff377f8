"""Sentences, terms and values of English and Japanese text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from state_strategies import ANY_TEXT

from acc.domain.language import (
    contains_text,
    identifiers,
    is_japanese,
    is_negated,
    names,
    normalize_text,
    numbers,
    one_line,
    sentences,
    stem,
    term_list,
    terms,
    values,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db-1 is up. All is well!", ["db-1 is up.", "All is well!"]),
        ("Is it up? 40 hosts are.", ["Is it up?", "40 hosts are."]),
        ("Ask Dr. Mara Lindqvist. She knows.", ["Ask Dr. Mara Lindqvist.", "She knows."]),
        ("See e.g. Fig. 3 first.", ["See e.g. Fig. 3 first."]),
        ("Take no. 5 now.", ["Take no. 5 now."]),
        ("The answer is no. The cause is open.", ["The answer is no.", "The cause is open."]),
        ('End with "Stay safe." Then stop.', ['End with "Stay safe."', "Then stop."]),
        ('(See "db-1.") It is up.', ['(See "db-1.")', "It is up."]),
        ("Done. Élodie is here.", ["Done.", "Élodie is here."]),
        ("1. Check db-1\n2. Restart it", ["Check db-1", "Restart it"]),
        ("> - quoted point\n* 3 hosts", ["quoted point", "3 hosts"]),
        ("v1.2 is out. it works", ["v1.2 is out. it works"]),
        ("...\n---\n!", []),
        ("復旧しました。原因は不明です。", ["復旧しました。", "原因は不明です。"]),
        ("復旧しましたか？原因は何ですか？", ["復旧しましたか?", "原因は何ですか?"]),
        ("すごい！「次」へ。", ["すごい!", "「次」へ。"]),
        ("「はい。」と言った。次へ。", ["「はい。」と言った。", "次へ。"]),
        ("・ 佐藤\n・ 田中", ["佐藤", "田中"]),
    ],
)
def test_sentences_splits_text(text: str, expected: list[str]) -> None:
    assert list(sentences(text)) == expected


@pytest.mark.parametrize(
    ("text", "japanese"),
    [("復旧した", True), ("db-1が復旧", True), ("The 復 is up and running", False), ("", False)],
)
def test_is_japanese_depends_on_share_of_japanese_letters(text: str, japanese: bool) -> None:
    assert is_japanese(text) is japanese


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("db-1 is not up", True),
        ("It isn’t up", True),
        ("Nothing works", True),
        ("It is noted", False),
        ("復旧していません", True),
        ("再起動は禁止", True),
        ("復旧しました", False),
    ],
)
def test_is_negated_detects_negation(text: str, negated: bool) -> None:
    assert is_negated(text) is negated


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("policies", "policy"),
        ("classes", "class"),
        ("running", "run"),
        ("limited", "limit"),
        ("hosts", "host"),
        ("status", "status"),
        ("calling", "call"),
        ("change", "chang"),
        ("changes", "chang"),
        ("up", "up"),
        ("db-1", "db-1"),
        ("制限", "制限"),
    ],
)
def test_stem_is_equal_for_forms_of_one_word(word: str, root: str) -> None:
    assert stem(word) == root


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The limits of the limit", ["limit", "limit"]),
        ("Mara’s 1,200 requests", ["mara", "1200", "request"]),
        ("a sign-off at 02:14", ["sign", "02:14"]),
        ("db-1 and ops@example.com", ["db-1", "ops@example.com"]),
        ("x 7 the ' - -", ["7"]),
        ("担当者はサーバーを再起動", ["担当", "当者", "サーバー", "再起", "起動"]),
        ("db-1の上限", ["db-1", "上限"]),
    ],
)
def test_term_list_returns_content_terms_in_order(text: str, expected: list[str]) -> None:
    assert list(term_list(text)) == expected
    assert terms(text) == set(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,200 requests, 30%, 02:14 and 1.5", {"1200", "30%", "02:14", "1.5"}),
        ("ports 1,2,3", {"1", "2", "3"}),
        ("db-1 took 30ms and 5GB", {"30", "5"}),
        ("2024, 2025", {"2024", "2025"}),
        ("上限は３０分、予算は1,500万円", {"30", "1500"}),
    ],
)
def test_numbers_are_returned_without_separators(text: str, expected: set[str]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db-1, CVE-2026-1234 and ops@example.com.", {"db-1", "cve-2026-1234", "ops@example.com"}),
        ("30ms, 20 min, 02:14 and 10:00-11:00", set()),
        ("a well-known sign-off", set()),
        ("max_words in eu-west-1/prod", {"max_words", "eu-west-1/prod"}),
        ("db-1を再起動", {"db-1"}),
    ],
)
def test_identifiers_returns_codes(text: str, expected: set[str]) -> None:
    assert identifiers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We asked Mara Lindqvist.", {"mara", "lindqvist"}),
        ("Mara Lindqvist knows.", {"mara", "lindqvist"}),
        ("Because I'm sure, I’ll ask Mara’s team and O'Brien's.", {"mara", "o'brien"}),
        ("Restart it. Then wait.", set()),
        ("佐藤さんと田中課長、スミス氏", {"佐藤", "田中", "スミス"}),
    ],
)
def test_names_returns_proper_names(text: str, expected: set[str]) -> None:
    assert names(text) == expected


def test_values_are_numbers_identifiers_and_names() -> None:
    assert values("We asked Mara about db-1 at 02:14") == {"mara", "db-1", "02:14"}


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("The limit is 30.", "30", True),
        ("The limit is 300.", "30", False),
        ("The limit is 1.30.", "30", False),
        ("The limit is 30.5", "30", False),
        ("At 09:30 it failed", "30", False),
        ("At 09:30 it failed", "09", False),
        ("At 09:30 it failed", "09:30", True),
        ("limit:30, host:4", "30", True),
        ("in 2026,30 hosts", "30", False),
        ("Samara called", "Mara", False),
        ("MARA called", "mara", True),
        ("ｄｂ－１ is up", "db-1", True),
        ("Mara Lind qvist", "Mara Lindqvist", False),
        ("MaraLindqvist", "Mara Lindqvist", True),
        ("it’s up", "it's", True),
        ("上限は３０分です", "30分", True),
        ("上限は130分です", "30分", False),
        ("佐藤さんが担当", "佐藤", True),
        ("path C:\\ x", "C:\\ x", True),
        ("anything", "", False),
        ("anything", " ", False),
        ("anything", "\u200b", False),
    ],
)
def test_contains_text_ignores_case_width_and_spacing(text: str, part: str, expected: bool) -> None:
    assert contains_text(text, part) is expected


@given(st.integers(0, 10_000), st.integers(0, 9), ANY_TEXT)
def test_contains_text_does_not_match_part_of_number(number: int, digit: int, around: str) -> None:
    words = "".join(character for character in around if not character.isnumeric())
    words = "".join(c for c in words if not any(d.isnumeric() for d in normalize_text(c)))
    assert not contains_text(f"{words} {number}{digit} {words}", f"{number}")
    assert not contains_text(f"{words} 1{number} {words}", f"{number}")
    assert contains_text(f"{words} {number} {words}", f"{number}")


@given(ANY_TEXT)
def test_any_text_can_be_analysed(text: str) -> None:
    assert all(sentence == one_line(sentence) != "" for sentence in sentences(text))
    assert terms(text) == set(term_list(text))
    assert values(text) == numbers(text) | identifiers(text) | names(text)
    assert isinstance(contains_text(text, text), bool)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("ＡＢＣ　１２３", "ABC 123"),
        ("a\u202eb\u200bc\x00d", "abcd"),
        ("ig\u00adnore \U000e0041the rule", "ignore the rule"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("lone \ud800 half", "lone ? half"),
    ],
)
def test_normalize_text_removes_invisible_characters(text: str, expected: str) -> None:
    assert normalize_text(text) == expected


@given(ANY_TEXT)
def test_normalization_is_idempotent(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)
    assert one_line(one_line(text)) == one_line(text)
    normalize_text(text).encode("utf-8")


def test_normalize_text_combines_letters_around_invisible_mark() -> None:
    assert one_line("e\u200b\u0301") == "é"
