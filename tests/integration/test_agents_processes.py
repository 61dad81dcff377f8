"""Agents in processes that end, are killed, or work on the same session at the same time."""

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


class Shop:
    """Starts processes that share a file and a ledger, and ends those it started."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "acc.db"
        self.ledger = folder / "ledger.txt"
        self._started: list[subprocess.Popen[str]] = []

    @property
    def paid(self) -> list[str]:
        return self.ledger.read_text().split() if self.ledger.exists() else []

    def start(self, order: str, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, str(SCRIPT), str(self.file), str(self.ledger), order, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def told(self, order: str, *words: str) -> list[dict[str, Any]]:
        """Return all that a process reports until it ends by itself."""
        process = self.start(order, *words)
        out, _ = process.communicate("\n", timeout=60)
        assert process.returncode == 0
        return [found for line in out.splitlines() if "at" not in (found := json.loads(line))]

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def next_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def kill(process: subprocess.Popen[str]) -> str:
    """Kill a process in the middle of what it does, and return what else it had told."""
    os.kill(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read()
    process.wait()
    return rest


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.close()


async def check_record(shop: Shop) -> list[RunStatus | None]:
    """Check that the numbers have no gap and every run one end; return how they ended."""
    runner = Runner(Agent(name="a", model=ScriptedModel()), store=shop.file)
    events = await runner.events(**IDS)
    await runner.aclose()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    ends = [e for e in events if e.kind is EventKind.ENDED]
    over = [e.run_id for e in ends if e.status is not RunStatus.INPUT_REQUIRED]
    assert sorted(over) == sorted({event.run_id for event in events})
    return [event.status for event in ends]


async def test_a_run_that_waits_is_resumed_in_another_process(shop: Shop) -> None:
    (waiting,) = shop.told("say", "pay the rent")
    assert (waiting["status"], waiting["state"], shop.paid) == ("input_required", {"count": 1}, [])
    (done,) = shop.told("resume", *waiting["requests"])
    assert (done["status"], done["text"]) == ("completed", 'it went like this: "paid 5"')
    assert (done["state"], shop.paid) == ({"count": 1}, ["5"])
    (after,) = shop.told("say", "hello")
    assert (after["text"], after["state"]) == ("you said hello", {"count": 2})
    assert await check_record(shop) == [
        RunStatus.INPUT_REQUIRED,
        RunStatus.COMPLETED,
        RunStatus.COMPLETED,
    ]


async def test_of_two_processes_that_resume_at_once_only_one_does(shop: Shop) -> None:
    (waiting,) = shop.told("say", "pay the rent")
    both = [shop.start("resume", *waiting["requests"]) for _ in range(2)]
    for process in both:
        assert next_line(process) == {"at": "ready"}
    for process in both:
        go(process)
    told = [next_line(process) for process in both]
    assert sorted(str(found.get("error") or found["status"]) for found in told) == [
        "completed",
        "nothing_pending",
    ]
    assert shop.paid == ["5"]
    await check_record(shop)


async def test_a_process_killed_in_the_approved_tool_does_not_lead_to_a_second_call(
    shop: Shop,
) -> None:
    (waiting,) = shop.told("say", "pay the rent")
    process = shop.start("resume", *waiting["requests"], "hang")
    assert next_line(process) == {"at": "ready"}
    go(process)
    assert next_line(process) == {"at": "paying"}
    kill(process)
    assert shop.paid == ["5"]
    assert shop.told("say", "hello") == [{"error": "session_waiting"}]
    (done,) = shop.told("resume")
    assert (done["status"], shop.paid) == ("completed", ["5"])
    assert "how it ended is not known" in done["text"]
    (after,) = shop.told("say", "hello")
    assert (after["text"], after["state"]) == ("you said hello", {"count": 2})
    await check_record(shop)


async def test_what_a_killed_process_had_streamed_is_stored_and_the_next_run_closes_it(
    shop: Shop,
) -> None:
    shop.told("say", "hello")
    process = shop.start("stream", "ponder this")
    seen: list[dict[str, Any]] = []
    while "at" not in (found := next_line(process)):
        seen.append(found)
    seen += [found for line in kill(process).splitlines() if "seq" in (found := json.loads(line))]
    assert {"tool_calls", "state"} & {found["kind"] for found in seen}
    runner = Runner(Agent(name="a", model=ScriptedModel("welcome back")), store=shop.file)
    stored = {event.seq: event for event in await runner.events(**IDS)}
    for found in seen:
        event = stored[found["seq"]]
        assert (event.kind, event.text) == (found["kind"], found["text"])
    assert (await runner.run(**IDS, message="are you there?")).text == "welcome back"
    await runner.aclose()
    assert await check_record(shop) == [
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.COMPLETED,
    ]


async def test_processes_that_share_a_session_take_turns_and_lose_nothing(shop: Shop) -> None:
    words = [f"hello {n}" for n in range(15)]
    both = [shop.start("say", *words) for _ in range(2)]
    counts: list[int] = []
    for process in both:
        out, _ = process.communicate(timeout=60)
        told = [json.loads(line) for line in out.splitlines()]
        assert [found["text"] for found in told] == [f"you said {word}" for word in words]
        counts += [found["state"]["count"] for found in told]
    assert sorted(counts) == list(range(1, 31))
    assert len(await check_record(shop)) == 30


async def test_a_memory_is_the_same_whether_or_not_the_process_ended_between(
    tmp_path: Path,
) -> None:
    chat = (
        "My name is Bo. Never book a night train.",
        "The budget is 300 euro.",
        "What do I want?",
    )
    folders = [tmp_path / "straight", tmp_path / "ended"]
    for folder in folders:
        folder.mkdir()
    straight, ended = map(Shop, folders)
    found = [straight.told("chat", *chat), [t for text in chat for t in ended.told("chat", text)]]
    by_memory = [sorted(told, key=lambda t: str(t["memory"])) for told in found]
    assert by_memory[0] == by_memory[1]
    assert len(by_memory[0]) == 9
    assert any("Bo" in told["shown"] for told in by_memory[0])
