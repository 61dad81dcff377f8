"""Agents that raise, exit, block, die, nest or flood fail only their own turn."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from forked_command import run_command

HERE = Path(__file__).parent
TURNS = 4
OPTIONS = ["--turns", str(TURNS), "--quiet"]
ONE_EPISODE = ("--scenario", "it-operations", "--episodes", "1")


def run(
    agent: str, out: Path, *options: str, episodes: tuple[str, ...] = ONE_EPISODE
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    agents = ("--agents", f"acc,odd=python:odd_agents:{agent}")
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    arguments = (*OPTIONS, *episodes, "--out", str(out), *options, *agents)
    completed = run_command("eval", *arguments, env=environment)
    rows = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    return completed, rows


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        ("Raises", "RuntimeError: broken"),
        ("Exits", "SystemExit: 3"),
        ("Blocks", "no answer within"),
        ("EndsProcess", "ended with status 7"),
        ("KillsProcess", "ended with status -9"),
        ("KillsGroup", "ended with status -9"),
        ("Floods", "10000000 characters"),
    ],
)
def test_odd_agent_fails_only_its_own_turn(agent: str, error: str, tmp_path: Path) -> None:
    completed, rows = run(agent, tmp_path / "run", "--timeout", "3")
    assert completed.returncode == 0, completed.stderr
    assert [row["status"] for row in rows if row["agent"] == "acc"] == ["scored"] * TURNS
    odd = [row for row in rows if row["agent"] == "odd"]
    assert [row["status"] for row in odd] == ["scored", "failed", "scored", "scored"]
    assert error in odd[1]["error"]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["turns"] == TURNS


def test_nested_answer_and_trace_are_scored(tmp_path: Path) -> None:
    completed, rows = run("Nests", tmp_path / "run")
    assert completed.returncode == 0, completed.stderr
    assert {row["status"] for row in rows} == {"scored"}


def test_agent_continues_with_its_state_after_its_process_died(tmp_path: Path) -> None:
    run("EndsProcess", tmp_path / "run")
    (episode,) = (tmp_path / "run" / "episodes").iterdir()
    records = [json.loads(line) for line in episode.read_text().splitlines()]
    answers = [record["agents"][1].get("answer", "") for record in records]
    # Turn 1 was replayed, turn 2 failed: turn 3 is the second that the new process knows.
    assert answers == ["turn 1", "", "turn 2", "turn 3"]


def test_agent_that_fails_every_turn_gives_exit_status_1(tmp_path: Path) -> None:
    completed, rows = run("AlwaysFails", tmp_path / "run")
    assert completed.returncode == 1
    assert f"agent odd failed in {TURNS} of {TURNS} turns" in completed.stderr
    assert len(rows) == 2 * TURNS


TWO_EPISODES = ("--scenario", "it-operations,finance-operations", "--episodes", "1")


def test_blocking_agents_in_workers_end_with_a_summary(tmp_path: Path) -> None:
    options = ("--timeout", "5", "--workers", "2")
    completed, rows = run("Blocks", tmp_path / "run", *options, episodes=TWO_EPISODES)
    assert completed.returncode == 0, completed.stderr
    assert sum(row["status"] == "failed" for row in rows) == 2
    assert (tmp_path / "run" / "report.html").exists()


NUMBERED_TURNS = """
id = "numbered"
title = "Numbered turns"
domain = "it_operations"
language = "en"
summary = "Queries with their number."
""" + "".join(
    f"""
[[turns]]
turn = {number}
topic = "setup"
query = "This is turn {number}. The lead is Mara. Who is the lead?"
expect = ["Mara"]
"""
    for number in range(1, TURNS + 1)
)


@pytest.mark.parametrize(
    ("tree", "error"),
    [
        ("ending_tree", "the process of the agent ended with status 9"),
        ("blocking_tree", "no answer within 5.0 s, and the agent blocked its process"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_agent_tree_fails_only_its_own_turn(
    tree: str, error: str, workers: str, tmp_path: Path
) -> None:
    """An agent tree shares the process of its episode, here with another tree."""
    scenario = tmp_path / "numbered.toml"
    scenario.write_text(NUMBERED_TURNS)
    episode = ("--scenario", str(scenario), "--episodes", "1")
    options = ("--workers", workers, "--timeout", "5")
    both = f"{tree},good=python:odd_agents:good_tree"
    completed, rows = run(both, tmp_path / "run", *options, episodes=episode)
    assert completed.returncode == 0, completed.stderr
    failed = {(row["agent"], row["turn"]): row["error"] for row in rows if row["error"]}
    assert failed == {("odd", 2): error}
    assert len(rows) == 3 * TURNS
    assert (tmp_path / "run" / "summary.json").exists()
