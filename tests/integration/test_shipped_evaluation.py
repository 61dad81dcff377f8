"""The default run over all shipped scenarios: exact numbers, which the README shows."""

from pathlib import Path
from typing import Any

import pytest

from acc.bootstrap import evaluation, reports
from acc.cli.eval import EvaluationOptions, configure

#: Scored turns of each agent.
SCORED = 1200
ROOT = Path(__file__).parents[2]
#: Means over all scored turns, to the digits of summary.json.
MEANS = {
    "baseline": {
        "outcome": 7.525934,
        "relevance": 6.344505,
        "answer_quality": 4.740773,
        "instruction_following": 9.14207,
        "coherence": 9.876389,
        "hallucination": 0.203784,
        "drift": 0.086693,
        "memory_tokens": 2084.030833,
        "last_memory_tokens": 2862.041667,
    },
    "retrieval": {
        "outcome": 7.696278,
        "relevance": 6.898778,
        "answer_quality": 5.300712,
        "instruction_following": 8.708678,
        "coherence": 9.876945,
        "hallucination": 0.123778,
        "drift": 0.130917,
        "memory_tokens": 249.08,
        "last_memory_tokens": 264.125,
    },
    "acc": {
        "outcome": 7.637473,
        "relevance": 6.611755,
        "answer_quality": 4.906287,
        "instruction_following": 9.132761,
        "coherence": 9.899087,
        "hallucination": 0.180273,
        "drift": 0.087643,
        "memory_tokens": 479.025833,
        "last_memory_tokens": 507.083333,
    },
    "oracle": {
        "outcome": 8.236185,
        "relevance": 7.372639,
        "answer_quality": 6.026347,
        "instruction_following": 9.602143,
        "coherence": 9.943611,
        "hallucination": 0.102944,
        "drift": 0.039747,
        "memory_tokens": 366.6225,
        "last_memory_tokens": 514.166667,
    },
}
CLAIMS = {"baseline": 2042, "retrieval": 1821, "acc": 2002, "oracle": 1779}
#: Mean, low and high end of the paired difference between acc and baseline.
ACC_MINUS_BASELINE_OUTCOME = (0.111539, -0.083051, 0.314912)


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
