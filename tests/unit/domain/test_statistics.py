import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.domain.statistics import MIN_EPISODES, PairedDifference, paired_difference, percentile

floats = st.floats(min_value=-10, max_value=10)
episodes = st.dictionaries(st.text(max_size=4), st.lists(floats, max_size=5), max_size=12)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.floats(min_value=0, max_value=1),
)
def test_percentile_lies_between_the_least_and_the_greatest(
    values: list[float], share: float
) -> None:
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
def test_interval_is_ordered_within_the_differences_and_fixed_by_its_seed(
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
def test_equal_differences_leave_no_spread(value: float, count: int) -> None:
    found = paired_difference({"a": [value] * count}, seed=1, resamples=20)
    assert found is not None
    assert math.isclose(found.low, found.mean, abs_tol=1e-12)
    assert math.isclose(found.high, found.mean, abs_tol=1e-12)


def test_interval_of_a_wide_sample_surrounds_its_mean() -> None:
    found = paired_difference({"a": [float(n) for n in range(40)]}, seed=3)
    assert found is not None
    assert found.low < found.mean == 19.5 < found.high


@pytest.mark.parametrize(("count", "unit"), [(MIN_EPISODES - 1, "turn"), (MIN_EPISODES, "episode")])
def test_episodes_are_resampled_as_soon_as_there_are_enough(count: int, unit: str) -> None:
    found = paired_difference({str(n): [1.0, float(n)] for n in range(count)}, seed=0, resamples=9)
    assert found is not None
    assert found.unit == unit


def test_episodes_without_turns_do_not_count() -> None:
    assert paired_difference({"a": [], "b": []}, seed=0) is None


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [(0.1, 0.2, True), (-0.2, -0.1, True), (-0.1, 0.1, False), (0, 1, False)],
)
def test_difference_is_clear_when_its_interval_leaves_out_zero(
    low: float, high: float, clear: bool
) -> None:
    found = PairedDifference(mean=0.0, low=low, high=high, pairs=2, unit="turn")
    assert found.clear is clear
