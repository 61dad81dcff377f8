"""`acc report`, `compare` and `scenarios`."""

import json
from pathlib import Path

import pytest
from command import SMALL, acc, read_records


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, budget in (("small", "64"), ("large", "512")):
        agents = ("--agents", "acc,oracle", "--budget", budget)
        acc("eval", *SMALL[:3], "20", *SMALL[4:], *agents, "--out", folder / name, "--quiet")
    return folder / "small", folder / "large"


def test_report_recreates_deleted_files(runs: tuple[Path, Path]) -> None:
    run = runs[0]
    before = read_records(run)
    page = (run / "report.html").read_bytes()
    for name in ("report.html", "summary.json", "records.csv"):
        (run / name).unlink()
    done = acc("report", run)
    assert done.returncode == 0, done.stderr
    assert read_records(run) == before
    assert (run / "report.html").read_bytes() == page


def test_report_preserves_the_gates_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    gate = ("--fail-if", "acc.outcome < 9.99")
    assert acc("eval", *SMALL, *gate, "--out", run, "--quiet").returncode == 1
    before = (run / "junit.xml").read_bytes()
    assert acc("report", run).returncode == 0
    assert (run / "junit.xml").read_bytes() == before
    assert json.loads((run / "summary.json").read_text())["gates"][0]["failed"]


def test_compare_prints_the_differences_of_two_runs(runs: tuple[Path, Path]) -> None:
    done = acc("compare", *runs)
    assert done.returncode == 0, done.stderr
    assert "small" in done.stdout
    rows = json.loads(acc("compare", *runs, "--json").stdout)
    tokens = next(r for r in rows if (r["agent"], r["metric"]) == ("acc", "memory_tokens"))
    assert tokens["difference"] > 0
    assert tokens["clear"]
    assert tokens["pairs"] == 40
    oracle = next(r for r in rows if (r["agent"], r["metric"]) == ("oracle", "outcome"))
    assert (oracle["difference"], oracle["clear"]) == (0, False), "it does not use the budget"


def test_shipped_scenarios_can_be_listed_shown_and_validated() -> None:
    listed = json.loads(acc("scenarios", "list", "--json").stdout)
    assert {row["turns"] for row in listed} == {50}
    assert "it-operations-ja" in acc("scenarios", "list").stdout
    text = acc("scenarios", "show", "it-operations-ja", "--seed", "3").stdout
    assert "50. " in text
    assert "expected: " in text
    rendered = json.loads(acc("scenarios", "show", "it-operations", "--json").stdout)
    assert len(rendered["turns"]) == 50
    done = acc("scenarios", "validate")
    assert done.returncode == 0
    assert done.stdout.count(": ok, 50 turns") == 5


def test_new_scenario_can_be_evaluated(tmp_path: Path) -> None:
    created = acc("scenarios", "new", "my-own", cwd=tmp_path)
    assert "acc eval --scenario my-own.toml" in created.stdout
    assert acc("scenarios", "validate", "my-own.toml", cwd=tmp_path).returncode == 0
    done = acc("eval", "--scenario", "my-own.toml", "--episodes", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert next((tmp_path / "runs").iterdir()).name.startswith("my-own-3x-")
    again = acc("scenarios", "new", "my-own", cwd=tmp_path)
    assert again.returncode == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize("name", ["My Own", "../up", ""])
def test_invalid_scenario_name_is_rejected(tmp_path: Path, name: str) -> None:
    done = acc("scenarios", "new", name, cwd=tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_validate_reports_file_turn_and_field(tmp_path: Path) -> None:
    acc("scenarios", "new", "mine", cwd=tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(file.read_text().replace('expect = ["@limit"]', 'expect = ["@unknown"]'))
    done = acc("scenarios", "validate", "mine.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "mine.toml: turn 2: expect: no earlier turn establishes 'unknown'" in done.stderr
