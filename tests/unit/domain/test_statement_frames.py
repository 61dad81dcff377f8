import pytest
from hypothesis import given
from state_strategies import ANY_TEXT

from acc.domain.language import MAX_SENTENCE_LENGTH
from acc.domain.statement_frames import frame, supersedes

BUDGET = "The error budget is 30 minutes."
LIMIT = "上限は30分です。"


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("The error budget is now 40 minutes.", BUDGET),
        ("The error budget is 40 minutes.", BUDGET),
        ("Correction: the error budget is 40 minutes.", BUDGET),
        ("The owner of db-1 is Ken Mori.", "The owner of db-1 is Mara Lindqvist."),
        ("Ken Mori takes over as the incident lead.", "The incident lead is Mara Lindqvist."),
        ("Ken Mori is now the incident lead.", "Mara Lindqvist is the incident lead."),
        ("The deadline moved to 18:00.", "The deadline is 17:00."),
        ("We moved the deadline from 17:00 to 18:00.", "The deadline is 17:00."),
        ("After the review, the deadline is 18:00.", "The deadline is 17:00."),
        ("db-1 runs version 15.2.", "db-1 runs version 14.9."),
        ("The backup of db-1 takes 40 minutes.", "The backup of db-1 takes 30 minutes."),
        ("The rollout is no longer paused.", "The rollout is paused."),
        (
            "The payment service owner on duty is now Ken Mori.",
            "The payment service owner is Bo Ek.",
        ),
        ("The pool now holds 40 idle jobs.", "The pool holds 30 jobs."),
        ("上限は40分です。", LIMIT),
        ("上限が40分に変わりました。", LIMIT),
        ("上限を40分に変更します。", LIMIT),
        ("上限を30分から40分に変更します。", LIMIT),
        ("訂正： 上限は40分です。", LIMIT),
        ("締め切りは18時に変更になりました。", "締め切りは17時です。"),
        ("担当者が田中さんに変わりました。", "担当者は佐藤さんです。"),
        ("db-1の容量は80GBです。", "db-1の容量は60GBです。"),
    ],
)
def test_newer_statement_supersedes_value_of_same_subject(newer: str, older: str) -> None:
    assert supersedes(newer, older)


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (BUDGET, BUDGET),
        ("Update: the error budget is 30 minutes.", BUDGET),
        ("db-2 runs version 15.2.", "db-1 runs version 14.9."),
        ("The target latency is 200 ms.", "The current latency is 350 ms."),
        ("The target is 99.9%.", "The current rate is 97%."),
        ("The region of db-1 is eu-west-1.", "The owner of db-1 is Mara Lindqvist."),
        ("The deploy starts at 10:00.", "The deploy ends at 12:00."),
        ("The error budget is fine.", BUDGET),
        ("The owner is tired.", "The owner is Mara Lindqvist."),
        ("Hello there.", BUDGET),
        (BUDGET, "Hello there."),
        ("It is 30.", BUDGET),
        ("The pool now opens 40 ports.", "The pool holds 30 jobs."),
        ("The mail service owner is now Ken Mori.", "The payment service owner is Bo Ek."),
        (LIMIT, LIMIT),
        ("目標値は200msです。", "現在値は350msです。"),
        ("db-2の容量は80GBです。", "db-1の容量は60GBです。"),
        ("担当者は佐藤さんです。", "地域は東京です。"),
        ("承知しました。", LIMIT),
    ],
)
def test_statement_about_other_subject_supersedes_nothing(newer: str, older: str) -> None:
    assert not supersedes(newer, older)


@pytest.mark.parametrize(
    ("sentence", "subject", "predicate", "value", "exact"),
    [
        ("The owner is Mara Lindqvist.", {"owner"}, set(), {"mara", "lindqvist"}, True),
        ("Mara Lindqvist is the owner.", {"owner"}, set(), {"mara", "lindqvist"}, True),
        ("The pool holds 40 jobs.", {"pool"}, {"hold", "job"}, {"40"}, True),
        ("The window is open until 22:00.", {"window"}, {"open"}, {"22:00"}, True),
        (
            "With Ken away, the lead is Mara Lindqvist.",
            {"lead"},
            set(),
            {"mara", "lindqvist"},
            True,
        ),
        ("The rollout is paused.", {"rollout"}, set(), {"paus"}, False),
        ("上限を30分から40分に変更します。", {"上限"}, set(), {"40"}, True),
    ],
)
def test_frame_has_subject_and_value(
    sentence: str, subject: set[str], predicate: set[str], value: set[str], exact: bool
) -> None:
    found = frame(sentence)
    assert found is not None
    assert (set(found.subject), set(found.predicate)) == (subject, predicate)
    assert (set(found.value), found.exact) == (value, exact)


@pytest.mark.parametrize(
    ("sentence", "update", "negated"),
    [
        ("The limit is 40.", False, False),
        ("The limit is now 40.", True, False),
        ("The limit is not 40.", False, True),
        ("上限は40に訂正します。", True, False),
        ("上限は40ではありません。", False, True),
    ],
)
def test_frame_marks_update_and_negation(sentence: str, update: bool, negated: bool) -> None:
    found = frame(sentence)
    assert found is not None
    assert (found.update, found.negated) == (update, negated)


@pytest.mark.parametrize("sentence", ["", "Hello there.", "It is so.", "承知しました。"])
def test_sentence_without_a_subject_has_no_frame(sentence: str) -> None:
    assert frame(sentence) is None


def test_too_long_sentence_has_no_frame() -> None:
    assert frame("The limit is " + "4" * MAX_SENTENCE_LENGTH) is None


@given(ANY_TEXT, ANY_TEXT)
def test_any_two_texts_can_be_compared(newer: str, older: str) -> None:
    assert isinstance(supersedes(newer, older), bool)
    assert not supersedes(newer, newer)
