"""Evaluations that are killed or stopped during a model call, and resumed."""

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

from acc.testing.providers import ProviderServer, Reply, say

ANSWER = "The rollback window is 30 minutes."


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(record=False) as running:
        # Slow from the second turn on, so that the run can be stopped there.
        running.script = [*[say(ANSWER)] * 4, *[Reply(text=ANSWER, delay=3)] * 100]
        yield running


def command(server: ProviderServer, run: Path) -> list[str]:
    model = f"openai-compatible:m@{server.url}"
    options = ["--scenario", "it-operations", "--episodes", "2", "--turns", "5", "--workers", "2"]
    options += ["--agents", "baseline,acc", "--model", model, "--out", str(run), "--quiet"]
    return [sys.executable, "-m", "acc", "eval", *options]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def complete_run(server: ProviderServer, run: Path) -> dict[str, bytes]:
    """Complete a run and return its records."""
    completed = subprocess.run(  # noqa: S603 - our own command
        command(server, run), env=environment(), timeout=120, capture_output=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return {path.name: path.read_bytes() for path in (run / "episodes").iterdir()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_run_stopped_during_call_resumes_to_identical_records(
    server: ProviderServer, tmp_path: Path, number: signal.Signals
) -> None:
    interrupted = tmp_path / "cut"
    process = subprocess.Popen(  # noqa: S603 - our own command
        command(server, interrupted), env=environment(), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    # Some turns are complete, and both workers wait for responses.
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
        assert (interrupted / "report.html").exists()
    for path in (interrupted / "episodes").iterdir():
        for line in path.read_text().splitlines():
            assert [agent.get("error", "") for agent in json.loads(line)["agents"]] == ["", ""]
    assert complete_run(server, interrupted) == complete_run(server, tmp_path / "whole")


def test_run_waiting_for_rate_limit_logs_it_and_can_be_stopped(
    tmp_path: Path,
) -> None:
    with ProviderServer() as server:
        # Each worker makes one call at once. The rate limit delays the next one by almost an hour.
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
            log_line = next(line for line in process.stderr if "rate limit of" in line)
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            elapsed = time.monotonic() - began
    assert re.search(r"rate limit of .*: a call waits (29\d\d|3000) s", log_line)
    assert process.returncode == 130
    assert "repeat the command to continue" in errors
    assert elapsed < 14  # the shutdown must not take five seconds for each worker
