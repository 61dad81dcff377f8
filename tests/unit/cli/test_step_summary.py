"""The step summary of GitHub Actions."""

from pathlib import Path

import pytest

from acc.cli import execute

OPTIONS = ["eval", "--scenario", "it-operations", "--turns", "3", "--episodes", "1", "--quiet"]


def test_tables_and_gates_are_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    words = ["--agents", "baseline,acc", "--fail-if", "acc.outcome < 11", "--workers", "1"]
    assert execute([*OPTIONS, *words, "--out", str(tmp_path / "run")]) == 1
    text = file.read_text()
    assert text.startswith("before\n## acc eval\n\n|  | baseline | acc |\n| --- | ---: | ---: |\n")
    assert "| outcome | " in text
    assert "| acc − baseline | drift | " in text
    assert "- Gate failed: `acc.outcome < 11`" in text
    assert "No claim about other scenarios" in text


def test_unwritable_summary_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    words = ["--agents", "baseline", "--workers", "1", "--out", str(tmp_path / "run")]
    assert execute([*OPTIONS, *words]) == 0
    assert "step summary" in capsys.readouterr().err
