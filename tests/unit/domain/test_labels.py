"""Tests for samples, agreement and corrected rates."""

import pytest

from acc.domain.labels import (
    LabelItem,
    LabelKind,
    SampleMethod,
    agreement,
    corrected_rate,
    draw_sample,
)


def item(number: int, *, good: bool, agent: str = "a", unclear: bool = False) -> LabelItem:
    return LabelItem(
        id=f"{number:04d}",
        kind=LabelKind.CLAIM,
        agent=agent,
        language="en",
        query="q",
        context=(),
        text="t",
        answer="a",
        is_good=good,
        is_unclear=unclear,
    )


def test_sample_has_rare_verdicts_and_no_repeats() -> None:
    items = [item(number, good=number >= 5) for number in range(200)]
    sample = draw_sample(items, 20, seed=1)
    assert len({one.id for one in sample}) == 20
    assert sum(not one.is_good for one in sample) == 5
    assert sample == draw_sample(list(reversed(items)), 20, seed=1)


def test_sample_of_more_items_than_there_are_is_all() -> None:
    assert len(draw_sample([item(1, good=True), item(2, good=False)], 9, seed=0)) == 2


def test_uncertain_sample_has_unclear_items_and_some_of_every_stratum() -> None:
    items = [item(number, good=number % 2 == 0, unclear=number < 40) for number in range(400)]
    sample = draw_sample(items, 30, seed=2, method=SampleMethod.UNCERTAIN)
    assert len({one.id for one in sample}) == 30
    assert sum(one.is_unclear for one in sample) == 26
    assert {one.stratum for one in sample} == {one.stratum for one in items}
    # After the unclear items, the other strata follow.
    assert len(draw_sample(items, 100, seed=2, method=SampleMethod.UNCERTAIN)) == 100


def test_random_sample_has_the_shares_of_all_items() -> None:
    items = [item(number, good=number >= 100) for number in range(1_000)]
    sample = draw_sample(items, 300, seed=0, method=SampleMethod.RANDOM)
    assert len({one.id for one in sample}) == 300
    assert 15 <= sum(not one.is_good for one in sample) <= 45


def test_agreement_on_one_item_has_no_interval() -> None:
    result = agreement("one", "two", "claims", [(True, False)])
    assert (result.kappa, result.low, result.high) == (0, None, None)


def test_corrected_rate_removes_the_bias_of_the_judge() -> None:
    # The judge calls 10 of 100 bad; half of the items that it calls good are bad.
    strata = [(90, True, [True, False] * 10), (10, False, [False] * 10)]
    rate = corrected_rate(strata)
    assert rate.raw == pytest.approx(0.1)
    assert rate.corrected == pytest.approx(0.55)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 0.55 < rate.high


def test_fully_labelled_items_have_an_exact_rate() -> None:
    rate = corrected_rate([(2, True, [True, True]), (2, False, [False, True])])
    assert (rate.corrected, rate.low, rate.high) == (0.25, 0.25, 0.25)


def test_stratum_without_label_has_a_reason_instead_of_a_rate() -> None:
    rate = corrected_rate([(50, True, [True]), (50, False, [])])
    assert rate.corrected is None
    assert "50 %" in rate.reason


def test_agreement_has_an_interval_around_kappa() -> None:
    pairs = [(True, True)] * 30 + [(False, False)] * 20 + [(True, False)] * 5
    result = agreement("one", "two", "claims", pairs)
    assert result.kappa is not None
    assert result.low is not None
    assert result.high is not None
    assert result.low < result.kappa < result.high


def test_kappa_of_a_single_label_is_undefined() -> None:
    assert agreement("one", "two", "claims", [(True, True)] * 3).kappa is None
