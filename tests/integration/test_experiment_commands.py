"""Extend a run, judge it again, plan the next one, and compare runs with other settings."""

import json
from pathlib import Path

import pytest
from forked_command import run_command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("experiment") / "run"
    options = ["--scenario", "it-operations,finance-operations", "--episodes", "1", "--turns", "4"]
    completed = run_command("eval", *options, "--agents", "baseline,acc", "--out", out, "--quiet")
    assert completed.returncode == 0, completed.stderr
    return out


def episodes(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "episodes").iterdir()}


def test_same_judge_gives_the_same_records_again(run: Path) -> None:
    completed = run_command("judge", "again", run)
    assert completed.returncode == 0, completed.stderr
    again = run.with_name("run-again")
    assert episodes(again) == episodes(run)
    assert (again / "report.html").exists()


def test_extended_run_keeps_recorded_episodes(run: Path) -> None:
    before = episodes(run)
    arguments = ("--episodes", "2", "--scenario", "healthcare-operations", "--quiet")
    completed = run_command("eval", "extend", run, *arguments)
    assert completed.returncode == 0, completed.stderr
    after = episodes(run)
    assert len(after) == 6
    assert {name: after[name] for name in before} == before
    assert json.loads((run / "summary.json").read_text())["episodes"]["recorded"] == 6
    fewer = run_command("eval", "extend", run, "--episodes", "1")
    assert fewer.returncode == 2
    assert "cannot be removed" in fewer.stderr


def test_plan_prints_power_by_number_of_scenarios(run: Path) -> None:
    rows = json.loads(run_command("eval", "plan", run, "--json").stdout)
    assert [row["metric"] for row in rows] == ["outcome", "hallucination", "drift"]
    for row in rows:
        if row["deviation"]:
            values = list(row["power"].values())
            assert values == sorted(values)
    explained = run_command("eval", "plan", run).stdout
    assert "rough estimate" in explained
    is_equal = any(not row["difference"] for row in rows)
    assert ("A difference of zero has no power" in explained) is is_equal
    unknown = run_command("eval", "plan", run, "--versus", "nobody")
    assert unknown.returncode == 2
    assert "nobody" in unknown.stderr


def test_comparison_names_settings_that_differ(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    options = ["--scenario", "it-operations", "--episodes", "1", "--turns", "3", "--window", "128"]
    run_command("eval", *options, "--agents", "baseline,acc", "--out", other, "--quiet")
    data = json.loads(run_command("compare", run, other, "--json").stdout)
    other_turns = {"turns", "episodes", "scenarios that the other run does not have"}
    assert {row["what"] for row in data["settings"]} == {"window", *other_turns}
    assert "window: 4096, then 128" in run_command("compare", run, other).stdout


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
