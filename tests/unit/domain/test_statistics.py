"""Percentiles, bootstrap intervals and agreement coefficients."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.domain.statistics import (
    MIN_EPISODES,
    PairedDifference,
    cohen_kappa,
    interval_alpha,
    nominal_alpha,
    paired_difference,
    percentile,
)

floats = st.floats(min_value=-10, max_value=10)
episodes = st.dictionaries(st.text(max_size=4), st.lists(floats, max_size=5), max_size=12)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.floats(min_value=0, max_value=1),
)
def test_percentile_is_between_minimum_and_maximum(values: list[float], share: float) -> None:
    ordered = sorted(values)
    assert ordered[0] <= percentile(ordered, share) <= ordered[-1]


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.625, 3.5), (1.0, 5.0)]
)
def test_percentile_interpolates_between_neighbours(share: float, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], share) == expected


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        percentile([], 0.5)


@settings(max_examples=40)
@given(episodes, st.integers())
def test_interval_is_ordered_bounded_and_seeded(
    differences: dict[str, list[float]], seed: int
) -> None:
    found = paired_difference(differences, seed=seed, resamples=50)
    everything = [value for values in differences.values() for value in values]
    if not everything:
        assert found is None
        return
    assert found is not None
    least, most = min(everything) - 1e-9, max(everything) + 1e-9
    assert least <= found.low <= found.high <= most
    assert least <= found.mean <= most
    assert found.pairs == len(everything)
    assert found == paired_difference(differences, seed=seed, resamples=50)


@given(floats, st.integers(min_value=1, max_value=15))
def test_equal_differences_give_interval_of_zero_width(value: float, count: int) -> None:
    found = paired_difference({"a": [value] * count}, seed=1, resamples=20)
    assert found is not None
    assert math.isclose(found.low, found.mean, abs_tol=1e-12)
    assert math.isclose(found.high, found.mean, abs_tol=1e-12)


def test_interval_contains_mean() -> None:
    found = paired_difference({"a": [float(n) for n in range(40)]}, seed=3)
    assert found is not None
    assert found.low < found.mean == 19.5 < found.high


@pytest.mark.parametrize(("count", "unit"), [(MIN_EPISODES - 1, "turn"), (MIN_EPISODES, "episode")])
def test_episodes_are_resampled_as_soon_as_there_are_enough(count: int, unit: str) -> None:
    found = paired_difference({str(n): [1.0, float(n)] for n in range(count)}, seed=0, resamples=9)
    assert found is not None
    assert found.unit == unit


def test_episodes_without_turns_are_ignored() -> None:
    assert paired_difference({"a": [], "b": []}, seed=0) is None


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [(0.1, 0.2, True), (-0.2, -0.1, True), (-0.1, 0.1, False), (0, 1, False)],
)
def test_difference_is_significant_if_interval_excludes_zero(
    low: float, high: float, clear: bool
) -> None:
    found = PairedDifference(mean=0.0, low=low, high=high, pairs=2, unit="turn")
    assert found.clear is clear


# Section A: two observers, ten units, two values; alpha 0.095.
TWO_VALUES = list(zip((0, 1, 0, 0, 0, 0, 0, 0, 1, 0), (1, 1, 1, 0, 0, 1, 0, 0, 0, 0), strict=True))
# Section B: two observers, twelve units, five values; alpha 0.692.
FIVE_VALUES = list(zip("aabbdcccedda", "babbbccceddd", strict=True))
# Section C: four observers, twelve units, gaps; alpha 0.743 nominal and 0.849 interval.
WITH_GAPS: list[tuple[int, ...]] = [
    (1, 1, 1),
    (2, 2, 3, 2),
    (3, 3, 3, 3),
    (3, 3, 3, 3),
    (2, 2, 2, 2),
    (1, 2, 3, 4),
    (4, 4, 4, 4),
    (1, 1, 2, 1),
    (2, 2, 2, 2),
    (5, 5, 5),
    (1, 1),
    (3,),
]


def test_nominal_alpha_matches_krippendorff_for_two_observers() -> None:
    # Coincidences: 10 of 0-0, 4 of 0-1, 4 of 1-0, 2 of 1-1, so 14 zeros and 6 ones of 20.
    by_hand = 1 - Fraction(20 - 1) * 4 / (14 * 6)
    assert nominal_alpha(TWO_VALUES) == pytest.approx(float(by_hand))
    assert nominal_alpha(TWO_VALUES) == pytest.approx(0.095, abs=0.0005)


def test_nominal_alpha_matches_krippendorff_for_several_labels() -> None:
    # Nine of twelve units agree, so 2 · 9 of 24 values stand on the diagonal. Of each value there
    # are a 4, b 6, c 6, d 6, e 2: together with themselves 4·3 + 6·5 + 6·5 + 6·5 + 2·1 = 104 pairs.
    by_hand = Fraction(23 * 18 - 104, 24 * 23 - 104)
    assert nominal_alpha(FIVE_VALUES) == pytest.approx(float(by_hand))
    assert nominal_alpha(FIVE_VALUES) == pytest.approx(0.692, abs=0.0005)


def test_alpha_ignores_units_with_one_observer() -> None:
    assert nominal_alpha(WITH_GAPS) == pytest.approx(0.743, abs=0.0005)
    assert nominal_alpha(WITH_GAPS) == nominal_alpha(WITH_GAPS[:-1])


def test_interval_alpha_weighs_disagreement_by_squared_distance() -> None:
    assert interval_alpha(WITH_GAPS) == pytest.approx(0.849, abs=0.0005)
    # By hand: units (1, 2) and (3, 3); observed 2 · 1² = 2, and all ordered pairs of 1, 2, 3, 3
    # give 2 · (1 + 4 + 4 + 1 + 1 + 0) = 22, so alpha = 1 - 3 · 2 / 22.
    assert interval_alpha([(1, 2), (3, 3)]) == pytest.approx(float(1 - Fraction(6, 22)))


def test_alpha_is_one_for_full_agreement_and_undefined_without_variation() -> None:
    assert nominal_alpha(["aa", "bb"]) == 1
    assert interval_alpha([(1, 1), (2, 2)]) == 1
    assert nominal_alpha(["aa", "aaa"]) is None
    assert interval_alpha([(4, 4), (4, 4)]) is None
    assert nominal_alpha([]) is None
    assert interval_alpha([(1,)]) is None


def test_alpha_is_negative_for_systematic_disagreement() -> None:
    found = nominal_alpha(["ab", "ba"])
    assert found is not None
    assert found < 0


def test_kappa_measures_agreement_beyond_chance() -> None:
    # By hand: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no. Agreed 35/50; by chance
    # (25·30 + 25·20) / 50² = 1/2; kappa = (0.7 - 0.5) / 0.5.
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)
    assert cohen_kappa([("y", "y"), ("n", "n")]) == 1
    assert cohen_kappa([("y", "y")]) is None
    assert cohen_kappa([]) is None


@pytest.mark.parametrize("value", [0.1, 0.3, 1.1, 7.3, 8.7, 9.9])
@pytest.mark.parametrize("votes", [2, 3, 5, 7])
@pytest.mark.parametrize("units", [1, 2, 10])
def test_interval_alpha_is_undefined_for_one_common_score(
    value: float, votes: int, units: int
) -> None:
    assert interval_alpha([[value] * votes] * units) is None


def test_interval_alpha_is_one_for_equal_fractional_scores() -> None:
    assert interval_alpha([[0.1] * 3, [0.7] * 3]) == 1.0
