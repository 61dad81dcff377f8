"""Percentiles, bootstrap intervals and agreement coefficients."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.domain.statistics import (
    MIN_SCENARIOS,
    cohen_kappa,
    detectable_difference,
    holm,
    interval_alpha,
    kappa_interval,
    nominal_alpha,
    paired_difference,
    percentile,
    power,
    t_probability,
    t_quantile,
    threshold_of,
)

floats = st.floats(min_value=-10, max_value=10)
scenarios = st.dictionaries(st.text(max_size=4), st.lists(floats, max_size=5), max_size=24)


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
@given(scenarios, st.integers())
def test_interval_is_ordered_contains_the_mean_and_is_seeded(
    differences: dict[str, list[float]], seed: int
) -> None:
    found = paired_difference(differences, seed=seed, resamples=50)
    filled = [values for values in differences.values() if values]
    if not filled:
        assert found is None
        return
    assert found is not None
    assert found.pairs == sum(map(len, filled))
    assert found.scenarios == len(filled)
    assert found == paired_difference(differences, seed=seed, resamples=50)
    assert (found.low is None) == (len(filled) < MIN_SCENARIOS) == bool(found.reason)
    if found.low is not None and found.high is not None and found.method != "cluster bootstrap":
        assert found.low - 1e-9 <= found.mean <= found.high + 1e-9


def test_turns_and_seeds_of_a_scenario_do_not_make_the_interval_narrower() -> None:
    means = [0.1, 0.4, -0.2, 0.3, 0.0, 0.2]
    few = paired_difference({str(n): [value] for n, value in enumerate(means)}, seed=0)
    many = paired_difference({str(n): [value] * 500 for n, value in enumerate(means)}, seed=0)
    assert few is not None
    assert many is not None
    assert (many.low, many.high) == pytest.approx((few.low, few.high))


def test_t_interval_of_scenario_means_matches_the_table() -> None:
    # Mean 3.5, standard deviation 1.870829, n = 6, t(0.975; 5) = 2.570582.
    found = paired_difference({str(n): [float(n)] for n in range(1, 7)}, seed=0)
    assert found is not None
    assert found.method == "t"
    margin = 2.570582 * 1.870829 / math.sqrt(6)
    assert (found.low, found.high) == pytest.approx((3.5 - margin, 3.5 + margin), abs=1e-4)
    # t = 3.5 / 0.763763 = 4.582576 with 5 degrees of freedom.
    assert found.p_value == pytest.approx(0.005934, abs=1e-5)


@pytest.mark.parametrize(
    ("count", "method"), [(5, "none"), (6, "t"), (19, "t"), (20, "cluster bootstrap")]
)
def test_method_depends_on_the_number_of_scenarios(count: int, method: str) -> None:
    found = paired_difference({str(n): [1.0, float(n)] for n in range(count)}, seed=0)
    assert found is not None
    assert found.method == method
    assert found.clear is (method != "none")


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [(0.975, 1, 12.7062), (0.975, 5, 2.5706), (0.975, 10, 2.2281), (0.995, 18, 2.8784)],
)
def test_t_quantile_matches_the_table(probability: float, freedom: int, expected: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(expected, abs=1e-4)


def test_t_distribution_refuses_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="probability"):
        t_quantile(0.2, 5)
    with pytest.raises(ValueError, match="freedom"):
        t_probability(1.0, 0)


def test_holm_multiplies_by_the_comparisons_that_are_left() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_equal_scenarios_give_interval_of_zero_width() -> None:
    found = paired_difference({str(n): [2.0] for n in range(8)}, seed=1)
    assert found is not None
    assert (found.low, found.high, found.p_value) == (2.0, 2.0, 0.0)


def test_scenarios_without_turns_are_ignored() -> None:
    assert paired_difference({"a": [], "b": []}, seed=0) is None


def test_threshold_is_halfway_between_the_labels_and_refuses_one_label() -> None:
    threshold = threshold_of("en", [(0.2, False), (0.4, False), (0.8, True), (1.0, True)])
    assert threshold.value == pytest.approx(0.6)
    assert threshold.low == pytest.approx(0.6 - math.sqrt(0.02) / 2, abs=1e-4)
    assert threshold.examples == 4
    # More supported claims lower the threshold, at most to the mean of the unsupported ones.
    common = [(0.8, True), (1.0, True)]
    more = threshold_of("en", [(0.2, False), (0.4, False), *common * 3])
    assert 0.5 < more.value < 0.6
    rare = threshold_of("en", [(0.2, False), (0.6, False), *[(0.4, True), (0.6, True)] * 500])
    assert rare.value == pytest.approx(0.4)
    with pytest.raises(ValueError, match="required"):
        threshold_of("en", [(0.2, False)])


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


def test_kappa_interval_resamples_whole_clusters() -> None:
    right, wrong = ("y", "y"), ("y", "n")
    mixed = [[right, ("n", "n"), wrong]] * 30
    interval = kappa_interval(mixed)
    assert interval is not None
    # Equal clusters have no sampling error, although their items disagree.
    assert interval[0] == interval[1] == pytest.approx(0.4)
    apart = kappa_interval([[right, ("n", "n")]] * 15 + [[wrong, ("n", "y")]] * 15)
    assert apart is not None
    assert apart[0] < -0.2
    assert apart[1] > 0.2
    assert kappa_interval([mixed[0]]) is None
    assert kappa_interval([[right], [right]]) is None


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


def test_power_grows_with_scenarios_and_needs_six() -> None:
    values = [power(0.5, 1.0, count) for count in (5, 6, 12, 24, 48, 96)]
    assert values[0] == 0.0
    assert values == sorted(values)
    assert values[-1] > 0.95


def test_detectable_difference_has_the_wanted_power() -> None:
    found = detectable_difference(1.0, 24)
    assert found is not None
    assert power(found, 1.0, 24) == pytest.approx(0.8, abs=1e-6)
    assert detectable_difference(1.0, 5) is None
