"""Compare interval methods for few scenarios, by simulation with several shapes of effects.

Each line has the share of 95 % intervals that contain the true value, and the median width divided
by that of Student's t, which `acc.domain.statistics` uses below 20 scenarios.

    python benchmarks/interval_methods.py
    python benchmarks/interval_methods.py --runs 2000 --resamples 599
"""

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from acc.domain.statistics import t_quantile

Values = NDArray[np.float64]
Interval = tuple[float, float]
DRAW = np.random.default_rng(5)
WEBB = np.array([sign * math.sqrt(weight) for sign in (-1, 1) for weight in (0.5, 1.0, 1.5)])
#: Effects of scenarios with the true mean 0.
SHAPES: dict[str, Callable[[int], Values]] = {
    "normal": lambda n: DRAW.normal(0, 1, n),
    "uniform": lambda n: DRAW.uniform(-1, 1, n),
    "heavy tails": lambda n: DRAW.standard_t(3, n),
    "exponential": lambda n: DRAW.exponential(1, n) - 1,
    "lognormal": lambda n: np.exp(DRAW.normal(0, 1, n)) - math.exp(0.5),
    "two groups": lambda n: np.where(
        DRAW.random(n) < 0.2, DRAW.normal(2, 1, n), DRAW.normal(-0.5, 0.5, n)
    ),
    "mostly zero": lambda n: np.where(DRAW.random(n) < 0.7, 0.0, DRAW.exponential(1, n)) - 0.3,
}


def student(values: Values, _: int) -> Interval:
    margin = t_quantile(0.975, len(values) - 1) * _error(values)
    return values.mean() - margin, values.mean() + margin


def bootstrap_t(values: Values, resamples: int) -> Interval:
    low, high = np.quantile(_resampled_t(values, resamples), [0.025, 0.975])
    return values.mean() - high * _error(values), values.mean() - low * _error(values)


def symmetric_bootstrap_t(values: Values, resamples: int) -> Interval:
    margin = np.quantile(abs(_resampled_t(values, resamples)), 0.95) * _error(values)
    return values.mean() - margin, values.mean() + margin


def wild_bootstrap_t(values: Values, resamples: int) -> Interval:
    """Return the symmetric interval of a wild bootstrap with the weights of Webb."""
    count = len(values)
    residuals = (values - values.mean()) * math.sqrt(count / (count - 1))
    changed = DRAW.choice(WEBB, (resamples, count)) * residuals
    margin = np.quantile(abs(_t_values(changed, 0.0)), 0.95) * _error(values)
    return values.mean() - margin, values.mean() + margin


def johnson(values: Values, _: int) -> Interval:
    """Return Johnson's modified t: t, shifted by the skewness."""
    shift = _skewness(values) * values.std(ddof=1) / (6 * len(values))
    low, high = student(values, 0)
    return low + shift, high + shift


def hall(values: Values, _: int) -> Interval:
    """Return Hall's interval: t after a cubic transformation that removes the skewness."""
    root, third = math.sqrt(len(values)), _skewness(values) / 3
    quantile = t_quantile(0.975, len(values) - 1)

    def original(value: float) -> float:
        centred = value - third / (2 * root)
        if abs(third) < 1e-9:
            return centred
        return float(root / third * (np.cbrt(1 + 3 * third * centred / root) - 1))

    return (
        values.mean() - original(quantile) * _error(values),
        values.mean() - original(-quantile) * _error(values),
    )


METHODS: dict[str, Callable[[Values, int], Interval]] = {
    "t": student,
    "bootstrap-t": bootstrap_t,
    "symmetric bootstrap-t": symmetric_bootstrap_t,
    "wild, Webb": wild_bootstrap_t,
    "Johnson": johnson,
    "Hall": hall,
}


def _error(values: Values) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _skewness(values: Values) -> float:
    count = len(values)
    cubes = (((values - values.mean()) / values.std(ddof=1)) ** 3).sum()
    return float(count / ((count - 1) * (count - 2)) * cubes)


def _resampled_t(values: Values, resamples: int) -> Values:
    places = DRAW.integers(0, len(values), (resamples, len(values)))
    return _t_values(values[places], float(values.mean()))


def _t_values(samples: Values, centre: float) -> Values:
    errors = samples.std(axis=1, ddof=1) / math.sqrt(samples.shape[1])
    varied = errors > 1e-12  # without variation there is no t value
    found: Values = (samples.mean(axis=1)[varied] - centre) / errors[varied]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--resamples", type=int, default=599)
    options = parser.parse_args()
    print("| scenarios | effects | " + " | ".join(METHODS) + " |")
    print("|---" * (2 + len(METHODS)) + "|")
    for count in (6, 8, 12, 19):
        for shape, draw in SHAPES.items():
            covered = dict.fromkeys(METHODS, 0)
            widths: dict[str, list[float]] = {name: [] for name in METHODS}
            for _ in range(options.runs):
                values = draw(count)
                while values.min() == values.max():  # such data have no interval
                    values = draw(count)
                for name, method in METHODS.items():
                    low, high = method(values, options.resamples)
                    covered[name] += low <= 0 <= high
                    widths[name].append(high - low)
            usual = np.array(widths["t"])
            cells = [
                f"{100 * covered[name] / options.runs:.1f} % "
                f"({np.median(np.array(widths[name]) / usual):.2f})"
                for name in METHODS
            ]
            print(f"| {count} | {shape} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
