"""`acc replay`: recorded answers, another model, another memory."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from acc import Agent, Runner, ToolCall, approve, tool
from acc.cli import execute
from acc.testing import ScriptedModel

SOURCE = '''
from acc import Agent, tool
from acc.testing import ScriptedModel

@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    raise RuntimeError("a replay must not call tools")

root = Agent(name="clerk", model=ScriptedModel(), tools=[pay], memory="acc")
'''


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount}円を支払いました"


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[str, str, str]:
    """Return a module, a store with a session of two turns, and the id of the second run."""
    module, store = tmp_path / "clerk.py", str(tmp_path / "sessions.db")
    module.write_text(SOURCE, encoding="utf-8")

    async def record() -> str:
        model = ScriptedModel(
            "承知しました。", ToolCall(id="c1", name="pay", arguments={"amount": 5}), "完了です。"
        )
        agent = Agent(name="clerk", model=model, tools=[pay], memory="acc")
        runner = Runner(agent, store=store)
        await runner.run("支払いは必ず円で行ってください。", session_id="s1")
        paused = await runner.run("5円払って", session_id="s1")
        done = await runner.resume(approve(paused.requests[0]), session_id="s1")
        await runner.aclose()
        return done.run_id

    return f"{module}:root", store, asyncio.run(record())


def replay(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert execute(["replay", *arguments, "--json"]) == 0
    turns: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["turns"]
    return turns


def test_replay_with_recorded_answers_has_no_difference(
    recorded: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    agent, store, _ = recorded
    turns = replay(capsys, agent, "s1", "--store", store)
    assert [turn["turn"] for turn in turns] == [1, 2]
    assert [turn["changed"] for turn in turns] == [[], []]
    assert turns[1]["replayed"]["calls"] == ['pay({"amount":5})']
    assert turns[1]["replayed"]["answer"] == "完了です。"
    assert execute(["replay", agent, "s1", "--store", store, "--fail-on-change"]) == 0


def test_replay_with_another_memory_shows_the_difference(
    recorded: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    agent, store, _ = recorded
    turns = replay(capsys, agent, "s1", "--store", store, "--memory", "transcript")
    assert "memory" in turns[1]["changed"]
    assert turns[1]["recorded"]["memory_tokens"] is not None
    assert "memory_tokens" not in turns[1]["replayed"]
    arguments = ["replay", agent, "s1", "--store", store, "--memory", "transcript"]
    assert execute([*arguments, "--fail-on-change"]) == 1
    assert "必ず円で" in capsys.readouterr().out


def test_replay_of_a_run_calls_another_model_in_that_run_only(
    recorded: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    agent, store, run_id = recorded
    (turn,) = replay(capsys, agent, run_id, "--store", store, "--model", "embedded")
    assert turn["run_id"] == run_id
    assert turn["recorded"]["answer"] == "完了です。"
    assert turn["replayed"]["status"] == "completed"
    assert "answer" in turn["changed"]


def test_replay_reports_an_unknown_memory(
    recorded: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    agent, store, _ = recorded
    assert execute(["replay", agent, "s1", "--store", store, "--memory", "elephant"]) == 2
    assert "elephant" in capsys.readouterr().err
