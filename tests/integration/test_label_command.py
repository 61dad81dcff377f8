"""Label a run in the terminal, and measure agreement and corrected rates."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from forked_command import run_command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("label") / "run"
    options = ["--scenario", "it-operations,it-operations-ja", "--episodes", "1", "--turns", "8"]
    completed = run_command(
        "eval", *options, "--agents", "baseline,acc", "--out", str(out), "--quiet"
    )
    assert completed.returncode == 0, completed.stderr
    return out


def agreement(run: Path) -> dict[str, Any]:
    completed = run_command("judge", "agreement", str(run), "--json")
    assert completed.returncode == 0, completed.stderr
    data: dict[str, Any] = json.loads(completed.stdout)
    return data


def test_agreement_without_labels_is_an_error(run: Path) -> None:
    completed = run_command("judge", "agreement", str(run))
    assert completed.returncode == 2
    assert "acc label" in completed.stderr


def test_labels_are_stored_continued_and_compared(run: Path) -> None:
    first = run_command(
        "label", str(run), "--rater", "ana", "--items", "30", text="y\nn\nx\ns\nq\n"
    )
    assert first.returncode == 0, first.stderr
    assert "1 of 30" in first.stdout
    for hidden in ("baseline", "not stated", "superseded"):
        assert hidden not in first.stdout.split("answer:")[0]
    lines = (run / "labels" / "ana.jsonl").read_text().splitlines()
    assert [json.loads(line)["good"] for line in lines] == [True, False, None]

    second = run_command("label", str(run), "--rater", "ana", "--items", "30", text="y\n" * 30)
    assert "4 of 30" in second.stdout
    assert "1 of 30" not in second.stdout.splitlines()
    assert len((run / "labels" / "ana.jsonl").read_text().splitlines()) == 30

    other = run_command("label", str(run), "--rater", "ben", text="n\n" * 60)
    assert other.returncode == 0, other.stderr
    sample = json.loads((run / "labels" / "sample.json").read_text())["items"]
    assert len(sample) == 60
    assert len(set(sample)) == 60

    data = agreement(run)
    pairs = {(row["first"], row["second"]) for row in data["agreements"]}
    assert pairs == {("ana", "ben"), ("ana", "judge"), ("ben", "judge")}
    groups = {row["group"] for row in data["agreements"]}
    assert {"claims", "rules", "claims, ja", "rules, en"} <= groups
    for entry in data["rates"]:
        rate = entry["rate"]
        assert rate["low"] <= rate["corrected"] <= rate["high"]


def test_invalid_rater_is_a_usage_error(run: Path) -> None:
    completed = run_command("label", str(run), "--rater", "../x")
    assert completed.returncode == 2
    assert "--rater" in completed.stderr


def test_rater_has_a_name_in_any_script_and_one_label_is_enough(run: Path) -> None:
    shutil.rmtree(run / "labels", ignore_errors=True)
    done = run_command(
        *("label", str(run), "--rater", "佐藤", "--items", "5", "--sample", "uncertain"),
        text="y\nq\n",
    )
    assert done.returncode == 0, done.stderr
    assert len((run / "labels" / "佐藤.jsonl").read_text().splitlines()) == 1
    assert json.loads((run / "labels" / "sample.json").read_text())["method"] == "uncertain"
    rows = agreement(run)["agreements"]
    assert {(row["first"], row["items"]) for row in rows} == {("佐藤", 1)}
    assert all(row["low"] is None for row in rows)
    assert run_command("judge", "agreement", str(run)).returncode == 0
    other = run_command("label", str(run), "--rater", "ana", "--sample", "random")
    assert other.returncode == 2
    assert "was drawn with --sample uncertain" in other.stderr
    for name in ("a b", "../x", "-a", "_a", "é" * 33):
        refused = run_command("label", str(run), f"--rater={name}")
        assert refused.returncode == 2, name
