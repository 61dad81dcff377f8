"""Extend a run, judge it again, plan the next one, and compare runs with other settings."""

import json
import shutil
from pathlib import Path

import pytest
from forked_command import run_command


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("experiment") / "run"
    options = ["--scenario", "it-operations,finance-operations", "--episodes", "1", "--turns", "4"]
    completed = run_command("eval", *options, "--agents", "baseline,acc", "--out", out, "--quiet")
    assert completed.returncode == 0, completed.stderr
    return out


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """Return a copy, because some tests change the run."""
    return shutil.copytree(finished_run, tmp_path / "run")


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


AGENTS = """
from pathlib import Path


def noted(query):
    with Path("calls.txt").open("a") as file:
        file.write("x")
    return "Noted."
"""


def test_added_agents_are_judged_together_with_recorded_answers(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "added_agents.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    before = episodes(run)
    out = tmp_path / "more"
    added = ("--agents", "noted=python:added_agents:noted", "--out", out, "--quiet")
    estimate = run_command("eval", "extend", run, *added[:4], "--dry-run")
    assert estimate.returncode == 0, estimate.stderr
    assert not out.exists()
    completed = run_command("eval", "extend", run, *added)
    assert completed.returncode == 0, completed.stderr
    assert episodes(run) == before, "the source stays as it is"
    old = json.loads((run / "summary.json").read_text())["agents"]
    new = json.loads((out / "summary.json").read_text())["agents"]
    assert list(new) == ["baseline", "acc", "noted"]
    assert {name: new[name]["outcome"] for name in old} == {
        name: old[name]["outcome"] for name in old
    }
    turns = sum(len(content.splitlines()) for content in before.values())
    assert new["noted"]["scored"] == turns
    assert len((tmp_path / "calls.txt").read_text()) == turns
    again = run_command("eval", "extend", run, *added)
    assert again.returncode == 0, again.stderr
    assert len((tmp_path / "calls.txt").read_text()) == turns, "recorded turns are not repeated"


def test_dry_run_of_an_extension_writes_nothing(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    configuration = json.loads((run / "run.json").read_text())
    episodes_wanted = str(configuration["episodes"] + 3)
    planned = run_command("eval", "extend", run, "--episodes", episodes_wanted, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert f"({episodes_wanted} of each scenario)" in planned.stdout
    assert "of them recorded" in planned.stdout
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--agents", "acc"), "the run has an agent 'acc' already"),
        (("--agents", "bm25", "--episodes", "3"), "extend the run twice"),
        (("--agents", "nobody"), "unknown agent 'nobody'"),
        (("--episodes", "9", "--out", "x"), "omit --out"),
    ],
)
def test_invalid_extension_is_rejected(run: Path, options: tuple[str, ...], error: str) -> None:
    before = episodes(run)
    completed = run_command("eval", "extend", run, *options)
    assert completed.returncode == 2
    assert error in completed.stderr
    assert episodes(run) == before


def test_incomplete_run_gets_no_agents(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "incomplete"
    shutil.copytree(run, copy)
    next(iter((copy / "episodes").iterdir())).unlink()
    completed = run_command("eval", "extend", copy, "--agents", "bm25")
    assert completed.returncode == 2
    assert "is not complete: 1 of its episodes" in completed.stderr


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
    other_turns = {"turns", "scenarios that the other run does not have"}
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
