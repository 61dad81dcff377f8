"""The default run over all shipped scenarios: exact numbers, which the README shows."""

from pathlib import Path
from typing import Any

import pytest

from acc.bootstrap import evaluation, reports
from acc.cli.eval import EvaluationOptions, configure

#: Scored turns of each agent.
SCORED = 500
ROOT = Path(__file__).parents[2]
#: Means over all scored turns, to the digits of summary.json.
MEANS = {
    "baseline": {
        "outcome": 8.226934,
        "relevance": 7.44385,
        "answer_quality": 5.868824,
        "instruction_following": 9.608062,
        "coherence": 9.987,
        "hallucination": 0.17211,
        "drift": 0.039994,
        "memory_tokens": 2271.816,
        "last_memory_tokens": 2252.2,
    },
    "retrieval": {
        "outcome": 7.924278,
        "relevance": 7.204135,
        "answer_quality": 5.68937,
        "instruction_following": 8.836273,
        "coherence": 9.967333,
        "hallucination": 0.163467,
        "drift": 0.118748,
        "memory_tokens": 308.238,
        "last_memory_tokens": 349.7,
    },
    "acc": {
        "outcome": 7.740153,
        "relevance": 6.731204,
        "answer_quality": 5.019765,
        "instruction_following": 9.244976,
        "coherence": 9.964667,
        "hallucination": 0.230467,
        "drift": 0.077043,
        "memory_tokens": 480.47,
        "last_memory_tokens": 507.1,
    },
    "oracle": {
        "outcome": 8.835247,
        "relevance": 8.235934,
        "answer_quality": 7.194602,
        "instruction_following": 9.915452,
        "coherence": 9.995,
        "hallucination": 0.090333,
        "drift": 0.008627,
        "memory_tokens": 429.688,
        "last_memory_tokens": 600.6,
    },
}
CLAIMS = {"baseline": 1050, "retrieval": 932, "acc": 998, "oracle": 903}
#: Mean, low and high end of the paired difference between acc and baseline.
ACC_MINUS_BASELINE_OUTCOME = (-0.486781, None, None)


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
