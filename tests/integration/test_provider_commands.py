"""Commands with a provider's model."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_command import run_command

from acc.testing.providers import ProviderServer, fail, say, use

KEY = "canary-6f1d2c9b8a7e5d4c3b2a1908"
SMALL = ("--scenario", "it-operations", "--turns", "2", "--episodes", "2", "--workers", "2")
AGENT = """
from acc import Agent

def window(service: str) -> str:
    '''Return how long a change may be undone.'''
    return f"{service}: 30 minutes"

root = Agent(name="root", model="env:ACC_AGENT_MODEL", tools=[window])
"""


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as running:
        yield running


def acc(
    *arguments: str | Path, cwd: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    return run_command(*arguments, cwd=cwd, env={**inherited, "NO_COLOR": "1", **environment})


def test_repeated_cached_evaluation_makes_no_call_and_needs_no_key(
    server: ProviderServer, tmp_path: Path
) -> None:
    arguments = (*SMALL, "--model", "openai:gpt-5.2", "--cache", tmp_path / "cache", "--json")
    first = acc(
        "eval",
        *arguments,
        "--out",
        tmp_path / "one",
        cwd=tmp_path,
        environment=server.environment(KEY),
    )
    assert first.returncode == 0, first.stderr
    assert server.count == 2 * 2 * 4
    again = acc("eval", *arguments, "--out", tmp_path / "two", cwd=tmp_path, environment={})
    assert again.returncode == 0, again.stderr
    assert server.count == 2 * 2 * 4
    one, two = json.loads(first.stdout), json.loads(again.stdout)
    assert one["configuration"]["model"] == "openai:gpt-5.2"
    assert one["agents"] == two["agents"]
    episodes = sorted((tmp_path / "one" / "episodes").iterdir())
    for path in episodes:
        assert path.read_bytes() == (tmp_path / "two" / "episodes" / path.name).read_bytes()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
    assert "openai:gpt-5.2" in (tmp_path / "one" / "report.html").read_text()


@pytest.mark.parametrize("how", [("--compressor",), ("--agents",)])
def test_eval_is_rejected_if_the_compressor_has_no_key(
    how: tuple[str, ...], tmp_path: Path
) -> None:
    name = "anthropic:claude-opus-4-8"
    specification = name if how == ("--compressor",) else f"mine=acc:{name}"
    completed = acc("eval", *SMALL, *how, specification, cwd=tmp_path, environment={})
    assert completed.returncode == 2
    assert "ANTHROPIC_API_KEY" in completed.stderr
    assert list(tmp_path.iterdir()) == []


def test_eval_is_rejected_if_the_cache_cannot_be_written(
    server: ProviderServer, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    arguments = ("eval", *SMALL, "--model", "openai:gpt-5.2", "--cache", "file")
    completed = acc(*arguments, cwd=tmp_path, environment=server.environment(KEY))
    assert completed.returncode == 2
    assert "the cache of model responses file cannot be written: " in completed.stderr
    assert server.count == 0
    assert not (tmp_path / "runs").exists()


def test_eval_is_rejected_if_the_model_has_no_key(tmp_path: Path) -> None:
    completed = acc(
        "eval", *SMALL, "--model", "anthropic:claude-opus-4-8", cwd=tmp_path, environment={}
    )
    assert completed.returncode != 0
    assert "set the environment variable ANTHROPIC_API_KEY" in completed.stderr
    assert not (tmp_path / "runs").exists()
    wrong = acc("eval", *SMALL, "--model", "gpt-5", cwd=tmp_path, environment={})
    assert "no model 'gpt-5'" in wrong.stderr


def test_turn_fails_if_its_model_fails(server: ProviderServer, tmp_path: Path) -> None:
    server.script = [fail(400, f"bad question, key {KEY}")] * 40
    completed = acc(
        "eval",
        *SMALL,
        "--agents",
        "acc",
        "--model",
        "openai:gpt-5.2",
        "--json",
        cwd=tmp_path,
        environment=server.environment(KEY),
    )
    summary = json.loads(completed.stdout)
    assert summary["agents"]["acc"]["failed"] == 4
    assert KEY not in completed.stdout + completed.stderr


def test_run_uses_the_model_of_the_environment(server: ProviderServer, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(AGENT)
    server.script = [use("window", service="nginx"), say("30 minutes")]
    environment = {**server.environment(KEY), "ACC_AGENT_MODEL": "google:gemini-3-pro-preview"}
    completed = acc("run", "shop.py:root", "How long?", cwd=tmp_path, environment=environment)
    assert completed.returncode == 0, completed.stderr
    assert "30 minutes" in completed.stdout
    assert [request.api for request in server.requests] == ["google", "google"]
    rejected = acc(
        "serve",
        "shop:root",
        "--port",
        "0",
        cwd=tmp_path,
        environment={"ACC_AGENT_MODEL": "openai:gpt-5.2"},
    )
    assert rejected.returncode != 0
    assert "OPENAI_API_KEY" in rejected.stderr


@pytest.mark.parametrize("memory", ["acc", "acc:openai:gpt-5.2"])
def test_run_is_rejected_if_the_memory_has_no_key(tmp_path: Path, memory: str) -> None:
    code = f"from acc import Agent\nroot = Agent(name='root', model='embedded', memory={memory!r})"
    (tmp_path / "desk.py").write_text(code)
    environment = {"ACC_COMPRESSOR_MODEL": "openai:gpt-5.2"} if memory == "acc" else {}
    completed = acc("run", "desk:root", "Hello.", cwd=tmp_path, environment=environment)
    assert completed.returncode == 2
    assert "agent 'root': compressor: " in completed.stderr
    assert "OPENAI_API_KEY" in completed.stderr
    rules = acc(
        "run", "desk:root", "Hello.", cwd=tmp_path, environment={"ACC_COMPRESSOR_MODEL": "rules"}
    )
    assert rules.returncode == (0 if memory == "acc" else 2)


def test_run_reports_a_memory_that_was_written_by_rules(
    server: ProviderServer, tmp_path: Path
) -> None:
    server.script = [fail(401, "no")] * 4
    name = f"acc:openai-compatible:m@{server.url}"
    code = f"from acc import Agent\nroot = Agent(name='root', model='embedded', memory={name!r})"
    (tmp_path / "desk.py").write_text(code)
    completed = acc("run", "desk:root", "Hello.", cwd=tmp_path, environment={})
    assert completed.returncode == 0
    assert (
        "root: the embedded reader was used, because the model that reads for the memory failed: "
        in completed.stderr
    )
    assert "a key is required: set OPENAI_COMPATIBLE_API_KEY (401)" in completed.stderr
