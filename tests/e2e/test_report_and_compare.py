"""`acc report` and `acc compare`."""

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
    rows = json.loads(acc("compare", *runs, "--json").stdout)["differences"]
    tokens = next(r for r in rows if (r["agent"], r["metric"]) == ("acc", "memory_tokens"))
    assert tokens["difference"] > 0
    assert (tokens["pairs"], tokens["scenarios"]) == (40, 1)
    assert (tokens["low"], tokens["high"], tokens["clear"]) == (None, None, False)
    assert "fewer than 6 scenarios" in tokens["reason"]
    oracle = next(r for r in rows if (r["agent"], r["metric"]) == ("oracle", "outcome"))
    assert (oracle["difference"], oracle["clear"]) == (0, False), "it does not use the budget"


def test_compare_explains_means_of_different_turns(runs: tuple[Path, Path]) -> None:
    first, other = runs[0], runs[0].parent / "other"
    scenarios = ("--scenario", "it-operations-ja,it-operations", "--turns", "5")
    options = ("--agents", "acc,baseline", "--seed", "0", "--episodes", "1")
    assert acc("eval", *scenarios, *options, "--out", other, "--quiet").returncode == 0
    done = acc("compare", first, other)
    assert done.returncode == 0, done.stderr
    found = json.loads(acc("compare", first, other, "--json").stdout)
    turns = found["turns"]
    assert turns["second"] == 10
    assert 0 < turns["common"] <= 10
    assert f"those of the {turns['common']} turns that both runs have" in done.stdout
    settings = {row["what"]: (row["first"], row["second"]) for row in found["settings"]}
    assert settings["agents that the other run does not have"] == ("oracle", "baseline")
    same = acc("compare", first, first).stdout
    assert "The means are those of all turns" not in same


def test_compare_gives_intervals_over_six_scenarios(tmp_path: Path) -> None:
    assert acc("scenarios", "new", "mine", cwd=tmp_path).returncode == 0
    shipped = json.loads(acc("scenarios", "list", "--json").stdout)[:5]
    scenarios = ",".join([*(scenario["id"] for scenario in shipped), "mine.toml"])
    options = ("--scenario", scenarios, "--turns", "10", "--episodes", "1", "--agents", "acc")
    for budget in ("64", "512"):
        written = ("--budget", budget, "--out", budget, "--quiet")
        assert acc("eval", *options, *written, cwd=tmp_path).returncode == 0
    rows = json.loads(acc("compare", "64", "512", "--json", cwd=tmp_path).stdout)["differences"]
    tokens = next(row for row in rows if row["metric"] == "memory_tokens")
    assert tokens["scenarios"] == 6
    assert 0 < tokens["low"] < tokens["difference"] < tokens["high"]
    assert (tokens["declared"], tokens["clear"]) == (False, False), "only declared metrics decide"
