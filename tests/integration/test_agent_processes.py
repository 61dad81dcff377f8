"""Runs in several processes: paused, killed, or on the same session at the same time."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acc import Agent, Runner, RunStatus
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel

IDS: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}
SCRIPT = Path(__file__).with_name("agent_process.py")


class AgentProcesses:
    """Starts processes that share a store and a ledger, and stops them at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "acc.db"
        self.ledger = folder / "ledger.txt"
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def payments(self) -> list[str]:
        return self.ledger.read_text().split() if self.ledger.exists() else []

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, str(SCRIPT), str(self.store), str(self.ledger), command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def run(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        """Return the results of a process that ends by itself."""
        process = self.start(command, *arguments)
        out, _ = process.communicate("\n", timeout=60)
        assert process.returncode == 0
        return [line for text in out.splitlines() if "at" not in (line := json.loads(text))]

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


def read_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


def send_line(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def kill(process: subprocess.Popen[str]) -> str:
    """Kill a process and return the rest of its output."""
    os.kill(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read()
    process.wait()
    return rest


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[AgentProcesses]:
    started = AgentProcesses(tmp_path)
    yield started
    started.close()


async def stored_ends(store: Path) -> list[RunStatus | None]:
    """Check that event numbers have no gap and every run has one end; return the ends."""
    runner = Runner(Agent(name="a", model=ScriptedModel()), store=store)
    events = await runner.events(**IDS)
    await runner.aclose()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    ends = [event for event in events if event.kind is EventKind.ENDED]
    ended_runs = [event.run_id for event in ends if event.status is not RunStatus.INPUT_REQUIRED]
    assert sorted(ended_runs) == sorted({event.run_id for event in events})
    return [event.status for event in ends]


async def test_paused_run_is_resumed_in_another_process(processes: AgentProcesses) -> None:
    (paused,) = processes.run("send", "pay the rent")
    assert (paused["status"], paused["state"]) == ("input_required", {"count": 1})
    assert processes.payments == []
    (done,) = processes.run("resume", *paused["requests"])
    assert (done["status"], done["text"]) == ("completed", 'result: "paid 5"')
    assert (done["state"], processes.payments) == ({"count": 1}, ["5"])
    (after,) = processes.run("send", "hello")
    assert (after["text"], after["state"]) == ("you said hello", {"count": 2})
    assert await stored_ends(processes.store) == [
        RunStatus.INPUT_REQUIRED,
        RunStatus.COMPLETED,
        RunStatus.COMPLETED,
    ]


async def test_only_one_of_two_processes_resumes_a_run(processes: AgentProcesses) -> None:
    (paused,) = processes.run("send", "pay the rent")
    both = [processes.start("resume", *paused["requests"]) for _ in range(2)]
    for process in both:
        assert read_line(process) == {"at": "ready"}
    for process in both:
        send_line(process)
    results = [read_line(process) for process in both]
    assert sorted(str(result.get("error") or result["status"]) for result in results) == [
        "completed",
        "nothing_pending",
    ]
    assert processes.payments == ["5"]
    await stored_ends(processes.store)


async def test_approved_tool_is_not_called_again_after_a_kill(processes: AgentProcesses) -> None:
    (paused,) = processes.run("send", "pay the rent")
    process = processes.start("resume", *paused["requests"], "hang")
    assert read_line(process) == {"at": "ready"}
    send_line(process)
    assert read_line(process) == {"at": "paying"}
    kill(process)
    assert processes.payments == ["5"]
    assert processes.run("send", "hello") == [{"error": "session_waiting"}]
    (done,) = processes.run("resume")
    assert (done["status"], processes.payments) == ("completed", ["5"])
    assert "its outcome is unknown" in done["text"]
    (after,) = processes.run("send", "hello")
    assert (after["text"], after["state"]) == ("you said hello", {"count": 2})
    await stored_ends(processes.store)


async def test_streamed_events_of_a_killed_process_are_stored(processes: AgentProcesses) -> None:
    processes.run("send", "hello")
    process = processes.start("stream", "block now")
    streamed: list[dict[str, Any]] = []
    while "at" not in (line := read_line(process)):
        streamed.append(line)
    rest = map(json.loads, kill(process).splitlines())
    streamed += [line for line in rest if "seq" in line]
    assert {"tool_calls", "state"} & {line["kind"] for line in streamed}
    runner = Runner(Agent(name="a", model=ScriptedModel("welcome back")), store=processes.store)
    stored = {event.seq: event for event in await runner.events(**IDS)}
    for line in streamed:
        event = stored[line["seq"]]
        assert (event.kind, event.text) == (line["kind"], line["text"])
    assert (await runner.run(**IDS, message="are you there?")).text == "welcome back"
    await runner.aclose()
    assert await stored_ends(processes.store) == [
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.COMPLETED,
    ]


async def test_runs_of_one_session_are_serialised_across_processes(
    processes: AgentProcesses,
) -> None:
    messages = [f"hello {n}" for n in range(15)]
    both = [processes.start("send", *messages) for _ in range(2)]
    counts: list[int] = []
    for process in both:
        out, _ = process.communicate(timeout=60)
        results = [json.loads(line) for line in out.splitlines()]
        assert [result["text"] for result in results] == [f"you said {m}" for m in messages]
        counts += [result["state"]["count"] for result in results]
    assert sorted(counts) == list(range(1, 31))
    assert len(await stored_ends(processes.store)) == 30


async def test_memory_is_the_same_after_a_restart_between_turns(tmp_path: Path) -> None:
    messages = (
        "My name is Bo. Never book a night train.",
        "The budget is 300 euro.",
        "What do I want?",
    )
    for name in ("one_process", "restarted"):
        (tmp_path / name).mkdir()
    one_process, restarted = (
        AgentProcesses(tmp_path / "one_process"),
        AgentProcesses(tmp_path / "restarted"),
    )
    expected = one_process.run("remember", *messages)
    actual = [line for message in messages for line in restarted.run("remember", message)]
    assert sorted(actual, key=lambda line: str(line["memory"])) == sorted(
        expected, key=lambda line: str(line["memory"])
    )
    assert len(expected) == 9
    for memory in ("transcript", "acc"):
        assert any("Bo" in str(line["earlier"]) for line in expected if line["memory"] == memory)
