"""Tests for differences that shared words hide."""

import pytest

from acc.domain.claim_differences import Corrections, difference
from acc.domain.quantities import quantities


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The bridge will open in June.", "The mayor believes that the bridge will open in June."),
        ("The bridge is definitely safe.", "The bridge may be safe."),
        ("All ferries run on Sunday.", "Only two of the ferries run on Sunday."),
        ("The filter is cleaned every day.", "The filter is cleaned twice a week."),
        ("橋は6月に開通します。", "橋は6月に開通する可能性があります。"),
        ("船はすべて日曜に運航します。", "日曜に運航する船は一部だけです。"),
        ("濾過器は毎日洗います。", "濾過器は週に2回洗います。"),
        ("The dressing is changed every day.", "The dressing is changed every other day."),
        ("花の持ち込みができます。", "花の持ち込みは禁止です。"),
        ("Smoking is allowed on the deck.", "Smoking on the deck is forbidden."),
    ],
)
def test_difference_is_found(claim: str, evidence: str) -> None:
    assert difference(claim, [evidence])


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The bridge may open in June.", "The bridge might open in June."),
        ("All ferries run on Sunday.", "Every ferry runs on Sunday."),
        ("The filter is cleaned 2 times a week.", "The filter is cleaned twice a week."),
        ("The ferry runs four times daily.", "The ferry runs four times a day."),
        ("The dressing is changed every two days.", "The dressing is changed every other day."),
        ("You can cancel until the 25th.", "Cancelling is possible until the 25th."),
        ("橋は6月に開通するかもしれません。", "橋は6月に開通する可能性があります。"),
    ],
)
def test_same_statement_has_no_difference(claim: str, evidence: str) -> None:
    assert difference(claim, [evidence]) == ""


def test_corrected_value_is_outdated() -> None:
    corrections = Corrections(
        ["The toll is 4 euros for cars.", "Correction: the toll for cars is 6 euros."]
    )
    assert corrections.outdated("Cars pay a toll of 4 euros.")
    assert not corrections.outdated("Cars pay a toll of 6 euros.")
    assert not corrections.outdated("Before, cars paid a toll of 4 euros.")
    assert corrections.has_new_value("Cars pay a toll of 6 euros.")


def test_correction_concerns_its_own_part_and_weekdays() -> None:
    corrections = Corrections(
        [
            "Tomas takes 5 mg of ramipril in the morning, and 20 mg of simvastatin.",
            "Correction: ramipril goes up to 10 mg.",
            "テレビの取り付けは金曜に伺います。",
            "訂正です。テレビの取り付けは土曜になりました。",
        ]
    )
    assert corrections.outdated("Tomas takes 5 mg of ramipril.")
    assert not corrections.outdated("Tomas takes 20 mg of simvastatin.")
    assert corrections.outdated("テレビの取り付けは金曜です。")
    assert not corrections.outdated("テレビの取り付けは土曜です。")


def test_japanese_number_after_a_word_has_its_unit() -> None:
    assert quantities("復旧には30分かかる") != quantities("復旧には30時間かかる")
    assert quantities("容量は5リットル") == quantities("容量は5000 ml") or {
        quantity.amount for quantity in quantities("容量は5000 ml")
    } == {"5"}
