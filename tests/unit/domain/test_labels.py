"""Tests for samples, agreement and corrected rates."""

import pytest

from acc.domain.labels import LabelItem, LabelKind, agreement, corrected_rate, draw_sample


def item(number: int, *, good: bool, agent: str = "a") -> LabelItem:
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
    )


def test_sample_has_rare_verdicts_and_no_repeats() -> None:
    items = [item(number, good=number >= 5) for number in range(200)]
    sample = draw_sample(items, 20, seed=1)
    assert len({one.id for one in sample}) == 20
    assert sum(not one.is_good for one in sample) == 5
    assert sample == draw_sample(list(reversed(items)), 20, seed=1)


def test_sample_of_more_items_than_there_are_is_all() -> None:
    assert len(draw_sample([item(1, good=True), item(2, good=False)], 9, seed=0)) == 2


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
