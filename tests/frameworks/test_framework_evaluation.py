"""References to agents of other frameworks in `acc eval`, `run`, `check` and `serve`."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from forked_command import run_command
from test_framework_agents import FRAMEWORKS, is_installed

from acc.testing.providers import ProviderServer, say

HERE = Path(__file__).parent
REFERENCES = {
    "langgraph": "langgraph:scripted_langgraph:graph",
    "pydantic_ai": "pydantic-ai:scripted_pydantic_ai:agent",
    "openai_agents": "openai-agents:scripted_openai_agents:agent",
    "google_adk": "google-adk:scripted_google_adk:agent",
    "agent_framework": "agent-framework:scripted_agent_framework:agent",
}
INSTALLED = [name for name in REFERENCES if is_installed(FRAMEWORKS[name])]


def acc(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of acc with the scripted agents importable."""
    env = {**os.environ, "PYTHONPATH": str(HERE)}
    return run_command(*arguments, cwd=folder, env=env, timeout=300)


def test_agents_of_all_frameworks_are_evaluated_by_reference(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "def answer(message, session_id, history):\n"
        "    return f'{len(history)} earlier messages in {session_id}'\n",
        encoding="utf-8",
    )
    agents = [f"{name}={REFERENCES[name]}" for name in INSTALLED]
    with ProviderServer() as server:
        server.script += [say(f"Answer {number}.") for number in range(4)]
        agents.append(f"model=openai:{server.url}#small")
        done = acc(
            "eval",
            *("--agents", ",".join([*agents, "plain=python:plain:answer", "acc"])),
            *("--scenario", "it-operations", "--episodes", "1", "--turns", "4", "--out", "run"),
            folder=tmp_path,
        )
    assert done.returncode == 0, done.stderr + done.stdout
    records = (tmp_path / "run" / "records.jsonl").read_text(encoding="utf-8")
    sizes: dict[str, list[int | None]] = {}
    for record in map(json.loads, records.splitlines()):
        assert not record["error"], record
        sizes.setdefault(record["agent"], []).append(record["memory_tokens"])
    for name in (*INSTALLED, "model"):
        measured = [size for size in sizes[name] if size is not None]
        assert len(measured) == 4
        assert measured[0] < measured[-1]
    assert sizes["plain"] == [None] * 4


@pytest.mark.parametrize("name", INSTALLED)
def test_run_and_check_accept_the_reference(name: str, tmp_path: Path) -> None:
    done = acc("run", REFERENCES[name], "hello", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "answer 1 to: hello" in done.stdout
    checked = acc("check", REFERENCES[name], folder=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", INSTALLED)
def test_framework_is_recognised_without_its_name(name: str, tmp_path: Path) -> None:
    reference = REFERENCES[name].partition(":")[2]
    assert "answer 1" in acc("run", reference, "hello", folder=tmp_path).stdout


def test_object_of_another_kind_is_refused(tmp_path: Path) -> None:
    done = acc("run", "pydantic-ai:scripted_pydantic_ai:FunctionModel", "hello", folder=tmp_path)
    assert done.returncode == 2
    assert "needs an agent of pydantic-ai" in done.stderr
