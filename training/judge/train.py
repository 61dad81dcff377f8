"""Train the model of claims of the rubric judge with the shipped labelled answers.

PYTHONPATH=. .venv/bin/python -m training.judge.train          # write claim_models.json
PYTHONPATH=. .venv/bin/python -m training.judge.train --check  # print the values only

There is one model of all writers and, for an honest `acc judge check`, one without each writer. It
is a logistic regression with an L2 penalty; the sign of each weight is that of its meaning.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from acc.adapters.evaluation.calibration import load_cases
from acc.adapters.evaluation.claims import EvidencePool
from acc.adapters.evaluation.rubric_judge import read_context
from acc.domain.claim_features import SUPPORTING, ClaimModel
from acc.domain.statistics import cohen_kappa, ranking_quality, threshold_of
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import Label

OUT = Path(__file__).parents[2] / "src" / "acc" / "calibration" / "claim_models.json"
#: Strength of the penalty, for features with a standard deviation of 1.
PENALTY = 3.0
MOST_SWEEPS = 300
LEAST_CHANGE = 1e-5
DIGITS = 4
_ANY_THRESHOLD = ClaimThreshold(language="", value=0.0, low=0.0, high=0.0, examples=0)
_NO_MODEL = ClaimModel(bias=0.0, weights={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The features of a claim with its label."""

    writer: str
    language: str
    features: dict[str, float]
    is_supported: bool


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def read_examples() -> list[Example]:
    """Return the claims of the shipped answers."""
    found: list[Example] = []
    for case in load_cases():
        claims = [item for item in case.items if item.is_claim]
        if not claims:
            continue
        pool = EvidencePool(read_context(case).evidence(), _ANY_THRESHOLD, _NO_MODEL)
        found += [
            Example(
                writer=case.writer,
                language=case.language,
                features=pool.features(item.text),
                is_supported=item.label is Label.SUPPORTED,
            )
            for item in claims
        ]
    return found


def fit(examples: Sequence[Example]) -> ClaimModel:
    """Return the weights with the least penalised loss, by coordinate descent."""
    columns: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row, example in enumerate(examples):
        for name, value in example.features.items():
            columns[name].append((row, value))
    count = len(examples)
    labels = [float(example.is_supported) for example in examples]
    logits = [0.0] * count
    weights = dict.fromkeys(sorted(columns), 0.0)
    penalties = {name: PENALTY * _variance(columns[name], count) for name in weights}
    bias = 0.0
    everything = [(row, 1.0) for row in range(count)]
    for _ in range(MOST_SWEEPS):
        step = _newton_step(everything, logits, labels, 0.0, 0.0)
        bias += step
        change = abs(step)
        for row in range(count):
            logits[row] += step
        for name, column in columns.items():
            old = weights[name]
            new = old + _newton_step(column, logits, labels, penalties[name], old)
            new = max(0.0, new) if name in SUPPORTING else min(0.0, new)
            if new != old:
                weights[name] = new
                change = max(change, abs(new - old))
                for row, value in column:
                    logits[row] += (new - old) * value
        if change < LEAST_CHANGE:
            break
    return ClaimModel(
        bias=round(bias, DIGITS),
        weights={
            name: round(weight, DIGITS) for name, weight in weights.items() if round(weight, DIGITS)
        },
    )


def _variance(column: Sequence[tuple[int, float]], count: int) -> float:
    mean = math.fsum(value for _, value in column) / count
    return math.fsum(value * value for _, value in column) / count - mean * mean


def _newton_step(
    column: Sequence[tuple[int, float]],
    logits: Sequence[float],
    labels: Sequence[float],
    penalty: float,
    weight: float,
) -> float:
    slope, curvature = penalty * weight, penalty + 1e-9
    for row, value in column:
        chance = 1 / (1 + math.exp(-logits[row]))
        slope += value * (chance - labels[row])
        curvature += value * value * chance * (1 - chance)
    return -slope / curvature


def thresholds(examples: Sequence[Example], probabilities: Sequence[float]) -> list[ClaimThreshold]:
    """Return the threshold of each language from probabilities and labels."""
    scored: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for example, probability in zip(examples, probabilities, strict=True):
        scored[example.language].append((probability, example.is_supported))
    return [threshold_of(language, pairs) for language, pairs in sorted(scored.items())]


def main() -> None:
    """Train, print the values and write the models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="print the values, write nothing")
    options = parser.parse_args()
    examples = read_examples()
    writers = sorted({example.writer for example in examples})
    models = {"": fit(examples)}
    held_out: dict[int, float] = {}
    for writer in writers:
        model = models[writer] = fit([one for one in examples if one.writer != writer])
        for row, example in enumerate(examples):
            if example.writer == writer:
                held_out[row] = model.probability(example.features)
    if not options.check:
        write(examples, models)
    report(examples, [held_out[row] for row in range(len(examples))], models[""])


def write(examples: Sequence[Example], models: Mapping[str, ClaimModel]) -> None:
    """Write the models with the thresholds of their examples."""
    entries: list[dict[str, object]] = []
    for writer, model in models.items():
        used = [one for one in examples if one.writer != writer]
        found = thresholds(used, [model.probability(one.features) for one in used])
        entries.append(
            {
                "without": writer,
                "bias": model.bias,
                "weights": dict(sorted(model.weights.items())),
                "thresholds": [
                    {
                        "language": one.language,
                        "value": one.value,
                        "low": one.low,
                        "high": one.high,
                        "examples": one.examples,
                    }
                    for one in found
                ],
            }
        )
    OUT.write_text(json.dumps({"models": entries}, indent=1) + "\n", encoding="utf-8")


def report(examples: Sequence[Example], probabilities: Sequence[float], model: ClaimModel) -> None:
    """Print the agreement of each writer's labels with the model of all other writers."""
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for example, probability in zip(examples, probabilities, strict=True):
        for group in (example.language, example.writer):
            groups[group].append((probability, example.is_supported))
    for group, pairs in sorted(groups.items(), key=lambda entry: (len(entry[0]), entry[0])):
        kappa = cohen_kappa([(p >= 0.5, label) for p, label in pairs])
        quality = ranking_quality(pairs)
        _print(f"{group}: {len(pairs)} claims, kappa {kappa or 0:.2f}, AUROC {quality:.3f}")
    for name, weight in sorted(model.weights.items(), key=lambda entry: -abs(entry[1])):
        _print(f"  {name} {weight:+.2f}")


if __name__ == "__main__":
    main()
