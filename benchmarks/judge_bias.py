"""Show by simulation that corrected rates cover the true rate with a biased judge.

python benchmarks/judge_bias.py
python benchmarks/judge_bias.py --runs 2000 --items 2000 --labels 200
"""

import argparse
import random

from acc.domain.labels import LabelItem, LabelKind, corrected_rate, draw_sample, strata_of

#: The probability that the judge calls a good item good, and a bad item bad.
JUDGES = {
    "perfect": (1.0, 1.0),
    "lenient": (0.98, 0.45),
    "strict": (0.60, 0.97),
    "chance": (0.5, 0.5),
}


def simulate(
    rate: float, judge: tuple[float, float], items: int, labels: int, draw: random.Random
) -> tuple[float, float, float, float]:
    """Return the true rate, the raw rate of the judge, and the corrected interval."""
    truth: dict[str, bool] = {}
    population: list[LabelItem] = []
    for number in range(items):
        good = draw.random() >= rate
        correct = draw.random() < judge[0 if good else 1]
        key = f"{number:06d}"
        truth[key] = good
        population.append(
            LabelItem(
                id=key,
                kind=LabelKind.CLAIM,
                agent="a",
                language="en",
                query="q",
                context=(),
                text="t",
                answer="a",
                is_good=good if correct else not good,
                is_unclear=draw.random() < 0.1,
            )
        )
    sample = draw_sample(population, labels, draw.randrange(2**32))
    result = corrected_rate(strata_of(population, {one.id: truth[one.id] for one in sample}))
    true_rate = sum(not good for good in truth.values()) / items
    return true_rate, result.raw, result.low or 0.0, result.high if result.high is not None else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--labels", type=int, default=120)
    options = parser.parse_args()
    draw = random.Random(7)  # noqa: S311 - simulation, not secrecy
    print(f"{options.items} items, {options.labels} labels, {options.runs} runs")
    print("judge     true rate  raw rate  raw error  coverage of the corrected interval  width")
    for name, judge in JUDGES.items():
        for rate in (0.05, 0.2, 0.5):
            results = [
                simulate(rate, judge, options.items, options.labels, draw)
                for _ in range(options.runs)
            ]
            raw = sum(raw for _, raw, _, _ in results) / len(results)
            covered = sum(low <= true <= high for true, _, low, high in results) / len(results)
            width = sum(high - low for _, _, low, high in results) / len(results)
            print(
                f"{name:9} {rate:9.2f} {raw:9.3f} {raw - rate:+10.3f} {covered:35.3f} {width:6.3f}"
            )


if __name__ == "__main__":
    main()
