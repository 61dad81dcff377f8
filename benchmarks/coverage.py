"""Measure by simulation how often the 95 % interval of a difference contains the true value.

Scenarios differ, seeds are near-copies of their scenario, and turns vary within an episode.

    python benchmarks/coverage.py
    python benchmarks/coverage.py --runs 2000
"""

import argparse
import random

from acc.domain.statistics import paired_difference


def simulate(
    draw: random.Random, scenarios: int, seeds: int, turns: int, *, skewed: bool
) -> dict[str, list[float]]:
    """Return differences with the true mean 0, by scenario."""
    found: dict[str, list[float]] = {}
    for scenario in range(scenarios):
        effect = draw.expovariate(1.0) - 1.0 if skewed else draw.gauss(0.0, 1.0)
        by_turn = [effect + draw.gauss(0.0, 0.5) for _ in range(turns)]
        found[str(scenario)] = [
            value + draw.gauss(0.0, 0.1) for _ in range(seeds) for value in by_turn
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    options = parser.parse_args()
    draw = random.Random(20)  # noqa: S311 - a simulation
    print(f"{options.runs} runs each; the interval shall contain the true value in 95 %")
    for scenarios in (6, 8, 12, 19, 20, 24, 40):
        for skewed in (False, True):
            covered = rejected = 0
            method = ""
            for run in range(options.runs):
                data = simulate(draw, scenarios, 3, 10, skewed=skewed)
                found = paired_difference(data, seed=run % 4, resamples=500)
                assert found is not None
                assert found.low is not None
                assert found.high is not None
                assert found.p_value is not None
                covered += found.low <= 0 <= found.high
                rejected += found.p_value < 0.05
                method = found.method
            shape = "skewed" if skewed else "normal"
            print(
                f"{scenarios:3} scenarios, {shape}, {method}: covered "
                f"{100 * covered / options.runs:.1f} %, p < 0.05 in "
                f"{100 * rejected / options.runs:.1f} %"
            )


if __name__ == "__main__":
    main()
