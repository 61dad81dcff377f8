"""Numbers, units, dates and times in one normal form."""

import pytest

from acc.domain.quantities import contains_quantity, known_quantities, quantities, with_digits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("15.4%", "15.4 %"),
        ("15.4 percent", "15.4パーセント"),
        ("fifteen people", "15 people"),
        ("三つ", "3つ"),
        ("十五人", "15人"),
        ("48億2千万円", "4,820,000,000円"),
        ("2万1400人", "21,400人"),
        ("二〇二四年", "2024年"),
        ("2:30 pm", "14:30"),
        ("午後2時30分", "14:30"),
        ("1.2 million euros", "EUR 1,200,000"),
        ("90 minutes", "1.5 hours"),
        ("one hundred and five people", "105 people"),
        ("twenty-five thousand", "25,000"),
        ("40 mg", "40ミリグラム"),
        ("third quarter", "3rd quarter"),
        ("第一四半期", "第1四半期"),
        ("2024-03-05", "5 March 2024"),
        ("twice", "2 times"),
        ("3-1", "3対1"),
        ("half past six", "18:30"),
        ("ten in the evening", "22:00"),
        ("noon", "12:00"),
        ("at 8", "8:00"),
        ("2,140 m", "2,140 metres"),
        ("4割", "40%"),
        ("1日2回", "毎日2回"),
        ("day one", "day 1"),
    ],
)
def test_same_quantity_in_different_forms(one: str, other: str) -> None:
    known = quantities(other)
    assert quantities(one)
    assert all(contains_quantity(known, quantity) for quantity in quantities(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("15.4%", "14.5%"),
        ("30 minutes", "30 hours"),
        ("EUR 30 million", "30 million dollars"),
        ("3-2", "3-1 after 2 goals"),
        ("18か月", "18年間"),
        ("2:30 am", "14:30"),
        ("half past six", "19:30"),
        ("at 9", "8:00"),
    ],
)
def test_different_quantity_is_not_found(one: str, other: str) -> None:
    known = quantities(other)
    assert not all(contains_quantity(known, quantity) for quantity in quantities(one))


@pytest.mark.parametrize("text", ["db-1", "pay-03", "一部の店", "十分な量", "三菱", "one of them"])
def test_codes_and_words_are_no_numbers(text: str) -> None:
    assert quantities(text) == frozenset()


def test_one_is_a_number_in_evidence_only() -> None:
    assert [quantity.number for quantity in known_quantities("one of them")] == ["1"]


@pytest.mark.parametrize("text", ["five hundred " * 3_000, "1," * 9_000, "〇" * 20_000])
def test_long_runs_of_numbers_are_read(text: str) -> None:
    assert with_digits(text)
