"""Paired differences with bootstrap intervals, and agreement of judges."""

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
#: With at least this number of episodes, episodes are resampled instead of turns.
MIN_EPISODES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The mean difference of two agents over the same turns, with its interval.

    `unit` is what was resampled: turn or episode. Turns of one episode are not independent, so
    episodes are resampled if there are enough.
    """

    mean: float
    low: float
    high: float
    pairs: int
    unit: str

    @property
    def clear(self) -> bool:
        """Return True if the interval does not contain zero."""
        return self.low > 0 or self.high < 0


def paired_difference(
    differences: Mapping[str, Sequence[float]], *, seed: int, resamples: int = RESAMPLES
) -> PairedDifference | None:
    """Return the mean difference; `differences` has those of each turn, by episode."""
    episodes = [values for values in differences.values() if values]
    everything = [value for values in episodes for value in values]
    if not everything:
        return None
    if len(episodes) >= MIN_EPISODES:
        # An episode has its sum and its number of turns, so that the mean of a resample is the
        # mean over its turns.
        units = [(math.fsum(values), len(values)) for values in episodes]
        unit = "episode"
    else:
        units = [(value, 1) for value in everything]
        unit = "turn"
    low, high = _bootstrap(units, seed, resamples)
    return PairedDifference(
        mean=math.fsum(everything) / len(everything),
        low=low,
        high=high,
        pairs=len(everything),
        unit=unit,
    )


def _bootstrap(
    units: Sequence[tuple[float, int]], seed: int, resamples: int
) -> tuple[float, float]:
    if len(units) == 1:
        mean = units[0][0] / units[0][1]
        return mean, mean
    sums = [unit[0] for unit in units]
    sizes = [unit[1] for unit in units]
    means = sorted(
        sum(chosen(sums)) / sum(chosen(sizes)) for chosen in _choices(len(units), seed, resamples)
    )
    tail = (1 - CONFIDENCE) / 2
    return percentile(means, tail), percentile(means, 1 - tail)


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
    if not pairs:
        return None
    first = Counter(one for one, _ in pairs)
    second = Counter(other for _, other in pairs)
    chance = sum(count * second[label] for label, count in first.items()) / len(pairs) ** 2
    if chance == 1:
        return None
    agreed = sum(one == other for one, other in pairs) / len(pairs)
    return (agreed - chance) / (1 - chance)


def threshold_of(language: str, scored: Sequence[tuple[float, bool]]) -> ClaimThreshold:
    """Return the score halfway between supported and unsupported labelled claims.

    The unclear band has half a pooled standard deviation on each side: there both labels occur
    nearly equally often.
    """
    groups = [[score for score, label in scored if label is wanted] for wanted in (True, False)]
    if not all(groups):
        raise ValueError(f"supported and unsupported examples are required for {language!r}")
    means = [math.fsum(group) / len(group) for group in groups]
    squares = math.fsum(
        (score - mean) ** 2 for group, mean in zip(groups, means, strict=True) for score in group
    )
    value = sum(means) / 2
    margin = math.sqrt(squares / max(1, len(scored) - 2)) / 2
    return ClaimThreshold(
        language=language,
        value=round(value, 4),
        low=round(max(0.0, value - margin), 4),
        high=round(min(1.0, value + margin), 4),
        examples=len(scored),
    )
