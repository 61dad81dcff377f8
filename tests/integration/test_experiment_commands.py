"""Extend a run, judge it again, plan the next one, and compare runs with other settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def acc(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("experiment") / "run"
    options = ["--scenario", "it-operations,finance-operations", "--episodes", "1", "--turns", "4"]
    completed = acc("eval", *options, "--agents", "baseline,acc", "--out", out, "--quiet")
    assert completed.returncode == 0, completed.stderr
    return out


def episodes(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "episodes").iterdir()}


def test_same_judge_gives_the_same_records_again(run: Path) -> None:
    completed = acc("judge", "again", run)
    assert completed.returncode == 0, completed.stderr
    again = run.with_name("run-again")
    assert episodes(again) == episodes(run)
    assert (again / "report.html").exists()


def test_extended_run_keeps_recorded_episodes(run: Path) -> None:
    before = episodes(run)
    arguments = ("--episodes", "2", "--scenario", "healthcare-operations", "--quiet")
    completed = acc("eval", "extend", run, *arguments)
    assert completed.returncode == 0, completed.stderr
    after = episodes(run)
    assert len(after) == 6
    assert {name: after[name] for name in before} == before
    assert json.loads((run / "summary.json").read_text())["episodes"]["recorded"] == 6
    fewer = acc("eval", "extend", run, "--episodes", "1")
    assert fewer.returncode == 2
    assert "can only grow" in fewer.stderr


def test_plan_prints_power_by_number_of_scenarios(run: Path) -> None:
    rows = json.loads(acc("eval", "plan", run, "--json").stdout)
    assert [row["metric"] for row in rows] == ["outcome", "hallucination", "drift"]
    for row in rows:
        if row["deviation"]:
            values = list(row["power"].values())
            assert values == sorted(values)
    unknown = acc("eval", "plan", run, "--versus", "nobody")
    assert unknown.returncode == 2
    assert "nobody" in unknown.stderr


def test_comparison_names_settings_that_differ(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    options = ["--scenario", "it-operations", "--episodes", "1", "--turns", "3", "--window", "128"]
    acc("eval", *options, "--agents", "baseline,acc", "--out", other, "--quiet")
    data = json.loads(acc("compare", run, other, "--json").stdout)
    assert {row["what"] for row in data["settings"]} == {"window", "turns"}
    assert "window: 4096, then 128" in acc("compare", run, other).stdout


def test_records_have_the_counts_of_the_formulas(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    scored = [row for row in rows if row["status"] == "scored"]
    assert scored
    for row in scored:
        claims = row["supported_claims"] + row["unsupported_claims"]
        assert row["hallucination"] == pytest.approx(
            row["unsupported_claims"] / max(1, claims), abs=1e-6
        )
        if row["turn"] > 1:
            broken = row["violations"] + row["omissions"]
            assert row["drift"] == pytest.approx(
                broken / max(1, row["active_constraints"]), abs=1e-6
            )
    header = (run / "records.csv").read_text().splitlines()[0].split(",")
    assert {"supported_claims", "violations", "active_constraints", "findings"} <= set(header)
