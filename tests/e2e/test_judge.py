"""`acc eval --judge` and `acc judge check`."""

import json
import shutil
from pathlib import Path

import pytest
from command import acc

MODEL = Path(__file__).parent.parent / "unit" / "evaluation" / "judging_model.py"
SMALL = ("--scenario", "it-operations", "--turns", "3", "--episodes", "1", "--workers", "1")
JUDGE = ("--judge", "python:judging_model:JudgingModel")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(MODEL, tmp_path)
    return tmp_path


def test_model_judges_with_votes_in_both_orders(folder: Path) -> None:
    again = ("eval", *SMALL, *JUDGE, "--agents", "baseline,acc", "--out", "run")
    done = acc(*again, "--judge-votes", "2", "--judge-both-orders", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Krippendorff" in done.stdout
    assert "mean difference of the scores in reversed order" in done.stdout
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["agents"]["acc"]["scored"] == 3
    assert summary["agreement"]["order"]["relevance"]["answers"] == 6
    judging = json.loads((folder / "run" / "run.json").read_text())["judging"]
    assert judging["votes"] == 2
    assert len(judging["prompts"]) == 16
    page = (folder / "run" / "report.html").read_text()
    assert "Votes of the judge, order and length of answers" in page
    other = acc(*again, "--judge-votes", "3", "--judge-both-orders", cwd=folder)
    assert other.returncode == 2
    assert "votes=2" in other.stderr
    assert "votes=3" in other.stderr


def test_judge_drives_an_episode(folder: Path) -> None:
    done = acc(
        "eval", *SMALL, *JUDGE, "--judge-drives", "--agents", "baseline", "--out", "run", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    (episode,) = (folder / "run" / "episodes").glob("*.jsonl")
    lines = [json.loads(line) for line in episode.read_text().splitlines()]
    assert [line["query"] for line in lines] == [
        f"Depot number {turn} holds {turn} crates." for turn in (1, 2, 3)
    ]


def test_turns_with_invalid_judgements_are_reported_as_unscored(folder: Path) -> None:
    (folder / "broken_model.py").write_text(
        "from acc.testing import ScriptedModel\n\n\n"
        "def model():\n    return ScriptedModel('nonsense', repeat=True)\n"
    )
    done = acc(
        *("eval", *SMALL, "--judge", "python:broken_model:model", "--agents", "acc,baseline"),
        *("--fail-if", "acc.outcome < 1", "--out", "run"),
        cwd=folder,
    )
    assert done.returncode == 1
    assert "acc.outcome has no value" in done.stderr
    unscored = next(line for line in done.stdout.splitlines() if line.startswith("unscored turns"))
    assert unscored.split()[2:] == ["3", "3"]
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["agents"]["acc"]["unscored"] == 3
    assert summary["agents"]["acc"]["outcome"] is None
    assert summary["paired"] == []
    page = (folder / "run" / "report.html").read_text()
    assert "3 of 3 turns of acc could not be scored" in page
    assert "could not be scored" in (folder / "run" / "junit.xml").read_text()


def test_remark_is_shown_when_the_judge_finds_no_claims(folder: Path) -> None:
    (folder / "silent_model.py").write_text(
        "from judging_model import JudgingModel\n\n\n"
        "class Silent(JudgingModel):\n"
        "    def audit(self, prompt, parts):\n"
        "        return {'claims': [], 'constraints': self.rules(parts)}\n"
    )
    judge = ("--judge", "python:silent_model:Silent")
    done = acc("eval", *SMALL, *judge, "--agents", "baseline", "--out", "run", cwd=folder)
    remark = "baseline: the judge found no claim in any of 3 answers"
    assert done.returncode == 0, done.stderr
    assert remark in done.stdout
    assert remark in (folder / "run" / "report.html").read_text()
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["agents"]["baseline"]["claims"] == 0
    again = acc("eval", *SMALL, *JUDGE, "--agents", "baseline", "--out", "other", cwd=folder)
    assert "found no claim" not in again.stdout


def test_unsuitable_judge_models_are_rejected(tmp_path: Path) -> None:
    for name, message in (("embedded", "cannot judge"), ("local", "--force-judge")):
        done = acc("eval", *SMALL, "--judge", f"model:{name}", cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr


def test_judge_check_uses_the_shipped_examples(tmp_path: Path) -> None:
    done = acc("judge", "check", "--show-wrong", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert "kappa" in done.stdout
    assert "language: ja" in done.stdout
    data = json.loads(acc("judge", "check", "--json", cwd=tmp_path).stdout)
    assert data["judge"] == "rubric"
    assert data["all"]["examples"] >= 400
    assert data["claims"]["language"].keys() == {"en", "ja"}
    assert data["wrong"][0]["context"]


def test_judge_check_uses_examples_of_a_file(folder: Path) -> None:
    (folder / "mine.toml").write_text(
        '[[case]]\nid = "mine"\ncontext = ["The disk is full."]\nquestion = "How full?"\n'
        'claims = [{ kind = "plain", verdict = "unsupported", text = "The fan is loud." }]\n'
    )
    done = acc("judge", "check", "mine.toml", *JUDGE, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "100.0 %" in done.stdout
    assert acc("judge", "check", "none.toml", cwd=folder).returncode == 2
    assert acc("judge", "check", "--show-wrong", "-1", cwd=folder).returncode == 2
