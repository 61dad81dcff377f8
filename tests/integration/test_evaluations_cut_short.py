"""Evaluations that are killed or ended while a model is asked, and go on where they were."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acc.testing.providers import ProviderServer, say

ANSWER = "The rollback window is 30 minutes."


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(record=False) as running:
        # Slow from the second turn on, so that there is time to end it there.
        running.script = [*[say(ANSWER)] * 4, *[say(ANSWER, delay=3)] * 100]
        yield running


def command(server: ProviderServer, run: Path) -> list[str]:
    model = f"openai-compatible:m@{server.url}"
    options = ["--scenario", "it-operations", "--episodes", "2", "--turns", "5", "--workers", "2"]
    options += ["--agents", "baseline,acc", "--model", model, "--out", str(run), "--quiet"]
    return [sys.executable, "-m", "acc", "eval", *options]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run_to_its_end(server: ProviderServer, run: Path) -> dict[str, bytes]:
    """Return the records of a run that nobody disturbs any more."""
    done = subprocess.run(  # noqa: S603 - our own command
        command(server, run), env=environment(), timeout=120, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in (run / "episodes").iterdir()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_with_workers_that_is_ended_during_a_call_goes_on_to_the_same_bytes(
    server: ProviderServer, tmp_path: Path, number: signal.Signals
) -> None:
    cut = tmp_path / "cut"
    process = subprocess.Popen(  # noqa: S603 - our own command
        command(server, cut), env=environment(), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    # Turns are behind them, and both workers wait for answers.
    while server.count < 6 or server.open_requests < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    while server.open_requests:
        time.sleep(0.01)
    time.sleep(0.5)
    server.script = [say(ANSWER)] * 1000
    if number == signal.SIGTERM:
        assert process.returncode == 130
        assert "repeat the command to continue" in errors
        assert (cut / "report.html").exists()
    for path in (cut / "episodes").iterdir():
        for line in path.read_text().splitlines():
            assert [agent.get("error", "") for agent in json.loads(line)["agents"]] == ["", ""]
    assert run_to_its_end(server, cut) == run_to_its_end(server, tmp_path / "whole")


def test_a_run_whose_judge_stands_in_a_long_line_tells_so_and_can_be_stopped(
    tmp_path: Path,
) -> None:
    with ProviderServer() as server:
        # One call of each worker goes out at once, and the next in almost an hour.
        judge = f"model:openai-compatible:j@{server.url}?requests_per_minute=0.02"
        options = ["--scenario", "it-operations", "--episodes", "3", "--workers", "3"]
        options += ["--agents", "baseline,acc", "--judge", judge, "--out", str(tmp_path / "run")]
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "acc", "eval", *options],
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stderr is not None
            told = next(line for line in process.stderr if "rate limit of" in line)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            took = time.monotonic() - began
    assert re.search(r"rate limit of .*: a call waits (29\d\d|3000) s", told)
    assert process.returncode == 130
    assert "repeat the command to continue" in errors
    assert took < 14  # and not five seconds for each worker
