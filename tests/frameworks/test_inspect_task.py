"""Scenarios as a task of Inspect AI, and exported runs, with the real Inspect."""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem
from scripted_inspect import REQUESTS, model

from acc.cli import execute
from acc.frameworks.inspect_ai import acc_scenarios

# Inspect leaves streams open that it does not use any more.
pytestmark = pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")


def evaluate(tmp_path: Path, **options: Any) -> EvalLog:
    REQUESTS.clear()
    task = acc_scenarios("it-operations", turns=8, **options)
    (log,) = inspect_eval(
        task, model=model, log_dir=str(tmp_path), log_format="json", display="none"
    )
    gc.collect()  # while the warnings about its streams are ignored
    assert log.status == "success", log.error
    return log


def test_task_scores_a_scenario(tmp_path: Path) -> None:
    log = evaluate(tmp_path, episodes=2)
    assert log.samples is not None
    assert [sample.id for sample in log.samples] == ["it-operations.000000", "it-operations.000001"]
    assert len(log.samples[0].messages) == 16
    assert log.results is not None
    assert {score.name for score in log.results.scores} == {"outcome", "hallucination", "drift"}
    (score,) = (log.samples[0].scores or {}).values()
    assert isinstance(score.value, dict)
    outcome = score.value["outcome"]
    assert isinstance(outcome, float)
    assert 0 < outcome < 10


def test_scores_equal_those_of_acc_eval(tmp_path: Path) -> None:
    """The same answers get the same scores from `acc eval`."""
    log = evaluate(tmp_path / "inspect")
    module = tmp_path / "echo_agent.py"
    module.write_text("def answer(query: str) -> str:\n    return query\n")
    sys.path.insert(0, str(tmp_path))
    try:
        words = ["--scenario", "it-operations", "--turns", "8", "--workers", "1", "--quiet"]
        out = tmp_path / "run"
        agents = ["--agents", "echo=python:echo_agent:answer"]
        assert execute(["eval", *words, *agents, "--out", str(out)]) == 0
    finally:
        sys.path.remove(str(tmp_path))
    rows = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert log.samples is not None
    (score,) = (log.samples[0].scores or {}).values()
    assert isinstance(score.value, dict)
    for name in ("outcome", "hallucination", "drift"):
        known = [row[name] for row in rows if row[name] is not None]
        assert score.value[name] == pytest.approx(sum(known) / len(known), abs=1e-5)


def test_memory_replaces_the_transcript(tmp_path: Path) -> None:
    evaluate(tmp_path / "full", memory="full")
    assert len(REQUESTS[-1]) == 1 + 2 * 7 + 1
    full = sum(len(message.text) for message in REQUESTS[-1])
    evaluate(tmp_path / "acc", memory="acc@256")
    assert sum(len(message.text) for message in REQUESTS[-1]) < full
    assert isinstance(REQUESTS[-1][0], ChatMessageSystem)


def test_exported_run_is_read_by_inspect(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--scenario", "it-operations-ja", "--turns", "4", "--episodes", "2", "--workers", "1"]
    assert execute(["eval", *words, "--agents", "full,acc", "--quiet", "--out", str(out)]) == 0
    assert execute(["export", str(out), "--format", "inspect"]) == 0
    log = read_eval_log(str(out / "inspect" / "acc.json"))
    assert log.status == "success"
    assert log.samples is not None
    assert log.results is not None
    assert len(log.samples) == 2
    assert isinstance(log.samples[0].messages[1], ChatMessageAssistant)
    assert log.results.scores[0].metrics["mean"].value > 0
    assert log.eval.model == "acc/embedded"
