"""Paired differences with intervals over scenarios, and agreement of judges."""

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from acc.domain.value_objects.evaluation import ClaimThreshold

CONFIDENCE = 0.95
RESAMPLES = 2_000
KAPPA_RESAMPLES = 1_000
#: With fewer scenarios there is no interval.
MIN_SCENARIOS = 6
#: With at least this number of scenarios they are resampled; with fewer, t intervals are used.
MIN_RESAMPLED_SCENARIOS = 20
TOO_FEW_SCENARIOS = "fewer than 6 scenarios: the difference of other scenarios cannot be estimated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The mean difference of two agents over scenarios, with its interval.

    The unit of inference is the scenario: turns and seeds of one scenario are not independent.
    `mean` is the mean of the scenario means. With fewer than six scenarios there is no interval and
    no p value, and `reason` says why.
    """

    mean: float
    low: float | None
    high: float | None
    p_value: float | None
    pairs: int
    scenarios: int
    method: str
    reason: str = ""

    @property
    def clear(self) -> bool:
        """Return True if there is an interval that does not contain zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def paired_difference(
    differences: Mapping[str, Sequence[float]], *, seed: int, resamples: int = RESAMPLES
) -> PairedDifference | None:
    """Return the mean difference; `differences` has those of all turns, by scenario."""
    scenarios = [values for values in differences.values() if values]
    if not scenarios:
        return None
    means = [math.fsum(values) / len(values) for values in scenarios]
    count = len(means)
    mean = math.fsum(means) / count
    pairs = sum(map(len, scenarios))
    if count < MIN_SCENARIOS:
        return PairedDifference(
            mean=mean,
            low=None,
            high=None,
            p_value=None,
            pairs=pairs,
            scenarios=count,
            method="none",
            reason=TOO_FEW_SCENARIOS,
        )
    if min(means) == max(means):
        low = high = mean
        p_value = 0.0 if mean else 1.0
        method = "constant"
    elif count < MIN_RESAMPLED_SCENARIOS:
        error = math.sqrt(math.fsum((value - mean) ** 2 for value in means) / (count - 1) / count)
        margin = t_quantile(1 - (1 - CONFIDENCE) / 2, count - 1) * error
        low, high, method = mean - margin, mean + margin, "t"
        p_value = 2 * (1 - t_probability(abs(mean) / error, count - 1))
    else:
        resampled = sorted(
            sum(chosen(means)) / count for chosen in _choices(count, seed, resamples)
        )
        # The percentile interval is too narrow by this factor with few units.
        widening = math.sqrt(count / (count - 1)) * t_quantile(0.975, count - 1) / 1.959964
        tail = (1 - CONFIDENCE) / 2
        low = mean - widening * (mean - percentile(resampled, tail))
        high = mean + widening * (percentile(resampled, 1 - tail) - mean)
        below = sum(mean - widening * (mean - value) <= 0 for value in resampled)
        share = min(below, resamples - below) + 1
        method, p_value = "cluster bootstrap", min(1.0, 2 * share / (resamples + 1))
    return PairedDifference(
        mean=mean,
        low=low,
        high=high,
        p_value=p_value,
        pairs=pairs,
        scenarios=count,
        method=method,
    )


def power(difference: float, deviation: float, scenarios: int) -> float:
    """Return the probability that a true difference is clear with a number of scenarios.

    `deviation` is the standard deviation of the differences between scenarios. Student's t is
    shifted by the expected test value, which is close to the noncentral t from six scenarios on.
    """
    if scenarios < MIN_SCENARIOS:
        return 0.0
    if deviation <= 0:
        return 1.0 if difference else 0.0
    expected = abs(difference) / (deviation / math.sqrt(scenarios))
    critical = t_quantile(1 - (1 - CONFIDENCE) / 2, scenarios - 1)
    return t_probability(expected - critical, scenarios - 1)


def detectable_difference(deviation: float, scenarios: int, *, wanted: float = 0.8) -> float | None:
    """Return the smallest difference that is clear with the wanted power, or None."""
    if scenarios < MIN_SCENARIOS or deviation <= 0:
        return None
    low, high = 0.0, 100 * deviation
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if power(middle, deviation, scenarios) >= wanted else (middle, high)
        )
    return high


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for the number of comparisons, by the method of Holm."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected


def t_probability(value: float, freedom: int) -> float:
    """Return the probability that Student's t is at most `value`."""
    if freedom < 1:
        raise ValueError(f"freedom must be at least 1, got {freedom}")
    # A finite sum for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    angle = math.atan(value / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    if freedom % 2:
        total, factor = 0.0, cosine
        for step in range(1, freedom - 1, 2):
            total += factor
            factor *= cosine**2 * (step + 1) / (step + 2)
        area = 2 / math.pi * (angle + sine * total)
    else:
        total, factor = 0.0, 1.0
        for step in range(0, freedom - 1, 2):
            total += factor
            factor *= cosine**2 * (step + 1) / (step + 2)
        area = sine * total
    return 0.5 + area / 2


