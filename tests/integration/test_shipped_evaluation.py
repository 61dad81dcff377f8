"""Shipped scenarios: exact numbers of five, which the README shows, and invariants of all."""

from pathlib import Path
from typing import Any

import pytest

from acc.bootstrap import evaluation, reports
from acc.cli.eval import EvaluationOptions, configure

#: The scenarios with frozen numbers.
FROZEN = (
    "cybersecurity-response,finance-operations,healthcare-operations,it-operations,it-operations-ja"
)
ROOT = Path(__file__).parents[2]
#: Means over all scored turns, to the digits of summary.json.
MEANS = {
    "baseline": {
        "outcome": 8.217669,
        "relevance": 7.423726,
        "answer_quality": 5.829331,
        "instruction_following": 9.630617,
        "coherence": 9.987,
        "hallucination": 0.185176,
        "drift": 0.037692,
        "memory_tokens": 2234.484,
        "last_memory_tokens": 2379.8,
    },
    "retrieval": {
        "outcome": 7.942563,
        "relevance": 7.240202,
        "answer_quality": 5.713453,
        "instruction_following": 8.860931,
        "coherence": 9.955667,
        "hallucination": 0.170967,
        "drift": 0.116232,
        "memory_tokens": 299.998,
        "last_memory_tokens": 330.5,
    },
    "acc": {
        "outcome": 7.784865,
        "relevance": 6.781737,
        "answer_quality": 5.12193,
        "instruction_following": 9.25546,
        "coherence": 9.980333,
        "hallucination": 0.2385,
        "drift": 0.075973,
        "memory_tokens": 479.252,
        "last_memory_tokens": 508.5,
    },
    "oracle": {
        "outcome": 8.840323,
        "relevance": 8.238934,
        "answer_quality": 7.201129,
        "instruction_following": 9.92623,
        "coherence": 9.995,
        "hallucination": 0.091,
        "drift": 0.007528,
        "memory_tokens": 427.884,
        "last_memory_tokens": 603.1,
    },
}
CLAIMS = {"baseline": 1051, "retrieval": 926, "acc": 1009, "oracle": 907}
#: Mean, low and high end of the paired difference between acc and baseline.
ACC_MINUS_BASELINE_OUTCOME = (-0.432803, None, None)


def run_summary(path: Path, options: EvaluationOptions) -> dict[str, Any]:
    directory = reports.create_run(path, configure(options))
    run = evaluation.make_evaluation(directory, workers=2)
    list(run.run(directory.jobs()))
    assert run.outcome.errors == {}
    return reports.write_results(directory).summary


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("shipped") / "run"
    return run_summary(path, EvaluationOptions(scenario=FROZEN))


def test_all_scenarios_run_and_the_oracle_is_above_every_memory(tmp_path: Path) -> None:
    options = EvaluationOptions(agents="last-n@256,acc,oracle", episodes=1, turns=12)
    summary = run_summary(tmp_path / "run", options)
    scenarios = len(summary["configuration"]["scenarios"])
    agents = summary["agents"]
    assert {m["scored"] for m in agents.values()} == {12 * scenarios}
    assert {m["failed"] + m["unscored"] for m in agents.values()} == {0}
    outcomes = {name: m["outcome"]["mean"] for name, m in agents.items()}
    assert outcomes["oracle"] == max(outcomes.values())
    assert agents["acc"]["memory_tokens"]["mean"] <= 512
    assert agents["last-n-256"]["memory_tokens"]["mean"] <= 256


@pytest.mark.parametrize("agent", MEANS)
def test_means_of_five_scenarios_are_unchanged(summary: dict[str, Any], agent: str) -> None:
    measured = summary["agents"][agent]
    assert {name: measured[name]["mean"] for name in MEANS[agent]} == MEANS[agent]
    assert (measured["scored"], measured["failed"], measured["unscored"]) == (500, 0, 0)
    assert measured["claims"] == CLAIMS[agent]


def test_paired_difference_of_five_scenarios_is_unchanged(summary: dict[str, Any]) -> None:
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
