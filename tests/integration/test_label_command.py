"""Label a run in the terminal, and measure agreement and corrected rates."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def acc(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *arguments],
        input=text,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("label") / "run"
    options = ["--scenario", "it-operations,it-operations-ja", "--episodes", "1", "--turns", "8"]
    completed = acc("eval", *options, "--agents", "baseline,acc", "--out", str(out), "--quiet")
    assert completed.returncode == 0, completed.stderr
    return out


def agreement(run: Path) -> dict[str, Any]:
    completed = acc("judge", "agreement", str(run), "--json")
    assert completed.returncode == 0, completed.stderr
    data: dict[str, Any] = json.loads(completed.stdout)
    return data


def test_agreement_without_labels_is_an_error(run: Path) -> None:
    completed = acc("judge", "agreement", str(run))
    assert completed.returncode == 2
    assert "acc label" in completed.stderr


def test_labels_are_stored_continued_and_compared(run: Path) -> None:
    first = acc("label", str(run), "--rater", "ana", "--items", "30", text="y\nn\nx\ns\nq\n")
    assert first.returncode == 0, first.stderr
    assert "1 of 30" in first.stdout
    for hidden in ("baseline", "not stated", "superseded"):
        assert hidden not in first.stdout.split("answer:")[0]
    lines = (run / "labels" / "ana.jsonl").read_text().splitlines()
    assert [json.loads(line)["good"] for line in lines] == [True, False, None]

    second = acc("label", str(run), "--rater", "ana", "--items", "30", text="y\n" * 30)
    assert "4 of 30" in second.stdout
    assert "1 of 30" not in second.stdout.splitlines()
    assert len((run / "labels" / "ana.jsonl").read_text().splitlines()) == 30

    other = acc("label", str(run), "--rater", "ben", text="n\n" * 60)
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
    completed = acc("label", str(run), "--rater", "../x")
    assert completed.returncode == 2
    assert "--rater" in completed.stderr