@lru_cache(maxsize=64)
def t_quantile(probability: float, freedom: int) -> float:
    """Return the value that Student's t does not exceed with a probability above one half."""
    if not 0.5 <= probability < 1:
        raise ValueError(f"probability must be in [0.5, 1), got {probability}")
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if t_probability(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@lru_cache(maxsize=2)
def _choices(
    units: int, seed: int, resamples: int
) -> tuple[Callable[[Sequence[float]], tuple[float, ...]], ...]:
    """Return the resamples, which all metrics and pairs of a run share."""
    draw = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    places = range(units)
    return tuple(itemgetter(*draw.choices(places, k=units)) for _ in range(resamples))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the interpolated percentile of ordered values."""
    if not ordered:
        raise ValueError("ordered must not be empty")
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    # Clamped, because rounding can move the result beyond its ends.
    value = ordered[below] * (1 - (position - below)) + ordered[above] * (position - below)
    return min(max(value, ordered[below]), ordered[above])


def nominal_alpha(units: Sequence[Sequence[Hashable]]) -> float | None:
    """Return Krippendorff's alpha of nominal labels, or None if all labels are equal.

    Units with fewer than two labels are ignored.
    """
    pairable = [unit for unit in units if len(unit) > 1]
    total = sum(map(len, pairable))
    counts = Counter(label for unit in pairable for label in unit)
    expected = total**2 - sum(count**2 for count in counts.values())
    if not expected:
        return None
    observed = math.fsum(
        (len(unit) ** 2 - sum(count**2 for count in Counter(unit).values())) / (len(unit) - 1)
        for unit in pairable
    )
    return 1 - (total - 1) * observed / expected


def interval_alpha(units: Sequence[Sequence[float]]) -> float | None:
    """Return Krippendorff's alpha of numbers, with squared differences as distance."""
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    expected = _squares(values)
    if not expected:
        return None
    observed = math.fsum(_squares(unit) / (len(unit) - 1) for unit in pairable)
    return 1 - (len(values) - 1) * observed / expected


def _squares(values: Sequence[float]) -> float:
    """Return the sum of the squared differences of all ordered pairs."""
    # Rounding can make the mean of equal values differ from them.
    if not values or min(values) == max(values):
        return 0.0
    mean = math.fsum(values) / len(values)
    return 2 * len(values) * math.fsum((value - mean) ** 2 for value in values)


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return Cohen's kappa of two raters, or None if both use a single label."""
    return _kappa(Counter(pairs))


def _kappa(counts: Mapping[tuple[Hashable, Hashable], int]) -> float | None:
    total = sum(counts.values())
    first, second = Counter[Hashable](), Counter[Hashable]()
    for (one, other), count in counts.items():
        first[one] += count
        second[other] += count
    chance = sum(count * second[label] for label, count in first.items())
    if chance == total**2:
        return None
    agreed = total * sum(count for (one, other), count in counts.items() if one == other)
    return (agreed - chance) / (total**2 - chance)


def kappa_interval(
    clusters: Sequence[Sequence[tuple[Hashable, Hashable]]], *, seed: int = 0
) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of Cohen's kappa over clusters of pairs.

    Items of one cluster, such as the claims about one text, are resampled together. None if there
    are fewer than two clusters, or if kappa is never defined.
    """
    tables = [Counter(cluster) for cluster in clusters if cluster]
    if len(tables) < 2:
        return None
    draw = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    found: list[float] = []
    for _ in range(KAPPA_RESAMPLES):
        chosen = Counter[tuple[Hashable, Hashable]]()
        for table in draw.choices(tables, k=len(tables)):
            chosen.update(table)
        value = _kappa(chosen)
        if value is not None:
            found.append(value)
    found.sort()
    tail = (1 - CONFIDENCE) / 2
    return (percentile(found, tail), percentile(found, 1 - tail)) if found else None


def threshold_of(language: str, scored: Sequence[tuple[float, bool]]) -> ClaimThreshold:
    """Return the score from which a labelled claim is rather supported than not.

    It is the point where two normal distributions with a common deviation, one for each label and
    weighted by its number of claims, are equal. Half a pooled standard deviation on each side is
    the unclear band: there both labels occur nearly equally often.
    """
    groups = [[score for score, label in scored if label is wanted] for wanted in (True, False)]
    if not all(groups):
        raise ValueError(f"supported and unsupported examples are required for {language!r}")
    high, low = (math.fsum(group) / len(group) for group in groups)
    squares = math.fsum(
        (score - mean) ** 2
        for group, mean in zip(groups, (high, low), strict=True)
        for score in group
    )
    variance = squares / max(1, len(scored) - 2)
    value = (high + low) / 2
    if high > low:
        shift = variance / (high - low) * math.log(len(groups[0]) / len(groups[1]))
        # A rare label must not move the threshold beyond the other label's mean.
        value = min(high, max(low, value - shift))
    margin = math.sqrt(variance) / 2
    return ClaimThreshold(
        language=language,
        value=round(value, 4),
        low=round(max(0.0, value - margin), 4),
        high=round(min(1.0, value + margin), 4),
        examples=len(scored),
    )


def ranking_quality(scored: Sequence[tuple[float, bool]]) -> float | None:
    """Return AUROC: the chance that a supported claim scores above an unsupported one.

    Equal scores count one half. None if one of the labels is missing.
    """
    ordered = sorted(scored)
    supported = sum(label for _, label in ordered)
    unsupported = len(ordered) - supported
    if not supported or not unsupported:
        return None
    wins = 0.0
    below = start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        positive = sum(label for _, label in ordered[start:end])
        negative = end - start - positive
        wins += positive * (below + negative / 2)
        below += negative
        start = end
    return wins / (supported * unsupported)
