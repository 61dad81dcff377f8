"""`acc judge support` and `acc judge thresholds`."""

import json
from pathlib import Path

import pytest

from acc.bootstrap import reports
from acc.cli import execute

EVIDENCE = "The harbour opened in May. Its crane lifts 40 tonnes. Mara Lind runs it. " * 30


def lines_of(*rows: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_pairs_are_scored_and_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "claims.jsonl"
    rows = [
        {"claim": "The crane of the harbour lifts 40 tonnes.", "evidence": EVIDENCE, "label": True},
        {"claim": "Jonas Weber runs 12 ships.", "evidence": EVIDENCE, "label": False},
        {"claim": "責任者は佐伯です。", "evidence": ["責任者は佐伯です。", "会議は九時です。"]},
    ]
    file.write_text(lines_of(*rows), encoding="utf-8")
    assert execute(["judge", "support", str(file)]) == 0
    captured = capsys.readouterr()
    results = [json.loads(line) for line in captured.out.splitlines()]
    assert results[0]["score"] > 0.7 > 0.4 > results[1]["score"]
    assert results[2]["score"] > 0.9
    assert len(results[0]["features"]) == 8
    assert results[1]["faults"]
    assert captured.err == "AUROC 1.000 of 2 labelled claims\n"


@pytest.mark.parametrize("text", ["[]\n", '{"claim": "x"}\n', "no json\n"])
def test_invalid_line_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "claims.jsonl"
    file.write_text(text)
    assert execute(["judge", "support", str(file)]) == 2
    assert "line 1" in capsys.readouterr().err
    assert execute(["judge", "support", str(tmp_path / "none.jsonl")]) == 2


def test_thresholds_of_labels_are_used_and_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = tmp_path / "run", tmp_path / "thresholds.json"
    options = ["--scenario", "it-operations", "--episodes", "1", "--turns", "14", "--quiet"]
    agents = ["--agents", "acc,baseline", "--workers", "1"]
    assert execute(["eval", *options, *agents, "--out", str(run)]) == 0
    assert execute(["judge", "thresholds", str(run), "--out", str(file)]) == 2
    session = reports.open_labels(reports.open_run(run), rater="ana", size=400, seed=0)
    for number, (_, item) in enumerate(session.remaining()):
        session.record(item, number % 2 == 0)
    assert execute(["judge", "thresholds", str(run), "--out", str(file)]) == 0
    (threshold,) = json.loads(file.read_text())
    assert threshold["language"] == "en"

    again = tmp_path / "again"
    words = ["judge", "again", str(run), "--out", str(again), "--claim-thresholds", str(file)]
    assert execute(words) == 0
    recorded = json.loads((again / "run.json").read_text())["claim_thresholds"]
    assert recorded[0] == threshold
    assert {one["language"] for one in recorded} == {"en", "ja"}
    other = tmp_path / "other"
    words = ["eval", *options, *agents, "--out", str(other), "--claim-thresholds", str(file)]
    assert execute(words) == 0
    assert json.loads((other / "run.json").read_text())["claim_thresholds"] == recorded
    file.write_text("{}")
    assert execute([*words[:-4], "--claim-thresholds", str(file)]) == 2
    capsys.readouterr()
