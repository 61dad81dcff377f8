import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.domain.format_rules import (
    OMISSION_KINDS,
    count_bullets,
    count_characters,
    count_words,
    violation,
)
from acc.domain.value_objects.format_rule import NUMERIC_KINDS, TEXT_KINDS, FormatRule, RuleKind


def counted(kind: RuleKind, number: int) -> FormatRule:
    return FormatRule(kind=kind, number=number)


def worded(kind: RuleKind, *words: str) -> FormatRule:
    return FormatRule(kind=kind, words=words)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("db-1 is up.", 3),
        ("Don’t stop, don't wait!", 4),
        ("1,200 requests at 02:14", 4),
        ("max_words and ops@example.com", 3),
        ("one -- two", 2),
        ("_emphasis_ here", 2),
        ("佐藤さん 了解", 2),
    ],
)
def test_words_are_counted_as_a_reader_would(text: str, count: int) -> None:
    assert count_words(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("- a\n* b\n• c", 3),
        ("1. a\n12) b", 2),
        ("・ 佐藤\n・ 田中", 2),
        ("  - nested", 1),
        ("a - b", 0),
        ("-\n- \n\n- a", 1),
        ("2026 was good", 0),
        ("\n" * 1_000, 0),
    ],
)
def test_bullets_are_lines_with_a_mark_and_content(text: str, count: int) -> None:
    assert count_bullets(text) == count


def test_characters_are_counted_without_spaces_and_line_ends() -> None:
    assert count_characters("復旧 しました。\n次は 検証") == 11


@pytest.mark.parametrize(
    ("rule", "answer", "fault"),
    [
        (counted(RuleKind.MAX_WORDS, 3), "db-1 is up.", ""),
        (counted(RuleKind.MAX_WORDS, 2), "db-1 is up.", "3 words, the limit is 2"),
        (counted(RuleKind.MAX_CHARACTERS, 7), "復旧しました。", ""),
        (counted(RuleKind.MAX_CHARACTERS, 6), "復旧しました。", "7 characters, the limit is 6"),
        (counted(RuleKind.MAX_SENTENCES, 1), "It is up.", ""),
        (counted(RuleKind.MAX_SENTENCES, 1), "It is up. All is well.", "2 sentences"),
        (counted(RuleKind.MAX_SENTENCES, 2), "復旧しました！原因は不明です。", ""),
        (counted(RuleKind.MAX_SENTENCES, 1), "復旧しました！原因は不明です。", "2 sentences"),
        (counted(RuleKind.MAX_SENTENCES, 2), "1. Check db-1\n2. Restart it", ""),
        (counted(RuleKind.MAX_BULLETS, 2), "- a\n- b", ""),
        (counted(RuleKind.MAX_BULLETS, 2), "no bullets", ""),
        (counted(RuleKind.MAX_BULLETS, 1), "- a\n- b", "2 bullets, the limit is 1"),
        (counted(RuleKind.EXACT_BULLETS, 2), "- a\n- b", ""),
        (counted(RuleKind.EXACT_BULLETS, 3), "・ 甲\n・ 乙", "2 bullets, not 3"),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), "All is up.\nStay safe.\n", ""),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), 'All is up. "STAY SAFE"', ""),
        (worded(RuleKind.ENDS_WITH, "Stay safe."), "Stay safe. Bye.", "does not end with"),
        (worded(RuleKind.ENDS_WITH, "ご安全に"), "復旧しました。ご安全に。", ""),
        (worded(RuleKind.ENDS_WITH, "ご安全に"), "", "does not end with 'ご安全に'"),
        (worded(RuleKind.STARTS_WITH, "Status:"), "status: up", ""),
        (worded(RuleKind.STARTS_WITH, "速報"), "「速報」db-1が復旧", ""),
        (worded(RuleKind.STARTS_WITH, "速報"), "db-1が復旧、速報", "does not start with '速報'"),
        (worded(RuleKind.HEADINGS, "Facts", "Risks"), "## Facts\na\n**Risks**\nb", ""),
        (worded(RuleKind.HEADINGS, "事実", "対応"), "【事実】\n甲\n対応：\n乙", ""),
        (worded(RuleKind.HEADINGS, "Facts", "Risks"), "Facts\na", "lacks the heading 'Risks'"),
        (worded(RuleKind.JSON), "{}", ""),
        (worded(RuleKind.JSON, "status"), '{"status": "復旧"}', ""),
        (worded(RuleKind.JSON, "status", "owner"), '{"status": 1}', "lacks the key 'owner'"),
        (worded(RuleKind.JSON), "[]", "is not a JSON object"),
        (worded(RuleKind.JSON), "Here you are: {}", "is not valid JSON"),
        (worded(RuleKind.JSON), '{"load": NaN}', "is not valid JSON"),
        (worded(RuleKind.JSON), "[" * 200_000, "is not valid JSON"),
        (worded(RuleKind.REQUIRE, "INC-4411"), "See inc-4411.", ""),
        (worded(RuleKind.REQUIRE, "INC-4411"), "See INC-44110.", "lacks 'INC-4411'"),
        (worded(RuleKind.REQUIRE, "承認"), "佐藤さんの承認済み", ""),
        (worded(RuleKind.FORBID, "sure"), "I am not certain, for I measured.", ""),
        (worded(RuleKind.FORBID, "sure"), "Sure, it is up.", "contains 'sure'"),
        (worded(RuleKind.FORBID, "多分", "絶対"), "絶対に復旧します。", "contains '絶対'"),
        (worded(RuleKind.REFUSE, "the launch date"), "The launch date is 3 May.", "contains"),
        (worded(RuleKind.REFUSE, "発売日"), "お答えできません。", ""),
        (worded(RuleKind.POLICY), "anything", ""),
    ],
)
def test_breach_says_how_an_answer_breaks_a_rule(rule: FormatRule, answer: str, fault: str) -> None:
    found = violation(rule, answer)
    assert found.startswith(fault) if fault else found == ""


@pytest.mark.parametrize("kind", list(RuleKind))
@given(answer=st.text(st.characters(), max_size=80))
def test_any_answer_can_be_checked(kind: RuleKind, answer: str) -> None:
    number, words = int(kind in NUMERIC_KINDS), ("a",) if kind in TEXT_KINDS else ()
    assert isinstance(violation(FormatRule(kind=kind, number=number, words=words), answer), str)


def test_omissions_are_the_rules_broken_by_leaving_something_out() -> None:
    assert RuleKind.ENDS_WITH in OMISSION_KINDS
    assert RuleKind.MAX_WORDS not in OMISSION_KINDS
    assert RuleKind.FORBID not in OMISSION_KINDS
