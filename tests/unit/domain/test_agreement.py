"""Agreement, against worked examples that were published with their results.

The tables are those of K. Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011).
"""

from fractions import Fraction

import pytest

from acc.domain.statistics import cohen_kappa, interval_alpha, nominal_alpha

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


def test_alpha_of_two_observers_is_what_krippendorff_computes_by_hand() -> None:
    # Coincidences: 10 of 0-0, 4 of 0-1, 4 of 1-0, 2 of 1-1, so 14 zeros and 6 ones of 20.
    by_hand = 1 - Fraction(20 - 1) * 4 / (14 * 6)
    assert nominal_alpha(TWO_VALUES) == pytest.approx(float(by_hand))
    assert nominal_alpha(TWO_VALUES) == pytest.approx(0.095, abs=0.0005)


def test_alpha_of_several_labels_is_what_krippendorff_computes_by_hand() -> None:
    # Nine of twelve units agree, so 2 · 9 of 24 values stand on the diagonal. Of each value there
    # are a 4, b 6, c 6, d 6, e 2: together with themselves 4·3 + 6·5 + 6·5 + 6·5 + 2·1 = 104 pairs.
    by_hand = Fraction(23 * 18 - 104, 24 * 23 - 104)
    assert nominal_alpha(FIVE_VALUES) == pytest.approx(float(by_hand))
    assert nominal_alpha(FIVE_VALUES) == pytest.approx(0.692, abs=0.0005)


def test_alpha_leaves_out_what_only_one_observer_saw() -> None:
    assert nominal_alpha(WITH_GAPS) == pytest.approx(0.743, abs=0.0005)
    assert nominal_alpha(WITH_GAPS) == nominal_alpha(WITH_GAPS[:-1])


def test_interval_alpha_weighs_a_disagreement_by_the_square_of_its_distance() -> None:
    assert interval_alpha(WITH_GAPS) == pytest.approx(0.849, abs=0.0005)
    # By hand: units (1, 2) and (3, 3); observed 2 · 1² = 2, and all ordered pairs of 1, 2, 3, 3
    # give 2 · (1 + 4 + 4 + 1 + 1 + 0) = 22, so alpha = 1 - 3 · 2 / 22.
    assert interval_alpha([(1, 2), (3, 3)]) == pytest.approx(float(1 - Fraction(6, 22)))


def test_alpha_is_one_in_full_agreement_and_not_defined_without_variation() -> None:
    assert nominal_alpha(["aa", "bb"]) == 1
    assert interval_alpha([(1, 1), (2, 2)]) == 1
    assert nominal_alpha(["aa", "aaa"]) is None
    assert interval_alpha([(4, 4), (4, 4)]) is None
    assert nominal_alpha([]) is None
    assert interval_alpha([(1,)]) is None


def test_alpha_falls_below_zero_where_observers_disagree_on_purpose() -> None:
    found = nominal_alpha(["ab", "ba"])
    assert found is not None
    assert found < 0


def test_kappa_is_agreement_beyond_chance() -> None:
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
def test_alpha_of_one_fractional_score_that_all_give_is_not_defined(
    value: float, votes: int, units: int
) -> None:
    assert interval_alpha([[value] * votes] * units) is None


def test_alpha_of_fractional_scores_on_which_all_agree_is_one() -> None:
    assert interval_alpha([[0.1] * 3, [0.7] * 3]) == 1.0
