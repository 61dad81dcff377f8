"""The default evaluation: its numbers are frozen, and the README shows them."""

from pathlib import Path
from typing import Any

import pytest

from acc.bootstrap import evaluation, reports
from acc.cli.eval import EvaluationOptions, configure

ROOT = Path(__file__).parents[2]
#: Means over all scored turns, to the digits of summary.json.
MEANS = {
    "baseline": {
        "outcome": 8.285031,
        "relevance": 7.530488,
        "answer_quality": 5.98263,
        "instruction_following": 9.627006,
        "coherence": 10.0,
        "hallucination": 0.172962,
        "drift": 0.03806,
        "memory_tokens": 2515.294,
        "last_memory_tokens": 3993.6,
    },
    "retrieval": {
        "outcome": 8.129716,
        "relevance": 7.602669,
        "answer_quality": 6.058338,
        "instruction_following": 8.864525,
        "coherence": 9.993333,
        "hallucination": 0.1646,
        "drift": 0.115865,
        "memory_tokens": 304.458,
        "last_memory_tokens": 340.4,
    },
    "acc": {
        "outcome": 8.509943,
        "relevance": 7.742935,
        "answer_quality": 6.463757,
        "instruction_following": 9.833078,
        "coherence": 10.0,
        "hallucination": 0.1024,
        "drift": 0.017033,
        "memory_tokens": 478.42,
        "last_memory_tokens": 504.5,
    },
    "oracle": {
        "outcome": 8.836107,
        "relevance": 8.235734,
        "answer_quality": 7.182463,
        "instruction_following": 9.92623,
        "coherence": 10.0,
        "hallucination": 0.089667,
        "drift": 0.007528,
        "memory_tokens": 427.884,
        "last_memory_tokens": 603.1,
    },
}
CLAIMS = {"baseline": 1068, "retrieval": 967, "acc": 911, "oracle": 900}
#: Mean, low and high end of the paired difference between acc and baseline.
ACC_MINUS_BASELINE_OUTCOME = (0.224912, 0.07843, 0.384118)


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("shipped") / "run"
    directory = reports.create_run(path, configure(EvaluationOptions()))
    run = evaluation.make_evaluation(directory, workers=2)
    list(run.run(directory.jobs()))
    assert run.outcome.errors == {}
    return reports.write_results(directory).summary


@pytest.mark.parametrize("agent", MEANS)
def test_means_of_the_default_evaluation_are_unchanged(summary: dict[str, Any], agent: str) -> None:
    measured = summary["agents"][agent]
    assert {name: measured[name]["mean"] for name in MEANS[agent]} == MEANS[agent]
    assert (measured["scored"], measured["failed"], measured["unscored"]) == (500, 0, 0)
    assert measured["claims"] == CLAIMS[agent]


def test_paired_difference_of_the_default_evaluation_is_unchanged(summary: dict[str, Any]) -> None:
    (row,) = [
        row
        for row in summary["paired"]
        if (row["agent"], row["versus"], row["metric"]) == ("acc", "baseline", "outcome")
    ]
    assert (row["mean"], row["low"], row["high"]) == ACC_MINUS_BASELINE_OUTCOME


@pytest.mark.parametrize("agent", MEANS)
def test_readme_shows_the_frozen_means(agent: str) -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    row = next(line for line in lines if line.startswith(f"| {agent} "))
    means = MEANS[agent]
    scores = ("relevance", "answer_quality", "instruction_following", "coherence")
    cells = [f"{means[name]:.2f}" for name in scores]
    cells += [f"{100 * means[name]:.1f} %" for name in ("hallucination", "drift")]
    cells += [f"{means[name]:,.0f}" for name in ("memory_tokens", "last_memory_tokens")]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == cells
