"""`acc export --format inspect`: the fields that Inspect AI requires."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from acc.cli import execute

TEXT = {"type": "string"}
MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"enum": ["user", "assistant"]}, "content": TEXT},
}
#: What a log of version 2 must contain, by the documentation of Inspect.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["version", "status", "eval", "plan", "results", "stats", "samples"],
    "properties": {
        "version": {"const": 2},
        "status": {"enum": ["started", "success", "cancelled", "error"]},
        "eval": {
            "type": "object",
            "required": ["created", "task", "dataset", "model", "config"],
            "properties": {
                "created": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT[\d:]{8}\+00:00$"},
                "task": TEXT,
                "model": TEXT,
                "dataset": {
                    "type": "object",
                    "properties": {"sample_ids": {"type": "array", "items": TEXT}},
                },
            },
        },
        "results": {
            "type": "object",
            "properties": {
                "scores": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "object", "required": ["name", "scorer", "metrics"]},
                }
            },
        },
        "samples": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "epoch", "input", "target", "messages", "output", "scores"],
                "properties": {
                    "epoch": {"type": "integer", "minimum": 1},
                    "messages": {"type": "array", "items": MESSAGE},
                    "scores": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "required": ["value"],
                            "properties": {"value": {"type": "number"}},
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("inspect") / "run"
    words = ["--scenario", "it-operations-ja", "--turns", "4", "--episodes", "2", "--workers", "1"]
    agents = ["--agents", "full,acc"]
    assert execute(["eval", *words, *agents, "--quiet", "--out", str(out)]) == 0
    return out


def logs(run: Path) -> dict[str, Any]:
    assert execute(["export", str(run), "--format", "inspect"]) == 0
    return {path.stem: json.loads(path.read_bytes()) for path in (run / "inspect").iterdir()}


def test_each_agent_has_a_valid_log(run: Path) -> None:
    found = logs(run)
    assert sorted(found) == ["acc", "full"]
    for log in found.values():
        jsonschema.validate(log, SCHEMA)


def test_a_sample_has_the_conversation_and_the_means_of_an_episode(run: Path) -> None:
    rows = [json.loads(line) for line in (run / "records.jsonl").read_text().splitlines()]
    own = [row for row in rows if row["agent"] == "acc" and row["seed"] == 1]
    _, sample = logs(run)["acc"]["samples"]
    assert [message["role"] for message in sample["messages"]] == ["user", "assistant"] * 4
    assert sample["input"] == sample["messages"][0]["content"]
    for name in ("outcome", "hallucination", "drift", "memory_tokens"):
        known = [row[name] for row in own if row[name] is not None]
        mean = sum(known) / len(known)
        assert sample["scores"][name]["value"] == pytest.approx(mean, abs=1e-5)
    assert [turn["turn"] for turn in sample["scores"]["outcome"]["metadata"]["turns"]] == [
        1,
        2,
        3,
        4,
    ]
    assert sample["metadata"] == {
        "scenario": "it-operations-ja",
        "domain": "it_operations",
        "language": "ja",
        "seed": 1,
    }


def test_equal_exports_are_equal(run: Path) -> None:
    assert logs(run) == logs(run)


def test_failed_turns_have_no_answer_and_are_named(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--scenario", "it-operations", "--turns", "2", "--workers", "1", "--quiet"]
    agents = ["--agents", "acc,mine=python:acc.testing:queries"]
    execute(["eval", *words, *agents, "--out", str(out)])
    (sample,) = logs(out)["mine"]["samples"]
    assert sample["metadata"]["turns_without_score"] == [1, 2]
    assert [message["role"] for message in sample["messages"]] == ["user", "user"]
    assert sample["scores"] == {}
