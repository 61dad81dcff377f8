"""Paired differences between agents, with bootstrap intervals."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

CONFIDENCE = 0.95
RESAMPLES = 2_000
#: From so many episodes on, an episode is the unit that is resampled; below it, a turn is.
LEAST_EPISODES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """The mean of (one agent minus another) over the same turns, with its interval.

    `unit` says what was resampled. Turns of one episode are not independent, so episodes are used
    as soon as there are enough of them.
    """

    mean: float
    low: float
    high: float
    pairs: int
    unit: str

    @property
    def clear(self) -> bool:
        """Tell whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def paired_difference(
    differences: Mapping[str, Sequence[float]], *, seed: int, resamples: int = RESAMPLES
) -> PairedDifference | None:
    """Return the difference over episodes, each with its turns' differences; None of nothing."""
    episodes = [values for values in differences.values() if values]
    everything = [value for values in episodes for value in values]
    if not everything:
        return None
    if len(episodes) >= LEAST_EPISODES:
        # Each episode enters with its sum and its number of turns, so that a resample's mean is
        # the mean over its turns.
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
    """Return the resamples, drawn once for all the metrics and pairs of a run."""
    draw = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    places = range(units)
    return tuple(itemgetter(*draw.choices(places, k=units)) for _ in range(resamples))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the ordered values lie, interpolated."""
    if not ordered:
        raise ValueError("no values")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    # Clamped, because rounding may carry an interpolation past its two ends.
    value = ordered[below] * (1 - (place - below)) + ordered[above] * (place - below)
    return min(max(value, ordered[below]), ordered[above])
