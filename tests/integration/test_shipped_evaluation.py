"""The default run over all shipped scenarios: exact numbers, which the README shows."""

from pathlib import Path
from typing import Any

import pytest

from acc.bootstrap import evaluation, reports
from acc.cli.eval import configure
from acc.cli.eval_options import EvaluationOptions

#: Scored turns of each agent.
SCORED = 1200
ROOT = Path(__file__).parents[2]
#: Means over all scored turns, to the digits of summary.json.
MEANS = {
    "baseline": {
        "outcome": 7.482795,
        "relevance": 6.280616,
        "answer_quality": 4.602978,
        "instruction_following": 9.160365,
        "coherence": 9.887222,
        "hallucination": 0.212923,
        "drift": 0.084826,
        "memory_tokens": 2082.801667,
        "last_memory_tokens": 2888.5,
    },
    "retrieval": {
        "outcome": 7.648891,
        "relevance": 6.822501,
        "answer_quality": 5.177233,
        "instruction_following": 8.69819,
        "coherence": 9.897639,
        "hallucination": 0.129097,
        "drift": 0.131987,
        "memory_tokens": 250.970833,
        "last_memory_tokens": 272.5,
    },
    "acc": {
        "outcome": 7.657653,
        "relevance": 6.676029,
        "answer_quality": 4.975137,
        "instruction_following": 9.085557,
        "coherence": 9.893889,
        "hallucination": 0.174931,
        "drift": 0.09246,
        "memory_tokens": 480.4325,
        "last_memory_tokens": 506.791667,
    },
    "oracle": {
        "outcome": 8.194062,
        "relevance": 7.327917,
        "answer_quality": 5.937111,
        "instruction_following": 9.564138,
        "coherence": 9.947083,
        "hallucination": 0.101972,
        "drift": 0.043625,
        "memory_tokens": 366.825,
        "last_memory_tokens": 514.166667,
    },
}
CLAIMS = {"baseline": 2129, "retrieval": 1902, "acc": 2144, "oracle": 1814}
#: Mean, low and high end of the paired difference between acc and baseline.
ACC_MINUS_BASELINE_OUTCOME = (0.174858, -0.021096, 0.376554)


def run_summary(path: Path, options: EvaluationOptions) -> dict[str, Any]:
    directory = reports.create_run(path, configure(options))
    run = evaluation.make_evaluation(directory, workers=2)
    list(run.run(directory.jobs()))
    assert run.outcome.errors == {}
    return reports.write_results(directory).summary


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("shipped") / "run"
    return run_summary(path, EvaluationOptions())


def test_oracle_is_above_every_memory(summary: dict[str, Any]) -> None:
    outcomes = {name: m["outcome"]["mean"] for name, m in summary["agents"].items()}
    assert outcomes["oracle"] == max(outcomes.values())
    assert summary["agents"]["acc"]["memory_tokens"]["mean"] <= 512


@pytest.mark.parametrize("agent", MEANS)
def test_means_are_unchanged(summary: dict[str, Any], agent: str) -> None:
    measured = summary["agents"][agent]
    assert {name: measured[name]["mean"] for name in MEANS[agent]} == MEANS[agent]
    assert (measured["scored"], measured["failed"], measured["unscored"]) == (SCORED, 0, 0)
    assert measured["claims"] == CLAIMS[agent]


def test_paired_difference_is_unchanged(summary: dict[str, Any]) -> None:
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
