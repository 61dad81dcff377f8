"""Outages of a model provider during an evaluation: no turn is lost."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from acc.testing.providers import ProviderRequest, ProviderServer, Reply, fail, say

MODEL = "openai:gpt-5.2?attempts=1"
SMALL = ("--scenario", "it-operations", "--turns", "6", "--episodes", "1", "--model", MODEL)


def evaluate(
    server: ProviderServer,
    out: Path,
    *options: str,
    agents: str = "baseline,acc",
    size: tuple[str, ...] = SMALL,
) -> subprocess.CompletedProcess[str]:
    words = ["eval", *size, "--agents", agents, "--out", str(out), *options]
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **server.environment()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def statuses(out: Path) -> list[str]:
    lines = (out / "records.jsonl").read_text().splitlines()
    return [json.loads(line)["status"] for line in lines]


class Outage:
    """Replies with 503 for some seconds from a request on, or without an end."""

    def __init__(self, *, after: int, seconds: float) -> None:
        self._left = after
        self._seconds = seconds
        self._end: float | None = None
        self.refused = 0

    def __call__(self, request: ProviderRequest) -> Reply:
        if self._left > 0:
            self._left -= 1
            return say("The lead is noted.")
        if self._end is None:
            self._end = time.monotonic() + self._seconds
        if time.monotonic() < self._end:
            self.refused += 1
            return fail(503)
        return say("The lead is noted.")


def test_turns_of_a_short_outage_are_answered_later(tmp_path: Path) -> None:
    outage = Outage(after=4, seconds=4)
    with ProviderServer(*[outage] * 200) as server:
        done = evaluate(server, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert outage.refused > 0
    assert statuses(tmp_path / "run") == ["scored"] * 12


def test_run_of_a_long_outage_ends_and_is_continued_by_the_same_command(tmp_path: Path) -> None:
    outage = Outage(after=4, seconds=3600)
    with ProviderServer(*[outage] * 200) as server:
        done = evaluate(server, tmp_path / "run", "--outage-wait", "1")
    assert done.returncode == 1
    assert "repeat the command to continue" in done.stderr
    assert set(statuses(tmp_path / "run")) == {"scored"}
    recorded = len(statuses(tmp_path / "run"))
    assert 0 < recorded < 12
    with ProviderServer() as server:
        done = evaluate(server, tmp_path / "run", "--outage-wait", "1")
    assert done.returncode == 0, done.stderr
    assert statuses(tmp_path / "run") == ["scored"] * 12
    first = json.loads((tmp_path / "run" / "records.jsonl").read_text().splitlines()[0])
    assert first["turn"] == 1


def test_concurrent_calls_are_limited(tmp_path: Path) -> None:

    agents = ",".join(f"a{number}=baseline" for number in range(6))
    for limit, most in (("2", 2), ("6", 6)):
        with ProviderServer() as server:
            done = evaluate(server, tmp_path / limit, "--max-connections", limit, agents=agents)
            assert done.returncode == 0, done.stderr
            assert server.max_open_requests <= most
    assert evaluate(server, tmp_path / "none", "--max-connections", "0").returncode == 2
    assert evaluate(server, tmp_path / "none", "--outage-wait", "-1").returncode == 2


def test_workers_share_the_limits_of_a_model(tmp_path: Path) -> None:
    agents = ",".join(f"a{number}=baseline" for number in range(4))
    size = ("--scenario", "it-operations", "--turns", "2", "--episodes", "3", "--workers", "3")
    for most in (3, 2):
        with ProviderServer(*[Reply(text="Noted.", delay=0.05)] * 100) as server:
            model = f"{MODEL}&concurrency={most}"
            out = tmp_path / str(most)
            done = evaluate(server, out, "--model", model, agents=agents, size=size)
            assert done.returncode == 0, done.stderr
            assert server.count == 4 * 3 * 2
            assert server.max_open_requests <= most
